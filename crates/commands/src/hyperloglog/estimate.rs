//! Estimate of the number of elements from the registers: Otmar Ertl, "New cardinality estimation
//! algorithms for HyperLogLog sketches" (2017), algorithm 6.

use super::sketch::{RANK_MAX, REGISTERS};

/// Number of registers with each value.
pub(super) type Histogram = [u32; 64];

/// 1 / (2 ln 2), the limit of the bias correction for many registers.
const ALPHA: f64 = 0.5 / std::f64::consts::LN_2;

/// The estimate, rounded to the nearest integer.
pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let share = |value: usize| f64::from(histogram[value]) / registers;
    let full = usize::from(RANK_MAX);
    let mut sum = registers * tau(1.0 - share(full));
    for value in (1..full).rev() {
        sum = 0.5 * (sum + f64::from(histogram[value]));
    }
    sum += registers * sigma(share(0));
    (ALPHA * registers * registers / sum).round() as u64
}

/// x + the sum over k of x^(2^k) 2^(k-1), for registers without an element.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut factor) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - the sum over k of (1 - x^(2^-k))^2 2^-k) / 3, for registers at their maximum.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut sum, mut factor) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_0_and_everything_is_finite() {
        let mut histogram = [0; 64];
        histogram[0] = REGISTERS as u32;
        assert_eq!(estimate(&histogram), 0);
        histogram = [0; 64];
        histogram[usize::from(RANK_MAX)] = REGISTERS as u32;
        assert!(estimate(&histogram) > 1 << 60);
    }

    #[test]
    fn few_elements_are_counted_exactly() {
        for elements in 1..20 {
            let mut histogram = [0; 64];
            histogram[0] = (REGISTERS - elements) as u32;
            histogram[1] = elements as u32;
            assert_eq!(estimate(&histogram), elements as u64);
        }
    }
}
