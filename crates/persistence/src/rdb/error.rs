//! Errors of reading and writing RDB data.

use std::{fmt, io};

/// Error of a value.
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
    /// The receiver of the value cannot hold it.
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

/// A collection without elements, which no command leaves behind.
pub(super) const EMPTY: Error = Error::Malformed("a value without elements");

impl Error {
    /// Whether it says that a collection has no elements: a file's key of this kind holds nothing
    /// that leaving it out would lose.
    pub fn is_empty_value(&self) -> bool {
        *self == EMPTY
    }
}

/// Error of a file.
#[derive(Debug)]
pub enum FileError {
    /// The system refused to.
    Io(io::Error),
    /// The file is no RDB file.
    NoRdbFile,
    /// A version that is not known here.
    Version(u16),
    /// Invalid data at or after this position.
    Format {
        /// Bytes before it.
        at: u64,
        /// The fault.
        error: Error,
    },
    /// A key with a broken record, or with a value that cannot be made.
    Key {
        /// Bytes of the file before it.
        at: u64,
        /// The key's database.
        db: u64,
        /// The key.
        key: Vec<u8>,
        /// The fault.
        error: Error,
    },
    /// A key that comes twice.
    Duplicate {
        /// The key.
        key: Vec<u8>,
        /// The key's database.
        db: u16,
    },
    /// The checksum at the end does not match.
    Sum {
        /// The checksum in the file.
        stated: u64,
        /// Checksum of the bytes.
        computed: u64,
    },
    /// The file needs more databases than there are.
    Databases {
        /// The number of the database.
        needed: u64,
        /// Number of databases configured.
        there: u16,
    },
    /// A key's value cannot be written.
    Value(Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io(error) => error.fmt(f),
            FileError::NoRdbFile => f.write_str("it does not begin as an RDB file does"),
            FileError::Version(version) => write!(
                f,
                "RDB version {version} is not known here; `rdb-version-check relaxed` tries nevertheless"
            ),
            FileError::Format { at, error: Error::Truncated } => {
                write!(f, "it ends too early: what begins at byte {at} is not complete")
            }
            FileError::Format { at, error } => write!(f, "at byte {at}: {error}"),
            FileError::Key { at, db, key, error: Error::Truncated } => {
                write!(f, "at byte {at}: {} of database {db} ends too early", ShownKey(key))
            }
            FileError::Key { at, db, key, error } => {
                write!(f, "at byte {at}: {} of database {db}: {error}", ShownKey(key))
            }
            FileError::Duplicate { key, db } => {
                write!(f, "{} of database {db} is there twice", ShownKey(key))
            }
            FileError::Sum { stated, computed } => write!(
                f,
                "the checksum is {stated:016x}, but that of the bytes is {computed:016x}: the file is damaged"
            ),
            FileError::Databases { needed, there } if *needed >= DATABASES_MAX => {
                write!(
                    f,
                    "it has keys in database {needed}, but there are {there}, and cannot be as many"
                )
            }
            FileError::Databases { needed, there } => write!(
                f,
                "it has keys in database {needed}, but there are {there}: start with `databases {}` or more",
                needed.saturating_add(1)
            ),
            FileError::Value(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FileError {}

/// Most databases that a server can have.
const DATABASES_MAX: u64 = u16::MAX as u64;

impl FileError {
    /// Whether it is the content of the file that is at fault, so that the file can be loaded
    /// without its broken parts ([`crate::mend`]).
    pub fn is_mendable(&self) -> bool {
        match self {
            FileError::Format { .. }
            | FileError::Key { .. }
            | FileError::Duplicate { .. }
            | FileError::Sum { .. } => true,
            FileError::Databases { needed, .. } => *needed >= DATABASES_MAX,
            FileError::Io(_)
            | FileError::NoRdbFile
            | FileError::Version(_)
            | FileError::Value(_) => false,
        }
    }
}

/// A key as messages show it: on one line, and not longer than [`SHOWN_MAX`] bytes of it.
pub struct ShownKey<'k>(pub &'k [u8]);

/// Bytes of a key that messages show.
const SHOWN_MAX: usize = 128;

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get(..SHOWN_MAX) {
            Some(shown) if self.0.len() > SHOWN_MAX => {
                write!(f, "key \"{}...\" of {} bytes", shown.escape_ascii(), self.0.len())
            }
            _ => write!(f, "key \"{}\"", self.0.escape_ascii()),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        FileError::Io(error)
    }
}
