//! What workers count of their traffic, and the rates that follow from it.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// One worker's figures, on cache lines of their own: it alone writes them, once per turn.
#[derive(Default)]
#[repr(align(128))]
pub struct Traffic {
    /// Bytes received.
    pub received: AtomicU64,
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Turns of its loop.
    pub turns: AtomicU64,
    /// Connections' chunks of input.
    pub reads: AtomicU64,
    /// Connections' pieces of output.
    pub writes: AtomicU64,
    /// Bytes that its connections hold in buffers: unfinished input, queued commands, unsent output.
    pub buffered: AtomicI64,
    /// Connections that `CLIENT PAUSE` holds back.
    pub paused: AtomicUsize,
    /// Connections that watch keys.
    pub watchers: AtomicI64,
    /// Keys watched, once for each connection that watches them.
    pub watched: AtomicI64,
    /// Most input that a connection held lately.
    pub input_peak: AtomicU64,
    /// Most output that a connection held lately.
    pub output_peak: AtomicU64,
}

impl Traffic {
    /// A connection watches so many keys instead of so many.
    pub fn watch(&self, before: u32, now: u32) {
        self.watched.fetch_add(i64::from(now) - i64::from(before), Relaxed);
        self.watchers.fetch_add(i64::from(now > 0) - i64::from(before > 0), Relaxed);
    }

    /// Halves the peaks, so that they tell of the last seconds.
    pub fn forget_peaks(&self) {
        for peak in [&self.input_peak, &self.output_peak] {
            peak.store(peak.load(Relaxed) / 2, Relaxed);
        }
    }
}

/// Adds to a figure with one writer.
#[inline]
pub fn add(figure: &AtomicU64, n: u64) {
    figure.store(figure.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Raises a figure with one writer, apart from those who take it.
#[inline]
pub fn raise(figure: &AtomicU64, to: u64) {
    if to > figure.load(Relaxed) {
        figure.store(to, Relaxed);
    }
}

/// Sums over all workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Commands executed.
    pub commands: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Turns.
    pub turns: u64,
}

/// Samples that a rate is the mean of.
const SAMPLES: usize = 16;

/// Recent rates per second, sampled by one worker's upkeep.
#[derive(Default)]
pub struct Rates(Mutex<Sampled>);

#[derive(Default)]
struct Sampled {
    last: Totals,
    last_ms: i64,
    rates: [Rate; SAMPLES],
    next: usize,
}

/// Events per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Commands.
    pub commands: f64,
    /// Bytes received.
    pub received: f64,
    /// Bytes sent.
    pub sent: f64,
    /// Turns.
    pub turns: f64,
}

impl Rates {
    /// Notes the totals as they are at `now_ms`.
    pub fn sample(&self, now_ms: i64, totals: Totals) {
        let mut sampled = self.0.lock();
        let seconds = (now_ms - sampled.last_ms) as f64 / 1000.0;
        if sampled.last_ms != 0 && seconds > 0.0 {
            // After a reset of the statistics a total may be less than before.
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            let last = sampled.last;
            let at = sampled.next;
            sampled.rates[at] = Rate {
                commands: rate(totals.commands, last.commands),
                received: rate(totals.received, last.received),
                sent: rate(totals.sent, last.sent),
                turns: rate(totals.turns, last.turns),
            };
            sampled.next = (at + 1) % SAMPLES;
        }
        sampled.last = totals;
        sampled.last_ms = now_ms;
    }

    /// The mean of the recent samples.
    pub fn mean(&self) -> Rate {
        let sampled = self.0.lock();
        let mean =
            |part: fn(&Rate) -> f64| sampled.rates.iter().map(part).sum::<f64>() / SAMPLES as f64;
        Rate {
            commands: mean(|rate| rate.commands),
            received: mean(|rate| rate.received),
            sent: mean(|rate| rate.sent),
            turns: mean(|rate| rate.turns),
        }
    }

    /// Forgets all samples.
    pub fn reset(&self) {
        *self.0.lock() = Sampled::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_over_sixteen_samples() {
        let rates = Rates::default();
        for step in 0..=SAMPLES as u64 {
            let totals = Totals { commands: step * 50, received: step * 10, ..Totals::default() };
            rates.sample(1000 + step as i64 * 100, totals);
        }
        assert_eq!(rates.mean().commands, 500.0);
        assert_eq!(rates.mean().received, 100.0);
        rates.sample(10_000, Totals::default());
        assert!(rates.mean().commands < 500.0);
        rates.reset();
        assert_eq!(rates.mean().commands, 0.0);
    }
}
