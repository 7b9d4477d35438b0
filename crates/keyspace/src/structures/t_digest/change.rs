//! Changes of t-digests: made at a key, encoded, and as commands. A merge replaces the value.
//!
//! ```text
//! make   compression
//! add    numbers (8 bytes each)
//! reset
//! ```

use super::{Digest, DigestRef};
use crate::structures::custom::number::{Bytes, Malformed, put};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, Held, MALFORMED_CHANGE, Slot, Why,
};
use petrel_sketch::t_digest::packed::{nodes_of, widen};
use petrel_sketch::t_digest::{Overflow, TDigest};
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const MAKE: u8 = 0;
    pub const ADD: u8 = 1;
    pub const RESET: u8 = 2;
}

/// Makes a digest at a key that holds nothing; false if no such digest is possible.
pub fn make<S: Slot + ?Sized>(slot: &mut S, compression: u64) -> bool {
    let digest = TDigest::new(compression).filter(|_| slot.held().is_none());
    let Some(packed) = digest.and_then(|digest| digest.pack()) else { return false };
    slot.put_packed(&packed);
    slot.record(op::MAKE, &mut |out| put(out, compression));
    true
}

/// Adds numbers to the digest at a key, which exists.
///
/// # Errors
/// If it would have too many numbers; those before were added.
pub fn add<S: Slot + ?Sized>(slot: &mut S, numbers: &[f64]) -> Result<(), Overflow> {
    let mut added = if add_packed(slot, numbers) { numbers.len() } else { 0 };
    if added == 0 {
        change(slot, &mut |Digest(digest)| {
            let until_full = numbers.iter().take_while(|&&number| digest.add(number, 1.0).is_ok());
            added = until_full.count();
        });
    }
    if added > 0 {
        slot.record(op::ADD, &mut |out| {
            let bits = numbers[..added].iter().map(|number| number.to_bits());
            bits.for_each(|bits| out.extend_from_slice(&bits.to_le_bytes()));
        });
    }
    if added == numbers.len() { Ok(()) } else { Err(Overflow) }
}

/// Adds numbers to a packed digest. If it cannot stay packed, boxes it and returns false.
#[inline]
fn add_packed<S: Slot + ?Sized>(slot: &mut S, numbers: &[f64]) -> bool {
    let Some(Held::Packed(packed)) = slot.held() else { return false };
    let mut room = [0; _];
    match nodes_of(packed, numbers, &mut room) {
        Some(nodes) => {
            let at = packed.len();
            slot.splice(at, 0, nodes, &mut |packed| widen(packed, numbers));
            true
        }
        None => {
            let digest = Digest::new(TDigest::unpack(packed));
            slot.put_boxed(Box::new(digest));
            false
        }
    }
}

/// Empties the digest at a key, which exists.
pub fn reset<S: Slot + ?Sized>(slot: &mut S) {
    let digest = slot.held().and_then(DigestRef::of);
    let empty = digest.and_then(|digest| TDigest::new(digest.compression()));
    if let Some(packed) = empty.and_then(|empty| empty.pack()) {
        slot.put_packed(&packed);
    }
    slot.record(op::RESET, &mut |_| {});
}

#[inline]
fn change<S: Slot + ?Sized>(slot: &mut S, change: &mut dyn FnMut(&mut Digest)) {
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(digest) = (value as &mut dyn Any).downcast_mut() {
            change(digest);
        }
    });
}

/// A change as an effect carries it.
enum Decoded {
    Make(u64),
    Add(Vec<f64>),
    Reset,
}

fn decode(change: CustomChange<'_>) -> Result<Decoded, Malformed> {
    let mut bytes = Bytes(change.body);
    let decoded = match change.op {
        op::MAKE => Decoded::Make(bytes.number()?),
        op::ADD => {
            let mut numbers = Vec::with_capacity(change.body.len() / 8);
            while !bytes.0.is_empty() {
                let number = f64::from_bits(bytes.fixed()?);
                numbers.push(if number.is_finite() { number } else { return Err(Malformed) });
            }
            Decoded::Add(numbers)
        }
        op::RESET => Decoded::Reset,
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(decoded)
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let change = decode(change).map_err(|Malformed| MALFORMED_CHANGE)?;
    let is_there = slot.held().is_some();
    let is_made = match change {
        Decoded::Make(compression) => make(slot, compression),
        Decoded::Add(numbers) => is_there && add(slot, &numbers).is_ok(),
        Decoded::Reset => {
            if is_there {
                reset(slot);
            }
            is_there
        }
    };
    if is_made { Ok(()) } else { Err("the change does not fit the t-digest") }
}

/// Writes a change as commands.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    match decoded {
        Ok(Decoded::Make(compression)) => {
            let compression = compression.to_string();
            out.command("TDIGEST.CREATE", &[key, b"COMPRESSION", compression.as_bytes()]);
        }
        Ok(Decoded::Add(numbers)) => {
            let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:?}")).collect();
            let mut args = vec![key];
            args.extend(numbers.iter().map(String::as_bytes));
            out.command("TDIGEST.ADD", &args);
        }
        Ok(Decoded::Reset) => out.command("TDIGEST.RESET", &[key]),
        Err(Malformed) => {}
    }
}
