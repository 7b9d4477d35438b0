//! The array: changes, ranges, the insert cursor, rings.

use crate::element::Element;
use crate::leaves::{Leaves, Place};
use crate::slice::{at, split};
use crate::snapshot::{Part, Taking};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// The greatest index.
pub const INDEX_MAX: u64 = u64::MAX - 1;

/// Strings by index, and the index at which one was inserted last.
#[derive(Debug, Default)]
pub struct Array {
    leaves: Leaves,
    count: u64,
    cursor: Option<u64>,
    taking: Option<Box<Taking>>,
}

/// Figures of an array's slices, in slices of a given size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SliceFigures {
    /// Slices with at least as many elements as asked for.
    pub dense: u64,
    /// Others.
    pub sparse: u64,
    /// Positions of dense slices: of each the power of two that spans its elements.
    pub dense_positions: u64,
    /// Elements of dense slices.
    pub dense_elements: u64,
    /// Positions of sparse slices: of each the power of two that holds its elements.
    pub sparse_positions: u64,
}

/// An element with text of its own.
enum Kept {
    Int(i64),
    Text(Box<[u8]>),
}

impl Kept {
    fn of(element: Element<'_>) -> Self {
        match element {
            Element::Int(number) => Kept::Int(number),
            Element::Text(text) => Kept::Text(text.into()),
        }
    }

    fn element(&self) -> Element<'_> {
        match self {
            Kept::Int(number) => Element::Int(*number),
            Kept::Text(text) => Element::Text(text),
        }
    }
}

/// Least number of positions of a dense slice.
const POSITIONS_MIN: u64 = 8;

impl Array {
    /// Number of elements.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest index with an element, plus one.
    pub fn len(&self) -> u64 {
        let last = self.leaves.last().and_then(|entry| Some(at(entry.number, entry.slice.last()?)));
        last.map_or(0, |last| last + 1)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The index at which an element was inserted last; none if there was none, or the cursor was
    /// set to 0.
    pub fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    /// The index at which an element is inserted next; none behind the greatest index.
    pub fn next_insert(&self) -> Option<u64> {
        match self.cursor {
            None => Some(0),
            Some(cursor) => (cursor < INDEX_MAX).then(|| cursor + 1),
        }
    }

    /// Sets the cursor, so that `next` is the index of the next insertion.
    pub fn seek(&mut self, next: u64) {
        self.cursor = next.checked_sub(1);
    }

    /// Number of slices of 256 indexes with elements.
    pub fn slices(&self) -> usize {
        self.leaves.len()
    }

    /// Number of slices between two indexes. Takes time by the number of leaves.
    pub fn slices_between(&self, lo: u64, hi: u64) -> usize {
        self.leaves.count_between(split(lo).0, split(hi).0)
    }

    /// The element at an index.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Element<'_>> {
        let (number, offset) = split(index);
        self.leaves.get(number)?.get(offset)
    }

    fn keep(&mut self, number: u64) {
        if let Some(taking) = &mut self.taking {
            taking.keep(&self.leaves, number);
        }
    }

    /// Sets the element at an index; returns whether there was none.
    ///
    /// # Panics
    /// If the index is beyond the greatest.
    pub fn set(&mut self, index: u64, element: Element<'_>) -> bool {
        assert!(index <= INDEX_MAX, "an index beyond the greatest");
        let (number, offset) = split(index);
        self.keep(number);
        let is_new = self.leaves.change(number, |slice| slice.set(offset, element));
        self.count += u64::from(is_new);
        is_new
    }

    /// Removes the element at an index; returns whether there was one.
    pub fn remove(&mut self, index: u64) -> bool {
        self.remove_between(index, index) == 1
    }

    /// Removes all elements from an index to another; returns their number.
    pub fn remove_between(&mut self, lo: u64, hi: u64) -> u64 {
        let ((first, from), (last, until)) = (split(lo), split(hi));
        let removed = if first == last {
            self.remove_within(first, from, until)
        } else {
            let mut removed = 0;
            let (mut whole, mut whole_last) = (first, last);
            if from > 0 {
                removed += self.remove_within(first, from, u8::MAX);
                whole += 1;
            }
            if until < u8::MAX {
                removed += self.remove_within(last, 0, until);
                whole_last -= 1;
            }
            if whole <= whole_last {
                if let Some(taking) = &mut self.taking {
                    taking.keep_between(&self.leaves, whole, whole_last);
                }
                removed += self.leaves.remove_between(whole, whole_last);
            }
            removed
        };
        self.count -= removed;
        removed
    }

