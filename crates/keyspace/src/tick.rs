//! What a worker does for the keyspace when it has a moment.

use crate::compact::{Compacted, FRAGMENTATION_PCT_MIN};
use crate::handle::Handle;
use crate::sweep::Swept;
use std::time::Duration;

/// Milliseconds after which a thread returns the free blocks in its cache, and has memory given back that no slab wanted.
const TRIM_EVERY_MS: i64 = 1000;

/// What a tick achieved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ticked {
    /// Of active expiry.
    pub swept: Swept,
    /// Of compaction.
    pub compacted: Compacted,
}

impl Ticked {
    /// True if another tick soon would find work to do.
    pub fn is_busy(&self) -> bool {
        self.compacted.unfinished && self.compacted.moved > 0
            || self.swept.expired * 10 > self.swept.looked_at
    }
}

/// How long each part of a tick may take, about; zero leaves it out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// Removing expired keys.
    pub expire: Duration,
    /// Moving entries out of sparse slabs.
    pub compact: Duration,
}

impl Handle {
    /// Periodic work: removes expired keys, moves entries out of sparse slabs, and gives back memory that this thread
    /// no longer needs; each of the first two takes at most half of `budget` or so. Every worker calls it about ten
    /// times a second, and may do so more often while it is idle and [`Ticked::is_busy`]. The thread is not in a batch.
    pub fn tick(&mut self, budget: Duration) -> Ticked {
        self.tick_at(Pace { expire: budget / 2, compact: budget / 2 })
    }

    /// The same at a pace of the caller's.
    pub fn tick_at(&mut self, pace: Pace) -> Ticked {
        let mut ticked = Ticked::default();
        self.refresh_clock();
        // Blocks in a thread's cache keep their slabs from being given back: a few each, but in every class.
        if self.now_ms.wrapping_sub(self.trimmed_at) >= TRIM_EVERY_MS {
            self.trimmed_at = self.now_ms;
            self.cache.trim();
            self.ks.heap.purge_unused();
        } else {
            self.cache.trim_if_asked();
        }
        if !pace.expire.is_zero() {
            self.enter();
            ticked.swept = self.expire_step(pace.expire);
            self.exit();
        }
        if !pace.compact.is_zero() {
            self.enter();
            ticked.compacted = self.compact_step(pace.compact, FRAGMENTATION_PCT_MIN);
            self.exit();
        }
        self.free_retired();
        ticked
    }
}
