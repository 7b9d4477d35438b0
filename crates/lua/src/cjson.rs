//! The library `cjson`: values as JSON, with the options and texts of Lua CJSON 2.1.

mod decode;
mod encode;
mod number;
pub(crate) mod options;

use crate::vm::{LUA_TBOOLEAN, LUA_TNIL, LUA_TNONE, LUA_TSTRING, Raise, Stack};
use options::{Invalid, Options, PRECISION_MAX};
use std::ffi::c_int;

/// Name of the field that marks the metatable of a table that was an array in JSON.
const ARRAY_MARK: &[u8] = b"__is_cjson_array";

/// Tables within tables, whatever the options say: each takes a part of the thread's stack.
const DEPTH_MAX: i32 = 1000;

/// Sets the table of the library, and keeps the metatable of arrays.
pub(crate) fn open(stack: Stack, globals: c_int) {
    push_library(stack);
    stack.raw_set_field(globals, b"cjson");
    stack.new_table(0, 2);
    stack.push_boolean(true);
    stack.raw_set_field(-2, ARRAY_MARK);
    // What `getmetatable` shows says the same, and cannot be changed.
    stack.new_table(0, 1);
    stack.push_boolean(true);
    stack.raw_set_field(-2, ARRAY_MARK);
    crate::sandbox::stand_for(stack);
    stack.raw_set_field(-2, b"__metatable");
    let mark = stack.address(-1);
    let kept = stack.keep();
    stack.with(|extra| (extra.array_metatable, extra.array_address) = (kept, mark));
}

fn push_library(stack: Stack) {
    macro_rules! set {
        ($($name:literal: $function:expr),* $(,)?) => {
            {$(stack.push_function($function); stack.raw_set_field(-2, $name.as_bytes());)*}
        };
    }
    stack.new_table(0, 16);
    set! {
        "encode": encode::encode,
        "decode": decode::decode,
        "encode_sparse_array": encode_sparse_array,
        "encode_max_depth": |stack| {
            integer_option(stack, 1, i32::MAX, |options| &mut options.encode_max_depth)
        },
        "decode_max_depth": |stack| {
            integer_option(stack, 1, i32::MAX, |options| &mut options.decode_max_depth)
        },
        "encode_number_precision": |stack| {
            integer_option(stack, 1, PRECISION_MAX, |options| &mut options.precision)
        },
        "encode_keep_buffer": |stack| flag_option(stack, |options| &mut options.keep_buffer),
        "decode_invalid_numbers": |stack| flag_option(stack, |options| &mut options.decode_invalid),
        "decode_array_with_array_mt": |stack| flag_option(stack, |options| &mut options.mark_arrays),
        "encode_invalid_numbers": encode_invalid_numbers,
        "new": new,
    }
    stack.push_null();
    stack.raw_set_field(-2, b"null");
    stack.push_bytes(b"cjson");
    stack.raw_set_field(-2, b"_NAME");
    stack.push_bytes(b"2.1.0");
    stack.raw_set_field(-2, b"_VERSION");
}

/// `cjson.new()`: the functions in another table; the options are the same.
fn new(stack: Stack) -> Result<c_int, Raise> {
    push_library(stack);
    Ok(1)
}

fn at_most(stack: Stack, args: c_int) -> Result<(), Raise> {
    if stack.top() > args {
        return Err(Raise::Argument(args + 1, "found too many arguments".into()));
    }
    Ok(())
}

fn is_given(stack: Stack, argument: c_int) -> bool {
    !matches!(stack.kind(argument), LUA_TNIL | LUA_TNONE)
}

/// Sets an option if the argument has a value, and pushes the option's value.
fn integer(
    stack: Stack,
    argument: c_int,
    (min, max): (i32, i32),
    option: impl Fn(&mut Options) -> &mut i32,
) -> Result<(), Raise> {
    if is_given(stack, argument) {
        let value = stack.check_integer(argument)?;
        if !(i64::from(min)..=i64::from(max)).contains(&value) {
            let text = format!("expected integer between {min} and {max}");
            return Err(Raise::Argument(argument, text.into()));
        }
        stack.with(|extra| *option(&mut extra.json) = value as i32);
    }
    let now = stack.with(|extra| *option(&mut extra.json));
    stack.push_number(f64::from(now));
    Ok(())
}

