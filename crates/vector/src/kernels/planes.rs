//! Kernels over the bit planes of RaBitQ codes, in the layout of [`crate::rabitq`].

/// Number of components stored together.
const BLOCK: usize = 64;

/// Bytes of the plane of the top four bits.
#[inline]
pub fn coarse_bytes(dim: usize) -> usize {
    dim / BLOCK * (BLOCK / 2) + (dim % BLOCK).div_ceil(2)
}

/// Bytes of the plane of the two bits after those.
#[inline]
pub fn fine_bytes(dim: usize) -> usize {
    dim / BLOCK * (BLOCK / 4) + (dim % BLOCK).div_ceil(4)
}

/// Bytes of the plane of the lowest bit.
#[inline]
pub fn last_bytes(dim: usize) -> usize {
    dim.div_ceil(8)
}

/// Appends the three planes of steps of seven bits.
pub fn pack(steps: &[u8], out: &mut Vec<u8>) {
    for block in steps.chunks(BLOCK) {
        let half = block.len().div_ceil(2);
        let coarse = |at: usize| block.get(at).map_or(0, |step| step >> 3);
        out.extend((0..half).map(|i| coarse(i) | coarse(half + i) << 4));
    }
    for block in steps.chunks(BLOCK) {
        let quarter = block.len().div_ceil(4);
        let fine = |at: usize| block.get(at).map_or(0, |step| step >> 1 & 3);
        let byte = |i| (0..4).fold(0, |byte, part| byte | fine(part * quarter + i) << (2 * part));
        out.extend((0..quarter).map(byte));
    }
    for block in steps.chunks(BLOCK) {
        let eighth = block.len().div_ceil(8);
        let last = |at: usize| block.get(at).map_or(0, |step| step & 1);
        let byte = |i| (0..8).fold(0, |byte, part| byte | last(part * eighth + i) << part);
        out.extend((0..eighth).map(byte));
    }
}

/// Unpacks the steps of the three planes.
pub fn unpack(coarse: &[u8], fine: &[u8], last: &[u8], dim: usize) -> Vec<u8> {
    let mut steps = Vec::with_capacity(dim);
    let blocks = coarse.chunks(BLOCK / 2).zip(fine.chunks(BLOCK / 4)).zip(last.chunks(BLOCK / 8));
    for ((coarse, fine), last) in blocks {
        let len = (dim - steps.len()).min(BLOCK);
        let (half, quarter, eighth) = (len.div_ceil(2), len.div_ceil(4), len.div_ceil(8));
        steps.extend((0..len).map(|i| {
            let high = coarse[i % half] >> (4 * (i / half)) & 15;
            let low = fine[i % quarter] >> (2 * (i / quarter)) & 3;
            high << 3 | low << 1 | last[i % eighth] >> (i / eighth) & 1
        }));
    }
    steps
}

/// Sum of the products of a query's signed bytes and the steps of the coarse plane, 0 to 15.
#[inline]
pub fn dot_coarse(query: &[u8], plane: &[u8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::dot_coarse(query, plane) };
    }
    scalar::dot_coarse(query, plane)
}

/// Sum of the products of a query's signed bytes and the steps of the fine plane, 0 to 3.
#[inline]
pub fn dot_fine(query: &[u8], plane: &[u8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::dot_fine(query, plane) };
    }
    scalar::dot_fine(query, plane)
}

/// Sum of a query's signed bytes where the last plane has a 1.
#[inline]
pub fn dot_last(query: &[u8], plane: &[u8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::dot_last(query, plane) };
    }
    scalar::dot_last(query, plane)
}

/// Sum of the products `(2 a - 15) (2 b - 15)` of the steps of two coarse planes.
#[inline]
pub fn dot_pair(a: &[u8], b: &[u8], dim: usize) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::dot_pair(a, b, dim) };
    }
    scalar::dot_pair(a, b, dim)
}

/// Portable implementation.
mod scalar {
    use super::BLOCK;

    pub fn dot_coarse(query: &[u8], plane: &[u8]) -> i32 {
        let mut sum = 0;
        for (query, plane) in query.chunks(BLOCK).zip(plane.chunks(BLOCK / 2)) {
            let (low, high) = query.split_at(query.len().div_ceil(2));
            let product = |q: &u8, step: u8| i32::from(q.cast_signed()) * i32::from(step);
            sum += low.iter().zip(plane).map(|(q, byte)| product(q, byte & 15)).sum::<i32>();
            sum += high.iter().zip(plane).map(|(q, byte)| product(q, byte >> 4)).sum::<i32>();
        }
        sum
    }

    pub fn dot_fine(query: &[u8], plane: &[u8]) -> i32 {
        let mut sum = 0;
        for (query, plane) in query.chunks(BLOCK).zip(plane.chunks(BLOCK / 4)) {
            for (part, query) in query.chunks(query.len().div_ceil(4)).enumerate() {
                let product = |(q, byte): (&u8, &u8)| {
                    i32::from(q.cast_signed()) * i32::from(byte >> (2 * part) & 3)
                };
                sum += query.iter().zip(plane).map(product).sum::<i32>();
            }
        }
        sum
    }

