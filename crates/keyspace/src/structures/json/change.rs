//! Changes of JSON documents: made at a key, encoded, and as commands.
//!
//! ```text
//! put     tape of the document
//! set     place, tape of the value
//! insert  place, how many values, their tapes
//! remove  place, how many elements or members
//!
//! place   number of steps, each:
//!         2 * index of an element, or 2 * length + 1 of a member's name, name
//! ```
//!
//! A document is packed into its entry up to [`PACKED_MAX`] bytes, and has an allocation of its own
//! beyond that, until it has shrunk to half.

use super::rdb::text;
use super::{Json, tape_of};
use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, Held, MALFORMED_CHANGE, Slot, Why,
};
use crate::structures::sizes::PACKED_MAX;
use petrel_json::{Change, DEPTH_MAX, Edit, Misfit, Op, Step, Value, check, check_many, path_to};
use std::any::Any;

/// Bytes to which a document must have shrunk to be packed again.
const REPACKED_MAX: usize = PACKED_MAX / 2;

/// Operations as effects number them.
mod op {
    pub const PUT: u8 = 0;
    pub const SET: u8 = 1;
    pub const INSERT: u8 = 2;
    pub const REMOVE: u8 = 3;
}

/// A change of a JSON document.
#[derive(Clone, Copy, Debug)]
pub enum JsonChange<'a> {
    /// The key holds this document from now on; its expiry is kept. A missing key is made.
    Put {
        /// The document's tape (`petrel_json::tape`).
        tape: &'a [u8],
    },
    /// Something changed at a place of the document.
    At(Change<'a>),
}

/// The reason for which a document cannot be changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JsonError {
    /// The key holds another type.
    WrongType,
    /// No such key exists.
    NoKey,
    /// The change does not fit the document.
    Misfit(Misfit),
}

impl From<Misfit> for JsonError {
    fn from(misfit: Misfit) -> Self {
        JsonError::Misfit(misfit)
    }
}

/// Makes a change of the document at a key.
///
/// # Errors
/// If the key holds nothing, or the change does not fit the document; nothing has changed then.
#[inline]
pub(crate) fn make<S: Slot + ?Sized>(
    slot: &mut S,
    change: JsonChange<'_>,
) -> Result<(), JsonError> {
    match change {
        JsonChange::Put { tape } => replace(slot, tape),
        JsonChange::At(change) => {
            edit(slot, &change)?;
            if record_emptied(slot, &change) {
                return Ok(());
            }
        }
    }
    record(slot, &change);
    Ok(())
}

#[inline(always)]
fn record<S: Slot + ?Sized>(slot: &mut S, change: &JsonChange<'_>) {
    slot.record(op_of(change), &mut |out| encode(out, change));
}

/// Records a removal that has left nothing in the root as a document: a Redis replica that removes
/// the last value removes the key, as `JSON.DEL` does.
#[inline(always)]
fn record_emptied<S: Slot + ?Sized>(slot: &mut S, change: &Change<'_>) -> bool {
    if !matches!((change.op, change.place), (Op::Remove { .. }, [_])) {
        return false;
    }
    let tape = slot.held().and_then(tape_of).filter(|tape| Value::new(tape).is_empty());
    // Of an empty container it is a few bytes.
    let Some(tape) = tape.map(<[u8]>::to_vec) else { return false };
    record(slot, &JsonChange::Put { tape: &tape });
    true
}

#[inline(always)]
fn replace<S: Slot + ?Sized>(slot: &mut S, tape: &[u8]) {
    match slot.held() {
        Some(Held::Packed(old)) if tape.len() <= PACKED_MAX => {
            let len = old.len();
            slot.splice(0, len, tape, &mut |_| ());
        }
        Some(Held::Boxed(_)) if tape.len() > REPACKED_MAX => {
            change_boxed(slot, &mut |json| json.replace(tape));
        }
        _ if tape.len() <= PACKED_MAX => slot.put_packed(tape),
        _ => slot.put_boxed(Box::new(Json::new(tape.to_vec()))),
    }
}

