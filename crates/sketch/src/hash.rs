//! MurmurHash2 in the widths of 32 and 64 bits, by Austin Appleby (public domain).

/// Hashes bytes to 64 bits (`MurmurHash64A`).
#[inline]
pub fn murmur64(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut h = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ k >> R).wrapping_mul(M);
        h = (h ^ k).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        h = (h ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    h = (h ^ h >> R).wrapping_mul(M);
    h ^ h >> R
}

/// Hashes bytes to 32 bits (`MurmurHash2`).
#[inline]
pub fn murmur32(bytes: &[u8], seed: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // The length is cut to 32 bits, as the reference does.
    let mut h = seed ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ k >> R).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        h = (h ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    h = (h ^ h >> 13).wrapping_mul(M);
    h ^ h >> 15
}

/// [`murmur32`] with several seeds at once: what does not depend on the seed is computed once.
#[inline]
pub fn murmur32_each<const N: usize>(bytes: &[u8], seeds: [u32; N]) -> [u32; N] {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // Loops over an array in place become vector instructions, `map` does not.
    let mut hashes = seeds;
    hashes.iter_mut().for_each(|h| *h ^= bytes.len() as u32);
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ k >> R).wrapping_mul(M);
        hashes.iter_mut().for_each(|h| *h = h.wrapping_mul(M) ^ k);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let last = u32::from_le_bytes(last);
        hashes.iter_mut().for_each(|h| *h = (*h ^ last).wrapping_mul(M));
    }
    for h in &mut hashes {
        *h = (*h ^ *h >> 13).wrapping_mul(M);
        *h ^= *h >> 15;
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        // Known results of the reference implementation.
        assert_eq!(murmur64(b"", 0), 0);
        assert_ne!(murmur64(b"abcdefgh", 1), murmur64(b"abcdefgh\0", 1));
        assert_eq!(murmur32(b"", 0), 0);
        assert_ne!(murmur32(b"abcd", 1), murmur32(b"abcd\0", 1));
    }

    #[test]
    fn several_seeds_give_the_same() {
        let text = b"a text of some length";
        for len in 0..text.len() {
            let seeds = [0, 1, 7, 1919, u32::MAX];
            let expected = seeds.map(|seed| murmur32(&text[..len], seed));
            assert_eq!(murmur32_each(&text[..len], seeds), expected);
        }
    }
}
