//! Views: the agreed configurations of the cluster, adopted by all nodes in the same order. A view
//! names the members and the owners of each slot.

use crate::slot::{SLOTS, Slot};
use crate::slot_map::{Node, SlotMap, common_runs};
use std::ops::RangeInclusive;

/// Exclusive upper bound of node numbers, so that a set of members is one word.
pub const NODES_MAX: u16 = 64;

/// A member in one of its incarnations: a node that has lost its memory joins as a new one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Identity {
    /// Node number, below [`NODES_MAX`].
    pub node: Node,
    /// Incarnation number.
    pub incarnation: u32,
}

/// An agreed configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct View {
    /// Epoch: each view's is one greater than that of the view before.
    pub epoch: u64,
    /// The members, in order of their numbers.
    pub members: Vec<Identity>,
    /// The owners of each slot, its primary first.
    pub slots: SlotMap,
    /// Importers: nodes that are sent the data of slots, to become owners. None where every member
    /// holds all data, whether or not it is an owner.
    pub incoming: Option<SlotMap>,
}

impl View {
    /// The member with this number.
    pub fn member(&self, node: Node) -> Option<Identity> {
        self.members.iter().copied().find(|member| member.node == node)
    }

    /// The primary of a slot, with its incarnation.
    pub fn primary(&self, slot: Slot) -> Option<Identity> {
        self.slots.primary(slot).and_then(|node| self.member(node))
    }

    /// The nodes that import a slot.
    pub fn incoming(&self, slot: Slot) -> &[Node] {
        self.incoming.as_ref().map_or(&[], |incoming| incoming.owners(slot))
    }

    /// Runs of slots in which another view differs: in owners, importers, or the primary's
    /// incarnation.
    pub(crate) fn differences(&self, other: &View) -> Vec<RangeInclusive<Slot>> {
        let mut runs = common_runs(self.maps().chain(other.maps()));
        runs.retain(|run| {
            let slot = *run.start();
            self.slots.owners(slot) != other.slots.owners(slot)
                || self.incoming(slot) != other.incoming(slot)
                || self.primary(slot) != other.primary(slot)
        });
        runs
    }

    /// The maps of owners and importers.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &SlotMap> {
        std::iter::once(&self.slots).chain(&self.incoming)
    }

    /// The receivers of a slot's changes: its owners and importers.
    pub fn receivers(&self, slot: Slot) -> NodeSet {
        let owners: NodeSet = self.slots.owners(slot).iter().copied().collect();
        self.incoming(slot).iter().fold(owners, |all, &node| all.with(node))
    }
}

/// A set of nodes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NodeSet(pub u64);

impl NodeSet {
    /// The set of one node.
    pub fn of(node: Node) -> Self {
        NodeSet(1 << (node.0 % NODES_MAX))
    }

    /// Whether the set contains a node.
    pub fn contains(self, node: Node) -> bool {
        self.0 & Self::of(node).0 != 0
    }

    /// The set with a node added.
    pub fn with(self, node: Node) -> Self {
        NodeSet(self.0 | Self::of(node).0)
    }

    /// The set with a node removed.
    pub fn without(self, node: Node) -> Self {
        NodeSet(self.0 & !Self::of(node).0)
    }

    /// The nodes, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Node> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| Node(left.trailing_zeros() as u16));
            left &= left.wrapping_sub(1);
            next
        })
    }

    /// Whether this is a superset of the other set.
    pub fn includes(self, others: NodeSet) -> bool {
        self.0 & others.0 == others.0
    }
}

impl FromIterator<Node> for NodeSet {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> Self {
        nodes.into_iter().fold(NodeSet::default(), NodeSet::with)
    }
}

/// The primary of each slot, as an array for fast lookup.
#[derive(Clone, Debug)]
pub(crate) struct Primaries {
    /// By slot: its primary, and the epoch in which it was appointed.
    slots: Vec<(Option<Node>, u64)>,
}

impl Primaries {
    pub fn of(view: &View) -> Self {
        let mut slots = vec![(None, view.epoch); SLOTS.into()];
        let mut count = 0;
        for run in common_runs([&view.slots]) {
            let primary = view.slots.primary(*run.start());
            count += run.len();
            run.for_each(|slot| slots[usize::from(slot)].0 = primary);
        }
        assert_eq!(count, slots.len(), "each slot is in one run");
        Primaries { slots }
    }

    pub fn of_slot(&self, slot: Slot) -> Option<Node> {
        self.slots[usize::from(slot)].0
    }

    /// Epoch in which the slot's primary was appointed.
    pub fn tenure(&self, slot: Slot) -> u64 {
        self.slots[usize::from(slot)].1
    }

    /// Run-length encoded tenures: number of adjacent slots with the same epoch, and the epoch.
    pub fn tenures(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &(_, tenure) in &self.slots {
            match runs.last_mut() {
                Some(run) if run.1 == tenure => run.0 += 1,
                _ => runs.push((1, tenure)),
            }
        }
        // A receiver refuses any other sum (`Positions::read`).
        assert_eq!(runs.iter().map(|(count, _)| count).sum::<u64>(), u64::from(SLOTS));
        runs
    }

    /// Adopts the tenures of a member with a view of this epoch; tenures of later epochs are
    /// already known here.
    pub fn set_tenures(&mut self, epoch: u64, runs: &[(u64, u64)]) {
        let mut slots = self.slots.iter_mut();
        for &(count, known) in runs {
            for (_, tenure) in slots.by_ref().take(count as usize) {
                if *tenure <= epoch {
                    *tenure = known;
                }
            }
        }
    }

    /// Adopts a view that differs from the last one in these runs; calls `lost` for each slot and
    /// the primary that lost it.
    pub fn adopt(
        &mut self,
        view: &View,
        runs: &[RangeInclusive<Slot>],
        mut lost: impl FnMut(Slot, Node),
    ) {
        for run in runs.iter().cloned() {
            let now = view.slots.primary(*run.start());
            let of_run = usize::from(*run.start())..usize::from(*run.end()) + 1;
            for (slot, (before, tenure)) in run.zip(&mut self.slots[of_run]) {
                if *before != now {
                    before.iter().for_each(|&node| lost(slot, node));
                    (*before, *tenure) = (now, view.epoch);
                }
            }
        }
    }
}
