//! The result of a script as a reply.
//!
//! A few tables that contain each other many times make a result that is large and takes long. So
//! the server is informed before the conversion, and asked at intervals whether to continue. An
//! interrupted result becomes an error, unless its client is about to be closed because of the
//! size.

use crate::extra::{Failure, interrupted, with_server};
use crate::interrupt::BYTES_PER_STEP;
use crate::vm::{
    LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, Stack, truncated,
};
use petrel_resp::{Protocol, Reply};
use std::collections::HashMap;

/// Slots of the interpreter's stack that one table needs.
const SLOTS: i32 = 6;

/// Tables within tables that are written.
const DEPTH_MAX: usize = 1000;

/// Longer texts are written as tables are, which the server learns of before.
const TEXT_MAX: usize = 4096;

/// Elements of an array that is not counted twice.
const LONG: i32 = 256;

/// Steps between two questions whether to go on: elements, or fields of tables that are looked at.
const STEPS: usize = 20_000;

/// Bytes that the copies of a text take that becomes a status or a number, for each of its own.
const COPIES: usize = 6;

const TOO_LARGE: &str = "the script's result is larger than script-memory-limit";

/// Reason to stop writing a result.
enum Stop {
    /// The script is to end.
    Interrupted(Raise),
    /// The result is larger than `script-memory-limit`.
    TooLarge,
    /// The reply has been dropped, since its reader is closed for its size.
    Unread,
}

/// Writes the value on top and pops it. `protocol` is the script's: with RESP3 a boolean is written
/// as one.
///
/// # Errors
/// If it is broken off; nothing is written then.
pub(crate) fn write(
    stack: Stack,
    protocol: Protocol,
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let kind = stack.kind(-1);
    if kind != LUA_TTABLE {
        // Most results are short: nothing is counted for them.
        let text = if kind == LUA_TSTRING { stack.to_bytes(-1) } else { None };
        if text.is_none_or(|text| text.len() <= TEXT_MAX) {
            match text {
                Some(text) => reply.bulk(text),
                None => write_plain(stack, kind, protocol, reply),
            }
            stack.pop(1);
            return Ok(());
        }
    }
    with_server(stack, |server| server.begin_result());
    let (begin, result_max) = (reply.place(), stack.with(|extra| extra.memory.limit));
    let (levels, counted) = (Vec::new(), HashMap::new());
    let mut writer =
        Writer { stack, protocol, reply, levels, counted, begin, result_max, steps: 0 };
    let stop = match writer.write() {
        Ok(()) | Err(Stop::Unread) => return Ok(()),
        Err(stop) => stop,
    };
    reply.take_back(begin);
    Err(Failure::of(match stop {
        Stop::Interrupted(raise) => raise,
        Stop::TooLarge | Stop::Unread => Raise::Plain(TOO_LARGE.into()),
    }))
}

/// A table in the middle of being written, and its values on the interpreter's stack.
enum Level {
    /// The table: its elements from `next` on are left.
    Array { next: i32, len: i32 },
    /// The table, that of its pairs in it, and the key of the last pair.
    Keys { with_values: bool },
    /// And the value of that key, which is next.
    Value,
}

struct Writer<'r> {
    stack: Stack,
    protocol: Protocol,
    reply: &'r mut dyn Reply,
    /// The tables that are being written, from the outermost on.
    levels: Vec<Level>,
    /// Elements of long arrays, by their addresses: counted once, however often they are written.
    counted: HashMap<usize, i32>,
    /// Start of the result in the reply.
    begin: usize,
    /// Bytes that it may have.
    result_max: usize,
    /// Since it was asked whether to go on.
    steps: usize,
}

