//! Owners of the slots of which a node is primary, as `WAIT` and `WAITAOF` count them. Computed
//! once for each view, so that counting looks at each distinct set of owners, not at each slot.

use crate::lanes::lane_of;
use crate::slot_map::Node;
use crate::view::{NodeSet, View};
use crate::wire::LANES;
use std::collections::BTreeMap;

/// The distinct sets of owners, each with a bit mask of its slots' lanes.
#[derive(Debug, Default)]
pub struct SlotOwners(Vec<(NodeSet, u16)>);

impl SlotOwners {
    /// Computes the sets for the slots of which `me` is primary.
    pub fn of(me: Node, view: &View) -> Self {
        let mut lanes: BTreeMap<u64, u16> = BTreeMap::new();
        for range in view.slots.ranges().iter().filter(|range| range.owners.first() == Some(&me)) {
            let owners: NodeSet = range.owners.iter().copied().collect();
            let of_owners = lanes.entry(owners.0).or_default();
            // Adjacent slots are in different lanes.
            let slots = (range.first..=range.last).take(LANES);
            slots.for_each(|slot| *of_owners |= 1 << lane_of(slot));
        }
        SlotOwners(lanes.into_iter().map(|(owners, lanes)| (NodeSet(owners), lanes)).collect())
    }

    /// The sets of owners; each contains this node.
    pub fn sets(&self) -> impl Iterator<Item = NodeSet> {
        self.0.iter().map(|&(owners, _)| owners)
    }

    /// Minimum over all slots of the number of these owners; none if this node is primary of no
    /// slot.
    pub fn fewest_of(&self, some: NodeSet) -> Option<usize> {
        self.fewest(&[some; LANES])
    }

    /// Minimum over all slots of the number of owners that have `applied` the slot's lane; none if
    /// this node is primary of no slot.
    pub(crate) fn fewest(&self, applied: &[NodeSet; LANES]) -> Option<usize> {
        let counts = self.0.iter().flat_map(|&(owners, lanes)| {
            let of_owners = (0..LANES).filter(move |lane| lanes >> lane & 1 != 0);
            of_owners.map(move |lane| (owners.0 & applied[lane].0).count_ones() as usize)
        });
        counts.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{SLOTS, Slot};
    use crate::slot_map::SlotMap;
    use crate::view::Identity;

    const OWNERS: [&[Node]; 5] = [
        &[Node(0), Node(1)],
        &[Node(0), Node(2), Node(3)],
        &[Node(1), Node(0)],
        &[Node(0), Node(3), Node(2)],
        &[],
    ];

    /// A view that gives the slots the owners in turn, in runs of this length.
    fn view(run: Slot) -> View {
        let slots = SlotMap::collect(|slot| OWNERS[usize::from(slot / run) % OWNERS.len()]);
        let members = (0..4).map(|node| Identity { node: Node(node), incarnation: 1 }).collect();
        View { epoch: 1, members, slots, incoming: Some(SlotMap::default()) }
    }

    #[test]
    fn the_fewest_of_all_slots_are_counted() {
        for run in [1, 7, 16, 333, SLOTS] {
            let view = view(run);
            let own = SlotOwners::of(Node(0), &view);
            assert!(own.sets().count() <= 2, "sets that are alike are one");
            for round in 0..64_u64 {
                // Varies from lane to lane.
                let applied = std::array::from_fn(|lane| {
                    NodeSet((round + 1).wrapping_mul(0x9E37_79B9 + lane as u64) >> 7 & 0b1110)
                });
                let slots = (0..SLOTS).filter(|&slot| view.slots.primary(slot) == Some(Node(0)));
                let counts = slots.map(|slot| {
                    let owners = view.slots.owners(slot).iter();
                    owners.filter(|owner| applied[lane_of(slot)].contains(**owner)).count()
                });
                assert_eq!(own.fewest(&applied), counts.min(), "runs of {run}, round {round}");
            }
        }
        assert_eq!(SlotOwners::of(Node(3), &view(7)).fewest(&Default::default()), None);
    }
}
