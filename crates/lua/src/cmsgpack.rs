//! The library `cmsgpack`: values as MessagePack.

use crate::interrupt::{BYTES_PER_STEP, Tally};
use crate::lists::TABLE_BYTES;
use crate::scratch::Scratch;
use crate::vm::{LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, Stack};
use std::ffi::c_int;

/// Tables within tables that are packed; deeper ones are nil.
const NESTING_MAX: usize = 16;

/// Tables within tables that are unpacked: each takes a part of the thread's stack.
const DEPTH_MAX: usize = 500;

const MISSING: Raise = Raise::fixed("Missing bytes in input.");
const BAD: Raise = Raise::fixed("Bad data format in input.");

/// Sets the table of the library.
pub(crate) fn open(stack: Stack, globals: c_int) {
    stack.new_table(0, 8);
    stack.push_function(pack);
    stack.raw_set_field(-2, b"pack");
    stack.push_function(unpack);
    stack.raw_set_field(-2, b"unpack");
    stack.push_function(unpack_one);
    stack.raw_set_field(-2, b"unpack_one");
    stack.push_function(unpack_limit);
    stack.raw_set_field(-2, b"unpack_limit");
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "The authors of Petrel"),
        ("_DESCRIPTION", "MessagePack for Lua"),
    ] {
        stack.push_bytes(text.as_bytes());
        stack.raw_set_field(-2, name.as_bytes());
    }
    stack.raw_set_field(globals, b"cmsgpack");
}

/// `cmsgpack.pack(...)`
fn pack(stack: Stack) -> Result<c_int, Raise> {
    let count = stack.top();
    if count == 0 {
        return Err(Raise::Argument(0, "MessagePack pack needs input.".into()));
    }
    let mut packed = Packer { stack, bytes: Scratch::new(stack), tally: Tally::new(stack) };
    for i in 1..=count {
        if !stack.reserve(8) {
            return Err(Raise::fixed("stack overflow (in function mp_pack)"));
        }
        stack.copy(i);
        packed.value(0)?;
        stack.pop(1);
    }
    packed.bytes.push_value()?;
    Ok(1)
}

struct Packer {
    stack: Stack,
    bytes: Scratch,
    tally: Tally,
}

