//! Cuckoo filters as a value type, and as RedisBloom writes them.
//!
//! ```text
//! sub-filters, buckets of the first, items, deletes, bucket size, iterations, expansion
//! sub-filters, each: buckets, string: fingerprints
//! ```
//!
//! Below version 4 there are three numbers: sub-filters, buckets, items. The others are 0, 2, 20
//! and 1, and a sub-filter is its string alone.

use super::{CuckooFilter, Piece, change};
use crate::structures::custom::{
    Chunk, Held, LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown, TypeNumber,
    ValueDigest, ValueType,
};
use petrel_sketch::cuckoo::{Cuckoo, FILTERS_MAX, Part, Shape};
use petrel_sketch::pages::Pages;

/// The number of the module `MBbloomCF`, version 0.
const MODULE_0: u64 = 0x3016_e5a2_8982_1400;
/// The number of the module, version 4.
const MODULE: u64 = MODULE_0 | 4;

const BROKEN: LoadError = LoadError::Malformed("a cuckoo filter is broken");

/// The type of cuckoo filters.
pub static TYPE: ValueType = ValueType {
    number: TypeNumber::CUCKOO,
    // As the module that Redis comes with calls it.
    name: "MBbloomCF",
    shown: Shown::MODULE,
    form: RdbForm::Module {
        numbers: &[MODULE, MODULE_0, MODULE_0 | 1, MODULE_0 | 2, MODULE_0 | 3],
        of: |_| MODULE,
    },
    rdb_version: 9,
    head: write_head,
    body: |held, out| {
        if let Some(filter) = held.get::<CuckooFilter>() {
            filter.cuckoo().each_part(&mut |part| Piece(part).write(out));
        }
    },
    load,
    apply: change::apply,
    // As Redis, which publishes no event of them.
    event: |_| None,
    commands: Some(change::commands),
    digest,
    copy_effort: |held| {
        held.get::<CuckooFilter>().map_or(0, |filter| filter.cuckoo().allocated() / 64)
    },
    // Redis has no such line.
    sizes: None,
};

fn write_head(held: Held<'_>, out: &mut dyn ModuleWriter) {
    let Some(filter) = held.get::<CuckooFilter>() else { return };
    let cuckoo = filter.cuckoo();
    let Shape { buckets, bucket_size, iterations, expansion } = cuckoo.shape();
    out.unsigned(cuckoo.filters() as u64);
    out.unsigned(buckets);
    out.unsigned(cuckoo.items());
    out.unsigned(cuckoo.deletes());
    out.unsigned(bucket_size.into());
    out.unsigned(iterations.into());
    out.unsigned(expansion.into());
}

/// Writes a part of a filter.
pub(super) fn write_part(part: &Part<'_>, out: &mut dyn ModuleWriter) {
    match part {
        Part::Table(buckets, bytes) => {
            out.unsigned(*buckets);
            out.begin_text(*bytes);
        }
        Part::Cells(cells) => out.text_bytes(cells),
    }
}

fn load(reader: &mut dyn ModuleReader, module: u64) -> Result<Loaded, LoadError> {
    let number = |n: u64| u16::try_from(n).map_err(|_| BROKEN);
    let count = usize::try_from(reader.unsigned()?).map_err(|_| BROKEN)?;
    let (buckets, items) = (reader.unsigned()?, reader.unsigned()?);
    let (mut deletes, mut shape) =
        (0, Shape { buckets, bucket_size: 2, iterations: 20, expansion: 1 });
    if module == MODULE {
        deletes = reader.unsigned()?;
        shape.bucket_size = u8::try_from(reader.unsigned()?).map_err(|_| BROKEN)?;
        shape.iterations = number(reader.unsigned()?)?;
        shape.expansion = number(reader.unsigned()?)?;
    }
    if count > FILTERS_MAX {
        return Err(BROKEN);
    }
    let mut tables = Vec::new();
    for _ in 0..count {
        let buckets = if module == MODULE { reader.unsigned()? } else { buckets };
        tables.push((buckets, Pages::from_bytes(reader.text()?).ok_or(BROKEN)?));
    }
    let cuckoo = Cuckoo::from_tables(shape, tables, items, deletes).ok_or(BROKEN)?;
    Ok(Loaded::Boxed(Box::new(CuckooFilter::new(cuckoo))))
}

/// Mixes in the head of the dump, and the fingerprints.
fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(filter) = held.get::<CuckooFilter>() else { return };
    digest.ordered(&filter.cuckoo().head());
    filter.cuckoo().each_part(&mut |part| {
        if let Part::Cells(cells) = part {
            digest.ordered(cells);
        }
    });
}
