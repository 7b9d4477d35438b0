//! The library `struct`: values as bytes, laid out as a format says.
//!
//! | option | |
//! |---|---|
//! | `>` `<` | big, little endian from here on |
//! | `!n` | values are aligned to their size, at most to `n` |
//! | `b` `h` `i` `in` `l` `T` | integers of 1, 2, 4, `n`, 8 and 8 bytes; capitals without a sign |
//! | `f` `d` | single and double precision |
//! | `s` | a string and a zero byte |
//! | `cn` | `n` bytes of a string; `c0`: all of it, or as many as the number before says |
//! | `x` | a zero byte |

use crate::interrupt::{BYTES_PER_STEP, Tally, count_work};
use crate::scratch::Scratch;
use crate::vm::{Raise, Stack, truncated};
use std::ffi::c_int;

/// Bytes of the largest integer.
const INTEGER_MAX: usize = 32;
/// `!` alone.
const ALIGN_DEFAULT: usize = 8;
/// Bytes that may be packed at once.
const PACKED_MAX: usize = 512 << 20;

/// Sets the table of the library.
pub(crate) fn open(stack: Stack, globals: c_int) {
    stack.new_table(0, 3);
    stack.push_function(pack);
    stack.raw_set_field(-2, b"pack");
    stack.push_function(unpack);
    stack.raw_set_field(-2, b"unpack");
    stack.push_function(size);
    stack.raw_set_field(-2, b"size");
    stack.raw_set_field(globals, b"struct");
}

/// A format on its way from option to option.
struct Format<'a> {
    rest: &'a [u8],
    big: bool,
    align: usize,
}

