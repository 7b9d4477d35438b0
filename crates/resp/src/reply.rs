//! The reply writer that every command handler writes to.

use bytes::Bytes;

/// The protocol version of a connection, set by `HELLO`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// RESP2, the version of a connection that never sent `HELLO 3`.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// A sink for exactly one reply (nested replies follow their header in order).
///
/// Aggregates announce their length first: after `array(n)` come `n` replies, after `map(n)` come
/// `2 n`. A writer turns each call into its own form: RESP2 bytes, RESP3 bytes, Lua values,
/// embedded results. Types that RESP2 lacks fall back as Redis does (map to flat array, double to
/// bulk, boolean to 0/1, verbatim to bulk, null to `$-1`).
pub trait Reply {
    /// Protocol version of the client: a few commands have different replies in each.
    fn protocol(&self) -> Protocol;
    /// Bytes that have been written so far, by this writer and before it; 0 if they are not
    /// counted.
    fn written(&self) -> usize {
        0
    }
    /// Position of this writer in its bytes, excluding large values passed by reference;
    /// `usize::MAX` once the reply has been dropped for its size.
    fn place(&self) -> usize {
        0
    }
    /// Removes all bytes written since [`Reply::place`] returned `_place`. Writers that cannot do
    /// that keep them.
    fn take_back(&mut self, _place: usize) {}
    /// Bytes that may still be written before the reply passes its limit and is dropped.
    fn room_left(&self) -> usize {
        usize::MAX
    }
    /// Whether the reply has passed its limit, so that further output is dropped: a handler with
    /// much to write may end.
    fn is_dropped(&self) -> bool {
        false
    }
    /// Drops the reply as one that has passed its limit.
    fn refuse(&mut self) {}
    /// Writes in another protocol from here on (`HELLO` answers in the one it chose). Writers that
    /// have no protocol of their own ignore it.
    fn set_protocol(&mut self, protocol: Protocol);
    /// `+text`; `text` holds no CR or LF.
    fn simple(&mut self, text: &str);
    /// `-text`; starts with the code (`ERR`, `WRONGTYPE`); CR and LF are replaced by spaces.
    fn error(&mut self, text: &[u8]);
    /// `:n`.
    fn integer(&mut self, n: i64);
    /// A binary-safe string.
    fn bulk(&mut self, bytes: &[u8]);
    /// A binary-safe string in two parts.
    fn bulk_joined(&mut self, first: &[u8], second: &[u8]) {
        if first.is_empty() { self.bulk(second) } else { self.bulk(&[first, second].concat()) }
    }
    /// A binary-safe string, by reference: large values are sent from where they lie.
    fn shared(&mut self, bytes: Bytes);
    /// The absent value (`$-1` in RESP2, `_` in RESP3).
    fn null(&mut self);
    /// The absent aggregate (`*-1` in RESP2, `_` in RESP3).
    fn null_array(&mut self);
    /// Header of an array of `len` replies.
    fn array(&mut self, len: usize);
    /// Header of a map of `len` pairs.
    fn map(&mut self, len: usize);
    /// Header of a set of `len` replies.
    fn set(&mut self, len: usize);
    /// Header of an out-of-band push of `len` replies (an array in RESP2).
    fn push(&mut self, len: usize);
    /// Header of an attribute of `len` pairs, which precedes the reply it is about.
    ///
    /// RESP2 has no attributes: returns false there, writes nothing, and the pairs must be left
    /// out.
    #[must_use]
    fn attribute(&mut self, len: usize) -> bool;
    /// A double, printed with the shortest digits that read back the same.
    fn double(&mut self, value: f64);
    /// A double by its decimal digits, for numbers that an `f64` does not hold.
    fn decimal(&mut self, digits: &[u8]);
    /// A boolean (`:1` or `:0` in RESP2).
    fn boolean(&mut self, value: bool);
    /// A verbatim string; `format` is three characters (`txt`, `mkd`).
    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]);
    /// Pushes that come before the reply, as RESP. Writers of other forms have no receiver to pass
    /// them to.
    fn encoded(&mut self, _resp: &[u8]) {}
    /// A number beyond 64 bits, as decimal digits.
    fn big_number(&mut self, digits: &str);
}
