//! The layout of a tape, and the writer of new ones.
//!
//! ```text
//! value      tag, then
//!   00 01 02           null, false, true
//!   03 04 05 06        integer of 1, 2, 4, 8 bytes, little endian, signed
//!   07                 integer of 8 bytes, unsigned, above the signed ones
//!   08                 double of 8 bytes
//!   09 0a 0b           double: power of ten to divide by (1 byte), integer of 1, 2, 4 bytes
//!   10 11 12           string: length in 1, 2, 4 bytes, UTF-8
//!   14 15 16           array:  bytes of the elements and their number, each in 1, 2, 4 bytes
//!   18 19 1a           object: bytes of the members and their number; a member is a string, a value
//!   40 ..= 7f          the integers 0 to 63
//!   80 ..= ff          string of 0 to 127 bytes
//! ```
//!
//! A container's header may be wider than it needs to be. Member names within an object are
//! distinct, in the order in which they came.

use crate::number::write_double;
use crate::value::Value;

pub(crate) const NULL: u8 = 0x00;
pub(crate) const FALSE: u8 = 0x01;
pub(crate) const TRUE: u8 = 0x02;
pub(crate) const I8: u8 = 0x03;
pub(crate) const I16: u8 = 0x04;
pub(crate) const I32: u8 = 0x05;
pub(crate) const I64: u8 = 0x06;
pub(crate) const U64: u8 = 0x07;
pub(crate) const F64: u8 = 0x08;
pub(crate) const DECIMAL8: u8 = 0x09;
pub(crate) const DECIMAL16: u8 = 0x0a;
pub(crate) const DECIMAL32: u8 = 0x0b;
pub(crate) const STRING8: u8 = 0x10;
pub(crate) const STRING16: u8 = 0x11;
pub(crate) const STRING32: u8 = 0x12;
pub(crate) const ARRAY8: u8 = 0x14;
pub(crate) const ARRAY32: u8 = 0x16;
pub(crate) const OBJECT8: u8 = 0x18;
pub(crate) const OBJECT32: u8 = 0x1a;
pub(crate) const SMALL_INT: u8 = 0x40;
pub(crate) const SHORT_STRING: u8 = 0x80;

/// The longest document in bytes: lengths in headers have 32 bits.
pub const BYTES_MAX: usize = 1 << 30;

/// A document of its own.
#[derive(Clone, Debug)]
pub struct Document {
    tape: Vec<u8>,
}

impl Document {
    /// Creates a document with this value as its root.
    pub fn of(value: Value<'_>) -> Self {
        Document { tape: value.tape().to_vec() }
    }

    pub(crate) fn from_tape(tape: Vec<u8>) -> Self {
        debug_assert_eq!(span(&tape), tape.len());
        Document { tape }
    }

    /// The value that everything is in.
    pub fn root(&self) -> Value<'_> {
        Value::new(&self.tape)
    }

    /// Returns the encoded bytes.
    pub fn tape(&self) -> &[u8] {
        &self.tape
    }

    /// Returns the encoded bytes as an owned vector.
    pub fn into_tape(self) -> Vec<u8> {
        self.tape
    }
}

/// Header of a container.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    /// With the narrowest lengths: [`ARRAY8`] or [`OBJECT8`].
    pub base: u8,
    /// 0, 1, 2: lengths of 1, 2, 4 bytes.
    pub width: u8,
    /// Bytes of the body.
    pub body: usize,
    /// Elements or members.
    pub count: usize,
}

impl Header {
    /// Reads the header that a container begins with.
    #[inline]
    pub fn read(tape: &[u8]) -> Self {
        let tag = tape[0];
        let (base, width) = (tag & !3, tag & 3);
        let (body, count) = match width {
            0 => (usize::from(tape[1]), usize::from(tape[2])),
            1 => (usize::from(u16_at(tape, 1)), usize::from(u16_at(tape, 3))),
            _ => (u32_at(tape, 1) as usize, u32_at(tape, 5) as usize),
        };
        Header { base, width, body, count }
    }

    /// Bytes of the header itself.
    #[inline]
    pub fn len(self) -> usize {
        1 + (2 << self.width)
    }

    /// Widens the header as far as its numbers need; never narrows it.
    pub fn widened(self) -> Self {
        let most = self.body.max(self.count);
        let needed = if most <= 0xff { 0 } else { 1 + u8::from(most > 0xffff) };
        Header { width: self.width.max(needed), ..self }
    }

    /// Encodes the header; the first [`Header::len`] bytes are valid.
    pub fn bytes(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[0] = self.base | self.width;
        let each = 1 << self.width;
        bytes[1..1 + each].copy_from_slice(&(self.body as u32).to_le_bytes()[..each]);
        bytes[1 + each..1 + 2 * each].copy_from_slice(&(self.count as u32).to_le_bytes()[..each]);
        bytes
    }
}

