//! A run of consecutive elements: a small list, or the elements of a chunk.
//!
//! Elements are packed as drawn in [`crate::packed`], less two common parts:
//!
//! * The bytes with which all of them begin, such as `job:` or `{"id":`, are its *prefix*. The
//!   rest is an item of its own, so `job:1234` is a small integer.
//! * If all items then begin with the same packed byte, and so have one length, that byte is
//!   stored once: the run is *uniform*, and the offset of every item is known. Integers of several
//!   lengths may all be stored in the size of the longest.
//!
//! A run accepts elements that fit its common parts; for any other element it is repacked
//! ([`Packing`]). That happens a few times at most, because each time there is less in common.

use crate::structures::packed::{
    Item, Items, Parts, fixed_len, last_item, packed_len, unpack, unpack_behind,
};
use std::ops::Range;

/// Layout of the items of a run, in 16 bits: whether it is uniform, whether it has a prefix, and
/// the common byte of uniform items, or the offset of an item shortly before the last in a mixed
/// run, from which the last one is found in a few steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Layout(u16);

const UNIFORM: u16 = 1 << 15;
const PREFIXED: u16 = 1 << 14;
const HINT_MAX: u16 = PREFIXED - 1;

/// Longest prefix.
const PREFIX_MAX: usize = u8::MAX as usize;
/// Shorter prefixes do not pay.
const PREFIX_MIN: usize = 3;

impl Layout {
    /// Layout of items with nothing in common.
    pub const MIXED: Layout = Layout(0);

    /// Layout of a run with only this item.
    #[inline]
    pub fn of(item: &Parts<'_>) -> Self {
        let first = item.head()[0];
        if fixed_len(first) > 1 { Layout(UNIFORM | u16::from(first)) } else { Layout::MIXED }
    }

    /// Layout from its stored bits.
    #[inline]
    pub fn from_bits(bits: u16) -> Self {
        Layout(bits)
    }

    /// The bits to be stored.
    #[inline]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The common first byte of all items.
    #[inline]
    fn common(self) -> Option<u8> {
        (self.0 & UNIFORM != 0).then_some(self.0 as u8)
    }

    /// Whether the run has a prefix.
    #[inline]
    pub fn is_prefixed(self) -> bool {
        self.0 & PREFIXED != 0
    }

    /// Offset of some item of a mixed run.
    #[inline]
    pub fn hint(self) -> usize {
        if self.0 & UNIFORM != 0 { 0 } else { usize::from(self.0 & HINT_MAX) }
    }

    /// This layout with another hint, if the run is mixed.
    #[inline]
    pub fn with_hint(self, hint: usize) -> Self {
        if self.0 & UNIFORM != 0 {
            return self;
        }
        Layout(self.0 & PREFIXED | hint as u16 & HINT_MAX)
    }

    /// Stored form of an item; none if the run must be repacked for it.
    #[inline]
    fn form<'t>(self, item: Item<'t>) -> Option<Parts<'t>> {
        match self.common() {
            Some(common) => item.parts_beginning(common),
            None => Some(item.parts()),
        }
    }

    /// Stored parts of an item.
    #[inline]
    pub fn held<'p>(self, item: &'p Parts<'_>) -> (&'p [u8], &'p [u8]) {
        let head = item.head();
        (if self.common().is_some() { &head[1..] } else { head }, item.tail)
    }

    /// Number of stored bytes of an item.
    #[inline]
    pub fn held_len(self, item: &Parts<'_>) -> usize {
        item.packed_len() - usize::from(self.common().is_some())
    }

    /// Length of each item of a uniform run.
    #[inline]
    fn stride(self) -> Option<usize> {
        self.common().map(|common| fixed_len(common) - 1)
    }
}

/// A borrowed element of a list.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    prefix: &'a [u8],
    item: Item<'a>,
}

