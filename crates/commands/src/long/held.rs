//! Stripes held by helper threads, shared by all threads.

use petrel_keyspace::KeyHash;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed};

/// Number of counters. Stripes that share one are taken for held together, which costs an attempt
/// on a helper.
const COUNTERS: usize = 4096;

/// The stripes that helpers hold, and the flag that ends their commands.
///
/// A helper removes its stripes after it has unlocked them, when another may have added the same:
/// hence counters.
#[derive(Debug)]
pub struct LongHeld {
    is_ending: AtomicBool,
    count: AtomicUsize,
    counters: Box<[AtomicU16]>,
}

impl Default for LongHeld {
    fn default() -> Self {
        let counters = (0..COUNTERS).map(|_| AtomicU16::new(0)).collect();
        LongHeld { is_ending: AtomicBool::new(false), count: AtomicUsize::new(0), counters }
    }
}

impl LongHeld {
    /// Ends the helpers' commands at shutdown.
    pub fn end(&self) {
        self.is_ending.store(true, Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Whether a helper holds any stripe.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether a helper holds the stripe of a key, or one that shares its counter.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        self.any() && self.counter(hash.stripe()).load(Relaxed) > 0
    }

    pub(super) fn add(&self, stripe: u32) {
        self.counter(stripe).fetch_add(1, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    pub(super) fn remove(&self, stripe: u32) {
        let before = self.counter(stripe).fetch_sub(1, Relaxed);
        debug_assert!(before > 0);
        self.count.fetch_sub(1, Relaxed);
    }

    fn counter(&self, stripe: u32) -> &AtomicU16 {
        &self.counters[stripe as usize % COUNTERS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_keyspace::KeyHasher;

    #[test]
    fn a_stripe_stays_held_while_another_helper_has_it() {
        let held = LongHeld::default();
        let hash = KeyHasher::new(1, 16).hash(b"k");
        held.add(hash.stripe());
        held.add(hash.stripe());
        held.remove(hash.stripe());
        assert!(held.holds(hash));
        held.remove(hash.stripe());
        assert!(!held.holds(hash) && !held.any());
    }
}