    pub fn dot_last(query: &[u8], plane: &[u8]) -> i32 {
        let mut sum = 0;
        for (query, plane) in query.chunks(BLOCK).zip(plane.chunks(BLOCK / 8)) {
            for (part, query) in query.chunks(query.len().div_ceil(8)).enumerate() {
                let product = |(q, byte): (&u8, &u8)| {
                    i32::from(q.cast_signed()) * i32::from(byte >> part & 1)
                };
                sum += query.iter().zip(plane).map(product).sum::<i32>();
            }
        }
        sum
    }

    pub fn dot_pair(a: &[u8], b: &[u8], dim: usize) -> i32 {
        let weight = |step: u8| 2 * i32::from(step & 15) - 15;
        let mut sum = 0;
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            sum += weight(*a) * weight(*b);
            if !is_last_half(i, dim) {
                sum += weight(a >> 4) * weight(b >> 4);
            }
        }
        sum
    }

    /// Whether the high half of a byte is unused: in the last byte of an odd number.
    fn is_last_half(byte: usize, dim: usize) -> bool {
        !dim.is_multiple_of(2) && byte + 1 == super::coarse_bytes(dim)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::avx2::{load16, load32};
    use super::{BLOCK, scalar};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    fn sum_of(sums: __m256i) -> i32 {
        let sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
        _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum)))
    }

    /// The halves of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn halves_of(block: &[u8; BLOCK]) -> (__m256i, __m256i) {
        let halves = block.as_chunks().0;
        (load32(&halves[0]), load32(&halves[1]))
    }

    #[target_feature(enable = "avx2")]
    pub fn dot_coarse(query: &[u8], plane: &[u8]) -> i32 {
        let blocks = (query.len() / BLOCK).min(plane.len() / (BLOCK / 2));
        let (halves, ones) = (_mm256_set1_epi8(15), _mm256_set1_epi16(1));
        let mut sums = _mm256_setzero_si256();
        let plane_blocks = plane.as_chunks::<{ BLOCK / 2 }>().0;
        for (query, steps) in query.as_chunks::<BLOCK>().0.iter().zip(plane_blocks) {
            let (low, high) = halves_of(query);
            let steps = load32(steps);
            let low = _mm256_maddubs_epi16(_mm256_and_si256(steps, halves), low);
            let steps = _mm256_and_si256(_mm256_srli_epi16::<4>(steps), halves);
            let high = _mm256_maddubs_epi16(steps, high);
            // Each is a sum of four products, at most 4 * 15 * 128.
            let sum = _mm256_madd_epi16(_mm256_add_epi16(low, high), ones);
            sums = _mm256_add_epi32(sums, sum);
        }
        let rest = (&query[blocks * BLOCK..], &plane[blocks * (BLOCK / 2)..]);
        let tail = if rest.0.is_empty() { 0 } else { scalar::dot_coarse(rest.0, rest.1) };
        sum_of(sums) + tail
    }

    #[target_feature(enable = "avx2")]
    pub fn dot_fine(query: &[u8], plane: &[u8]) -> i32 {
        let blocks = (query.len() / BLOCK).min(plane.len() / (BLOCK / 4));
        let (mask, ones) = (_mm256_set1_epi8(3), _mm256_set1_epi16(1));
        // The lower 16 bytes are the first or third part of the block, the upper ones the next
        // part.
        let (first, second) =
            (_mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2), _mm256_setr_epi32(4, 4, 4, 4, 6, 6, 6, 6));
        let mut sums = _mm256_setzero_si256();
        let plane_blocks = plane.as_chunks::<{ BLOCK / 4 }>().0;
        for (query, steps) in query.as_chunks::<BLOCK>().0.iter().zip(plane_blocks) {
            let (low, high) = halves_of(query);
            let steps = _mm256_broadcastsi128_si256(load16(steps));
            let part = _mm256_and_si256(_mm256_srlv_epi32(steps, first), mask);
            let low = _mm256_maddubs_epi16(part, low);
            let part = _mm256_and_si256(_mm256_srlv_epi32(steps, second), mask);
            let high = _mm256_maddubs_epi16(part, high);
            let sum = _mm256_madd_epi16(_mm256_add_epi16(low, high), ones);
            sums = _mm256_add_epi32(sums, sum);
        }
        let rest = (&query[blocks * BLOCK..], &plane[blocks * (BLOCK / 4)..]);
        let tail = if rest.0.is_empty() { 0 } else { scalar::dot_fine(rest.0, rest.1) };
        sum_of(sums) + tail
    }

    #[target_feature(enable = "avx2")]
    pub fn dot_last(query: &[u8], plane: &[u8]) -> i32 {
        let blocks = (query.len() / BLOCK).min(plane.len() / (BLOCK / 8));
        let (one, ones) = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
        // Each group of 8 bytes tests another bit of the same 8 bytes of the plane.
        let bit = |bit: u8| i64::from_ne_bytes([1 << bit; 8]);
        let first = _mm256_setr_epi64x(bit(0), bit(1), bit(2), bit(3));
        let second = _mm256_setr_epi64x(bit(4), bit(5), bit(6), bit(7));
        let mut sums = _mm256_setzero_si256();
        let plane_blocks = plane.as_chunks::<{ BLOCK / 8 }>().0;
        for (query, steps) in query.as_chunks::<BLOCK>().0.iter().zip(plane_blocks) {
            let (low, high) = halves_of(query);
            let steps = _mm256_set1_epi64x(i64::from_ne_bytes(*steps));
            let mask = _mm256_cmpeq_epi8(_mm256_and_si256(steps, first), first);
            let low = _mm256_maddubs_epi16(one, _mm256_and_si256(mask, low));
            let mask = _mm256_cmpeq_epi8(_mm256_and_si256(steps, second), second);
            let high = _mm256_maddubs_epi16(one, _mm256_and_si256(mask, high));
            let sum = _mm256_madd_epi16(_mm256_add_epi16(low, high), ones);
            sums = _mm256_add_epi32(sums, sum);
        }
        let rest = (&query[blocks * BLOCK..], &plane[blocks * (BLOCK / 8)..]);
        let tail = if rest.0.is_empty() { 0 } else { scalar::dot_last(rest.0, rest.1) };
        sum_of(sums) + tail
    }

    #[target_feature(enable = "avx2")]
    pub fn dot_pair(a: &[u8], b: &[u8], dim: usize) -> i32 {
        let blocks = (dim / BLOCK).min(a.len() / 32).min(b.len() / 32);
        let (halves, fifteen) = (_mm256_set1_epi8(15), _mm256_set1_epi8(15));
        let ones = _mm256_set1_epi16(1);
        let mut sums = _mm256_setzero_si256();
        for (x, y) in a.as_chunks().0.iter().zip(b.as_chunks().0).take(blocks) {
            let (x, y) = (load32(x), load32(y));
            let low = (_mm256_and_si256(x, halves), _mm256_and_si256(y, halves));
            let high = (
                _mm256_and_si256(_mm256_srli_epi16::<4>(x), halves),
                _mm256_and_si256(_mm256_srli_epi16::<4>(y), halves),
            );
            let mut products = _mm256_setzero_si256();
            for (x, y) in [low, high] {
                let x = _mm256_sub_epi8(_mm256_add_epi8(x, x), fifteen);
                let y = _mm256_sub_epi8(_mm256_add_epi8(y, y), fifteen);
                let product = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(y, x));
                products = _mm256_add_epi16(products, product);
            }
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(products, ones));
        }
        let rest = dim - blocks * BLOCK;
        let tail = match rest {
            0 => 0,
            _ => scalar::dot_pair(&a[blocks * 32..], &b[blocks * 32..], rest),
        };
        sum_of(sums) + tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn planes_hold_the_steps_and_kernels_sum_them(
            parts in prop::collection::vec((0u8..128, 0u8..128, any::<i8>()), 1..300),
        ) {
            let dim = parts.len();
            let planes = |steps: &[u8]| {
                let mut out = Vec::new();
                pack(steps, &mut out);
                let mut fine = out.split_off(coarse_bytes(dim));
                let last = fine.split_off(fine_bytes(dim));
                assert_eq!(last.len(), last_bytes(dim));
                assert_eq!(unpack(&out, &fine, &last, dim), steps);
                (out, fine, last)
            };
            let steps: Vec<u8> = parts.iter().map(|part| part.0).collect();
            let others: Vec<u8> = parts.iter().map(|part| part.1).collect();
            let query: Vec<u8> = parts.iter().map(|part| part.2.cast_unsigned()).collect();
            let ((coarse, fine, last), (coarse_b, ..)) = (planes(&steps), planes(&others));
            let sum = |of: &dyn Fn(usize) -> i32| -> i32 { (0..dim).map(of).sum() };
            let q = |i: usize| i32::from(parts[i].2);
            let top = |steps: &[u8], i: usize| i32::from(steps[i] >> 3);
            let expected = sum(&|i| q(i) * top(&steps, i));
            prop_assert_eq!(dot_coarse(&query, &coarse), expected);
            prop_assert_eq!(scalar::dot_coarse(&query, &coarse), expected);
            let expected = sum(&|i| q(i) * i32::from(steps[i] >> 1 & 3));
            prop_assert_eq!(dot_fine(&query, &fine), expected);
            prop_assert_eq!(scalar::dot_fine(&query, &fine), expected);
            let expected = sum(&|i| q(i) * i32::from(steps[i] & 1));
            prop_assert_eq!(dot_last(&query, &last), expected);
            prop_assert_eq!(scalar::dot_last(&query, &last), expected);
            let expected = sum(&|i| (2 * top(&steps, i) - 15) * (2 * top(&others, i) - 15));
            prop_assert_eq!(dot_pair(&coarse, &coarse_b, dim), expected);
            prop_assert_eq!(scalar::dot_pair(&coarse, &coarse_b, dim), expected);
        }
    }
}
