//! An array as it was, handed out in parts while it changes: a change keeps the slice that was
//! there, until it has been handed out.

use crate::element::Element;
use crate::leaves::Leaves;
use crate::slice::{OFFSETS, Slice, at, split};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Bytes of texts after which a part ends.
const PART_BYTES: usize = 64 * 1024;

/// Slices without anything to hand out that are passed over at once.
const PASSED_MAX: usize = 256;

/// A part of an array: elements in order, all of a slice.
#[derive(Debug)]
pub struct Part<'a> {
    number: u64,
    slice: &'a Slice,
    offsets: (u8, u8),
}

impl Part<'_> {
    /// Passes on the elements with their indexes.
    pub fn each(&self, take: &mut dyn FnMut(u64, Element<'_>)) {
        let _ = self.slice.each(self.offsets, false, &mut |offset, element| {
            take(at(self.number, offset), element);
            ControlFlow::<()>::Continue(())
        });
    }

    /// The elements of a slice from an offset on, up to some number of bytes.
    fn of(number: u64, slice: &Slice, from: u8) -> Part<'_> {
        let (mut last, mut bytes) = (u8::MAX, 0);
        let _ = slice.each((from, u8::MAX), false, &mut |offset, element| {
            bytes += element.text_len();
            if bytes >= PART_BYTES {
                last = offset;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        Part { number, slice, offsets: (from, last) }
    }
}

/// The progress of a snapshot.
#[derive(Debug, Default)]
pub struct Taking {
    /// The index that comes next; none at the end.
    next: Option<u64>,
    /// Slices as they were, by number; none where there was none.
    kept: BTreeMap<u64, Option<Slice>>,
}

impl Taking {
    /// Begins a snapshot.
    pub fn begin() -> Self {
        Taking { next: Some(0), kept: BTreeMap::new() }
    }

    /// Keeps a slice that is about to change.
    pub fn keep(&mut self, leaves: &Leaves, number: u64) {
        if self.next.is_some_and(|next| split(next).0 <= number) {
            self.kept.entry(number).or_insert_with(|| leaves.get(number).cloned());
        }
    }

    /// Keeps all slices from a number to another, which are about to be removed.
    pub fn keep_between(&mut self, leaves: &Leaves, first: u64, last: u64) {
        let Some(next) = self.next else { return };
        let mut place = leaves.seek(first.max(split(next).0));
        while let Some(entry) = leaves.at(place).filter(|entry| entry.number <= last) {
            self.kept.entry(entry.number).or_insert_with(|| Some(entry.slice.clone()));
            place = leaves.next(place);
        }
    }

    /// Hands out the next part, or passes over slices that were not there; false at the end.
    pub fn next_part(&mut self, leaves: &Leaves, take: &mut dyn FnMut(Part<'_>)) -> bool {
        for _ in 0..PASSED_MAX {
            let Some(next) = self.next else { break };
            let (number, offset) = split(next);
            let live = leaves.at(leaves.seek(number));
            let kept = self.kept.first_key_value().map(|(number, _)| *number);
            let Some(found) = live.map(|entry| entry.number).into_iter().chain(kept).min() else {
                self.next = None;
                break;
            };
            let was = self.kept.get(&found);
            let slice = was.map_or(live.map(|entry| &entry.slice), Option::as_ref);
            let from = if found == number { offset } else { 0 };
            let part = slice.map(|slice| Part::of(found, slice, from));
            let last = part.as_ref().map_or(u8::MAX, |part| part.offsets.1);
            let has_part = part.is_some();
            part.into_iter().for_each(&mut *take);
            if last < u8::MAX {
                self.next = Some(at(found, last + 1));
            } else {
                self.kept.remove(&found);
                self.next = found.checked_add(1).and_then(|number| number.checked_mul(OFFSETS));
            }
            if has_part {
                return true;
            }
        }
        self.next.is_some()
    }
}
