//! `math.random` and `math.randomseed`.

use crate::generator::{DRAWN_MAX, Random};
use crate::vm::{Raise, Stack};
use std::ffi::c_int;

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
