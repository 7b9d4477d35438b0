//! Finds the end of a value without decoding it.

use super::compact::{NAMES_LISTPACK, NAMES_ONE_BY_ONE, NO_FORM, NO_RECORD};
use super::kind::{stream_version, type_byte as is};
use super::length::{Length, read_count, read_length, read_number};
use super::listpack::Listpack;
use super::text::read_blob;
use super::{
    Consumer, CustomItem, Error, Group, Item, Pending, Producers, Shape, Source, StreamId,
    StreamState, ValueSink, module, read_value,
};
use petrel_keyspace::custom::ValueType;

/// Skips a value. Its contents may still be refused when it is read.
pub fn skip_value<S: Source>(source: &mut S, type_byte: u8) -> Result<(), Error> {
    match type_byte {
        is::STRING
        | is::LIST_ZIPLIST
        | is::SET_INTSET
        | is::SORTED_SET_ZIPLIST
        | is::HASH_ZIPMAP
        | is::HASH_ZIPLIST
        | is::HASH_LISTPACK
        | is::SORTED_SET_LISTPACK
        | is::SET_LISTPACK => skip_text(source),
        is::HASH_EXPIRING_LISTPACK => {
            source.take(8)?;
            skip_text(source)
        }
        is::LIST | is::SET | is::LIST_ZIPLISTS => each(source, skip_text),
        is::HASH => each(source, skip_pair),
        is::SORTED_SET => each(source, |source| {
            skip_text(source)?;
            source.take(8).map(drop)
        }),
        is::SORTED_SET_ASCII => each(source, |source| {
            skip_text(source)?;
            skip_ascii_score(source)
        }),
        is::LIST_LISTPACKS => each(source, |source| {
            read_number(source)?;
            skip_text(source)
        }),
        is::HASH_EXPIRING => {
            source.take(8)?;
            each(source, |source| {
                read_number(source)?;
                skip_pair(source)
            })
        }
        is::HASH_EXPIRING_LISTPACK_EARLY => skip_text(source),
        is::HASH_EXPIRING_EARLY => each(source, |source| {
            read_number(source)?;
            skip_pair(source)
        }),
        is::HASH_EXPIRING_VALKEY => each(source, |source| {
            skip_pair(source)?;
            source.take(8).map(drop)
        }),
        is::MODULE_2 => module::skip(source),
        is::STREAM_1 | is::STREAM_2 | is::STREAM_3 | is::STREAM_4 | is::STREAM_5 => {
            skip_stream(source, stream_version(type_byte))
        }
        is::HASH_COMPACT
        | is::HASH_COMPACT_REF
        | is::HASH_COMPACT_LISTPACK
        | is::HASH_COMPACT_LISTPACK_REF => skip_compact(source, type_byte),
        // Of a type that is not known here, which has a reason of its own.
        _ => read_value(source, type_byte, &mut Nowhere),
    }
}

/// Reads over a text.
#[inline]
pub(super) fn skip_text<S: Source>(source: &mut S) -> Result<(), Error> {
    /// Bytes behind the first, of the forms that are integers.
    const INTEGERS: [usize; 3] = [1, 2, 4];
    /// The form of compressed texts.
    const COMPRESSED: u8 = 3;
    let len = match read_length(source)? {
        Length::Number(len) => len,
        Length::Special(COMPRESSED) => {
            let compressed = read_number(source)?;
            let len = read_number(source)?;
            source.note_compressed(len);
            compressed
        }
        Length::Special(form) => match INTEGERS.get(usize::from(form)) {
            Some(&len) => len as u64,
            None => return Err(Error::Malformed("a string in no known form")),
        },
    };
    source.take(usize::try_from(len).map_err(|_| Error::Truncated)?)?;
    Ok(())
}

fn skip_pair<S: Source>(source: &mut S) -> Result<(), Error> {
    skip_text(source)?;
    skip_text(source)
}

/// Finds the end of a compact hash of any form.
fn skip_compact<S: Source>(source: &mut S, type_byte: u8) -> Result<(), Error> {
    let is_listpack =
        matches!(type_byte, is::HASH_COMPACT_LISTPACK | is::HASH_COMPACT_LISTPACK_REF);
    let names = match type_byte {
        is::HASH_COMPACT | is::HASH_COMPACT_LISTPACK => skip_names(source)?,
        is::HASH_COMPACT_REF => {
            let number = read_number(source)?;
            source.template(number).ok_or(NO_RECORD)?.len()
        }
        _ => 0,
    };
    let texts = if is_listpack { 1 } else { names };
    (0..texts).try_for_each(|_| skip_text(source))
}

