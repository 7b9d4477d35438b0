//! Watches, blocked clients and trackers of a stripe's keys: a side table that exists only while
//! there are some.

use crate::state::waiting::Waiting;
use crate::state::watch::Watched;

/// Watched and awaited keys of one stripe, in one box, because a stripe is one cache line.
#[derive(Default)]
pub(crate) struct Interest {
    /// For `WATCH`.
    pub watched: Watched,
    /// For commands that block.
    pub waiting: Waiting,
}

impl Interest {
    /// True if there are neither.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.waiting.is_empty()
    }
}
