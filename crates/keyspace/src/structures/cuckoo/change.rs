//! Changes of cuckoo filters: made at a key, encoded, and as commands.
//!
//! ```text
//! reserve  capacity, bucket size, iterations, expansion
//! add      items, each behind its length
//! delete   item
//! compact
//! head     head of a dump
//! piece    iterator, fingerprints
//! ```

use super::CuckooFilter;
use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes, put_signed};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, MALFORMED_CHANGE, Slot, Why,
};
use petrel_sketch::cuckoo::{AddError, Cuckoo, FILTERS_MAX, LoadChunkError, Print, Shape};
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const RESERVE: u8 = 0;
    pub const ADD: u8 = 1;
    pub const DELETE: u8 = 2;
    pub const COMPACT: u8 = 3;
    pub const HEAD: u8 = 4;
    pub const PIECE: u8 = 5;
}

/// Number of items for which buckets are prefetched together.
const ITEMS_AHEAD: usize = 16;

/// The properties of a filter that is to be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reserve {
    /// Items for which the first sub-filter is made.
    pub capacity: u64,
    /// Fingerprints of a bucket.
    pub bucket_size: u8,
    /// Fingerprints that an item may move before the filter counts as full.
    pub iterations: u16,
    /// Factor by which each sub-filter is larger than the one before; 0 if the filter does not
    /// grow.
    pub expansion: u16,
}

impl Reserve {
    /// The shape of the filter; none if no such filter is possible.
    pub fn shape(self) -> Option<Shape> {
        let Reserve { capacity, bucket_size, iterations, expansion } = self;
        Shape::sized(capacity, bucket_size, iterations, expansion)
    }
}

/// The way in which items are added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Adding {
    /// Whether items that seem to be there are left out.
    pub only_absent: bool,
    /// Sub-filters that the filter may have.
    pub most: usize,
}

/// Makes a filter at a key that holds nothing; false if no such filter is possible.
pub fn reserve<S: Slot + ?Sized>(slot: &mut S, asked: Reserve) -> bool {
    let cuckoo = asked.shape().and_then(Cuckoo::new);
    let Some(cuckoo) = cuckoo.filter(|_| slot.held().is_none()) else { return false };
    slot.put_boxed(Box::new(CuckooFilter::new(cuckoo)));
    slot.record(op::RESERVE, &mut |out| {
        put(out, asked.capacity);
        put(out, asked.bucket_size.into());
        put(out, asked.iterations.into());
        put(out, asked.expansion.into());
    });
    true
}

/// Adds an item to the filter at a key. Returns whether it was added; none if there is no filter.
///
/// # Errors
/// If there is no room for it.
#[inline]
pub fn add_one<S: Slot + ?Sized>(
    slot: &mut S,
    item: &[u8],
    how: Adding,
) -> Option<Result<bool, AddError>> {
    let (print, mut added) = (Print::of(item), None);
    change(slot, &mut |filter| added = Some(add_print(&mut filter.0, print, how)));
    if added == Some(Ok(true)) {
        slot.record(op::ADD, &mut |out| put_bytes(out, item));
    }
    added
}

fn add_print(cuckoo: &mut Cuckoo, print: Print, how: Adding) -> Result<bool, AddError> {
    if how.only_absent && cuckoo.contains(print) {
        return Ok(false);
    }
    cuckoo.add(print, how.most).map(|()| true)
}

/// Adds a few items to a filter.
pub fn add_some(
    cuckoo: &mut Cuckoo,
    items: &[&[u8]],
    how: Adding,
    added: &mut Vec<Result<bool, AddError>>,
) {
    let prints: Vec<Print> = items.iter().map(|item| Print::of(item)).collect();
    cuckoo.touch(&prints);
    added.extend(prints.into_iter().map(|print| add_print(cuckoo, print, how)));
}

/// Adds items to the filter at a key. Returns for each whether it was added; nothing if there is no
/// filter.
pub fn add<S: Slot + ?Sized>(
    slot: &mut S,
    items: &[&[u8]],
    how: Adding,
) -> Vec<Result<bool, AddError>> {
    let mut added = Vec::with_capacity(items.len());
    change(slot, &mut |filter| {
        let some = items.chunks(ITEMS_AHEAD);
        some.for_each(|some| add_some(&mut filter.0, some, how, &mut added));
    });
    let is_new = |added: &Result<bool, AddError>| *added == Ok(true);
    if added.iter().any(is_new) {
        slot.record(op::ADD, &mut |out| {
            let new = items.iter().zip(&added).filter(|(_, added)| is_new(added));
            new.for_each(|(item, _)| put_bytes(out, item));
        });
    }
    added
}

/// Deletes an item once from the filter at a key. Returns whether it seemed to be there.
pub fn delete<S: Slot + ?Sized>(slot: &mut S, item: &[u8]) -> bool {
    let mut was_there = false;
    change(slot, &mut |filter| was_there = filter.0.delete(Print::of(item)));
    if was_there {
        slot.record(op::DELETE, &mut |out| put_bytes(out, item));
    }
    was_there
}

/// Moves items of the filter at a key to older sub-filters.
pub fn compact<S: Slot + ?Sized>(slot: &mut S) {
    let mut has_changed = false;
    change(slot, &mut |filter| {
        has_changed = filter.0.filters() > 1 || filter.0.deletes() > 0;
        filter.0.compact(true);
    });
    if has_changed {
        slot.record(op::COMPACT, &mut |_| {});
    }
}

