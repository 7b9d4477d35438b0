//! Keys watched at another node.

use crate::cluster::{Cluster, HashSlot};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Keys that a connection watches at their primary, another node. Only the primary knows the order
/// of the keys' changes: it keeps the watches, and executes the transaction if nothing has changed.
/// The reply to `WATCH` is sent after every earlier change, so later reads of the connection here
/// are not older than the watch. A node that is no longer the primary drops the watches; a
/// transaction then finds none at the next primary and is aborted.
pub struct WatchedAway {
    /// Identifier at that node, unique within this process.
    id: u64,
    /// Number of forwarded `WATCH`es.
    forwarded: u16,
    /// Hash slots of the watched keys.
    pub(crate) slots: Vec<HashSlot>,
    cluster: Arc<dyn Cluster>,
}

impl WatchedAway {
    pub(crate) fn new(cluster: Arc<dyn Cluster>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Relaxed) + 1;
        WatchedAway { id, forwarded: 0, slots: Vec::new(), cluster }
    }

    /// Identifier sent with forwarded commands ([`Call::client`](crate::Call)): `id`,
    /// and in the lowest 16 bits the number of `WATCH`es before. A node with another number has
    /// dropped some watches.
    pub(crate) fn number(&self) -> u64 {
        self.id << 16 | u64::from(self.forwarded)
    }

    /// Records that a `WATCH` of keys in these slots is forwarded.
    pub(crate) fn add(&mut self, slots: &[HashSlot]) {
        self.forwarded = self.forwarded.saturating_add(1);
        self.slots
            .extend(slots.iter().filter(|slot| !self.slots.contains(slot)).collect::<Vec<_>>());
    }

    /// Records that `EXEC` is forwarded, which ends the watches at their primary.
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
