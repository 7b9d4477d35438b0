//! The stamp of entries: one bit that tells whether the running snapshot has taken them.

use petrel_heap::{Cache, Heap};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The bit of an entry's value length field that holds its stamp.
pub(crate) const STAMP: u16 = 1 << 15;
/// Flag beside the stamp: a snapshot is running.
const TAKING: u16 = 1;

/// The stamp of new entries, and whether a snapshot is running. All threads share it as a word of
/// the heap, which the cache used to build an entry refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp<'h>(&'h AtomicU16);

impl<'h> Stamp<'h> {
    /// The stamp of the keyspace of a heap.
    #[inline]
    pub fn of(heap: &'h Heap) -> Self {
        Stamp(heap.shared_word())
    }

    /// Like `new`, through a thread's cache.
    #[inline]
    pub fn through(cache: &'h Cache) -> Self {
        Stamp(cache.shared_word())
    }

    /// The stamp of new entries.
    #[inline]
    pub fn now(self) -> u16 {
        self.0.load(Relaxed) & STAMP
    }

    /// Whether a snapshot is being taken.
    #[inline]
    pub fn is_taking(self) -> bool {
        self.0.load(Relaxed) & TAKING != 0
    }

    /// Begins a snapshot: all present entries have the old stamp from now on. Everything is held.
    pub fn turn_over(self) {
        self.0.store((self.now() ^ STAMP) | TAKING, Relaxed);
    }

    /// Ends the snapshot. For a thread that sees this late, every entry already has the new stamp.
    pub fn settle(self) {
        self.0.store(self.now(), Relaxed);
    }
}
