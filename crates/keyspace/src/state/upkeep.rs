//! What a thread keeps for its share of the upkeep.

use crate::state::evictor::Evictor;
use crate::state::thread_stats::ThreadStats;

/// Eviction, expiry, the heap's caches.
pub(crate) struct Upkeep {
    /// The counters of all threads.
    pub threads: ThreadStats,
    pub evictor: Evictor,
    /// Where the removal of expired keys goes on.
    pub sweep_place: Option<SweepPlace>,
    /// When the heap's cache was trimmed last, on the thread's clock.
    pub trimmed_at: i64,
    /// Since when the upkeep of the heap has been put off; 0 if it is not.
    pub put_off_since: i64,
}

impl Upkeep {
    /// Of a thread whose evictor draws by this seed.
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

/// Where a thread goes on in the stripe that it claimed last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepPlace {
    pub(crate) stripe: u32,
    pub(crate) db: u16,
    pub(crate) bucket: usize,
}
