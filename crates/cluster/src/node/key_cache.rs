//! Key cache: copies of keys that clients read at a node which does not own their slots.
//!
//! ```text
//! reader                          primary
//!   EXEC, wants copies --------->   executes it; for each small key that it read, with its stripe
//!   <--- COPY, ANSWER               locked: registers the reader as a holder (`directory.rs`)
//!   reads the key locally
//!                                   a commit changes the key: sent to owners and holders
//!   <--- EFFECTS or INVALIDATE      effects if small, else an invalidation
//!   evicted it, or no client has read it lately:
//!   NO_COPY -------------------->   removes the reader from the holders
//! ```
//!
//! A copy is in the primary's lane, at its place among the changes of the key. So every copy of a
//! slot reflects one position of the slot's order. When a slot changes its primary its copies are
//! removed, and are not readable meanwhile.

use super::{Host, Node};
use crate::lanes::{FROM_PEERS, lane_of};
use crate::mutation::{Mutation, is_broken};
use crate::reconcile::slot_of_group;
use crate::slot::{Slot, slot_of};
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet};
use crate::wire::Record;
use petrel_keyspace::{Call, Effect, Key, Ownership, Removal};
use petrel_persistence::effects::{GroupWriter, apply_group, apply_to_copies, visit_keys};

/// Maximum number of keys copied for one command.
const KEYS_PER_COMMAND: usize = 64;

/// Maximum size of a key and its value to be copied, in bytes.
const COPY_MAX: usize = 64 * 1024;

impl Node {
    /// Whether the keys of a slot that are present may be read here as copies.
    pub(super) fn takes_copies(&self, slot: Slot) -> bool {
        self.holdings.as_ref().is_some_and(|holdings| holdings.takes_copies(slot))
    }

    /// Sends a node copies of the keys that its command has read.
    pub(super) fn send_copies(&mut self, to: Number, call: &Call<&[u8]>, host: &mut dyn Host) {
        let &[slot] = &call.slots[..] else { return };
        let mut keys = Vec::new();
        host.keys_read(call, &mut keys);
        for key in keys.iter().filter(|key| slot_of(key) == slot).take(KEYS_PER_COMMAND) {
            self.send_copy_of((call.db, key), slot, to, host);
        }
    }

    fn send_copy_of(
        &mut self,
        (db, bytes): (u16, &[u8]),
        slot: Slot,
        to: Number,
        host: &mut dyn Host,
    ) {
        let handle = host.handle();
        handle.enter();
        let key = Key { bytes, hash: handle.hash(bytes) };
        // The stripe stays locked, so no commit of the key comes between reading, registering and
        // sending.
        handle.lock(key.hash);
        if let Some(value) = handle.view(db, key)
            && value.footprint() <= COPY_MAX
            && self.lanes.directory().add(slot, self.lanes.directory().name_of(db, bytes), to)
        {
            let mut group = GroupWriter::default();
            let expiry = value.expiry();
            let effect = match value.string() {
                Ok(value) => Effect::Put { key: bytes, value, expiry },
                Err(_) => Effect::Store { key: bytes, value, expiry },
            };
            group.add(db, &effect);
            let copy = Record::Copy { group: group.bytes() };
            self.lanes.push_shown(lane_of(slot), to, &[slot], &copy);
        }
        handle.unlock();
        handle.exit();
    }

    /// Stores a received copy. One from a node that is not the slot's primary any more is
    /// discarded, since that node sends no changes of it.
    pub(super) fn take_copy(&mut self, from: Identity, group: &[u8], host: &mut dyn Host) {
        let Some(slot) = slot_of_group(group) else { return };
        // The sender may have lost the slot and regained it since it sent the copy.
        let lanes = self.inboxes.get(&from).map(Vec::as_slice).unwrap_or_default();
        let epoch = lanes.get(lane_of(slot)).map_or(0, |inbox| inbox.end_epoch);
        let is_late = epoch < self.primaries.tenure(slot);
        if self.view.primary(slot) != Some(from) || !self.takes_copies(slot) {
            return;
        }
        let databases = host.handle().keyspace().databases();
        if is_late {
            return self.leave_copy(group, databases);
        }
        if let Some(holdings) = &mut self.holdings {
            holdings.record_copy(slot);
        }
        self.local_slots.record_copy();
        let handle = host.handle();
        handle.enter();
        // If memory is short, other copies are evicted for it; if that is not enough, it is not
        // stored.
        let applied = match handle.make_room_for_copy(group.len()) {
            true => apply_group(handle, group, FROM_PEERS, &mut self.hashes).map(|_| true),
            false => Ok(false),
        };
        handle.exit();
        match applied {
            Ok(true) => {}
            Ok(false) => self.leave_copy(group, databases),
            Err(error) => host.differs(from, error),
        }
    }

    /// Discards a received copy and reports that to its primary.
    fn leave_copy(&self, group: &[u8], databases: u16) {
        let note = |db, key: Option<&[u8]>| {
            let key = key.filter(|_| db < databases);
            key.into_iter().for_each(|key| self.local_slots.note_evicted(db, key));
        };
        // Malformed groups name no key.
        let _ = visit_keys(group, note);
    }

    /// Applies a commit to the copies of a slot that are present, and reports its other keys as
    /// absent to the primary.
    pub(super) fn apply_to_copies(
        &mut self,
        from: Identity,
        slot: Slot,
        group: &[u8],
        host: &mut dyn Host,
    ) {
        let mut absent: Vec<(u16, Vec<u8>)> = Vec::new();
        let handle = host.handle();
        handle.enter();
        let note = |db, key: &[u8]| absent.push((db, key.to_vec()));
        let rules = (FROM_PEERS, self.limits.copy_idle);
        let applied = apply_to_copies(handle, group, rules, &mut self.hashes, note);
        handle.exit();
        if let Err(error) = applied {
            host.differs(from, error);
        }
        // A requested copy may be on its way, and this commit may be older.
        let is_asking =
            self.origin.queues.get(&slot).is_some_and(|queue| !queue.flights.is_empty());
        let is_asking = is_asking && !is_broken(Mutation::ForgetEarly);
        if is_asking || self.view.primary(slot) != Some(from) {
            return;
        }
        absent.sort_unstable();
        absent.dedup();
        for (db, key) in &absent {
            let no_copy = Record::NoCopy { db: *db, key };
            self.lanes.push(lane_of(slot), Some(NodeSet::of(from.node)), &no_copy);
        }
    }

    /// Handles a member's report that it has no copy of a key.
    pub(super) fn note_no_copy(&self, from: Identity, (db, key): (u16, &[u8])) {
        // The next incarnation of the node may have a copy.
        if self.is_member(from) {
            let directory = self.lanes.directory();
            let name = directory.name_of(db, key);
            directory.remove(slot_of(key), name, NodeSet::of(from.node));
        }
    }

    /// Removes a copy that was invalidated.
    pub(super) fn drop_copy(&mut self, (db, bytes): (u16, &[u8]), host: &mut dyn Host) {
        let databases = host.handle().keyspace().databases();
        if !self.takes_copies(slot_of(bytes)) || db >= databases {
            return;
        }
        let handle = host.handle();
        handle.enter();
        let key = Key { bytes, hash: handle.hash(bytes) };
        handle.lock(key.hash);
        if handle.view_stored(db, key).is_some() {
            let remove = Effect::Remove { key: bytes, why: Removal::Deleted };
            // The key exists, so this cannot fail.
            let _ = handle.apply(db, &remove, FROM_PEERS);
        }
        handle.unlock();
        handle.exit();
    }
}
