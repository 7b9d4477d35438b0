//! Items of a small collection, consecutive in plain bytes.
//!
//! | first byte | then | item |
//! |---|---|---|
//! | `0lllllll` | the bytes | string of up to 127 bytes |
//! | `10vvvvvv` | | integer 0 ..= 63 |
//! | `110vvvvv` | 1 byte | integer -4,096 ..= 4,095, high bits first |
//! | `1110llll` | 1 byte of length, the bytes | string of up to 4,095 bytes, high bits first |
//! | `11110000` | 4 bytes of length, the bytes | string |
//! | `11110001` .. `11110100` | 2, 3, 4, 8 bytes | integer |
//!
//! Numbers of several bytes are little-endian. A string that is the canonical text of an integer is
//! always stored as one, so equal strings have equal bytes. There is no length after an item: items
//! are walked forwards.

use crate::structures::value::parse_int;
use petrel_heap::prefetch;

const STRING_12: u8 = 0b1110_0000;
const STRING_32: u8 = 0b1111_0000;
const INT_16: u8 = 0b1111_0001;
const INT_24: u8 = 0b1111_0010;
const INT_32: u8 = 0b1111_0011;
const INT_64: u8 = 0b1111_0100;
const INT_6: u8 = 0b1000_0000;
const INT_13: u8 = 0b1100_0000;

/// Bytes that a search compares at once.
const WORD: usize = 8;
/// Maximum length of a string with its length in the first byte.
const TEXT_MAX: usize = 127;
/// Bytes of a cache line; bytes of an entry prefetched by its lookup; and up to which offset a
/// search prefetches.
const LINE: usize = 64;
const LINES_THERE: usize = 2 * LINE;
const LINES_MAX: usize = 12 * LINE;

/// An item of a small collection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Item<'a> {
    /// A string that is not the canonical text of an integer.
    Text(&'a [u8]),
    /// A string that is the canonical text of an integer.
    Int(i64),
}

impl<'a> Item<'a> {
    /// The item for a string.
    #[inline]
    pub fn from_text(text: &'a [u8]) -> Self {
        match parse_int(text) {
            Some(n) => Item::Int(n),
            None => Item::Text(text),
        }
    }

    /// The string; an integer is printed into `scratch`.
    #[inline]
    pub fn bytes<'s>(&'s self, scratch: &'s mut itoa::Buffer) -> &'s [u8] {
        match self {
            Item::Text(text) => text,
            Item::Int(n) => scratch.format(*n).as_bytes(),
        }
    }

    /// Length of the string in bytes.
    pub fn text_len(&self) -> usize {
        match self {
            Item::Text(text) => text.len(),
            Item::Int(n) => itoa::Buffer::new().format(*n).len(),
        }
    }

    /// Bytes of the item's packed form.
    pub fn packed_len(&self) -> usize {
        match *self {
            Item::Text(text) => match text.len() {
                len @ 0..128 => 1 + len,
                len @ 128..4096 => 2 + len,
                len => 5 + len,
            },
            Item::Int(n) => match n {
                0..64 => 1,
                -4096..4096 => 2,
                -0x8000..0x8000 => 3,
                -0x80_0000..0x80_0000 => 4,
                -0x8000_0000..0x8000_0000 => 5,
                _ => 9,
            },
        }
    }

    /// The packed form in two parts, to be written without an intermediate buffer.
    #[inline]
    pub fn parts(&self) -> Parts<'a> {
        match *self {
            Item::Text(text) => match text.len() {
                len @ 0..128 => Parts::new(len as u8, &[], text),
                len @ 128..4096 => Parts::new(STRING_12 | (len >> 8) as u8, &[len as u8], text),
                len => Parts::new(STRING_32, &(len as u32).to_le_bytes(), text),
            },
            Item::Int(n) => {
                let bytes = n.to_le_bytes();
                match n {
                    0..64 => Parts::new(INT_6 | n as u8, &[], &[]),
                    -4096..4096 => Parts::new(INT_13 | (n >> 8) as u8 & 0x1f, &bytes[..1], &[]),
                    -0x8000..0x8000 => Parts::new(INT_16, &bytes[..2], &[]),
                    -0x80_0000..0x80_0000 => Parts::new(INT_24, &bytes[..3], &[]),
                    -0x8000_0000..0x8000_0000 => Parts::new(INT_32, &bytes[..4], &[]),
                    _ => Parts::new(INT_64, &bytes, &[]),
                }
            }
        }
    }

    /// The packed form with a given first byte; none if this item has no such form. An integer also
    /// has wider forms than its own.
    #[inline]
    pub fn parts_beginning(&self, first: u8) -> Option<Parts<'a>> {
        let parts = self.parts();
        if parts.head[0] == first {
            return Some(parts);
        }
        match *self {
            Item::Int(n) if (INT_16..=INT_64).contains(&first) => {
                let width = fixed_len(first) - 1;
                // The least integer of a width has that width as its own form, handled above.
                let fits = n.unsigned_abs() >> (8 * width - 1) == 0;
                fits.then(|| Parts::new(first, &n.to_le_bytes()[..width], &[]))
            }
            _ => None,
        }
    }

    /// The first byte of the narrowest form of this integer with at least two bytes; none for a
    /// string.
    pub fn wide_int(&self) -> Option<u8> {
        match *self {
            Item::Int(n) => Some(match n {
                -0x8000..0x8000 => INT_16,
                -0x80_0000..0x80_0000 => INT_24,
                -0x8000_0000..0x8000_0000 => INT_32,
                _ => INT_64,
            }),
            _ => None,
        }
    }

    /// Appends the packed form to `out`.
    #[inline]
    pub fn pack(&self, out: &mut Vec<u8>) {
        let parts = self.parts();
        out.extend_from_slice(parts.head());
        out.extend_from_slice(parts.tail);
    }
}

