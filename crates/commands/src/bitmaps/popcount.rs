//! Counts ones. The only unsafe code calls the same loop compiled for processors with a population
//! count instruction.

use std::ops::Range;

/// Number of ones in `bytes`.
pub(super) fn ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("popcnt") {
            let has_avx2 = is_x86_feature_detected!("avx2");
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { if has_avx2 { ones_avx2(bytes) } else { ones_popcnt(bytes) } };
        }
    }
    ones_by_word(bytes)
}

/// Number of ones in the bits `range` of `bytes`. The range is inside of `bytes`.
pub(super) fn ones_within(bytes: &[u8], range: Range<usize>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let (first, last) = (range.start / 8, (range.end - 1) / 8);
    let outside_first = bytes[first] & !(0xff >> (range.start % 8));
    let outside_last = bytes[last] & !(0xff << (7 - (range.end - 1) % 8));
    let outside = outside_first.count_ones() + outside_last.count_ones();
    ones(&bytes[first..=last]) - u64::from(outside)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn ones_avx2(bytes: &[u8]) -> u64 {
    ones_by_word(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn ones_popcnt(bytes: &[u8]) -> u64 {
    ones_by_word(bytes)
}

#[inline(always)]
fn ones_by_word(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u64 =
        words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_counted_bit_by_bit() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * 151 % 256) as u8).collect();
        let is_set = |bit: &usize| bytes[bit / 8] >> (7 - bit % 8) & 1 == 1;
        for (start, end) in (0..60).flat_map(|start| (start..90).map(move |end| (start, end))) {
            let expected = (start..end).filter(is_set).count() as u64;
            assert_eq!(ones_within(&bytes, start..end), expected, "{start}..{end}");
        }
        assert_eq!(ones(&bytes), (0..800).filter(is_set).count() as u64);
        assert_eq!(ones_by_word(&bytes), ones(&bytes));
    }
}
