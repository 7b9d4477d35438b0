//! Reads replies into [`Value`]s, however they are split.

use std::fmt;

use bytes::Bytes;
use memchr::memchr2;

use crate::Value;
use crate::length::{LINE_END_LEN, short_header, strict_integer};

/// Limits on a reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecodeLimits {
    /// Aggregates within one another, at most.
    pub depth_max: usize,
    /// Bytes of one string at most. A line has at most 1 MiB.
    pub bulk_len_max: usize,
    /// Values of one reply at most, nested ones included.
    pub values_max: usize,
}

/// Maximum length of a line in bytes. An incomplete line is searched again at each call, so this
/// bounds that work.
const LINE_LEN_MAX: usize = 1024 * 1024;

impl Default for DecodeLimits {
    /// 64 levels, 512 MiB, 2^26 values.
    fn default() -> Self {
        Self { depth_max: 64, bulk_len_max: 512 * 1024 * 1024, values_max: 1 << 26 }
    }
}

/// Reasons why bytes are not a valid reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecodeError {
    /// A reply starts with this byte, which is no type.
    UnknownType(u8),
    /// A number, boolean or verbatim string of the wrong form, or a line or string with another end
    /// than CR LF.
    Malformed,
    /// A length above [`DecodeLimits`].
    TooLong,
    /// More levels than [`DecodeLimits`] allows.
    TooDeep,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(byte) => {
                write!(f, "no reply type starts with '{}'", byte.escape_ascii())
            }
            Self::Malformed => f.write_str("malformed reply"),
            Self::TooLong => f.write_str("reply longer than the limit"),
            Self::TooDeep => f.write_str("reply nested deeper than the limit"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads one whole reply at the start of `buf`, and its length in bytes; `None` if more input is
/// needed.
///
/// Each call starts at the beginning of `buf`; for replies that arrive in many pieces use a
/// [`Decoder`].
pub fn decode(buf: &[u8], limits: &DecodeLimits) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut decoder = Decoder::new(*limits);
    let (consumed, value) = decoder.decode(buf)?;
    Ok(value.map(|value| (value, consumed)))
}

/// Reads replies from a stream, and keeps the state of an incomplete reply between calls.
///
/// Streamed aggregates and strings of RESP3 (`*?`, `$?`) are malformed here: no server sends them.
#[derive(Debug)]
pub struct Decoder {
    limits: DecodeLimits,
    /// The open aggregates, outermost first.
    open: Vec<Aggregate>,
    /// Values begun in this reply.
    values: usize,
}

impl Decoder {
    /// A decoder at the start of a reply.
    pub fn new(limits: DecodeLimits) -> Self {
        Self { limits, open: Vec::new(), values: 0 }
    }

    /// Reads up to the end of one reply. Returns how many bytes to drop from the front of the
    /// stream, and the reply if it ended there; if it did not, call again with the rest and
    /// more behind it.
    ///
    /// After an error the stream cannot be read on.
    pub fn decode(&mut self, buf: &[u8]) -> Result<(usize, Option<Value>), DecodeError> {
        let mut position = 0;
        while let Some((item, end)) = read_item(buf, position, &self.limits)? {
            position = end;
            self.values += 1;
            if self.values > self.limits.values_max {
                return Err(DecodeError::TooLong);
            }
            let whole = match item {
                Item::Scalar(value) => self.close(value),
                Item::Open { kind, len } => self.open(kind, len)?,
            };
            if let Some(value) = whole {
                self.values = 0;
                return Ok((position, Some(value)));
            }
        }
        Ok((position, None))
    }

