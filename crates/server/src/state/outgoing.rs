//! State of all replicas of the server.

pub(crate) mod replica;
pub(crate) mod stream;

pub(crate) use replica::OwnReplicas;
pub use replica::{Replica, ReplicaLine, Stage};
pub use stream::Relayed;

use crate::client::Client;
use crate::unix_time::unix_ms;
use parking_lot::{Mutex, RwLock};
use petrel_replication::Backlog;
use replica::Handshake;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::time::{Duration, Instant};
use stream::Stream;

/// This server's replicas, and the stream that they are sent.
#[derive(Default)]
pub struct Outgoing {
    pub(crate) stream: RwLock<Option<Arc<Stream>>>,
    pub(crate) replicas: Mutex<Vec<Arc<Replica>>>,
    /// Changes with every change of `replicas`.
    pub(crate) version: AtomicUsize,
    /// Options stated by connections that are no replicas yet.
    pub(crate) handshakes: Mutex<HashMap<u64, Handshake>>,
    /// Up to which offset clients wait for acknowledgements.
    pub(crate) awaited: AtomicU64,
    /// The end of the stream behind the last request for acknowledgements.
    pub(crate) asked_at: AtomicU64,
    /// Time when a replica was last connected, in Unix milliseconds.
    pub(crate) last_seen: AtomicI64,
    pub(crate) pinged_at: AtomicI64,
    /// An image is being sent.
    pub(crate) syncing: AtomicBool,
    /// Bytes that replicas were sent.
    pub(crate) sent: AtomicU64,
    /// Full copies, resumptions, and resumptions that could not be.
    pub(crate) full_syncs: AtomicU64,
    /// See `full_syncs`.
    pub(crate) resumed: AtomicU64,
    /// See `full_syncs`.
    pub(crate) not_resumed: AtomicU64,
}

impl Outgoing {
    /// The stream, if there is or was a replica.
    pub(crate) fn stream(&self) -> Option<Arc<Stream>> {
        self.stream.read().clone()
    }

    /// The stream's bytes that are kept.
    pub fn backlog(&self) -> Option<Arc<Backlog>> {
        self.stream.read().as_ref().map(|stream| stream.backlog.clone())
    }

    /// All replicas, except ones that take only a copy.
    pub fn lines(&self) -> Vec<ReplicaLine> {
        let now = unix_ms();
        let replicas = self.replicas.lock();
        replicas
            .iter()
            .filter(|replica| !replica.options.takes_copy_only)
            .map(|r| r.line(now))
            .collect()
    }

    /// Whether replicas are being sent a copy.
    pub(crate) fn is_copying(&self) -> bool {
        self.syncing.load(SeqCst)
    }

    /// Connections that are replicas.
    pub(crate) fn count(&self) -> usize {
        self.replicas.lock().len()
    }

    /// Number of replicas that have been sent their copy, and have given a sign of life within
    /// `lag_max` seconds.
    pub fn good(&self, lag_max: i64) -> usize {
        let now = unix_ms();
        let replicas = self.replicas.lock();
        let has_copy = |r: &Replica| matches!(r.stage(), Stage::Loads | Stage::Online);
        let is_good =
            |r: &&Arc<Replica>| has_copy(r) && !r.options.takes_copy_only && r.lag(now) <= lag_max;
        replicas.iter().filter(is_good).count()
    }

    /// End of the stream after the last change: bytes appended without a change concern no client.
    /// 0 if there is no stream.
    pub(crate) fn written(&self) -> u64 {
        self.backlog().map_or(0, |backlog| backlog.written())
    }

    /// Replicas that have acknowledged everything up to an offset.
    pub(crate) fn acknowledged(&self, offset: u64) -> usize {
        let has = |r: &&Arc<Replica>| r.stage() == Stage::Online && r.acked.load(SeqCst) >= offset;
        self.replicas.lock().iter().filter(has).count()
    }

    /// Replicas that have everything up to an offset on their disks.
    pub(crate) fn synced(&self, offset: u64) -> usize {
        let has = |r: &&Arc<Replica>| r.stage() == Stage::Online && r.synced.load(SeqCst) >= offset;
        self.replicas.lock().iter().filter(has).count()
    }

    /// The replica that a connection is.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Replica>> {
        self.replicas.lock().iter().find(|replica| replica.client.id == id).cloned()
    }

    pub(crate) fn add(&self, replica: Arc<Replica>) {
        self.replicas.lock().push(replica);
        self.version.fetch_add(1, SeqCst);
    }

    /// The connection is gone, whether it was a replica or not.
    #[cold]
    pub(crate) fn remove(&self, client: &Client) {
        self.handshakes.lock().remove(&client.id);
        let mut replicas = self.replicas.lock();
        let Some(at) = replicas.iter().position(|replica| replica.client.id == client.id) else {
            return;
        };
        // Before it is removed from the list: its part of the backlog is freed when others see it
        // gone.
        replicas[at].leave();
        if let Some(backlog) = self.backlog() {
            backlog.release();
        }
        let replica = replicas.remove(at);
        drop(replicas);
        self.last_seen.store(unix_ms(), Relaxed);
        self.version.fetch_add(1, SeqCst);
        match replica.stage() {
            Stage::Loads if !replica.options.takes_copy_only => tracing::warn!(
                "replica {} disconnected before it had loaded its copy; if its log reports an unknown version or type, see rdb-version and dump-dialect",
                replica.name()
            ),
            _ => tracing::info!("replica {} disconnected", replica.name()),
        }
    }

    /// Waits until the connections of replicas that are to be closed are, or for so long.
    pub(crate) fn await_leavers(&self, patience: Duration) {
        let begin = Instant::now();
        let is_leaving = || self.replicas.lock().iter().any(|replica| replica.has_left());
        while is_leaving() && begin.elapsed() < patience {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Every replica has an acknowledgement to send from now on.
    pub(crate) fn expect_answers(&self) {
        let replicas = self.replicas.lock();
        replicas.iter().for_each(|replica| replica.has_answered.store(false, SeqCst));
    }
}
