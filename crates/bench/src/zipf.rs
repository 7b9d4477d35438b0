//! Numbers drawn by a popularity of Zipf.

use crate::random::Random;

/// Draws a number from 0 to 1.
pub fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Draws ranks from 0 with probability proportional to `(rank + 1)^-alpha`, by rejection-inversion
/// (Hörmann and Derflinger 1996), in constant time and without a table.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: f64,
    alpha: f64,
    first: f64,
    last: f64,
    shortcut: f64,
}

impl Zipf {
    /// Makes a distribution over `count` ranks.
    pub fn new(count: u64, alpha: f64) -> Zipf {
        let mut zipf = Zipf { count: count as f64, alpha, first: 0.0, last: 0.0, shortcut: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-alpha));
        zipf
    }

    /// Draws a rank from 0.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.last + unit(random) * (self.first - self.last);
            let x = self.inverse(u);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.shortcut || u >= self.integral(rank + 0.5) - rank.powf(-self.alpha)
            {
                return rank as u64 - 1;
            }
        }
    }

    /// Integral of `x^-alpha`.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.alpha;
        if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.alpha;
        match power.abs() < 1e-9 {
            true => area.exp(),
            // Rounding may leave it just outside of the range in which the root exists.
            false => (1.0 + area * power).max(f64::MIN_POSITIVE).powf(1.0 / power),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_their_probability_says() {
        for alpha in [0.5, 0.99, 1.0, 2.1] {
            let (zipf, mut random) = (Zipf::new(1000, alpha), Random::new(3));
            let mut counts = vec![0u32; 1000];
            let draws = 200_000;
            (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
            let all: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-alpha)).sum();
            for rank in [0usize, 1, 2, 9] {
                let want = (rank as f64 + 1.0).powf(-alpha) / all * f64::from(draws);
                let got = f64::from(counts[rank]);
                assert!((got - want).abs() < want * 0.05 + 60.0, "{alpha} {rank}: {got} {want}");
            }
        }
    }
}
