//! Listpacks: items one behind the other, readable from both ends.
//!
//! ```text
//! +-----------+-------------+-------+-- ... --+------+
//! | bytes u32 | items u16   | item  |         | 0xff |
//! +-----------+-------------+-------+-- ... --+------+
//! ```
//!
//! The number of items is 65,535 where it does not fit. Behind each item stands its length, seven
//! bits a byte, the highest first and all but that one with the top bit set.
//!
//! | first byte | then | item |
//! |---|---|---|
//! | `0nnnnnnn` | | integer 0 ..= 127 |
//! | `10llllll` | the bytes | string of up to 63 bytes |
//! | `110nnnnn` | 1 byte | integer of 13 bits with a sign, high bits first |
//! | `1110llll` | 1 byte, the bytes | string of up to 4,095 bytes, high bits first |
//! | `11110000` | 4 bytes of length, the bytes | string |
//! | `11110001` .. `11110100` | 2, 3, 4, 8 bytes | integer |

use super::item_list::{COUNT_UNKNOWN, END, ItemList, Items, Layout, int, text};
use super::{Error, Item};
use petrel_keyspace::parse_int;

const HEADER: usize = 6;

/// The layout of listpacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfListpack;

/// A listpack with a validated structure.
pub(super) type Listpack<'a> = ItemList<'a, OfListpack>;

/// The items of a listpack.
pub(super) type ListpackItems<'a> = Items<'a, OfListpack>;

impl Layout for OfListpack {
    const HEADER: usize = HEADER;
    const MALFORMED: Error = Error::Malformed("a listpack is broken");
    const COUNT: &'static str = "the number of items of a listpack";

    /// The length behind the item belongs to it.
    #[inline]
    fn split_item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
        let (&first, rest) = bytes.split_first()?;
        let (item, rest) = match first {
            0x00..=0x7f => (Item::Int(first.into()), rest),
            0x80..=0xbf => text(rest, usize::from(first & 0x3f))?,
            0xc0..=0xdf => {
                let (&low, rest) = rest.split_first()?;
                // The sign is the top one of 13 bits.
                let shifted = (u16::from(first) << 8 | u16::from(low)) << 3;
                (Item::Int((shifted as i16 >> 3).into()), rest)
            }
            0xe0..=0xef => {
                let (&low, rest) = rest.split_first()?;
                text(rest, usize::from(first & 0x0f) << 8 | usize::from(low))?
            }
            0xf0 => {
                let (len, rest) = rest.split_first_chunk()?;
                text(rest, u32::from_le_bytes(*len) as usize)?
            }
            0xf1 => int::<2>(rest)?,
            0xf2 => int::<3>(rest)?,
            0xf3 => int::<4>(rest)?,
            0xf4 => int::<8>(rest)?,
            _ => return None,
        };
        let back = BackLength::of(bytes.len() - rest.len());
        Some((item, rest.strip_prefix(back.bytes())?))
    }

    fn count(_: &[u8], mut items: &[u8]) -> Option<usize> {
        let mut len = 0;
        while !items.is_empty() {
            items = Self::split_item(items)?.1;
            len += 1;
        }
        Some(len)
    }
}

/// The length that stands behind an item.
struct BackLength {
    bytes: [u8; 5],
    len: usize,
}