impl<'a> Element<'a> {
    /// The element in two parts; numbers are printed into `digits`.
    #[inline]
    pub fn parts<'s>(&'s self, digits: &'s mut itoa::Buffer) -> (&'s [u8], &'s [u8]) {
        (self.prefix, self.item.bytes(digits))
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.prefix.len() + self.item.text_len()
    }

    /// Whether it is the empty string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element as a packed item, if it is contiguous.
    #[inline]
    pub fn item(&self) -> Option<Item<'a>> {
        self.prefix.is_empty().then_some(self.item)
    }

    /// Appends the element to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        let (first, second) = self.parts(&mut digits);
        out.reserve(first.len() + second.len());
        out.extend_from_slice(first);
        out.extend_from_slice(second);
    }

    /// A copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = Vec::new();
        self.append_to(&mut copy);
        copy
    }
}

/// A borrowed run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Common prefix of the elements.
    pub prefix: &'a [u8],
    /// Layout of the items. The hint is relative to `bytes`.
    pub layout: Layout,
    /// The items.
    pub bytes: &'a [u8],
}

impl<'a> Run<'a> {
    /// No elements.
    pub const EMPTY: Run<'static> = Run { prefix: &[], layout: Layout::MIXED, bytes: &[] };

    /// The item that would be stored for another element in the run of `count` elements; none if it
    /// must be repacked.
    #[inline]
    pub fn admit<'t>(self, count: usize, text: &'t [u8]) -> Option<Parts<'t>> {
        let suffix = text.strip_prefix(self.prefix)?;
        if count == 1 && self.prefix.is_empty() && self.shares_prefix(text) {
            return None;
        }
        self.layout.form(Item::from_text(suffix))
    }

    #[cold]
    fn shares_prefix(self, text: &[u8]) -> bool {
        let first = self.at(0).to_vec();
        first.starts_with(&text[..text.len().min(PREFIX_MIN)]) && text.len() >= PREFIX_MIN
    }

    /// Offset of item `index`, or of the end.
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

    /// Byte range of a range of items.
    #[inline]
    pub fn span(self, items: Range<usize>) -> Range<usize> {
        let from = self.offset(items.start);
        let behind = Run { bytes: &self.bytes[from..], ..self };
        from..from + behind.offset(items.len())
    }

    /// A part of the run.
    #[inline]
    pub fn slice(self, span: Range<usize>) -> Self {
        Run { bytes: &self.bytes[span], layout: self.layout.with_hint(0), ..self }
    }

    /// The element of the item at an offset.
    #[inline]
    pub fn at(self, offset: usize) -> Element<'a> {
        let bytes = &self.bytes[offset..];
        let item = match self.layout.common() {
            Some(common) => unpack_behind(common, bytes).0,
            None => unpack(bytes).0,
        };
        Element { prefix: self.prefix, item }
    }

    /// Offset of the last item, and the layout with a hint shortly before it. The run is not empty.
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

    /// Iterates over the elements from `index`.
    #[inline]
    pub fn elements(self, index: usize) -> Elements<'a> {
        let rest = &self.bytes[self.offset(index)..];
        Elements { prefix: self.prefix, common: self.layout.common(), rest }
    }

    /// Offsets of the first `count` items.
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

    /// Calls `found` with the number of every element equal to a given one, until it returns false.
    pub fn find(self, text: &[u8], mut found: impl FnMut(usize) -> bool) {
        let Some(suffix) = text.strip_prefix(self.prefix) else { return };
        let Some(item) = self.layout.form(Item::from_text(suffix)) else { return };
        let (head, tail) = self.layout.held(&item);
        let stride = self.layout.stride();
        let (mut at, mut number) = (0, 0);
        while at < self.bytes.len() {
            let here = &self.bytes[at..];
            // A packed item begins with its length, so no other item begins with it.
            if here.starts_with(head) && here[head.len()..].starts_with(tail) && !found(number) {
                return;
            }
            at += stride.unwrap_or_else(|| packed_len(here));
            number += 1;
        }
    }
}

/// The elements of a run, forwards.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    prefix: &'a [u8],
    common: Option<u8>,
    rest: &'a [u8],
}

