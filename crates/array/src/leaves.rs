//! Slices by number: a list of leaves, each a short list of slices.
//!
//! A slice is inserted into its leaf; a full leaf is divided, unless the new slice is the last of
//! all. So neither list moves more than some kilobytes for a slice, until there are a hundred
//! million of them.

use crate::slice::Slice;
use crate::{block, give_back, reserve};

/// Slices of a leaf at most.
const LEAF_MAX: usize = 128;

/// A slice with its number.
#[derive(Clone, Debug)]
pub struct Entry {
    pub number: u64,
    pub slice: Slice,
}

#[derive(Clone, Debug)]
struct Leaf {
    /// The number of its first slice.
    first: u64,
    /// Never empty.
    entries: Vec<Entry>,
}

/// The place of a slice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    leaf: usize,
    entry: usize,
}

/// Slices by number.
#[derive(Debug, Default)]
pub struct Leaves {
    leaves: Vec<Leaf>,
    /// The number of slices.
    len: usize,
    /// Bytes of all blocks, those of slices among them.
    bytes: usize,
    /// About the number of blocks of all slices.
    blocks: usize,
}

impl Leaves {
    /// The number of slices.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.bytes + block(&self.leaves)
    }

    /// About the number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks + self.leaves.len()
    }

    /// The place of the first slice with this number or a greater one.
    pub fn seek(&self, number: u64) -> Place {
        let leaf = self.leaves.partition_point(|leaf| leaf.first <= number).saturating_sub(1);
        let entry = self
            .leaves
            .get(leaf)
            .map_or(0, |leaf| leaf.entries.partition_point(|entry| entry.number < number));
        self.settle(Place { leaf, entry })
    }

    /// A place behind the end of a leaf is at the beginning of the next.
    fn settle(&self, place: Place) -> Place {
        match self.leaves.get(place.leaf) {
            Some(leaf) if place.entry >= leaf.entries.len() => {
                Place { leaf: place.leaf + 1, entry: 0 }
            }
            _ => place,
        }
    }

    /// The slice at a place; none behind the last.
    pub fn at(&self, place: Place) -> Option<&Entry> {
        self.leaves.get(place.leaf)?.entries.get(place.entry)
    }

    /// The place after one with a slice.
    pub fn next(&self, place: Place) -> Place {
        self.settle(Place { entry: place.entry + 1, ..place })
    }

    /// The place before another, if there is one.
    pub fn previous(&self, place: Place) -> Option<Place> {
        if let Some(entry) = place.entry.checked_sub(1) {
            return Some(Place { entry, ..place });
        }
        let leaf = place.leaf.checked_sub(1)?;
        Some(Place { leaf, entry: self.leaves[leaf].entries.len() - 1 })
    }

    /// The last slice.
    pub fn last(&self) -> Option<&Entry> {
        self.leaves.last()?.entries.last()
    }

    /// The number of slices from a number to another. Takes time by the number of leaves.
    pub fn count_between(&self, first: u64, last: u64) -> usize {
        let from = self.seek(first);
        let until = last
            .checked_add(1)
            .map_or(Place { leaf: self.leaves.len(), entry: 0 }, |n| self.seek(n));
        let leaves = self.leaves.get(from.leaf..until.leaf).unwrap_or_default();
        let whole: usize = leaves.iter().map(|leaf| leaf.entries.len()).sum();
        (whole + until.entry).saturating_sub(from.entry)
    }

    /// The slice of a number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&Slice> {
        self.at(self.seek(number)).filter(|entry| entry.number == number).map(|entry| &entry.slice)
    }

    /// Changes the slice of a number, which is made if there is none, and removed once it is empty.
    pub fn change<R>(&mut self, number: u64, change: impl FnOnce(&mut Slice) -> R) -> R {
        let place = self.seek(number);
        let is_there = self.at(place).is_some_and(|entry| entry.number == number);
        let place = if is_there { place } else { self.insert(number) };
        let slice = &mut self.leaves[place.leaf].entries[place.entry].slice;
        let before = (slice.allocated(), slice.blocks());
        let changed = change(slice);
        let is_empty = matches!(slice, Slice::Few(few) if few.len() == 0);
        self.bytes = self.bytes + slice.allocated() - before.0;
        self.blocks = self.blocks + slice.blocks() - before.1;
        if is_empty {
            self.remove_at(place.leaf, place.entry..place.entry + 1);
            self.drop_leaves(place.leaf..place.leaf + 1);
        }
        changed
    }

    /// Inserts an empty slice with a number that no slice has.
    fn insert(&mut self, number: u64) -> Place {
        let mut leaf = self.leaves.partition_point(|leaf| leaf.first <= number).saturating_sub(1);
        let is_last = leaf + 1 >= self.leaves.len();
        let mut entry = self
            .leaves
            .get(leaf)
            .map_or(0, |leaf| leaf.entries.partition_point(|entry| entry.number < number));
        let len = self.leaves.get(leaf).map(|leaf| leaf.entries.len());
        match len {
            None => self.insert_leaf(0, Leaf { first: number, entries: Vec::new() }),
            Some(len) if len < LEAF_MAX => {}
            Some(len) if is_last && entry == len => {
                leaf += 1;
                entry = 0;
                self.insert_leaf(leaf, Leaf { first: number, entries: Vec::new() });
            }
            Some(len) => {
                let entries = &mut self.leaves[leaf].entries;
                let before = block(entries);
                let behind = entries.split_off(len / 2);
                entries.shrink_to_fit();
                self.bytes = self.bytes + block(entries) - before;
                self.insert_leaf(leaf + 1, Leaf { first: behind[0].number, entries: behind });
                if entry > len / 2 {
                    leaf += 1;
                    entry -= len / 2;
                }
            }
        }
        let slice = Slice::empty();
        self.bytes += slice.allocated();
        self.blocks += slice.blocks();
        self.len += 1;
        let into = &mut self.leaves[leaf];
        let before = block(&into.entries);
        reserve(&mut into.entries, 1);
        into.entries.insert(entry, Entry { number, slice });
        into.first = into.first.min(number);
        self.bytes = self.bytes + block(&into.entries) - before;
        Place { leaf, entry }
    }

    fn insert_leaf(&mut self, at: usize, leaf: Leaf) {
        self.bytes += block(&leaf.entries);
        reserve(&mut self.leaves, 1);
        self.leaves.insert(at, leaf);
    }

    /// Removes slices from a leaf, which may be empty then.
    fn remove_at(&mut self, leaf: usize, entries: std::ops::Range<usize>) {
        let from = &mut self.leaves[leaf];
        let before = block(&from.entries);
        for entry in from.entries.drain(entries) {
            self.bytes -= entry.slice.allocated();
            self.blocks -= entry.slice.blocks();
            self.len -= 1;
        }
        give_back(&mut from.entries);
        if let Some(entry) = from.entries.first() {
            from.first = entry.number;
        }
        self.bytes = self.bytes + block(&from.entries) - before;
    }

    /// Drops the empty ones of some leaves, and joins the first that is left with its neighbour if
    /// both are short.
    fn drop_leaves(&mut self, among: std::ops::Range<usize>) {
        let is_empty = |leaf: &Leaf| leaf.entries.is_empty();
        let empty: Vec<usize> = among.clone().filter(|&i| is_empty(&self.leaves[i])).collect();
        if let (Some(&first), Some(&last)) = (empty.first(), empty.last()) {
            for leaf in self.leaves.drain(first..=last) {
                self.bytes -= block(&leaf.entries);
            }
            give_back(&mut self.leaves);
        }
        let at = among.start.min(self.leaves.len().saturating_sub(1));
        let Some([one, other]) = self.leaves.get_mut(at..).and_then(|some| some.get_mut(..2))
        else {
            return;
        };
        if one.entries.len() + other.entries.len() <= LEAF_MAX / 2 {
            let before = block(&one.entries) + block(&other.entries);
            let moved = std::mem::take(&mut other.entries);
            reserve(&mut one.entries, moved.len());
            one.entries.extend(moved);
            self.bytes = self.bytes + block(&one.entries) - before;
            self.leaves.remove(at + 1);
        }
    }

    /// Removes the slices from a number to another, and returns the number of their elements.
    pub fn remove_between(&mut self, first: u64, last: u64) -> u64 {
        let from = self.seek(first);
        let (mut leaf, mut elements) = (from.leaf, 0);
        while self.leaves.get(leaf).is_some_and(|leaf| leaf.first <= last) {
            let entries = &self.leaves[leaf].entries;
            let lo = entries.partition_point(|entry| entry.number < first);
            let hi = entries.partition_point(|entry| entry.number <= last);
            elements += entries[lo..hi].iter().map(|entry| entry.slice.len() as u64).sum::<u64>();
            self.remove_at(leaf, lo..hi);
            leaf += 1;
        }
        if leaf > from.leaf {
            self.drop_leaves(from.leaf..leaf);
        }
        elements
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Self {
        let mut copy = Leaves { len: self.len, blocks: self.blocks, ..Leaves::default() };
        copy.leaves.reserve_exact(self.leaves.len());
        for leaf in &self.leaves {
            let entries: Vec<Entry> = leaf
                .entries
                .iter()
                .map(|Entry { number, slice }| Entry { number: *number, slice: slice.duplicate() })
                .collect();
            copy.bytes += block(&entries);
            copy.bytes += entries.iter().map(|entry| entry.slice.allocated()).sum::<usize>();
            copy.leaves.push(Leaf { first: leaf.first, entries });
        }
        copy
    }

    /// Bytes of all blocks, counted one by one.
    #[cfg(test)]
    pub fn bytes_counted(&self) -> usize {
        let leaf = |leaf: &Leaf| {
            let slices = leaf.entries.iter().map(|entry| entry.slice.allocated());
            block(&leaf.entries) + slices.sum::<usize>()
        };
        block(&self.leaves) + self.leaves.iter().map(leaf).sum::<usize>()
    }
}
