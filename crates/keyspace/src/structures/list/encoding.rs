//! `OBJECT ENCODING` of a list: a listpack until it exceeds `list-max-listpack-size`, a quicklist
//! then, and a listpack again once it has shrunk to half of that.

use crate::structures::limits::TypeLimits;
use crate::structures::list::large::List;
use crate::structures::list::run::{Element, Run};
use crate::structures::packed::Item;

/// Maximum bytes of a listpack that is limited by its number of items.
const COUNTED_BYTES_MAX: usize = 8192;
/// Bytes of an empty listpack.
pub const LISTPACK_FRAME: usize = 7;

/// The nodes of a quicklist of Redis.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Nodes {
    /// Number of elements.
    pub count: usize,
    /// Bytes of their listpacks.
    pub bytes: usize,
}

impl Nodes {
    /// The nodes of a list after a push of each element at its end.
    pub fn of<'a>(elements: impl Iterator<Item = Element<'a>>, limits: &TypeLimits) -> Self {
        let limit = Limit::of(limits);
        let (mut nodes, mut bytes, mut count) = (Nodes::default(), 0, 0);
        for element in elements {
            let len = listpack_len_of(&element);
            if count == 0 || !limit.allows(bytes + len, count + 1) {
                nodes.count += 1;
                nodes.bytes += LISTPACK_FRAME;
                (bytes, count) = (LISTPACK_FRAME, 0);
            }
            (bytes, count) = (bytes + len, count + 1);
            nodes.bytes += len;
        }
        nodes
    }
}

/// The longest listpack.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    bytes: usize,
    count: usize,
    is_count: bool,
}

impl Limit {
    /// Limit from `list-max-listpack-size`: a number of items, or -1 to -5 for 4 to 64 KiB.
    #[inline]
    pub fn of(limits: &TypeLimits) -> Self {
        match limits.list_max_listpack_size() {
            size @ ..0 => {
                let class = size.max(-5).unsigned_abs();
                Limit { bytes: 2048 << class, count: usize::MAX, is_count: false }
            }
            count => {
                let count = usize::try_from(count).unwrap_or(usize::MAX).max(1);
                Limit { bytes: COUNTED_BYTES_MAX, count, is_count: true }
            }
        }
    }

    /// The limit below which a quicklist is a listpack again.
    #[inline]
    pub fn half(self) -> Self {
        if self.is_count {
            Limit { count: self.count / 2, ..self }
        } else {
            Limit { bytes: self.bytes / 2, ..self }
        }
    }

    /// Whether a listpack of this many bytes and items is within the limit.
    #[inline]
    pub fn allows(self, bytes: usize, count: usize) -> bool {
        bytes <= self.bytes && count <= self.count
    }

    /// Whether a listpack becomes too long with these additional elements, in Redis's estimate,
    /// which ignores their framing.
    #[inline]
    pub fn is_exceeded_by(self, bytes: usize, count: usize, elements: &[&[u8]]) -> bool {
        let more: usize = elements.iter().map(|element| element.len()).sum();
        !self.allows(bytes + more, count + elements.len())
    }

    /// False if [`Limit::is_exceeded_by`] would be false, without reading the items of a run: in a
    /// listpack, an item is at most three times as long, a number with a prefix here has at most 20
    /// digits, and the prefix is part of each item.
    #[inline]
    pub fn may_be_exceeded(self, run: Run<'_>, count: usize, elements: &[&[u8]]) -> bool {
        let prefixes = if run.prefix.is_empty() { 0 } else { count * (run.prefix.len() + 24) };
        self.is_exceeded_by(LISTPACK_FRAME + 3 * run.bytes.len() + prefixes, count, elements)
    }

    /// Whether there are too many items for a listpack, whatever they are: each takes at least two
    /// bytes.
    #[inline]
    fn is_exceeded_by_count(self, count: usize) -> bool {
        !self.allows(LISTPACK_FRAME + 2 * count, count)
    }
}

impl List {
    /// Makes the list a quicklist if these additional elements make it too long for a listpack.
    #[inline]
    pub fn grow_encoding(&mut self, limit: Limit, elements: &[&[u8]]) {
        if !self.is_quicklist() {
            let bytes = self.listpack();
            self.set_quicklist(limit.is_exceeded_by(bytes, self.len(), elements));
        } else if limit.is_exceeded_by_count(self.len()) {
            self.forget_listpack();
        }
    }

    /// Makes a quicklist a listpack if it is short enough.
    #[inline]
    pub fn shrink_encoding(&mut self, limit: Limit) {
        let half = limit.half();
        if self.is_quicklist() && !half.is_exceeded_by_count(self.len()) {
            let bytes = self.listpack();
            self.set_quicklist(!half.allows(bytes, self.len()));
        }
    }
}

/// Bytes that an element takes in a listpack.
#[inline]
pub fn listpack_entry_len(text: &[u8]) -> usize {
    item_len(&Item::from_text(text))
}

/// Like `listpack_len`, for an element of a list.
#[inline]
pub fn listpack_len_of(element: &Element<'_>) -> usize {
    match element.item() {
        Some(item) => item_len(&item),
        None if element.len() <= INTEGER_LEN_MAX => {
            let (mut text, mut digits) = ([0; INTEGER_LEN_MAX], itoa::Buffer::new());
            let (first, second) = element.parts(&mut digits);
            let len = first.len() + second.len();
            text[..first.len()].copy_from_slice(first);
            text[first.len()..len].copy_from_slice(second);
            listpack_entry_len(&text[..len])
        }
        None => string_len(element.len()),
    }
}

/// Digits of the longest integer, with its sign.
const INTEGER_LEN_MAX: usize = 20;

fn item_len(item: &Item<'_>) -> usize {
    match *item {
        Item::Int(0..128) => 2,
        Item::Int(-4096..4096) => 3,
        Item::Int(-0x8000..0x8000) => 4,
        Item::Int(-0x80_0000..0x80_0000) => 5,
        Item::Int(-0x8000_0000..0x8000_0000) => 6,
        Item::Int(_) => 10,
        Item::Text(text) => string_len(text.len()),
    }
}

fn string_len(len: usize) -> usize {
    let len = len
        + match len {
            0..64 => 1,
            64..4096 => 2,
            _ => 5,
        };
    let back = match len {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    len + back
}

/// Length of a listpack with these elements in bytes.
pub fn listpack_len(run: Run<'_>) -> usize {
    LISTPACK_FRAME + run.elements(0).map(|element| listpack_len_of(&element)).sum::<usize>()
}
