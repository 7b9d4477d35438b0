//! Transactions of several primaries: a scratch keyspace for their execution, and their parts.

use super::Machine;
use crate::content::{Content, Family};
use crate::names::{DbKey, FLUSH, parse, slots_of};
use petrel_cluster::node::GroupError;
use petrel_cluster::wire::Tag;
use petrel_cluster::{Apart, Call, Collector, FROM_PEERS};
use petrel_commands::{Executor, FAMILIES, Registry, Session, Shared};
use petrel_keyspace::{Keyspace, Options, Origin, SinkSource};
use petrel_persistence::effects::{apply_group, apply_groups, visit_keys};
use petrel_resp::{RespWriter, Value};
use petrel_table::keys::key_positions;

/// A keyspace with the keys of one transaction.
pub struct Scratch {
    pub exec: Executor,
    changes: Collector,
}

impl Scratch {
    pub fn new(seed: u64) -> Self {
        let keyspace = Keyspace::new(&Options { databases: 4, stripes: 8, seed });
        let changes = Collector::default();
        let mut handle = keyspace.attach();
        handle.set_sink(Some(changes.sink()));
        let mut exec = Executor::new(handle, Shared::new(Registry::new(FAMILIES)));
        exec.seed(seed);
        Scratch { exec, changes }
    }

    /// Executes a command.
    pub fn call(
        &mut self,
        session: &mut Session,
        host: &mut dyn petrel_commands::Host,
        args: &[&[u8]],
    ) -> Vec<u8> {
        let (mut out, mut shared) = (Vec::new(), Vec::new());
        self.exec.begin();
        let mut reply = RespWriter::new(&mut out, &mut shared, session.protocol);
        let request = self.exec.prepare(args, None);
        self.exec.execute(&request, session, host, &mut reply);
        self.exec.end();
        out
    }
}

impl Machine {
    pub(super) fn call_apart(&mut self, session: &mut Session, args: &[&[u8]]) -> Vec<u8> {
        self.scratch.call(session, &mut self.host, args)
    }

    /// The keys of a transaction.
    pub(super) fn keys_of(&mut self, call: &Call<&[u8]>, keys: &mut Vec<DbKey>) -> bool {
        for args in &call.commands {
            if args[0] == FLUSH {
                return false;
            }
            let Some(command) = self.exec.prepare(args, None).command else { continue };
            let mut found = Vec::new();
            if key_positions(command.spec.meta.keys, args, &mut found).is_ok() {
                let names = found.iter().map(|key| args[key.index as usize].to_vec());
                keys.extend(names.map(|key| (call.db, key)));
            }
        }
        true
    }

    /// Executes a transaction on keys that its primaries lend, and checks that they have their last
    /// values.
    pub(super) fn run_apart(
        &mut self,
        tag: Tag,
        call: &Call<&[u8]>,
        lent: &[&[u8]],
    ) -> Option<Apart> {
        self.scratch.exec.ks.set_clock(0);
        let ks = &mut self.scratch.exec.ks;
        ks.enter();
        let all: Vec<DbKey> = (0..4)
            .flat_map(|db| {
                let mut keys = Vec::new();
                ks.scan(db, Default::default(), usize::MAX, |entry| {
                    keys.push((db, entry.key().to_vec()));
                });
                keys
            })
            .collect();
        ks.exit();
        for (db, key) in all {
            let mut session = Session::new(true);
            session.db = db;
            self.call_apart(&mut session, &[b"DEL", &key]);
        }
        let ks = &mut self.scratch.exec.ks;
        let mut hashes = Vec::new();
        for group in lent {
            ks.enter();
            let loaded = apply_group(ks, group, FROM_PEERS, &mut hashes);
            ks.exit();
            if let Err(error) = loaded {
                self.witness.borrow_mut().violation(format!("keys on loan: {error}"));
            }
        }
        self.compare_lent(call);
        let _ = self.scratch.changes.take();
        self.scratch.exec.ks.set_clock(self.now_ms);
        let mut session = Session::new(true);
        session.db = call.db;
        if call.is_transaction {
            self.call_apart(&mut session, &[b"MULTI"]);
        }
        let mut reply = Vec::new();
        for command in &call.commands {
            reply = self.call_apart(&mut session, command);
        }
        if call.is_transaction {
            reply = self.call_apart(&mut session, &[b"EXEC"]);
        }
        let Ok(changes) = self.scratch.changes.take() else {
            self.witness.borrow_mut().violation("changes without a slot".into());
            return None;
        };
        let mut slots = call.slots.clone();
        slots.sort_unstable();
        slots.dedup();
        let seen = slots.iter().map(|&slot| (slot, self.witness.borrow().last(slot))).collect();
        self.witness.borrow_mut().chains.executed(tag, seen, &changes, self.now_ms);
        Some(Apart { reply, changes })
    }

    /// Checks that the scratch keyspace has the last values of a transaction's keys.
    fn compare_lent(&mut self, call: &Call<&[u8]>) {
        let mut keys = Vec::new();
        self.keys_of(call, &mut keys);
        for (db, key) in keys {
            let family = Family::of(&key).unwrap_or(Family::Text);
            let read = family.read(&key);
            let read: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
            let mut session = Session::new(true);
            session.db = db;
            let reply = self.call_apart(&mut session, &read);
            let content = Content::of_reply(family, &parse(&reply));
            let expiry = match parse(&self.call_apart(&mut session, &[b"PEXPIRETIME", &key])) {
                Value::Integer(at) if at >= 0 => Some(at),
                _ => None,
            };
            self.witness.borrow_mut().lent(self.identity, &(db, key), &content, expiry);
        }
    }

    /// Makes this node's part of a decision.
    pub(super) fn make_part(&mut self, tag: Tag, groups: &[&[u8]]) -> Result<(), GroupError> {
        let slot_of_group = |group: &&[u8]| {
            let mut keys = Vec::new();
            let visited = visit_keys(group, |_, key| keys.extend(key.map(<[u8]>::to_vec)));
            visited.ok().and_then(|()| slots_of(keys.iter().map(Vec::as_slice)).first().copied())
        };
        let slots: Vec<u16> = groups.iter().filter_map(slot_of_group).collect();
        debug_assert_eq!(slots.len(), groups.len());
        self.report();
        self.compare_survivors_of(|slot| slots.contains(&slot));
        self.exec.ks.set_clock(self.now_ms);
        self.exec.begin();
        let applied = apply_groups(&mut self.exec.ks, groups, Origin::LOCAL, &mut Vec::new());
        self.exec.end();
        if let Ok(mut commits) = self.commits.lock() {
            commits.spread.clear();
        }
        self.report();
        for (slot, group) in slots.iter().zip(groups) {
            let at = self.witness.borrow().last(*slot);
            let wrong = self.witness.borrow_mut().chains.placed(tag, (*slot, at), group);
            wrong.into_iter().for_each(|text| self.witness.borrow_mut().violation(text));
        }
        if let Err(error) = &applied
            && !self.may_misfit
        {
            self.witness.borrow_mut().violation(format!("a part does not fit: {error}"));
        }
        self.exec.begin();
        self.exec.serve_ready(&mut self.host);
        self.exec.end();
        self.report();
        applied
    }
}