/// Makes the filter of a dump's head at a key that holds nothing, without its items; false if the
/// head is broken.
pub fn load_head<S: Slot + ?Sized>(slot: &mut S, head: &[u8]) -> bool {
    let cuckoo = Cuckoo::from_head(head).filter(|_| slot.held().is_none());
    let Some(cuckoo) = cuckoo else { return false };
    slot.put_boxed(Box::new(CuckooFilter::new(cuckoo)));
    slot.record(op::HEAD, &mut |out| put_bytes(out, head));
    true
}

/// Overwrites some fingerprints of the filter at a key.
///
/// # Errors
/// If it has no such ones, or there is no filter; nothing has changed then.
pub fn load_piece<S: Slot + ?Sized>(
    slot: &mut S,
    iterator: i64,
    piece: &[u8],
) -> Result<(), LoadChunkError> {
    let mut loaded = Err(LoadChunkError);
    change(slot, &mut |filter| loaded = filter.0.load_piece(iterator, piece));
    if loaded.is_ok() {
        slot.record(op::PIECE, &mut |out| {
            put_signed(out, iterator);
            put_bytes(out, piece);
        });
    }
    loaded
}

#[inline]
fn change<S: Slot + ?Sized>(slot: &mut S, change: &mut dyn FnMut(&mut CuckooFilter)) {
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(filter) = (value as &mut dyn Any).downcast_mut() {
            change(filter);
        }
    });
}

/// A change as an effect carries it.
enum Decoded<'a> {
    Reserve(Reserve),
    Add(Vec<&'a [u8]>),
    Delete(&'a [u8]),
    Compact,
    Head(&'a [u8]),
    Piece(i64, &'a [u8]),
}

fn decode(change: CustomChange<'_>) -> Result<Decoded<'_>, Malformed> {
    let mut bytes = Bytes(change.body);
    let decoded = match change.op {
        op::RESERVE => {
            let capacity = bytes.number()?;
            let bucket_size = u8::try_from(bytes.number()?).map_err(|_| Malformed)?;
            let iterations = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
            let expansion = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
            Decoded::Reserve(Reserve { capacity, bucket_size, iterations, expansion })
        }
        op::ADD => {
            let mut items = Vec::new();
            while !bytes.0.is_empty() {
                items.push(bytes.bytes()?);
            }
            Decoded::Add(items)
        }
        op::DELETE => Decoded::Delete(bytes.bytes()?),
        op::COMPACT => Decoded::Compact,
        op::HEAD => Decoded::Head(bytes.bytes()?),
        op::PIECE => Decoded::Piece(bytes.signed()?, bytes.bytes()?),
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(decoded)
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let is_made = match decode(change).map_err(|Malformed| MALFORMED_CHANGE)? {
        Decoded::Reserve(asked) => reserve(slot, asked),
        Decoded::Add(items) => {
            let how = Adding { only_absent: false, most: FILTERS_MAX };
            add(slot, &items, how) == vec![Ok(true); items.len()]
        }
        Decoded::Delete(item) => delete(slot, item),
        Decoded::Compact => {
            let is_filter = slot.held().is_some();
            compact(slot);
            is_filter
        }
        Decoded::Head(head) => load_head(slot, head),
        Decoded::Piece(iterator, piece) => load_piece(slot, iterator, piece).is_ok(),
    };
    if is_made { Ok(()) } else { Err("the change does not fit the cuckoo filter") }
}

/// Writes a change as commands.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    match decoded {
        Ok(Decoded::Reserve(Reserve { capacity, bucket_size, iterations, expansion })) => {
            let numbers = [capacity, bucket_size.into(), iterations.into(), expansion.into()];
            let [capacity, size, iterations, expansion] = numbers.map(|n: u64| n.to_string());
            let (size, iterations) = (size.as_bytes(), iterations.as_bytes());
            let mut args = vec![key, capacity.as_bytes(), b"BUCKETSIZE", size];
            args.extend([b"MAXITERATIONS", iterations, b"EXPANSION", expansion.as_bytes()]);
            out.command("CF.RESERVE", &args);
        }
        Ok(Decoded::Add(items)) => {
            let args = [&[key, b"NOCREATE", b"ITEMS"], &items[..]].concat();
            out.command("CF.INSERT", &args);
        }
        Ok(Decoded::Delete(item)) => out.command("CF.DEL", &[key, item]),
        Ok(Decoded::Compact) => out.command("CF.COMPACT", &[key]),
        Ok(Decoded::Head(head)) => out.command("CF.LOADCHUNK", &[key, b"1", head]),
        Ok(Decoded::Piece(iterator, piece)) => {
            out.command("CF.LOADCHUNK", &[key, iterator.to_string().as_bytes(), piece]);
        }
        Err(Malformed) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_cut_or_forged_are_refused_or_read() {
        let mut reserve = Vec::new();
        [1000, 2, 20, 1].iter().for_each(|&n| put(&mut reserve, n));
        let mut add = Vec::new();
        [&b"a"[..], b"", b"item"].iter().for_each(|item| put_bytes(&mut add, item));
        let mut piece = Vec::new();
        put_signed(&mut piece, 17);
        put_bytes(&mut piece, b"cells");
        for (op, body) in [(op::RESERVE, reserve), (op::ADD, add), (op::PIECE, piece)] {
            assert!(decode(CustomChange { op, body: &body }).is_ok());
            for at in 0..body.len() {
                let is_list = op == op::ADD && [0, 2, 3].contains(&at);
                assert_eq!(decode(CustomChange { op, body: &body[..at] }).is_ok(), is_list);
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut broken = body.clone();
                    broken[at] = byte;
                    (0..=6).for_each(|op| drop(decode(CustomChange { op, body: &broken })));
                }
            }
        }
    }
}
