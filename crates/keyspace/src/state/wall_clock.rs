//! Unix time in milliseconds for callers without turns. Between two milliseconds, a read of the
//! processor's time-stamp counter, where the kernel trusts it, replaces a read of the clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time over which the counter's rate is measured at least, and until it is measured again.
const MEASURED_MIN: Duration = Duration::from_millis(10);
const MEASURED_MAX: Duration = Duration::from_secs(1);

/// Unix time in milliseconds.
pub(crate) fn unix_ms() -> i64 {
    unix_time().as_millis() as i64
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A thread's view of the time-stamp counter.
#[derive(Default)]
pub(crate) struct WallClock {
    /// The counter when the clock was read last, and the ticks from then to the next millisecond.
    read_at: u64,
    valid_for: u64,
    /// Begin of the measurement of the counter's rate, and the rate.
    began: Option<(Instant, u64)>,
    ticks_per_ms: u64,
}

impl WallClock {
    /// The time, if it may have changed since the last call.
    #[inline]
    pub fn changed(&mut self) -> Option<i64> {
        let ticks = counter();
        // A counter that was set back makes the difference large.
        if ticks.wrapping_sub(self.read_at) < self.valid_for {
            return None;
        }
        Some(self.read(ticks))
    }

    /// Makes the next call read the clock.
    pub fn forget(&mut self) {
        self.valid_for = 0;
    }

    #[cold]
    fn read(&mut self, ticks: u64) -> i64 {
        let time = unix_time();
        if counter_is_steady() {
            self.measure(ticks);
            let left = 1_000_000 - u64::from(time.subsec_nanos() % 1_000_000);
            // The counter was read before the clock, so the time ends rather too early.
            (self.read_at, self.valid_for) = (ticks, self.ticks_per_ms * left / 1_000_000);
        }
        time.as_millis() as i64
    }

    fn measure(&mut self, ticks: u64) {
        let now = Instant::now();
        let (began, first) = *self.began.get_or_insert((now, ticks));
        let passed = now.saturating_duration_since(began);
        if passed >= MEASURED_MIN {
            let ticks = u128::from(ticks.saturating_sub(first));
            // A rate beyond any processor's is a clock that was stopped.
            self.ticks_per_ms = (ticks * 1_000_000 / passed.as_nanos()).min(1 << 24) as u64;
        }
        if passed >= MEASURED_MAX {
            self.began = Some((now, ticks));
        }
    }
}

/// The time-stamp counter of the processor; 0 on processors other than x86-64.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn counter() -> u64 {
    // SAFETY: every x86-64 has the counter; reading it has no effect.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The time-stamp counter of the processor; 0 on processors other than x86-64.
#[cfg(not(target_arch = "x86_64"))]
pub fn counter() -> u64 {
    0
}

/// Whether the processor has a time-stamp counter with a constant rate that is equal on all cores,
/// as the kernel found.
pub fn counter_is_steady() -> bool {
    static STEADY: OnceLock<bool> = OnceLock::new();
    *STEADY.get_or_init(|| {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = flags.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        ["constant_tsc", "nonstop_tsc"].iter().all(|flag| line.split(' ').any(|word| word == *flag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_clock_to_the_millisecond() {
        let (mut clock, mut now) = (WallClock::default(), 0);
        let (mut calls, mut reads) = (0u64, 0u64);
        let began = Instant::now();
        // The clock may be set meanwhile, and the thread may sleep between two reads.
        let mut exact = 0u64;
        while began.elapsed() < Duration::from_millis(60) {
            let before = unix_ms();
            if let Some(time) = clock.changed() {
                (now, reads) = (time, reads + 1);
            }
            calls += 1;
            exact += u64::from(now >= before && now <= unix_ms());
        }
        assert!(exact * 100 >= calls * 99, "{exact} of {calls}");
        if cfg!(target_arch = "x86_64") && counter_is_steady() {
            assert!(reads < calls, "the counter replaces reads");
        }
        clock.forget();
        assert!(clock.changed().is_some());
    }
}
