//! State of each slot's data at a node, where members hold only some slots.
//!
//! ```text
//! Away      neither owned nor imported: only copies of keys are present (`node/key_cache.rs`)
//! Awaited   imported: the data are requested or yet to be requested (`node/transfer.rs`)
//! Held      all data are present, as far as the primary's lane was applied
//! ```
//!
//! Leftover keys of lost slots are removed in steps. A slot is not imported before that is done.
//! Keys of slots that no member owns are kept: the slot's last owner may not return, and the
//! operator may let the slot continue with them.

use crate::lanes::FROM_PEERS;
use crate::mutation::{Mutation, is_broken};
use crate::slot::{SLOTS, Slot, SlotSet, slot_of};
use crate::slot_map::common_runs;
use crate::view::{Identity, View};
use petrel_keyspace::{Cursor, Effect, Handle, Removal};
use std::ops::RangeInclusive;

/// State of a slot's data at a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Holding {
    Away,
    Awaited,
    Held,
}

/// State of all slots' data at a node.
pub(crate) struct Holdings {
    slots: Box<[Holding]>,
    /// Slots of which leftover keys may have to be removed.
    leftover: SlotSet,
    /// Whether `leftover` contains any slot.
    has_leftover: bool,
    /// Slots of which copies of keys may be present.
    copied: SlotSet,
    /// Slots without owners of which keys from a former incarnation may be present.
    kept: SlotSet,
    /// Database and cursor at which the removal resumes.
    at: (u16, Cursor),
    /// Counts how often slots became held without a new view.
    arrivals: u64,
}

impl Holdings {
    /// State at a node's first view: it holds the slots that it owns.
    pub fn new(view: &View, me: Identity) -> Self {
        let mut slots = vec![Holding::Away; SLOTS.into()].into_boxed_slice();
        for run in common_runs(view.maps()) {
            let first = *run.start();
            let holding = match view.slots.owners(first).contains(&me.node) {
                true => Holding::Held,
                false if view.incoming(first).contains(&me.node) => Holding::Awaited,
                false => Holding::Away,
            };
            slots[usize::from(first)..=usize::from(*run.end())].fill(holding);
        }
        let (leftover, copied, kept, at) = Default::default();
        Holdings { slots, leftover, has_leftover: false, copied, kept, at, arrivals: 0 }
    }

    /// Whether all data of the slot are present, and no leftover.
    pub fn holds(&self, slot: Slot) -> bool {
        self.slots[usize::from(slot)] == Holding::Held && !self.leftover.contains(slot)
    }

    /// Adopts a view that differs from the last one in these runs of slots. False if it names the
    /// node as an owner of a slot that it does not hold although others do.
    pub fn adopt(
        &mut self,
        (before, view): (&View, &View),
        runs: &[RangeInclusive<Slot>],
        me: Identity,
    ) -> bool {
        let mut is_possible = true;
        for run in runs.iter().cloned() {
            let first = *run.start();
            let owners = view.slots.owners(first);
            let has_changed = before.primary(first) != view.primary(first);
            let is_owner = owners.contains(&me.node);
            let is_incoming = view.incoming(first).contains(&me.node);
            let mut were = before.slots.owners(first).iter();
            let is_lost = were.all(|&node| before.member(node) != view.member(node));
            let starts_empty = is_lost && owners == [me.node];
            let next = |old| match (is_owner, is_incoming) {
                (true, _) if old == Holding::Held || starts_empty => Holding::Held,
                (true, _) => Holding::Awaited,
                // The new primary may lack changes that were applied here, and have others.
                (_, true) if old == Holding::Held && !has_changed => Holding::Held,
                (_, true) => Holding::Awaited,
                _ => Holding::Away,
            };
            let is = (is_owner, has_changed, !owners.is_empty());
            is_possible &= self.adopt_run(run, is, next);
        }
        is_possible
    }

    /// Like [`Holdings::adopt`], for one run of slots.
    fn adopt_run(
        &mut self,
        run: RangeInclusive<Slot>,
        (is_owner, has_changed, has_owners): (bool, bool, bool),
        next: impl Fn(Holding) -> Holding,
    ) -> bool {
        let mut is_possible = true;
        for slot in run {
            let old = self.slots[usize::from(slot)];
            let new = next(old);
            is_possible &= !is_owner || new == Holding::Held;
            let was_kept = has_owners && self.kept.contains(slot);
            if was_kept {
                self.kept.remove(slot);
            }
            if was_kept && !is_owner {
                self.mark_leftover(slot);
            }
            let is_left = match old {
                // The new primary sends no changes of these copies.
                Holding::Away => {
                    self.copied.contains(slot)
                        && (new != old || has_changed && !is_broken(Mutation::KeepCopies))
                }
                _ => old != new || new == Holding::Awaited && has_changed,
            };
            if is_left {
                self.mark_leftover(slot);
            }
            self.slots[usize::from(slot)] = new;
        }
        is_possible
    }

