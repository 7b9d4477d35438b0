//! Values of value types, in the form of values of modules: the number of the module, and then
//! numbers, strings and so on, each behind a number that names its sort, so that values of unknown
//! modules can be skipped.
//!
//! ```text
//! number of the module: nine letters of 6 bits, 10 bits of version
//! parts, each: 1, signed number | 2, unsigned number | 3, 32-bit float | 4, double | 5, string
//! 0
//! ```
//!
//! A value of an unknown type that has changed since is one of the module `petrel-up`:
//!
//! ```text
//! type byte, or 0 if there are only changes; number of the module, or 0; string: the value, or the
//! parts of a module's
//! changes, each: number of the type, operation, string: body
//! ```

use super::kind::{type_byte, type_of};
use super::length::read_number;
use super::skip::skip_text;
use super::text::read_text;
use super::{CustomItem, Error, Slice, Source, ValueSink, read_value};
use petrel_keyspace::custom::unknown::{CHANGED_MODULE, Encoded, UNKNOWN, Unknown};
use petrel_keyspace::custom::{
    CustomChange, LoadError, ModuleReader, TypeNumber, ValueType, type_of_module, type_of_type_byte,
};

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
    if module == CHANGED_MODULE {
        return read_changed(source, sink);
    }
    if let Some(of) = type_of_module(module) {
        return read_known(source, (of, module), sink);
    }
    if !sink.keeps_unknown() {
        return Err(Error::Unsupported("the value is of a module"));
    }
    let mut copying = Copying { source, bytes: Vec::new() };
    skip_parts(&mut copying)?;
    let mut bytes = copying.bytes;
    // The end is no part.
    bytes.pop();
    keep(Encoded { type_byte: type_byte::MODULE_2, module: Some(module), bytes }, sink)
}

fn read_known<S: Source, K: ValueSink>(
    source: &mut S,
    (of, module): (&'static ValueType, u64),
    sink: &mut K,
) -> Result<(), Error> {
    let value = (of.load)(&mut Reader::new(source, sink.seed(), true), module)?;
    if read_number(source)? != END {
        return Err(OTHER_PART.into());
    }
    sink.custom(of, CustomItem::Loaded(value))
}

fn keep<K: ValueSink>(value: Encoded, sink: &mut K) -> Result<(), Error> {
    sink.custom(&UNKNOWN, CustomItem::Loaded(Unknown::loaded(value)))
}

/// Reads a value with its later changes, one of which was of an unknown type to the writer.
fn read_changed<S: Source, K: ValueSink>(source: &mut S, sink: &mut K) -> Result<(), Error> {
    const MALFORMED: Error = Error::Malformed("a changed value of an unknown type is broken");
    let mut reader = Reader::new(source, sink.seed(), true);
    let byte = u8::try_from(reader.unsigned()?).map_err(|_| MALFORMED)?;
    let module = reader.unsigned()?;
    let mut bytes = reader.text()?.to_vec();
    let of_module = byte == type_byte::MODULE_2;
    match type_of_module(module).filter(|_| of_module) {
        // No value is within another.
        _ if of_module && module == CHANGED_MODULE => return Err(MALFORMED),
        Some(of) => {
            bytes.push(END as u8);
            let mut value = Slice::new(&bytes);
            read_known(&mut value, (of, module), sink)?;
            if value.left() > 0 {
                return Err(MALFORMED);
            }
        }
        None if of_module && sink.keeps_unknown() => {
            keep(Encoded { type_byte: byte, module: Some(module), bytes }, sink)?;
        }
        None if of_module => return Err(Error::Unsupported("the value is of a module")),
        None if byte == 0 => {}
        None => read_to_end(&bytes, byte, sink)?,
    }
    let mut any = byte != 0;
    loop {
        match read_number(source)? {
            END if any => return Ok(()),
            UNSIGNED => {}
            _ => return Err(MALFORMED),
        }
        let mut reader = Reader::new(source, 0, true);
        let of = u8::try_from(read_number(reader.source)?).map_err(|_| MALFORMED)?;
        let op = u8::try_from(reader.unsigned()?).map_err(|_| MALFORMED)?;
        let body = reader.text()?;
        sink.change(TypeNumber(of), CustomChange { op, body })?;
        any = true;
    }
}

/// Reads a value that takes all these bytes, and keeps one of an unknown type byte.
///
/// # Errors
/// As [`read_value`].
pub fn read_to_end<K: ValueSink>(bytes: &[u8], byte: u8, sink: &mut K) -> Result<(), Error> {
    let is_known =
        matches!(byte, type_byte::MODULE_1 | type_byte::MODULE_2) || type_of(byte).is_some();
    if !is_known && sink.keeps_unknown() {
        return keep(Encoded { type_byte: byte, module: None, bytes: bytes.to_vec() }, sink);
    }
    read_value(&mut Slice::new(bytes), byte, sink)
}

/// A source that keeps a copy of the bytes that are taken from it.
struct Copying<'s, S> {
    source: &'s mut S,
    bytes: Vec<u8>,
}

impl<S: Source> Source for Copying<'_, S> {
    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        let taken = self.source.take(len)?;
        self.bytes.extend_from_slice(taken);
        Ok(taken)
    }

    fn left(&self) -> usize {
        self.source.left()
    }
}

/// Reads a value of a value type that has a type byte of its own.
pub(super) fn read_under_byte<S: Source, K: ValueSink>(
    source: &mut S,
    byte: u8,
    sink: &mut K,
) -> Result<(), Error> {
    let of =
        type_of_type_byte(byte).ok_or(Error::Unsupported("the value is of an unknown type"))?;
    let value = (of.load)(&mut Reader::new(source, sink.seed(), false), 0)?;
    sink.custom(of, CustomItem::Loaded(value))
}

/// Reads over a value of any module.
pub(super) fn skip<S: Source>(source: &mut S) -> Result<(), Error> {
    read_number(source)?;
    skip_parts(source)
}

fn skip_parts<S: Source>(source: &mut S) -> Result<(), Error> {
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
