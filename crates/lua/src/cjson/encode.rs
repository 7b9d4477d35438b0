//! Writing JSON.

use super::{DEPTH_MAX, Invalid, Options, one_argument};
use crate::digits;
use crate::vm::{
    LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, NOT_ENOUGH_MEMORY, Raise, Stack,
};
use crate::work::Tally;
use std::ffi::c_int;

/// `cjson.encode(value)`
pub(super) fn encode(stack: Stack) -> Result<c_int, Raise> {
    one_argument(stack)?;
    let options = stack.with(|extra| extra.json.clone());
    let bytes_max = stack.with(|extra| extra.memory.left());
    let mut writer =
        Writer { stack, options, text: Vec::new(), bytes_max, tally: Tally::new(stack) };
    writer.value(0)?;
    stack.push_bytes(&writer.text);
    Ok(1)
}

struct Writer {
    stack: Stack,
    options: Options,
    text: Vec<u8>,
    bytes_max: usize,
    tally: Tally,
}

impl Writer {
    /// Writes the value on top, which stays there.
    fn value(&mut self, depth: i32) -> Result<(), Raise> {
        let stack = self.stack;
        self.tally.step()?;
        match stack.kind(-1) {
            LUA_TSTRING => self.string(stack.to_bytes(-1).unwrap_or_default()),
            LUA_TNUMBER => self.number(stack.to_number(-1))?,
            LUA_TBOOLEAN => {
                let text: &[u8] = if stack.to_boolean(-1) { b"true" } else { b"false" };
                self.text.extend_from_slice(text);
            }
            LUA_TTABLE => self.table(depth + 1)?,
            LUA_TNIL => self.text.extend_from_slice(b"null"),
            _ if stack.is_null(-1) => self.text.extend_from_slice(b"null"),
            _ => return Err(refusal(stack, "type not supported")),
        }
        if self.text.len() > self.bytes_max {
            return Err(Raise::fixed(NOT_ENOUGH_MEMORY));
        }
        Ok(())
    }

    fn table(&mut self, depth: i32) -> Result<(), Raise> {
        let stack = self.stack;
        if depth > self.options.encode_max_depth.min(DEPTH_MAX) || !stack.reserve(8) {
            return Err(Raise::new(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len()? {
            Some(0) if !is_marked(stack) => self.object(depth),
            Some(len) => self.array(len, depth),
            None => self.object(depth),
        }
    }

    fn array(&mut self, len: i32, depth: i32) -> Result<(), Raise> {
        self.text.push(b'[');
        for n in 1..=len {
            if n > 1 {
                self.text.push(b',');
            }
            self.stack.raw_get_index(-1, n);
            self.value(depth)?;
            self.stack.pop(1);
        }
        self.text.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: i32) -> Result<(), Raise> {
        let stack = self.stack;
        self.text.push(b'{');
        let mut is_first = true;
        stack.push_nil();
        while stack.next(-2) {
            if !is_first {
                self.text.push(b',');
            }
            is_first = false;
            match stack.kind(-2) {
                LUA_TNUMBER => {
                    self.text.push(b'"');
                    self.number(stack.to_number(-2))?;
                    self.text.push(b'"');
                }
                LUA_TSTRING => self.string(stack.to_bytes(-2).unwrap_or_default()),
                _ => {
                    stack.pop(1);
                    return Err(refusal(stack, "table key must be a number or string"));
                }
            }
            self.text.push(b':');
            self.value(depth)?;
            stack.pop(1);
        }
        self.text.push(b'}');
        Ok(())
    }

    /// Elements of the table on top if it is an array: all of its keys are whole numbers from 1 on.
    fn array_len(&mut self) -> Result<Option<i32>, Raise> {
        let stack = self.stack;
        let (mut max, mut count) = (0.0f64, 0.0f64);
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            self.tally.step()?;
            let index = if stack.kind(-1) == LUA_TNUMBER { stack.to_number(-1) } else { 0.0 };
            if index < 1.0 || index != index.floor() || index > f64::from(i32::MAX) {
                stack.pop(1);
                return Ok(None);
            }
            max = max.max(index);
            count += 1.0;
        }
        let options = &self.options;
        let is_sparse = options.sparse_ratio > 0
            && max > count * f64::from(options.sparse_ratio)
            && max > f64::from(options.sparse_safe);
        match is_sparse {
            true if options.sparse_convert => Ok(None),
            true => Err(refusal(stack, "excessively sparse array")),
            false => Ok(Some(max as i32)),
        }
    }

    fn number(&mut self, number: f64) -> Result<(), Raise> {
        if !number.is_finite() {
            let text: &[u8] = match self.options.encode_invalid {
                Invalid::Refused => return Err(refusal(self.stack, "must not be NaN or Inf")),
                Invalid::Null => b"null",
                Invalid::Written if number.is_nan() => b"nan",
                Invalid::Written if number > 0.0 => b"inf",
                Invalid::Written => b"-inf",
            };
            self.text.extend_from_slice(text);
            return Ok(());
        }
        let mut text = [0; 40];
        self.text.extend_from_slice(digits::print(number, self.options.precision, &mut text));
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.text.reserve(text.len() + 2);
        self.text.push(b'"');
        for &byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.text.extend([b'\\', byte]),
                8 => self.text.extend_from_slice(b"\\b"),
                9 => self.text.extend_from_slice(b"\\t"),
                10 => self.text.extend_from_slice(b"\\n"),
                12 => self.text.extend_from_slice(b"\\f"),
                13 => self.text.extend_from_slice(b"\\r"),
                0..32 | 127 => self.text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.text.push(byte),
            }
        }
        self.text.push(b'"');
    }
}

/// Why the value on top cannot be written.
fn refusal(stack: Stack, why: &str) -> Raise {
    Raise::new(format!("Cannot serialise {}: {why}", stack.kind_name(-1)))
}

/// Whether the table on top was an array in JSON.
fn is_marked(stack: Stack) -> bool {
    if !stack.metatable(-1) {
        return false;
    }
    let address = stack.address(-1);
    stack.pop(1);
    stack.with(|extra| extra.array_address == address)
}