impl Elements<'_> {
    /// An empty iterator.
    pub const NONE: Elements<'static> = Elements { prefix: &[], common: None, rest: &[] };
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (item, rest) = match self.common {
            Some(common) => unpack_behind(common, self.rest),
            None => unpack(self.rest),
        };
        self.rest = rest;
        Some(Element { prefix: self.prefix, item })
    }
}

/// Elements packed together as a run.
#[derive(Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Appends the elements of a run.
    pub fn extend(&mut self, run: Run<'_>) {
        for element in run.elements(0) {
            element.append_to(&mut self.bytes);
            self.ends.push(self.bytes.len());
        }
    }

    /// Appends an element.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// The elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| &self.bytes[begin..end])
    }
}

/// Elements packed as a run.
#[derive(Debug)]
pub struct Packing {
    /// Common prefix of the elements.
    pub prefix: Vec<u8>,
    /// Layout of the items.
    pub layout: Layout,
    /// The items.
    pub bytes: Vec<u8>,
    /// Number of items.
    pub count: usize,
}

impl Packing {
    /// Packs elements without their common parts.
    pub fn of<'t>(elements: impl Iterator<Item = &'t [u8]> + Clone) -> Self {
        let prefix = common_prefix(elements.clone());
        let mut packer = Packer::with_room(elements.size_hint().0 * 8);
        elements.for_each(|text| packer.add(&Item::from_text(&text[prefix.len()..])));
        packer.finish(prefix)
    }

    /// Packs the elements of a run together with others before and behind them, of which there is
    /// at least one. Only the others are checked for the common prefix: the elements begin with the
    /// run's prefix.
    pub fn around<'t>(
        run: Run<'_>,
        front: impl Iterator<Item = &'t [u8]> + Clone,
        back: impl Iterator<Item = &'t [u8]> + Clone,
    ) -> Self {
        let others = || front.clone().chain(back.clone());
        let prefix = others().fold(run.prefix, |prefix, text| shared(prefix, text));
        let prefix = if prefix.len() < PREFIX_MIN { &[][..] } else { prefix };
        let others_len: usize = others().map(<[u8]>::len).sum();
        let mut packer = Packer::with_room(2 * run.bytes.len() + others_len);
        front.for_each(|text| packer.add(&Item::from_text(&text[prefix.len()..])));
        let regained = &run.prefix[prefix.len()..];
        for element in run.elements(0) {
            packer.add_behind(regained, &element.item);
        }
        back.for_each(|text| packer.add(&Item::from_text(&text[prefix.len()..])));
        packer.finish(prefix)
    }

    /// The run.
    pub fn run(&self) -> Run<'_> {
        Run { prefix: &self.prefix, layout: self.layout, bytes: &self.bytes }
    }
}

/// Packs consecutive items, and checks whether they are uniform.
struct Packer {
    bytes: Vec<u8>,
    count: usize,
    /// Common first byte of all items so far.
    common: Option<u8>,
    /// If all are integers so far, the first byte of the widest form, which can hold each of them.
    widest: Option<u8>,
}

impl Packer {
    fn with_room(bytes: usize) -> Self {
        Packer { bytes: Vec::with_capacity(bytes), count: 0, common: None, widest: None }
    }

    #[inline]
    fn add(&mut self, item: &Item<'_>) {
        let parts = item.parts();
        self.note(parts.head()[0], item.wide_int());
        self.bytes.extend_from_slice(parts.head());
        self.bytes.extend_from_slice(parts.tail);
    }

    /// Counts an item with this first byte; `wide` is its [`Item::wide_int`].
    #[inline]
    fn note(&mut self, first: u8, wide: Option<u8>) {
        if self.count == 0 {
            (self.common, self.widest) = ((fixed_len(first) > 1).then_some(first), wide);
        } else {
            self.common = self.common.filter(|&common| common == first);
            self.widest = self.widest.zip(wide).map(|(widest, wide)| widest.max(wide));
        }
        self.count += 1;
    }

