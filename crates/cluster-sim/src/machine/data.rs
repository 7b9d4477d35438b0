//! Copies of all keys, or of some slots, as they are sent to other nodes.

use super::{Commits, Machine};
use crate::names::parse;
use crate::workload::used_slots;
use petrel_cluster::{SlotSet, slot_of};
use petrel_keyspace::SinkSource;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};
use petrel_resp::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Machine {
    /// A copy of all keys, and its position in each slot's order.
    pub fn copy(&mut self) -> (Vec<u8>, BTreeMap<u16, u64>) {
        let positions = self.commits.lock().map(|commits| commits.positions.clone());
        let positions = positions.unwrap_or_default();
        (self.dump(|_| true), positions)
    }

    /// A copy of some slots, preceded by its position in each slot's order.
    pub fn copy_slots(&mut self, slots: &SlotSet) -> Vec<u8> {
        let mut out = Vec::new();
        let used: Vec<u16> = used_slots().filter(|&slot| slots.contains(slot)).collect();
        put(&mut out, used.len() as u64);
        for slot in used {
            put(&mut out, slot.into());
            put(&mut out, self.position(slot));
        }
        out.extend(self.dump(|slot| slots.contains(slot)));
        out
    }

    /// Loads imported slots.
    pub fn load_slots(&mut self, sinks: Arc<dyn SinkSource>) {
        let copied = std::mem::take(&mut self.copied);
        let mut bytes = Bytes(&copied);
        let mut positions = Vec::new();
        for _ in 0..bytes.number().unwrap_or(0) {
            let mut number = || bytes.number().unwrap_or(0);
            positions.push((number() as u16, number()));
        }
        self.set_sinks(None);
        self.load(bytes);
        self.set_sinks(Some(sinks));
        if let Ok(mut commits) = self.commits.lock() {
            commits.positions.extend(positions);
        }
    }

    /// Restarts a slot after its data were lost: copies and their removal are no positions of its
    /// order.
    pub fn restart_slot(&mut self, slot: u16) {
        self.restarted.insert(slot);
    }

    fn dump(&mut self, is_of: impl Fn(u16) -> bool) -> Vec<u8> {
        let mut out = Vec::new();
        for (db, key) in self.keys().into_iter().filter(|(_, key)| is_of(slot_of(key))) {
            let now_ms = std::mem::replace(&mut self.now_ms, 0);
            let dumped = parse(&self.run(db, false, &[vec![b"DUMP", &key]]));
            let expiry = parse(&self.run(db, false, &[vec![b"PEXPIRETIME", &key]]));
            self.now_ms = now_ms;
            let expiry = if let Value::Integer(at) = expiry { at.max(0) } else { 0 };
            put(&mut out, db.into());
            put_bytes(&mut out, &key);
            put(&mut out, expiry as u64);
            put_bytes(&mut out, dumped.as_bytes().unwrap_or_default());
        }
        out
    }

    /// Loads a received copy with these positions.
    pub fn load_copy(&mut self, positions: BTreeMap<u16, u64>) {
        let copied = std::mem::take(&mut self.copied);
        self.load(Bytes(&copied));
        if let Ok(mut commits) = self.commits.lock() {
            *commits = Commits { positions, ..Commits::default() };
        }
    }

    fn load(&mut self, mut bytes: Bytes<'_>) {
        let now_ms = std::mem::replace(&mut self.now_ms, 0);
        while !bytes.0.is_empty() {
            let mut next = || -> Result<_, Malformed> {
                Ok((bytes.number()?, bytes.bytes()?, bytes.number()?, bytes.bytes()?))
            };
            let Ok((db, key, expiry, dumped)) = next() else {
                self.witness.borrow_mut().violation("a copy is not what was sent".into());
                break;
            };
            let expiry = expiry.to_string();
            let restore: Vec<&[u8]> =
                vec![b"RESTORE", key, expiry.as_bytes(), dumped, b"ABSTTL", b"REPLACE"];
            let reply = self.run(db as u16, false, &[restore]);
            if reply != b"+OK\r\n" {
                let text = format!("a key of a copy is refused: {}", reply.escape_ascii());
                self.witness.borrow_mut().violation(text);
            }
        }
        self.now_ms = now_ms;
    }
}
