//! Which clients have read which keys of a stripe: the tables of client-side caching
//! (`observers/tracking.rs` says how they are used).

pub(crate) mod names;
pub(crate) mod readers;
pub(crate) mod tracked;

pub(crate) use readers::Registry;
pub use readers::{Reader, ReaderId, ReadersView};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
pub use tracked::Readers;
pub(crate) use tracked::{SideTables, Tracked};

/// Bits of what a stripe says: some key is tracked, and some that have no entry in database 0 whose
/// slot could bear the mark.
pub(crate) const TRACKED: u8 = 1;
pub(crate) const TRACKED_BY_NAME: u8 = 2;

/// What all threads share of the table.
#[derive(Default)]
pub(crate) struct Tracking {
    pub tables: SideTables,
    pub readers: Registry,
    /// Keys that the table may hold; 0 for any number.
    pub(crate) keys_max: AtomicUsize,
    /// The table may hold more: the limit was lowered, or there was no time to forget them all.
    pub(crate) suspect: AtomicBool,
    /// The stripe in which keys are forgotten next.
    pub(crate) forget_at: AtomicUsize,
    /// A thread is forgetting keys: two that counted before either has forgotten any would forget
    /// twice as many.
    pub(crate) forgetting: AtomicBool,
}

impl Tracking {
    pub fn limit(&self, keys: usize) {
        self.keys_max.store(keys, Relaxed);
        self.suspect.store(true, Relaxed);
    }
}
