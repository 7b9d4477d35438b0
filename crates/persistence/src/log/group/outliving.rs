//! Preserves unwritten records if the process dies, through a file of pending records.

use super::{Log, Part, Scribe, Segment};
use crate::log::pending::Pending;
use petrel_keyspace::Keyspace;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

impl Log {
    /// The file that preserves unwritten records, if there is one.
    pub fn pending(&self) -> Option<&Arc<Pending>> {
        self.pending.get()
    }

    /// Whether unwritten records are preserved if the process dies now.
    pub fn survives_process(&self) -> bool {
        let is_there = |pending: &Arc<Pending>| pending.failure().is_none();
        self.pending().is_some_and(is_there) && self.pending_after.load(SeqCst) == 0
    }

    /// Attaches a new file that preserves the records made from now on. It was created for a log
    /// with an unknown last block (`u64::MAX`). The whole keyspace is locked, and threads get new
    /// recorders before it is unlocked.
    pub fn attach_pending(&self, keyspace: &Keyspace, pending: Arc<Pending>) {
        let last = keyspace.epochs().advance();
        pending.set_written(last);
        self.pending_after.store(last, SeqCst);
        // One that is there already stays.
        let _ = self.pending.set(pending);
    }
}

impl Scribe<'_> {
    /// Releases segments that are in the log or no longer needed.
    pub(super) fn release(&mut self, released: Vec<(Arc<Part>, Segment)>) {
        match &mut self.kept {
            Some(kept) => kept.extend(released),
            None => {
                if let (Some(pending), Some((_, last))) = (self.log.pending(), released.last())
                    && self.log.pending_after.load(SeqCst) == 0
                {
                    pending.set_written(last.epoch);
                }
                released.into_iter().for_each(|(part, segment)| part.give_back(segment));
            }
        }
    }

    /// Notes that the file of pending records is of use, once the log has all that it follows on.
    pub(super) fn settle_pending(&self, end: u64) {
        let log = self.log;
        let after = log.pending_after.load(SeqCst);
        if after != 0
            && end >= after
            && self.kept.is_none()
            && !log.awaits_base.load(SeqCst)
            && let Some(pending) = log.pending()
        {
            // Whatever the last block is.
            pending.set_written(0);
            log.pending_after.store(0, SeqCst);
        }
    }
}