    /// Marks the keys of a slot for removal.
    fn mark_leftover(&mut self, slot: Slot) {
        self.leftover.insert(slot);
        self.has_leftover = true;
        self.copied.remove(slot);
        self.at = Default::default();
    }

    /// Discards slots that were loaded in vain.
    pub fn give_up(&mut self, slots: &SlotSet) {
        slots.iter().for_each(|slot| self.mark_leftover(slot));
    }

    /// Marks slots as held after their import.
    pub fn arrive(&mut self, slots: &SlotSet) {
        self.arrivals += 1;
        slots.iter().for_each(|slot| self.slots[usize::from(slot)] = Holding::Held);
    }

    /// Counter that changes whenever slots become held without a new view.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Marks the keys of all slots that are not held for removal, but keeps those of slots without
    /// owners in this view.
    pub fn mark_others_leftover(&mut self, view: &View) {
        let others = (0..SLOTS).filter(|&slot| self.slots[usize::from(slot)] != Holding::Held);
        for slot in others.collect::<Vec<Slot>>() {
            match view.slots.owners(slot).is_empty() {
                true => self.kept.insert(slot),
                false => self.mark_leftover(slot),
            }
        }
    }

    /// Number of slots held, and number of slots imported.
    pub fn counts(&self) -> (usize, usize) {
        let count = |of| self.slots.iter().filter(|&&holding| holding == of).count();
        (count(Holding::Held), count(Holding::Awaited))
    }

    /// Whether keys of a slot may be present as copies.
    pub fn takes_copies(&self, slot: Slot) -> bool {
        self.slots[usize::from(slot)] == Holding::Away
            && !self.leftover.contains(slot)
            && !self.kept.contains(slot)
    }

    /// Records that a copy of a key of this slot was stored.
    pub fn record_copy(&mut self, slot: Slot) {
        self.copied.insert(slot);
    }

    /// Slots that may be requested now.
    pub fn awaited(&self) -> impl Iterator<Item = Slot> {
        let slots = (0..SLOTS).zip(&self.slots);
        let awaited = slots.filter(|(_, holding)| **holding == Holding::Awaited);
        awaited.map(|(slot, _)| slot).filter(|&slot| !self.leftover.contains(slot))
    }

    /// Slots of which keys of a former incarnation may have to be removed, now or later.
    pub fn former(&self) -> SlotSet {
        let mut former = self.leftover.clone();
        former.unite(&self.kept);
        former
    }

    /// Whether keys of a slot without owners are kept.
    pub fn keeps(&self, slot: Slot) -> bool {
        self.kept.contains(slot)
    }

    /// Whether leftover keys may have to be removed.
    pub fn has_leftover(&self) -> bool {
        self.has_leftover
    }

