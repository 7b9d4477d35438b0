//! The common part of listpacks and ziplists: a header that states their length and number of
//! items, the items, and an end.

use super::{Error, Item, ValueSink};
use std::marker::PhantomData;

/// End of a list.
pub(super) const END: u8 = 0xff;

/// The number of items that is stated where it does not fit.
pub(super) const COUNT_UNKNOWN: u16 = u16::MAX;

/// The layout of a header and of items.
pub(super) trait Layout {
    /// Bytes of the header: it begins with the length in 4 bytes, and ends with the number of items
    /// in 2.
    const HEADER: usize;
    /// The error of a list that is none.
    const MALFORMED: Error;
    /// The count that a sink is notified of if it is wrong.
    const COUNT: &'static str;

    /// The first item and what follows it; none if that is not an item.
    fn split_item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])>;

    /// Number of items; none if the bytes are not items, or do not fit each other or the header.
    fn count(header: &[u8], items: &[u8]) -> Option<usize>;
}

/// A list with a validated structure: walking it cannot fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemList<'a, L> {
    /// The items, without header and end.
    items: &'a [u8],
    len: usize,
    /// Whether the header states another number of items.
    pub(super) is_miscounted: bool,
    layout: PhantomData<L>,
}

impl<'a, L: Layout> ItemList<'a, L> {
    /// Checks every item. Their number in the header follows from them, and may be wrong.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = bytes.split_at_checked(L::HEADER).ok_or(L::MALFORMED)?;
        let (&end, items) = rest.split_last().ok_or(L::MALFORMED)?;
        let stated_len = header.first_chunk().map(|len| u32::from_le_bytes(*len) as usize);
        if end != END || stated_len != Some(bytes.len()) {
            return Err(L::MALFORMED);
        }
        let len = L::count(header, items).ok_or(L::MALFORMED)?;
        let stated = header.last_chunk().map_or(COUNT_UNKNOWN, |count| u16::from_le_bytes(*count));
        let is_miscounted = stated != COUNT_UNKNOWN && usize::from(stated) != len;
        Ok(ItemList { items, len, is_miscounted, layout: PhantomData })
    }

    /// Like [`ItemList::new`], but reports a number of items that is stated wrongly to `sink`.
    pub(super) fn read(bytes: &'a [u8], sink: &mut impl ValueSink) -> Result<Self, Error> {
        let list = Self::new(bytes)?;
        if list.is_miscounted {
            sink.recounted(L::COUNT);
        }
        Ok(list)
    }

    /// Number of items.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<'a, L: Layout> IntoIterator for ItemList<'a, L> {
    type Item = Item<'a>;
    type IntoIter = Items<'a, L>;

    fn into_iter(self) -> Items<'a, L> {
        Items(self.items, PhantomData)
    }
}

/// The items of a list.
#[derive(Clone, Debug)]
pub(super) struct Items<'a, L>(&'a [u8], PhantomData<L>);

impl<'a, L: Layout> Iterator for Items<'a, L> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let (item, rest) = L::split_item(self.0)?;
        self.0 = rest;
        Some(item)
    }
}

/// A text of `len` bytes.
pub(super) fn text(bytes: &[u8], len: usize) -> Option<(Item<'_>, &[u8])> {
    let (text, rest) = bytes.split_at_checked(len)?;
    Some((Item::Text(text), rest))
}

/// A signed integer of `LEN` bytes, the lowest first.
#[inline]
pub(super) fn int<const LEN: usize>(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (taken, rest) = bytes.split_first_chunk::<LEN>()?;
    let mut wide = [0; 8];
    wide[8 - LEN..].copy_from_slice(taken);
    Some((Item::Int(i64::from_le_bytes(wide) >> (64 - 8 * LEN)), rest))
}
