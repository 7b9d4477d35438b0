//! Ends transactions and watches, under the locks of the watched keys.

use crate::cluster::{Cluster, HashSlot};
use crate::fail::Fail;
use crate::registry::Command;
use crate::session::Session;
use petrel_keyspace::Handle;
use petrel_table::GateFlags;
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

/// What a refused command does to the client's transaction: one that is open can no longer be
/// executed, and a refused `EXEC` ends it with every watch, be it open or not. Gives back the error
/// to reply.
pub(crate) fn spoil(
    ks: &mut Handle,
    session: &mut Session,
    command: Option<Command>,
    fail: Fail,
) -> Fail {
    if !command.is_some_and(|command| command.spec.gate.contains(GateFlags::RUNS_QUEUE)) {
        if let Some(transaction) = session.open_transaction() {
            transaction.spoiled = true;
        }
        return fail;
    }
    abandon(ks, session);
    aborted(&fail)
}

/// What `EXEC` answers when it is refused for this.
pub(crate) fn aborted(fail: &Fail) -> Fail {
    let reason = fail.text();
    let reason = reason.strip_prefix(b"ERR ").unwrap_or(reason);
    Fail::new([b"EXECABORT Transaction discarded because of: ", reason].concat())
}

/// Ends an open transaction and every watch. The thread is in a batch.
pub(crate) fn abandon(ks: &mut Handle, session: &mut Session) {
    release(ks, session);
    session.take_transaction();
}

/// Ends every watch. The thread is in a batch.
pub(crate) fn release(ks: &mut Handle, session: &mut Session) {
    let Some(transaction) = session.extras.as_mut().and_then(|extras| extras.transaction.as_mut())
    else {
        return;
    };
    transaction.watched_away = None;
    for watched in std::mem::take(&mut transaction.watched) {
        if ks.holds_any() {
            ks.unwatch(&watched);
        } else {
            ks.lock(ks.hash(watched.key()));
            ks.unwatch(&watched);
            ks.unlock();
        }
    }
    if !transaction.open {
        session.take_transaction();
    }
}

/// Whether the session watches keys, so that ending its transaction takes their locks.
pub(crate) fn watches_keys(session: &Session) -> bool {
    session.transaction().is_some_and(|transaction| !transaction.watched.is_empty())
}
