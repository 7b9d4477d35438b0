//! [`Hits`]: a count that threads add to without sharing cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Threads that have a counter of their own; others share one.
const OWN: usize = 64;

/// Alone in its pair of cache lines, which are fetched together.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// A count of hits.
pub(super) struct Hits {
    /// Each is written by one thread at most.
    own: Box<[Counter; OWN]>,
    shared: Counter,
}

/// Counters that no thread has.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Maximum number of threads at the same time so far.
static EVER: Mutex<usize> = Mutex::new(0);

const UNASSIGNED: usize = usize::MAX;
const SHARED: usize = OWN;

thread_local! {
    /// Index of this thread's counter in every count.
    static COUNTER: Cell<usize> = const { Cell::new(UNASSIGNED) };
    /// Gives the counter back when the thread ends.
    static PLACE: Place = Place::take();
}

struct Place(usize);

impl Place {
    fn take() -> Self {
        if let Some(counter) = FREE.lock().pop() {
            return Self(counter);
        }
        let mut ever = EVER.lock();
        let counter = (*ever).min(SHARED);
        *ever = (*ever + 1).min(SHARED);
        Self(counter)
    }
}

impl Drop for Place {
    /// The next owner sees what this thread has counted: the lock comes between.
    fn drop(&mut self) {
        COUNTER.set(SHARED);
        if self.0 < SHARED {
            FREE.lock().push(self.0);
        }
    }
}

impl Default for Hits {
    fn default() -> Self {
        Self {
            own: Box::new([const { Counter(AtomicU64::new(0)) }; OWN]),
            shared: Counter::default(),
        }
    }
}

impl Hits {
    /// Adds one; returns the count of this thread so far, about.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        let counter = match COUNTER.get() {
            UNASSIGNED => Self::assign(),
            counter => counter,
        };
        match self.own.get(counter) {
            // No other thread writes it, so that nothing is lost.
            Some(Counter(own)) => {
                let count = own.load(Relaxed).wrapping_add(1);
                own.store(count, Relaxed);
                count
            }
            None => self.shared.0.fetch_add(1, Relaxed),
        }
    }

    #[cold]
    fn assign() -> usize {
        // A thread that is ending has given its counter back.
        let counter = PLACE.try_with(|place| place.0).unwrap_or(SHARED);
        COUNTER.set(counter);
        counter
    }

    /// The count of all threads.
    pub(super) fn sum(&self) -> u64 {
        let own = self.own.iter().map(|counter| counter.0.load(Relaxed)).sum::<u64>();
        own + self.shared.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hit_is_lost_however_many_threads_come_and_go() {
        let hits = Hits::default();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..OWN + 8 {
                    scope.spawn(|| {
                        (0..1000).for_each(|_| {
                            hits.count();
                        })
                    });
                }
            });
        }
        assert_eq!(hits.sum(), 3 * (OWN as u64 + 8) * 1000);
    }
}
