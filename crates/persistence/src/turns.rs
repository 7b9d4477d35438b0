//! Yields the processor from background threads to serving threads.

use std::time::{Duration, Instant};

/// Time after which such a thread gives the processor away.
const RUN_MAX: Duration = Duration::from_micros(100);

/// Maximum of the running time while other threads use the processor for as long at each yield:
/// otherwise background work would starve on a busy machine.
const BUSY_RUN_MAX: Duration = Duration::from_millis(1);

/// Decides when a thread yields. With fewer cores than threads, serving threads would otherwise
/// wait for a whole time slice.
pub(crate) struct Turns {
    /// Time of the last yield.
    ran_since: Instant,
    /// Running time until the next yield.
    run_max: Duration,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { ran_since: Instant::now(), run_max: RUN_MAX }
    }
}

impl Turns {
    /// Whether the thread has run for long enough.
    pub fn is_over(&self) -> bool {
        self.ran_since.elapsed() >= self.run_max
    }

    /// Gives the processor away. The thread holds nothing, and is in no batch.
    pub fn give_way(&mut self) {
        let left = Instant::now();
        std::thread::yield_now();
        self.ran_since = Instant::now();
        self.run_max = (self.ran_since - left).clamp(RUN_MAX, BUSY_RUN_MAX);
    }
}
