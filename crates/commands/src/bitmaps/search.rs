//! Search for the first 1 or the first 0.

use std::ops::Range;

/// Number of bytes that are skipped at once.
const STRIDE: usize = 64;

/// Position of the first bit equal to `bit` within the bits `range` of `bytes`. The range is inside
/// of `bytes`.
pub(super) fn first(bytes: &[u8], bit: bool, range: Range<usize>) -> Option<usize> {
    if range.is_empty() {
        return None;
    }
    // Inverts the bytes if a 0 is searched, so that the search is always for a 1.
    let flip = if bit { 0x00 } else { 0xff };
    let (begin, end) = (range.start / 8, range.end.div_ceil(8));
    let head = (bytes[begin] ^ flip) & 0xff >> (range.start % 8);
    let at = match head {
        0 => begin + 1 + leading_blank(&bytes[begin + 1..end], flip),
        _ => begin,
    };
    let byte = match at {
        at if at == begin => head,
        at if at < end => bytes[at] ^ flip,
        _ => return None,
    };
    Some(at * 8 + byte.leading_zeros() as usize).filter(|&found| found < range.end)
}

/// Number of leading bytes equal to `blank`.
fn leading_blank(bytes: &[u8], blank: u8) -> usize {
    let (strides, _) = bytes.as_chunks::<STRIDE>();
    let differs = |stride: &&[u8; STRIDE]| {
        stride.iter().fold(0, |differing, byte| differing | (byte ^ blank)) == 0
    };
    let skipped = strides.iter().take_while(differs).count() * STRIDE;
    skipped + bytes[skipped..].iter().take_while(|byte| **byte == blank).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_wherever_it_is() {
        for len in [1, 8, 63, 64, 65, 200] {
            for at in (0..len * 8).step_by(7) {
                let mut bytes = vec![0u8; len];
                bytes[at / 8] |= 0x80 >> (at % 8);
                let flipped: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
                for start in [0, at.saturating_sub(1), at, at + 1] {
                    for end in [at, at + 1, len * 8] {
                        let expected = (start..end).contains(&at).then_some(at);
                        assert_eq!(first(&bytes, true, start..end), expected);
                        assert_eq!(first(&flipped, false, start..end), expected);
                    }
                }
            }
        }
    }
}