    fn remove_within(&mut self, number: u64, lo: u8, hi: u8) -> u64 {
        let slice = self.leaves.get(number);
        if slice.is_none_or(|slice| slice.count_between(lo, hi) == 0) {
            return 0;
        }
        self.keep(number);
        self.leaves.change(number, |slice| slice.remove_between(lo, hi)) as u64
    }

    /// Number of elements from an index to another.
    pub fn count_between(&self, lo: u64, hi: u64) -> u64 {
        let ((first, from), (last, until)) = (split(lo), split(hi));
        let (mut place, mut count) = (self.leaves.seek(first), 0);
        while let Some(entry) = self.leaves.at(place).filter(|entry| entry.number <= last) {
            let lo = if entry.number == first { from } else { 0 };
            let hi = if entry.number == last { until } else { u8::MAX };
            count += entry.slice.count_between(lo, hi) as u64;
            place = self.leaves.next(place);
        }
        count
    }

    /// Passes on the elements from an index to another, in descending order if the first is the
    /// greater one.
    pub fn each<B>(
        &self,
        from: u64,
        to: u64,
        take: &mut dyn FnMut(u64, Element<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let is_reverse = from > to;
        let (lo, hi) = (from.min(to), from.max(to));
        let ((first, least), (last, most)) = (split(lo), split(hi));
        let mut place = self.first_place(is_reverse, first, last);
        while let Some(found) = place {
            let Some(entry) = self.leaves.at(found) else { break };
            let number = entry.number;
            if number < first || number > last {
                break;
            }
            let lo = if number == first { least } else { 0 };
            let hi = if number == last { most } else { u8::MAX };
            entry.slice.each((lo, hi), is_reverse, &mut |offset, element| {
                take(at(number, offset), element)
            })?;
            place = if is_reverse {
                self.leaves.previous(found)
            } else {
                Some(self.leaves.next(found))
            };
        }
        ControlFlow::Continue(())
    }

    fn first_place(&self, is_reverse: bool, first: u64, last: u64) -> Option<Place> {
        if !is_reverse {
            return Some(self.leaves.seek(first));
        }
        // Numbers of slices end far below the greatest number.
        self.leaves.previous(self.leaves.seek(last + 1))
    }

    /// Inserts elements at the cursor and the indexes after it, and returns the index of the last;
    /// none if an index would be beyond the greatest: nothing has changed then.
    pub fn insert<'a>(
        &mut self,
        elements: impl ExactSizeIterator<Item = Element<'a>>,
    ) -> Option<u64> {
        let first = self.next_insert()?;
        let last = first.checked_add(elements.len().checked_sub(1)? as u64)?;
        if last > INDEX_MAX {
            return None;
        }
        for (index, element) in (first..=last).zip(elements) {
            self.set(index, element);
        }
        self.cursor = Some(last);
        Some(last)
    }

    /// The elements that a ring of another size is rebuilt with; none if it stays as it is.
    fn must_rebuild(&self, size: u64) -> bool {
        let len = self.len();
        let is_wrapped = self.cursor.is_some_and(|cursor| cursor.saturating_add(1) < len);
        size < len || size > len && is_wrapped
    }

    /// The number of elements that [`Array::ring`] may have to move.
    pub fn ring_moves(&self, size: u64) -> u64 {
        if self.must_rebuild(size) { self.count } else { 0 }
    }

