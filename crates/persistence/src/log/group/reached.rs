//! Progress of the log, for callers that do not wait for it.

use super::{Log, Part};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

impl Log {
    /// Whether everything that was committed by now is durable; `now` is the epoch of this moment.
    pub fn is_all_durable(&self, now: u64) -> bool {
        // Check first: a segment that left a thread meanwhile is among those taken.
        let is_idle = |part: &Arc<Part>| part.is_complete(now) && part.waiting().0 == 0;
        let is_idle = self.parts().iter().all(is_idle);
        // Without its first base a log has nothing.
        is_idle && !self.awaits_base.load(SeqCst) && self.durable() >= self.taken.load(SeqCst)
    }
}
