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

#[cfg(test)]
mod tests {
    use super::super::effect::{Context, Logged, put_effect, take_effect};
    use super::super::number::Bytes;
    use petrel_json::{Change, Op, Parse, Step, parse};
    use petrel_keyspace::{Effect, JsonChange, Order};

    fn text(effect: &Effect<'_>) -> String {
        format!("{effect:?}")
    }

    fn taken(bytes: &[u8]) -> Option<String> {
        let mut source = Bytes(bytes);
        let taken = take_effect(&mut source, &mut Context::default(), |_, logged| match logged {
            Logged::Effect(effect) => text(&effect),
            Logged::Store { .. } => String::new(),
        });
        taken.ok()
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
            let effect = Effect::Json { key: b"key", change };
            let mut bytes = Vec::new();
            put_effect(&mut bytes, &mut Context::default(), 0, Order(7), &effect);
            assert_eq!(taken(&bytes), Some(text(&effect)));
            // Bytes that are no document are no effect, and cause no panic.
            for at in 0..bytes.len() {
                assert_eq!(taken(&bytes[..at]), None);
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut broken = bytes.clone();
                    broken[at] = byte;
                    let _ = taken(&broken);
                }
            }
        }
    }

    #[test]
    fn what_is_no_tape_is_no_effect() {
        let place = [Step::Name(b"\xff")];
        let null = &[0][..];
        for change in [
            JsonChange::Put { tape: &[0x14, 1, 2, 0x40] },
            JsonChange::Put { tape: &[0, 0] },
            JsonChange::At(Change { place: &[], op: Op::Insert { count: 2, values: null } }),
            JsonChange::At(Change { place: &place, op: Op::Set(null) }),
            JsonChange::At(Change { place: &[Step::Index(0); 200], op: Op::Set(null) }),
        ] {
            let mut bytes = Vec::new();
            let effect = Effect::Json { key: b"key", change };
            put_effect(&mut bytes, &mut Context::default(), 0, Order(7), &effect);
            assert_eq!(taken(&bytes), None, "{change:?}");
        }
    }
}
