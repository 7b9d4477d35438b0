//! Random numbers, the same in every run; `bench/rust` compiles this file, too.

/// A small generator (Vigna's xorshift64*): three shifts and a multiplication per number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator; the seed determines its stream.
    pub fn new(seed: u64) -> Random {
        Random(mix(seed) | 1)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 where there is none.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }
}

/// Spreads the bits of a number (the finaliser of splitmix64).
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Maps 64 random bits to `0..bound` without a division.
#[inline]
pub fn scale(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}
