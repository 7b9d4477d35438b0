//! Changes of arrays: made at a key, encoded, and as commands.
//!
//! ```text
//! set      index; texts for it and the indexes after it
//! pairs    indexes, each with a text
//! insert   texts, from the cursor on
//! ring     size; texts, from the cursor on
//! seek     index of the next insertion
//! remove   indexes
//! ranges   first and last indexes
//! ```
//!
//! A text stands behind its length.

use super::{ArrayValue, element};
use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, MALFORMED_CHANGE, Slot, Why,
};
use petrel_array::{Array, INDEX_MAX};
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const SET: u8 = 0;
    pub const PAIRS: u8 = 1;
    pub const INSERT: u8 = 2;
    pub const RING: u8 = 3;
    pub const SEEK: u8 = 4;
    pub const REMOVE: u8 = 5;
    pub const RANGES: u8 = 6;
}

/// The keyspace event of an operation.
pub(super) fn event(op: u8) -> Option<&'static str> {
    match op {
        op::SET => Some("arset"),
        op::PAIRS => Some("armset"),
        op::INSERT => Some("arinsert"),
        op::RING => Some("arring"),
        op::SEEK => Some("arseek"),
        op::REMOVE => Some("ardel"),
        op::RANGES => Some("ardelrange"),
        _ => None,
    }
}

/// Changes the array at a key, which is made if `makes` says so; none if there is no array.
#[inline]
fn change<S: Slot + ?Sized, R>(
    slot: &mut S,
    makes: bool,
    change: impl FnOnce(&mut Array) -> R,
) -> Option<R> {
    if slot.held().is_none() {
        if !makes {
            return None;
        }
        slot.put_boxed(Box::new(ArrayValue::default()));
    }
    let (mut change, mut changed) = (Some(change), None);
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(ArrayValue(array)) = (value as &mut dyn Any).downcast_mut() {
            changed = change.take().map(|change| change(array));
        }
    });
    changed
}

/// The last of `count` indexes from `start` on; none if there is none, or if it is too great.
fn last_of(start: u64, count: usize) -> Option<u64> {
    let last = start.checked_add(count.checked_sub(1)? as u64)?;
    (last <= INDEX_MAX).then_some(last)
}

/// Sets the elements from an index on, and returns how many of them are new; none if there is
/// nothing to set, or an index is too great: nothing has changed then.
pub fn set<S: Slot + ?Sized>(slot: &mut S, start: u64, texts: &[&[u8]]) -> Option<u64> {
    let last = last_of(start, texts.len())?;
    let new = change(slot, true, |array| {
        let set = (start..=last).zip(texts).map(|(index, text)| array.set(index, element(text)));
        set.filter(|&is_new| is_new).count() as u64
    });
    slot.record(op::SET, &mut |out| {
        put(out, start);
        texts.iter().for_each(|text| put_bytes(out, text));
    });
    new
}

/// Sets elements, in order, and returns how many of them are new; none if there is nothing to set,
/// or an index is too great: nothing has changed then.
pub fn set_pairs<S: Slot + ?Sized>(slot: &mut S, pairs: &[(u64, &[u8])]) -> Option<u64> {
    if pairs.is_empty() || pairs.iter().any(|&(index, _)| index > INDEX_MAX) {
        return None;
    }
    let new = change(slot, true, |array| {
        let set = pairs.iter().map(|&(index, text)| array.set(index, element(text)));
        set.filter(|&is_new| is_new).count() as u64
    });
    slot.record(op::PAIRS, &mut |out| {
        for (index, text) in pairs {
            put(out, *index);
            put_bytes(out, text);
        }
    });
    new
}

/// Inserts elements at the cursor and after it, and returns the index of the last; none if there
/// are none, or if they would go beyond the greatest index: nothing has changed then.
pub fn insert<S: Slot + ?Sized>(slot: &mut S, texts: &[&[u8]]) -> Option<u64> {
    if texts.is_empty() {
        return None;
    }
    let elements = texts.iter().map(|text| element(text));
    let last = change(slot, true, |array| array.insert(elements))??;
    slot.record(op::INSERT, &mut |out| texts.iter().for_each(|text| put_bytes(out, text)));
    Some(last)
}

