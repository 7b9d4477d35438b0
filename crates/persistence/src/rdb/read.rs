//! Reading values of every type but streams.

use super::error::EMPTY;
use super::kind::type_byte as is;
use super::length::{read_count, read_number};
use super::listpack::Listpack;
use super::text::{KeptText, read_blob, read_text};
use super::ziplist::Ziplist;
use super::{Error, Item, Shape, Source, ValueSink, compact, intset, module, read_stream, zipmap};

/// Bytes that the shortest string takes.
const TEXT_MIN: usize = 1;

/// Reads one value, in the form that its type byte says, and feeds it to `sink`. What follows the
/// value stays unread.
///
/// Whether members are distinct is for the sink to say. It gets no collection without elements,
/// except for streams.
pub fn read_value<S: Source, K: ValueSink>(
    source: &mut S,
    type_byte: u8,
    sink: &mut K,
) -> Result<(), Error> {
    match type_byte {
        is::STRING => sink.string(read_text(source, &mut Vec::new())?),
        is::LIST => read_list(source, sink),
        is::LIST_ZIPLIST => read_ziplist(source, sink, Packed::List),
        is::LIST_ZIPLISTS => read_list_of_ziplists(source, sink),
        is::LIST_LISTPACKS => read_list_of_listpacks(source, sink),
        is::SET => read_set(source, sink),
        is::SET_INTSET => read_intset(source, sink),
        is::SET_LISTPACK => read_listpack(source, sink, Packed::Set),
        is::SORTED_SET_ASCII => read_sorted_set(source, sink, ascii_score),
        is::SORTED_SET => read_sorted_set(source, sink, binary_score),
        is::SORTED_SET_ZIPLIST => read_ziplist(source, sink, Packed::SortedSet),
        is::SORTED_SET_LISTPACK => read_listpack(source, sink, Packed::SortedSet),
        is::HASH => read_hash(source, sink, |_| Ok(None)),
        is::HASH_ZIPMAP => read_zipmap(source, sink),
        is::HASH_ZIPLIST => read_ziplist(source, sink, Packed::Hash),
        is::HASH_LISTPACK => read_listpack(source, sink, Packed::Hash),
        is::HASH_EXPIRING => {
            let earliest = i64::from_le_bytes(source.array()?);
            read_hash_expiring(source, sink, earliest)
        }
        is::HASH_EXPIRING_LISTPACK => {
            // The earliest expiry; it follows from the fields.
            source.take(8)?;
            read_listpack(source, sink, Packed::HashExpiring)
        }
        is::HASH_EXPIRING_LISTPACK_EARLY => read_listpack(source, sink, Packed::HashExpiring),
        is::HASH_EXPIRING_EARLY => read_hash_expiring(source, sink, 1),
        is::HASH_EXPIRING_VALKEY => read_hash(source, sink, expiry_behind),
        is::STREAM_1 | is::STREAM_2 | is::STREAM_3 | is::STREAM_4 | is::STREAM_5 => {
            read_stream::read(source, type_byte, sink)
        }
        is::HASH_COMPACT
        | is::HASH_COMPACT_REF
        | is::HASH_COMPACT_LISTPACK
        | is::HASH_COMPACT_LISTPACK_REF => compact::read(source, type_byte, sink),
        is::MODULE_2 => module::read(source, sink),
        is::MODULE_1 => Err(Error::Unsupported("the value is of a module")),
        _ => module::read_under_byte(source, type_byte, sink),
    }
}

/// Reads how many elements follow; there is at least one.
fn read_len<S: Source>(source: &mut S, size: usize) -> Result<usize, Error> {
    match read_count(source, size)? {
        0 => Err(EMPTY),
        len => Ok(len),
    }
}

fn read_list<S: Source, K: ValueSink>(source: &mut S, sink: &mut K) -> Result<(), Error> {
    let len = read_len(source, TEXT_MIN)?;
    sink.begin(Shape::List { len: Some(len) })?;
    let mut scratch = Vec::new();
    for _ in 0..len {
        sink.element(read_text(source, &mut scratch)?)?;
    }
    Ok(())
}

fn read_set<S: Source, K: ValueSink>(source: &mut S, sink: &mut K) -> Result<(), Error> {
    let len = read_len(source, TEXT_MIN)?;
    sink.begin(Shape::Set { len })?;
    let mut scratch = Vec::new();
    for _ in 0..len {
        sink.element(read_text(source, &mut scratch)?)?;
    }
    Ok(())
}

