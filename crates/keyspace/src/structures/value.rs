//! String values: owned ones to be stored, and borrowed ones of entries.

use bytes::Bytes;

/// A string value to be stored.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Bytes to be copied (turned into a blob when long).
    Bytes(&'a [u8]),
    /// An integer.
    Int(i64),
    /// Bytes taken over by reference; those shorter than [`BLOB_MIN`] are copied.
    Blob(Bytes),
    /// Bytes made by `APPEND` or `SETRANGE`: like `Blob`, but never encoded as `embstr`.
    Raw(Bytes),
}

impl<'a> Value<'a> {
    /// Length in bytes; of an integer, the size in memory.
    pub(crate) fn len(&self) -> usize {
        match self {
            Value::Bytes(b) => b.len(),
            Value::Int(n) => size_of_val(n),
            Value::Blob(b) | Value::Raw(b) => b.len(),
        }
    }

    /// The value of a string command's argument: an integer if the text is the canonical form of
    /// one.
    pub fn from_text(text: &'a [u8]) -> Self {
        match parse_int(text) {
            Some(n) => Value::Int(n),
            None => Value::Bytes(text),
        }
    }
}

/// A borrowed string value.
#[derive(Clone, Copy, Debug)]
pub enum StrRef<'a> {
    /// Inline bytes.
    Bytes(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A reference-counted blob.
    Blob(&'a Bytes),
}

impl StrRef<'_> {
    /// Length of the string in bytes.
    pub fn len(&self) -> usize {
        match self {
            StrRef::Bytes(b) => b.len(),
            StrRef::Int(n) => decimal_len(*n),
            StrRef::Blob(b) => b.len(),
        }
    }

    /// True for the empty string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes as `GET` returns them; an integer is printed into `scratch`.
    pub fn bytes<'s>(&'s self, scratch: &'s mut itoa::Buffer) -> &'s [u8] {
        match self {
            StrRef::Bytes(b) => b,
            StrRef::Int(n) => scratch.format(*n).as_bytes(),
            StrRef::Blob(b) => b,
        }
    }

    /// An owned copy of the bytes (a blob is shared, not copied).
    pub fn to_bytes(&self) -> Bytes {
        match self {
            StrRef::Bytes(b) => Bytes::copy_from_slice(b),
            StrRef::Int(n) => Bytes::copy_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
            StrRef::Blob(b) => (*b).clone(),
        }
    }
}

/// Parses the canonical decimal form of an `i64`: no sign but `-`, no leading zeros, no spaces.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [] => return None,
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude: u64 = 0;
    for &c in digits {
        let digit = c.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative {
        (magnitude <= 1 << 63).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

fn decimal_len(n: i64) -> usize {
    let magnitude = n.unsigned_abs();
    usize::from(n < 0) + if magnitude == 0 { 1 } else { magnitude.ilog10() as usize + 1 }
}
