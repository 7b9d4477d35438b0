//! JSON documents, as the module that Redis comes with writes them.
//!
//! ```text
//! number of the module's type: nine letters of 6 bits, 10 bits of version (3)
//! 5, text
//! 0
//! ```
//!
//! Version 4, of Redis 8.8, has CBOR instead of the text. It is read, and not written: what reads
//! it reads version 3 too.

use super::length::{read_number, write_number};
use super::lzf::Compressor;
use super::module::{END, TEXT};
use super::text::{read_text, write_text};
use super::{Error, Item, Shape, Source, ValueSink};
use petrel_json::{Format, Parse, Value, parse, print, text_of_cbor};

/// The number of the type `ReJSON-RL`, version 3.
pub(super) const MODULE: u64 = 0x45e2_5238_df91_2c03;
/// Module id with version 4: CBOR.
pub(super) const MODULE_CBOR: u64 = 0x45e2_5238_df91_2c04;
/// Module id with version 0: a tree of nodes.
pub(super) const MODULE_OLD: u64 = 0x45e2_5238_df91_2c00;

const BROKEN: Error = Error::Malformed("a JSON document is broken");

/// Reads what comes behind the number of the module's type.
pub(super) fn read<S: Source, K: ValueSink>(
    source: &mut S,
    module: u64,
    sink: &mut K,
) -> Result<(), Error> {
    if read_number(source)? != TEXT {
        return Err(BROKEN);
    }
    let mut scratch = Vec::new();
    let item = read_text(source, &mut scratch)?;
    let mut digits = itoa::Buffer::new();
    let bytes = item.bytes(&mut digits);
    let parsed = match module {
        MODULE_CBOR => parse(&text_of_cbor(bytes).ok_or(BROKEN)?, Parse::default()),
        _ => parse(bytes, Parse::default()),
    };
    let document = parsed.map_err(|_| Error::Refused("a JSON document does not parse"))?;
    if read_number(source)? != END {
        return Err(BROKEN);
    }
    sink.begin(Shape::Document)?;
    sink.document(document.root())
}

/// Writes the whole value.
pub(super) fn write(out: &mut Vec<u8>, compressor: Option<&mut Compressor>, value: Value<'_>) {
    let mut text = Vec::new();
    print(value, &Format::default(), &mut text);
    write_number(out, MODULE);
    write_number(out, TEXT);
    write_text(out, Item::Text(&text), compressor);
    write_number(out, END);
}
