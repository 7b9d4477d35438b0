//! Which members have copies of keys whose changes this node orders, beside the homes of their
//! slots: each change of such a key is sent to them too, until they have it no more.
//!
//! ```text
//! slot -> members that have a copy of any of its keys      looked at by each commit
//!         key, by its name's hash -> members that have it  looked at if there are such
//! ```
//!
//! A member that has evicted copies says so soon, for many at once (`node/unshare.rs`); one that
//! has not, or has none for another reason, is sent one more change, and says so then. Two keys of a
//! slot with one hash would count as one; the hash is of 64 bits and keyed (SipHash).

use crate::slot::{SLOTS, Slot};
use crate::slot_map::Node;
use crate::view::NodeSet;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Keys that it knows at most; of others no copies are given.
const KEYS_MAX: usize = 1 << 22;

/// The members that have copies of keys of a slot.
#[derive(Default)]
struct OfSlot {
    /// Those that have any, and perhaps others.
    any: AtomicU64,
    keys: Mutex<HashMap<u64, NodeSet>>,
}

/// The copies that others have.
#[derive(Default)]
pub(crate) struct Directory {
    /// None before the first.
    slots: OnceLock<Box<[OfSlot]>>,
    keys: AtomicUsize,
    /// Drawn here, so that no client can find keys with one hash.
    hasher: RandomState,
}

impl Directory {
    /// What a key is called here: a hash of its database and its bytes.
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

    /// The members that have copies of a key, and perhaps others. Its stripe is held.
    pub fn holders(&self, slot: Slot, name: u64) -> NodeSet {
        let Some(of_slot) = self.slot(slot) else { return NodeSet::default() };
        of_slot.keys.lock().get(&name).copied().unwrap_or_default()
    }

    /// A member gets a copy of a key, whose stripe is held: false if there are too many.
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

    /// A member has no copy of a key any more, or none does that is among these.
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

    /// This node orders the changes of a slot no more, or only from now on.
    pub fn clear(&self, slot: Slot) {
        let Some(of_slot) = self.slot(slot) else { return };
        let mut keys = of_slot.keys.lock();
        self.keys.fetch_sub(keys.len(), Relaxed);
        *keys = HashMap::new();
        of_slot.any.store(0, Relaxed);
    }

    /// Nodes are members no more.
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

    /// How many keys others have copies of.
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
