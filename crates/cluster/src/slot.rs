//! Sets of hash slots.

pub use petrel_keyspace::hash_slot::{SLOTS, Slot, slot_of};

/// A set of slots.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlotSet(Box<[u64]>);

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet(vec![0; usize::from(SLOTS).div_ceil(64)].into())
    }
}

impl SlotSet {
    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        self.0[usize::from(slot / 64)] |= 1 << (slot % 64);
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: Slot) {
        self.0[usize::from(slot / 64)] &= !(1 << (slot % 64));
    }

    /// Whether the set contains a slot.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[usize::from(slot / 64)] >> (slot % 64) & 1 != 0
    }

    /// Adds the slots of another set.
    pub fn unite(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// The subset of slots that `mask` selects within each group of 64.
    pub fn masked(&self, mask: u64) -> SlotSet {
        SlotSet(self.0.iter().map(|word| word & mask).collect())
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The slots, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        (0..).zip(&self.0).flat_map(|(at, &word)| {
            let next = |word: &u64| Some(word & (word - 1)).filter(|rest| *rest != 0);
            let words = std::iter::successors(Some(word).filter(|word| *word != 0), next);
            words.map(move |word| at * 64 + word.trailing_zeros() as Slot)
        })
    }

    /// Maximal ranges of adjacent slots: first and last of each.
    pub fn ranges(&self) -> Vec<(Slot, Slot)> {
        let mut ranges: Vec<(Slot, Slot)> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(range) if range.1 + 1 == slot => range.1 = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = SlotSet::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_slots_are_runs() {
        let slots = [0, 1, 2, 63, 64, 65, 700, SLOTS - 1];
        let set: SlotSet = slots.into_iter().collect();
        assert!(set.iter().eq(slots) && set.contains(64) && !set.contains(66));
        let last = SLOTS - 1;
        assert_eq!(set.ranges(), [(0, 2), (63, 65), (700, 700), (last, last)]);
        assert!(!set.is_empty() && SlotSet::default().is_empty());
        let mut third = set.masked(4);
        assert!(third.iter().eq([2]));
        third.unite(&set.masked(1));
        assert!(third.iter().eq([0, 2, 64]));
    }
}
