//! Map from slots to their owners.

use crate::slot::{SLOTS, Slot};
use std::ops::RangeInclusive;

/// Node number of a member; never reused for another node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Node(pub u16);

/// Adjacent slots with the same owners.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlotRange {
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// The nodes that hold all data of the slots: the primary, which orders the changes, then the
    /// backups. No duplicates.
    pub owners: Box<[Node]>,
}

/// The owners of each slot.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SlotMap {
    /// In order of slots; slots outside of all ranges have no owner.
    ranges: Vec<SlotRange>,
    /// By group of [`STEP`] slots: the number of ranges that end before it.
    index: Box<[u16]>,
}

/// Slots per entry of the index.
const STEP: u16 = 64;

/// Maximal runs of slots within which each of the maps is constant; in order, covering all slots.
pub(crate) fn common_runs<'a>(
    maps: impl IntoIterator<Item = &'a SlotMap>,
) -> Vec<RangeInclusive<Slot>> {
    let ranges = maps.into_iter().flat_map(|map| &map.ranges);
    let mut ends: Vec<Slot> = ranges
        .flat_map(|range| [range.first.checked_sub(1), Some(range.last)])
        .flatten()
        .chain([SLOTS - 1])
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let mut first = 0;
    let run = |last| RangeInclusive::new(std::mem::replace(&mut first, last + 1), last);
    ends.into_iter().map(run).collect()
}

impl SlotMap {
    /// Builds the map from a function of each slot's owners, the primary first.
    pub fn collect<'a>(owners: impl Fn(Slot) -> &'a [Node]) -> Self {
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in 0..SLOTS {
            let owners = owners(slot);
            match ranges.last_mut() {
                Some(range) if range.last + 1 == slot && *range.owners == *owners => {
                    range.last = slot;
                }
                _ if owners.is_empty() => {}
                _ => ranges.push(SlotRange { first: slot, last: slot, owners: owners.into() }),
            }
        }
        let before = |slot| ranges.partition_point(|range| range.last < slot) as u16;
        let index = (0..SLOTS).step_by(STEP.into()).map(before).collect();
        SlotMap { ranges, index }
    }

    /// The ranges, in order of slots; adjacent ones differ.
    pub fn ranges(&self) -> &[SlotRange] {
        &self.ranges
    }

    /// The owners of a slot: the primary, then the backups; empty if it has none.
    pub fn owners(&self, slot: Slot) -> &[Node] {
        let Some(&before) = self.index.get(usize::from(slot / STEP)) else { return &[] };
        let mut ranges = self.ranges[before.into()..].iter();
        match ranges.find(|range| slot <= range.last) {
            Some(range) if range.first <= slot => &range.owners,
            _ => &[],
        }
    }

    /// The primary of a slot.
    pub fn primary(&self, slot: Slot) -> Option<Node> {
        self.owners(slot).first().copied()
    }

    /// First slot, last slot and primary of each range, as `CLUSTER SLOTS` lists them.
    pub fn primaries(&self) -> Vec<(Slot, Slot, Node)> {
        let mut runs: Vec<(Slot, Slot, Node)> = Vec::new();
        for range in &self.ranges {
            let Some(&primary) = range.owners.first() else { continue };
            match runs.last_mut() {
                Some(run) if run.1 + 1 == range.first && run.2 == primary => run.1 = range.last,
                _ => runs.push((range.first, range.last, primary)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_in_ranges() {
        let (ab, ba, a) = ([Node(1), Node(2)], [Node(2), Node(1)], [Node(1)]);
        let map = SlotMap::collect(|slot| match slot {
            0..=99 => &ab,
            100 => &[],
            101..=200 => &a,
            201..=16_000 => &ba,
            _ => &[],
        });
        assert_eq!(map.ranges().len(), 3);
        assert_eq!((map.owners(99), map.owners(100), map.owners(101)), (&ab[..], &[][..], &a[..]));
        assert_eq!((map.primary(16_000), map.primary(16_001)), (Some(Node(2)), None));
        let runs = [(0, 99, Node(1)), (101, 200, Node(1)), (201, 16_000, Node(2))];
        assert_eq!(map.primaries(), runs);
        let runs = [0..=99, 100..=100, 101..=200, 201..=16_000, 16_001..=SLOTS - 1];
        assert_eq!(common_runs([&map]), runs);
        let merged = SlotMap::collect(|slot| if slot < 50 { &ab } else { &a });
        assert_eq!(merged.primaries(), [(0, SLOTS - 1, Node(1))]);
        let runs = [0..=49, 50..=99, 100..=100, 101..=200, 201..=16_000, 16_001..=SLOTS - 1];
        assert_eq!(common_runs([&merged, &map]), runs);
        assert_eq!(common_runs([]), [0..=SLOTS - 1]);
    }
}