#[inline]
fn edit<S: Slot + ?Sized>(slot: &mut S, change: &Change<'_>) -> Result<(), JsonError> {
    let held = slot.held().ok_or(JsonError::NoKey)?;
    let tape = tape_of(held).ok_or(JsonError::WrongType)?;
    let edit = Edit::of(tape, change)?;
    let len = tape.len().saturating_add_signed(edit.grows_by());
    match held {
        Held::Packed(_) if len <= PACKED_MAX => {
            let (from, removed) = (edit.range.start, edit.range.len());
            slot.splice(from, removed, &edit.insert, &mut |packed| edit.write_headers(packed));
        }
        Held::Boxed(_) if len > REPACKED_MAX => change_boxed(slot, &mut |json| json.edit(&edit)),
        held => {
            let mut tape = tape.to_vec();
            edit.apply(&mut tape);
            match held {
                Held::Packed(_) => slot.put_boxed(Box::new(Json::new(tape))),
                Held::Boxed(_) => slot.put_packed(&tape),
            }
        }
    }
    Ok(())
}

#[inline]
fn change_boxed<S: Slot + ?Sized>(slot: &mut S, change: &mut dyn FnMut(&mut Json)) {
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(json) = (value as &mut dyn Any).downcast_mut() {
            change(json);
        }
    });
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let made = decode(change, |change| make(slot, change)).map_err(|_| MALFORMED_CHANGE)?;
    made.map_err(|error| match error {
        JsonError::WrongType => "the key holds a value of another type",
        JsonError::NoKey => "there is no such key",
        JsonError::Misfit(Misfit::NoPlace) => "the document has no such place",
        JsonError::Misfit(Misfit::TooDeep) => "the document would be nested too deep",
        JsonError::Misfit(Misfit::TooLong) => "the document would be too long",
    })
}

/// Whether a change is of a place, which [`place_of`] reads, and not of the whole document.
pub(crate) fn is_of_place(op: u8) -> bool {
    op != op::PUT
}