/// Reads over field names, and returns their number.
fn skip_names<S: Source>(source: &mut S) -> Result<usize, Error> {
    match source.byte()? {
        NAMES_LISTPACK => {
            let mut scratch = Vec::new();
            Ok(Listpack::new(read_blob(source, &mut scratch)?)?.len())
        }
        NAMES_ONE_BY_ONE => {
            let count = read_count(source, 1)?;
            (0..count).try_for_each(|_| skip_text(source))?;
            Ok(count)
        }
        _ => Err(NO_FORM),
    }
}

/// Reads over a stream in the layout that `read_stream` describes.
fn skip_stream<S: Source>(source: &mut S, version: u8) -> Result<(), Error> {
    /// Length and last ID; then the first ID, the greatest deleted one, and the entries added.
    const NUMBERS: [usize; 2] = [3, 8];
    each(source, skip_pair)?;
    skip_numbers(source, NUMBERS[usize::from(version >= 2)])?;
    each(source, |source| skip_group(source, version))?;
    if version >= 4 {
        skip_numbers(source, 2)?;
        each(source, |source| {
            skip_text(source)?;
            each(source, |source| {
                skip_text(source)?;
                skip_numbers(source, 2)
            })
        })?;
        skip_numbers(source, 2)?;
    }
    Ok(())
}

fn skip_group<S: Source>(source: &mut S, version: u8) -> Result<(), Error> {
    const ID: usize = 16;
    const TIME: usize = 8;
    let consumer_times = if version >= 3 { 2 * TIME } else { TIME };
    skip_text(source)?;
    skip_numbers(source, if version >= 2 { 3 } else { 2 })?;
    each(source, |source| {
        source.take(ID + TIME)?;
        read_number(source).map(drop)
    })?;
    each(source, |source| {
        skip_text(source)?;
        source.take(consumer_times)?;
        each(source, |source| source.take(ID).map(drop))
    })?;
    if version >= 5 {
        each(source, |source| source.take(ID).map(drop))?;
    }
    Ok(())
}

fn skip_numbers<S: Source>(source: &mut S, count: usize) -> Result<(), Error> {
    (0..count).try_for_each(|_| read_number(source).map(drop))
}

fn skip_ascii_score<S: Source>(source: &mut S) -> Result<(), Error> {
    match source.byte()? {
        253..=255 => Ok(()),
        len => source.take(len.into()).map(drop),
    }
}

/// Reads a count and skips that number of items.
fn each<S: Source>(
    source: &mut S,
    mut skip: impl FnMut(&mut S) -> Result<(), Error>,
) -> Result<(), Error> {
    let count = read_number(source)?;
    (0..count).try_for_each(|_| skip(source))
}

/// Sink that discards values.
pub struct Nowhere;

#[rustfmt::skip]
impl ValueSink for Nowhere {
    fn string(&mut self, _: Item<'_>) -> Result<(), Error> { Ok(()) }
    fn begin(&mut self, _: Shape) -> Result<(), Error> { Ok(()) }
    fn element(&mut self, _: Item<'_>) -> Result<(), Error> { Ok(()) }
    fn scored(&mut self, _: Item<'_>, _: f64) -> Result<(), Error> { Ok(()) }
    fn field(&mut self, _: Item<'_>, _: Item<'_>, _: Option<i64>) -> Result<(), Error> { Ok(()) }
    fn custom(&mut self, _: &'static ValueType, _: CustomItem<'_>) -> Result<(), Error> { Ok(()) }
    fn keeps_unknown(&self) -> bool { true }
    fn entry(&mut self, _: StreamId, _: &[Item<'_>]) -> Result<(), Error> { Ok(()) }
    fn state(&mut self, _: &StreamState) -> Result<(), Error> { Ok(()) }
    fn group(&mut self, _: &Group<'_>) -> Result<(), Error> { Ok(()) }
    fn consumer(&mut self, _: &Consumer<'_>) -> Result<(), Error> { Ok(()) }
    fn pending(&mut self, _: &Pending) -> Result<(), Error> { Ok(()) }
    fn given_back(&mut self, _: StreamId) -> Result<(), Error> { Ok(()) }
    fn producers(&mut self, _: &Producers) -> Result<(), Error> { Ok(()) }
    fn producer(&mut self, _: &[u8], _: usize) -> Result<(), Error> { Ok(()) }
    fn produced(&mut self, _: &[u8], _: StreamId) -> Result<(), Error> { Ok(()) }
    fn counters(&mut self, _: u64, _: u64) -> Result<(), Error> { Ok(()) }
}
