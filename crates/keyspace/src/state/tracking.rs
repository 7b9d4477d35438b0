//! Tables of client-side caching: the tracked keys of each stripe and the clients that read them
//! (used by `observers/tracking.rs`).

pub(crate) mod names;
pub(crate) mod readers;
pub(crate) mod tracked;

pub(crate) use readers::Registry;
pub use readers::{Reader, ReaderId, ReadersView};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
pub use tracked::Readers;
pub(crate) use tracked::{SideTables, Tracked};

/// Flags of a stripe: it has tracked keys; some of them have no entry in database 0 with a slot
/// that could bear the mark.
pub(crate) const TRACKED: u8 = 1;
pub(crate) const TRACKED_BY_NAME: u8 = 2;

/// State of the tracking table shared by all threads.
#[derive(Default)]
pub(crate) struct Tracking {
    pub tables: SideTables,
    pub readers: Registry,
    /// Maximum number of keys in the table; 0 for no limit.
    pub(crate) keys_max: AtomicUsize,
    /// The table may exceed the limit: the limit was lowered, or the last removal stopped early.
    pub(crate) suspect: AtomicBool,
    /// Next stripe from which tracked keys are removed.
    pub(crate) forget_at: AtomicUsize,
    /// A thread is removing tracked keys: two that counted at the same time would remove twice as
    /// many.
    pub(crate) forgetting: AtomicBool,
}

impl Tracking {
    pub fn limit(&self, keys: usize) {
        self.keys_max.store(keys, Relaxed);
        self.suspect.store(true, Relaxed);
    }
}
