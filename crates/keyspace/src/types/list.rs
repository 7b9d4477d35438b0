//! Lists.

pub mod chunk;
pub mod large;
#[cfg(test)]
mod tests;

use crate::packed::{Item, Items};

/// An end of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The side of `LPUSH`.
    Front,
    /// The side of `RPUSH`.
    Back,
}

/// Bytes that an item takes in a listpack of Redis, whose length decides between its encodings.
pub(crate) fn listpack_entry_len(item: &Item<'_>) -> usize {
    let len = match *item {
        Item::Int(0..128) => 1,
        Item::Int(-4096..4096) => 2,
        Item::Int(-0x8000..0x8000) => 3,
        Item::Int(-0x80_0000..0x80_0000) => 4,
        Item::Int(-0x8000_0000..0x8000_0000) => 5,
        Item::Int(_) | Item::Double(_) => 9,
        Item::Text(text) => {
            text.len()
                + match text.len() {
                    0..64 => 1,
                    64..4096 => 2,
                    _ => 5,
                }
        }
    };
    let back = match len {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    len + back
}

/// Bytes of a listpack of Redis that holds these items.
pub(crate) fn listpack_len(items: &[u8]) -> usize {
    const FRAME: usize = 7;
    FRAME + Items::new(items).map(|item| listpack_entry_len(&item)).sum::<usize>()
}
