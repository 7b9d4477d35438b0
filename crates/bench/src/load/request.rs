//! Requests as bytes: a template made once, into which key, length and value are put.

use serde::{Deserialize, Serialize};

use super::keys::KeySpace;
use crate::wire::Protocol;

/// Longest time to live, seconds: memcached takes a longer one for a date.
const TTL_MAX_S: u32 = 30 * 86_400;

/// The one command that a load repeats.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Operation {
    /// Store a value, with a time to live or none.
    Set {
        /// Seconds to live; beyond 30 days a date in Unix time, as in memcached's protocol.
        ttl_s: Option<u32>,
    },
    /// Load a value.
    Get,
    /// Delete a key.
    Delete,
    /// A request without a key (`version` where the protocol is memcached's).
    Ping,
}

/// Variation of the requests of a load.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub enum Mix {
    /// The operation alone.
    #[default]
    Only,
    /// SETs that live from one second to this many.
    Lifetimes(u32),
    /// GETs, and after each miss a SET of the key; this per cent of other requests are SETs.
    Cache(u32),
}

/// A block of random bytes that values are cut from, so that no value is made per request.
#[derive(Debug)]
pub struct ValueBlock(Vec<u8>);

impl ValueBlock {
    /// Number of places (a power of two) at which values begin. Few enough to stay in the
    /// second-level cache, many enough that neighbouring values differ.
    const STARTS: usize = 1 << 16;

    /// A block for values up to `size_max` bytes.
    pub fn new(size_max: u32) -> ValueBlock {
        let mut random = crate::random::Random::new(0x1eaf);
        let words = (Self::STARTS + size_max as usize).div_ceil(8);
        ValueBlock((0..words).flat_map(|_| random.next().to_le_bytes()).collect())
    }

    /// Beginning of the value drawn by `random`.
    #[inline]
    pub fn start(&self, random: u64) -> usize {
        random as usize & (Self::STARTS - 1)
    }

    /// Length of the longest value that any start has.
    pub fn longest(&self) -> usize {
        self.0.len() - Self::STARTS
    }

    /// The bytes of a value.
    #[inline]
    pub fn value(&self, start: usize, len: usize) -> &[u8] {
        &self.0[start..start + len]
    }
}

/// The bytes of a request around its key, length and value:
/// `head key middle length CRLF value tail`, or `head key tail`, or `head` alone.
#[derive(Debug)]
pub struct Template {
    /// Bytes up to the end of the key, with zeros for its digits.
    head: Vec<u8>,
    key_digits: usize,
    middle: Vec<u8>,
    has_value: bool,
    tail: Vec<u8>,
}

impl Template {
    /// The templates of a load.
    pub fn all(protocol: Protocol, operation: Operation, mix: Mix, space: KeySpace) -> Vec<Self> {
        let set = |ttl_s| Operation::Set { ttl_s };
        let operations = match mix {
            Mix::Only => vec![operation],
            Mix::Lifetimes(longest) => (1..=longest).map(|ttl| set(Some(ttl))).collect(),
            Mix::Cache(_) => vec![Operation::Get, set(None)],
        };
        operations.into_iter().map(|each| Self::new(protocol, each, space)).collect()
    }

    /// The template of `operation` in `protocol` for keys of `space`.
    pub fn new(protocol: Protocol, operation: Operation, space: KeySpace) -> Template {
        let mut template = match protocol {
            Protocol::Resp => Self::resp(operation, space),
            Protocol::Memcached => Self::memcached(operation),
        };
        if operation != Operation::Ping {
            template.head.extend_from_slice(space.prefix());
            template.head.resize(template.head.len() + space.digits(), b'0');
            template.key_digits = space.digits();
        }
        template
    }

    fn resp(operation: Operation, space: KeySpace) -> Template {
        let size = space.size;
        let (head, tail) = match operation {
            Operation::Set { ttl_s: None } => {
                (format!("*3\r\n$3\r\nSET\r\n${size}\r\n"), "\r\n".to_owned())
            }
            Operation::Set { ttl_s: Some(ttl) } => (
                format!("*5\r\n$3\r\nSET\r\n${size}\r\n"),
                format!(
                    "\r\n{}\r\n${}\r\n{ttl}\r\n",
                    if ttl > TTL_MAX_S { "$4\r\nEXAT" } else { "$2\r\nEX" },
                    ttl.to_string().len()
                ),
            ),
            Operation::Get => (format!("*2\r\n$3\r\nGET\r\n${size}\r\n"), "\r\n".to_owned()),
            Operation::Delete => (format!("*2\r\n$3\r\nDEL\r\n${size}\r\n"), "\r\n".to_owned()),
            Operation::Ping => ("*1\r\n$4\r\nPING\r\n".to_owned(), String::new()),
        };
        Template {
            head: head.into_bytes(),
            key_digits: 0,
            middle: b"\r\n$".to_vec(),
            has_value: matches!(operation, Operation::Set { .. }),
            tail: tail.into_bytes(),
        }
    }