/// The place that a recorded change is at or above; none if it is the whole document.
pub(crate) fn place_of(change: CustomChange<'_>) -> Option<Vec<Step<'_>>> {
    if !is_of_place(change.op) {
        return None;
    }
    let mut bytes = Bytes(change.body);
    let mut place = take_place(&mut bytes).ok()?;
    // Several removed members are beside each other.
    if change.op == op::REMOVE && bytes.number() != Ok(1) {
        place.pop();
    }
    Some(place)
}

fn op_of(change: &JsonChange<'_>) -> u8 {
    match change {
        JsonChange::Put { .. } => op::PUT,
        JsonChange::At(change) => match change.op {
            Op::Set(_) => op::SET,
            Op::Insert { .. } => op::INSERT,
            Op::Remove { .. } => op::REMOVE,
        },
    }
}

fn encode(out: &mut Vec<u8>, change: &JsonChange<'_>) {
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

/// Shows a change to `visit`, if it can be one of a document.
fn decode<T>(
    change: CustomChange<'_>,
    visit: impl FnOnce(JsonChange<'_>) -> T,
) -> Result<T, Malformed> {
    let mut bytes = Bytes(change.body);
    if change.op == op::PUT {
        let tape = bytes.bytes()?;
        bytes.end()?;
        check(tape, 0).ok_or(Malformed)?;
        return Ok(visit(JsonChange::Put { tape }));
    }
    let place = take_place(&mut bytes)?;
    let op = match change.op {
        op::SET => {
            let tape = bytes.bytes()?;
            check(tape, place.len()).map(|_| Op::Set(tape)).ok_or(Malformed)?
        }
        op::INSERT => {
            let count = bytes.size()?;
            let values = bytes.bytes()?;
            let is_sound = check_many(values, count, place.len());
            is_sound.then_some(Op::Insert { count, values }).ok_or(Malformed)?
        }
        op::REMOVE => Op::Remove { count: bytes.size()? },
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(visit(JsonChange::At(Change { place: &place, op })))
}

fn take_place<'a>(bytes: &mut Bytes<'a>) -> Result<Vec<Step<'a>>, Malformed> {
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

/// Writes a change as commands: values as text, elements that are removed together as a slice.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let written = decode(change, |change| write_command(key, change, out));
    debug_assert!(written.is_ok(), "{change:?}");
}

fn write_command(key: &[u8], change: JsonChange<'_>, out: &mut dyn CommandWriter) {
    let Change { place, op } = match change {
        JsonChange::Put { tape } => {
            return out.command("JSON.SET", &[key, b"$", &text(Value::new(tape))]);
        }
        JsonChange::At(change) => change,
    };
    match op {
        Op::Set(tape) => {
            out.command("JSON.SET", &[key, &path_to(place), &text(Value::new(tape))]);
        }
        Op::Insert { values, .. } => {
            let Some((Step::Index(index), array)) = place.split_last() else { return };
            let mut digits = itoa::Buffer::new();
            let (path, texts) = (path_to(array), texts(values));
            let mut args = vec![key, &path, digits.format(*index).as_bytes()];
            args.extend(texts.iter().map(Vec::as_slice));
            out.command("JSON.ARRINSERT", &args);
        }
        Op::Remove { count } => {
            let path = match place.split_last() {
                Some((Step::Index(from), array)) if count != 1 => {
                    let mut path = path_to(array);
                    path.extend_from_slice(format!("[{from}:{}]", from + count).as_bytes());
                    path
                }
                _ => path_to(place),
            };
            out.command("JSON.DEL", &[key, &path]);
        }
    }
}

/// Texts of the values of consecutive tapes.
fn texts(mut tapes: &[u8]) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    while !tapes.is_empty() {
        let value = Value::new(tapes);
        texts.push(text(value));
        tapes = &tapes[value.tape().len()..];
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_json::{Parse, parse};

    fn encoded(change: &JsonChange<'_>) -> (u8, Vec<u8>) {
        let mut body = Vec::new();
        encode(&mut body, change);
        (op_of(change), body)
    }

    fn decoded(op: u8, body: &[u8]) -> Option<String> {
        decode(CustomChange { op, body }, |change| format!("{change:?}")).ok()
    }

    #[test]
    fn changes_are_read_as_they_were_written() {
        let tape = |text: &[u8]| parse(text, Parse::default()).unwrap().into_tape();
        let (value, more) = (tape(br#"{"a":[1,2.5,"x"]}"#), [tape(b"1"), tape(b"[]")].concat());
        let place = [Step::Name(b"a b"), Step::Index(300), Step::Name(b"")];
        let at = |op| JsonChange::At(Change { place: &place, op });
        for change in [
            JsonChange::Put { tape: &value },
            at(Op::Set(&value)),
            at(Op::Insert { count: 2, values: &more }),
            at(Op::Remove { count: 1000 }),
        ] {
            let (op, body) = encoded(&change);
            assert_eq!(decoded(op, &body), Some(format!("{change:?}")));
            // Bytes that are no document are no change, and nothing ends in a panic.
            for at in 0..body.len() {
                assert_eq!(decoded(op, &body[..at]), None);
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut broken = body.clone();
                    broken[at] = byte;
                    (0..=4).for_each(|op| drop(decoded(op, &broken)));
                }
            }
        }
    }

    #[test]
    fn what_is_no_tape_is_no_change() {
        let place = [Step::Name(b"\xff")];
        let null = &[0][..];
        for change in [
            JsonChange::Put { tape: &[0x14, 1, 2, 0x40] },
            JsonChange::Put { tape: &[0, 0] },
            JsonChange::At(Change { place: &[], op: Op::Insert { count: 2, values: null } }),
            JsonChange::At(Change { place: &place, op: Op::Set(null) }),
            JsonChange::At(Change { place: &[Step::Index(0); 200], op: Op::Set(null) }),
        ] {
            let (op, body) = encoded(&change);
            assert_eq!(decoded(op, &body), None, "{change:?}");
        }
    }
}
