//! The homes of the slots whose changes a node orders, as `WAIT` and `WAITAOF` count them. They are
//! made once for each view, so that to count takes a look at each set of homes, not at each slot.

use crate::lanes::lane_of;
use crate::slot_map::Node;
use crate::view::{NodeSet, View};
use crate::wire::LANES;
use std::collections::BTreeMap;

/// The different sets of homes, each with the lanes of its slots.
#[derive(Debug, Default)]
pub struct OwnHomes(Vec<(NodeSet, u16)>);

impl OwnHomes {
    /// Those of the slots of which `me` is the primary.
    pub fn of(me: Node, view: &View) -> Self {
        let mut lanes: BTreeMap<u64, u16> = BTreeMap::new();
        for range in view.slots.ranges().iter().filter(|range| range.homes.first() == Some(&me)) {
            let homes: NodeSet = range.homes.iter().copied().collect();
            let of_homes = lanes.entry(homes.0).or_default();
            // Neighbouring slots are in different lanes.
            let slots = (range.first..=range.last).take(LANES);
            slots.for_each(|slot| *of_homes |= 1 << lane_of(slot));
        }
        OwnHomes(lanes.into_iter().map(|(homes, lanes)| (NodeSet(homes), lanes)).collect())
    }

    /// The sets of homes, this node's number in each.
    pub fn sets(&self) -> impl Iterator<Item = NodeSet> {
        self.0.iter().map(|&(homes, _)| homes)
    }

    /// How many of the members that have `applied` each lane are homes of a slot: the fewest of all
    /// slots; none if this node orders none.
    pub(crate) fn fewest(&self, applied: &[NodeSet; LANES]) -> Option<usize> {
        let counts = self.0.iter().flat_map(|&(homes, lanes)| {
            let of_homes = (0..LANES).filter(move |lane| lanes >> lane & 1 != 0);
            of_homes.map(move |lane| (homes.0 & applied[lane].0).count_ones() as usize)
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

    const HOMES: [&[Node]; 5] = [
        &[Node(0), Node(1)],
        &[Node(0), Node(2), Node(3)],
        &[Node(1), Node(0)],
        &[Node(0), Node(3), Node(2)],
        &[],
    ];

    /// A view whose slots have homes by turns, in runs of this length.
    fn view(run: Slot) -> View {
        let slots = SlotMap::collect(|slot| HOMES[usize::from(slot / run) % HOMES.len()]);
        let members = (0..4).map(|node| Identity { node: Node(node), incarnation: 1 }).collect();
        View { epoch: 1, members, slots, incoming: Some(SlotMap::default()) }
    }

    #[test]
    fn the_fewest_of_all_slots_are_counted() {
        for run in [1, 7, 16, 333, SLOTS] {
            let view = view(run);
            let own = OwnHomes::of(Node(0), &view);
            assert!(own.sets().count() <= 2, "sets that are alike are one");
            for round in 0..64_u64 {
                // Numbers that differ from lane to lane.
                let applied = std::array::from_fn(|lane| {
                    NodeSet((round + 1).wrapping_mul(0x9E37_79B9 + lane as u64) >> 7 & 0b1110)
                });
                let slots = (0..SLOTS).filter(|&slot| view.slots.primary(slot) == Some(Node(0)));
                let counts = slots.map(|slot| {
                    let homes = view.slots.homes(slot).iter();
                    homes.filter(|home| applied[lane_of(slot)].contains(**home)).count()
                });
                assert_eq!(own.fewest(&applied), counts.min(), "runs of {run}, round {round}");
            }
        }
        assert_eq!(OwnHomes::of(Node(3), &view(7)).fewest(&Default::default()), None);
    }
}
