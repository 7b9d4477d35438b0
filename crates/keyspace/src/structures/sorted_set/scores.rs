//! Scores of a small sorted set. Whole numbers are stored as their distance to the previous one,
//! which is short because scores ascend.
//!
//! | first byte | then | score |
//! |---|---|---|
//! | `0ddddddd` | | the whole number before, or 0, plus 0 ..= 127 |
//! | `10dddddd` | 1 byte | plus 14 bits, high bits first |
//! | `110ddddd` | 2 bytes | plus 21 bits |
//! | `1110dddd` | 3 bytes | plus 28 bits |
//! | `11110nnn` | n bytes | the whole number itself, little-endian |
//! | `11111000` | 8 bytes | any other number |

/// Larger whole numbers are not distinguishable from their neighbors.
const WHOLE_MAX: u64 = 1 << 53;

const WHOLE: u8 = 0b1111_0000;
const DOUBLE: u8 = 0b1111_1000;

/// The whole number equal to a score, if it is stored as one. -0 must keep its sign.
#[inline]
pub fn whole(score: f64) -> Option<i64> {
    let whole = score as i64;
    (whole as f64 == score && whole.unsigned_abs() <= WHOLE_MAX && score.to_bits() != 1 << 63)
        .then_some(whole)
}

/// Appends a score; `base` is the previous whole number, and is updated.
pub fn pack(out: &mut Vec<u8>, score: f64, base: &mut i64) {
    let Some(whole) = whole(score) else {
        out.push(DOUBLE);
        out.extend_from_slice(&score.to_le_bytes());
        return;
    };
    // The sum of two magnitudes of 2^53 does not overflow; the previous score is not greater.
    let distance = whole - std::mem::replace(base, whole);
    let bytes = whole_len(whole);
    match distance {
        0..0x80 => out.push(distance as u8),
        0x80..0x4000 => out.extend_from_slice(&(distance as u16 | 0x8000).to_be_bytes()),
        0x4000..0x20_0000 if bytes > 1 => {
            out.extend_from_slice(&(distance as u32 | 0xc0_0000).to_be_bytes()[1..]);
        }
        0x20_0000..0x1000_0000 if bytes > 2 => {
            out.extend_from_slice(&(distance as u32 | 0xe000_0000).to_be_bytes());
        }
        _ => {
            out.push(WHOLE | bytes as u8);
            out.extend_from_slice(&whole.to_le_bytes()[..bytes]);
        }
    }
}

/// Number of bytes for a whole number with its sign.
fn whole_len(whole: i64) -> usize {
    let bits = 65 - (whole ^ whole >> 63).leading_zeros() as usize;
    bits.div_ceil(8)
}

/// Reads the score at an offset; also returns the offset after it.
#[inline(always)]
pub fn unpack(bytes: &[u8], at: usize, base: &mut i64) -> (f64, usize) {
    let word = match bytes[at..].first_chunk() {
        Some(word) => u32::from_be_bytes(*word),
        None => short_word(&bytes[at..]),
    };
    let ones = word.leading_ones();
    if ones > 3 {
        return unpack_long(bytes, at, base);
    }
    // Of `ones + 1` bytes, the first `ones + 1` bits are the header.
    *base += i64::from(word << (ones + 1) >> (25 - 7 * ones));
    (*base as f64, at + ones as usize + 1)
}

/// For a score in one or two bytes: the distance to the previous whole number, and the number of
/// bytes.
#[inline(always)]
pub fn short_distance(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    match bytes[at] {
        first @ 0..=0x7f => Some((first.into(), 1)),
        first @ 0x80..=0xbf => Some((i64::from(first & 0x3f) << 8 | i64::from(bytes[at + 1]), 2)),
        _ => None,
    }
}

/// The last bytes, padded with zeros.
#[cold]
fn short_word(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_be_bytes(word)
}

#[cold]
fn unpack_long(bytes: &[u8], at: usize, base: &mut i64) -> (f64, usize) {
    let end = at + packed_len(bytes[at]);
    let mut word = [0; 8];
    word[..end - at - 1].copy_from_slice(&bytes[at + 1..end]);
    if bytes[at] == DOUBLE {
        return (f64::from_le_bytes(word), end);
    }
    let shift = 64 - 8 * (end - at - 1);
    *base = i64::from_le_bytes(word) << shift >> shift;
    (*base as f64, end)
}

/// Length of a packed score with this first byte.
#[inline]
pub fn packed_len(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0x80..=0xbf => 2,
        0xc0..=0xdf => 3,
        0xe0..=0xef => 4,
        DOUBLE => 9,
        _ => 1 + usize::from(first & 0x07),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(scores: &[f64]) -> Vec<u8> {
        let (mut bytes, mut base, mut ends) = (Vec::new(), 0, Vec::new());
        for &score in scores {
            pack(&mut bytes, score, &mut base);
            ends.push(bytes.len());
        }
        let (mut at, mut base) = (0, 0);
        for (&score, &end) in scores.iter().zip(&ends) {
            assert_eq!(at + packed_len(bytes[at]), end, "{score}");
            let before = base;
            let (read, behind) = unpack(&bytes, at, &mut base);
            if let Some((distance, len)) = short_distance(&bytes, at) {
                assert_eq!((before + distance, at + len), (base, end));
            }
            assert_eq!((read.to_bits(), behind), (score.to_bits(), end), "{score}");
            at = end;
        }
        bytes
    }

    #[test]
    fn ascending_whole_numbers_take_few_bytes() {
        assert_eq!(check(&[0.0, 1.0, 128.0]).len(), 3);
        assert_eq!(check(&[-1.0, 0.0, 10_000.0]).len(), 2 + 1 + 2);
        assert_eq!(check(&[1e6, 2e6]).len(), 3 + 3);
        assert_eq!(check(&[1.7e12, 1.7e12 + 1e3]).len(), 7 + 2);
        assert_eq!(check(&[-9e15, 9e15]).len(), 8 + 8);
        assert_eq!(check(&[5.0, 5.5, 6.0]).len(), 1 + 9 + 1);
        assert_eq!(check(&[f64::NEG_INFINITY, -0.0, f64::INFINITY]).len(), 27);
        assert_eq!(check(&[i64::MIN as f64, 0.0, i64::MAX as f64]).len(), 9 + 1 + 9);
    }

    proptest! {
        #[test]
        fn every_score_reads_back(mut scores in prop::collection::vec(prop_oneof![
            any::<i32>().prop_map(f64::from),
            (-(1i64 << 54)..1 << 54).prop_map(|n| n as f64),
            (-300..300).prop_map(f64::from),
            any::<f64>().prop_filter("a number", |score| !score.is_nan()),
        ], 0..30)) {
            scores.sort_by(f64::total_cmp);
            check(&scores);
        }
    }
}
