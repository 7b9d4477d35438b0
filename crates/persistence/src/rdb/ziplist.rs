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

use super::{Error, Item};

const HEADER: usize = 10;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;
/// Announces that the length of the item before takes four bytes.
const WIDE: u8 = 254;

const MALFORMED: Error = Error::Malformed("a ziplist is broken");

/// A ziplist with a validated structure: walking it cannot fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ziplist<'a> {
    items: &'a [u8],
    len: usize,
    /// Whether the header states another number of items.
    pub(super) is_miscounted: bool,
}

impl<'a> Ziplist<'a> {
    /// Checks every item. Their number in the header follows from them, and may be wrong.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(MALFORMED)?;
        let (&end, items) = rest.split_last().ok_or(MALFORMED)?;
        let [b0, b1, b2, b3, t0, t1, t2, t3, n0, n1] = *header;
        if end != END || u32::from_le_bytes([b0, b1, b2, b3]) as usize != bytes.len() {
            return Err(MALFORMED);
        }
        let (mut left, mut len, mut before) = (items, 0, 0);
        while !left.is_empty() {
            let (stated, _, rest) = split_item(left).ok_or(MALFORMED)?;
            if stated != before {
                return Err(MALFORMED);
            }
            before = left.len() - rest.len();
            left = rest;
            len += 1;
        }
        let last = HEADER + items.len() - before;
        if u32::from_le_bytes([t0, t1, t2, t3]) as usize != last {
            return Err(MALFORMED);
        }
        let stated = u16::from_le_bytes([n0, n1]);
        let is_miscounted = stated != COUNT_UNKNOWN && usize::from(stated) != len;
        Ok(Ziplist { items, len, is_miscounted })
    }

    /// Number of items.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<'a> IntoIterator for Ziplist<'a> {
    type Item = Item<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        Items(self.items)
    }
}

/// The items of a ziplist.
#[derive(Clone, Debug)]
pub(super) struct Items<'a>(&'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let (_, item, rest) = split_item(self.0)?;
        self.0 = rest;
        Some(item)
    }
}

/// The stated length of the item before the first, the first item, and what follows it; none if
/// that is not an item.
fn split_item(bytes: &[u8]) -> Option<(usize, Item<'_>, &[u8])> {
    let (&before, rest) = bytes.split_first()?;
    let (before, rest) = match before {
        END => return None,
        WIDE => {
            let (before, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*before) as usize, rest)
        }
        _ => (usize::from(before), rest),
    };
    let (&first, rest) = rest.split_first()?;
    let (item, rest) = match first {
        0x00..=0x3f => text(rest, usize::from(first))?,
        0x40..=0x7f => {
            let (&low, rest) = rest.split_first()?;
            text(rest, usize::from(first & 0x3f) << 8 | usize::from(low))?
        }
        0x80 => {
            let (len, rest) = rest.split_first_chunk()?;
            text(rest, u32::from_be_bytes(*len) as usize)?
        }
        0xc0 => {
            let (n, rest) = rest.split_first_chunk()?;
            (Item::Int(i16::from_le_bytes(*n).into()), rest)
        }
        0xd0 => {
            let (n, rest) = rest.split_first_chunk()?;
            (Item::Int(i32::from_le_bytes(*n).into()), rest)
        }
        0xe0 => {
            let (n, rest) = rest.split_first_chunk()?;
            (Item::Int(i64::from_le_bytes(*n)), rest)
        }
        0xf0 => {
            let (&[a, b, c], rest) = rest.split_first_chunk()?;
            (Item::Int((i32::from_le_bytes([0, a, b, c]) >> 8).into()), rest)
        }
        0xfe => {
            let (&n, rest) = rest.split_first()?;
            (Item::Int((n as i8).into()), rest)
        }
        0xf1..=0xfd => (Item::Int(i64::from(first & 0x0f) - 1), rest),
        _ => return None,
    };
    Some((before, item, rest))
}

fn text(bytes: &[u8], len: usize) -> Option<(Item<'_>, &[u8])> {
    let (text, rest) = bytes.split_at_checked(len)?;
    Some((Item::Text(text), rest))
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