    /// Adds an item that stands for `regained` followed by the text of `item`.
    #[inline]
    fn add_behind(&mut self, regained: &[u8], item: &Item<'_>) {
        let mut digits = itoa::Buffer::new();
        let rest = item.bytes(&mut digits);
        let is_number_perhaps = match regained {
            [] => return self.add(item),
            [b'0', ..] => regained.len() + rest.len() == 1,
            [first, ..] => matches!(first, b'1'..=b'9' | b'-'),
        };
        if is_number_perhaps || regained.len() + rest.len() >= 128 {
            return self.add(&Item::from_text(&[regained, rest].concat()));
        }
        let len = regained.len() + rest.len();
        self.note(len as u8, None);
        self.bytes.push(len as u8);
        self.bytes.extend_from_slice(regained);
        self.bytes.extend_from_slice(rest);
    }

    /// Chooses the layout in which the items take the fewest bytes.
    fn finish(mut self, prefix: &[u8]) -> Packing {
        let mut layout = Layout::MIXED;
        if let Some(common) = self.common {
            layout = Layout(UNIFORM | u16::from(common));
            let len = fixed_len(common);
            for number in 0..self.count {
                let item = number * len;
                self.bytes.copy_within(item + 1..item + len, number * (len - 1));
            }
            self.bytes.truncate(self.count * (len - 1));
        } else if let Some(widest) = self.widest
            && self.count * (fixed_len(widest) - 1) <= self.bytes.len()
        {
            layout = Layout(UNIFORM | u16::from(widest));
            let mixed = std::mem::take(&mut self.bytes);
            for parts in Items::new(&mixed).filter_map(|item| layout.form(item)) {
                self.bytes.extend_from_slice(layout.held(&parts).0);
            }
        }
        if !prefix.is_empty() {
            layout = Layout(layout.0 | PREFIXED);
        }
        Packing { prefix: prefix.to_vec(), layout, bytes: self.bytes, count: self.count }
    }
}

/// Common prefix of both.
fn shared<'t>(prefix: &'t [u8], text: &[u8]) -> &'t [u8] {
    let len = prefix.iter().zip(text).take_while(|(a, b)| a == b).count();
    &prefix[..len]
}