fn read_intset<S: Source, K: ValueSink>(source: &mut S, sink: &mut K) -> Result<(), Error> {
    let mut scratch = Vec::new();
    let members = intset::members(read_blob(source, &mut scratch)?)?;
    if members.len() == 0 {
        return Err(EMPTY);
    }
    sink.begin(Shape::Set { len: members.len() })?;
    for member in members {
        sink.element(Item::Int(member))?;
    }
    Ok(())
}

fn read_list_of_ziplists<S: Source, K: ValueSink>(
    source: &mut S,
    sink: &mut K,
) -> Result<(), Error> {
    let nodes = read_len(source, TEXT_MIN)?;
    sink.begin(Shape::List { len: None })?;
    let mut scratch = Vec::new();
    let mut len = 0;
    for _ in 0..nodes {
        let node = Ziplist::read(read_blob(source, &mut scratch)?, sink)?;
        len += node.len();
        for item in node {
            sink.element(item)?;
        }
    }
    if len > 0 { Ok(()) } else { Err(EMPTY) }
}

fn read_list_of_listpacks<S: Source, K: ValueSink>(
    source: &mut S,
    sink: &mut K,
) -> Result<(), Error> {
    /// A node that is one element as it is.
    const PLAIN: u64 = 1;
    /// A node that is a listpack.
    const PACKED: u64 = 2;
    let nodes = read_len(source, 1 + TEXT_MIN)?;
    sink.begin(Shape::List { len: None })?;
    let mut scratch = Vec::new();
    let mut len = 0;
    for _ in 0..nodes {
        let container = read_number(source)?;
        let blob = read_blob(source, &mut scratch)?;
        match container {
            PLAIN => {
                len += 1;
                sink.element(Item::Text(blob))?;
            }
            PACKED => {
                let node = Listpack::read(blob, sink)?;
                len += node.len();
                for item in node {
                    sink.element(item)?;
                }
            }
            _ => return Err(Error::Malformed("a list's node in no known form")),
        }
    }
    if len > 0 { Ok(()) } else { Err(EMPTY) }
}

fn read_sorted_set<S: Source, K: ValueSink>(
    source: &mut S,
    sink: &mut K,
    mut score: impl FnMut(&mut S) -> Result<f64, Error>,
) -> Result<(), Error> {
    let len = read_len(source, TEXT_MIN + 1)?;
    sink.begin(Shape::SortedSet { len })?;
    let (mut member, mut scratch) = (KeptText::default(), Vec::new());
    for _ in 0..len {
        member.read(source, &mut scratch)?;
        sink.scored(member.item(), number(score(source)?)?)?;
    }
    Ok(())
}

fn binary_score<S: Source>(source: &mut S) -> Result<f64, Error> {
    Ok(f64::from_le_bytes(source.array()?))
}

