//! Changes of suggestions: made at a key, encoded, and as commands.
//!
//! ```text
//! put     term, bits of the score, 0 or the payload's length and 1, payload
//! remove  term
//! ```

use super::{Suggestion, Suggestions, valid_term};
use crate::structures::custom::number::{Bytes, Malformed, put as put_number, put_bytes};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, MALFORMED_CHANGE, Slot, Why,
};
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const PUT: u8 = 0;
    pub const REMOVE: u8 = 1;
}

fn change<S: Slot + ?Sized>(slot: &mut S, change: &mut dyn FnMut(&mut Suggestions)) {
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(suggestions) = (value as &mut dyn Any).downcast_mut() {
            change(suggestions);
        }
    });
}

/// Puts a term with its score and payload, which replace earlier ones.
pub fn put<S: Slot + ?Sized>(slot: &mut S, term: &[u8], score: f32, payload: Option<&[u8]>) {
    if slot.held().is_none() {
        slot.put_boxed(Box::new(Suggestions::default()));
    }
    change(slot, &mut |all| {
        let payload = payload.map(Into::into);
        all.put(Suggestion { payload, ..Suggestion::new(term, score) });
    });
    slot.record(op::PUT, &mut |out| {
        put_bytes(out, term);
        put_number(out, score.to_bits().into());
        put_number(out, payload.map_or(0, |payload| payload.len() as u64 + 1));
        out.extend_from_slice(payload.unwrap_or_default());
    });
}

/// Removes a term; false if it is not there. Without terms the key stays, as in Redis.
pub fn remove<S: Slot + ?Sized>(slot: &mut S, term: &[u8]) -> bool {
    let mut is_removed = false;
    change(slot, &mut |all| is_removed = all.remove(term));
    if is_removed {
        slot.record(op::REMOVE, &mut |out| put_bytes(out, term));
    }
    is_removed
}

/// A change as an effect carries it.
enum Decoded<'a> {
    Put(&'a [u8], f32, Option<&'a [u8]>),
    Remove(&'a [u8]),
}

fn decode(change: CustomChange<'_>) -> Result<Decoded<'_>, Malformed> {
    let mut bytes = Bytes(change.body);
    let term = bytes.bytes()?;
    if valid_term(term) != Some(term) {
        return Err(Malformed);
    }
    let decoded = match change.op {
        op::PUT => {
            let score = u32::try_from(bytes.number()?).map_err(|_| Malformed)?;
            let score = f32::from_bits(score);
            if score.is_nan() {
                return Err(Malformed);
            }
            let payload = match bytes.number()?.checked_sub(1) {
                Some(len) => Some(bytes.take(usize::try_from(len).map_err(|_| Malformed)?)?),
                None => None,
            };
            Decoded::Put(term, score, payload)
        }
        op::REMOVE => Decoded::Remove(term),
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(decoded)
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    match decode(change).map_err(|Malformed| MALFORMED_CHANGE)? {
        Decoded::Put(term, score, payload) => {
            put(slot, term, score, payload);
            Ok(())
        }
        Decoded::Remove(term) => match remove(slot, term) {
            true => Ok(()),
            false => Err("the change does not fit the suggestions"),
        },
    }
}

/// Writes a change as commands.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    match decoded {
        Ok(Decoded::Put(term, score, payload)) => {
            let score = score.to_string();
            let mut args = vec![key, term, score.as_bytes()];
            if let Some(payload) = payload {
                args.extend([&b"PAYLOAD"[..], payload]);
            }
            out.command("FT.SUGADD", &args);
        }
        Ok(Decoded::Remove(term)) => out.command("FT.SUGDEL", &[key, term]),
        Err(Malformed) => {}
    }
}
