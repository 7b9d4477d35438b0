//! Why a value could not be read or written.

use std::{fmt, io};

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

/// Why a file could not be read or written.
#[derive(Debug)]
pub enum FileError {
    /// The system refused to.
    Io(io::Error),
    /// It is no RDB file.
    NoRdbFile,
    /// A version that is not known here.
    Version(u16),
    /// What stands at or behind this byte of the file is not what belongs there.
    Format {
        /// Bytes before it.
        at: u64,
        /// What is wrong.
        error: Error,
    },
    /// A key that comes twice.
    Duplicate {
        /// The key.
        key: Vec<u8>,
        /// Its database.
        db: u16,
    },
    /// The checksum at the end is not that of what was read.
    Sum {
        /// The checksum in the file.
        stated: u64,
        /// That of its bytes.
        computed: u64,
    },
    /// The file needs more databases than there are.
    Databases {
        /// The number of the database.
        needed: u64,
        /// How many there are.
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
            FileError::Duplicate { key, db } => {
                let key = key.escape_ascii();
                write!(f, "key \"{key}\" of database {db} is there twice")
            }
            FileError::Sum { stated, computed } => write!(
                f,
                "the checksum is {stated:016x}, but that of the bytes is {computed:016x}: the file is damaged"
            ),
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

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        FileError::Io(error)
    }
}
