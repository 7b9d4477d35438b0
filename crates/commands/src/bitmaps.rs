//! Bitmaps: the bits of strings, numbered from the highest bit of the first byte. SETBIT, GETBIT,
//! BITCOUNT and BITPOS are here; BITFIELD is in `bitmaps/field.rs`, BITOP in `bitmaps/combine.rs`.

mod combine;
mod field;
mod popcount;
mod search;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::CommandSpec;
use petrel_table::commands as meta;
use std::ops::Range;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::SETBIT, setbit),
    CommandSpec::new(&meta::GETBIT, getbit),
    CommandSpec::new(&meta::BITCOUNT, bitcount),
    CommandSpec::new(&meta::BITPOS, bitpos),
    CommandSpec::new(&meta::BITOP, combine::bitop),
    CommandSpec::new(&meta::BITFIELD, field::bitfield),
    CommandSpec::new(&meta::BITFIELD_RO, field::bitfield_ro),
];

/// Encoding of a string after a write command of this family, whether or not the command changed a
/// bit.
const RAW: &str = "raw";
const BAD_OFFSET: Fail = Fail::fixed("ERR bit offset is not an integer or out of range");

/// `SETBIT key offset value`
fn setbit(ctx: &mut Ctx<'_>) -> Outcome {
    let offset = bit_offset(ctx, 2)?;
    let bit = match ctx.arg(3) {
        b"0" => 0,
        b"1" => 1,
        _ => return Err(Fail::fixed("ERR bit is not an integer or out of range")),
    };
    let (key, db, at) = (ctx.key(1), ctx.db(), offset / 8);
    let mut digits = itoa::Buffer::new();
    let view = ctx.exec.ks.look(db, key);
    let is_raw = view.is_some_and(|view| view.encoding() == RAW);
    let value = view.map(|view| view.string()).transpose()?;
    let old = value.as_ref().and_then(|value| value.bytes(&mut digits).get(at).copied());
    let len = value.map_or(0, |value| value.len());
    ctx.hold_growth(at.saturating_sub(len))?;
    let mask = 0x80 >> (offset % 8);
    let byte = old.unwrap_or(0);
    let new = if bit == 1 { byte | mask } else { byte & !mask };
    if old != Some(new) {
        ctx.exec.ks.write_range(db, key, at, &[new])?;
    } else if !is_raw {
        ctx.exec.ks.make_raw(db, key)?;
    }
    ctx.number(i64::from(byte & mask != 0))
}

/// `GETBIT key offset`
fn getbit(ctx: &mut Ctx<'_>) -> Outcome {
    let offset = bit_offset(ctx, 2)?;
    let key = ctx.key(1);
    let mut digits = itoa::Buffer::new();
    let value = ctx.exec.ks.read(ctx.session.db, key).map(|view| view.string()).transpose()?;
    let byte = value.as_ref().and_then(|value| value.bytes(&mut digits).get(offset / 8).copied());
    ctx.number(i64::from(byte.unwrap_or(0) >> (7 - offset % 8) & 1))
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
fn bitcount(ctx: &mut Ctx<'_>) -> Outcome {
    let given = match ctx.args().len() {
        2 => None,
        3 if ctx.dialect().is_valkey() => {
            Some(Stretch { start: ctx.integer(2)?, end: Some(-1), unit: Unit::Byte })
        }
        4..=5 => Some(Stretch {
            start: ctx.integer(2)?,
            end: Some(ctx.integer(3)?),
            unit: unit(ctx, 4)?,
        }),
        _ => return Err(Fail::SYNTAX),
    };
    let key = ctx.key(1);
    let Some(view) = ctx.exec.ks.read(ctx.session.db, key) else { return ctx.number(0) };
    let (value, mut digits) = (view.string()?, itoa::Buffer::new());
    let bytes = value.bytes(&mut digits);
    let ones = match given {
        None => popcount::ones(bytes),
        // If both ends count from the back and are in the wrong order, the range is empty, even if
        // both lie before the string.
        Some(Stretch { start, end: Some(end), .. }) if start < 0 && end < 0 && start > end => 0,
        Some(stretch) => popcount::ones_within(bytes, stretch.bits(bytes.len())),
    };
    ctx.number(ones as i64)
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
fn bitpos(ctx: &mut Ctx<'_>) -> Outcome {
    let bit = match ctx.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(Fail::fixed("ERR The bit argument must be 1 or 0.")),
    };
    let given = match ctx.args().len() {
        3 => Stretch { start: 0, end: None, unit: Unit::Byte },
        4 => Stretch { start: ctx.integer(3)?, end: None, unit: Unit::Byte },
        _ => {
            let (start, unit) = (ctx.integer(3)?, unit(ctx, 5)?);
            Stretch { start, end: Some(ctx.integer(4)?), unit }
        }
    };
    let key = ctx.key(1);
    let Some(view) = ctx.exec.ks.read(ctx.session.db, key) else {
        // A missing string counts as infinitely many zeros.
        return ctx.number(if bit { -1 } else { 0 });
    };
    let (value, mut digits) = (view.string()?, itoa::Buffer::new());
    let bytes = value.bytes(&mut digits);
    let range = given.bits(bytes.len());
    let found = match search::first(bytes, bit, range.clone()) {
        // Without an end, the string counts as followed by zeros.
        None if !bit && given.end.is_none() && !range.is_empty() => Some(range.end),
        found => found,
    };
    ctx.number(found.map_or(-1, |at| at as i64))
}

/// Unit of the ends of a range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unit {
    Byte,
    Bit,
}