/// Common prefix of two or more elements, if storing it once saves space.
fn common_prefix<'t>(mut elements: impl Iterator<Item = &'t [u8]>) -> &'t [u8] {
    let (Some(first), Some(second)) = (elements.next(), elements.next()) else { return &[] };
    let mut prefix = shared(&first[..first.len().min(PREFIX_MAX)], second);
    for text in elements {
        if prefix.len() < PREFIX_MIN {
            break;
        }
        prefix = shared(prefix, text);
    }
    if prefix.len() < PREFIX_MIN { &[] } else { prefix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_elements_have_in_common_is_said_once() {
        for (texts, prefix, held) in [
            (&["abc", "def", "ghi"][..], "", 9),
            (&["abc", "defg"], "", 9),
            (&["1000000", "2000000", "3000000"], "", 9),
            (&["1", "2"], "", 2),
            (&["", ""], "", 2),
            (&["1000", "1001"], "100", 2),
            (&["job:17", "job:4095", "job:x"], "job:", 5),
            (&["element:0001", "element:0002"], "element:000", 2),
            (&["element:0101", "element:0002"], "element:0", 6),
            (&["same", "same"], "same", 2),
            (&["ab1", "ab2"], "", 6),
            (&["1", "2000"], "", 3),
            (&["1", "2000", "3000", "4000"], "", 7),
            (&["70", "5000"], "", 4),
            (&["-1", "40000", "3", "8000000"], "", 11),
            (&["-1", "40000", "-40000", "8000000"], "", 12),
            (&["5000000000", "70", "5000"], "", 14),
            (&["5000000000", "x", "5000"], "", 14),
            (&["no:70", "no:-5000000", "no:900000"], "no:", 9),
        ] {
            let packing = Packing::of(texts.iter().map(|text| text.as_bytes()));
            assert_eq!(packing.prefix, prefix.as_bytes(), "{texts:?}");
            assert_eq!((packing.bytes.len(), packing.count), (held, texts.len()), "{texts:?}");
            let run = packing.run();
            let read: Vec<Vec<u8>> = run.elements(0).map(|element| element.to_vec()).collect();
            assert!(read.iter().map(Vec::as_slice).eq(texts.iter().map(|t| t.as_bytes())));
            let last = texts[texts.len() - 1];
            assert_eq!(run.at(run.last().0).to_vec(), last.as_bytes());
            assert_eq!(run.offsets(9).len(), texts.len());
            assert_eq!(run.offset(9), held);
            let mut found = Vec::new();
            run.find(last.as_bytes(), |number| {
                found.push(number);
                true
            });
            let expected: Vec<usize> = (0..texts.len()).filter(|&n| texts[n] == last).collect();
            assert_eq!(found, expected, "{texts:?}");
        }
    }

    #[test]
    fn a_run_is_packed_anew_around_what_it_holds() {
        let long = format!("key:{}", "x".repeat(200));
        for (held, others, prefix) in [
            (
                &["element-0000", "element-0001", "element-0017"][..],
                &["element-1234"][..],
                "element-",
            ),
            (&["element-0000", "element-0001"], &["other"], ""),
            (&["1000", "1001"], &["1500"], ""),
            (&["-1000", "-1001"], &["-1", "-17"], ""),
            (&["ab-10", "ab-17"], &["ab-2"], "ab-"),
            (&["key:-5", "key:-", "key:-77"], &["key:"], "key:"),
            (&["abc0", "abc0"], &["abc"], "abc"),
            (&["key:xyz", "key:xyy"], &["key:xyab"], "key:xy"),
            (&["key:xy", "key:xy", "key:xyz"], &[&long], "key:x"),
            (&["job:71", "job:72"], &["job:7"], "job:7"),
        ] {
            let packing = Packing::of(held.iter().map(|text| text.as_bytes()));
            let run = packing.run();
            let bytes = |texts: &[&str]| -> Vec<Vec<u8>> {
                texts.iter().map(|text| text.as_bytes().to_vec()).collect()
            };
            let (front, back) = (bytes(others), bytes(&others[..1]));
            let (before, behind) =
                (front.iter().map(Vec::as_slice), back.iter().map(Vec::as_slice));
            let anew = Packing::around(run, before, behind);
            let expected = [front, bytes(held), back].concat();
            let read: Vec<Vec<u8>> =
                anew.run().elements(0).map(|element| element.to_vec()).collect();
            assert_eq!(read, expected, "{held:?}");
            assert_eq!(anew.prefix, prefix.as_bytes(), "{held:?}");
            assert_eq!(anew.count, expected.len());
            // The result is as if all had been packed together, except for a prefix common by
            // chance.
            let together = Packing::of(expected.iter().map(Vec::as_slice));
            if together.prefix == anew.prefix {
                assert_eq!((anew.layout, &anew.bytes), (together.layout, &together.bytes));
            }
        }
    }

    #[test]
    fn runs_admit_what_fits_them() {
        let packing = Packing::of([&b"job:5"[..]].into_iter());
        assert!(packing.run().admit(1, b"other").is_some());
        assert!(packing.run().admit(1, b"job:6").is_none());
        let packing = Packing::of([&b"job:70"[..], b"job:71"].into_iter());
        assert!(packing.run().admit(2, b"job:74").is_some());
        assert!(packing.run().admit(2, b"job:7").is_some());
        assert!(packing.run().admit(2, b"job:99").is_none());
        let packing = Packing::of([&b"70"[..], b"-40001", b"-40000"].into_iter());
        assert_eq!(packing.bytes.len(), 9);
        assert!(packing.run().admit(3, b"8388607").is_some_and(|item| item.packed_len() == 4));
        assert!(packing.run().admit(3, b"8388608").is_none());
        assert!(packing.run().admit(3, b"x").is_none());
    }
}
