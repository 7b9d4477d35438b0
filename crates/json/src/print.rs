//! Tape to text.

use crate::number::Number;
use crate::value::{Kind, Value};
use memchr::memchr2;

/// Whitespace options of `JSON.GET`; none by default.
#[derive(Clone, Copy, Debug)]
pub struct Format<'a> {
    /// Before each element or member, once for every level.
    pub indent: &'a [u8],
    /// After each opening bracket and comma, and before each closing bracket.
    pub newline: &'a [u8],
    /// Between a member's colon and its value.
    pub space: &'a [u8],
    /// Printing stops once the output, including its contents before the call, exceeds this length;
    /// the text is then incomplete.
    pub len_max: usize,
}

impl Default for Format<'_> {
    fn default() -> Self {
        Format { indent: b"", newline: b"", space: b"", len_max: usize::MAX }
    }
}

/// Appends the text of a value.
#[inline]
pub fn print(value: Value<'_>, format: &Format<'_>, out: &mut Vec<u8>) {
    print_at(value, format, 0, out);
}

/// Prints a value nested `level` levels deep.
fn print_at(value: Value<'_>, format: &Format<'_>, level: usize, out: &mut Vec<u8>) {
    if out.len() > format.len_max {
        return;
    }
    match value.kind() {
        Kind::Null => out.extend_from_slice(b"null"),
        Kind::Boolean => {
            let text: &[u8] = if value.boolean() == Some(true) { b"true" } else { b"false" };
            out.extend_from_slice(text);
        }
        Kind::Integer | Kind::Double => {
            if let Some(number) = value.number() {
                print_number(number, out);
            }
        }
        Kind::String => print_string(value.string().unwrap_or_default(), out),
        Kind::Array => {
            let mut list = List::begin(b'[', format, level, out);
            for item in value.items() {
                list.next(out);
                print_at(item, format, level + 1, out);
            }
            list.end(b']', out);
        }
        Kind::Object => {
            let mut list = List::begin(b'{', format, level, out);
            for (name, value) in value.members() {
                list.name(name, out);
                print_at(value, format, level + 1, out);
            }
            list.end(b'}', out);
        }
    }
}

/// A container that is being printed.
struct List<'a> {
    format: &'a Format<'a>,
    level: usize,
    is_empty: bool,
}

impl<'a> List<'a> {
    pub fn begin(bracket: u8, format: &'a Format<'a>, level: usize, out: &mut Vec<u8>) -> Self {
        out.push(bracket);
        List { format, level, is_empty: true }
    }

    /// Before each element.
    pub fn next(&mut self, out: &mut Vec<u8>) {
        // Blanks are as long as a client likes.
        if out.len() > self.format.len_max {
            return;
        }
        if !self.is_empty {
            out.push(b',');
        }
        self.is_empty = false;
        self.break_line(self.level + 1, out);
    }

    /// Before each member's value.
    pub fn name(&mut self, name: &[u8], out: &mut Vec<u8>) {
        if out.len() > self.format.len_max {
            return;
        }
        self.next(out);
        print_string(name, out);
        out.push(b':');
        out.extend_from_slice(self.format.space);
    }

    pub fn end(self, bracket: u8, out: &mut Vec<u8>) {
        if !self.is_empty {
            self.break_line(self.level, out);
        }
        out.push(bracket);
    }

    fn break_line(&self, level: usize, out: &mut Vec<u8>) {
        if out.len() > self.format.len_max {
            return;
        }
        out.extend_from_slice(self.format.newline);
        if !self.format.indent.is_empty() {
            for _ in 0..level {
                if out.len() > self.format.len_max {
                    return;
                }
                out.extend_from_slice(self.format.indent);
            }
        }
    }
}

/// Values that are being printed one after the other: elements of an array, or members of an
/// object.
pub struct Values<'a> {
    list: List<'a>,
    bracket: u8,
}

impl<'a> Values<'a> {
    /// Begins an array, which lies this many levels inside of the printed value.
    pub fn begin(format: &'a Format<'a>, level: usize, out: &mut Vec<u8>) -> Self {
        Values { list: List::begin(b'[', format, level, out), bracket: b']' }
    }

    /// Begins an object.
    pub fn begin_named(format: &'a Format<'a>, out: &mut Vec<u8>) -> Self {
        Values { list: List::begin(b'{', format, 0, out), bracket: b'}' }
    }

    /// Prints an element.
    pub fn add(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        self.list.next(out);
        self.value(value, out);
    }

    /// Prints the name of a member; its value follows.
    pub fn name(&mut self, name: &[u8], out: &mut Vec<u8>) {
        self.list.name(name, out);
    }

    /// Prints the value of a member.
    pub fn value(&self, value: Value<'_>, out: &mut Vec<u8>) {
        print_at(value, self.list.format, self.list.level + 1, out);
    }

    /// Ends it.
    pub fn end(self, out: &mut Vec<u8>) {
        self.list.end(self.bracket, out);
    }
}

/// Doubles always have a fraction or an exponent, integers never.
pub(crate) fn print_number(number: Number, out: &mut Vec<u8>) {
    match number {
        Number::Integer(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        Number::Unsigned(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        Number::Double(n) => {
            out.extend_from_slice(ryu::Buffer::new().format_finite(n).as_bytes());
        }
    }
}

pub(crate) fn print_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    // Most strings have nothing to escape.
    if memchr2(b'"', b'\\', text).is_none() && text.iter().all(|byte| *byte >= 0x20) {
        out.extend_from_slice(text);
    } else {
        text.iter().for_each(|byte| print_escaped(*byte, out));
    }
    out.push(b'"');
}

fn print_escaped(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        0x00..0x20 => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"\\u00");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
        _ => return out.push(byte),
    };
    out.extend([b'\\', short]);
}
