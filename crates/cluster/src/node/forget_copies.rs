//! Copies that were evicted here: their primaries hear of them in batches, and send no more changes
//! of them.
//!
//! A primary that hears of it has registered no later copy: one that was asked for before is waited
//! for, and one that is asked for afterwards follows in the lane.

use super::{Host, Node};
use crate::evicted::DbKey;
use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::slot::slot_of;
use crate::view::NodeSet;
use crate::wire::Record;
use petrel_keyspace::{Homes, Key};

/// Keys of one batch at most, and their bytes.
const KEYS_PER_TURN: usize = 256;
const BYTES_PER_TURN: usize = 32 * 1024;

impl Node {
    /// Says to primaries which copies were evicted here; true if there are more at once.
    /// The thread is in no batch.
    pub fn unshare_evicted(&mut self, host: &mut dyn Host) -> bool {
        let evicted = self.own_slots.take_evicted(KEYS_PER_TURN, BYTES_PER_TURN);
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
        // Another copy may have come; no thread but this one takes some.
        let gone: Vec<DbKey> = evicted.into_iter().filter(is_gone).collect();
        handle.exit();
        let mut has_said = false;
        for (db, key) in gone {
            let slot = slot_of(&key);
            let primary = self.view.slots.primary(slot).filter(|primary| self.is_linked(*primary));
            let Some(primary) = primary.filter(|_| self.takes_copies(slot)) else { continue };
            let queue = self.origin.queues.get(&slot);
            let is_asking = queue.is_some_and(|queue| !queue.flights.is_empty());
            if is_asking && !is_broken(Mutation::UnshareEarly) {
                // A copy may be on its way.
                self.own_slots.note_evicted(db, &key);
                continue;
            }
            let unshared = Record::Unshared { db, key: &key };
            self.lanes.push(lane_of(slot), Some(NodeSet::of(primary)), &unshared);
            has_said = true;
        }
        has_said && self.own_slots.has_evicted()
    }
}
