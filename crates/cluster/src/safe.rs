//! Safe positions: changes made here that another owner of their slot has applied.
//!
//! ```text
//! primary   commit of slot s at position n ---- EFFECTS ----> backup
//!           the reply waits                <--- applied n ---
//!           n is safe: the reply is sent; members that do not own s receive the change
//! ```
//!
//! A reply depends on the last change of each slot that its command has seen, whether it has made
//! that change or only read it. So no client and no copy of a key shows a change that the failure
//! of a single node may still lose. A slot without another owner has nothing to wait for.

use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::slot::{SLOTS, Slot};
use crate::slot_map::Node;
use crate::view::{NODES_MAX, NodeSet};
use crate::wire::LANES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A change on which a reply or a record depends: its slot, and its position in the slot's lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Need {
    /// The slot.
    pub slot: Slot,
    /// Position in the lane of the slot.
    pub position: u64,
}

/// Owners and last change of a slot.
#[derive(Default)]
struct OfSlot {
    /// The other owners in the present view.
    owners: AtomicU64,
    /// Position of the last change made here.
    changed: AtomicU64,
}

/// Progress of a member in a lane of this node.
#[derive(Default)]
struct Progress {
    /// Last position before it became a member: what precedes it came with its data.
    begin: AtomicU64,
    /// Last position that it has acknowledged.
    applied: AtomicU64,
}

/// Tells which changes are safe; read by all threads without a lock.
pub(crate) struct Safe {
    /// Whether replies wait for another owner.
    is_required: bool,
    slots: Box<[OfSlot]>,
    /// By lane and node.
    progress: Box<[Progress]>,
}

impl Safe {
    pub fn new(is_required: bool) -> Self {
        let (slots, members) = (usize::from(SLOTS), LANES * usize::from(NODES_MAX));
        Safe {
            is_required,
            slots: (0..slots).map(|_| OfSlot::default()).collect(),
            progress: (0..members).map(|_| Progress::default()).collect(),
        }
    }

    pub fn is_required(&self) -> bool {
        self.is_required && !is_broken(Mutation::AnswerAlone)
    }

    fn progress(&self, lane: usize, node: Node) -> &Progress {
        &self.progress[lane * usize::from(NODES_MAX) + usize::from(node.0 % NODES_MAX)]
    }

    /// Sets the other owners of a slot. No thread commits meanwhile.
    pub fn set_owners(&self, slot: Slot, owners: NodeSet) {
        self.slots[usize::from(slot)].owners.store(owners.0, Relaxed);
    }

    /// The other owners of a slot.
    pub fn owners(&self, slot: Slot) -> NodeSet {
        NodeSet(self.slots[usize::from(slot)].owners.load(Relaxed))
    }

    /// Records a change of a slot. The lane of the slot is locked.
    pub fn record_change(&self, slot: Slot, position: u64) {
        self.slots[usize::from(slot)].changed.store(position, Relaxed);
    }

    /// Begins a lane for a new member after this position.
    pub fn begin(&self, lane: usize, node: Node, position: u64) {
        let progress = self.progress(lane, node);
        progress.begin.store(position, Relaxed);
        progress.applied.store(position, Relaxed);
    }

    /// Records that a member has applied a lane up to this position.
    pub fn acknowledge(&self, lane: usize, node: Node, position: u64) {
        self.progress(lane, node).applied.fetch_max(position, Relaxed);
    }

    /// Whether another owner of the slot has applied the change, or the slot has no other owner
    /// that was a member when it was made.
    pub fn is_safe(&self, need: Need) -> bool {
        if !self.is_required() {
            return true;
        }
        let (lane, mut is_awaited) = (lane_of(need.slot), false);
        for owner in self.owners(need.slot).iter() {
            let progress = self.progress(lane, owner);
            if progress.begin.load(Relaxed) >= need.position {
                continue;
            }
            if progress.applied.load(Relaxed) >= need.position {
                return true;
            }
            is_awaited = true;
        }
        !is_awaited
    }

    /// The last change of a slot, unless it is safe.
    pub fn need_of(&self, slot: Slot) -> Option<Need> {
        if !self.is_required() {
            return None;
        }
        let position = self.slots[usize::from(slot)].changed.load(Relaxed);
        Some(Need { slot, position }).filter(|need| !self.is_safe(*need))
    }

    /// The last changes of slots that are not safe, except those of slots that `node` owns: it has
    /// received them before.
    pub fn needs_of(&self, slots: &[Slot], node: Option<Node>) -> Box<[Need]> {
        if !self.is_required() {
            return Box::default();
        }
        let is_foreign = |slot: &Slot| node.is_none_or(|node| !self.owners(*slot).contains(node));
        let slots = slots.iter().copied().filter(is_foreign);
        slots.filter_map(|slot| self.need_of(slot)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Node = Node(1);
    const B: Node = Node(2);
    const C: Node = Node(3);

    #[test]
    fn a_change_is_safe_once_another_owner_has_applied_it() {
        let safe = Safe::new(true);
        let (slot, need) = (5, Need { slot: 5, position: 7 });
        safe.set_owners(slot, [A, B].into_iter().collect());
        safe.record_change(slot, 7);
        safe.acknowledge(5, A, 6);
        safe.acknowledge(5, C, 9);
        safe.acknowledge(4, B, 9);
        assert_eq!(safe.need_of(slot), Some(need));
        safe.acknowledge(5, B, 8);
        assert_eq!(safe.need_of(slot), None);
        // Acknowledgements of an earlier link may come late.
        safe.acknowledge(5, B, 3);
        assert!(safe.is_safe(need));
    }

    #[test]
    fn an_owner_that_joined_later_is_not_awaited() {
        let safe = Safe::new(true);
        let need = Need { slot: 5, position: 7 };
        safe.begin(5, A, 7);
        safe.set_owners(5, [A, B].into_iter().collect());
        assert!(!safe.is_safe(need), "the other one is");
        safe.set_owners(5, NodeSet::of(A));
        assert!(safe.is_safe(need));
        assert!(!safe.is_safe(Need { slot: 5, position: 8 }));
        safe.set_owners(5, NodeSet::default());
        assert!(safe.is_safe(Need { slot: 5, position: 8 }));
    }

    #[test]
    fn an_owner_receives_changes_before_the_answer() {
        let safe = Safe::new(true);
        for slot in [5, 6] {
            safe.set_owners(slot, NodeSet::of(A));
            safe.record_change(slot, 1);
        }
        safe.set_owners(6, [A, B].into_iter().collect());
        assert_eq!(safe.needs_of(&[5, 6, 7], Some(B))[..], [Need { slot: 5, position: 1 }]);
        assert_eq!(safe.needs_of(&[5, 6, 7], None).len(), 2);
        assert!(Safe::new(false).needs_of(&[5, 6, 7], None).is_empty());
    }
}