/// Reads a score as a length and decimal digits; three special lengths denote NaN and the
/// infinities.
fn ascii_score<S: Source>(source: &mut S) -> Result<f64, Error> {
    match source.byte()? {
        253 => Ok(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        len => parse_score(source.take(len.into())?),
    }
}

fn parse_score(text: &[u8]) -> Result<f64, Error> {
    let score = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    score.ok_or(Error::Malformed("a score that is no number"))
}

fn number(score: f64) -> Result<f64, Error> {
    if score.is_nan() { Err(Error::Malformed("a score that is no number")) } else { Ok(score) }
}

/// Reads fields and values, with what `expiry` finds behind each.
fn read_hash<S: Source, K: ValueSink>(
    source: &mut S,
    sink: &mut K,
    mut expiry: impl FnMut(&mut S) -> Result<Option<i64>, Error>,
) -> Result<(), Error> {
    let len = read_len(source, 2 * TEXT_MIN)?;
    sink.begin(Shape::Hash { len })?;
    let (mut field, mut value) = (KeptText::default(), KeptText::default());
    let mut scratch = Vec::new();
    for _ in 0..len {
        field.read(source, &mut scratch)?;
        value.read(source, &mut scratch)?;
        let expiry = expiry(source)?;
        sink.field(field.item(), value.item(), expiry)?;
    }
    Ok(())
}

/// An expiry behind the value: Unix time in milliseconds, negative if there is none.
fn expiry_behind<S: Source>(source: &mut S) -> Result<Option<i64>, Error> {
    let expiry = i64::from_le_bytes(source.array()?);
    Ok((expiry >= 0).then_some(expiry))
}

/// Reads fields that are each preceded by how much later than `earliest` it expires, plus one; 0 if
/// it does not. Release candidates wrote the expiry itself there: that counts from 1.
fn read_hash_expiring<S: Source, K: ValueSink>(
    source: &mut S,
    sink: &mut K,
    earliest: i64,
) -> Result<(), Error> {
    let len = read_len(source, 1 + 2 * TEXT_MIN)?;
    sink.begin(Shape::Hash { len })?;
    let (mut field, mut scratch) = (KeptText::default(), Vec::new());
    for _ in 0..len {
        let later = i64::try_from(read_number(source)?);
        let expiry = match later {
            Ok(0) => None,
            Ok(later) => Some(earliest.checked_add(later - 1).ok_or(EXPIRY)?),
            Err(_) => return Err(EXPIRY),
        };
        field.read(source, &mut scratch)?;
        let value = read_text(source, &mut scratch)?;
        sink.field(field.item(), value, valid_expiry(expiry)?)?;
    }
    Ok(())
}

const EXPIRY: Error = Error::Malformed("an expiry out of range");

fn valid_expiry(expiry: Option<i64>) -> Result<Option<i64>, Error> {
    if expiry.is_some_and(|at| at < 0) { Err(EXPIRY) } else { Ok(expiry) }
}

fn read_zipmap<S: Source, K: ValueSink>(source: &mut S, sink: &mut K) -> Result<(), Error> {
    let mut scratch = Vec::new();
    let (pairs, is_miscounted) = zipmap::pairs(read_blob(source, &mut scratch)?)?;
    if is_miscounted {
        sink.recounted("the number of fields of a zipmap");
    }
    if pairs.is_empty() {
        return Err(EMPTY);
    }
    sink.begin(Shape::Hash { len: pairs.len() })?;
    for (field, value) in pairs {
        sink.field(Item::Text(field), Item::Text(value), None)?;
    }
    Ok(())
}

/// Type of the value in a ziplist or listpack.
#[derive(Clone, Copy, Debug)]
enum Packed {
    /// Elements.
    List,
    /// Members.
    Set,
    /// Members, each with its score behind it.
    SortedSet,
    /// Fields, each with its value behind it.
    Hash,
    /// Fields, each with its value and its expiry behind it, which is 0 if there is none.
    HashExpiring,
}

fn read_ziplist<S: Source, K: ValueSink>(
    source: &mut S,
    sink: &mut K,
    packed: Packed,
) -> Result<(), Error> {
    let mut scratch = Vec::new();
    let list = Ziplist::read(read_blob(source, &mut scratch)?, sink)?;
    feed_packed(list.len(), list.into_iter(), packed, sink)
}

fn read_listpack<S: Source, K: ValueSink>(
    source: &mut S,
    sink: &mut K,
    packed: Packed,
) -> Result<(), Error> {
    let mut scratch = Vec::new();
    let list = Listpack::read(read_blob(source, &mut scratch)?, sink)?;
    feed_packed(list.len(), list.into_iter(), packed, sink)
}

fn feed_packed<'a, K: ValueSink>(
    items: usize,
    mut list: impl Iterator<Item = Item<'a>>,
    packed: Packed,
    sink: &mut K,
) -> Result<(), Error> {
    let (each, shape): (_, fn(usize) -> Shape) = match packed {
        Packed::List => (1, |len| Shape::List { len: Some(len) }),
        Packed::Set => (1, |len| Shape::Set { len }),
        Packed::SortedSet => (2, |len| Shape::SortedSet { len }),
        Packed::Hash => (2, |len| Shape::Hash { len }),
        Packed::HashExpiring => (3, |len| Shape::Hash { len }),
    };
    if items == 0 {
        return Err(EMPTY);
    }
    if !items.is_multiple_of(each) {
        return Err(Error::Malformed("an element without its other half"));
    }
    sink.begin(shape(items / each))?;
    while let Some(item) = list.next() {
        // The number of items is a multiple of the number taken here.
        let mut next = || list.next().ok_or(Error::Truncated);
        match packed {
            Packed::List | Packed::Set => sink.element(item)?,
            Packed::SortedSet => {
                let score = match next()? {
                    Item::Int(n) => n as f64,
                    Item::Text(text) => number(parse_score(text)?)?,
                };
                sink.scored(item, score)?;
            }
            Packed::Hash => sink.field(item, next()?, None)?,
            Packed::HashExpiring => {
                let value = next()?;
                let expiry = match next()? {
                    Item::Int(0) => None,
                    Item::Int(at) => Some(at),
                    Item::Text(_) => return Err(EXPIRY),
                };
                sink.field(item, value, valid_expiry(expiry)?)?;
            }
        }
    }
    Ok(())
}
