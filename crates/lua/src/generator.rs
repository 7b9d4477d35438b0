//! The generator of POSIX's `lrand48`, so that a seed gives the numbers that scripts know from
//! Redis.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// Bits below the seed in the initial state.
const SEED_LOW: u64 = 0x330E;
/// The largest number drawn.
pub(crate) const DRAWN_MAX: u32 = 0x7FFF_FFFF;

/// State of the generator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of a seed, of which 32 bits count.
    pub fn new(seed: u64) -> Self {
        Random((seed & 0xFFFF_FFFF) << 16 | SEED_LOW)
    }

    /// 31 bits.
    pub fn draw(&mut self) -> u32 {
        self.0 = MULTIPLIER.wrapping_mul(self.0).wrapping_add(INCREMENT) & MASK;
        (self.0 >> 17) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_numbers_of_posix() {
        let mut random = Random::new(5);
        assert_eq!(f64::from(random.draw()) / f64::from(DRAWN_MAX), 0.5248395793721264);
    }
}
