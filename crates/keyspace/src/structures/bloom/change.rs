//! Changes of Bloom filters: made at a key, encoded, and as commands.
//!
//! ```text
//! reserve  error rate (8 bytes), entries, 2 * expansion + whether it does not grow
//! add      items, each behind its length
//! head     head of a dump
//! piece    iterator, bits
//! ```

use super::Filter;
use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes, put_signed};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, MALFORMED_CHANGE, Slot, Why,
};
use petrel_sketch::bloom::{AddError, Bloom, ChunkError, Hashes};
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const RESERVE: u8 = 0;
    pub const ADD: u8 = 1;
    pub const HEAD: u8 = 2;
    pub const PIECE: u8 = 3;
}

/// Number of items for which bits are prefetched together.
const ITEMS_AHEAD: usize = 16;

/// The properties of a filter that is to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reserve {
    /// Share of absent items that the filter may seem to have.
    pub error: f64,
    /// Items for which the first link is made.
    pub entries: u64,
    /// Factor by which each link is larger than the one before.
    pub expansion: u32,
    /// Whether it does not grow.
    pub is_fixed: bool,
}

/// Makes a filter at a key that holds nothing; false if no such filter is possible.
pub fn reserve<S: Slot + ?Sized>(slot: &mut S, asked: Reserve) -> bool {
    let Reserve { error, entries, expansion, is_fixed } = asked;
    let bloom = Bloom::new(error, entries, expansion, is_fixed);
    let Some(bloom) = bloom.filter(|_| slot.held().is_none()) else { return false };
    slot.put_boxed(Box::new(Filter::new(bloom)));
    slot.record(op::RESERVE, &mut |out| {
        out.extend_from_slice(&error.to_bits().to_le_bytes());
        put(out, entries);
        put(out, u64::from(expansion) << 1 | u64::from(is_fixed));
    });
    true
}

/// Adds an item to the filter at a key. Returns whether it was new; none if there is no filter.
///
/// # Errors
/// If there is no room for a new item.
#[inline]
pub fn add_one<S: Slot + ?Sized>(slot: &mut S, item: &[u8]) -> Option<Result<bool, AddError>> {
    let filter = slot.held()?.get::<Filter>()?;
    let hashes = filter.bloom().hashes(item);
    let mut added = None;
    change(slot, &mut |filter| added = Some(filter.0.add(hashes)));
    if added == Some(Ok(true)) {
        slot.record(op::ADD, &mut |out| put_bytes(out, item));
    }
    added
}

/// Adds a few items to a filter; false if there is no room for one, which is the last of `added`.
pub fn add_some(
    bloom: &mut Bloom,
    items: &[&[u8]],
    added: &mut Vec<Result<bool, AddError>>,
) -> bool {
    let hashes: Vec<Hashes> = items.iter().map(|item| bloom.hashes(item)).collect();
    bloom.touch(&hashes);
    hashes.into_iter().all(|hashes| {
        added.push(bloom.add(hashes));
        !matches!(added.last(), Some(Err(_)))
    })
}

