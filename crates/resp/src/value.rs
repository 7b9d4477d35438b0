//! A reply as an owned value.

use bytes::Bytes;

use crate::Reply;

/// A reply of any RESP2 or RESP3 type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+`: a status.
    Simple(Bytes),
    /// `-`, or `!` in RESP3: an error with its code first.
    Error(Bytes),
    /// `:`.
    Integer(i64),
    /// `$`.
    Bulk(Bytes),
    /// `$-1` or `_`.
    Null,
    /// `*-1`.
    NullArray,
    /// `*`.
    Array(Vec<Value>),
    /// `%`, in the order received.
    Map(Vec<(Value, Value)>),
    /// `~`, in the order received.
    Set(Vec<Value>),
    /// `>`: not the reply to a request.
    Push(Vec<Value>),
    /// `,`.
    Double(f64),
    /// `#`.
    Boolean(bool),
    /// `=`.
    Verbatim {
        /// Three characters, such as `txt`.
        format: [u8; 3],
        /// The text after the format.
        text: Bytes,
    },
    /// `(`: decimal digits after an optional sign.
    BigNumber(Bytes),
    /// `|`: facts about a reply, and that reply.
    Attribute {
        /// The facts, in the order received.
        attributes: Vec<(Value, Value)>,
        /// The reply they are about.
        value: Box<Value>,
    },
}

impl Value {
    /// Whether this is either form of the absent value.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullArray)
    }

    /// The text of a status, bulk, verbatim string, error or big number.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(text)
            | Self::Error(text)
            | Self::Bulk(text)
            | Self::BigNumber(text)
            | Self::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Writes the value as a reply. Attributes are left out, and a status or big number that is not
    /// UTF-8 is written as a bulk.
    pub fn write_to(&self, reply: &mut impl Reply) {
        match self {
            Self::Simple(text) => match std::str::from_utf8(text) {
                Ok(text) => reply.simple(text),
                Err(_) => reply.bulk(text),
            },
            Self::Error(text) => reply.error(text),
            Self::Integer(n) => reply.integer(*n),
            Self::Bulk(bytes) => reply.shared(bytes.clone()),
            Self::Null => reply.null(),
            Self::NullArray => reply.null_array(),
            Self::Array(items) => {
                reply.array(items.len());
                items.iter().for_each(|item| item.write_to(reply));
            }
            Self::Map(pairs) => {
                reply.map(pairs.len());
                for (key, value) in pairs {
                    key.write_to(reply);
                    value.write_to(reply);
                }
            }
            Self::Set(items) => {
                reply.set(items.len());
                items.iter().for_each(|item| item.write_to(reply));
            }
            Self::Push(items) => {
                reply.push(items.len());
                items.iter().for_each(|item| item.write_to(reply));
            }
            Self::Double(value) => reply.double(*value),
            Self::Boolean(value) => reply.boolean(*value),
            Self::Verbatim { format, text } => reply.verbatim(format, text),
            Self::BigNumber(digits) => match std::str::from_utf8(digits) {
                Ok(digits) => reply.big_number(digits),
                Err(_) => reply.bulk(digits),
            },
            Self::Attribute { value, .. } => value.write_to(reply),
        }
    }
}
