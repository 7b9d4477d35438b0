//! Directory of copies: which members, besides the owners, have copies of keys of which this node
//! is primary. Each change of such a key is sent to them too.
//!
//! ```text
//! slot -> members that have a copy of any of its keys        checked by each commit
//!         key, by the hash of its name -> members with it    looked up if there are any
//! ```
//!
//! A member reports evicted copies in batches (`node/forget_copies.rs`). If it lacks a copy without
//! having reported that, it is sent one more change and then reports it. Two keys of a slot with
//! the same hash would count as one; the hash has 64 bits and is keyed (SipHash).

use crate::slot::{SLOTS, Slot};
use crate::slot_map::Node;
use crate::view::NodeSet;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Maximum number of keys registered; further keys are not copied.
const KEYS_MAX: usize = 1 << 22;

/// Holders of copies of one slot's keys.
#[derive(Default)]
struct OfSlot {
    /// Superset of the members that have any.
    any: AtomicU64,
    keys: Mutex<HashMap<u64, NodeSet>>,
}

/// All copies of keys that other members have.
#[derive(Default)]
pub(crate) struct Directory {
    /// Allocated with the first copy.
    slots: OnceLock<Box<[OfSlot]>>,
    keys: AtomicUsize,
    /// Random key, so that clients cannot construct collisions.
    hasher: RandomState,
}

impl Directory {
    /// Identifier of a key: a hash of its database and its bytes.
    pub fn name_of(&self, db: u16, key: &[u8]) -> u64 {
        self.hasher.hash_one((db, key))
    }

    fn slot(&self, slot: Slot) -> Option<&OfSlot> {
        self.slots.get().map(|slots| &slots[usize::from(slot)])
    }

    /// Whether members may have copies of keys of a slot.
    #[inline]
    pub fn has_any(&self, slot: Slot) -> bool {
        self.slot(slot).is_some_and(|of_slot| of_slot.any.load(Relaxed) != 0)
    }

    /// Superset of the members that have a copy of a key. Its stripe is locked.
    pub fn holders(&self, slot: Slot, name: u64) -> NodeSet {
        let Some(of_slot) = self.slot(slot) else { return NodeSet::default() };
        of_slot.keys.lock().get(&name).copied().unwrap_or_default()
    }

    /// Registers a member as a holder of a key; false if the directory is full.
    pub fn add(&self, slot: Slot, name: u64, node: Node) -> bool {
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| OfSlot::default()).collect());
        let of_slot = &slots[usize::from(slot)];
        let mut keys = of_slot.keys.lock();
        if !keys.contains_key(&name) {
            if self.keys.load(Relaxed) >= KEYS_MAX {
                return false;
            }
            self.keys.fetch_add(1, Relaxed);
        }
        let holders = keys.entry(name).or_default();
        *holders = holders.with(node);
        of_slot.any.fetch_or(NodeSet::of(node).0, Relaxed);
        true
    }

    /// Removes holders of a key.
    pub fn remove(&self, slot: Slot, name: u64, nodes: NodeSet) {
        let Some(of_slot) = self.slot(slot) else { return };
        let mut keys = of_slot.keys.lock();
        let Some(holders) = keys.get_mut(&name) else { return };
        holders.0 &= !nodes.0;
        if holders.0 == 0 {
            keys.remove(&name);
            self.keys.fetch_sub(1, Relaxed);
            if keys.is_empty() {
                of_slot.any.store(0, Relaxed);
            }
        }
    }

    /// Removes all holders of a slot, when this node becomes its primary or stops being it.
    pub fn clear(&self, slot: Slot) {
        let Some(of_slot) = self.slot(slot) else { return };
        let mut keys = of_slot.keys.lock();
        self.keys.fetch_sub(keys.len(), Relaxed);
        *keys = HashMap::new();
        of_slot.any.store(0, Relaxed);
    }

    /// Removes nodes that are not members any more.
    pub fn forget(&self, nodes: NodeSet) {
        for of_slot in self.slots.get().into_iter().flatten() {
            if of_slot.any.load(Relaxed) & nodes.0 == 0 {
                continue;
            }
            let mut keys = of_slot.keys.lock();
            let before = keys.len();
            keys.retain(|_, holders| {
                holders.0 &= !nodes.0;
                holders.0 != 0
            });
            self.keys.fetch_sub(before - keys.len(), Relaxed);
            of_slot.any.fetch_and(!nodes.0, Relaxed);
        }
    }

    /// Number of keys with holders.
    pub fn len(&self) -> usize {
        self.keys.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_have_copies_are_known_until_they_have_none() {
        let (directory, a, b) = (Directory::default(), Node(1), Node(2));
        let (x, y) = (directory.name_of(0, b"x"), directory.name_of(1, b"x"));
        assert_ne!(x, y);
        assert!(!directory.has_any(5) && directory.holders(5, x) == NodeSet::default());
        assert!(directory.add(5, x, a) && directory.add(5, x, b) && directory.add(5, y, a));
        assert!(directory.has_any(5) && !directory.has_any(6));
        assert_eq!(directory.holders(5, x), [a, b].into_iter().collect());
        directory.remove(5, x, NodeSet::of(a));
        directory.remove(5, x, NodeSet::of(a));
        assert_eq!((directory.holders(5, x), directory.len()), (NodeSet::of(b), 2));
        directory.forget(NodeSet::of(b));
        assert_eq!((directory.holders(5, x), directory.len()), (NodeSet::default(), 1));
        directory.clear(5);
        assert!(!directory.has_any(5) && directory.len() == 0);
    }
}
