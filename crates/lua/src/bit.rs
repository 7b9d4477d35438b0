//! The library `bit`: operations on numbers as 32 bits, as in Lua BitOp.

use crate::vm::{Raise, Stack};
use std::ffi::c_int;

/// Added to a number it leaves the number's lowest bits, rounded, in the lowest of the sum: 2^52 +
/// 2^51.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Sets the table of the library.
pub(crate) fn open(stack: Stack, globals: c_int) {
    macro_rules! set {
        ($($name:literal: $function:expr),* $(,)?) => {
            {$(stack.push_function($function); stack.raw_set_field(-2, $name.as_bytes());)*}
        };
    }
    stack.new_table(0, 12);
    set! {
        "tobit": |stack| result(stack, argument(stack, 1)?),
        "bnot": |stack| result(stack, !argument(stack, 1)?),
        "band": |stack| fold(stack, |a, b| a & b),
        "bor": |stack| fold(stack, |a, b| a | b),
        "bxor": |stack| fold(stack, |a, b| a ^ b),
        "lshift": |stack| shift(stack, |a, n| a << n),
        "rshift": |stack| shift(stack, |a, n| a >> n),
        "arshift": |stack| shift(stack, |a, n| (a.cast_signed() >> n).cast_unsigned()),
        "rol": |stack| shift(stack, u32::rotate_left),
        "ror": |stack| shift(stack, u32::rotate_right),
        "bswap": |stack| result(stack, argument(stack, 1)?.swap_bytes()),
        "tohex": tohex,
    }
    stack.raw_set_field(globals, b"bit");
}

fn argument(stack: Stack, i: c_int) -> Result<u32, Raise> {
    Ok((stack.check_number(i)? + ROUNDER).to_bits() as u32)
}

fn result(stack: Stack, bits: u32) -> Result<c_int, Raise> {
    stack.push_number(f64::from(bits.cast_signed()));
    Ok(1)
}

fn fold(stack: Stack, operation: fn(u32, u32) -> u32) -> Result<c_int, Raise> {
    let mut bits = argument(stack, 1)?;
    for i in 2..=stack.top() {
        bits = operation(bits, argument(stack, i)?);
    }
    result(stack, bits)
}

fn shift(stack: Stack, operation: fn(u32, u32) -> u32) -> Result<c_int, Raise> {
    let bits = argument(stack, 1)?;
    result(stack, operation(bits, argument(stack, 2)? & 31))
}

/// `bit.tohex(x [, digits])`: capitals for a negative number of digits.
fn tohex(stack: Stack) -> Result<c_int, Raise> {
    let bits = argument(stack, 1)?;
    let digits = if stack.top() < 2 { 8 } else { argument(stack, 2)?.cast_signed() };
    let len = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    stack.push_bytes(&text.as_bytes()[8 - len..]);
    Ok(1)
}
