//! Safe positions: changes made here that another owner of their slot has applied.
//!
//! ```text
//! primary   commit of slot s at position n ---- EFFECTS ----> backup
//!           the reply waits                <--- applied n ---
//!           n is safe: the reply is sent; members that do not own s receive the change
//! ```
//!
//! The origin of a forwarded write may be the second member that has it, though it does not own the
//! slot: it keeps the record, and is answered once the changes of others before it are safe. If the
//! primary dies, the origin's records are appended to the records of the other owners.
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
    /// Member that keeps the last changes, plus one; 0 if none does.
    kept_by: AtomicU64,
    /// Position of the last change before those.
    foreign: AtomicU64,
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
    /// Members that may keep their changes of slots that they do not own.
    keepers: AtomicU64,
    /// Members that have acknowledged changes of late.
    answering: AtomicU64,
    /// By node: number of acknowledgements with a new position.
    acknowledgements: Box<[AtomicU64]>,
}

impl Safe {
    pub fn new(is_required: bool) -> Self {
        let (slots, members) = (usize::from(SLOTS), LANES * usize::from(NODES_MAX));
        Safe {
            is_required,
            slots: (0..slots).map(|_| OfSlot::default()).collect(),
            progress: (0..members).map(|_| Progress::default()).collect(),
            keepers: AtomicU64::new(u64::MAX),
            answering: AtomicU64::new(u64::MAX),
            acknowledgements: (0..NODES_MAX).map(|_| AtomicU64::default()).collect(),
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

    /// Records a change of a slot, and the member that keeps it. The lane of the slot is locked.
    pub fn record_change(&self, slot: Slot, position: u64, keeper: Option<Node>) {
        let of_slot = &self.slots[usize::from(slot)];
        let keeper = number_of(keeper);
        if keeper == 0 || keeper != of_slot.kept_by.load(Relaxed) {
            of_slot.foreign.store(of_slot.changed.load(Relaxed), Relaxed);
            of_slot.kept_by.store(keeper, Relaxed);
        }
        of_slot.changed.store(position, Relaxed);
    }

    /// Sets which members may keep changes, and which have acknowledged changes of late.
    pub fn set_keepers(&self, keepers: NodeSet, answering: NodeSet) {
        self.keepers.store(keepers.0, Relaxed);
        self.answering.store(answering.0, Relaxed);
    }

    /// Whether a member may keep its changes of a slot that it does not own.
    pub fn may_keep(&self, slot: Slot, node: Node) -> bool {
        let owners = self.owners(slot);
        self.is_required()
            && NodeSet(self.keepers.load(Relaxed)).contains(node)
            && owners.0 & self.answering.load(Relaxed) != 0
            && !owners.contains(node)
    }

    /// Distance of a new change to the previous one of its slot; 0 if there is none. The lane of
    /// the slot is locked.
    pub fn distance(&self, new: Need) -> u64 {
        match self.slots[usize::from(new.slot)].changed.load(Relaxed) {
            0 => 0,
            changed => new.position.saturating_sub(changed),
        }
    }

    /// The last change of a slot, unless another owner has applied it. The lane of the slot is
    /// locked.
    pub fn unreplicated(&self, slot: Slot) -> Option<Need> {
        let position = self.slots[usize::from(slot)].changed.load(Relaxed);
        Some(Need { slot, position }).filter(|need| !self.is_replicated(*need))
    }

    /// The last change of a slot that `node` does not keep, unless it is safe. The lane of the slot
    /// is locked.
    pub fn need_of_others(&self, slot: Slot, node: Node) -> Option<Need> {
        let of_slot = &self.slots[usize::from(slot)];
        let is_kept = of_slot.kept_by.load(Relaxed) == number_of(Some(node));
        if is_kept && is_broken(Mutation::OvertakeOthers) {
            return None;
        }
        let last = if is_kept { &of_slot.foreign } else { &of_slot.changed };
        let need = Need { slot, position: last.load(Relaxed) };
        (self.is_required() && !self.is_safe(need)).then_some(need)
    }

    /// Number of acknowledgements of a member with a new position.
    pub fn acknowledgements(&self, node: Node) -> u64 {
        self.acknowledgements[usize::from(node.0 % NODES_MAX)].load(Relaxed)
    }

    /// Begins a lane for a new member after this position. No thread commits meanwhile.
    pub fn begin(&self, lane: usize, node: Node, position: u64) {
        // A former incarnation kept them.
        for of_slot in self.slots.iter().skip(lane).step_by(LANES) {
            if of_slot.kept_by.load(Relaxed) == number_of(Some(node)) {
                of_slot.kept_by.store(0, Relaxed);
            }
        }
        let progress = self.progress(lane, node);
        progress.begin.store(position, Relaxed);
        progress.applied.store(position, Relaxed);
    }

    /// Records that a member has applied a lane up to this position.
    pub fn acknowledge(&self, lane: usize, node: Node, position: u64) {
        let before = self.progress(lane, node).applied.fetch_max(position, Relaxed);
        if position > before {
            self.acknowledgements[usize::from(node.0 % NODES_MAX)].fetch_add(1, Relaxed);
        }
    }

    /// Whether another owner of the slot has applied the change, or the slot has no other owner
    /// that was a member when it was made.
    pub fn is_safe(&self, need: Need) -> bool {
        !self.is_required() || self.is_replicated(need)
    }

    /// Like [`Safe::is_safe`], also if replies do not wait for that.
    pub fn is_replicated(&self, need: Need) -> bool {
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

    /// The last changes of slots that are not safe.
    pub fn needs_of(&self, slots: &[Slot]) -> Box<[Need]> {
        if !self.is_required() {
            return Box::default();
        }
        slots.iter().filter_map(|&slot| self.need_of(slot)).collect()
    }
}

/// A node as stored in [`OfSlot::kept_by`].
fn number_of(node: Option<Node>) -> u64 {
    node.map_or(0, |node| u64::from(node.0) + 1)
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
        safe.record_change(slot, 7, None);
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
    fn an_origin_that_keeps_its_changes_waits_for_those_of_others_only() {
        let safe = Safe::new(true);
        let need = |position| Some(Need { slot: 5, position });
        safe.set_owners(5, NodeSet::of(A));
        assert!(safe.may_keep(5, C) && !safe.may_keep(5, A) && !safe.may_keep(6, C));
        safe.record_change(5, 3, None);
        safe.record_change(5, 7, Some(C));
        safe.record_change(5, 9, Some(C));
        assert_eq!(safe.distance(Need { slot: 5, position: 12 }), 3);
        assert_eq!(safe.distance(Need { slot: 6, position: 12 }), 0);
        assert_eq!(safe.need_of_others(5, C), need(3));
        assert_eq!(safe.need_of_others(5, B), need(9));
        safe.acknowledge(5, A, 3);
        assert_eq!(safe.need_of_others(5, C), None);
        assert_eq!(safe.needs_of(&[5, 6])[..], [Need { slot: 5, position: 9 }]);
        safe.record_change(5, 11, Some(B));
        assert_eq!(safe.need_of_others(5, B), need(9));
        assert_eq!(safe.need_of_others(5, C), need(11));
        // A new incarnation does not have the records that the former one kept.
        safe.begin(5, B, 20);
        assert_eq!(safe.need_of_others(5, B), need(11));
        safe.set_keepers(NodeSet::of(C), NodeSet::of(B));
        assert!(!safe.may_keep(5, C), "the owner is silent");
        safe.set_keepers(NodeSet::of(B), NodeSet::of(A));
        assert!(!safe.may_keep(5, C) && safe.may_keep(5, B));
        assert!(Safe::new(false).need_of_others(5, C).is_none());
        assert!(Safe::new(false).needs_of(&[5, 6]).is_empty());
    }
}
