//! Size of the listpack in which Redis would keep a chunk: together with the number of entries it
//! decides the boundaries of nodes, which approximate trimming makes visible.

use crate::structures::packed::Item;
use crate::structures::stream::id::StreamId;

/// Header and end mark of a listpack.
const LISTPACK: usize = 7;
/// A small number.
const NUMBER: usize = 2;

/// The listpack before the first entry: counts, number of fields, their names, and an end mark.
pub(super) fn chunk_len<'a>(names: impl Iterator<Item = &'a &'a [u8]>) -> usize {
    LISTPACK + 4 * NUMBER + names.map(|name| text_len(name)).sum::<usize>()
}

/// Size of an entry: flags, both differences to the node's first ID, fields, and the item count.
pub(super) fn entry_len(base: StreamId, id: StreamId, fields: &[&[u8]], same: bool) -> usize {
    let ids = integer_len(id.ms.wrapping_sub(base.ms) as i64)
        + integer_len(id.seq.wrapping_sub(base.seq) as i64);
    let step = if same { 2 } else { 1 };
    let items = fields.iter().skip(step - 1).step_by(step).map(|item| text_len(item));
    let count = if same { 0 } else { NUMBER };
    2 * NUMBER + ids + count + items.sum::<usize>()
}

fn text_len(text: &[u8]) -> usize {
    match Item::from_text(text) {
        Item::Int(n) => integer_len(n),
        _ => match text.len() {
            len @ 0..64 => 1 + len + 1,
            len @ 64..4096 => back_len(2 + len),
            len => back_len(5 + len),
        },
    }
}

fn integer_len(n: i64) -> usize {
    match n {
        0..128 => 2,
        -4096..4096 => 3,
        -0x8000..0x8000 => 4,
        -0x80_0000..0x80_0000 => 5,
        -0x8000_0000..0x8000_0000 => 6,
        _ => 10,
    }
}

/// Length including the back length after an element.
fn back_len(len: usize) -> usize {
    len + match len {
        0..128 => 1,
        128..16_384 => 2,
        16_384..2_097_152 => 3,
        2_097_152..268_435_456 => 4,
        _ => 5,
    }
}
