//! Ziplists, which listpacks replaced in Redis 7.
//!
//! ```text
//! +-----------+--------------------+-----------+-------+-- ... --+------+
//! | bytes u32 | offset of the last | items u16 | item  |         | 0xff |
//! |           | item u32           |           |       |         |      |
//! +-----------+--------------------+-----------+-------+-- ... --+------+
//! ```
//!
//! The number of items is 65,535 where it does not fit. An item begins with the length of the one
//! before it: one byte below 254, or 254 and four bytes.
//!
//! | then | then | item |
//! |---|---|---|
//! | `00llllll` | the bytes | string of up to 63 bytes |
//! | `01llllll` | 1 byte, the bytes | string of up to 16,383 bytes, high bits first |
//! | `10000000` | 4 bytes of length, big-endian, the bytes | string |
//! | `11000000`, `11010000`, `11100000` | 2, 4, 8 bytes | integer |
//! | `11110000`, `11111110` | 3, 1 bytes | integer |
//! | `1111nnnn` | | integer n - 1, n = 1 ..= 13 |

use super::item_list::{END, ItemList, Layout, int, text};
use super::{Error, Item};

const HEADER: usize = 10;
/// Announces that the length of the item before takes four bytes.
const WIDE: u8 = 254;

/// The layout of ziplists.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfZiplist;

/// A ziplist with a validated structure.
pub(super) type Ziplist<'a> = ItemList<'a, OfZiplist>;

impl Layout for OfZiplist {
    const HEADER: usize = HEADER;
    const MALFORMED: Error = Error::Malformed("a ziplist is broken");
    const COUNT: &'static str = "the number of items of a ziplist";

    fn split_item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
        let (&first, rest) = split_before(bytes)?.1.split_first()?;
        match first {
            0x00..=0x3f => text(rest, usize::from(first)),
            0x40..=0x7f => {
                let (&low, rest) = rest.split_first()?;
                text(rest, usize::from(first & 0x3f) << 8 | usize::from(low))
            }
            0x80 => {
                let (len, rest) = rest.split_first_chunk()?;
                text(rest, u32::from_be_bytes(*len) as usize)
            }
            0xc0 => int::<2>(rest),
            0xd0 => int::<4>(rest),
            0xe0 => int::<8>(rest),
            0xf0 => int::<3>(rest),
            0xfe => int::<1>(rest),
            0xf1..=0xfd => Some((Item::Int(i64::from(first & 0x0f) - 1), rest)),
            _ => None,
        }
    }

    /// Each item states the length of the one before, and the header the place of the last.
    fn count(header: &[u8], items: &[u8]) -> Option<usize> {
        let (mut left, mut len, mut before) = (items, 0, 0);
        while !left.is_empty() {
            let rest = Self::split_item(left)?.1;
            if split_before(left)?.0 != before {
                return None;
            }
            before = left.len() - rest.len();
            left = rest;
            len += 1;
        }
        let last = u32::from_le_bytes(*header.get(4..)?.first_chunk()?) as usize;
        (last == HEADER + items.len() - before).then_some(len)
    }
}

/// The stated length of the item before the first, and what follows it.
fn split_before(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&before, rest) = bytes.split_first()?;
    match before {
        END => None,
        WIDE => {
            let (before, rest) = rest.split_first_chunk()?;
            Some((u32::from_le_bytes(*before) as usize, rest))
        }
        _ => Some((usize::from(before), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A ziplist of items given as their encodings.
    fn build(items: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        let (mut before, mut last) = (0, 0);
        for item in items {
            last = body.len();
            match before {
                0..254 => body.push(before as u8),
                _ => {
                    body.push(WIDE);
                    body.extend_from_slice(&(before as u32).to_le_bytes());
                }
            }
            body.extend_from_slice(item);
            before = body.len() - last;
        }
        let mut out = Vec::new();
        out.extend_from_slice(&((HEADER + body.len() + 1) as u32).to_le_bytes());
        out.extend_from_slice(&((HEADER + last) as u32).to_le_bytes());
        out.extend_from_slice(&(items.len() as u16).to_le_bytes());
        out.extend_from_slice(&body);
        out.push(END);
        out
    }

    #[test]
    fn every_form_is_read() {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let longer = [&[0x80, 0, 0, 0, 2][..], b"yz"].concat();
        let bytes = build(&[
            b"\x03abc",
            &long,
            &longer,
            &[0xc0, 0x00, 0x80],
            &[0xd0, 0, 0, 0, 0x80],
            &[0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80],
            &[0xf0, 0xff, 0xff, 0xff],
            &[0xfe, 0x80],
            &[0xf1],
            &[0xfd],
            b"\x00",
        ]);
        let list = Ziplist::new(&bytes).unwrap();
        assert_eq!(list.len(), 11);
        assert_eq!(
            list.into_iter().collect::<Vec<_>>(),
            [
                Item::Text(b"abc"),
                Item::Text(&[b'x'; 300]),
                Item::Text(b"yz"),
                Item::Int(-32768),
                Item::Int(i32::MIN.into()),
                Item::Int(i64::MIN),
                Item::Int(-1),
                Item::Int(-128),
                Item::Int(0),
                Item::Int(12),
                Item::Text(b""),
            ]
        );
        assert_eq!(Ziplist::new(&build(&[])).unwrap().len(), 0);
    }

    #[test]
    fn broken_ones_are_refused() {
        let good = build(&[b"\x03abc", &[0xf1], &[0xc0, 1, 1]]);
        for len in 0..good.len() {
            assert!(Ziplist::new(&good[..len]).is_err(), "{len}");
        }
        for i in (0..HEADER).chain([10, 11, 15, 18, good.len() - 1]) {
            let mut bad = good.clone();
            bad[i] ^= 0x41;
            match i {
                8 | 9 => assert!(Ziplist::new(&bad).unwrap().is_miscounted, "{i}"),
                _ => assert!(Ziplist::new(&bad).is_err(), "{i}"),
            }
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_danger(noise in prop::collection::vec(any::<u8>(), 0..100), at in any::<u32>()) {
            let mut bytes = build(&[&noise]);
            let _ = Ziplist::new(&bytes);
            let at = at as usize % bytes.len();
            bytes[at] ^= 1;
            let _ = Ziplist::new(&bytes);
        }
    }
}
