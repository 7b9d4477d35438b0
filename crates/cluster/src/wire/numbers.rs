//! Numbers as records have them, read with their limits.

use crate::slot::{SLOTS, Slot};
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put};

/// Slots, commands or arguments that one record names at most.
const COUNT_MAX: u64 = 1 << 20;

/// A number that may be missing.
pub(super) fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(number.is_some().into());
    number.into_iter().for_each(|number| put(out, number));
}

pub(super) fn take_option(bytes: &mut Bytes<'_>) -> Result<Option<u64>, Malformed> {
    let has = bytes.byte()?;
    take_if(has, bytes)
}

pub(super) fn take_if(has: u8, bytes: &mut Bytes<'_>) -> Result<Option<u64>, Malformed> {
    match has {
        0 => Ok(None),
        1 => Ok(Some(bytes.number()?)),
        _ => Err(Malformed),
    }
}

pub(super) fn take_slot(bytes: &mut Bytes<'_>) -> Result<Slot, Malformed> {
    let slot = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
    if slot < SLOTS { Ok(slot) } else { Err(Malformed) }
}

pub(super) fn take_count(bytes: &mut Bytes<'_>) -> Result<usize, Malformed> {
    let count = bytes.number()?;
    // Each has at least a byte.
    if count > COUNT_MAX || count > bytes.0.len() as u64 {
        return Err(Malformed);
    }
    Ok(count as usize)
}
