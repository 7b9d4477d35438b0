//! Replies as Lua values, built on the interpreter's stack while a command writes them.
//!
//! | reply | a script that speaks RESP2 | RESP3 |
//! |---|---|---|
//! | integer | number | number |
//! | string | string | string |
//! | status, error | table with `ok`, with `err` | the same |
//! | null | false | nil |
//! | array | table | table |
//! | map | table of keys and values in turn | table with `map` |
//! | set | table | table with `set`: members with the value true |
//! | double, big number | string | table with `double`, with `big_number` |
//! | verbatim string | string | table with `verbatim_string` |
//! | boolean | 1 or 0 | boolean |

use crate::lists::{ELEMENT_BYTES, NODE_BYTES};
use crate::vm::{LUA_TNIL, Raise, Stack};
use bytes::Bytes;
use petrel_resp::{DoubleBuffer, Protocol, Reply};

/// Elements for which a table has room before they come.
const CAPACITY_MAX: usize = 1 << 20;

/// Bytes of a value beside its text: tables around it, names of fields.
const VALUE_BYTES: usize = 512;

/// Destination of the next value.
enum Frame {
    /// Into the table below it, as an element.
    Array { next: i32, len: usize },
    /// Into the table below it, as a key and then as its value.
    Map { left: usize, has_key: bool },
    /// Into the table below it, as a member.
    Set { left: usize },
    /// Nowhere: it is about what follows.
    Aside { left: usize },
}

/// Takes the reply of a command and leaves it on the interpreter's stack.
pub struct ScriptReply {
    stack: Stack,
    protocol: Protocol,
    frames: Vec<Frame>,
    failed: bool,
    overflown: bool,
    /// The reply was dropped because the script would exceed its memory limit.
    is_too_large: bool,
    ends: bool,
}

impl ScriptReply {
    pub(crate) fn new(stack: Stack, protocol: Protocol) -> Self {
        ScriptReply {
            stack,
            protocol,
            frames: Vec::new(),
            failed: false,
            overflown: false,
            is_too_large: false,
            ends: false,
        }
    }

    /// Whether the reply is an error.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes the error of a script that is not to go on, which is to be counted.
    pub fn break_off(&mut self, text: &[u8]) {
        self.failed = true;
        self.ends = true;
        self.value(text.len(), |stack| crate::vm::push_reply_error(stack, false, text));
    }

    /// Whether the script is not to go on.
    pub(crate) fn ends_script(&self) -> bool {
        self.ends
    }

    fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Whether it is whole, and none of it was dropped.
    pub(crate) fn is_whole(&self) -> bool {
        self.frames.is_empty() && !self.overflown
    }

    /// Whether the script's memory was too little for it.
    pub(crate) fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Makes room for a value of this many bytes; what comes once there is none is dropped.
    #[inline]
    fn reserve(&mut self, bytes: usize) -> bool {
        if !self.overflown && !self.stack.reserve(8) {
            self.overflown = true;
        }
        if !self.overflown && !self.stack.with(|extra| extra.memory.fits(bytes + VALUE_BYTES)) {
            self.clear_room(bytes);
        }
        !self.overflown
    }

    /// The script is not asked whether to go on, since its command is being executed.
    #[cold]
    fn clear_room(&mut self, bytes: usize) {
        self.stack.collect();
        if !self.stack.with(|extra| extra.memory.fits(bytes + VALUE_BYTES)) {
            self.drop_all();
        }
    }

    fn drop_all(&mut self) {
        self.overflown = true;
        self.is_too_large = true;
    }

    /// The value on top is complete: it goes where it belongs.
    fn place(&mut self) {
        if self.place_within().is_err() {
            self.drop_all();
        }
    }

    fn place_within(&mut self) -> Result<(), Raise> {
        let stack = self.stack;
        while let Some(frame) = self.frames.last_mut() {
            let finished = match frame {
                Frame::Array { next, len } => {
                    stack.set_index_at_once(-2, *next)?;
                    *next += 1;
                    *next as usize > *len
                }
                Frame::Map { has_key: has_key @ false, .. } => {
                    *has_key = true;
                    return Ok(());
                }
                Frame::Map { left, has_key } => {
                    *has_key = false;
                    *left -= 1;
                    set_pair(stack)?;
                    *left == 0
                }
                Frame::Set { left } => {
                    *left -= 1;
                    stack.push_boolean(true);
                    set_pair(stack)?;
                    *left == 0
                }
                Frame::Aside { left } => {
                    *left -= 1;
                    stack.pop(1);
                    if *left == 0 {
                        self.frames.pop();
                    }
                    return Ok(());
                }
            };
            if !finished {
                return Ok(());
            }
            let name: &[u8] = match self.frames.pop() {
                Some(Frame::Map { .. }) => b"map",
                Some(Frame::Set { .. }) => b"set",
                _ => continue,
            };
            wrap(stack, name);
        }
        Ok(())
    }

