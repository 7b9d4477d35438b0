//! Numbers in records, read with bounds checks.

use crate::slot::{SLOTS, Slot};
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put};

/// Maximum number of slots, commands or arguments in one record.
const COUNT_MAX: u64 = 1 << 20;

/// Appends an optional number.
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
    // Each element takes at least one byte.
    if count > COUNT_MAX || count > bytes.0.len() as u64 {
        return Err(Malformed);
    }
    Ok(count as usize)
}