/// An item's packed form in two parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    head: [u8; 9],
    head_len: usize,
    /// Bytes after [`Parts::head`].
    pub tail: &'a [u8],
}

impl<'a> Parts<'a> {
    #[inline(always)]
    fn new(first: u8, more: &[u8], tail: &'a [u8]) -> Self {
        let mut head = [first, 0, 0, 0, 0, 0, 0, 0, 0];
        head[1..=more.len()].copy_from_slice(more);
        Parts { head, head_len: 1 + more.len(), tail }
    }

    /// Whether `bytes`, which begin with an item, begin with this item.
    #[inline]
    pub fn begin(&self, bytes: &[u8]) -> bool {
        let (head, tail) = (self.head(), self.tail);
        let len = head.len() + tail.len();
        // Items of one kind and length mostly have equal first bytes and different last bytes.
        bytes[0] == head[0]
            && bytes.len() >= len
            && tail.last().is_none_or(|&last| bytes[len - 1] == last)
            && bytes[1..head.len()] == head[1..]
            && bytes[head.len()..len] == *tail
    }

    /// The first 1 to 9 bytes.
    #[inline]
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    /// Bytes of both parts.
    #[inline]
    pub fn packed_len(&self) -> usize {
        self.head_len + self.tail.len()
    }
}

/// Reads the item at the front of `bytes`, and what follows it.
///
/// `bytes` was written by [`Item::pack`], and is not empty.
#[inline]
pub fn unpack(bytes: &[u8]) -> (Item<'_>, &[u8]) {
    unpack_behind(bytes[0], &bytes[1..])
}

/// Reads an item by its first byte and the `bytes` after it; returns the item and the remaining
/// bytes.
#[inline]
pub fn unpack_behind(first: u8, bytes: &[u8]) -> (Item<'_>, &[u8]) {
    match first {
        0..=0x7f => text(bytes, 0, first.into()),
        INT_6..=0xbf => (Item::Int((first & 0x3f).into()), bytes),
        INT_13..=0xdf => {
            let n = i64::from(first & 0x1f) << 8 | i64::from(bytes[0]);
            (Item::Int(n << 51 >> 51), &bytes[1..])
        }
        STRING_12..=0xef => text(bytes, 1, usize::from(first & 0x0f) << 8 | usize::from(bytes[0])),
        STRING_32 => text(bytes, 4, word(&bytes[..4]) as usize),
        INT_16 => int(bytes, 2),
        INT_24 => int(bytes, 3),
        INT_32 => int(bytes, 4),
        _ => int(bytes, 8),
    }
}

/// Length of the packed item at the front of `bytes`, without decoding it.
#[inline]
pub fn packed_len(bytes: &[u8]) -> usize {
    let first = bytes[0];
    match first {
        STRING_12..=0xef => 2 + (usize::from(first & 0x0f) << 8 | usize::from(bytes[1])),
        STRING_32 => 5 + word(&bytes[1..5]) as usize,
        _ => fixed_len(first),
    }
}

/// Length of a packed item with this first byte, or 0 if the byte does not determine it.
#[inline]
pub fn fixed_len(first: u8) -> usize {
    match first {
        0..=0x7f => 1 + usize::from(first),
        INT_6..=0xbf => 1,
        INT_13..=0xdf => 2,
        STRING_12..=STRING_32 => 0,
        INT_16 => 3,
        INT_24 => 4,
        INT_32 => 5,
        _ => 9,
    }
}

fn text(bytes: &[u8], header: usize, len: usize) -> (Item<'_>, &[u8]) {
    let (text, rest) = bytes[header..].split_at(len);
    (Item::Text(text), rest)
}

