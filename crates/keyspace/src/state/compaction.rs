//! The compaction that is under way, as all threads share it (`upkeep/compact.rs`).

use petrel_heap::Evacuation;
use std::sync::Mutex;
use std::time::Instant;

/// What all threads share of the compaction.
#[derive(Default)]
pub(crate) struct Compaction {
    pub(crate) state: Mutex<CompactionState>,
}

#[derive(Default)]
pub(crate) struct CompactionState {
    pub(crate) round: Option<Round>,
    pub(crate) last: Option<Ended>,
}

/// What the last round left.
pub(crate) struct Ended {
    pub(crate) at: Instant,
    /// Unused memory, in bytes.
    pub(crate) waste: u64,
    /// Entries that it moved.
    pub(crate) moved: usize,
}

/// One walk over all tables.
pub(crate) struct Round {
    pub(crate) moved: usize,
    pub(crate) evacuation: Evacuation,
    pub(crate) began: Instant,
    pub(crate) stripe: u32,
    pub(crate) db: u16,
    pub(crate) bucket: usize,
    /// Where to go on inside the bucket's large collections: the slot, and the collection's own
    /// cursor.
    pub(crate) inside: (usize, u64),
}

impl Round {
    /// Goes on with the next stripe.
    pub(crate) fn pass_over_stripe(&mut self) {
        (self.stripe, self.db, self.bucket, self.inside) = (self.stripe + 1, 0, 0, (0, 0));
    }
}
