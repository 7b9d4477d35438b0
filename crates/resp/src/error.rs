//! Protocol errors of requests, with Redis's texts.

use std::borrow::Cow;
use std::fmt;

/// A violation of the protocol. The connection cannot go on: where the next request starts is
/// unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProtocolError {
    /// The count after `*` is no number, or above [`Limits`](crate::Limits).
    InvalidMultibulkLength,
    /// The length after `$` is no number, negative, or above [`Limits`](crate::Limits).
    InvalidBulkLength,
    /// An argument starts with this byte instead of `$`.
    ExpectedBulk(u8),
    /// A line typed by hand without an end within the limit.
    InlineTooLong,
    /// The line of the argument count does not end within the limit.
    MultibulkCountTooLong,
    /// The line of an argument's length does not end within the limit.
    BulkCountTooLong,
    /// Other bytes where a line or an argument ends.
    InvalidLineEnd,
    /// A quote that is not closed, or is closed in the middle of a word.
    UnbalancedQuotes,
    /// Too many arguments for a connection that has not authenticated.
    UnauthenticatedMultibulkLength,
    /// Too long an argument for a connection that has not authenticated.
    UnauthenticatedBulkLength,
}

impl ProtocolError {
    /// The text for [`Reply::error`](crate::Reply::error), code included.
    ///
    /// Bytes, not `str`: the text of [`ProtocolError::ExpectedBulk`] repeats the byte that was
    /// received.
    pub fn text(self) -> Cow<'static, [u8]> {
        Cow::Borrowed(match self {
            Self::InvalidMultibulkLength => b"ERR Protocol error: invalid multibulk length",
            Self::InvalidBulkLength => b"ERR Protocol error: invalid bulk length",
            Self::InlineTooLong => b"ERR Protocol error: too big inline request",
            Self::MultibulkCountTooLong => b"ERR Protocol error: too big mbulk count string",
            Self::BulkCountTooLong => b"ERR Protocol error: too big bulk count string",
            Self::InvalidLineEnd => b"ERR Protocol error: invalid CRLF in request",
            Self::UnbalancedQuotes => b"ERR Protocol error: unbalanced quotes in request",
            Self::UnauthenticatedMultibulkLength => {
                b"ERR Protocol error: unauthenticated multibulk length"
            }
            Self::UnauthenticatedBulkLength => b"ERR Protocol error: unauthenticated bulk length",
            Self::ExpectedBulk(got) => {
                let mut text = b"ERR Protocol error: expected '$', got '".to_vec();
                text.extend_from_slice(&[got, b'\'']);
                return Cow::Owned(text);
            }
        })
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

impl std::error::Error for ProtocolError {}
