//! Slots that a member gets and loses: how far that is.

use petrel_persistence::Progress;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Instant;

/// Slots that this member gets and loses.
#[derive(Default)]
pub(in crate::cluster) struct Slots {
    pub(super) loading: Option<SlotLoad>,
    /// Time when data of slots could not be loaded.
    pub(super) failed: Option<Instant>,
    /// Epoch of the view, and [`petrel_cluster::ClusterNode::arrivals`], of the last report about
    /// arrived slots.
    pub(super) reported: Option<(u64, u64)>,
    /// Slots may wait for this member, which has their data.
    pub(super) may_claim: bool,
    pub(super) has_taken: bool,
}

/// A thread that loads data of slots. Dropped, it is stopped and waited for.
pub(super) struct SlotLoad {
    pub(super) progress: Arc<Progress>,
    pub(super) thread: Option<JoinHandle<Result<(), String>>>,
}

impl SlotLoad {
    pub(super) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(super) fn end(mut self) -> Result<(), String> {
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or(Ok(()), |ended| ended.unwrap_or_else(|_| Err("the thread panicked".into())))
    }
}

impl Drop for SlotLoad {
    fn drop(&mut self) {
        self.progress.stop.store(true, Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}
