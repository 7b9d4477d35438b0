//! Number of processors that the process may use now.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::available_parallelism;
use std::time::Instant;

/// Age in milliseconds after which the number is read again: affinity and quotas change while a
/// server runs. Reading takes about 0.1 ms.
const MAX_AGE_MS: usize = 5_000;

/// The number of available processors (CPU affinity, cgroup quota), at most [`MAX_AGE_MS`] old.
#[derive(Default)]
pub struct Processors {
    /// Zero before the first look.
    count: AtomicUsize,
    /// Milliseconds from the start of the server to the last look.
    seen_ms: AtomicUsize,
}

impl Processors {
    /// Returns the number; at least one. `started` is the same at each call.
    pub fn count(&self, started: Instant) -> usize {
        self.count_at(started.elapsed().as_millis() as usize)
    }

    fn count_at(&self, now_ms: usize) -> usize {
        let age = now_ms.saturating_sub(self.seen_ms.load(Relaxed));
        match self.count.load(Relaxed) {
            count if count > 0 && age < MAX_AGE_MS => count,
            _ => self.look(now_ms),
        }
    }

    #[cold]
    fn look(&self, now_ms: usize) -> usize {
        // Unknown: no reason to leave a worker without connections.
        let count = available_parallelism().map_or(usize::MAX, usize::from);
        self.count.store(count, Relaxed);
        self.seen_ms.store(now_ms, Relaxed);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_again_when_it_is_old() {
        let processors = Processors::default();
        let available = available_parallelism().unwrap().get();
        assert_eq!(processors.count(Instant::now()), available);
        processors.count.store(available + 7, Relaxed);
        assert_eq!(processors.count_at(MAX_AGE_MS - 1), available + 7);
        assert_eq!(processors.count_at(2 * MAX_AGE_MS), available);
        processors.count.store(available + 7, Relaxed);
        assert_eq!(processors.count_at(3 * MAX_AGE_MS - 1), available + 7);
    }
}
