//! [`Hits`]: a count that threads add to without sharing cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters; threads take turns when they first count.
const COUNTERS: usize = 16;

thread_local! {
    static COUNTER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Alone in its pair of cache lines, which are fetched together.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// A count of hits.
#[derive(Default)]
pub(super) struct Hits([Counter; COUNTERS]);

impl Hits {
    /// Adds one.
    #[inline]
    pub(super) fn count(&self) {
        let counter = match COUNTER.get() {
            usize::MAX => Self::assign(),
            counter => counter,
        };
        self.0[counter % COUNTERS].0.fetch_add(1, Relaxed);
    }

    #[cold]
    fn assign() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let counter = NEXT.fetch_add(1, Relaxed) % COUNTERS;
        COUNTER.set(counter);
        counter
    }

    /// The count of all threads.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|counter| counter.0.load(Relaxed)).sum()
    }
}
