//! Values of value types, in the form of values of modules: the number of the module, and then
//! numbers, strings and so on, each behind a number that names its sort, so that values of unknown
//! modules can be skipped.
//!
//! ```text
//! number of the module: nine letters of 6 bits, 10 bits of version
//! parts, each: 1, signed number | 2, unsigned number | 3, 32-bit float | 4, double | 5, string
//! 0
//! ```

use super::kind::type_byte::ARRAY;
use super::length::read_number;
use super::skip::skip_text;
use super::text::read_text;
use super::{CustomItem, Error, Source, ValueSink};
use petrel_keyspace::custom::{LoadError, ModuleReader, type_of_module, type_of_type_byte};

/// The end of the value.
pub(super) const END: u64 = 0;
/// Opcode of a signed integer.
pub(super) const SIGNED: u64 = 1;
/// Opcode of an unsigned integer.
pub(super) const UNSIGNED: u64 = 2;
/// Opcode of a float of 4 bytes.
const FLOAT: u64 = 3;
/// Opcode of a float of 8 bytes.
pub(super) const DOUBLE: u64 = 4;
/// Opcode of a string.
pub(super) const TEXT: u64 = 5;

const OTHER_PART: LoadError =
    LoadError::Malformed("a part of a module's value is of another sort than it should be");

/// Reads a value of a value type.
pub(super) fn read<S: Source, K: ValueSink>(source: &mut S, sink: &mut K) -> Result<(), Error> {
    let module = read_number(source)?;
    let of = type_of_module(module).ok_or(Error::Unsupported("the value is of a module"))?;
    let value = (of.load)(&mut Reader::new(source, sink.seed(), true), module)?;
    if read_number(source)? != END {
        return Err(OTHER_PART.into());
    }
    sink.custom(of, CustomItem::Loaded(value))
}

/// Reads a value of a value type that has a type byte of its own.
pub(super) fn read_under_byte<S: Source, K: ValueSink>(
    source: &mut S,
    type_byte: u8,
    sink: &mut K,
) -> Result<(), Error> {
    let of = type_of_type_byte(type_byte).ok_or(Error::Unsupported(match type_byte {
        ARRAY => "the value is an array",
        _ => "the value is of an unknown type",
    }))?;
    let value = (of.load)(&mut Reader::new(source, sink.seed(), false), 0)?;
    sink.custom(of, CustomItem::Loaded(value))
}

/// Reads over a value of any module.
pub(super) fn skip<S: Source>(source: &mut S) -> Result<(), Error> {
    read_number(source)?;
    loop {
        match read_number(source)? {
            END => return Ok(()),
            SIGNED | UNSIGNED => read_number(source).map(drop)?,
            FLOAT => source.take(4).map(drop)?,
            DOUBLE => source.take(8).map(drop)?,
            TEXT => skip_text(source)?,
            _ => return Err(Error::Malformed("a part of a module's value of no known sort")),
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Truncated => Error::Truncated,
            LoadError::Malformed(what) => Error::Malformed(what),
            LoadError::Unsupported(what) => Error::Unsupported(what),
            LoadError::Refused(what) => Error::Refused(what),
        }
    }
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        match error {
            Error::Truncated => LoadError::Truncated,
            Error::Malformed(what) => LoadError::Malformed(what),
            Error::Unsupported(what) => LoadError::Unsupported(what),
            Error::Refused(what) => LoadError::Refused(what),
            // No part of a value says so.
            Error::Frame => LoadError::Malformed("a broken frame"),
        }
    }
}

/// Reads the parts of a value.
struct Reader<'r, S> {
    source: &'r mut S,
    scratch: Vec<u8>,
    digits: itoa::Buffer,
    seed: u64,
    /// Whether parts name their sorts.
    has_sorts: bool,
}

impl<'r, S: Source> Reader<'r, S> {
    fn new(source: &'r mut S, seed: u64, has_sorts: bool) -> Self {
        Reader { source, scratch: Vec::new(), digits: itoa::Buffer::new(), seed, has_sorts }
    }

    fn part(&mut self, sort: u64) -> Result<(), LoadError> {
        if !self.has_sorts || read_number(self.source)? == sort { Ok(()) } else { Err(OTHER_PART) }
    }
}

impl<S: Source> ModuleReader for Reader<'_, S> {
    fn unsigned(&mut self) -> Result<u64, LoadError> {
        self.part(UNSIGNED)?;
        Ok(read_number(self.source)?)
    }

    fn signed(&mut self) -> Result<i64, LoadError> {
        self.part(SIGNED)?;
        Ok(read_number(self.source)?.cast_signed())
    }

    fn double(&mut self) -> Result<f64, LoadError> {
        self.part(DOUBLE)?;
        Ok(f64::from_le_bytes(self.source.array()?))
    }

    fn text(&mut self) -> Result<&[u8], LoadError> {
        self.part(TEXT)?;
        Ok(read_text(self.source, &mut self.scratch)?.bytes(&mut self.digits))
    }

    fn left(&self) -> usize {
        self.source.left()
    }

    fn seed(&self) -> u64 {
        self.seed
    }
}
