//! Why a value could not be read or written.

use std::fmt;

/// Why a value could not be read or written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Error {
    /// The version is not one that is understood, or the checksum does not match.
    Frame,
    /// The bytes end before the value does.
    Truncated,
    /// The bytes contradict themselves or the format.
    Malformed(&'static str),
    /// A value of a type that is not known here.
    Unsupported(&'static str),
    /// Whoever takes the value cannot hold it.
    Refused(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Frame => f.write_str("version or checksum are wrong"),
            Error::Truncated => f.write_str("the payload ends too early"),
            Error::Malformed(what) | Error::Unsupported(what) | Error::Refused(what) => {
                f.write_str(what)
            }
        }
    }
}

impl std::error::Error for Error {}
