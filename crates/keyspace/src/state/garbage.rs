//! Large collections without an owner, freed by a background thread.
//!
//! Freeing ten million elements takes about a second. Removing, overwriting or expiring such a
//! value only takes it out of its table. If the program has set a collector
//! ([`Keyspace::set_collector`]), that thread frees the elements, otherwise they are freed on the
//! spot.
//!
//! The collector would still take processor time from the worker threads, which would wait for its
//! whole time slices. So it works briefly and rests longer, while other threads are active and the
//! backlog is within its limit. A lower priority would not do: the thread would be preempted while
//! it holds a lock of the heap that others need.

use crate::state::keyspace::Keyspace;
use crate::structures::large::Large;
use petrel_heap::Breather;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Smaller collections are freed on the spot, which takes a few microseconds.
pub(crate) const GARBAGE_LEN_MIN: usize = 256;

/// Time that the collector works before it checks for active threads.
const WORK: Duration = Duration::from_micros(100);
/// Pause of the collector while other threads are active.
const REST: Duration = Duration::from_micros(300);
/// Time after its last batch during which a thread counts as active.
const SEEN: Duration = Duration::from_millis(20);
/// The collector does not rest if more than this many bytes are to be freed, or more than this part
/// of the memory limit.
const WAITING_BYTES_MAX: usize = 1 << 30;
const WAITING_SHARE: u64 = 8;

/// Collections to be freed, and the callback that wakes the collector.
#[derive(Default)]
pub(crate) struct Garbage {
    waiting: Mutex<Vec<Large>>,
    /// Bytes waiting to be freed or being freed.
    bytes: AtomicUsize,
    collector: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Number of threads that are freeing much.
    freeing: AtomicUsize,
}

/// A mark of a thread that frees much and yields to others.
struct Freeing(Arc<Keyspace>);

impl Freeing {
    fn begin(keyspace: &Arc<Keyspace>) -> Self {
        keyspace.garbage.freeing.fetch_add(1, Relaxed);
        Freeing(keyspace.clone())
    }
}

impl Drop for Freeing {
    fn drop(&mut self) {
        self.0.garbage.freeing.fetch_sub(1, Relaxed);
    }
}

impl Garbage {
    /// Takes a collection if there is a collector; returns it otherwise.
    pub fn take(&self, large: Box<Large>) -> Option<Box<Large>> {
        let Some(collector) = self.collector.get() else { return Some(large) };
        self.bytes.fetch_add(large.footprint(), Relaxed);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(*large);
        collector();
        None
    }

    /// Whether a thread is freeing much.
    pub fn is_freed(&self) -> bool {
        self.freeing.load(Relaxed) > 0
    }

    fn next(&self) -> Option<Large> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

impl Keyspace {
    /// Leaves large collections to the caller of [`Keyspace::collect_garbage`] from now on.
    /// `notify` is called for each one, by any thread, and must return at once. Only the first call
    /// has an effect.
    pub fn set_collector(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.garbage.collector.set(Box::new(notify));
    }

    /// Frees the large collections removed since the last call, yielding to active threads; returns
    /// their number of elements.
    pub fn collect_garbage(self: &Arc<Self>) -> usize {
        let mut cache = self.heap.cache();
        cache.breathe_with(self.breather());
        let mut freed = 0;
        while let Some(large) = self.garbage.next() {
            let bytes = large.footprint();
            freed += large.len();
            large.release(&mut cache);
            self.garbage.bytes.fetch_sub(bytes, Relaxed);
        }
        freed
    }

    /// Frees the waiting collections when the keyspace is dropped.
    pub(crate) fn free_garbage(&mut self) {
        let mut cache = self.heap.cache();
        while let Some(large) = self.garbage.next() {
            large.release(&mut cache);
        }
    }

    /// A limiter for a thread that frees much: it yields to the worker threads.
    pub(crate) fn breather(self: &Arc<Self>) -> Breather {
        let freeing = Freeing::begin(self);
        let mut began = Instant::now();
        let (mut batches, mut busy_until) = (0, began);
        Box::new(move || {
            let keyspace = &freeing.0;
            let now = Instant::now();
            if now - began < WORK {
                return;
            }
            let seen = keyspace.batches();
            if seen != batches {
                (batches, busy_until) = (seen, now + SEEN);
            }
            if now < busy_until && !keyspace.is_pressed() {
                thread::sleep(REST);
            }
            began = Instant::now();
        })
    }

    /// Changes whenever a thread begins or ends a batch.
    fn batches(&self) -> u64 {
        self.threads().iter().map(|thread| thread.batch.load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// Whether the backlog is so large that the collector must not rest.
    fn is_pressed(&self) -> bool {
        let max = match self.memory_limit.load(Relaxed) {
            0 => WAITING_BYTES_MAX,
            limit => WAITING_BYTES_MAX.min((limit / WAITING_SHARE) as usize),
        };
        self.garbage.bytes.load(Relaxed) > max
    }
}
