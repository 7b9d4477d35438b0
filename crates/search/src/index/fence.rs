//! Changes that were committed under the locks of their keys and are not applied to indexes yet.
//!
//! ```text
//! thread   locks held: pending = now ── sequence number drawn ── unlock ── apply ── pending = none
//! query    cut = now ── waits until each thread's pending is none or at least the cut
//! ```
//!
//! Whatever was shown before a query began was committed before, so its number is below the cut.
//! Nothing waits for queries, and a thread with pending changes waits for no stripe: each wait ends
//! after the rest of one application.

use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

/// Counters of changes by the key's hash.
const SLOTS: usize = 1024;

/// Spins before a waiting query yields its processor.
const SPINS: u32 = 200;

/// A lower bound of the sequence numbers of a thread's pending changes.
#[derive(Debug)]
#[repr(align(128))]
pub struct Pending(AtomicU64);

/// Sequence numbers of changes, and the pending ones of each thread.
#[derive(Debug)]
pub struct Fence {
    sequence: AtomicU64,
    threads: RwLock<Vec<Arc<Pending>>>,
    /// Changes between commit and application, by the key's hash.
    in_flight: Box<[AtomicU32]>,
}

impl Default for Fence {
    fn default() -> Self {
        Fence {
            sequence: AtomicU64::new(1),
            threads: RwLock::default(),
            in_flight: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Fence {
    /// Registers a thread.
    pub fn join(&self) -> Arc<Pending> {
        let pending = Arc::new(Pending(AtomicU64::new(u64::MAX)));
        self.threads.write().push(pending.clone());
        pending
    }

    /// Removes a thread, which has no pending changes.
    pub fn leave(&self, pending: &Arc<Pending>) {
        self.threads.write().retain(|other| !Arc::ptr_eq(other, pending));
    }

    /// Begins a commit of the thread: its changes count as pending from now on.
    pub fn begin(&self, pending: &Pending) {
        if pending.0.load(Relaxed) == u64::MAX {
            pending.0.store(self.sequence.load(SeqCst), SeqCst);
        }
    }

    /// Draws the number of a change under the lock of its key.
    pub fn next(&self) -> u64 {
        self.sequence.fetch_add(1, SeqCst)
    }

    /// Ends the application of all pending changes of the thread.
    pub fn end(&self, pending: &Pending) {
        pending.0.store(u64::MAX, Release);
    }

    fn slot(&self, hash: u64) -> &AtomicU32 {
        &self.in_flight[(hash >> 20) as usize % SLOTS]
    }

    /// Counts a change as in flight, under the lock of its key. Returns whether an earlier change
    /// of the key may be: this one must state the whole document then, since it may be applied
    /// first.
    pub fn depart(&self, hash: u64) -> bool {
        self.slot(hash).fetch_add(1, SeqCst) != 0
    }

    /// Ends the flight of a change.
    pub fn arrive(&self, hash: u64) {
        self.slot(hash).fetch_sub(1, Release);
    }

    /// Whether any change but `own` ones of keys with this hash is in flight.
    pub fn is_in_flight(&self, hash: u64, own: u32) -> bool {
        self.slot(hash).load(Acquire) > own
    }

    /// Waits until all changes of other threads that were committed before are applied. The caller
    /// has applied its own, and holds no index.
    pub fn wait(&self, own: Option<&Arc<Pending>>) {
        let cut = self.sequence.load(SeqCst);
        for thread in self.threads.read().iter() {
            if own.is_some_and(|own| Arc::ptr_eq(own, thread)) {
                continue;
            }
            let mut spins = 0;
            while thread.0.load(SeqCst) < cut {
                spins += 1;
                if spins < SPINS {
                    std::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_query_waits_for_what_was_committed() {
        let (fence, applied) = (Arc::new(Fence::default()), Arc::new(AtomicBool::new(false)));
        let pending = fence.join();
        fence.begin(&pending);
        fence.next();
        let thread = {
            let (fence, applied) = (fence.clone(), applied.clone());
            std::thread::spawn(move || {
                fence.wait(None);
                assert!(applied.load(SeqCst));
            })
        };
        std::thread::yield_now();
        applied.store(true, SeqCst);
        fence.end(&pending);
        thread.join().unwrap();
        // Later commits are not waited for.
        fence.wait(None);
        fence.leave(&pending);
        assert!(fence.threads.read().is_empty());
    }

    #[test]
    fn changes_in_flight_are_counted_by_key() {
        let fence = Fence::default();
        assert!(!fence.depart(7 << 20));
        assert!(fence.depart(7 << 20));
        assert!(fence.is_in_flight(7 << 20, 1) && !fence.is_in_flight(7 << 20, 2));
        fence.arrive(7 << 20);
        fence.arrive(7 << 20);
        assert!(!fence.depart(7 << 20));
    }
}
