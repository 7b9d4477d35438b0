//! Slots that a member gets and loses: how far that is.

use petrel_persistence::Progress;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Instant;

/// Slots that this member gets and loses.
#[derive(Default)]
pub(in crate::cluster) struct Slots {
    pub(in crate::cluster) loading: Option<SlotLoad>,
    /// Time when data of slots could not be loaded.
    pub(in crate::cluster) failed: Option<Instant>,
    /// Epoch of the view, and [`petrel_cluster::ClusterNode::arrivals`], of the last report about
    /// arrived slots.
    pub(in crate::cluster) reported: Option<(u64, u64)>,
    /// Slots may wait for this member, which has their data.
    pub(in crate::cluster) may_claim: bool,
    pub(in crate::cluster) has_taken: bool,
    /// The thread that keeps the files of the former incarnation, and its result.
    pub(in crate::cluster) aside: Aside,
}

/// Progress of keeping the files of the former incarnation.
#[derive(Default)]
pub(in crate::cluster) enum Aside {
    #[default]
    NotBegun,
    Runs(JoinHandle<Result<(), String>>),
    /// Tried again later.
    Failed(Instant),
    Done,
}

/// A thread that loads data of slots. Dropped, it is stopped and waited for.
pub(in crate::cluster) struct SlotLoad {
    pub(in crate::cluster) progress: Arc<Progress>,
    pub(in crate::cluster) thread: Option<JoinHandle<Result<(), String>>>,
}

impl SlotLoad {
    pub(in crate::cluster) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(in crate::cluster) fn end(mut self) -> Result<(), String> {
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