    fn begin(&mut self, len: usize, frame: Frame) {
        let is_map = !matches!(frame, Frame::Array { .. });
        let capacity = len.min(CAPACITY_MAX);
        let bytes = if is_map {
            capacity.next_power_of_two() * NODE_BYTES
        } else {
            capacity * ELEMENT_BYTES
        };
        if !self.reserve(bytes) {
            return;
        }
        self.stack.new_table(if is_map { 0 } else { capacity }, if is_map { capacity } else { 0 });
        if len > 0 {
            return self.frames.push(frame);
        }
        match frame {
            Frame::Map { .. } => wrap(self.stack, b"map"),
            Frame::Set { .. } => wrap(self.stack, b"set"),
            _ => {}
        }
        self.place();
    }

    fn single(&mut self, bytes: usize, field: &[u8], value: impl FnOnce(Stack)) {
        if self.reserve(bytes) {
            self.stack.new_table(0, 1);
            value(self.stack);
            self.stack.raw_set_field(-2, field);
            self.place();
        }
    }

    /// A value of this many bytes.
    #[inline]
    fn value(&mut self, bytes: usize, push: impl FnOnce(Stack)) {
        if self.reserve(bytes) {
            push(self.stack);
            self.place();
        }
    }
}

/// Sets a key and its value, which are on top; a key that no table can have is left out.
fn set_pair(stack: Stack) -> Result<(), Raise> {
    let is_key = stack.kind(-2) != LUA_TNIL
        && !(stack.kind(-2) == crate::vm::LUA_TNUMBER && stack.to_number(-2).is_nan());
    if is_key {
        return stack.set_at_once(-3);
    }
    stack.pop(2);
    Ok(())
}

/// Puts the table on top into a table with one field.
fn wrap(stack: Stack, name: &[u8]) {
    stack.new_table(0, 1);
    stack.insert(-2);
    stack.raw_set_field(-2, name);
}

impl Reply for ScriptReply {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn set_protocol(&mut self, _: Protocol) {}

    fn room_left(&self) -> usize {
        if self.overflown { 0 } else { self.stack.with(|extra| extra.memory.left()) }
    }

    fn is_dropped(&self) -> bool {
        self.overflown
    }

    fn refuse(&mut self) {
        self.drop_all();
    }

    fn simple(&mut self, text: &str) {
        self.single(text.len(), b"ok", |stack| stack.push_bytes(text.as_bytes()));
    }

    fn error(&mut self, text: &[u8]) {
        self.failed |= self.frames.is_empty();
        self.value(text.len(), |stack| crate::vm::push_reply_error(stack, true, text));
    }

    fn integer(&mut self, n: i64) {
        self.value(0, |stack| stack.push_number(n as f64));
    }

    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        self.value(bytes.len(), |stack| stack.push_bytes(bytes));
    }

    fn shared(&mut self, bytes: Bytes) {
        self.bulk(&bytes);
    }

    fn null(&mut self) {
        let is_resp3 = self.is_resp3();
        self.value(0, |stack| if is_resp3 { stack.push_nil() } else { stack.push_boolean(false) });
    }

    fn null_array(&mut self) {
        self.null();
    }

    fn array(&mut self, len: usize) {
        self.begin(len, Frame::Array { next: 1, len });
    }

    fn map(&mut self, len: usize) {
        if self.is_resp3() {
            self.begin(len, Frame::Map { left: len, has_key: false });
        } else {
            self.array(len.saturating_mul(2));
        }
    }

    fn set(&mut self, len: usize) {
        if self.is_resp3() { self.begin(len, Frame::Set { left: len }) } else { self.array(len) }
    }

    fn push(&mut self, len: usize) {
        self.array(len);
    }

    fn attribute(&mut self, len: usize) -> bool {
        if self.is_resp3() && len > 0 && !self.overflown {
            self.frames.push(Frame::Aside { left: len.saturating_mul(2) });
        }
        self.is_resp3()
    }

    fn double(&mut self, value: f64) {
        if self.is_resp3() {
            self.single(0, b"double", |stack| stack.push_number(value));
        } else {
            self.bulk(DoubleBuffer::new().format(value));
        }
    }

    fn decimal(&mut self, digits: &[u8]) {
        let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<f64>().ok());
        match number {
            Some(number) if self.is_resp3() => {
                self.single(0, b"double", |stack| stack.push_number(number))
            }
            _ => self.bulk(digits),
        }
    }

    fn boolean(&mut self, value: bool) {
        if self.is_resp3() {
            self.value(0, |stack| stack.push_boolean(value));
        } else {
            self.integer(i64::from(value));
        }
    }

    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if !self.is_resp3() {
            return self.bulk(text);
        }
        self.single(text.len(), b"verbatim_string", |stack| {
            stack.new_table(0, 2);
            stack.push_bytes(text);
            stack.raw_set_field(-2, b"string");
            stack.push_bytes(format);
            stack.raw_set_field(-2, b"format");
        });
    }

    fn big_number(&mut self, digits: &str) {
        if self.is_resp3() {
            self.single(digits.len(), b"big_number", |stack| stack.push_bytes(digits.as_bytes()));
        } else {
            self.bulk(digits.as_bytes());
        }
    }
}
