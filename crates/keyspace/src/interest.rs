//! Who is interested in keys of a stripe: a side table that exists only while somebody is.

use crate::tracking::Tracked;
use crate::waiting::Waiting;
use crate::watch::Watched;

/// Watched keys, keys that are waited for, and keys that are cached, of one stripe. One box for both, since a stripe is one cache line.
#[derive(Default)]
pub(crate) struct Interest {
    /// For `WATCH`.
    pub watched: Watched,
    /// For commands that block.
    pub waiting: Waiting,
    /// For clients that cache.
    pub tracked: Tracked,
}

impl Interest {
    /// True if nobody is interested any more.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.waiting.is_empty() && self.tracked.is_empty()
    }
}
