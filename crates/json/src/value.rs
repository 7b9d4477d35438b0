//! A value where it lies on a tape.

use crate::number::{Number, decimal};
use crate::tape::{self, Header, is_container, is_object, span, string};

/// A value of a document: the bytes of the tape that are its own.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    tape: &'a [u8],
}

/// What a value is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number without a fraction.
    Integer,
    /// A number with one.
    Double,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// The name that `JSON.TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Double => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

impl<'a> Value<'a> {
    /// The value that a tape begins with.
    ///
    /// The bytes are those of a [`crate::Document`] or of an [`crate::Edit`] of one; others make
    /// no sense and may end in a panic.
    #[inline]
    pub fn new(tape: &'a [u8]) -> Self {
        Value { tape: &tape[..span(tape)] }
    }

    /// Its bytes.
    pub fn tape(self) -> &'a [u8] {
        self.tape
    }

    /// What it is.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.tape[0] {
            tape::SHORT_STRING.. | tape::STRING8..=tape::STRING32 => Kind::String,
            tape::SMALL_INT..tape::SHORT_STRING | tape::I8..=tape::U64 => Kind::Integer,
            tape::NULL => Kind::Null,
            tape::FALSE | tape::TRUE => Kind::Boolean,
            tape::F64..=tape::DECIMAL32 => Kind::Double,
            tag if is_object(tag) => Kind::Object,
            _ => Kind::Array,
        }
    }

    /// The boolean.
    pub fn boolean(self) -> Option<bool> {
        (self.kind() == Kind::Boolean).then(|| self.tape[0] == tape::TRUE)
    }

    /// The string, which is UTF-8.
    pub fn string(self) -> Option<&'a [u8]> {
        (self.kind() == Kind::String).then(|| string(self.tape))
    }

    /// The number.
    pub fn number(self) -> Option<Number> {
        let t = self.tape;
        let word = || u64::from_le_bytes([t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]]);
        Some(match t[0] {
            tag @ tape::SMALL_INT..tape::SHORT_STRING => {
                Number::Integer(i64::from(tag - tape::SMALL_INT))
            }
            tape::I8 => Number::Integer(i64::from(t[1] as i8)),
            tape::I16 => Number::Integer(i64::from(tape::u16_at(t, 1) as i16)),
            tape::I32 => Number::Integer(i64::from(tape::u32_at(t, 1) as i32)),
            tape::I64 => Number::Integer(word() as i64),
            tape::U64 => Number::Unsigned(word()),
            tape::F64 => Number::Double(f64::from_bits(word())),
            tape::DECIMAL8 => Number::Double(decimal(t[1], i32::from(t[2] as i8))),
            tape::DECIMAL16 => Number::Double(decimal(t[1], i32::from(tape::u16_at(t, 2) as i16))),
            tape::DECIMAL32 => Number::Double(decimal(t[1], tape::u32_at(t, 2) as i32)),
            _ => return None,
        })
    }

    /// Number of elements or members; 0 of other values.
    pub fn len(self) -> usize {
        if is_container(self.tape[0]) { Header::read(self.tape).count } else { 0 }
    }

    /// Whether it has no elements or members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of an array; none of other values.
    #[inline]
    pub fn items(self) -> Items<'a> {
        match self.kind() {
            Kind::Array => Items { rest: self.body() },
            _ => Items { rest: &[] },
        }
    }

    /// The members of an object; none of other values.
    #[inline]
    pub fn members(self) -> Members<'a> {
        match self.kind() {
            Kind::Object => Members { rest: self.body() },
            _ => Members { rest: &[] },
        }
    }

    #[inline]
    fn body(self) -> &'a [u8] {
        let header = Header::read(self.tape);
        &self.tape[header.len()..header.len() + header.body]
    }

    /// The element at an index of an array.
    pub fn item(self, index: usize) -> Option<Value<'a>> {
        if index >= self.len() {
            return None;
        }
        self.items().nth(index)
    }

    /// The member of this name of an object.
    #[inline]
    pub fn member(self, name: &[u8]) -> Option<Value<'a>> {
        self.members().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// How deep it is nested: 0 of a scalar, 1 of a container of scalars.
    pub fn depth(self) -> usize {
        let deepest = match self.kind() {
            Kind::Array => self.items().map(Value::depth).max(),
            Kind::Object => self.members().map(|(_, value)| value.depth()).max(),
            _ => return 0,
        };
        1 + deepest.unwrap_or(0)
    }

    /// Whether both are the same: an integer is not a double, the order of members means nothing.
    pub fn is_same(self, other: Value<'_>) -> bool {
        if self.tape == other.tape {
            return true;
        }
        if self.kind() != other.kind() || self.len() != other.len() {
            return false;
        }
        match self.kind() {
            Kind::Array => self.items().zip(other.items()).all(|(a, b)| a.is_same(b)),
            Kind::Object => self
                .members()
                .all(|(name, value)| other.member(name).is_some_and(|other| value.is_same(other))),
            Kind::String => self.string() == other.string(),
            Kind::Integer | Kind::Double => self.number() == other.number(),
            Kind::Null | Kind::Boolean => false,
        }
    }
}

/// Elements of an array.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (value, rest) = self.rest.split_at(span(self.rest));
        self.rest = rest;
        Some(Value { tape: value })
    }
}

/// Members of an object: names and values.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], Value<'a>)> {
        if self.rest.is_empty() {
            return None;
        }
        let (name, rest) = self.rest.split_at(span(self.rest));
        let (value, rest) = rest.split_at(span(rest));
        self.rest = rest;
        Some((string(name), Value { tape: value }))
    }
}
