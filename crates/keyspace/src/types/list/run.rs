//! A run of items one behind the other: a small list, or the items of a chunk.
//!
//! Items are packed as [`crate::packed`] draws it. Where all of them begin with the same byte and have the same length, as
//! identifiers and timestamps do, that byte is said once for the run and left out of each: this saves a byte per item,
//! and every item's place is known.

use crate::packed::{Item, Parts, fixed_len, last_item, packed_len, unpack, unpack_behind};
use std::ops::Range;

/// How the items of a run are held, in 16 bits: the top bit and the byte that they have in common; or, of items that have
/// none in common, where one begins that is a little before the last: from there the last is found in a few steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Layout(u16);

const UNIFORM: u16 = 1 << 15;

impl Layout {
    /// Items that have nothing in common.
    pub const MIXED: Layout = Layout(0);

    /// The layout in which a run with this item begins.
    #[inline]
    pub fn of(item: &Parts<'_>) -> Self {
        let first = item.head()[0];
        if fixed_len(first) > 1 { Layout(UNIFORM | u16::from(first)) } else { Layout::MIXED }
    }

    /// From the bits that a run keeps.
    #[inline]
    pub fn from_bits(bits: u16) -> Self {
        Layout(bits)
    }

    /// The bits to be kept.
    #[inline]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The byte with which all items begin.
    #[inline]
    pub fn common(self) -> Option<u8> {
        (self.0 & UNIFORM != 0).then_some(self.0 as u8)
    }

    /// Where some item of a mixed run begins.
    #[inline]
    pub fn hint(self) -> usize {
        if self.0 & UNIFORM != 0 { 0 } else { self.0.into() }
    }

    /// The same with another hint, if the run is mixed.
    #[inline]
    pub fn with_hint(self, hint: usize) -> Self {
        if self.0 & UNIFORM != 0 { self } else { Layout(hint as u16 & !UNIFORM) }
    }

    /// Whether an item can be held in this layout.
    #[inline]
    pub fn takes(self, item: &Parts<'_>) -> bool {
        self.common().is_none_or(|common| common == item.head()[0])
    }

    /// What of an item is held in this layout, which takes it.
    #[inline]
    pub fn held<'p>(self, item: &'p Parts<'_>) -> (&'p [u8], &'p [u8]) {
        let head = item.head();
        (if self.common().is_some() { &head[1..] } else { head }, item.tail)
    }

    /// How many bytes those are.
    #[inline]
    pub fn held_len(self, item: &Parts<'_>) -> usize {
        item.packed_len() - usize::from(self.common().is_some())
    }

    /// Bytes of every item of a uniform run.
    #[inline]
    fn stride(self) -> Option<usize> {
        self.common().map(|common| fixed_len(common) - 1)
    }
}

/// A run where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The items.
    pub bytes: &'a [u8],
    /// How they are held. The hint is relative to `bytes`.
    pub layout: Layout,
}

impl<'a> Run<'a> {
    /// No items.
    pub const EMPTY: Run<'static> = Run { bytes: &[], layout: Layout::MIXED };

    /// Where item `index` begins, or the end.
    #[inline]
    pub fn offset(self, index: usize) -> usize {
        match self.layout.stride() {
            Some(stride) => index.saturating_mul(stride).min(self.bytes.len()),
            None => {
                let mut at = 0;
                for _ in 0..index {
                    if at >= self.bytes.len() {
                        break;
                    }
                    at += packed_len(&self.bytes[at..]);
                }
                at
            }
        }
    }

    /// Which bytes the items of a range are.
    #[inline]
    pub fn span(self, items: Range<usize>) -> Range<usize> {
        let from = self.offset(items.start);
        let behind = Run { bytes: &self.bytes[from..], ..self };
        from..from + behind.offset(items.len())
    }