impl BackLength {
    #[inline]
    fn of(item: usize) -> Self {
        let len = match item {
            0..=0x7f => 1,
            0x80..=0x3ffe => 2,
            0x3fff..=0x1f_fffe => 3,
            0x1f_ffff..=0xfff_fffe => 4,
            _ => 5,
        };
        let mut bytes = [0; 5];
        for (i, byte) in bytes[..len].iter_mut().rev().enumerate() {
            let more = if i + 1 < len { 0x80 } else { 0 };
            *byte = (item >> (7 * i)) as u8 & 0x7f | more;
        }
        BackLength { bytes, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Appends an item. Text that is an integer becomes one.
pub(super) fn push(out: &mut Vec<u8>, item: Item<'_>) {
    let start = out.len();
    match item {
        Item::Int(n) => push_int(out, n),
        Item::Text(text) => match parse_int(text) {
            Some(n) => push_int(out, n),
            None => push_text(out, text),
        },
    }
    let back = BackLength::of(out.len() - start);
    out.extend_from_slice(back.bytes());
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..=0x3f => out.push(0x80 | len as u8),
        len @ 0x40..=0xfff => out.extend_from_slice(&(0xe000 | len as u16).to_be_bytes()),
        len => {
            out.push(0xf0);
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

fn push_int(out: &mut Vec<u8>, n: i64) {
    let bytes = n.to_le_bytes();
    match n {
        0..=0x7f => out.push(n as u8),
        -0x1000..=0xfff => out.extend_from_slice(&(0xc000 | n as u16 & 0x1fff).to_be_bytes()),
        -0x8000..=0x7fff => push_wide(out, 0xf1, &bytes[..2]),
        -0x80_0000..=0x7f_ffff => push_wide(out, 0xf2, &bytes[..3]),
        -0x8000_0000..=0x7fff_ffff => push_wide(out, 0xf3, &bytes[..4]),
        _ => push_wide(out, 0xf4, &bytes),
    }
}

fn push_wide(out: &mut Vec<u8>, first: u8, bytes: &[u8]) {
    out.push(first);
    out.extend_from_slice(bytes);
}

/// Bytes of the header and the end of a listpack.
pub(super) const FRAME: usize = HEADER + 1;

/// The header of a listpack of this many bytes, all in all, and items.
pub(super) fn header(bytes: u32, items: usize) -> [u8; HEADER] {
    let items = u16::try_from(items).unwrap_or(COUNT_UNKNOWN);
    let ([b0, b1, b2, b3], [n0, n1]) = (bytes.to_le_bytes(), items.to_le_bytes());
    [b0, b1, b2, b3, n0, n1]
}

/// End of a listpack.
pub(super) const TAIL: u8 = END;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(items: &[Item<'_>]) -> Vec<u8> {
        let mut body = Vec::new();
        for &item in items {
            push(&mut body, item);
        }
        let mut out = header((body.len() + FRAME) as u32, items.len()).to_vec();
        out.extend_from_slice(&body);
        out.push(TAIL);
        out
    }

    #[test]
    fn integers_have_their_sizes() {
        for (n, size) in [
            (0, 2),
            (127, 2),
            (128, 3),
            (-1, 3),
            (4095, 3),
            (-4096, 3),
            (4096, 4),
            (-32768, 4),
            (32768, 5),
            (-8_388_608, 5),
            (8_388_608, 6),
            (i64::from(i32::MIN), 6),
            (i64::from(i32::MAX) + 1, 10),
            (i64::MIN, 10),
            (i64::MAX, 10),
        ] {
            let bytes = pack(&[Item::Int(n)]);
            assert_eq!(bytes.len() - FRAME, size, "{n}");
            let read: Vec<_> = Listpack::new(&bytes).unwrap().into_iter().collect();
            assert_eq!(read, [Item::Int(n)]);
        }
    }

    #[test]
    fn texts_of_all_lengths() {
        for len in [
            0, 63, 64, 122, 123, 124, 4095, 4096, 16_376, 16_377, 16_378, 16_379, 2_097_143,
            2_097_150,
        ] {
            let text = vec![b'x'; len];
            let bytes = pack(&[Item::Text(&text), Item::Int(5)]);
            let read: Vec<_> = Listpack::new(&bytes).unwrap().into_iter().collect();
            assert_eq!(read, [Item::Text(&text), Item::Int(5)], "{len}");
        }
    }

    #[test]
    fn many_items_are_counted() {
        let items = vec![Item::Int(1); 70_000];
        let bytes = pack(&items);
        assert_eq!(bytes[4..6], [0xff, 0xff]);
        assert_eq!(Listpack::new(&bytes).unwrap().len(), 70_000);
    }

    #[test]
    fn broken_ones_are_refused() {
        let good = pack(&[Item::Int(1), Item::Text(b"abc")]);
        assert!(Listpack::new(&good).is_ok());
        for len in 0..good.len() {
            assert!(Listpack::new(&good[..len]).is_err(), "{len}");
        }
        // A byte of the text may be any; every other one is checked.
        let text = good.len() - 5..good.len() - 2;
        for i in (0..good.len()).filter(|i| !text.contains(i) && *i != HEADER) {
            let mut bad = good.clone();
            bad[i] ^= 0x81;
            match i {
                4 | 5 => assert!(Listpack::new(&bad).unwrap().is_miscounted, "{i}"),
                _ => assert!(Listpack::new(&bad).is_err(), "{i}"),
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            items in prop::collection::vec(
                prop_oneof![
                    any::<i64>().prop_map(Ok),
                    (-5000i64..5000).prop_map(Ok),
                    prop::collection::vec(any::<u8>(), 0..200).prop_map(Err),
                ],
                0..50,
            )
        ) {
            let items: Vec<_> = items
                .iter()
                .map(|item| match item {
                    Ok(n) => Item::Int(*n),
                    Err(text) => Item::Text(text),
                })
                .collect();
            let bytes = pack(&items);
            let read: Vec<_> = Listpack::new(&bytes).unwrap().into_iter().collect();
            let text = |item: &Item<'_>| item.bytes(&mut itoa::Buffer::new()).to_vec();
            prop_assert_eq!(
                read.iter().map(text).collect::<Vec<_>>(),
                items.iter().map(text).collect::<Vec<_>>()
            );
        }

        #[test]
        fn noise_is_no_danger(noise in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut bytes = header((noise.len() + FRAME) as u32, COUNT_UNKNOWN.into()).to_vec();
            bytes.extend_from_slice(&noise);
            bytes.push(TAIL);
            let _ = Listpack::new(&bytes);
            let _ = Listpack::new(&noise);
        }
    }
}
