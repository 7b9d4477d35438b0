//! Replication: whose changes this server follows, and by which name and offset others follow its
//! own.
//!
//! A *history* is the stream of changes of a data set, named by a replication id of 40 hexadecimal
//! digits; an offset counts its bytes. A promoted replica names its history anew and keeps the old
//! name up to the offset at which it was promoted, so that other replicas of the old primary can go
//! on without a copy: <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>.

use crate::random_id::random_id;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// The id that names no history.
pub const NO_ID: &str = "0000000000000000000000000000000000000000";

/// The names of the history.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ids {
    /// Its name: 40 hexadecimal digits.
    pub id: String,
    /// The name that it had before, or [`NO_ID`].
    pub second_id: String,
    /// The first offset that the earlier name is not valid for; -1 if there is none.
    pub second_offset: i64,
}

impl Ids {
    /// A history that nobody knows yet.
    fn new() -> Self {
        Ids { id: random_id(), second_id: NO_ID.into(), second_offset: -1 }
    }
}

/// What serves this server's own replicas, as far as its role and its primary concern it.
pub trait Downstream: Send + Sync {
    /// Bytes of the primary's stream have been executed: the last of them is the one at
    /// [`Replication::offset`]. Replicas of this server are sent the same bytes.
    fn relay(&self, bytes: &[u8]);

    /// The history goes on under another id, or the role has changed: replicas ask again, and may
    /// go on where they were.
    fn renamed(&self);

    /// The data is another: what was kept of the stream belongs to a history that has ended, and
    /// what follows begins behind [`Replication::offset`].
    fn replaced(&self);
}

/// What is known of replication.
pub struct Replication {
    ids: Mutex<Ids>,
    /// Bytes of the history: those written by a primary, those executed by a replica.
    offset: AtomicI64,
    is_replica: AtomicBool,
    downstream: RwLock<Option<Arc<dyn Downstream>>>,
}

impl Default for Replication {
    fn default() -> Self {
        Replication {
            ids: Mutex::new(Ids::new()),
            offset: AtomicI64::new(0),
            is_replica: AtomicBool::new(false),
            downstream: RwLock::default(),
        }
    }
}

impl Replication {
    /// Whether this server follows another.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// The names of the history.
    pub fn ids(&self) -> Ids {
        self.ids.lock().clone()
    }

    /// Bytes of the history so far: `master_repl_offset`.
    pub fn offset(&self) -> i64 {
        self.offset.load(Relaxed)
    }

    /// The history has grown by so many bytes; the new offset. For a primary, called by what writes
    /// its stream.
    pub fn advance(&self, bytes: usize) -> i64 {
        let bytes = bytes as i64;
        self.offset.fetch_add(bytes, Relaxed) + bytes
    }

    /// Begins a history of its own that nobody can go on with (`DEBUG CHANGE-REPL-ID`, a primary
    /// whose backlog is gone).
    pub fn renew_ids(&self) {
        *self.ids.lock() = Ids::new();
    }

    /// Whether a replica that asks for the bytes of a history from `first` on, as `PSYNC` states
    /// it, can go on with this one as far as the names say; whether the bytes are kept is another
    /// question.
    pub fn is_continued_by(&self, id: &[u8], first: i64) -> bool {
        let ids = self.ids.lock();
        id == ids.id.as_bytes()
            || id == ids.second_id.as_bytes()
                && first <= ids.second_offset
                && ids.second_id != NO_ID
    }

    /// What is to hear of the primary's stream and of changes of the role; one at a time.
    pub fn set_downstream(&self, downstream: Option<Arc<dyn Downstream>>) {
        *self.downstream.write() = downstream;
    }
}
