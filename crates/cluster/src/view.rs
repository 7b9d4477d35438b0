//! Views: who is a member and who orders which slots, agreed on elsewhere and adopted by all nodes
//! in the same order, one after another.

use crate::slot::{SLOTS, Slot};
use crate::slot_map::{Node, SlotMap, common_runs};
use std::ops::RangeInclusive;

/// Members have numbers below this, so that a set of them is one word.
pub const NODES_MAX: u16 = 64;

/// A member in one of its lives: a node that has lost its memory is another.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Identity {
    /// Its number, below [`NODES_MAX`].
    pub node: Node,
    /// Which of its lives.
    pub incarnation: u32,
}

/// What all nodes agree on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct View {
    /// Its number; each view's is that of the one before and 1.
    pub epoch: u64,
    /// Who is a member; in order of their numbers.
    pub members: Vec<Identity>,
    /// Who holds which slots, and orders their changes.
    pub slots: SlotMap,
    /// Who is being sent the data of which slots, to become one of their homes. None where every
    /// member holds all data, whichever are the homes.
    pub incoming: Option<SlotMap>,
}

impl View {
    /// The member with this number.
    pub fn member(&self, node: Node) -> Option<Identity> {
        self.members.iter().copied().find(|member| member.node == node)
    }

    /// Who orders the changes of a slot, in which of its lives.
    pub fn primary(&self, slot: Slot) -> Option<Identity> {
        self.slots.primary(slot).and_then(|node| self.member(node))
    }

    /// The nodes that are being sent the data of a slot.
    pub fn incoming(&self, slot: Slot) -> &[Node] {
        self.incoming.as_ref().map_or(&[], |incoming| incoming.homes(slot))
    }

    /// Runs of slots that another view says something else of: of their homes, who is to become
    /// one, or the life of their primary.
    pub(crate) fn differences(&self, other: &View) -> Vec<RangeInclusive<Slot>> {
        let mut runs = common_runs(self.maps().chain(other.maps()));
        runs.retain(|run| {
            let slot = *run.start();
            self.slots.homes(slot) != other.slots.homes(slot)
                || self.incoming(slot) != other.incoming(slot)
                || self.primary(slot) != other.primary(slot)
        });
        runs
    }

    /// All maps of slots.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &SlotMap> {
        std::iter::once(&self.slots).chain(&self.incoming)
    }

    /// Who hears of the changes of a slot: its homes, and those that are to become some.
    pub fn audience(&self, slot: Slot) -> NodeSet {
        let homes: NodeSet = self.slots.homes(slot).iter().copied().collect();
        self.incoming(slot).iter().fold(homes, |all, &node| all.with(node))
    }
}

/// A set of nodes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NodeSet(pub u64);

impl NodeSet {
    /// One node.
    pub fn of(node: Node) -> Self {
        NodeSet(1 << (node.0 % NODES_MAX))
    }

    /// Whether a node is among them.
    pub fn contains(self, node: Node) -> bool {
        self.0 & Self::of(node).0 != 0
    }

    /// The same with a node.
    pub fn with(self, node: Node) -> Self {
        NodeSet(self.0 | Self::of(node).0)
    }

    /// The same without a node.
    pub fn without(self, node: Node) -> Self {
        NodeSet(self.0 & !Self::of(node).0)
    }

    /// The nodes, ascending.
    pub fn iter(self) -> impl Iterator<Item = Node> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| Node(left.trailing_zeros() as u16));
            left &= left.wrapping_sub(1);
            next
        })
    }

    /// Whether all of the others are among them.
    pub fn includes(self, others: NodeSet) -> bool {
        self.0 & others.0 == others.0
    }
}

impl FromIterator<Node> for NodeSet {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> Self {
        nodes.into_iter().fold(NodeSet::default(), NodeSet::with)
    }
}

/// Who orders each slot, to be looked up at once.
#[derive(Clone, Debug)]
pub(crate) struct Primaries {
    /// By slot: the number of its primary, and the epoch of its appointment.
    slots: Vec<(Option<Node>, u64)>,
}

impl Primaries {
    pub fn of(view: &View) -> Self {
        let mut slots = vec![(None, view.epoch); SLOTS.into()];
        for run in common_runs([&view.slots]) {
            let primary = view.slots.primary(*run.start());
            run.for_each(|slot| slots[usize::from(slot)].0 = primary);
        }
        Primaries { slots }
    }

    pub fn of_slot(&self, slot: Slot) -> Option<Node> {
        self.slots[usize::from(slot)].0
    }

    /// The epoch in which the slot got its primary.
    pub fn tenure(&self, slot: Slot) -> u64 {
        self.slots[usize::from(slot)].1
    }

    /// Neighbouring slots that got their primaries in the same epoch: how many, and the epoch.
    pub fn tenures(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &(_, tenure) in &self.slots {
            match runs.last_mut() {
                Some(run) if run.1 == tenure => run.0 += 1,
                _ => runs.push((1, tenure)),
            }
        }
        runs
    }

    /// Takes the epochs of appointments over from a member whose view has this epoch; those of
    /// later ones are known here.
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

    /// Takes the next view over, which says something else of these runs; `lost` is called with each
    /// slot that a primary has lost.
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
