//! Writing JSON.

use super::{DEPTH_MAX, Invalid, Options, one_argument};
use crate::digits;
use crate::interrupt::{BYTES_PER_STEP, PIECE, Tally};
use crate::scratch::Scratch;
use crate::vm::{LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, Stack};
use std::ffi::c_int;

/// `cjson.encode(value)`
pub(super) fn encode(stack: Stack) -> Result<c_int, Raise> {
    one_argument(stack)?;
    let options = stack.with(|extra| extra.json.clone());
    let mut writer = Writer { stack, options, text: Scratch::new(stack), tally: Tally::new(stack) };
    writer.value(0)?;
    writer.text.push_value()?;
    Ok(1)
}

struct Writer {
    stack: Stack,
    options: Options,
    text: Scratch,
    tally: Tally,
}

impl Writer {
    /// Writes the value on top, which stays there.
    fn value(&mut self, depth: i32) -> Result<(), Raise> {
        let stack = self.stack;
        self.tally.step()?;
        match stack.kind(-1) {
            LUA_TSTRING => self.string(stack.to_bytes(-1).unwrap_or_default()),
            LUA_TNUMBER => self.number(stack.to_number(-1)),
            LUA_TBOOLEAN if stack.to_boolean(-1) => self.text.extend(b"true"),
            LUA_TBOOLEAN => self.text.extend(b"false"),
            LUA_TTABLE => self.table(depth + 1),
            LUA_TNIL => self.text.extend(b"null"),
            _ if stack.is_null(-1) => self.text.extend(b"null"),
            _ => Err(refusal(stack, "type not supported")),
        }
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
        self.text.push(b'[')?;
        for n in 1..=len {
            if n > 1 {
                self.text.push(b',')?;
            }
            self.stack.raw_get_index(-1, n);
            self.value(depth)?;
            self.stack.pop(1);
        }
        self.text.push(b']')
    }

    fn object(&mut self, depth: i32) -> Result<(), Raise> {
        let stack = self.stack;
        self.text.push(b'{')?;
        let mut is_first = true;
        stack.push_nil();
        while stack.next(-2) {
            if !is_first {
                self.text.push(b',')?;
            }
            is_first = false;
            match stack.kind(-2) {
                LUA_TNUMBER => {
                    self.text.push(b'"')?;
                    self.number(stack.to_number(-2))?;
                    self.text.push(b'"')?;
                }
                LUA_TSTRING => self.string(stack.to_bytes(-2).unwrap_or_default())?,
                _ => {
                    stack.pop(1);
                    return Err(refusal(stack, "table key must be a number or string"));
                }
            }
            self.text.push(b':')?;
            self.value(depth)?;
            stack.pop(1);
        }
        self.text.push(b'}')
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
            return self.text.extend(text);
        }
        let mut text = [0; 40];
        self.text.extend(digits::print(number, self.options.precision, &mut text))
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Raise> {
        self.text.reserve(text.len() + 2)?;
        self.text.push(b'"')?;
        for piece in text.chunks(PIECE) {
            self.tally.add(piece.len() / BYTES_PER_STEP)?;
            self.escaped(piece)?;
        }
        self.text.push(b'"')
    }

    fn escaped(&mut self, mut text: &[u8]) -> Result<(), Raise> {
        while let Some(plain) = text.iter().position(|&byte| ESCAPED[usize::from(byte)]) {
            self.text.extend(&text[..plain])?;
            match text[plain] {
                byte @ (b'"' | b'\\' | b'/') => self.text.extend(&[b'\\', byte])?,
                8 => self.text.extend(b"\\b")?,
                9 => self.text.extend(b"\\t")?,
                10 => self.text.extend(b"\\n")?,
                12 => self.text.extend(b"\\f")?,
                13 => self.text.extend(b"\\r")?,
                byte => {
                    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                    self.text.extend(b"\\u00")?;
                    self.text.extend(&[digit(byte >> 4), digit(byte & 15)])?;
                }
            }
            text = &text[plain + 1..];
        }
        self.text.extend(text)
    }
}

/// Bytes of a string that are written in another way.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < escaped.len() {
        escaped[byte] = matches!(byte as u8, 0..32 | 127 | b'"' | b'\\' | b'/');
        byte += 1;
    }
    escaped
};

/// Makes the error for a value, on top, that cannot be encoded.
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