    fn memcached(operation: Operation) -> Template {
        let (head, middle, tail) = match operation {
            Operation::Set { ttl_s } => {
                ("set ", format!(" 0 {} ", ttl_s.unwrap_or(0)).into_bytes(), "\r\n")
            }
            Operation::Get => ("get ", Vec::new(), "\r\n"),
            Operation::Delete => ("delete ", Vec::new(), "\r\n"),
            Operation::Ping => ("version\r\n", Vec::new(), ""),
        };
        Template {
            head: head.as_bytes().to_vec(),
            key_digits: 0,
            middle,
            has_value: matches!(operation, Operation::Set { .. }),
            tail: tail.as_bytes().to_vec(),
        }
    }

    /// Whether requests carry a value.
    pub fn has_value(&self) -> bool {
        self.has_value
    }

    /// Appends the part before the value; for requests without one, the whole request.
    #[inline]
    pub fn put_head(&self, out: &mut Vec<u8>, key: u64, value_len: u32) {
        out.extend_from_slice(&self.head);
        if self.key_digits > 0 {
            let end = out.len();
            put_digits(&mut out[end - self.key_digits..], key);
        }
        if self.has_value {
            out.extend_from_slice(&self.middle);
            let mut line = *b"0000000000\r\n";
            put_digits(&mut line[..10], u64::from(value_len));
            let digits = value_len.max(1).ilog10() as usize + 1;
            out.extend_from_slice(&line[10 - digits..]);
        } else {
            out.extend_from_slice(&self.tail);
        }
    }

    /// Appends what follows the value.
    #[inline]
    pub fn put_tail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tail);
    }
}

/// Writes a number right-aligned over a field of zeros.
#[inline]
fn put_digits(field: &mut [u8], mut number: u64) {
    let mut at = field.len();
    while number > 0 && at > 0 {
        at -= 1;
        field[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(protocol: Protocol, operation: Operation, value: &[u8]) -> String {
        let space = KeySpace::new(1_000_000, 16).unwrap();
        let template = Template::new(protocol, operation, space);
        let mut out = Vec::new();
        template.put_head(&mut out, 4711, value.len() as u32);
        if template.has_value() {
            out.extend_from_slice(value);
            template.put_tail(&mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn resp_requests() {
        let resp = |operation, value| request(Protocol::Resp, operation, value);
        assert_eq!(
            resp(Operation::Set { ttl_s: None }, b"hello"),
            "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000004711\r\n$5\r\nhello\r\n"
        );
        assert_eq!(
            resp(Operation::Set { ttl_s: Some(86400) }, b""),
            "*5\r\n$3\r\nSET\r\n$16\r\nkey:000000004711\r\n$0\r\n\r\n$2\r\nEX\r\n$5\r\n86400\r\n"
        );
        assert_eq!(resp(Operation::Get, b""), "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000004711\r\n");
        assert_eq!(resp(Operation::Ping, b""), "*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn a_time_to_live_beyond_30_days_is_a_date() {
        let request = request(Protocol::Resp, Operation::Set { ttl_s: Some(1_900_000_000) }, b"x");
        assert!(request.ends_with("\r\nx\r\n$4\r\nEXAT\r\n$10\r\n1900000000\r\n"), "{request}");
    }

    #[test]
    fn memcached_requests() {
        let text = |operation, value| request(Protocol::Memcached, operation, value);
        assert_eq!(
            text(Operation::Set { ttl_s: None }, b"0123456789"),
            "set key:000000004711 0 0 10\r\n0123456789\r\n"
        );
        assert_eq!(
            text(Operation::Set { ttl_s: Some(86400) }, b"x"),
            "set key:000000004711 0 86400 1\r\nx\r\n"
        );
        assert_eq!(text(Operation::Get, b""), "get key:000000004711\r\n");
        assert_eq!(text(Operation::Delete, b""), "delete key:000000004711\r\n");
        assert_eq!(text(Operation::Ping, b""), "version\r\n");
    }

    #[test]
    fn values_begin_at_different_places_and_never_run_over() {
        let block = ValueBlock::new(1024);
        assert_eq!(block.value(block.start(u64::MAX), 1024).len(), 1024);
        assert_ne!(block.value(1, 16), block.value(2, 16));
    }
}
