//! Replies as the values that they are, with no bytes of RESP in between.

use bytes::Bytes;
use petrel_client::Value;
use petrel_resp::{Protocol, Reply};

/// Builds the value of one reply.
pub(crate) struct ValueReply<'s> {
    /// Null until there is one.
    value: Value,
    /// Takes a reply that is a short string, so that no value is made of it.
    short: Option<&'s mut Short>,
    /// Aggregates of which items are missing, the outermost first.
    frames: Vec<Frame>,
}

/// Bytes of a reply that [`Short`] takes.
const SHORT_MAX: usize = 128;

/// A reply that is a short string, or none.
pub(crate) struct Short {
    len: Option<usize>,
    bytes: [u8; SHORT_MAX],
}

impl Short {
    pub(crate) const NONE: Self = Self { len: None, bytes: [0; SHORT_MAX] };

    #[inline]
    pub(crate) fn get(&self) -> Option<&[u8]> {
        self.bytes.get(..self.len?)
    }
}

#[derive(Debug)]
struct Frame {
    kind: Kind,
    /// Values that it will have: of a map, keys and values.
    len: usize,
    items: Vec<Value>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
}

impl Default for ValueReply<'_> {
    #[inline]
    fn default() -> Self {
        Self { value: Value::Null, short: None, frames: Vec::new() }
    }
}

impl<'s> ValueReply<'s> {
    /// A reply that is put into `short`, and is not the value, if it is a short string.
    #[inline]
    pub(crate) fn with_short(short: &'s mut Short) -> Self {
        Self { short: Some(short), ..Self::default() }
    }

    /// The reply; null if there is none.
    #[inline]
    pub(crate) fn into_value(self) -> Value {
        self.value
    }

    /// Puts a value where the next one belongs.
    #[inline]
    fn place(&mut self, value: Value) {
        match self.frames.is_empty() {
            true => self.value = value,
            false => self.place_within(value),
        }
    }

    fn place_within(&mut self, mut value: Value) {
        while let Some(frame) = self.frames.last_mut() {
            frame.items.push(value);
            if frame.items.len() < frame.len {
                return;
            }
            let Some(frame) = self.frames.pop() else { return };
            if frame.kind == Kind::Push && self.frames.is_empty() {
                // What comes before a reply, which is not for a caller in place.
                return;
            }
            value = frame.into_value();
        }
        self.value = value;
    }

    fn begin(&mut self, kind: Kind, len: usize) {
        let frame = Frame { kind, len, items: Vec::with_capacity(len) };
        if len > 0 {
            self.frames.push(frame);
        } else if kind != Kind::Push {
            self.place(frame.into_value());
        }
    }
}

impl Frame {
    fn into_value(self) -> Value {
        match self.kind {
            Kind::Array => Value::Array(self.items),
            Kind::Set => Value::Set(self.items),
            Kind::Push => Value::Push(self.items),
            Kind::Map => {
                let mut pairs = Vec::with_capacity(self.items.len() / 2);
                let mut items = self.items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
        }
    }
}

/// Without line ends, which no error has on a connection.
fn error_text(text: &[u8]) -> Bytes {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if !text.iter().any(is_end) {
        return Bytes::copy_from_slice(text);
    }
    text.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }).collect::<Vec<u8>>().into()
}

impl Reply for ValueReply<'_> {
    fn protocol(&self) -> Protocol {
        Protocol::Resp3
    }

    fn set_protocol(&mut self, _: Protocol) {}

    #[inline]
    fn simple(&mut self, text: &str) {
        self.place(Value::Simple(match text {
            "OK" => Bytes::from_static(b"OK"),
            "QUEUED" => Bytes::from_static(b"QUEUED"),
            other => Bytes::copy_from_slice(other.as_bytes()),
        }));
    }

    fn error(&mut self, text: &[u8]) {
        self.place(Value::Error(error_text(text)));
    }

    #[inline]
    fn integer(&mut self, n: i64) {
        self.place(Value::Integer(n));
    }

    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        match &mut self.short {
            Some(short) if self.frames.is_empty() && bytes.len() <= SHORT_MAX => {
                short.bytes[..bytes.len()].copy_from_slice(bytes);
                short.len = Some(bytes.len());
            }
            _ => self.place(Value::Bulk(Bytes::copy_from_slice(bytes))),
        }
    }

    fn shared(&mut self, bytes: Bytes) {
        self.place(Value::Bulk(bytes));
    }

    #[inline]
    fn null(&mut self) {
        self.place(Value::Null);
    }

    fn null_array(&mut self) {
        self.place(Value::Null);
    }

    fn array(&mut self, len: usize) {
        self.begin(Kind::Array, len);
    }

    fn map(&mut self, len: usize) {
        if len == 0 {
            return self.place(Value::Map(Vec::new()));
        }
        self.begin(Kind::Map, len.saturating_mul(2));
    }

    fn set(&mut self, len: usize) {
        self.begin(Kind::Set, len);
    }

    fn push(&mut self, len: usize) {
        self.begin(Kind::Push, len);
    }

    fn attribute(&mut self, _: usize) -> bool {
        false
    }

    fn double(&mut self, value: f64) {
        self.place(Value::Double(value));
    }

    fn decimal(&mut self, digits: &[u8]) {
        let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
        self.place(match number {
            Some(number) => Value::Double(number),
            None => Value::Bulk(Bytes::copy_from_slice(digits)),
        });
    }

    fn boolean(&mut self, value: bool) {
        self.place(Value::Boolean(value));
    }

    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        self.place(Value::Verbatim { format: *format, text: Bytes::copy_from_slice(text) });
    }

    fn big_number(&mut self, digits: &str) {
        self.place(Value::BigNumber(Bytes::copy_from_slice(digits.as_bytes())));
    }
}
