//! State of replication: the role, the id and offset of the history, the link to the primary
//! (`replication.rs`).

mod failover;
pub(crate) mod replica_expires;

pub use failover::Failover;
pub use replica_expires::ReplicaExpires;

use crate::client::Client;
use crate::random_id::random_id;
use crate::state::outgoing::Relayed;
use parking_lot::{Condvar, Mutex, RwLock};
use petrel_keyspace::Handle;
use petrel_replication::Backlog;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use std::time::{Duration, Instant};

/// The id that names no history.
pub const NO_ID: &str = "0000000000000000000000000000000000000000";

/// The names of the history.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ids {
    /// Replication id: 40 hexadecimal digits.
    pub id: String,
    /// The name that it had before, or [`NO_ID`].
    pub second_id: String,
    /// The first offset that the earlier name is not valid for; -1 if there is none.
    pub second_offset: i64,
}

impl Ids {
    /// Creates an id for a new history.
    pub(crate) fn new() -> Self {
        Self::named(random_id())
    }

    /// A history without an earlier name.
    pub(crate) fn named(id: String) -> Self {
        Ids { id, second_id: NO_ID.into(), second_offset: -1 }
    }
}

/// The part that serves this server's own replicas, as seen by the link to the primary. The caller
/// is in no batch, except for [`Downstream::relay`].
pub trait Downstream: Send + Sync {
    /// Bytes of the primary's stream have been executed: the last of them is the one at
    /// [`Replication::offset`]. Replicas of this server are sent the same bytes. The caller is in a
    /// batch.
    fn relay(&self, bytes: &[u8], relayed: Relayed);

    /// The history goes on under another id, or a primary is a replica now, or the other way round:
    /// replicas ask again, and may go on where they were.
    fn renamed(&self);

    /// The data was replaced: the backlog belongs to a history that has ended, and the new stream
    /// begins after [`Replication::offset`].
    fn replaced(&self);
}

/// State of the link to the primary.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum LinkState {
    /// Connection to be made.
    #[default]
    Connect = 0,
    /// Connecting.
    Connecting = 1,
    /// Handshake: requesting the missing part of the stream.
    Handshake = 2,
    /// A copy of the data is received, or loaded.
    Sync = 3,
    /// Changes are executed as they come.
    Connected = 4,
}

