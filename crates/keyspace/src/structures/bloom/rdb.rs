//! Bloom filters as a value type, and as RedisBloom writes them.
//!
//! ```text
//! items, links, options, expansion
//! links, each: entries, error (double), hashes, bits per entry (double), bits, exponent,
//!              string: bits, items
//! ```
//!
//! Below version 4 there is no expansion: it is 2. Below version 2 there are no options.

use super::{Filter, Piece, change};
use crate::structures::custom::{
    Chunk, Held, LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown, TypeNumber,
    ValueDigest, ValueType,
};
use petrel_sketch::bloom::{Bloom, Facts, LINKS_MAX, Link, Part};

/// The number of the module `MBbloom--`, version 0.
const MODULE_0: u64 = 0x3016_e5a2_89be_f800;
/// The number of the module, version 4.
const MODULE: u64 = MODULE_0 | 4;

/// Least version with options.
const WITH_OPTIONS: u64 = MODULE_0 | 2;

/// Factor of growth of filters that do not state it.
const OLD_EXPANSION: u32 = 2;

const BROKEN: LoadError = LoadError::Malformed("a Bloom filter is broken");

/// The type of Bloom filters.
pub static TYPE: ValueType = ValueType {
    number: TypeNumber::BLOOM,
    // As the module that Redis comes with calls it.
    name: "MBbloom--",
    shown: Shown::MODULE,
    form: RdbForm::Module {
        numbers: &[MODULE, MODULE_0, MODULE_0 | 1, MODULE_0 | 2, MODULE_0 | 3],
        of: |_| MODULE,
    },
    rdb_version: 9,
    head: write_head,
    body: |held, out| {
        if let Some(filter) = held.get::<Filter>() {
            filter.bloom().each_part(&mut |part| Piece(part).write(out));
        }
    },
    load,
    apply: change::apply,
    // As Redis, which publishes no event of them.
    event: |_| None,
    commands: Some(change::commands),
    digest,
    copy_effort: |held| held.get::<Filter>().map_or(0, |filter| filter.bloom().allocated() / 64),
    // Redis has no such line.
    sizes: None,
};

fn write_head(held: Held<'_>, out: &mut dyn ModuleWriter) {
    let Some(filter) = held.get::<Filter>() else { return };
    let bloom = filter.bloom();
    out.unsigned(bloom.items());
    out.unsigned(bloom.links().len() as u64);
    out.unsigned(bloom.options().into());
    out.unsigned(bloom.expansion().into());
}

/// Writes a part of a filter.
pub(super) fn write_part(part: &Part<'_>, out: &mut dyn ModuleWriter) {
    match part {
        Part::Link(facts) => {
            out.unsigned(facts.entries);
            out.double(facts.error);
            out.unsigned(facts.hashes.into());
            out.double(facts.bits_per_entry);
            out.unsigned(facts.bits);
            out.unsigned(facts.exponent.into());
            out.begin_text(facts.bits.div_ceil(8) as usize);
        }
        Part::Bits(bits) => out.text_bytes(bits),
        Part::Items(items) => out.unsigned(*items),
    }
}

fn load(reader: &mut dyn ModuleReader, module: u64) -> Result<Loaded, LoadError> {
    let number = |n: u64| u32::try_from(n).map_err(|_| BROKEN);
    let items = reader.unsigned()?;
    let count = usize::try_from(reader.unsigned()?).map_err(|_| BROKEN)?;
    let options = if module >= WITH_OPTIONS { number(reader.unsigned()?)? } else { 0 };
    let expansion = if module == MODULE { number(reader.unsigned()?)? } else { OLD_EXPANSION };
    if count > LINKS_MAX {
        return Err(BROKEN);
    }
    let mut links = Vec::new();
    for _ in 0..count {
        let (entries, error) = (reader.unsigned()?, reader.double()?);
        let (hashes, bits_per_entry) = (number(reader.unsigned()?)?, reader.double()?);
        let bits = reader.unsigned()?;
        let exponent = u8::try_from(reader.unsigned()?).map_err(|_| BROKEN)?;
        let facts = Facts { entries, error, hashes, bits_per_entry, bits, exponent };
        let mut link = Link::from_bytes(facts, reader.text()?).ok_or(BROKEN)?;
        link.set_items(reader.unsigned()?);
        links.push(link);
    }
    let bloom = Bloom::from_links(links, items, options, expansion).ok_or(BROKEN)?;
    Ok(Loaded::Boxed(Box::new(Filter::new(bloom))))
}

/// Mixes in the head of the dump, and the bits.
fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(filter) = held.get::<Filter>() else { return };
    digest.ordered(&filter.bloom().head());
    filter.bloom().each_part(&mut |part| {
        if let Part::Bits(bits) = part {
            digest.ordered(bits);
        }
    });
}