/// Inserts elements into a ring of a size, and returns the index of the last; none if there are
/// none, or if the size is 0: nothing has changed then.
pub fn ring<S: Slot + ?Sized>(slot: &mut S, size: u64, texts: &[&[u8]]) -> Option<u64> {
    if texts.is_empty() || size == 0 {
        return None;
    }
    let elements = texts.iter().map(|text| element(text));
    let last = change(slot, true, |array| array.ring(size, elements))??;
    slot.record(op::RING, &mut |out| {
        put(out, size);
        texts.iter().for_each(|text| put_bytes(out, text));
    });
    Some(last)
}

/// Sets the index of the next insertion; false if there is no array.
pub fn seek<S: Slot + ?Sized>(slot: &mut S, next: u64) -> bool {
    let is_there = change(slot, false, |array| array.seek(next)).is_some();
    if is_there {
        slot.record(op::SEEK, &mut |out| put(out, next));
    }
    is_there
}

/// Removes elements, and returns their number.
pub fn remove<S: Slot + ?Sized>(slot: &mut S, indexes: &[u64]) -> u64 {
    let removed = change(slot, false, |array| {
        let removed = indexes.iter().copied().filter(|&index| array.remove(index));
        (removed.collect::<Vec<u64>>(), array.is_empty())
    });
    let Some((removed, is_empty)) = removed else { return 0 };
    if !removed.is_empty() {
        slot.record(op::REMOVE, &mut |out| removed.iter().for_each(|&index| put(out, index)));
    }
    if is_empty {
        slot.remove_emptied();
    }
    removed.len() as u64
}

/// Removes all elements from indexes to others, and returns their number.
pub fn remove_ranges<S: Slot + ?Sized>(slot: &mut S, ranges: &[(u64, u64)]) -> u64 {
    let removed = change(slot, false, |array| {
        let mut removed = 0;
        for &(one, other) in ranges {
            let (lo, hi) = (one.min(other), one.max(other));
            if lo == 0 && hi.saturating_add(1) >= array.len() {
                // The key goes with its value, which is then freed apart.
                return (removed + array.count(), true);
            }
            removed += array.remove_between(lo, hi);
        }
        (removed, array.is_empty())
    });
    let Some((removed, is_empty)) = removed else { return 0 };
    if removed > 0 {
        slot.record(op::RANGES, &mut |out| {
            for &(from, to) in ranges {
                put(out, from);
                put(out, to);
            }
        });
    }
    if is_empty {
        slot.remove_emptied();
    }
    removed
}

