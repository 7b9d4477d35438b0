//! A worker's periodic upkeep of the keyspace.

use crate::handle::Handle;
use crate::upkeep::compact::{Compacted, FRAGMENTATION_PCT_MIN};
use crate::upkeep::sweep::Swept;
use petrel_lock::{Forever, Patience};
use std::time::Duration;

/// Interval in milliseconds at which a thread returns the free blocks in its cache, and unused
/// memory of slabs is released.
const TRIM_EVERY_MS: i64 = 1000;

/// Maximum time for which the upkeep of the heap is deferred.
const PUT_OFF_MAX_MS: i64 = 10_000;

/// Result of a tick.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ticked {
    /// Active expiry.
    pub swept: Swept,
    /// Compaction.
    pub compacted: Compacted,
}

impl Ticked {
    /// True if another tick would find work soon.
    pub fn is_busy(&self) -> bool {
        self.compacted.unfinished && self.compacted.moved > 0
            || self.swept.expired * 10 > self.swept.looked_at
    }
}

/// Approximate time limits for the parts of a tick; zero skips a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// Removing expired keys.
    pub expire: Duration,
    /// Moving entries out of sparse slabs.
    pub compact: Duration,
}

impl Handle {
    /// Periodic work: removes expired keys, moves entries out of sparse slabs, and releases memory
    /// that this thread no longer needs; each of the first two takes at most about half of
    /// `budget`. Every worker calls it about ten times a second, and may do so more often while it
    /// is idle and [`Ticked::is_busy`]. The thread is not in a batch.
    pub fn tick(&mut self, budget: Duration) -> Ticked {
        self.tick_at(Pace { expire: budget / 2, compact: budget / 2 })
    }

    /// Like [`Handle::tick`], at another pace.
    pub fn tick_at(&mut self, pace: Pace) -> Ticked {
        self.tick_unless(pace, Forever)
    }

    /// Like [`Handle::tick_at`], but skips waiting for another thread with the exclusive lock once
    /// `give_up` returns true.
    pub fn tick_unless(&mut self, pace: Pace, give_up: impl Patience + Copy) -> Ticked {
        let mut ticked = Ticked::default();
        self.refresh_clock();
        let heap_too = !self.puts_off_heap();
        if heap_too {
            self.trim_now_and_then();
        }
        if !pace.expire.is_zero() {
            if self.enter_unless(give_up) {
                ticked.swept = self.expire_step(pace.expire);
            }
            self.exit();
        }
        if !pace.compact.is_zero() && heap_too {
            if self.enter_unless(give_up) {
                ticked.compacted = self.compact_step(pace.compact, FRAGMENTATION_PCT_MIN);
            }
            self.exit();
        }
        self.free_retired();
        ticked
    }

    /// Blocks in a thread's cache keep their slabs from being released: a few each, but in every
    /// class.
    fn trim_now_and_then(&mut self) {
        if self.now_ms.wrapping_sub(self.upkeep.trimmed_at) >= TRIM_EVERY_MS {
            self.upkeep.trimmed_at = self.now_ms;
            self.cache.trim();
            self.ks.heap.purge_unused();
        } else {
            self.cache.trim_if_asked();
        }
    }

    /// Whether upkeep leaves the heap alone, for a limited time: a thread that frees much holds one
    /// of the heap's locks half of the time, and may be preempted meanwhile. Workers must not wait
    /// for that.
    fn puts_off_heap(&mut self) -> bool {
        if !self.ks.garbage.is_freed() {
            self.upkeep.put_off_since = 0;
            return false;
        }
        if self.upkeep.put_off_since == 0 {
            self.upkeep.put_off_since = self.now_ms;
        }
        self.now_ms.wrapping_sub(self.upkeep.put_off_since) < PUT_OFF_MAX_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::keyspace::{Keyspace, Options};

    #[test]
    fn a_tick_leaves_out_what_it_would_have_to_wait_for() {
        let keyspace = Keyspace::new(&Options::default());
        let mut owner = keyspace.attach();
        owner.enter();
        owner.lock_all();
        let pace = Pace { expire: Duration::from_millis(1), compact: Duration::from_millis(1) };
        let other = std::thread::spawn(move || {
            let mut other = keyspace.attach();
            let ticked = other.tick_unless(pace, || true);
            (ticked.is_busy(), other.is_inside())
        });
        assert_eq!(other.join().unwrap(), (false, false));
        owner.unlock();
        owner.exit();
    }

    #[test]
    fn upkeep_leaves_the_heap_to_who_frees_much_but_not_for_ever() {
        let keyspace = Keyspace::new(&Options::default());
        let mut handle = keyspace.attach();
        assert!(!handle.puts_off_heap());
        let breather = keyspace.breather();
        assert!(handle.puts_off_heap());
        handle.upkeep.put_off_since -= PUT_OFF_MAX_MS;
        assert!(!handle.puts_off_heap());
        drop(breather);
        assert!(!handle.puts_off_heap());
    }
}