/// Requested range of a string: both ends are inclusive, and negative ones count from the back.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: i64,
    /// `None`: the end of the string.
    end: Option<i64>,
    unit: Unit,
}

impl Stretch {
    /// The bits of the range in a string of `len` bytes.
    fn bits(self, len: usize) -> Range<usize> {
        let scale = if self.unit == Unit::Bit { 1 } else { 8 };
        let units = (len * 8 / scale) as i64;
        let from_front = |at: i64| if at < 0 { at.saturating_add(units).max(0) } else { at };
        let start = from_front(self.start);
        let end = from_front(self.end.unwrap_or(-1)).min(units - 1);
        if start > end {
            return 0..0;
        }
        start as usize * scale..(end as usize + 1) * scale
    }
}

/// Argument `i`, the last one, as a unit; bytes if it is missing.
fn unit(ctx: &Ctx<'_>, i: usize) -> Result<Unit, Fail> {
    match ctx.args().len() {
        len if len <= i => Ok(Unit::Byte),
        len if len > i + 1 => Err(Fail::SYNTAX),
        _ if ctx.is(i, "BYTE") => Ok(Unit::Byte),
        _ if ctx.is(i, "BIT") => Ok(Unit::Bit),
        _ => Err(Fail::SYNTAX),
    }
}

/// Argument `i` as the offset of a bit, up to the maximum length of strings.
fn bit_offset(ctx: &Ctx<'_>, i: usize) -> Result<usize, Fail> {
    let offset = ctx.integer(i).ok().and_then(|offset| usize::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < ctx.host.string_len_max()).ok_or(BAD_OFFSET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_clamped_to_the_string() {
        let bits = |start, end, unit| Stretch { start, end, unit }.bits(3);
        assert_eq!(bits(0, None, Unit::Byte), 0..24);
        assert_eq!(bits(1, Some(1), Unit::Byte), 8..16);
        assert_eq!(bits(-2, Some(-1), Unit::Byte), 8..24);
        assert_eq!(bits(5, Some(6), Unit::Bit), 5..7);
        assert_eq!(bits(-1, Some(i64::MAX), Unit::Bit), 23..24);
        assert_eq!(bits(i64::MIN, Some(i64::MIN), Unit::Byte), 0..8);
        assert!(bits(3, None, Unit::Byte).is_empty());
        assert!(bits(2, Some(1), Unit::Byte).is_empty());
        assert!(Stretch { start: 0, end: None, unit: Unit::Byte }.bits(0).is_empty());
    }
}