/// A change as an effect carries it.
enum Decoded<'a> {
    Set(u64, Vec<&'a [u8]>),
    Pairs(Vec<(u64, &'a [u8])>),
    Insert(Vec<&'a [u8]>),
    Ring(u64, Vec<&'a [u8]>),
    Seek(u64),
    Remove(Vec<u64>),
    Ranges(Vec<(u64, u64)>),
}

/// Reads parts up to the end; there is at least one.
fn all<'a, T>(
    bytes: &mut Bytes<'a>,
    read: impl Fn(&mut Bytes<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut parts = vec![read(bytes)?];
    while !bytes.0.is_empty() {
        parts.push(read(bytes)?);
    }
    Ok(parts)
}

fn decode(change: CustomChange<'_>) -> Result<Decoded<'_>, Malformed> {
    let mut bytes = Bytes(change.body);
    let decoded = match change.op {
        op::SET => Decoded::Set(bytes.number()?, all(&mut bytes, Bytes::bytes)?),
        op::PAIRS => {
            Decoded::Pairs(all(&mut bytes, |bytes| Ok((bytes.number()?, bytes.bytes()?)))?)
        }
        op::INSERT => Decoded::Insert(all(&mut bytes, Bytes::bytes)?),
        op::RING => Decoded::Ring(bytes.number()?, all(&mut bytes, Bytes::bytes)?),
        op::SEEK => Decoded::Seek(bytes.number()?),
        op::REMOVE => Decoded::Remove(all(&mut bytes, Bytes::number)?),
        op::RANGES => {
            Decoded::Ranges(all(&mut bytes, |bytes| Ok((bytes.number()?, bytes.number()?)))?)
        }
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(decoded)
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let is_made = match decode(change).map_err(|Malformed| MALFORMED_CHANGE)? {
        Decoded::Set(start, texts) => set(slot, start, &texts).is_some(),
        Decoded::Pairs(pairs) => set_pairs(slot, &pairs).is_some(),
        Decoded::Insert(texts) => insert(slot, &texts).is_some(),
        Decoded::Ring(size, texts) => ring(slot, size, &texts).is_some(),
        Decoded::Seek(next) => seek(slot, next),
        Decoded::Remove(indexes) => remove(slot, &indexes) == indexes.len() as u64,
        Decoded::Ranges(ranges) => remove_ranges(slot, &ranges) > 0,
    };
    if is_made { Ok(()) } else { Err("the change does not fit the array") }
}

/// Writes a change as a command.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    let Ok(decoded) = decoded else { return };
    let numbers: Vec<String> = match &decoded {
        Decoded::Set(number, _) | Decoded::Ring(number, _) | Decoded::Seek(number) => {
            vec![number.to_string()]
        }
        Decoded::Pairs(pairs) => pairs.iter().map(|(index, _)| index.to_string()).collect(),
        Decoded::Insert(_) => Vec::new(),
        Decoded::Remove(indexes) => indexes.iter().map(u64::to_string).collect(),
        Decoded::Ranges(ranges) => {
            ranges.iter().flat_map(|(from, to)| [from, to]).map(u64::to_string).collect()
        }
    };
    let numbers = numbers.iter().map(|number| number.as_bytes());
    let (name, rest): (_, Vec<&[u8]>) = match decoded {
        Decoded::Set(_, texts) => ("ARSET", numbers.chain(texts).collect()),
        Decoded::Pairs(pairs) => {
            let pairs = numbers.zip(pairs).flat_map(|(index, (_, text))| [index, text]);
            ("ARMSET", pairs.collect())
        }
        Decoded::Insert(texts) => ("ARINSERT", texts),
        Decoded::Ring(_, texts) => ("ARRING", numbers.chain(texts).collect()),
        Decoded::Seek(_) => ("ARSEEK", numbers.collect()),
        Decoded::Remove(_) => ("ARDEL", numbers.collect()),
        Decoded::Ranges(_) => ("ARDELRANGE", numbers.collect()),
    };
    out.command(name, &[&[key][..], &rest].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_cut_or_forged_are_refused_or_read() {
        let mut set = vec![200, 1];
        [&b"a"[..], b"", b"text"].iter().for_each(|text| put_bytes(&mut set, text));
        let mut pairs = Vec::new();
        for index in [0, 300, INDEX_MAX] {
            put(&mut pairs, index);
            put_bytes(&mut pairs, b"text");
        }
        for (op, body) in [(op::SET, set.clone()), (op::RING, set), (op::PAIRS, pairs)] {
            assert!(decode(CustomChange { op, body: &body }).is_ok());
            for at in 0..body.len() {
                // Cut between texts, it is a shorter one.
                let cut = decode(CustomChange { op, body: &body[..at] });
                assert!(cut.is_err() || at > 3, "{op} {at}");
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut broken = body.clone();
                    broken[at] = byte;
                    (0..=7).for_each(|op| drop(decode(CustomChange { op, body: &broken })));
                }
            }
        }
        for op in 0..=7 {
            assert!(decode(CustomChange { op, body: &[] }).is_err());
        }
    }
}
