//! Values that are modules' in Redis: the number of the module's type, and then numbers, strings
//! and so on, each behind a number that says which it is, so that anybody can read over them.

use super::length::read_number;
use super::skip::skip_text;
use super::{Error, Source, ValueSink, json, vectors};

/// The end of the value.
pub(super) const END: u64 = 0;
/// Opcode of a signed integer.
const SIGNED: u64 = 1;
/// Opcode of an unsigned integer.
pub(super) const NUMBER: u64 = 2;
/// Opcode of a float of 4 bytes.
const FLOAT: u64 = 3;
/// Opcode of a float of 8 bytes.
const DOUBLE: u64 = 4;
/// Opcode of a string.
pub(super) const TEXT: u64 = 5;

/// Reads a value of a module.
pub(super) fn read<S: Source, K: ValueSink>(source: &mut S, sink: &mut K) -> Result<(), Error> {
    match read_number(source)? {
        module @ (vectors::MODULE | vectors::MODULE_OWN) => vectors::read(source, module, sink),
        module @ (json::MODULE | json::MODULE_CBOR) => json::read(source, module, sink),
        json::MODULE_OLD => Err(Error::Unsupported("the value is a document of RedisJSON 1")),
        _ => Err(Error::Unsupported("the value is of a module")),
    }
}

/// Reads over a value of any module.
pub(super) fn skip<S: Source>(source: &mut S) -> Result<(), Error> {
    read_number(source)?;
    loop {
        match read_number(source)? {
            END => return Ok(()),
            SIGNED | NUMBER => read_number(source).map(drop)?,
            FLOAT => source.take(4).map(drop)?,
            DOUBLE => source.take(8).map(drop)?,
            TEXT => skip_text(source)?,
            _ => return Err(Error::Malformed("a part of a module's value of no known sort")),
        }
    }
}