/// An option with the bytes that it takes and those before it.
struct Item {
    option: u8,
    size: usize,
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        Format { rest: text, big: cfg!(target_endian = "big"), align: 1 }
    }

    /// The next option that is a value or padding, which begins at `at`.
    fn next(&mut self, at: usize) -> Result<Option<Item>, Raise> {
        while let Some((&option, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match option {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'c' => self.number(1)?,
                b's' => 0,
                b'i' | b'I' => self.integer_size()?,
                _ => {
                    self.control(option)?;
                    continue;
                }
            };
            return Ok(Some(Item { option, size, padding: self.padding(option, size, at) }));
        }
        Ok(None)
    }

    fn integer_size(&mut self) -> Result<usize, Raise> {
        let size = self.number(4)?;
        if size > INTEGER_MAX {
            return Err(Raise::new(format!(
                "integral size {size} is larger than limit of {INTEGER_MAX}"
            )));
        }
        Ok(size)
    }

    fn control(&mut self, option: u8) -> Result<(), Raise> {
        match option {
            b' ' => {}
            b'>' => self.big = true,
            b'<' => self.big = false,
            b'!' => {
                let align = self.number(ALIGN_DEFAULT)?;
                if align == 0 || !align.is_power_of_two() {
                    return Err(Raise::new(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                let option = char::from(option);
                return Err(Raise::Argument(1, format!("invalid format option '{option}'").into()));
            }
        }
        Ok(())
    }

    fn number(&mut self, default: usize) -> Result<usize, Raise> {
        let digits = self.rest.iter().take_while(|digit| digit.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = text
            .iter()
            .try_fold(0i32, |n, digit| n.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
        number.map(|n| n as usize).ok_or(Raise::fixed("integral size overflow"))
    }

    fn padding(&self, option: u8, size: usize, at: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let align = size.min(self.align);
        if align > 1 { (align - (at & (align - 1))) & (align - 1) } else { 0 }
    }
}

/// The first argument.
fn format_argument<'a>(stack: Stack) -> Result<Format<'a>, Raise> {
    let text = stack.check_bytes(1)?;
    count_work(stack, text.len() / BYTES_PER_STEP)?;
    Ok(Format::new(text))
}

/// `struct.pack(format, ...)`
fn pack(stack: Stack) -> Result<c_int, Raise> {
    let mut format = format_argument(stack)?;
    let (mut packed, mut tally) = (Scratch::new(stack), Tally::new(stack));
    let mut argument = 2;
    if stack.top() == 1 {
        // A missing value reads as nil.
        stack.push_nil();
    }
    while let Some(item) = format.next(packed.len())? {
        tally.step()?;
        packed.extend_zeros(item.padding)?;
        match item.option {
            b'x' => {
                packed.push(0)?;
                continue;
            }
            b'f' => {
                let bytes = (stack.check_number(argument)? as f32).to_le_bytes();
                extend_ordered(&mut packed, &bytes, format.big)?;
            }
            b'd' => {
                let bytes = stack.check_number(argument)?.to_le_bytes();
                extend_ordered(&mut packed, &bytes, format.big)?;
            }
            b'c' | b's' => {
                let text = stack.check_bytes(argument)?;
                let len = if item.size == 0 { text.len() } else { item.size };
                let text = text
                    .get(..len)
                    .ok_or(Raise::Argument(argument + 1, "string too short".into()))?;
                tally.add(text.len() / BYTES_PER_STEP)?;
                packed.extend(text)?;
                if item.option == b's' {
                    packed.push(0)?;
                }
            }
            _ => put_integer(&mut packed, stack.check_number(argument)?, item.size, format.big)?,
        }
        argument += 1;
        if packed.len() > PACKED_MAX {
            return Err(Raise::fixed("format result too large"));
        }
    }
    packed.push_value()?;
    Ok(1)
}

fn extend_ordered(packed: &mut Scratch, little: &[u8], big: bool) -> Result<(), Raise> {
    if !big {
        return packed.extend(little);
    }
    little.iter().rev().try_for_each(|&byte| packed.push(byte))
}

/// An integer of any size; beyond eight bytes there are zeros.
fn put_integer(packed: &mut Scratch, number: f64, size: usize, big: bool) -> Result<(), Raise> {
    let value = if number < 0.0 { truncated(number).cast_unsigned() } else { to_unsigned(number) };
    let mut bytes = [0; INTEGER_MAX];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    extend_ordered(packed, &bytes[..size], big)
}

/// As a C cast makes it on x86-64; 0 where the number is too large.
fn to_unsigned(number: f64) -> u64 {
    if number < 18_446_744_073_709_551_616.0 { number as u64 } else { 0 }
}

/// `struct.unpack(format, text [, position])`
fn unpack(stack: Stack) -> Result<c_int, Raise> {
    const SHORT: &str = "data string too short";
    let mut format = format_argument(stack)?;
    let data = stack.check_bytes(2)?;
    let position = if stack.top() < 3 { 1 } else { stack.check_integer(3)? };
    if position == 0 {
        return Err(Raise::Argument(3, "offset must be 1 or greater".into()));
    }
    let mut at = usize::try_from(position - 1).unwrap_or(usize::MAX);
    let (mut results, mut tally) = (0, Tally::new(stack));
    while let Some(Item { option, mut size, padding }) = format.next(at)? {
        tally.step()?;
        at = at.saturating_add(padding);
        let has = |size: usize| size <= data.len() && at <= data.len() - size;
        if !has(size) {
            return Err(Raise::Argument(2, SHORT.into()));
        }
        if !stack.reserve(2) {
            return Err(Raise::fixed("stack overflow (too many results)"));
        }
        match option {
            b'x' => {
                at += size;
                continue;
            }
            b'f' | b'd' => stack.push_number(get_float(&data[at..at + size], format.big)),
            b'c' => {
                if size == 0 {
                    if results == 0 || !stack.is_number(-1) {
                        return Err(Raise::fixed("format 'c0' needs a previous size"));
                    }
                    size = truncated(stack.to_number(-1)) as usize;
                    stack.pop(1);
                    results -= 1;
                    if !has(size) {
                        return Err(Raise::Argument(2, SHORT.into()));
                    }
                }
                tally.add(size / BYTES_PER_STEP)?;
                stack.push_text(&data[at..at + size])?;
            }
            b's' => {
                let rest = &data[at..];
                let len = rest
                    .iter()
                    .position(|&byte| byte == 0)
                    .ok_or(Raise::fixed("unfinished string in data"))?;
                size = len + 1;
                tally.add(size / BYTES_PER_STEP)?;
                stack.push_text(&rest[..len])?;
            }
            _ => {
                let is_signed = option.is_ascii_lowercase();
                stack.push_number(get_integer(&data[at..at + size], format.big, is_signed));
            }
        }
        results += 1;
        at += size;
    }
    stack.push_number(at as f64 + 1.0);
    Ok(results + 1)
}

fn get_float(bytes: &[u8], big: bool) -> f64 {
    let mut little = [0; 8];
    for (i, to) in little.iter_mut().take(bytes.len()).enumerate() {
        *to = bytes[if big { bytes.len() - 1 - i } else { i }];
    }
    match bytes.len() {
        4 => f64::from(f32::from_le_bytes([little[0], little[1], little[2], little[3]])),
        _ => f64::from_le_bytes(little),
    }
}

/// An integer of any size, of which the lowest eight bytes count.
fn get_integer(bytes: &[u8], big: bool, is_signed: bool) -> f64 {
    let mut value = 0u64;
    for i in (0..bytes.len().min(8)).rev() {
        value = value << 8 | u64::from(bytes[if big { bytes.len() - 1 - i } else { i }]);
    }
    if !is_signed {
        return value as f64;
    }
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    (value.cast_signed() << unused >> unused) as f64
}

/// `struct.size(format)`
fn size(stack: Stack) -> Result<c_int, Raise> {
    let mut format = format_argument(stack)?;
    let (mut at, mut tally) = (0usize, Tally::new(stack));
    while let Some(item) = format.next(at)? {
        if item.option == b's' || item.option == b'c' && item.size == 0 {
            let name = if item.option == b's' { "s" } else { "c0" };
            return Err(Raise::Argument(1, format!("option '{name}' has no fixed size").into()));
        }
        tally.step()?;
        at = at.saturating_add(item.padding).saturating_add(item.size);
    }
    stack.push_number(at as f64);
    Ok(1)
}
