//! `math.random`: the generator of POSIX's `lrand48`, so that a seed gives the numbers that scripts
//! know from Redis.

use crate::vm::{Raise, Stack};
use std::ffi::c_int;

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// What is below the seed in the initial state.
const SEED_LOW: u64 = 0x330E;
/// The largest number drawn.
const DRAWN_MAX: u32 = 0x7FFF_FFFF;

/// State of the generator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of a seed, of which 32 bits count.
    pub fn new(seed: u64) -> Self {
        Random((seed & 0xFFFF_FFFF) << 16 | SEED_LOW)
    }

    /// 31 bits.
    fn draw(&mut self) -> u32 {
        self.0 = MULTIPLIER.wrapping_mul(self.0).wrapping_add(INCREMENT) & MASK;
        (self.0 >> 17) as u32
    }
}

/// `math.random([m [, n]])`
pub(crate) fn random(stack: Stack) -> Result<c_int, Raise> {
    let drawn = stack.with(|extra| extra.random.draw());
    let share = f64::from(drawn % DRAWN_MAX) / f64::from(DRAWN_MAX);
    const EMPTY: &str = "interval is empty";
    match stack.top() {
        0 => stack.push_number(share),
        1 => {
            let upper = stack.check_integer(1)? as i32;
            if upper < 1 {
                return Err(Raise::Argument(1, EMPTY.into()));
            }
            stack.push_number((share * f64::from(upper)).floor() + 1.0);
        }
        2 => {
            let (lower, upper) = (stack.check_integer(1)? as i32, stack.check_integer(2)? as i32);
            if lower > upper {
                return Err(Raise::Argument(2, EMPTY.into()));
            }
            let width = f64::from(upper) - f64::from(lower) + 1.0;
            stack.push_number((share * width).floor() + f64::from(lower));
        }
        _ => return Err(Raise::fixed("wrong number of arguments")),
    }
    Ok(1)
}

/// `math.randomseed(x)`
pub(crate) fn randomseed(stack: Stack) -> Result<c_int, Raise> {
    let seed = stack.check_integer(1)?;
    stack.with(|extra| extra.random = Random::new(seed as u64));
    Ok(0)
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
