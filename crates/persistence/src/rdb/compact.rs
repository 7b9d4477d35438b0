//! Reading compact hashes, and the records of field names in files.
//!
//! ```text
//! record       0xf2  number  count  name text ...
//! 29           names  listpack text: any integer, value ...
//! 30                  listpack text: number of a record, value ...
//! 31           names  value text ...
//! 32           number of a record, value text ...
//! names        0  listpack text      or  1  count  name text ...
//! ```
//!
//! Names are sorted: the shortest first, those of one length by their bytes.

use super::kind::type_byte as is;
use super::length::{read_count, read_number};
use super::listpack::Listpack;
use super::text::{KeptText, read_blob, read_text};
use super::{Error, Item, Shape, Source, Template, Templates, ValueSink};

/// Forms of names in a value.
pub(super) const NAMES_LISTPACK: u8 = 0;
pub(super) const NAMES_ONE_BY_ONE: u8 = 1;

pub(super) const NO_FORM: Error =
    Error::Malformed("the fields of a compact hash are in no known form");
const NO_NAMES: Error = Error::Malformed("a compact hash without fields");
const UNSORTED: Error = Error::Malformed("the fields of a compact hash are not in order");
const MISCOUNTED: Error = Error::Malformed("a compact hash has not as many values as fields");
pub(super) const NO_RECORD: Error =
    Error::Malformed("a compact hash refers to field names that are not there");

/// Reads a compact hash of any form.
pub(super) fn read<S: Source, K: ValueSink>(
    source: &mut S,
    type_byte: u8,
    sink: &mut K,
) -> Result<(), Error> {
    let own = match type_byte {
        is::HASH_COMPACT | is::HASH_COMPACT_LISTPACK => Some(read_names(source)?),
        _ => None,
    };
    if matches!(type_byte, is::HASH_COMPACT_LISTPACK | is::HASH_COMPACT_LISTPACK_REF) {
        return read_listpack(source, own, sink);
    }
    let names = match own {
        Some(names) => names,
        None => {
            let number = read_number(source)?;
            source.template(number).ok_or(NO_RECORD)?
        }
    };
    begin(&names, true, sink)?;
    let mut scratch = Vec::new();
    let mut value = KeptText::default();
    for name in names.iter() {
        value.read(source, &mut scratch)?;
        sink.field(Item::Text(name), value.item(), None)?;
    }
    Ok(())
}

fn read_listpack<S: Source, K: ValueSink>(
    source: &mut S,
    own: Option<Template>,
    sink: &mut K,
) -> Result<(), Error> {
    let mut scratch = Vec::new();
    let blob = read_blob(source, &mut scratch)?.to_vec();
    let list = Listpack::read(&blob, sink)?;
    let values = list.len().checked_sub(1).ok_or(MISCOUNTED)?;
    let mut items = list.into_iter();
    let Some(Item::Int(number)) = items.next() else {
        return Err(Error::Malformed("a compact hash does not begin with a number"));
    };
    let names = match own {
        Some(names) => names,
        None => u64::try_from(number).ok().and_then(|at| source.template(at)).ok_or(NO_RECORD)?,
    };
    if names.len() != values {
        return Err(MISCOUNTED);
    }
    begin(&names, false, sink)?;
    names.iter().zip(items).try_for_each(|(name, value)| sink.field(Item::Text(name), value, None))
}

fn begin<K: ValueSink>(names: &Template, beyond: bool, sink: &mut K) -> Result<(), Error> {
    sink.begin(Shape::Hash { len: names.len() })?;
    sink.compact(beyond);
    Ok(())
}

/// Reads the field names of a value.
fn read_names<S: Source>(source: &mut S) -> Result<Template, Error> {
    match source.byte()? {
        NAMES_LISTPACK => {
            let mut scratch = Vec::new();
            let list = Listpack::new(read_blob(source, &mut scratch)?)?;
            let mut digits = itoa::Buffer::new();
            sorted(list.into_iter().map(|name| name.bytes(&mut digits).into()).collect())
        }
        NAMES_ONE_BY_ONE => read_texts(source),
        _ => Err(NO_FORM),
    }
}

/// Reads a count and as many names.
fn read_texts<S: Source>(source: &mut S) -> Result<Template, Error> {
    let count = read_count(source, 1)?;
    let (mut names, mut scratch) = (Vec::new(), Vec::new());
    let mut digits = itoa::Buffer::new();
    for _ in 0..count {
        names.push(read_text(source, &mut scratch)?.bytes(&mut digits).into());
    }
    sorted(names)
}

fn sorted(names: Vec<Box<[u8]>>) -> Result<Template, Error> {
    if names.is_empty() {
        return Err(NO_NAMES);
    }
    let is_before = |a: &[u8], b: &[u8]| (a.len(), a) < (b.len(), b);
    if !names.windows(2).all(|pair| is_before(&pair[0], &pair[1])) {
        return Err(UNSORTED);
    }
    Ok(names.into())
}

/// Reads a record of field names after its opcode.
pub(super) fn read_record<S: Source>(
    source: &mut S,
    templates: &mut Templates,
) -> Result<(), Error> {
    let number = read_number(source)?;
    let names = read_texts(source)?;
    match templates.insert(number, names) {
        None => Ok(()),
        Some(_) => Err(Error::Malformed("field names of compact hashes have one number twice")),
    }
}