fn integer_option(
    stack: Stack,
    min: i32,
    max: i32,
    option: fn(&mut Options) -> &mut i32,
) -> Result<c_int, Raise> {
    at_most(stack, 1)?;
    integer(stack, 1, (min, max), option)?;
    Ok(1)
}

/// A boolean, or its name.
fn choice(
    stack: Stack,
    argument: c_int,
    names: &[(&str, Invalid)],
) -> Result<Option<Invalid>, Raise> {
    if !is_given(stack, argument) {
        return Ok(None);
    }
    if stack.kind(argument) == LUA_TBOOLEAN {
        return Ok(Some(if stack.to_boolean(argument) {
            Invalid::Written
        } else {
            Invalid::Refused
        }));
    }
    let text = stack.check_bytes(argument)?;
    let known = names.iter().find(|(name, _)| name.as_bytes() == text);
    known.map(|(_, value)| Some(*value)).ok_or_else(|| {
        let text = crate::vm::shown(text);
        Raise::Argument(argument, format!("invalid option '{text}'").into())
    })
}

const ON_OFF: [(&str, Invalid); 2] = [("off", Invalid::Refused), ("on", Invalid::Written)];

fn flag(
    stack: Stack,
    argument: c_int,
    option: impl Fn(&mut Options) -> &mut bool,
) -> Result<(), Raise> {
    if let Some(chosen) = choice(stack, argument, &ON_OFF)? {
        stack.with(|extra| *option(&mut extra.json) = chosen == Invalid::Written);
    }
    let now = stack.with(|extra| *option(&mut extra.json));
    stack.push_boolean(now);
    Ok(())
}

fn flag_option(stack: Stack, option: fn(&mut Options) -> &mut bool) -> Result<c_int, Raise> {
    at_most(stack, 1)?;
    flag(stack, 1, option)?;
    Ok(1)
}

/// `cjson.encode_sparse_array([convert [, ratio [, safe]]])`
fn encode_sparse_array(stack: Stack) -> Result<c_int, Raise> {
    at_most(stack, 3)?;
    while stack.top() < 3 {
        stack.push_nil();
    }
    flag(stack, 1, |options| &mut options.sparse_convert)?;
    integer(stack, 2, (0, i32::MAX), |options| &mut options.sparse_ratio)?;
    integer(stack, 3, (0, i32::MAX), |options| &mut options.sparse_safe)?;
    Ok(3)
}

/// `cjson.encode_invalid_numbers([true|false|"null"])`
fn encode_invalid_numbers(stack: Stack) -> Result<c_int, Raise> {
    at_most(stack, 1)?;
    let names = [ON_OFF[0], ON_OFF[1], ("null", Invalid::Null)];
    if let Some(chosen) = choice(stack, 1, &names)? {
        stack.with(|extra| extra.json.encode_invalid = chosen);
    }
    match stack.with(|extra| extra.json.encode_invalid) {
        Invalid::Null => stack.push_bytes(b"null"),
        other => stack.push_boolean(other == Invalid::Written),
    }
    Ok(1)
}

/// The one argument of `encode` and `decode`.
fn one_argument(stack: Stack) -> Result<(), Raise> {
    if stack.top() != 1 {
        return Err(Raise::Argument(1, "expected 1 argument".into()));
    }
    Ok(())
}

/// The text of the only argument.
fn text_argument<'a>(stack: Stack) -> Result<&'a [u8], Raise> {
    one_argument(stack)?;
    match stack.kind(1) {
        LUA_TSTRING | crate::vm::LUA_TNUMBER => stack.check_bytes(1),
        _ => Err(stack.type_error(1, "string")),
    }
}
