//! A thread's state for its share of the upkeep.

use crate::state::evictor::Evictor;
use crate::state::thread_stats::ThreadStats;

/// State for eviction, expiry and the heap's caches.
pub(crate) struct Upkeep {
    /// The counters of all threads.
    pub threads: ThreadStats,
    pub evictor: Evictor,
    /// Position of the expiry sweep.
    pub sweep_place: Option<SweepPlace>,
    /// Last time the heap's cache was trimmed, on the thread's clock.
    pub trimmed_at: i64,
    /// Time since which the upkeep of the heap is deferred; 0 if it is not.
    pub put_off_since: i64,
}

impl Upkeep {
    /// State of a thread; its evictor draws random numbers from this seed.
    pub fn new(seed: u64) -> Self {
        Upkeep {
            threads: ThreadStats::default(),
            evictor: Evictor::new(seed),
            sweep_place: None,
            trimmed_at: 0,
            put_off_since: 0,
        }
    }
}

/// A thread's position in the stripe that it claimed last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepPlace {
    pub(crate) stripe: u32,
    pub(crate) db: u16,
    pub(crate) bucket: usize,
}