fn int(bytes: &[u8], len: usize) -> (Item<'_>, &[u8]) {
    let shift = 64 - 8 * len as u32;
    let (n, rest) = bytes.split_at(len);
    (Item::Int((word(n) << shift) as i64 >> shift), rest)
}

/// Up to eight bytes, little-endian.
fn word(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// Iterates over packed items forwards.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// The items of `bytes`, written by [`Item::pack`].
    pub fn new(bytes: &'a [u8]) -> Self {
        Items { all: bytes, rest: bytes }
    }

    /// Offset of the next item.
    #[inline]
    pub fn offset(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    /// Skips `n` items, or all if fewer are left.
    #[inline]
    pub fn skip_items(&mut self, n: usize) {
        self.rest = &self.rest[skip(self.rest, n)..];
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (item, rest) = unpack(self.rest);
        self.rest = rest;
        Some(item)
    }
}

/// Offset of the first item with the packed form `parts`, comparing every `stride`-th item (1 to
/// 3): of the fields of a hash with a stride of 2. If there is none, the number of items compared.
///
/// Equal strings have equal packed forms, so nothing is decoded. Eight bytes are compared at once:
/// of a long item the end, in which it most often differs from its neighbours, or all of a short
/// one.
#[inline]
pub fn find(bytes: &[u8], parts: &Parts<'_>, stride: usize) -> Result<usize, usize> {
    // A loop for each of the existing strides: members, pairs, and triples.
    match stride {
        1 => find_by::<1>(bytes, parts),
        2 => find_by::<2>(bytes, parts),
        _ => find_by::<3>(bytes, parts),
    }
}

/// Prefetches the lines after the first two of the items about to be walked: the lookup of the
/// entry has prefetched those two.
#[inline]
pub(crate) fn prefetch_behind(bytes: &[u8]) {
    for line in (LINES_THERE..bytes.len().min(LINES_MAX)).step_by(LINE) {
        prefetch(bytes.as_ptr().addr() + line);
    }
}

fn find_by<const STRIDE: usize>(bytes: &[u8], parts: &Parts<'_>) -> Result<usize, usize> {
    prefetch_behind(bytes);
    match (parts.packed_len(), parts.tail.last_chunk()) {
        (len, Some(end)) if len <= 1 + TEXT_MAX => find_text::<STRIDE>(bytes, parts.tail, end),
        (len, _) if len <= WORD => {
            let (mut whole, mask) = ([0; WORD], u64::MAX >> (8 * (WORD - len)));
            whole[..parts.head_len].copy_from_slice(parts.head());
            whole[parts.head_len..len].copy_from_slice(parts.tail);
            let whole = u64::from_le_bytes(whole);
            find_where::<STRIDE>(bytes, |rest| match rest.first_chunk() {
                Some(it) => u64::from_le_bytes(*it) & mask == whole,
                None => parts.begin(rest),
            })
        }
        _ => find_where::<STRIDE>(bytes, |rest| parts.begin(rest)),
    }
}

/// [`find`] for a string of 8 to 127 bytes, with `end` as its last bytes.
#[inline]
fn find_text<const STRIDE: usize>(
    bytes: &[u8],
    text: &[u8],
    end: &[u8; WORD],
) -> Result<usize, usize> {
    let (mut rest, mut count) = (bytes, 0);
    while let [first, behind @ ..] = rest {
        let next = match behind.split_at_checked(text.len()) {
            Some((here, next)) if usize::from(*first) == text.len() => {
                if here.last_chunk() == Some(end) && here == text {
                    return Ok(bytes.len() - rest.len());
                }
                next
            }
            _ => behind_item(rest),
        };
        rest = (1..STRIDE).fold(next, |rest, _| behind_item(rest));
        count += 1;
    }
    Err(count)
}

/// Offset of the first item, checking every `STRIDE`-th, that satisfies `is_it`, which gets the
/// item and the bytes after it.
#[inline(always)]
fn find_where<const STRIDE: usize>(
    bytes: &[u8],
    is_it: impl Fn(&[u8]) -> bool,
) -> Result<usize, usize> {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        if is_it(rest) {
            return Ok(bytes.len() - rest.len());
        }
        rest = (0..STRIDE).fold(rest, |rest, _| behind_item(rest));
        count += 1;
    }
    Err(count)
}

/// The bytes after the first item of `bytes`. Short strings are the most common items.
#[inline(always)]
fn behind_item(bytes: &[u8]) -> &[u8] {
    match bytes[0] {
        len @ 0..=0x7f => &bytes[1 + usize::from(len)..],
        _ => &bytes[packed_len(bytes)..],
    }
}

