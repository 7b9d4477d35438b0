//! Lengths and the other unsigned numbers.
//!
//! | first byte | then | number |
//! |---|---|---|
//! | `00nnnnnn` | | 6 bits |
//! | `01nnnnnn` | 1 byte | 14 bits, high bits first |
//! | `10000000` | 4 bytes, big-endian | 32 bits |
//! | `10000001` | 8 bytes, big-endian | 64 bits |
//! | `11ffffff` | | no number: a string in the form `f` |

use super::{Error, Source};

const BITS_32: u8 = 0x80;
const BITS_64: u8 = 0x81;

/// Length of a string, or the encoding in its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Length {
    /// A number.
    Number(u64),
    /// The string comes in this special form.
    Special(u8),
}

/// Reads a length, or the form of a string.
#[inline]
pub(super) fn read_length<S: Source>(source: &mut S) -> Result<Length, Error> {
    let first = source.byte()?;
    let low = first & 0x3f;
    let number = match first >> 6 {
        0 => u64::from(low),
        1 => u64::from(low) << 8 | u64::from(source.byte()?),
        2 if first == BITS_32 => u64::from(u32::from_be_bytes(source.array()?)),
        2 if first == BITS_64 => u64::from_be_bytes(source.array()?),
        3 => return Ok(Length::Special(low)),
        _ => return Err(Error::Malformed("a length in no known form")),
    };
    Ok(Length::Number(number))
}

/// Reads a number.
#[inline]
pub(super) fn read_number<S: Source>(source: &mut S) -> Result<u64, Error> {
    match read_length(source)? {
        Length::Number(number) => Ok(number),
        Length::Special(_) => Err(Error::Malformed("a string's form where a number belongs")),
    }
}

/// Reads a number of items, each of at least `size` bytes, and checks that the source is long
/// enough.
#[inline]
pub(super) fn read_count<S: Source>(source: &mut S, size: usize) -> Result<usize, Error> {
    let count = usize::try_from(read_number(source)?).map_err(|_| Error::Truncated)?;
    match count.checked_mul(size) {
        Some(bytes) if bytes <= source.left() => Ok(count),
        _ => Err(Error::Truncated),
    }
}

/// Writes a number.
#[inline]
pub(super) fn write_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x3f => out.push(number as u8),
        0x40..=0x3fff => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            out.push(BITS_32);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            out.push(BITS_64);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Slice;
    use super::*;

    #[test]
    fn numbers_round_trip_in_their_sizes() {
        for (number, size) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16383, 2),
            (16384, 5),
            (u64::from(u32::MAX), 5),
            (u64::from(u32::MAX) + 1, 9),
            (u64::MAX, 9),
        ] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out.len(), size, "{number}");
            assert_eq!(read_number(&mut Slice::new(&out)), Ok(number));
        }
    }

    #[test]
    fn other_forms_are_refused() {
        assert!(matches!(read_length(&mut Slice::new(&[0x82, 0])), Err(Error::Malformed(_))));
        assert_eq!(read_length(&mut Slice::new(&[0xc3])), Ok(Length::Special(3)));
        assert!(matches!(read_number(&mut Slice::new(&[0xc3])), Err(Error::Malformed(_))));
        assert_eq!(read_number(&mut Slice::new(&[0x81, 0])), Err(Error::Truncated));
        assert_eq!(read_count(&mut Slice::new(&[3, 0, 0]), 1), Err(Error::Truncated));
        assert_eq!(read_count(&mut Slice::new(&[2, 0, 0]), 1), Ok(2));
    }
}
