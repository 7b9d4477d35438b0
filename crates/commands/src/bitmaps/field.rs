//! BITFIELD: integers of 1 to 64 bits at any bit of a string.

use super::{BAD_OFFSET, RAW};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::integer;
use petrel_table::options::BitfieldOption;

const BAD_TYPE: Fail = Fail::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);

/// Maximum number of bytes that a field overlaps.
const WINDOW: usize = 9;

/// Offset and type of an integer field.
#[derive(Clone, Copy, Debug)]
struct Field {
    signed: bool,
    /// 1 to 64; at most 63 if unsigned.
    width: u32,
    /// Offset of the first bit.
    offset: usize,
}

/// Treatment of numbers that do not fit the field.
#[derive(Clone, Copy, Debug)]
enum Overflow {
    /// Keep the lowest bits.
    Wrap,
    /// Take the nearest number that fits.
    Saturate,
    /// Write nothing.
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    field: Field,
    action: Action,
    overflow: Overflow,
}

/// `BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY
/// type offset increment] ...`
pub(super) fn bitfield(ctx: &mut Ctx<'_>) -> Outcome {
    let checked = check(ctx)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let Some(len) = checked.written_bytes else { return get(ctx, checked.count) };
    let before = match ctx.exec.ks.look(db, key) {
        Some(view) => view.string()?.len(),
        None => 0,
    };
    ctx.hold_growth(len.saturating_sub(before))?;
    run(ctx, checked.count)?;
    // The string is extended to the farthest bit of all writes, even if a write failed.
    let view = ctx.exec.ks.peek(db, key);
    let is_raw = view.is_some_and(|view| view.encoding() == RAW);
    let value = view.map(|view| view.string()).transpose()?;
    if value.is_none_or(|value| value.len() < len) {
        ctx.exec.ks.write_range(db, key, len - 1, &[0])?;
    } else if !is_raw {
        ctx.exec.ks.make_raw(db, key)?;
    }
    Ok(())
}

/// `BITFIELD_RO key [GET type offset ...]`
pub(super) fn bitfield_ro(ctx: &mut Ctx<'_>) -> Outcome {
    let checked = check(ctx)?;
    if checked.written_bytes.is_some() {
        return Err(Fail::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    get(ctx, checked.count)
}

/// Executes operations that only read.
fn get(ctx: &mut Ctx<'_>, count: usize) -> Outcome {
    let key = ctx.key(1);
    if let Some(view) = ctx.exec.ks.read(ctx.session.db, key) {
        view.string()?;
    }
    run(ctx, count)
}

/// Results of checking all operations, before the first is executed.
struct Checked {
    count: usize,
    /// Minimum length of the string afterwards, in bytes; `None` if nothing is written.
    written_bytes: Option<usize>,
}

fn check(ctx: &Ctx<'_>) -> Result<Checked, Fail> {
    let mut checked = Checked { count: 0, written_bytes: None };
    let (len_max, mut overflow) = (ctx.host.string_len_max(), Overflow::Wrap);
    for option in ctx.options(2) {
        let Some(operation) = operation(option?, len_max, &mut overflow)? else { continue };
        let Operation { field, action, .. } = operation;
        checked.count += 1;
        if !matches!(action, Action::Get) {
            let bytes = (field.offset + field.width as usize).div_ceil(8);
            checked.written_bytes = checked.written_bytes.max(Some(bytes));
        }
    }
    Ok(checked)
}

/// Parses an option as an operation; `None` for an `OVERFLOW` option, which applies to the
/// following operations.
fn operation(
    option: BitfieldOption<'_>,
    len_max: usize,
    overflow: &mut Overflow,
) -> Result<Option<Operation>, Fail> {
    let (field, action) = match option {
        BitfieldOption::Overflow(word) => {
            *overflow = Overflow::parse(word)?;
            return Ok(None);
        }
        BitfieldOption::Get(encoding, offset) => {
            (Field::parse(encoding, offset, len_max)?, Action::Get)
        }
        BitfieldOption::Set(encoding, offset, number) => {
            (Field::parse(encoding, offset, len_max)?, Action::Set(integer(number)?))
        }
        BitfieldOption::Incrby(encoding, offset, number) => {
            (Field::parse(encoding, offset, len_max)?, Action::Add(integer(number)?))
        }
    };
    Ok(Some(Operation { field, action, overflow: *overflow }))
}

/// Executes the operations and replies. The operations and the type of the value have been checked.
fn run(ctx: &mut Ctx<'_>, count: usize) -> Outcome {
    ctx.reply.array(count);
    let (key, db) = (ctx.key(1), ctx.db());
    let (len_max, mut overflow) = (ctx.host.string_len_max(), Overflow::Wrap);
    for option in ctx.options(2) {
        let Some(operation) = operation(option?, len_max, &mut overflow)? else { continue };
        let Operation { field, action, overflow } = operation;
        let mut window = Window::default();
        if let Some(view) = ctx.exec.ks.peek(db, key) {
            let (value, mut digits) = (view.string()?, itoa::Buffer::new());
            window = Window::read(value.bytes(&mut digits), field);
        }
        let old = window.get(field);
        let new = match action {
            Action::Get => Some(old),
            Action::Set(number) => field.fit(field.as_written(number), overflow),
            Action::Add(increment) => field.fit(i128::from(old) + i128::from(increment), overflow),
        };
        match (new, action) {
            (None, _) => ctx.reply.null(),
            (Some(new), Action::Add(_)) => ctx.reply.integer(new),
            (Some(_), _) => ctx.reply.integer(old),
        }
        if let Some(new) = new.filter(|new| *new != old) {
            window.set(field, new);
            ctx.exec.ks.write_range(db, key, field.offset / 8, window.bytes(field))?;
        }
    }
    Ok(())
}

impl Overflow {
    fn parse(text: &[u8]) -> Result<Self, Fail> {
        let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
        match () {
            () if is("WRAP") => Ok(Overflow::Wrap),
            () if is("SAT") => Ok(Overflow::Saturate),
            () if is("FAIL") => Ok(Overflow::Fail),
            () => Err(Fail::fixed("ERR Invalid OVERFLOW type specified")),
        }
    }
}

impl Field {
    /// Reads a type and an offset.
    fn parse(encoding: &[u8], offset: &[u8], len_max: usize) -> Result<Self, Fail> {
        let (signed, digits) = match encoding {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(BAD_TYPE),
        };
        let widest = if signed { 64 } else { 63 };
        let width = petrel_keyspace::parse_int(digits).filter(|width| (1..=widest).contains(width));
        let width = width.ok_or(BAD_TYPE)? as u32;
        let offset = match offset {
            [b'#', number @ ..] => petrel_keyspace::parse_int(number)
                .and_then(|number| number.checked_mul(i64::from(width))),
            number => petrel_keyspace::parse_int(number),
        };
        let offset = offset
            .and_then(|offset| usize::try_from(offset).ok())
            .filter(|offset| offset / 8 < len_max);
        Ok(Field { signed, width, offset: offset.ok_or(BAD_OFFSET)? })
    }

    fn min(self) -> i128 {
        if self.signed { -(1 << (self.width - 1)) } else { 0 }
    }

    fn max(self) -> i128 {
        if self.signed { (1 << (self.width - 1)) - 1 } else { (1 << self.width) - 1 }
    }

    /// The number that `SET` writes: for an unsigned field, a negative number counts as a large
    /// one.
    fn as_written(self, number: i64) -> i128 {
        if self.signed { number.into() } else { (number as u64).into() }
    }

    /// The number to write for `number`; `None` if nothing is to be written.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = (self.min(), self.max());
        let fitting = match overflow {
            _ if (min..=max).contains(&number) => number,
            Overflow::Fail => return None,
            Overflow::Saturate => number.clamp(min, max),
            Overflow::Wrap => (number - min).rem_euclid(max - min + 1) + min,
        };
        Some(fitting as i64)
    }
}

/// The bytes that a field overlaps, as one number. Bytes beyond the string are 0.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    bytes: [u8; WINDOW],
}

