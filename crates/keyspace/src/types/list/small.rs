//! A small list, as it lies in its key's entry.
//!
//! ```text
//!  0       2       4
//! +-------+-------+------------------+
//! | count | hint  | packed items     |
//! +-------+-------+------------------+
//! ```
//!
//! `hint` is where among the items one begins that is a little before the last, or 0: from there the last item is found in
//! a few steps.

use crate::packed::{Item, Items, last_item, packed_len, unpack};
use std::ops::Range;

/// Bytes before the items.
pub const HEADER: usize = 4;

/// The bytes of a small list.
#[derive(Clone, Copy, Debug)]
pub struct Small<'a>(&'a [u8]);

impl<'a> Small<'a> {
    /// The list that lies in these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Small(bytes)
    }

    /// Number of items.
    #[inline]
    pub fn len(self) -> usize {
        self.word(0).into()
    }

    /// The items, packed.
    #[inline]
    pub fn items(self) -> &'a [u8] {
        &self.0[HEADER..]
    }

    /// Where the last item begins among the items, and where one a little before it does. The list is not empty.
    #[inline]
    pub fn last_at(self) -> (usize, usize) {
        last_item(self.items(), self.hint())
    }

    /// Which bytes of the items the items of `range` are.
    pub fn span(self, range: Range<usize>) -> Range<usize> {
        let mut items = Items::new(self.items());
        items.skip_items(range.start);
        let from = items.offset();
        if range.end >= self.len() {
            return from..self.items().len();
        }
        items.skip_items(range.len());
        from..items.offset()
    }

    /// The item at `index`.
    pub fn get(self, index: usize) -> Option<Item<'a>> {
        if index + 1 == self.len() {
            return Some(unpack(&self.items()[self.last_at().0..]).0);
        }
        let mut items = Items::new(self.items());
        items.skip_items(index);
        items.next()
    }

    /// Where the items up to `index` begin, in order.
    pub fn offsets(self, index: usize) -> Vec<u32> {
        let (mut at, items) = (0, self.items());
        let mut offsets = Vec::with_capacity(self.len().min(index + 1));
        while at < items.len() && offsets.len() <= index {
            offsets.push(at as u32);
            at += packed_len(&items[at..]);
        }
        offsets
    }

    /// Where some item begins among the items.
    #[inline]
    pub fn hint(self) -> usize {
        self.word(2).into()
    }

    #[inline]
    fn word(self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }
}

/// What a small list's bytes begin with.
#[inline]
pub fn header(len: usize, hint: usize) -> [u8; HEADER] {
    let [a, b] = (len as u16).to_le_bytes();
    let [c, d] = (hint as u16).to_le_bytes();
    [a, b, c, d]
}