impl Writer<'_> {
    /// Counts the next steps of work and the bytes written so far.
    #[inline]
    fn count(&mut self, steps: usize) -> Result<(), Stop> {
        let written = self.written()?;
        self.steps += steps;
        if self.steps < STEPS { Ok(()) } else { self.ask(written) }
    }

    /// Bytes of the result so far.
    #[inline]
    fn written(&self) -> Result<usize, Stop> {
        match self.reply.place() {
            usize::MAX => Err(Stop::Unread),
            place if place.saturating_sub(self.begin) > self.result_max => Err(Stop::TooLarge),
            place => Ok(place.saturating_sub(self.begin)),
        }
    }

    #[cold]
    fn ask(&mut self, written: usize) -> Result<(), Stop> {
        self.steps = 0;
        with_server(self.stack, |server| server.note_result(written));
        match interrupted(self.stack) {
            Some(text) => Err(Stop::Interrupted(Raise::Plain(text))),
            None => Ok(()),
        }
    }

    /// Counts a text that is about to be written.
    #[inline]
    fn count_text(&mut self, text: &[u8]) -> Result<(), Stop> {
        self.count(1 + text.len() / BYTES_PER_STEP)?;
        let written = self.written()?;
        if text.len() > self.result_max - written { Err(Stop::TooLarge) } else { Ok(()) }
    }

    /// Writes the value on top, and takes it.
    fn write(&mut self) -> Result<(), Stop> {
        loop {
            self.value()?;
            if !self.advance() {
                return Ok(());
            }
        }
    }

    /// Pushes the value that is to be written next; false if there is none.
    fn advance(&mut self) -> bool {
        let stack = self.stack;
        while let Some(level) = self.levels.last_mut() {
            match level {
                Level::Array { next, len } if *next <= *len => {
                    stack.raw_get_index(-1, *next);
                    *next += 1;
                    return true;
                }
                Level::Array { .. } => stack.pop(1),
                Level::Value => {
                    *level = Level::Keys { with_values: true };
                    return true;
                }
                Level::Keys { with_values } => {
                    // Write a copy of the key: writing pops the value on top.
                    if stack.next(-2) {
                        if *with_values {
                            *level = Level::Value;
                        } else {
                            stack.pop(1);
                        }
                        let key = if matches!(level, Level::Value) { -2 } else { -1 };
                        stack.copy(key);
                        return true;
                    }
                    stack.pop(2);
                }
            }
            self.levels.pop();
        }
        false
    }

    /// Writes the value on top and pops it; a table is only begun.
    fn value(&mut self) -> Result<(), Stop> {
        let stack = self.stack;
        let kind = stack.kind(-1);
        if kind == LUA_TSTRING {
            let text = stack.to_bytes(-1).unwrap_or_default();
            self.count_text(text)?;
            self.reply.bulk(text);
        } else {
            self.count(1)?;
            match kind {
                LUA_TTABLE if self.levels.len() < DEPTH_MAX && stack.reserve(SLOTS) => {
                    return self.table();
                }
                LUA_TTABLE => self.reply.error(b"ERR reached lua stack limit"),
                _ => write_plain(stack, kind, self.protocol, self.reply),
            }
        }
        stack.pop(1);
        Ok(())
    }

    /// Whether the table on top has a field of this kind, which is pushed then.
    fn has(&self, name: &[u8], kind: i32) -> bool {
        let stack = self.stack;
        if stack.raw_get_field(-1, name) == kind {
            return true;
        }
        stack.pop(1);
        false
    }

    /// The text on top, of which copies are made before it is written.
    fn text<'a>(&mut self) -> Result<&'a [u8], Stop> {
        let text = self.stack.to_bytes(-1).unwrap_or_default();
        self.count_text(text)?;
        let copies = text.len().saturating_mul(COPIES);
        let has_room = self.stack.with(|extra| extra.memory.fits(copies));
        if has_room { Ok(text) } else { Err(Stop::TooLarge) }
    }

    /// Begins a table: a typed reply if a field such as `err` or `ok` says so, or an array.
    fn table(&mut self) -> Result<(), Stop> {
        let stack = self.stack;
        if self.has(b"err", LUA_TSTRING) {
            let text = self.text()?;
            self.reply.error(text.strip_prefix(b"-").unwrap_or(text));
        } else if self.has(b"ok", LUA_TSTRING) {
            write_status(self.text()?, self.reply);
        } else if self.has(b"double", LUA_TNUMBER) {
            self.reply.double(stack.to_number(-1));
        } else if self.has(b"map", LUA_TTABLE) {
            return self.begin_pairs(true);
        } else if self.has(b"set", LUA_TTABLE) {
            return self.begin_pairs(false);
        } else if self.has(b"big_number", LUA_TSTRING) {
            let digits = String::from_utf8_lossy(self.text()?);
            self.reply.big_number(&digits.replace(['\r', '\n'], " "));
        } else if !self.has(b"verbatim_string", LUA_TTABLE) {
            return self.begin_array();
        } else if !self.verbatim()? {
            stack.pop(1);
            return self.begin_array();
        }
        stack.pop(2);
        Ok(())
    }

    /// The table on top as a map, or its keys as a set.
    fn begin_pairs(&mut self, with_values: bool) -> Result<(), Stop> {
        let stack = self.stack;
        // Places without a key are passed too.
        self.count(crate::lists::places(stack, -1))?;
        let mut len = 0;
        stack.push_nil();
        while stack.next(-2) {
            len += 1;
            stack.pop(1);
            self.count(1)?;
        }
        if with_values {
            self.reply.map(len)
        } else {
            self.reply.set(len)
        }
        stack.push_nil();
        self.levels.push(Level::Keys { with_values });
        Ok(())
    }

    fn verbatim(&mut self) -> Result<bool, Stop> {
        let stack = self.stack;
        let is_text = stack.raw_get_field(-1, b"string") == LUA_TSTRING;
        let is_format = stack.raw_get_field(-2, b"format") == LUA_TSTRING;
        if is_text && is_format {
            let mut format = *b"   ";
            let given = stack.to_bytes(-1).unwrap_or_default();
            for (to, from) in format.iter_mut().zip(given) {
                *to = *from;
            }
            let text = stack.to_bytes(-2).unwrap_or_default();
            self.count_text(text)?;
            self.reply.verbatim(&format, text);
        }
        stack.pop(2);
        Ok(is_text && is_format)
    }

    /// The elements before the first that is nil.
    fn begin_array(&mut self) -> Result<(), Stop> {
        let address = self.stack.address(-1);
        let known = if self.counted.is_empty() { None } else { self.counted.get(&address) };
        let len = match known {
            Some(&len) => len,
            None => self.count_elements(address)?,
        };
        self.reply.array(len as usize);
        self.levels.push(Level::Array { next: 1, len });
        Ok(())
    }

    fn count_elements(&mut self, address: usize) -> Result<i32, Stop> {
        let stack = self.stack;
        let mut len = 0;
        while stack.raw_get_index(-1, len + 1) != LUA_TNIL {
            len += 1;
            stack.pop(1);
            self.count(1)?;
        }
        stack.pop(1);
        if len >= LONG {
            self.counted.insert(address, len);
        }
        Ok(len)
    }
}

/// The value on top, which is neither a table nor a text.
fn write_plain(stack: Stack, kind: i32, protocol: Protocol, reply: &mut dyn Reply) {
    match kind {
        LUA_TNUMBER => reply.integer(truncated(stack.to_number(-1))),
        LUA_TBOOLEAN => match (stack.to_boolean(-1), protocol) {
            (value, Protocol::Resp3) => reply.boolean(value),
            (true, Protocol::Resp2) => reply.integer(1),
            (false, Protocol::Resp2) => reply.null(),
        },
        _ => reply.null(),
    }
}

fn write_status(text: &[u8], reply: &mut dyn Reply) {
    let text = String::from_utf8_lossy(text);
    if text.contains(['\r', '\n']) {
        reply.simple(&text.replace(['\r', '\n'], " "));
    } else {
        reply.simple(&text);
    }
}
