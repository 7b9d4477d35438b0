//! State of the running compaction, shared by all threads (`upkeep/compact.rs`).

use petrel_heap::Evacuation;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// State of the compaction, shared by all threads.
#[derive(Default)]
pub(crate) struct Compaction {
    pub(crate) state: Mutex<CompactionState>,
    pub(crate) counts: CompactionCounts,
}

/// Counters of compaction, since the last reset.
#[derive(Default)]
pub(crate) struct CompactionCounts {
    /// Blocks moved: entries, and those inside large collections.
    pub(crate) moved: AtomicU64,
    /// Keys with moved entries.
    pub(crate) keys: AtomicU64,
    /// Microseconds of the finished rounds.
    pub(crate) micros: AtomicU64,
}

/// Statistics of compaction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CompactionStats {
    /// Blocks moved: entries, and those inside large collections.
    pub moved: u64,
    /// Keys with moved entries.
    pub keys: u64,
    /// Time of all finished rounds.
    pub time: Duration,
    /// Time of the running round, if any.
    pub current: Option<Duration>,
}

impl Compaction {
    /// Statistics; a round in progress on another thread counts as unfinished.
    pub(crate) fn stats(&self) -> CompactionStats {
        let current = match self.state.try_lock() {
            Ok(state) => state.round.as_ref().map(|round| round.began.elapsed()),
            Err(_) => Some(Duration::ZERO),
        };
        let CompactionCounts { moved, keys, micros } = &self.counts;
        let time = Duration::from_micros(micros.load(Relaxed));
        CompactionStats { moved: moved.load(Relaxed), keys: keys.load(Relaxed), time, current }
    }

    /// Resets the counters.
    pub(crate) fn reset(&self) {
        let CompactionCounts { moved, keys, micros } = &self.counts;
        [moved, keys, micros].into_iter().for_each(|count| count.store(0, Relaxed));
    }
}

#[derive(Default)]
pub(crate) struct CompactionState {
    pub(crate) round: Option<Round>,
    pub(crate) last: Option<Ended>,
}

/// Result of the last round.
pub(crate) struct Ended {
    pub(crate) at: Instant,
    /// Unused memory, in bytes.
    pub(crate) waste: u64,
    /// Entries that it moved.
    pub(crate) moved: usize,
}

/// A round: one walk over all tables.
pub(crate) struct Round {
    pub(crate) moved: usize,
    pub(crate) evacuation: Evacuation,
    pub(crate) began: Instant,
    pub(crate) stripe: u32,
    pub(crate) db: u16,
    pub(crate) bucket: usize,
    /// Position inside the bucket's large collections: the slot, and the collection's own cursor.
    pub(crate) inside: (usize, u64),
}

impl Round {
    /// Continues with the next stripe.
    pub(crate) fn pass_over_stripe(&mut self) {
        (self.stripe, self.db, self.bucket, self.inside) = (self.stripe + 1, 0, 0, (0, 0));
    }
}
