//! The checksum of RDB files and `DUMP` payloads: CRC-64 in the variant of Redis (polynomial of
//! Jones, reflected, both ends zero).

use crc_fast::{CrcAlgorithm, Digest};

/// The polynomial with its bits reflected: the lowest bit stands for the highest power.
const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();

/// The checksum of bytes.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes)
}

/// The checksum of bytes that come one after another.
pub(super) struct Sum(Digest);

impl Sum {
    /// Starts a checksum.
    pub(super) fn new() -> Self {
        Sum(Digest::new(CrcAlgorithm::Crc64Redis))
    }

    /// Adds bytes.
    #[inline]
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Checksum of the bytes added so far.
    pub(super) fn value(&self) -> u64 {
        self.0.finalize()
    }
}

/// Combines the checksum `head` with the checksum `tail` of the `tail_len` bytes after it.
///
/// With both ends zero a checksum is the remainder of the message as a polynomial, so that of the
/// whole is the sum of the tail's and of the head's times x to the power of the bits that follow
/// it.
pub(super) fn join(head: u64, tail: u64, tail_len: u64) -> u64 {
    times(head, power(tail_len)) ^ tail
}

/// The polynomial 1, reflected.
const ONE: u64 = 1 << 63;

/// x to the power of 8 times `bytes`.
fn power(mut bytes: u64) -> u64 {
    let mut square = ONE >> 8;
    let mut product = ONE;
    while bytes > 0 {
        if bytes & 1 != 0 {
            product = times(product, square);
        }
        square = times(square, square);
        bytes >>= 1;
    }
    product
}

/// The product of two remainders.
fn times(a: u64, b: u64) -> u64 {
    let (mut product, mut shifted) = (0, a);
    for bit in (0..64).rev() {
        if b >> bit & 1 != 0 {
            product ^= shifted;
        }
        // Times x: towards the lower bits, and the remainder of what falls out.
        shifted = shifted >> 1 ^ if shifted & 1 != 0 { POLYNOMIAL } else { 0 };
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_redis() {
        assert_eq!(checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn sums_of_parts_join() {
        let text = b"The quick brown fox jumps over the lazy dog".repeat(40);
        for at in [0, 1, 9, 100, text.len() - 1, text.len()] {
            let (head, tail) = text.split_at(at);
            let joined = join(checksum(head), checksum(tail), tail.len() as u64);
            assert_eq!(joined, checksum(&text), "{at}");
        }
        let mut sum = Sum::new();
        text.chunks(7).for_each(|chunk| sum.update(chunk));
        assert_eq!(sum.value(), checksum(&text));
    }
}
