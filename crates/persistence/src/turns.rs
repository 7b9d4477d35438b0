//! How a thread that works in the background takes turns with those that serve.

use std::time::{Duration, Instant};

/// Time after which such a thread gives the processor away.
const RUN_MAX: Duration = Duration::from_micros(100);

/// The most that this grows to where others keep the processor for as long each time: else little
/// would be left of a busy machine for what is done in the background.
const BUSY_RUN_MAX: Duration = Duration::from_millis(1);

/// When a thread is to give the processor away. Where there are fewer cores than threads, those
/// that serve go first; they would have to wait for a whole time slice.
pub(crate) struct Turns {
    /// When it last did so.
    ran_since: Instant,
    /// How long it may run until it does so again.
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