impl Packer {
    /// Packs the value on top, which stays there.
    fn value(&mut self, depth: usize) -> Result<(), Raise> {
        let stack = self.stack;
        self.tally.step()?;
        match stack.kind(-1) {
            LUA_TSTRING => self.string(stack.to_bytes(-1).unwrap_or_default()),
            LUA_TNUMBER => self.number(stack.to_number(-1)),
            LUA_TBOOLEAN => self.bytes.push(if stack.to_boolean(-1) { 0xC3 } else { 0xC2 }),
            LUA_TTABLE if depth < NESTING_MAX => self.table(depth),
            _ => self.bytes.push(0xC0),
        }
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Raise> {
        self.tally.add(text.len() / BYTES_PER_STEP)?;
        match text.len() {
            len @ 0..32 => self.bytes.push(0xA0 | len as u8)?,
            len @ 32..=0xFF => self.bytes.extend(&[0xD9, len as u8])?,
            len => self.header(0xDA, len)?,
        }
        self.bytes.extend(text)
    }

    /// A kind with a length of two bytes, or the next kind with one of four.
    fn header(&mut self, kind: u8, len: usize) -> Result<(), Raise> {
        match u16::try_from(len) {
            Ok(len) => self.tagged(kind, &len.to_be_bytes()),
            Err(_) => self.tagged(kind + 1, &(len as u32).to_be_bytes()),
        }
    }

    fn tagged(&mut self, kind: u8, bytes: &[u8]) -> Result<(), Raise> {
        self.bytes.push(kind)?;
        self.bytes.extend(bytes)
    }

    fn number(&mut self, number: f64) -> Result<(), Raise> {
        let whole = number as i64;
        if whole as f64 == number
            && number.abs() <= 9_223_372_036_854_775_808.0
            && whole != i64::MAX
        {
            return self.integer(whole);
        }
        let single = number as f32;
        if f64::from(single) == number {
            self.tagged(0xCA, &single.to_be_bytes())
        } else {
            self.tagged(0xCB, &number.to_be_bytes())
        }
    }

    fn integer(&mut self, n: i64) -> Result<(), Raise> {
        let bytes = n.to_be_bytes();
        let (kind, len) = match n {
            -32..=127 => return self.bytes.push(n as u8),
            0x80..=0xFF => (0xCC, 1),
            0x100..=0xFFFF => (0xCD, 2),
            0x1_0000..=0xFFFF_FFFF => (0xCE, 4),
            0x1_0000_0000.. => (0xCF, 8),
            -0x80..=-33 => (0xD0, 1),
            -0x8000..=-0x81 => (0xD1, 2),
            -0x8000_0000..=-0x8001 => (0xD2, 4),
            _ => (0xD3, 8),
        };
        self.tagged(kind, &bytes[8 - len..])
    }

    /// Packs the table on top: an array if its keys are the numbers from 1 on, else a map.
    fn table(&mut self, depth: usize) -> Result<(), Raise> {
        let stack = self.stack;
        if !stack.reserve(8) {
            return Err(Raise::fixed("stack overflow (in function mp_encode_lua_table)"));
        }
        let (mut count, mut max, mut is_array) = (0usize, 0.0f64, true);
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            self.tally.step()?;
            count += 1;
            let index = if stack.kind(-1) == LUA_TNUMBER { stack.to_number(-1) } else { 0.0 };
            is_array &= index >= 1.0 && index == index.trunc();
            max = max.max(index);
        }
        if is_array && max == count as f64 {
            match count {
                0..16 => self.bytes.push(0x90 | count as u8)?,
                _ => self.header(0xDC, count)?,
            }
            for n in 1..=count {
                stack.raw_get_index(-1, n as c_int);
                self.value(depth + 1)?;
                stack.pop(1);
            }
            return Ok(());
        }
        match count {
            0..16 => self.bytes.push(0x80 | count as u8)?,
            _ => self.header(0xDE, count)?,
        }
        stack.push_nil();
        while stack.next(-2) {
            stack.copy(-2);
            self.value(depth + 1)?;
            stack.pop(1);
            self.value(depth + 1)?;
            stack.pop(1);
        }
        Ok(())
    }
}

/// `cmsgpack.unpack(text)`: all values.
fn unpack(stack: Stack) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    unpack_from(stack, text, 0, 0, false)
}

/// `cmsgpack.unpack_one(text [, offset])`: where the next value begins (-1: nowhere), and one
/// value.
fn unpack_one(stack: Stack) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    let offset = if stack.top() < 2 { 0 } else { stack.check_integer(2)? };
    unpack_from(stack, text, 1, offset, true)
}

/// `cmsgpack.unpack_limit(text, limit [, offset])`: the same with this many values at most.
fn unpack_limit(stack: Stack) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    let limit = stack.check_integer(2)?;
    let offset = if stack.top() < 3 { 0 } else { stack.check_integer(3)? };
    unpack_from(stack, text, limit, offset, limit != 0)
}

