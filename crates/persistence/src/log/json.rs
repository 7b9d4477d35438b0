//! Changes of JSON documents as they stand in a record.
//!
//! ```text
//! put     tape of the document
//! set     place, tape of the value
//! insert  place, how many values, their tapes
//! remove  place, how many elements or members
//!
//! place   number of steps; each: 2 * index of an element, or 2 * length + 1 of a member's name, name
//! ```

use super::Malformed;
use super::number::{Bytes, put, put_bytes};
use petrel_json::{DEPTH_MAX, Op, Step, check, check_many};
use petrel_keyspace::JsonChange;

pub(super) fn put_change(out: &mut Vec<u8>, change: &JsonChange<'_>) {
    let change = match change {
        JsonChange::Put { tape } => return put_bytes(out, tape),
        JsonChange::At(change) => change,
    };
    put(out, change.place.len() as u64);
    for step in change.place {
        match step {
            Step::Index(index) => put(out, (*index as u64) << 1),
            Step::Name(name) => {
                put(out, (name.len() as u64) << 1 | 1);
                out.extend_from_slice(name);
            }
        }
    }
    match change.op {
        Op::Set(tape) => put_bytes(out, tape),
        Op::Insert { count, values } => {
            put(out, count as u64);
            put_bytes(out, values);
        }
        Op::Remove { count } => put(out, count as u64),
    }
}

pub(super) fn take_put<'a>(bytes: &mut Bytes<'a>) -> Result<JsonChange<'a>, Malformed> {
    let tape = bytes.bytes()?;
    check(tape, 0).map(|_| JsonChange::Put { tape }).ok_or(Malformed)
}

pub(super) fn take_place<'a>(bytes: &mut Bytes<'a>) -> Result<Vec<Step<'a>>, Malformed> {
    let count = bytes.number()?;
    // A scalar may lie in as many containers as there can be.
    if count > DEPTH_MAX as u64 {
        return Err(Malformed);
    }
    let mut place = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let word = bytes.number()?;
        let number = usize::try_from(word >> 1).map_err(|_| Malformed)?;
        place.push(match word & 1 {
            0 => Step::Index(number),
            _ => Step::Name(bytes.take(number)?),
        });
    }
    // Names become part of the document.
    let is_text = |step: &Step<'_>| match step {
        Step::Name(name) => str::from_utf8(name).is_ok(),
        Step::Index(_) => true,
    };
    place.iter().all(is_text).then_some(place).ok_or(Malformed)
}

pub(super) fn take_set<'a>(bytes: &mut Bytes<'a>, outer: usize) -> Result<Op<'a>, Malformed> {
    let tape = bytes.bytes()?;
    check(tape, outer).map(|_| Op::Set(tape)).ok_or(Malformed)
}

pub(super) fn take_insert<'a>(bytes: &mut Bytes<'a>, outer: usize) -> Result<Op<'a>, Malformed> {
    let count = usize::try_from(bytes.number()?).map_err(|_| Malformed)?;
    let values = bytes.bytes()?;
    check_many(values, count, outer).then_some(Op::Insert { count, values }).ok_or(Malformed)
}