impl Window {
    fn read(string: &[u8], field: Field) -> Self {
        let mut window = Window::default();
        let from = (field.offset / 8).min(string.len());
        let there = &string[from..(from + window.bytes(field).len()).min(string.len())];
        window.bytes[..there.len()].copy_from_slice(there);
        window
    }

    fn bytes(&self, field: Field) -> &[u8] {
        &self.bytes[..(field.offset % 8 + field.width as usize).div_ceil(8)]
    }

    fn get(&self, field: Field) -> i64 {
        let bits = (self.number() >> Self::below(field)) & Self::mask(field);
        // Shifts the field's sign bit to the top and back.
        let spare = 64 - field.width;
        let top = (bits as u64) << spare;
        if field.signed { (top as i64) >> spare } else { (top >> spare) as i64 }
    }

    fn set(&mut self, field: Field, value: i64) {
        let below = Self::below(field);
        let mask = Self::mask(field);
        let number = self.number() & !(mask << below) | (value as u128 & mask) << below;
        self.bytes.copy_from_slice(&number.to_be_bytes()[16 - WINDOW..]);
    }

    fn number(&self) -> u128 {
        let mut number = [0; 16];
        number[16 - WINDOW..].copy_from_slice(&self.bytes);
        u128::from_be_bytes(number)
    }

    fn mask(field: Field) -> u128 {
        (1 << field.width) - 1
    }

    /// Number of bits in the window after the field.
    fn below(field: Field) -> usize {
        WINDOW * 8 - field.offset % 8 - field.width as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_written_and_read_at_every_bit() {
        for offset in 0..24 {
            for width in 1..=64 {
                let field = Field { signed: true, width, offset };
                for value in [field.min(), -1, 0, field.max()] {
                    for background in [0x00, 0xff, 0xa5] {
                        let mut string = vec![background; 12];
                        let mut window = Window::read(&string, field);
                        window.set(field, value as i64);
                        let bytes = window.bytes(field);
                        string[offset / 8..offset / 8 + bytes.len()].copy_from_slice(bytes);
                        assert_eq!(Window::read(&string, field).get(field), value as i64);
                        let outside = (0..96)
                            .filter(|bit| !(offset..offset + width as usize).contains(bit))
                            .all(|bit| (string[bit / 8] ^ background) >> (7 - bit % 8) & 1 == 0);
                        assert!(outside, "{field:?} {value} {background}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_wrapped_moved_or_refused() {
        let signed = Field { signed: true, width: 8, offset: 0 };
        let unsigned = Field { signed: false, width: 63, offset: 0 };
        assert_eq!(signed.fit(128, Overflow::Wrap), Some(-128));
        assert_eq!(signed.fit(-129, Overflow::Wrap), Some(127));
        assert_eq!(signed.fit(-129, Overflow::Saturate), Some(-128));
        assert_eq!(signed.fit(128, Overflow::Fail), None);
        assert_eq!(unsigned.fit(unsigned.as_written(-1), Overflow::Saturate), Some(i64::MAX));
        assert_eq!(unsigned.fit(-1, Overflow::Wrap), Some(i64::MAX));
        assert_eq!(unsigned.fit(-1, Overflow::Saturate), Some(0));
    }
}