    /// Begins an aggregate; returns the reply if that ends it.
    fn open(&mut self, kind: AggregateKind, len: usize) -> Result<Option<Value>, DecodeError> {
        let per_item =
            if matches!(kind, AggregateKind::Map | AggregateKind::Attribute) { 2 } else { 1 };
        let remaining = len.checked_mul(per_item).ok_or(DecodeError::TooLong)?;
        if remaining > self.limits.values_max {
            return Err(DecodeError::TooLong);
        }
        if self.open.len() >= self.limits.depth_max {
            return Err(DecodeError::TooDeep);
        }
        // Memory grows with the bytes received, not with the announced length.
        let items = Vec::with_capacity(remaining.min(32));
        let aggregate = Aggregate { kind, remaining, items };
        if remaining > 0 {
            self.open.push(aggregate);
            return Ok(None);
        }
        match aggregate.finish() {
            Ok(value) => Ok(self.close(value)),
            Err(awaiting) => {
                self.open.push(awaiting);
                Ok(None)
            }
        }
    }

    /// Puts a whole value where it belongs; returns it, or the aggregate it completes, if that is
    /// the reply.
    fn close(&mut self, mut value: Value) -> Option<Value> {
        loop {
            let Some(mut aggregate) = self.open.pop() else {
                return Some(value);
            };
            aggregate.items.push(value);
            aggregate.remaining -= 1;
            if aggregate.remaining > 0 {
                self.open.push(aggregate);
                return None;
            }
            match aggregate.finish() {
                Ok(whole) => value = whole,
                Err(awaiting) => {
                    self.open.push(awaiting);
                    return None;
                }
            }
        }
    }
}

/// An aggregate of which not all items were read.
#[derive(Debug)]
struct Aggregate {
    kind: AggregateKind,
    /// Items to come; above 0 while it is open.
    remaining: usize,
    items: Vec<Value>,
}

#[derive(Debug)]
enum AggregateKind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
    /// The reply that follows these attributes.
    Attributed(Vec<(Value, Value)>),
}

