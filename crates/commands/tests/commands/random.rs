//! Random calls of commands.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A generator of numbers (xorshift*).
pub struct Random(u64);

impl Random {
    /// Seeds the generator from `PETREL_TEST_SEED` or the clock, and prints the seed, so that a
    /// failure can be repeated.
    pub fn seeded() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = std::env::var("PETREL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(now);
        eprintln!("PETREL_TEST_SEED={seed}");
        Random(seed | 1)
    }

    /// A generator of the numbers of a seed.
    pub fn of(seed: u64) -> Self {
        Random(seed | 1)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    /// Draws one of several choices.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// Duration of a random test: `PETREL_TEST_SECONDS`, or 2 seconds.
pub fn duration() -> Duration {
    let seconds = std::env::var("PETREL_TEST_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}
