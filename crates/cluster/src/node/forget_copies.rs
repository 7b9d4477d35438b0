//! Reports copies that were evicted here to their primaries, in batches, so that they send no more
//! changes of them.
//!
//! The report cannot hit a newer copy: no report is sent while a command of the slot is pending
//! that might bring one, and a copy that is requested later follows the report in the lane.

use super::{Host, Node};
use crate::evicted::DbKey;
use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::slot::slot_of;
use crate::view::NodeSet;
use crate::wire::Record;
use petrel_keyspace::{Key, Ownership};

/// Maximum number of keys of one batch, and of their bytes.
const KEYS_PER_TURN: usize = 256;
const BYTES_PER_TURN: usize = 32 * 1024;

impl Node {
    /// Reports evicted copies to their primaries; true if more remain. The thread is outside of any
    /// batch.
    pub fn report_evicted(&mut self, host: &mut dyn Host) -> bool {
        let evicted = self.local_slots.take_evicted(KEYS_PER_TURN, BYTES_PER_TURN);
        if evicted.is_empty() {
            return false;
        }
        let handle = host.handle();
        handle.enter();
        let is_gone = |(db, bytes): &DbKey| {
            let key = Key { bytes, hash: handle.hash(bytes) };
            handle.lock(key.hash);
            let is_gone = handle.view_stored(*db, key).is_none();
            handle.unlock();
            is_gone
        };
        // A new copy may have arrived since; only this thread takes copies.
        let gone: Vec<DbKey> = evicted.into_iter().filter(is_gone).collect();
        handle.exit();
        let mut has_said = false;
        for (db, key) in gone {
            let slot = slot_of(&key);
            let primary = self.view.slots.primary(slot).filter(|primary| self.is_linked(*primary));
            let Some(primary) = primary.filter(|_| self.takes_copies(slot)) else { continue };
            let queue = self.origin.queues.get(&slot);
            let is_asking = queue.is_some_and(|queue| !queue.flights.is_empty());
            if is_asking && !is_broken(Mutation::ForgetEarly) {
                // The pending command may bring a copy.
                self.local_slots.note_evicted(db, &key);
                continue;
            }
            let no_copy = Record::NoCopy { db, key: &key };
            self.lanes.push(lane_of(slot), Some(NodeSet::of(primary)), &no_copy);
            has_said = true;
        }
        has_said && self.local_slots.has_evicted()
    }
}
