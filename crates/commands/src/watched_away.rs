//! Keys that a connection watches at another node.

use crate::cluster::{Cluster, HashSlot};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Keys that a connection watches at another node, which is their home and so the only one that
/// knows their changes in their order: it keeps the watches, and executes the transaction if
/// nothing has changed. Its `OK` to `WATCH` comes behind every change before, so what the
/// connection reads here afterwards is not older than the watch. A node that is their home no
/// longer has dropped them, and a transaction finds none at the next one: nothing becomes of it.
pub struct WatchedAway {
    /// Names them at that node; no two of a process are equal.
    id: u64,
    /// `WATCH`es that were forwarded.
    forwarded: u16,
    /// Their hash slots.
    pub(crate) slots: Vec<HashSlot>,
    cluster: Arc<dyn Cluster>,
}

impl WatchedAway {
    pub(crate) fn new(cluster: Arc<dyn Cluster>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Relaxed) + 1;
        WatchedAway { id, forwarded: 0, slots: Vec::new(), cluster }
    }

    /// What a forwarded command says of them ([`RemoteCall::client`](crate::RemoteCall)): which
    /// they are, and in the lowest 16 bits how many `WATCH`es came before it. A node that knows of
    /// another number has dropped some.
    pub(crate) fn number(&self) -> u64 {
        self.id << 16 | u64::from(self.forwarded)
    }

    /// A `WATCH` of keys with these slots is forwarded.
    pub(crate) fn add(&mut self, slots: &[HashSlot]) {
        self.forwarded = self.forwarded.saturating_add(1);
        self.slots
            .extend(slots.iter().filter(|slot| !self.slots.contains(slot)).collect::<Vec<_>>());
    }

    /// `EXEC` is forwarded, which ends them at their home.
    pub(crate) fn end(&mut self) {
        self.slots.clear();
    }
}

impl fmt::Debug for WatchedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedAway").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for WatchedAway {
    fn drop(&mut self) {
        if let Some(&slot) = self.slots.first() {
            self.cluster.unwatch(slot, self.number());
        }
    }
}