/// Offset of the last item in `bytes`, searched from the item at `from`; and the offset of an item
/// shortly before it, from which the next search begins once the last one is removed.
///
/// `bytes` is not empty, and an item begins at `from`.
#[inline]
pub fn last_item(bytes: &[u8], from: usize) -> (usize, usize) {
    const STRIDE: usize = 8;
    let (mut at, mut steps) = (from, 0);
    let (mut trail, mut hint) = (from, from);
    loop {
        let next = at + packed_len(&bytes[at..]);
        if next >= bytes.len() {
            return (at, hint);
        }
        at = next;
        steps += 1;
        if steps % STRIDE == 0 {
            (hint, trail) = (trail, at);
        }
    }
}

/// Number of items in `bytes`.
pub fn count(bytes: &[u8]) -> usize {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        rest = behind_item(rest);
        count += 1;
    }
    count
}

/// Bytes of the first `n` items, or of all if there are fewer.
#[inline]
pub fn skip(bytes: &[u8], n: usize) -> usize {
    let mut rest = bytes;
    for _ in 0..n {
        if rest.is_empty() {
            break;
        }
        rest = behind_item(rest);
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(item: Item<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        item.pack(&mut out);
        assert_eq!(out.len(), item.packed_len(), "{item:?}");
        assert_eq!(out.len(), packed_len(&out), "{item:?}");
        out
    }

    #[test]
    fn integers_take_few_bytes() {
        for (n, len) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (-1, 2),
            (4095, 2),
            (-4096, 2),
            (4096, 3),
            (-32768, 3),
            (32768, 4),
            (-8_388_608, 4),
            (8_388_608, 5),
            (i64::from(i32::MIN), 5),
            (1 << 31, 9),
            (i64::MAX, 9),
            (i64::MIN, 9),
        ] {
            let packed = pack(Item::Int(n));
            assert_eq!(packed.len(), len, "{n}");
            assert_eq!(unpack(&packed), (Item::Int(n), &[][..]));
        }
    }

    #[test]
    fn integers_have_wider_forms() {
        for n in [0, 63, -1, 4095, -32_768, 32_768, -8_388_608, 1 << 31, i64::MIN, i64::MAX] {
            let item = Item::Int(n);
            let widest = item.wide_int().expect("an integer");
            for first in [INT_16, INT_24, INT_32, INT_64] {
                let Some(parts) = item.parts_beginning(first) else {
                    assert!(first < widest, "{n}");
                    continue;
                };
                assert!(first >= widest, "{n}");
                assert_eq!(unpack(parts.head()), (item, &[][..]), "{n}");
            }
        }
        assert!(Item::Text(b"1x").parts_beginning(INT_64).is_none());
        assert_eq!(Item::Text(b"1x").parts_beginning(2).map(|parts| parts.tail), Some(&b"1x"[..]));
    }

    #[test]
    fn strings_of_every_class() {
        for len in [0, 1, 127, 128, 4095, 4096, 70_000] {
            let text = vec![b'x'; len];
            assert_eq!(unpack(&pack(Item::Text(&text))), (Item::Text(&text), &[][..]));
        }
    }

    proptest! {
        #[test]
        fn a_walk_gives_back_what_was_packed(texts in prop::collection::vec(prop_oneof![
            any::<i64>().prop_map(|n| n.to_string().into_bytes()),
            (-5000i64..5000).prop_map(|n| n.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(b'a'..b'c', 0..12),
        ], 0..40)) {
            let mut bytes = Vec::new();
            let mut offsets = Vec::new();
            for text in &texts {
                offsets.push(bytes.len());
                Item::from_text(text).pack(&mut bytes);
            }
            prop_assert_eq!(count(&bytes), texts.len());
            let read: Vec<Vec<u8>> = Items::new(&bytes)
                .map(|item| item.bytes(&mut itoa::Buffer::new()).to_vec())
                .collect();
            prop_assert_eq!(&read, &texts);
            for text in &texts {
                let first = texts.iter().position(|other| other == text).unwrap_or(0);
                let found = find(&bytes, &Item::from_text(text).parts(), 1);
                prop_assert_eq!(found, Ok(offsets[first]));
                let even = (0..texts.len()).step_by(2).find(|&i| texts[i] == *text);
                if texts.len() % 2 == 0 {
                    let found = find(&bytes, &Item::from_text(text).parts(), 2);
                    prop_assert_eq!(found, even.map(|i| offsets[i]).ok_or(texts.len() / 2));
                }
            }
            for stranger in [&b""[..], b"a", b"7", b"-77777777777", b"1234567", b"abcdefgh", b"0123456789abcdef"] {
                let first = texts.iter().position(|text| text == stranger);
                let found = find(&bytes, &Item::from_text(stranger).parts(), 1);
                prop_assert_eq!(found, first.map(|i| offsets[i]).ok_or(texts.len()));
            }
            let mut items = Items::new(&bytes);
            items.skip_items(texts.len() / 2);
            prop_assert_eq!(items.count(), texts.len() - texts.len() / 2);
        }
    }
}