fn unpack_from(
    stack: Stack,
    text: &[u8],
    limit: i64,
    offset: i64,
    tells_offset: bool,
) -> Result<c_int, Raise> {
    let len = text.len();
    if offset < 0 || limit < 0 {
        return Err(Raise::new(format!(
            "Invalid request to unpack with offset of {offset} and limit of {len}."
        )));
    }
    if offset > len as i64 {
        return Err(Raise::new(format!("Start offset {offset} greater than input length {len}.")));
    }
    let mut rest = &text[offset as usize..];
    if tells_offset {
        stack.push_nil();
    }
    let first = stack.top() + 1;
    let mut count = 0;
    let mut tally = Tally::new(stack);
    while !rest.is_empty() && (limit == 0 || count < limit) {
        if !stack.reserve(8) {
            return Err(Raise::fixed(
                "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
            ));
        }
        decode(stack, &mut rest, 0, &mut tally)?;
        count += 1;
    }
    let mut results = count as c_int;
    if tells_offset {
        let next = if rest.is_empty() { -1.0 } else { (len - rest.len()) as f64 };
        stack.push_number(next);
        stack.replace(first - 1);
        results += 1;
    }
    Ok(results)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Raise> {
    let (taken, left) = rest.split_at_checked(len).ok_or(MISSING)?;
    *rest = left;
    Ok(taken)
}

/// An unsigned number of this many bytes.
fn take_number(rest: &mut &[u8], len: usize) -> Result<u64, Raise> {
    Ok(take(rest, len)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Pushes the next value. Only what nests is handled here: its frames are many.
fn decode(stack: Stack, rest: &mut &[u8], depth: usize, tally: &mut Tally) -> Result<(), Raise> {
    let kind = begin_value(rest, tally)?;
    let len = match kind {
        0x80..=0x9F => usize::from(kind & 15),
        0xDC | 0xDE => take_number(rest, 2)? as usize,
        0xDD | 0xDF => take_number(rest, 4)? as usize,
        _ => return decode_scalar(stack, rest, kind, tally),
    };
    match kind {
        0x80..=0x8F | 0xDE | 0xDF => decode_map(stack, rest, len, depth + 1, tally),
        _ => decode_array(stack, rest, len, depth + 1, tally),
    }
}

fn begin_value(rest: &mut &[u8], tally: &mut Tally) -> Result<u8, Raise> {
    tally.step()?;
    Ok(take(rest, 1)?[0])
}

/// Pushes a value of this kind that holds no others.
#[inline(never)]
fn decode_scalar(stack: Stack, rest: &mut &[u8], kind: u8, tally: &mut Tally) -> Result<(), Raise> {
    match kind {
        0x00..=0x7F => stack.push_number(f64::from(kind)),
        0xE0..=0xFF => stack.push_number(f64::from(kind.cast_signed())),
        0xA0..=0xBF => stack.push_text(take(rest, usize::from(kind & 31))?)?,
        0xC0 => stack.push_nil(),
        0xC2 | 0xC3 => stack.push_boolean(kind == 0xC3),
        0xCA => stack.push_number(f64::from(f32::from_bits(take_number(rest, 4)? as u32))),
        0xCB => stack.push_number(f64::from_bits(take_number(rest, 8)?)),
        0xCC..=0xCF => {
            let n = take_number(rest, 1 << (kind - 0xCC))?;
            stack.push_number(n.cast_signed() as f64);
        }
        0xD0..=0xD3 => {
            let len = 1 << (kind - 0xD0);
            let unused = 64 - 8 * len as u32;
            let n = take_number(rest, len)?.cast_signed();
            stack.push_number((n << unused >> unused) as f64);
        }
        0xD9..=0xDB => {
            let len = take_number(rest, 1 << (kind - 0xD9))? as usize;
            tally.add(len / BYTES_PER_STEP)?;
            stack.push_text(take(rest, len)?)?;
        }
        _ => return Err(BAD),
    }
    Ok(())
}

fn decode_array(
    stack: Stack,
    rest: &mut &[u8],
    len: usize,
    depth: usize,
    tally: &mut Tally,
) -> Result<(), Raise> {
    if depth > DEPTH_MAX || !stack.reserve(4) {
        return Err(Raise::fixed("stack overflow (in function mp_decode_to_lua_array)"));
    }
    stack.make_room(TABLE_BYTES)?;
    stack.new_table(0, 0);
    for n in 1..=len {
        decode(stack, rest, depth, tally)?;
        stack.set_index(-2, n as c_int)?;
    }
    Ok(())
}

fn decode_map(
    stack: Stack,
    rest: &mut &[u8],
    len: usize,
    depth: usize,
    tally: &mut Tally,
) -> Result<(), Raise> {
    if depth > DEPTH_MAX || !stack.reserve(6) {
        return Err(Raise::fixed("stack overflow (in function mp_decode_to_lua_hash)"));
    }
    stack.make_room(TABLE_BYTES)?;
    stack.new_table(0, 0);
    for _ in 0..len {
        decode(stack, rest, depth, tally)?;
        match stack.kind(-1) {
            LUA_TNIL => return Err(Raise::Plain("table index is nil".into())),
            LUA_TNUMBER if stack.to_number(-1).is_nan() => {
                return Err(Raise::Plain("table index is NaN".into()));
            }
            _ => {}
        }
        decode(stack, rest, depth, tally)?;
        stack.set(-3)?;
    }
    Ok(())
}
