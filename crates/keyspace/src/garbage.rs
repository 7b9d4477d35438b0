//! Large collections that are nobody's any more, waiting to be freed by a thread that has time for it.
//!
//! Freeing ten million elements takes a second or so. Who removes, overwrites or expires such a value only takes it out
//! of its table; if the program has said who collects ([`Keyspace::set_collector`]), the elements are left to that
//! thread, otherwise they are freed on the spot.

use crate::keyspace::Keyspace;
use crate::types::Large;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Collections of fewer elements are freed on the spot: it takes some microseconds.
pub(crate) const GARBAGE_LEN_MIN: usize = 256;

/// What waits to be freed, and who is told of it.
#[derive(Default)]
pub(crate) struct Garbage {
    waiting: Mutex<Vec<Large>>,
    collector: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Garbage {
    /// Takes a collection if there is a collector; gives it back otherwise.
    pub fn take(&self, large: Box<Large>) -> Option<Box<Large>> {
        let Some(collector) = self.collector.get() else { return Some(large) };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(*large);
        collector();
        None
    }
}

impl Keyspace {
    /// From now on, large collections are left to whoever calls [`Keyspace::collect_garbage`], and `notify` is called
    /// each time there is one: it returns at once, for it may be called by any thread. The first call counts.
    pub fn set_collector(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.garbage.collector.set(Box::new(notify));
    }

    /// Frees the large collections that were removed since the last call; returns how many elements they had.
    pub fn collect_garbage(&self) -> usize {
        let mut cache = self.heap.cache();
        let mut freed = 0;
        loop {
            let next = self.garbage.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(large) = next else { return freed };
            freed += large.len();
            large.release(&mut cache);
        }
    }
}