    /// Inserts elements into a ring of this size: each at the index after the cursor, modulo the
    /// size. Returns the index of the last. A ring of another size is first rebuilt: the elements
    /// up to the cursor, back to the first index without one, get the indexes from 0 on.
    pub fn ring<'a>(
        &mut self,
        size: u64,
        elements: impl Iterator<Item = Element<'a>>,
    ) -> Option<u64> {
        if size == 0 {
            return None;
        }
        if self.must_rebuild(size) {
            self.rebuild(size);
        }
        for element in elements {
            let index = self.cursor.map_or(0, |cursor| (cursor + 1) % size);
            self.set(index, element);
            self.cursor = Some(index);
        }
        self.cursor
    }

    fn rebuild(&mut self, size: u64) {
        let Some(cursor) = self.cursor else {
            self.remove_between(size, INDEX_MAX);
            return;
        };
        let mut kept: VecDeque<Kept> = VecDeque::new();
        let mut expected = cursor;
        let mut take = |index: u64, element: Element<'_>, expected: &mut u64| {
            if index != *expected || kept.len() as u64 == size {
                return ControlFlow::Break(());
            }
            kept.push_front(Kept::of(element));
            *expected = expected.wrapping_sub(1);
            ControlFlow::Continue(())
        };
        let back =
            self.each_back(cursor, 0, &mut |index, element| take(index, element, &mut expected));
        // All the way to index 0: on from the end.
        if back.is_continue() && expected == u64::MAX && cursor + 1 < self.len() {
            expected = self.len() - 1;
            let end = cursor + 1;
            let _ = self.each_back(expected, end, &mut |index, element| {
                take(index, element, &mut expected)
            });
        }
        self.remove_between(0, INDEX_MAX);
        self.cursor = (kept.len() as u64).checked_sub(1);
        for (index, kept) in (0..).zip(&kept) {
            self.set(index, kept.element());
        }
    }

    /// Like [`Array::each`] in descending order, also where both indexes are the same.
    fn each_back(
        &self,
        from: u64,
        to: u64,
        take: &mut dyn FnMut(u64, Element<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match from == to {
            true => self.get(from).map_or(ControlFlow::Continue(()), |element| take(from, element)),
            false => self.each(from, to, take),
        }
    }

    /// The ranges of indexes of the last `count` positions up to the cursor, the newest first: each
    /// from an index down to another. Without a cursor, or with one behind the last element, they
    /// end at the last element.
    pub fn last_positions(&self, count: u64) -> [Option<(u64, u64)>; 2] {
        let len = self.len();
        let count = count.min(len);
        if count == 0 {
            return [None, None];
        }
        let newest = self.cursor.map_or(len - 1, |cursor| cursor.min(len - 1));
        let before = count.min(newest + 1);
        let rest = count - before;
        let wrapped = (rest > 0).then(|| (len - 1, len - rest));
        [Some((newest, newest + 1 - before)), wrapped]
    }

    /// Figures of its slices, as if they had this size and were dense from this number of elements
    /// on. `look` is called for each of our slices, and may end it.
    pub fn figures<B>(
        &self,
        size: u64,
        dense_min: u64,
        look: &mut dyn FnMut() -> ControlFlow<B>,
    ) -> ControlFlow<B, SliceFigures> {
        let mut figures = SliceFigures::default();
        let mut slice: Option<(u64, u64, u64, u64)> = None;
        let mut end = |(_, elements, first, last): (u64, u64, u64, u64)| {
            if elements >= dense_min {
                figures.dense += 1;
                figures.dense_elements += elements;
                let span = (last - first + 1).next_power_of_two();
                figures.dense_positions += span.max(POSITIONS_MIN).min(size);
            } else {
                figures.sparse += 1;
                figures.sparse_positions += elements.next_power_of_two();
            }
        };
        let mut place = self.leaves.seek(0);
        while let Some(entry) = self.leaves.at(place) {
            look()?;
            let _ = entry.slice.each((0, u8::MAX), false, &mut |offset, _| {
                let index = at(entry.number, offset);
                match &mut slice {
                    Some((number, elements, _, last)) if *number == index / size => {
                        *elements += 1;
                        *last = index;
                    }
                    _ => slice
                        .replace((index / size, 1, index, index))
                        .into_iter()
                        .for_each(&mut end),
                }
                ControlFlow::<()>::Continue(())
            });
            place = self.leaves.next(place);
        }
        slice.into_iter().for_each(end);
        ControlFlow::Continue(figures)
    }

    /// Bytes of all its blocks, without slices that a snapshot keeps.
    pub fn allocated(&self) -> usize {
        self.leaves.bytes()
    }

    /// About the number of its blocks.
    pub fn blocks(&self) -> usize {
        self.leaves.blocks()
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Self {
        let Array { leaves, count, cursor, .. } = self;
        Array { leaves: leaves.duplicate(), count: *count, cursor: *cursor, taking: None }
    }

    /// Keeps the array as it is for a snapshot.
    pub fn begin_snapshot(&mut self) {
        self.taking = Some(Box::new(Taking::begin()));
    }

    /// Hands out the next part of the snapshot; false at the end.
    pub fn next_part(&mut self, take: &mut dyn FnMut(Part<'_>)) -> bool {
        let Some(taking) = &mut self.taking else { return false };
        let goes_on = taking.next_part(&self.leaves, take);
        if !goes_on {
            self.taking = None;
        }
        goes_on
    }

    /// Passes on all parts.
    pub fn each_part(&self, take: &mut dyn FnMut(Part<'_>)) {
        let mut taking = Taking::begin();
        while taking.next_part(&self.leaves, take) {}
    }

    /// Bytes of all its blocks, counted one by one.
    #[cfg(test)]
    pub(crate) fn allocated_counted(&self) -> usize {
        self.leaves.bytes_counted()
    }
}
