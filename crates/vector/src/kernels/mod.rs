//! Vector kernels with run-time selection of CPU features. The only unsafe code of the crate.
//!
//! 32-bit floats are little-endian bytes without alignment.

pub mod floats;
pub mod planes;

/// Sum of the products of 32-bit floats. Both are equally long, a multiple of 4 bytes.
#[inline]
pub fn dot_f32(a: &[u8], b: &[u8]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has AVX2 and FMA.
        return unsafe { avx2::dot_f32(a, b) };
    }
    scalar::dot_f32(a, b)
}

/// Sum of the products of signed bytes. Both are equally long, at most 65,536 bytes.
#[inline]
pub fn dot_i8(a: &[u8], b: &[u8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::dot_i8(a, b) };
    }
    scalar::dot_i8(a, b)
}

/// Number of bits that differ. Both are equally long, a multiple of 8 bytes.
#[inline]
pub fn hamming(a: &[u8], b: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor counts bits.
        return unsafe { popcnt::hamming(a, b) };
    }
    scalar::hamming(a, b)
}

/// Portable implementation.
mod scalar {
    pub fn dot_f32(a: &[u8], b: &[u8]) -> f32 {
        let (a, b) = (a.as_chunks::<4>().0, b.as_chunks::<4>().0);
        let mut sums = [0f32; 4];
        for (i, (&x, &y)) in a.iter().zip(b).enumerate() {
            sums[i % 4] += f32::from_le_bytes(x) * f32::from_le_bytes(y);
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    pub fn dot_i8(a: &[u8], b: &[u8]) -> i32 {
        a.iter()
            .zip(b)
            .map(|(&x, &y)| i32::from(x.cast_signed()) * i32::from(y.cast_signed()))
            .sum()
    }

    #[inline(always)]
    pub fn hamming(a: &[u8], b: &[u8]) -> u32 {
        let (a, b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        a.iter().zip(b).map(|(x, y)| (word(x) ^ word(y)).count_ones()).sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod popcnt {
    #[target_feature(enable = "popcnt")]
    pub fn hamming(a: &[u8], b: &[u8]) -> u32 {
        super::scalar::hamming(a, b)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    /// Loads 32 bytes, without alignment.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn load32(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: the array has 32 bytes, and the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    /// Loads 16 bytes, without alignment.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn load16(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: as above.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn dot_f32(a: &[u8], b: &[u8]) -> f32 {
        let len = a.len().min(b.len());
        let whole = len / 64 * 64;
        let (mut low, mut high) = (_mm256_setzero_ps(), _mm256_setzero_ps());
        for (x, y) in a.as_chunks::<64>().0.iter().zip(b.as_chunks::<64>().0) {
            let (x, y) = (x.as_chunks().0, y.as_chunks().0);
            let load = |bytes| _mm256_castsi256_ps(load32(bytes));
            low = _mm256_fmadd_ps(load(&x[0]), load(&y[0]), low);
            high = _mm256_fmadd_ps(load(&x[1]), load(&y[1]), high);
        }
        let sum = _mm256_add_ps(low, high);
        let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
        let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
        let sum = _mm_add_ss(sum, _mm_movehdup_ps(sum));
        _mm_cvtss_f32(sum) + super::scalar::dot_f32(&a[whole..len], &b[whole..len])
    }

    #[target_feature(enable = "avx2")]
    pub fn dot_i8(a: &[u8], b: &[u8]) -> i32 {
        let len = a.len().min(b.len());
        let whole = len / 32 * 32;
        let mut sums = _mm256_setzero_si256();
        for (x, y) in a.as_chunks::<32>().0.iter().zip(b.as_chunks::<32>().0) {
            let (x, y) = (x.as_chunks().0, y.as_chunks().0);
            let load = |bytes| _mm256_cvtepi8_epi16(load16(bytes));
            // A pair of products is at most 2 * 127 * 128, and 65,536 / 8 of them fit a sum.
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(load(&x[0]), load(&y[0])));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(load(&x[1]), load(&y[1])));
        }
        let sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum));
        _mm_cvtsi128_si32(sum) + super::scalar::dot_i8(&a[whole..len], &b[whole..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn kernels_agree_with_the_scalar_form(
            pairs in prop::collection::vec((any::<u8>(), any::<u8>()), 0..600),
        ) {
            let (a, b): (Vec<u8>, Vec<u8>) = pairs.into_iter().unzip();
            prop_assert_eq!(dot_i8(&a, &b), scalar::dot_i8(&a, &b));
            let words = a.len() / 8 * 8;
            let (a, b) = (&a[..words], &b[..words]);
            prop_assert_eq!(hamming(a, b), scalar::hamming(a, b));
            let floats = |bytes: &[u8]| -> Vec<u8> {
                bytes.iter().flat_map(|&byte| (f32::from(byte) / 16.0).to_le_bytes()).collect()
            };
            let (a, b) = (floats(a), floats(b));
            let (fast, slow) = (dot_f32(&a, &b), scalar::dot_f32(&a, &b));
            prop_assert!((fast - slow).abs() <= slow.abs() * 1e-5);
        }
    }

    #[test]
    fn sums_of_bytes_do_not_overflow() {
        let a = vec![0x80; 65_536];
        assert_eq!(dot_i8(&a, &a), 65_536 * 128 * 128);
    }
}