    /// Scans about `count` keys and removes leftover ones. False once none are left. The thread is
    /// outside of any batch.
    pub fn sweep(&mut self, handle: &mut Handle, count: usize) -> bool {
        let databases = handle.keyspace().databases();
        if !self.has_leftover {
            return false;
        }
        let (db, cursor) = self.at;
        let leftover = &self.leftover;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        handle.enter();
        // Expired keys are returned too, since they have to be removed as well.
        let next = handle.on_behalf(FROM_PEERS, |handle| {
            handle.scan_removing(db, cursor, count, &|_| false, |entry| {
                let key = entry.key();
                if leftover.contains(slot_of(key)) {
                    keys.push(key.to_vec());
                }
            })
        });
        for key in &keys {
            handle.lock(handle.hash(key));
            let remove = Effect::Remove { key, why: Removal::Deleted };
            // Fails only if the key was removed since.
            let _ = handle.apply(db, &remove, FROM_PEERS);
            handle.unlock();
        }
        handle.exit();
        self.at = match next == Cursor::default() {
            true => (db + 1, Cursor::default()),
            false => (db, next),
        };
        if self.at.0 >= databases {
            self.leftover = SlotSet::default();
            self.has_leftover = false;
            self.at = Default::default();
            self.arrivals += 1;
        }
        self.has_leftover
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_map::{Node, SlotMap};
    use petrel_keyspace::{Keyspace, Options};

    fn view(epoch: u64, members: &[u16], owners: &[u16], incoming: &[u16]) -> View {
        let nodes = |nodes: &[u16]| nodes.iter().copied().map(Node).collect::<Vec<Node>>();
        let (owners, incoming) = (nodes(owners), nodes(incoming));
        let identity = |node: &u16| Identity { node: Node(*node), incarnation: 1 };
        View {
            epoch,
            members: members.iter().map(identity).collect(),
            slots: SlotMap::collect(|_| &owners),
            incoming: Some(SlotMap::collect(|_| &incoming)),
        }
    }

    const ME: Identity = Identity { node: Node(2), incarnation: 1 };
    const ALL: [u16; 3] = [0, 1, 2];

    fn adopt(holdings: &mut Holdings, before: &View, after: &View) -> bool {
        holdings.adopt((before, after), &before.differences(after), ME)
    }

    #[test]
    fn an_owner_has_imported_the_data_before() {
        let (away, sent) = (view(1, &ALL, &[0, 1], &[]), view(2, &ALL, &[0, 1], &[2]));
        let (owner, moved) = (view(3, &ALL, &[0, 2], &[]), view(3, &ALL, &[1, 0], &[2]));
        let mut holdings = Holdings::new(&away, ME);
        assert!(adopt(&mut holdings, &away, &sent) && holdings.awaited().count() == 16_384);
        assert!(!holdings.holds(0));
        holdings.arrive(&holdings.awaited().collect());
        assert!(adopt(&mut holdings, &sent, &owner) && holdings.holds(0));
        // A node that did not import the data rejects the view.
        let mut holdings = Holdings::new(&sent, ME);
        assert!(!adopt(&mut holdings, &sent, &owner));
        // Data from a former primary do not suffice.
        let mut holdings = Holdings::new(&sent, ME);
        holdings.arrive(&holdings.awaited().collect());
        assert!(adopt(&mut holdings, &sent, &moved) && !holdings.holds(0));
        assert_eq!((holdings.awaited().count(), holdings.has_leftover()), (0, true));
    }

    #[test]
    fn slots_without_data_start_empty() {
        let (before, after) = (view(1, &ALL, &[0, 1], &[]), view(2, &[2], &[2], &[]));
        let mut holdings = Holdings::new(&before, ME);
        assert!(adopt(&mut holdings, &before, &after) && holdings.holds(7));
        let after = view(2, &[1, 2], &[2], &[]);
        let mut holdings = Holdings::new(&before, ME);
        assert!(!adopt(&mut holdings, &before, &after));
    }

    #[test]
    fn keys_of_slots_without_owners_are_kept_until_there_are_owners() {
        let unserved = view(1, &ALL, &[], &[]);
        for (owner, is_kept) in [(2, true), (0, false)] {
            let mut holdings = Holdings::new(&unserved, ME);
            holdings.mark_others_leftover(&unserved);
            assert!(!holdings.has_leftover() && !holdings.takes_copies(7) && !holdings.holds(7));
            let served = view(2, &ALL, &[owner], &[]);
            assert!(adopt(&mut holdings, &unserved, &served));
            assert_eq!((holdings.holds(7), holdings.has_leftover()), (is_kept, !is_kept));
        }
    }

    #[test]
    fn leftover_keys_are_removed() {
        let keyspace = Keyspace::new(&Options { databases: 2, stripes: 8, seed: 1 });
        let mut handle = keyspace.attach();
        let (owner, away) = (view(1, &ALL, &[0, 2], &[]), view(2, &ALL, &[0, 1], &[]));
        let mut holdings = Holdings::new(&owner, ME);
        for at in 0..100 {
            let key = format!("key:{at}");
            assert!(
                handle
                    .store(at % 2, key.as_bytes(), petrel_keyspace::Value::Bytes(b"value"), None)
                    .is_ok()
            );
        }
        assert!(!holdings.sweep(&mut handle, 10));
        assert!(adopt(&mut holdings, &owner, &away) && holdings.has_leftover());
        while holdings.sweep(&mut handle, 10) {}
        assert_eq!((handle.flush(0), handle.flush(1)), (0, 0));
    }
}