#[inline]
pub(crate) fn is_container(tag: u8) -> bool {
    (ARRAY8..=ARRAY32).contains(&tag) || (OBJECT8..=OBJECT32).contains(&tag)
}

#[inline]
pub(crate) fn is_object(tag: u8) -> bool {
    (OBJECT8..=OBJECT32).contains(&tag)
}

/// Bytes of the value that a tape begins with.
#[inline]
pub(crate) fn span(tape: &[u8]) -> usize {
    let tag = tape[0];
    match tag {
        SHORT_STRING.. => 1 + usize::from(tag & 0x7f),
        SMALL_INT..SHORT_STRING | NULL | FALSE | TRUE => 1,
        I8 => 2,
        I16 | DECIMAL8 => 3,
        DECIMAL16 => 4,
        I32 => 5,
        DECIMAL32 => 6,
        I64 | U64 | F64 => 9,
        STRING8 => 2 + usize::from(tape[1]),
        STRING16 => 3 + usize::from(u16_at(tape, 1)),
        STRING32 => 5 + u32_at(tape, 1) as usize,
        _ => {
            let header = Header::read(tape);
            header.len() + header.body
        }
    }
}

/// The string that a tape begins with.
#[inline]
pub(crate) fn string(tape: &[u8]) -> &[u8] {
    let from = match tape[0] {
        SHORT_STRING.. => 1,
        STRING8 => 2,
        STRING16 => 3,
        _ => 5,
    };
    &tape[from..span(tape)]
}

#[inline]
pub(crate) fn u16_at(tape: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([tape[at], tape[at + 1]])
}

#[inline]
pub(crate) fn u32_at(tape: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([tape[at], tape[at + 1], tape[at + 2], tape[at + 3]])
}

/// Writes values one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    pub(crate) out: Vec<u8>,
}

/// A container that was begun.
#[derive(Debug)]
#[must_use]
pub struct Begun {
    at: usize,
}

impl Writer {
    /// Returns the document of the one written value.
    pub fn finish(self) -> Document {
        Document::from_tape(self.out)
    }

    /// Returns the tapes of all written values.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Null.
    pub fn null(&mut self) {
        self.out.push(NULL);
    }

    /// A boolean.
    pub fn boolean(&mut self, value: bool) {
        self.out.push(if value { TRUE } else { FALSE });
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        let out = &mut self.out;
        if (0..64).contains(&value) {
            out.push(SMALL_INT | value as u8);
        } else if let Ok(value) = i8::try_from(value) {
            out.extend([I8, value as u8]);
        } else if let Ok(value) = i16::try_from(value) {
            out.push(I16);
            out.extend(value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            out.push(I32);
            out.extend(value.to_le_bytes());
        } else {
            out.push(I64);
            out.extend(value.to_le_bytes());
        }
    }

    /// An integer that may be above those with a sign.
    pub fn unsigned(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.integer(value),
            Err(_) => {
                self.out.push(U64);
                self.out.extend(value.to_le_bytes());
            }
        }
    }

    /// A finite double.
    pub fn double(&mut self, value: f64) {
        write_double(value, &mut self.out);
    }

    /// A string; the bytes are UTF-8.
    pub fn string(&mut self, text: &[u8]) {
        let out = &mut self.out;
        let len = text.len();
        match len {
            0..128 => out.push(SHORT_STRING | len as u8),
            128..256 => out.extend([STRING8, len as u8]),
            256..0x1_0000 => {
                out.push(STRING16);
                out.extend((len as u16).to_le_bytes());
            }
            _ => {
                out.push(STRING32);
                out.extend((len as u32).to_le_bytes());
            }
        }
        out.extend_from_slice(text);
    }

    /// A copy of a value.
    pub fn value(&mut self, value: Value<'_>) {
        self.out.extend_from_slice(value.tape());
    }

    /// Begins an array: its elements follow.
    pub fn begin_array(&mut self) -> Begun {
        self.begin(ARRAY8)
    }

    /// Begins an object: its members follow, each a string and a value.
    pub fn begin_object(&mut self) -> Begun {
        self.begin(OBJECT8)
    }

    fn begin(&mut self, base: u8) -> Begun {
        let at = self.out.len();
        self.out.extend([base, 0, 0]);
        Begun { at }
    }

    /// Position of the container's first element or member.
    pub(crate) fn body_of(&self, begun: &Begun) -> usize {
        begun.at + 3
    }

    /// Ends the container that was begun last, which has this many elements or members.
    pub fn end(&mut self, begun: Begun, count: usize) {
        let at = begun.at;
        let (base, body) = (self.out[at], self.out.len() - at - 3);
        let header = Header { base, width: 0, body, count }.widened();
        let bytes = header.bytes();
        if header.width == 0 {
            self.out[at..at + 3].copy_from_slice(&bytes[..3]);
        } else {
            self.out.splice(at..at + 3, bytes[..header.len()].iter().copied());
        }
    }
}