    /// The item that begins at an offset.
    #[inline]
    pub fn at(self, offset: usize) -> Item<'a> {
        let bytes = &self.bytes[offset..];
        match self.layout.common() {
            Some(common) => unpack_behind(common, bytes).0,
            None => unpack(bytes).0,
        }
    }

    /// Where the last item begins, and the layout with a hint at one a little before it. There is an item.
    #[inline]
    pub fn last(self) -> (usize, Layout) {
        match self.layout.stride() {
            Some(stride) => (self.bytes.len() - stride, self.layout),
            None => {
                let (at, hint) = last_item(self.bytes, self.layout.hint());
                (at, self.layout.with_hint(hint))
            }
        }
    }

    /// Walks the items from `index` on.
    #[inline]
    pub fn items(self, index: usize) -> Items<'a> {
        Items { rest: &self.bytes[self.offset(index)..], common: self.layout.common() }
    }

    /// Where each of the first `count` items begins.
    pub fn offsets(self, count: usize) -> Vec<u32> {
        let mut at = 0;
        let mut offsets = Vec::with_capacity(count.min(self.bytes.len()));
        let stride = self.layout.stride();
        while at < self.bytes.len() && offsets.len() < count {
            offsets.push(at as u32);
            at += stride.unwrap_or_else(|| packed_len(&self.bytes[at..]));
        }
        offsets
    }

    /// Calls `found` with the number of every item that equals a given one, until it says that it is enough.
    pub fn find(self, item: &Parts<'_>, mut found: impl FnMut(usize) -> bool) {
        if !self.layout.takes(item) {
            return;
        }
        let (head, tail) = self.layout.held(item);
        let (stride, len) = (self.layout.stride(), head.len() + tail.len());
        let (mut at, mut number) = (0, 0);
        while at < self.bytes.len() {
            let here = &self.bytes[at..];
            if here.starts_with(head) && here[head.len()..].starts_with(tail) && !found(number) {
                return;
            }
            at += stride.unwrap_or_else(|| packed_len(here));
            number += 1;
            debug_assert!(stride.is_none_or(|stride| stride == len));
        }
    }

    /// Bytes of the items if each began with a byte of its own.
    #[inline]
    pub fn mixed_len(self) -> usize {
        match self.layout.stride() {
            Some(stride) => self.bytes.len() / stride * (stride + 1),
            None => self.bytes.len(),
        }
    }

    /// Appends the items to `out`, each with its first byte.
    pub fn write_mixed(self, out: &mut Vec<u8>) {
        match (self.layout.common(), self.layout.stride()) {
            (Some(common), Some(stride)) => {
                for item in self.bytes.chunks_exact(stride) {
                    out.push(common);
                    out.extend_from_slice(item);
                }
            }
            _ => out.extend_from_slice(self.bytes),
        }
    }
}

/// The items of a run, forwards.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
    common: Option<u8>,
}

impl Items<'_> {
    /// No items.
    pub const NONE: Items<'static> = Items { rest: &[], common: None };
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (item, rest) = match self.common {
            Some(common) => unpack_behind(common, self.rest),
            None => unpack(self.rest),
        };
        self.rest = rest;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed;

    #[test]
    fn items_of_one_shape_share_their_first_byte() {
        for (texts, common) in [
            (&[&b"abc"[..], b"def", b"ghi"][..], Some(3)),
            (&[b"abc", b"defg"], None),
            (&[b"100000", b"999999", b"123456"], Some(0b1111_0010)),
            (&[b"1", b"2"], None),
            (&[b"", b""], None),
            (&[b"1000", b"1001"], Some(0b1100_0011)),
        ] {
            let items: Vec<Item<'_>> = texts.iter().map(|text| Item::from_text(text)).collect();
            let layout = Layout::of(&items[0].parts());
            let fits = items.iter().all(|item| layout.takes(&item.parts()));
            let layout = if fits { layout } else { Layout::MIXED };
            assert_eq!(layout.common(), common, "{texts:?}");
            let mut bytes = Vec::new();
            for item in &items {
                let parts = item.parts();
                let (head, tail) = layout.held(&parts);
                assert_eq!(head.len() + tail.len(), layout.held_len(&parts));
                bytes.extend_from_slice(head);
                bytes.extend_from_slice(tail);
            }
            let run = Run { bytes: &bytes, layout };
            assert!(run.items(0).eq(items.iter().copied()), "{texts:?}");
            assert_eq!(run.at(run.last().0), items[items.len() - 1]);
            assert_eq!(run.offsets(9).len(), items.len());
            let mut mixed = Vec::new();
            run.write_mixed(&mut mixed);
            assert_eq!(mixed.len(), run.mixed_len());
            assert!(packed::Items::new(&mixed).eq(items.iter().copied()));
            run.find(&items[1].parts(), |number| {
                assert_eq!(items[number], items[1]);
                number < 1
            });
        }
    }
}
