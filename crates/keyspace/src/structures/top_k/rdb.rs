//! Top-k lists as a value type, and as RedisBloom writes them. Numbers in strings are
//! little-endian.
//!
//! ```text
//! k, width, depth, decay (double)
//! string: counters, each: fingerprint (4 bytes), count (4)
//! string: heap, each of k places: fingerprint (4), length of the item (4), 0 (8), count (4), 0 (4)
//! k strings: items, each with a zero byte at its end
//! ```

use super::{Piece, TopKList, change};
use crate::structures::custom::{
    Chunk, Held, LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown, TypeNumber,
    ValueDigest, ValueType,
};
use petrel_sketch::top_k::{Entry, Part, Shape, TopK};

/// The number of the module `TopK-TYPE`, version 0.
const MODULE: u64 = 0x4e8a_4af9_360f_1000;

/// Bytes of a place of the heap.
const PLACE: usize = 24;

const BROKEN: LoadError = LoadError::Malformed("a top-k list is broken");

/// The type of top-k lists.
pub static TYPE: ValueType = ValueType {
    number: TypeNumber::TOP_K,
    // As the module that Redis comes with calls it.
    name: "TopK-TYPE",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[MODULE], of: |_| MODULE },
    rdb_version: 9,
    head: write_head,
    body: |held, out| {
        if let Some(value) = held.get::<TopKList>() {
            value.list().each_part(&mut |part| Piece(part).write(out));
        }
    },
    load,
    apply: change::apply,
    // As Redis, which publishes no event of them.
    event: |_| None,
    commands: Some(change::commands),
    digest,
    copy_effort: |held| held.get::<TopKList>().map_or(0, |value| value.list().allocated() / 16),
    // Redis has no such line.
    sizes: None,
};

fn write_head(held: Held<'_>, out: &mut dyn ModuleWriter) {
    let Some(list) = held.get::<TopKList>().map(TopKList::list) else { return };
    let Shape { k, width, depth, decay } = list.shape();
    [k, width, depth].into_iter().for_each(|number| out.unsigned(number.into()));
    out.double(decay);
    out.begin_text(list.bytes());
}

/// Writes a part of a list.
pub(super) fn write_part(part: &Part<'_>, out: &mut dyn ModuleWriter) {
    match part {
        Part::Cells(cells) => out.text_bytes(cells),
        Part::Heap(len) => out.begin_text(PLACE * len),
        Part::Entries(entries) => entries.iter().for_each(|entry| {
            let mut place = [0; PLACE];
            let len = entry.item().unwrap_or_default().len() as u32;
            place[..4].copy_from_slice(&entry.print().to_le_bytes());
            place[4..8].copy_from_slice(&len.to_le_bytes());
            place[16..20].copy_from_slice(&entry.count().to_le_bytes());
            out.text_bytes(&place);
        }),
        Part::Items(entries) => entries.iter().for_each(|entry| {
            let item = entry.item().unwrap_or_default();
            out.begin_text(item.len() + 1);
            out.text_bytes(item);
            out.text_bytes(b"\0");
        }),
    }
}

fn load(reader: &mut dyn ModuleReader, _: u64) -> Result<Loaded, LoadError> {
    let mut number = || u32::try_from(reader.unsigned()?).map_err(|_| BROKEN);
    let (k, width, depth) = (number()?, number()?, number()?);
    let shape = Shape { k, width, depth, decay: reader.double()? };
    // The strings bound the memory allocated for them.
    let cells = reader.text()?;
    if shape.bytes() != Some(cells.len()) {
        return Err(BROKEN);
    }
    let cells = cells.to_vec();
    let places = reader.text()?;
    if Some(places.len()) != PLACE.checked_mul(k as usize) {
        return Err(BROKEN);
    }
    let count = |place: &[u8]| u32::from_le_bytes([place[16], place[17], place[18], place[19]]);
    let counts: Vec<u32> = places.chunks_exact(PLACE).map(count).collect();
    let mut heap = Vec::with_capacity(counts.len());
    for count in counts {
        let item = reader.text()?;
        heap.push(Entry::new(item.strip_suffix(b"\0").ok_or(BROKEN)?, count));
    }
    let list = TopK::from_parts(shape, &cells, heap).ok_or(BROKEN)?;
    Ok(Loaded::Boxed(Box::new(TopKList::new(list))))
}

fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(list) = held.get::<TopKList>().map(TopKList::list) else { return };
    let Shape { k, width, depth, decay } = list.shape();
    [k, width, depth].iter().for_each(|number| digest.ordered(&number.to_le_bytes()));
    digest.ordered(&decay.to_bits().to_le_bytes());
    list.each_part(&mut |part| match part {
        Part::Cells(cells) => digest.ordered(cells),
        Part::Items(entries) => entries.iter().for_each(|entry| {
            digest.ordered(&entry.count().to_le_bytes());
            digest.ordered(entry.item().unwrap_or_default());
        }),
        Part::Heap(_) | Part::Entries(_) => {}
    });
}