/// Adds items to the filter at a key, up to the first for which there is no room. Returns for each
/// whether it was new.
pub fn add<S: Slot + ?Sized>(slot: &mut S, items: &[&[u8]]) -> Vec<Result<bool, AddError>> {
    let mut added = Vec::with_capacity(items.len());
    change(slot, &mut |filter| {
        let mut some = items.chunks(ITEMS_AHEAD);
        some.all(|some| add_some(&mut filter.0, some, &mut added));
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

/// Makes the filter of a dump's head at a key that holds nothing, without its bits; false if the
/// head is broken.
pub fn load_head<S: Slot + ?Sized>(slot: &mut S, head: &[u8]) -> bool {
    let bloom = Bloom::from_head(head).filter(|_| slot.held().is_none());
    let Some(bloom) = bloom else { return false };
    slot.put_boxed(Box::new(Filter::new(bloom)));
    slot.record(op::HEAD, &mut |out| put_bytes(out, head));
    true
}

/// Overwrites some bits of the filter at a key.
///
/// # Errors
/// If it has no such bits, or there is no filter; nothing has changed then.
pub fn load_piece<S: Slot + ?Sized>(
    slot: &mut S,
    iterator: i64,
    piece: &[u8],
) -> Result<(), ChunkError> {
    let mut loaded = Err(ChunkError::NoLink);
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
fn change<S: Slot + ?Sized>(slot: &mut S, change: &mut dyn FnMut(&mut Filter)) {
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
    Head(&'a [u8]),
    Piece(i64, &'a [u8]),
}

fn decode(change: CustomChange<'_>) -> Result<Decoded<'_>, Malformed> {
    let mut bytes = Bytes(change.body);
    let decoded = match change.op {
        op::RESERVE => {
            let (error, entries) = (f64::from_bits(bytes.fixed()?), bytes.number()?);
            let last = bytes.number()?;
            let expansion = u32::try_from(last >> 1).map_err(|_| Malformed)?;
            Decoded::Reserve(Reserve { error, entries, expansion, is_fixed: last & 1 != 0 })
        }
        op::ADD => {
            let mut items = Vec::new();
            while !bytes.0.is_empty() {
                items.push(bytes.bytes()?);
            }
            Decoded::Add(items)
        }
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
        Decoded::Add(items) => add(slot, &items) == vec![Ok(true); items.len()],
        Decoded::Head(head) => load_head(slot, head),
        Decoded::Piece(iterator, piece) => load_piece(slot, iterator, piece).is_ok(),
    };
    if is_made { Ok(()) } else { Err("the change does not fit the Bloom filter") }
}

/// Writes a change as commands.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    match decoded {
        Ok(Decoded::Reserve(Reserve { error, entries, expansion, is_fixed })) => {
            let (error, entries) = (format!("{error:?}"), entries.to_string());
            let (expansion, args) = (expansion.to_string(), [key, error.as_bytes()]);
            let [key, error] = args;
            let entries = entries.as_bytes();
            if is_fixed {
                out.command("BF.RESERVE", &[key, error, entries, b"NONSCALING"]);
            } else {
                let args = [key, error, entries, b"EXPANSION", expansion.as_bytes()];
                out.command("BF.RESERVE", &args);
            }
        }
        Ok(Decoded::Add(mut items)) => {
            items.insert(0, key);
            out.command("BF.MADD", &items);
        }
        Ok(Decoded::Head(head)) => out.command("BF.LOADCHUNK", &[key, b"1", head]),
        Ok(Decoded::Piece(iterator, piece)) => {
            out.command("BF.LOADCHUNK", &[key, iterator.to_string().as_bytes(), piece]);
        }
        Err(Malformed) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_cut_or_forged_are_refused_or_read() {
        let mut reserve = 0.01f64.to_bits().to_le_bytes().to_vec();
        put(&mut reserve, 1000);
        put(&mut reserve, 5);
        let mut add = Vec::new();
        [&b"a"[..], b"", b"item"].iter().for_each(|item| put_bytes(&mut add, item));
        let mut piece = Vec::new();
        put_signed(&mut piece, 17);
        put_bytes(&mut piece, b"bits");
        for (op, body) in [(op::RESERVE, reserve), (op::ADD, add), (op::PIECE, piece)] {
            assert!(decode(CustomChange { op, body: &body }).is_ok());
            for at in 0..body.len() {
                let is_list = op == op::ADD && [0, 2, 3].contains(&at);
                assert_eq!(decode(CustomChange { op, body: &body[..at] }).is_ok(), is_list);
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut broken = body.clone();
                    broken[at] = byte;
                    (0..=4).for_each(|op| drop(decode(CustomChange { op, body: &broken })));
                }
            }
        }
    }
}
