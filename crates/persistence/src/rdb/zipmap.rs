//! Zipmaps: small hashes of Redis before 2.6.
//!
//! ```text
//! +---------+--------+-------+--------+--------+-------+--------+-- ... --+------+
//! | fields  | length | field | length | unused | value | unused |         | 0xff |
//! | (u8)    |        |       |        | (u8)   |       | bytes  |         |      |
//! +---------+--------+-------+--------+--------+-------+--------+-- ... --+------+
//! ```
//!
//! A length is one byte below 254, or 254 and four bytes. The number of fields is 254 where it does
//! not fit.

use super::Error;
use super::Source;
use super::source::Slice;

const END: u8 = 0xff;
const WIDE: u8 = 254;
const COUNT_UNKNOWN: u8 = 254;

const MALFORMED: Error = Error::Malformed("a zipmap is broken");

/// A field and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// The fields with their values, and whether the first byte states another number of them.
pub(super) fn pairs(bytes: &[u8]) -> Result<(Vec<Pair<'_>>, bool), Error> {
    let mut source = Slice::new(bytes);
    let stated = source.byte()?;
    let mut pairs = Vec::new();
    while let Some(len) = length(&mut source)? {
        let field = source.cut(len)?;
        let len = length(&mut source)?.ok_or(MALFORMED)?;
        let unused = usize::from(source.byte()?);
        let value = source.cut(len)?;
        source.cut(unused)?;
        pairs.push((field, value));
    }
    let is_miscounted = stated < COUNT_UNKNOWN && usize::from(stated) != pairs.len();
    if source.left() == 0 { Ok((pairs, is_miscounted)) } else { Err(MALFORMED) }
}

/// The next length; none at the end.
fn length(source: &mut Slice<'_>) -> Result<Option<usize>, Error> {
    Ok(match source.byte()? {
        END => None,
        WIDE => {
            // Redis takes a short length for one byte, however it is written, and goes on from
            // there.
            let len = u32::from_le_bytes(source.array()?) as usize;
            Some(len).filter(|&len| len >= usize::from(WIDE)).ok_or(MALFORMED).map(Some)?
        }
        len => Some(usize::from(len)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_values() {
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world!!\xff";
        assert_eq!(
            pairs(bytes).unwrap().0,
            [(&b"foo"[..], &b"bar"[..]), (&b"hello"[..], &b"world"[..])]
        );
        let long = [b'x'; 254];
        let wide = [&b"\x01\xfe\xfe\x00\x00\x00"[..], &long, b"\x00\x00\xff"].concat();
        assert_eq!(pairs(&wide).unwrap().0, [(&long[..], &b""[..])]);
        assert_eq!(pairs(b"\x00\xff").unwrap(), (vec![], false));
    }

    #[test]
    fn broken_ones_are_refused() {
        let good = b"\x01\x03foo\x03\x00bar\xff";
        assert!(pairs(good).is_ok());
        for len in 0..good.len() {
            assert!(pairs(&good[..len]).is_err(), "{len}");
        }
        assert!(pairs(b"\x02\x03foo\x03\x00bar\xff").unwrap().1);
        assert!(pairs(b"\x01\x03foo\x03\x00bar\xffx").is_err());
        assert!(pairs(b"\x01\x03foo\x03\x09bar\xff").is_err());
        assert!(pairs(b"\x01\x03foo\xff").is_err());
        assert!(pairs(b"\x01\xfe\x02\x00\x00\x00ab\x00\x00\xff").is_err());
    }
}
