//! Changes of vector sets and JSON documents as files up to version 3 have them: as kinds of
//! effects of their own, of which the type determines the length.
//!
//! | kind | change |
//! |---|---|
//! | 48 | vector put; with its optional part, with attributes |
//! | 49, 50 | vector removed; its attributes |
//! | 51 | document put |
//! | 52, 53, 54 | value set at a place; elements inserted; removed |

use super::Malformed;
use super::number::Bytes;
use petrel_keyspace::custom::{CustomChange, TypeNumber};
use std::ops::RangeInclusive;

/// The kinds.
pub(super) const NUMBERS: RangeInclusive<u8> = 48..=54;

/// The code of vectors (`petrel_vector::Quantisation`) that has a seed.
const RABITQ: u64 = 3;

/// Takes the change that a kind of effect is.
///
/// # Errors
/// If the bytes end too early, or it is another kind.
pub(super) fn take<'a>(
    kind: u8,
    has_option: bool,
    bytes: &mut Bytes<'a>,
) -> Result<(TypeNumber, CustomChange<'a>), Malformed> {
    let (of, op) = match kind {
        48 => (TypeNumber::VECTOR_SET, u8::from(has_option)),
        49 | 50 => (TypeNumber::VECTOR_SET, kind - 47),
        51..=54 => (TypeNumber::JSON, kind - 51),
        _ => return Err(Malformed),
    };
    let all = bytes.0;
    match kind {
        48 => skip_vector(bytes, has_option)?,
        49 | 51 => skip_texts(bytes, 1)?,
        50 => skip_texts(bytes, 2)?,
        _ => {
            skip_place(bytes)?;
            if kind != 52 {
                bytes.number()?;
            }
            if kind != 54 {
                bytes.bytes()?;
            }
        }
    }
    let body = &all[..all.len() - bytes.0.len()];
    Ok((of, CustomChange { op, body }))
}

fn skip_texts(bytes: &mut Bytes<'_>, count: usize) -> Result<(), Malformed> {
    (0..count).try_for_each(|_| bytes.bytes().map(drop))
}

fn skip_vector(bytes: &mut Bytes<'_>, has_attributes: bool) -> Result<(), Malformed> {
    bytes.number()?;
    if bytes.number()? == RABITQ {
        bytes.number()?;
    }
    bytes.number()?;
    let is_reduced = bytes.number()? != 0;
    for _ in 0..3 {
        bytes.number()?;
    }
    skip_texts(bytes, 2 + usize::from(is_reduced) + usize::from(has_attributes))
}

fn skip_place(bytes: &mut Bytes<'_>) -> Result<(), Malformed> {
    for _ in 0..bytes.number()? {
        let word = bytes.number()?;
        if word & 1 == 1 {
            bytes.take(usize::try_from(word >> 1).map_err(|_| Malformed)?)?;
        }
    }
    Ok(())
}
