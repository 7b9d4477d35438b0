//! Which nodes hold which slots.

use crate::slot::{SLOTS, Slot};
use std::ops::RangeInclusive;

/// Number of a member of the cluster; never used again for another one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Node(pub u16);

/// Neighbouring slots with the same homes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlotRange {
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// The nodes that hold the slots whatever is read: the primary, which orders the changes, then
    /// the backups. All different.
    pub homes: Box<[Node]>,
}

/// Who holds each slot.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SlotMap {
    /// In order of slots; slots that are in none have no home.
    ranges: Vec<SlotRange>,
    /// By the first of [`STEP`] slots: how many ranges end before it.
    index: Box<[u16]>,
}

/// Slots of an entry of the index.
const STEP: u16 = 64;

/// Neighbouring slots of which several maps say the same, in order: they cover all slots.
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
    /// A map of what `homes` says of each slot: its primary, then its backups.
    pub fn collect<'a>(homes: impl Fn(Slot) -> &'a [Node]) -> Self {
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in 0..SLOTS {
            let homes = homes(slot);
            match ranges.last_mut() {
                Some(range) if range.last + 1 == slot && *range.homes == *homes => {
                    range.last = slot;
                }
                _ if homes.is_empty() => {}
                _ => ranges.push(SlotRange { first: slot, last: slot, homes: homes.into() }),
            }
        }
        let before = |slot| ranges.partition_point(|range| range.last < slot) as u16;
        let index = (0..SLOTS).step_by(STEP.into()).map(before).collect();
        SlotMap { ranges, index }
    }

    /// The ranges, in order of slots; neighbours differ.
    pub fn ranges(&self) -> &[SlotRange] {
        &self.ranges
    }

    /// The homes of a slot: the primary, then the backups; none if nobody holds it.
    pub fn homes(&self, slot: Slot) -> &[Node] {
        let Some(&before) = self.index.get(usize::from(slot / STEP)) else { return &[] };
        let mut ranges = self.ranges[before.into()..].iter();
        match ranges.find(|range| slot <= range.last) {
            Some(range) if range.first <= slot => &range.homes,
            _ => &[],
        }
    }

    /// The node that orders the changes of a slot.
    pub fn primary(&self, slot: Slot) -> Option<Node> {
        self.homes(slot).first().copied()
    }

    /// Where each range of one primary begins and ends: what `CLUSTER SLOTS` shows.
    pub fn primaries(&self) -> Vec<(Slot, Slot, Node)> {
        let mut runs: Vec<(Slot, Slot, Node)> = Vec::new();
        for range in &self.ranges {
            let Some(&primary) = range.homes.first() else { continue };
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
        assert_eq!((map.homes(99), map.homes(100), map.homes(101)), (&ab[..], &[][..], &a[..]));
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