impl LinkState {
    /// The word for it in `ROLE`.
    pub fn word(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// Figures of the link to the primary, for `INFO`. Times are Unix seconds.
pub struct LinkFigures {
    pub(crate) state: AtomicU8,
    /// Time of the last received bytes; 0: never.
    pub(crate) heard_at: AtomicI64,
    /// Since when there is a link; it means nothing while there is none.
    pub(crate) up_since: AtomicI64,
    /// Since when there is no link; 0 while there is one, or before there was any.
    pub(crate) down_since: AtomicI64,
    /// Seconds without a link, in the past.
    pub(crate) down_seconds: AtomicI64,
    /// Tries to get a link, since the last one and ever.
    pub(crate) tries: [AtomicU64; 2],
    /// Bytes of the copy, 0 if that is not known, and of those received.
    pub(crate) copy_bytes: [AtomicU64; 2],
    /// Time of the last received byte of the copy.
    pub(crate) copied_at: AtomicI64,
    /// Bytes that came from primaries.
    pub(crate) received: AtomicU64,
    /// The link has been up since this server became a replica: it has the primary's data, or had.
    pub(crate) has_synced: AtomicBool,
    /// The primary has said that it may send frames.
    pub(crate) sends_frames: AtomicBool,
    /// The primary, and every server that its stream passed before, has said that it is Petrel.
    pub(crate) is_petrel: AtomicBool,
    /// The primary was asked to send commands in place of frames.
    pub(crate) asked_commands: AtomicBool,
    /// The link as `CLIENT LIST` shows it, while there is one.
    pub(crate) client: Mutex<Option<Arc<Client>>>,
}

impl Default for LinkFigures {
    fn default() -> Self {
        LinkFigures {
            state: AtomicU8::new(LinkState::Connect as u8),
            heard_at: AtomicI64::new(0),
            up_since: AtomicI64::new(0),
            down_since: AtomicI64::new(0),
            down_seconds: AtomicI64::new(0),
            tries: Default::default(),
            copy_bytes: Default::default(),
            copied_at: AtomicI64::new(0),
            received: AtomicU64::new(0),
            has_synced: AtomicBool::new(false),
            sends_frames: AtomicBool::new(false),
            is_petrel: AtomicBool::new(false),
            asked_commands: AtomicBool::new(false),
            client: Mutex::default(),
        }
    }
}

impl LinkFigures {
    /// State of the link.
    pub fn state(&self) -> LinkState {
        use LinkState::*;
        let number = self.state.load(Relaxed);
        let states = [Connect, Connecting, Handshake, Sync, Connected];
        states.into_iter().find(|&state| state as u8 == number).unwrap_or_default()
    }

    /// Whether a copy is being received, or loaded.
    pub(crate) fn receives_copy(&self) -> bool {
        self.state() == LinkState::Sync && self.copy_bytes[1].load(Relaxed) > 0
    }

    /// The link as `CLIENT LIST` shows it, while there is one.
    pub(crate) fn client(&self) -> Option<Arc<Client>> {
        self.client.lock().clone()
    }

    /// For how long the changes have been executed as they come, in whole seconds.
    pub(crate) fn held_for(&self) -> Duration {
        let since = self.up_since.load(Relaxed);
        let seconds = match self.state() {
            LinkState::Connected => (crate::server::unix_ms() / 1000 - since).max(0),
            _ => 0,
        };
        Duration::from_secs(seconds.unsigned_abs())
    }

    pub(crate) fn enter(&self, state: LinkState) {
        self.state.store(state as u8, Relaxed);
    }
}

/// For how long a point that the offset counts is looked for.
const POINT_PATIENCE: Duration = Duration::from_secs(1);

/// Time for which the link's thread yields to threads that wait for a consistent point, at each
/// such point.
const POINT_TIME: Duration = Duration::from_millis(20);

/// Between two looks.
const POINT_PAUSE: Duration = Duration::from_micros(200);

/// State of replication.
pub struct Replication {
    pub(crate) ids: Mutex<Ids>,
    /// Bytes of the history: those written by a primary, those executed by a replica.
    pub(crate) offset: AtomicI64,
    /// Executed commands of the primary may not be counted in the offset yet: its thread waits for
    /// a stripe in the middle of a batch, outside of the keyspace's lock.
    pub(crate) is_amid: AtomicBool,
    /// Threads that want to hold everything while that is not so.
    pub(crate) points_wanted: AtomicUsize,
    /// The primary's stream could not be applied completely: the data belong to no history until
    /// there is a new copy.
    pub(crate) is_broken: AtomicBool,
    /// The database that the primary's stream has selected there.
    pub(crate) stream_db: AtomicU16,
    pub(crate) is_replica: AtomicBool,
    /// The stream that replicas are sent; it knows the offset of a primary.
    pub(crate) backlog: RwLock<Option<Arc<Backlog>>>,
    pub(crate) downstream: RwLock<Option<Arc<dyn Downstream>>>,
    /// Figures of the link to the primary.
    pub link: LinkFigures,
    /// The role is being handed over.
    pub failover: Failover,
    /// Keys that a replica's own clients let expire.
    pub replica_expires: ReplicaExpires,
    pub(crate) requested: Mutex<RequestedRole>,
    /// Notified when another role is requested.
    pub(crate) role_requested: Condvar,
    /// [`RequestedRole::number`], for the link's thread to check between two commands.
    pub(crate) request_number: AtomicU64,
    /// Held by the link's thread while it changes the data, and by a change of the role. A thread
    /// that waits for it is in no batch.
    pub(crate) applying: Mutex<()>,
}

/// Requested replication role, set by REPLICAOF and applied by the replication thread.
#[derive(Default)]
pub(crate) struct RequestedRole {
    /// Primary to replicate from.
    pub(crate) primary: Option<(String, u16)>,
    /// Number of the request: counts the changes.
    pub(crate) number: u64,
    /// The thread is there.
    pub(crate) has_thread: bool,
    /// [`RequestedRole::number`] of the server's current role. Lags behind while a change is
    /// pending, because the command that requested it held keys.
    pub(crate) role_number: u64,
    /// Set if the same role was requested again: try at once, without a pause.
    pub(crate) is_at_once: bool,
    /// The current connection, to be shut down when the requested role changes.
    pub(crate) socket: Option<TcpStream>,
}

impl RequestedRole {
    /// Whether the role is still to be changed, or is being changed.
    pub(crate) fn is_role_pending(&self) -> bool {
        self.role_number != self.number
    }
}

impl Default for Replication {
    fn default() -> Self {
        Replication {
            ids: Mutex::new(Ids::new()),
            offset: AtomicI64::new(0),
            is_amid: AtomicBool::new(false),
            points_wanted: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
            stream_db: AtomicU16::new(0),
            is_replica: AtomicBool::new(false),
            backlog: RwLock::default(),
            downstream: RwLock::default(),
            link: LinkFigures::default(),
            failover: Failover::default(),
            replica_expires: ReplicaExpires::default(),
            requested: Mutex::default(),
            role_requested: Condvar::new(),
            request_number: AtomicU64::new(0),
            applying: Mutex::new(()),
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
        match &*self.backlog.read() {
            Some(backlog) if !self.is_replica() => backlog.end() as i64,
            _ => self.offset.load(Relaxed),
        }
    }

    /// Whether the data is ahead of the offset, so that an image of it has no place in the history.
    /// Everything is held.
    pub(crate) fn is_amid(&self) -> bool {
        self.is_amid.load(Relaxed) || self.is_broken.load(Relaxed)
    }

    /// Holds everything, if it can be had within a moment at a point that the offset counts:
    /// [`Replication::is_amid`] says so. The thread is in a batch and holds nothing.
    pub(crate) fn lock_all_at_a_point(&self, ks: &mut Handle) {
        self.points_wanted.fetch_add(1, Relaxed);
        let begin = Instant::now();
        ks.lock_all();
        while self.is_amid.load(Relaxed) && begin.elapsed() < POINT_PATIENCE {
            ks.unlock();
            ks.exit();
            std::thread::sleep(POINT_PAUSE);
            ks.enter();
            ks.lock_all();
        }
        self.points_wanted.fetch_sub(1, Relaxed);
    }

    /// Whether another thread wants to hold everything at such a point.
    pub(crate) fn is_point_wanted(&self) -> bool {
        self.points_wanted.load(Relaxed) > 0
    }

    /// Gives those threads time. The thread is in no batch.
    pub(crate) fn give_way_at_a_point(&self) {
        let begin = Instant::now();
        while self.is_point_wanted() && begin.elapsed() < POINT_TIME {
            std::thread::sleep(POINT_PAUSE);
        }
    }

    /// Notes where the stream is kept from now on, if it is.
    pub(crate) fn set_backlog(&self, backlog: Option<Arc<Backlog>>) {
        self.offset.store(self.offset(), Relaxed);
        *self.backlog.write() = backlog;
    }

    /// Whether a replica has the primary's data, so that others can follow it.
    pub(crate) fn follows(&self) -> bool {
        self.is_replica() && self.link.state() == LinkState::Connected
    }

    /// Advances the offset by these bytes; returns the new one. For a primary, called by the writer
    /// of its stream.
    pub fn advance(&self, bytes: usize) -> i64 {
        let bytes = bytes as i64;
        self.offset.fetch_add(bytes, Relaxed) + bytes
    }

    /// Begins a new history that no replica can continue (`DEBUG CHANGE-REPL-ID`, a primary that
    /// has freed its backlog).
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

    /// Sets the receiver of the primary's stream and of role changes; there is one at a time.
    pub fn set_downstream(&self, downstream: Option<Arc<dyn Downstream>>) {
        *self.downstream.write() = downstream;
    }

    pub(crate) fn tell_downstream(&self, tell: impl FnOnce(&dyn Downstream)) {
        let downstream = self.downstream.read().clone();
        if let Some(downstream) = downstream {
            tell(&*downstream);
        }
    }

    /// Closes the link to the primary, which is made again.
    pub(crate) fn cut_link(&self) {
        if let Some(socket) = &self.requested.lock().socket {
            // It may have been closed by the other end.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// The primary from which this server has received no data, since its start or since it became
    /// a replica.
    pub(crate) fn awaits_first_sync(&self) -> Option<(String, u16)> {
        let has_synced = self.link.has_synced.load(Relaxed);
        self.primary().filter(|_| !has_synced)
    }

    /// The server that is followed, if one is.
    pub fn primary(&self) -> Option<(String, u16)> {
        self.requested.lock().primary.clone()
    }
}