impl Aggregate {
    /// The value, now that all items are here; attributes wait for one more, the reply they are
    /// about.
    fn finish(mut self) -> Result<Value, Aggregate> {
        Ok(match self.kind {
            AggregateKind::Array => Value::Array(self.items),
            AggregateKind::Set => Value::Set(self.items),
            AggregateKind::Push => Value::Push(self.items),
            AggregateKind::Map => Value::Map(pairs(self.items)),
            AggregateKind::Attribute => {
                let kind = AggregateKind::Attributed(pairs(self.items));
                return Err(Aggregate { kind, remaining: 1, items: Vec::new() });
            }
            AggregateKind::Attributed(attributes) => {
                let value = Box::new(self.items.pop().unwrap_or(Value::Null));
                Value::Attribute { attributes, value }
            }
        })
    }
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    let mut pairs = Vec::with_capacity(items.len() / 2);
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

/// A scalar, or the header of an aggregate of `len` items or pairs.
enum Item {
    Scalar(Value),
    Open { kind: AggregateKind, len: usize },
}

/// Reads a scalar or a header; returns it with the position after it, or `None` if it is not whole.
fn read_item(
    buf: &[u8],
    position: usize,
    limits: &DecodeLimits,
) -> Result<Option<(Item, usize)>, DecodeError> {
    let Some(&marker) = buf.get(position) else {
        return Ok(None);
    };
    if !b"+-:$*_,#=(!%~>|".contains(&marker) {
        return Err(DecodeError::UnknownType(marker));
    }
    if let Some(header) = short_header(buf, position, marker)
        && b"$*=!%~>|".contains(&marker)
    {
        return sized(buf, marker, header.value, header.end, limits);
    }
    let Some((text, end)) = read_line(buf, position + 1)? else {
        return Ok(None);
    };
    let value = match marker {
        b'+' => Value::Simple(status(text)),
        b'-' => Value::Error(Bytes::copy_from_slice(text)),
        b':' => Value::Integer(integer(text)?),
        b'(' => Value::BigNumber(big_number(text)?),
        b',' => Value::Double(double(text)?),
        b'_' if text.is_empty() => Value::Null,
        b'#' if text == b"t" => Value::Boolean(true),
        b'#' if text == b"f" => Value::Boolean(false),
        b'_' | b'#' => return Err(DecodeError::Malformed),
        b'$' if text == b"-1" => Value::Null,
        b'*' if text == b"-1" => Value::NullArray,
        _ => {
            let len = usize::try_from(integer(text)?).map_err(|_| DecodeError::Malformed)?;
            return sized(buf, marker, len, end, limits);
        }
    };
    Ok(Some((Item::Scalar(value), end)))
}

/// The text of a status. That of the most frequent ones takes no allocation.
fn status(text: &[u8]) -> Bytes {
    match text {
        b"OK" => Bytes::from_static(b"OK"),
        b"QUEUED" => Bytes::from_static(b"QUEUED"),
        b"PONG" => Bytes::from_static(b"PONG"),
        _ => Bytes::copy_from_slice(text),
    }
}

/// Reads what follows a header with a length: a string's bytes, or nothing for an aggregate.
fn sized(
    buf: &[u8],
    marker: u8,
    len: usize,
    start: usize,
    limits: &DecodeLimits,
) -> Result<Option<(Item, usize)>, DecodeError> {
    let kind = match marker {
        b'*' => AggregateKind::Array,
        b'%' => AggregateKind::Map,
        b'~' => AggregateKind::Set,
        b'>' => AggregateKind::Push,
        b'|' => AggregateKind::Attribute,
        _ => {
            if len > limits.bulk_len_max {
                return Err(DecodeError::TooLong);
            }
            let Some(text) = buf[start..].get(..len) else {
                return Ok(None);
            };
            let end = start + len + LINE_END_LEN;
            let Some(line_end) = buf.get(start + len..end) else {
                return Ok(None);
            };
            if line_end != b"\r\n" {
                return Err(DecodeError::Malformed);
            }
            return Ok(Some((Item::Scalar(string(marker, text)?), end)));
        }
    };
    Ok(Some((Item::Open { kind, len }, start)))
}

/// The value of a string with a length header.
fn string(marker: u8, text: &[u8]) -> Result<Value, DecodeError> {
    Ok(match (marker, text) {
        (b'!', _) => Value::Error(Bytes::copy_from_slice(text)),
        (b'=', [a, b, c, b':', text @ ..]) => {
            Value::Verbatim { format: [*a, *b, *c], text: Bytes::copy_from_slice(text) }
        }
        (b'=', _) => return Err(DecodeError::Malformed),
        _ => Value::Bulk(Bytes::copy_from_slice(text)),
    })
}

/// The text up to the line's end, and the position after that.
fn read_line(buf: &[u8], start: usize) -> Result<Option<(&[u8], usize)>, DecodeError> {
    let rest = &buf[start..];
    let Some(at) = memchr2(b'\r', b'\n', rest) else {
        let too_long = rest.len() > LINE_LEN_MAX;
        return if too_long { Err(DecodeError::TooLong) } else { Ok(None) };
    };
    if at > LINE_LEN_MAX {
        return Err(DecodeError::TooLong);
    }
    match rest.get(at + 1) {
        _ if rest[at] == b'\n' => Err(DecodeError::Malformed),
        Some(b'\n') => Ok(Some((&rest[..at], start + at + LINE_END_LEN))),
        Some(_) => Err(DecodeError::Malformed),
        None => Ok(None),
    }
}

/// A 64-bit integer; unlike in a request, a plus sign is allowed.
fn integer(text: &[u8]) -> Result<i64, DecodeError> {
    let digits = match text {
        [b'+', b'0'..=b'9', ..] => &text[1..],
        _ => text,
    };
    strict_integer(digits).ok_or(DecodeError::Malformed)
}

fn big_number(text: &[u8]) -> Result<Bytes, DecodeError> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(DecodeError::Malformed);
    }
    Ok(Bytes::copy_from_slice(text))
}

fn double(text: &[u8]) -> Result<f64, DecodeError> {
    // Rust reads the same forms as RESP3, `inf` and `nan` included.
    let text = std::str::from_utf8(text).map_err(|_| DecodeError::Malformed)?;
    text.parse().map_err(|_| DecodeError::Malformed)
}
