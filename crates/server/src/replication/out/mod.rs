//! What serves this server's replicas: Redis, Valkey and Petrel, by `PSYNC`.
//!
//! ```text
//! any thread   commit ─ effects, or commands ─▶ backlog ◀─ read ─ a replica's worker ─▶ its socket
//! image        a thread of its own ─ RDB ─▶ each replica's queue ─▶ its worker ─▶ its socket
//! ```
//!
//! The stream begins with the first replica: without one there is no sink, and nothing is kept. A
//! commit is appended to the backlog under its locks, so the stream has every change of a client
//! behind what that client had seen. A replica is a connection of its worker, which sends it at the
//! end of a turn what the backlog has for it. Bytes that a replica does not take stay in the
//! backlog, up to `client-output-buffer-limit replica`.

mod commands;
mod feed;
mod full_sync;
mod language;
mod replica;
mod sink;
mod upkeep;

pub(crate) use commands::{PSYNC, REPLCONF, SYNC};
pub use language::Relayed;
pub(crate) use replica::OwnReplicas;
pub use replica::{Replica, Stage};
pub(crate) use sink::Stream;

use crate::client::Client;
use crate::config::Config;
use crate::replication::Downstream;
use crate::replication::apply::Applier;
use crate::server::{Server, unix_ms};
use commands::Handshake;
use language::Language;
use parking_lot::{Mutex, RwLock};
use petrel_keyspace::Handle;
use petrel_replication::Backlog;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::{Arc, Weak};

/// This server's replicas, and the stream that they are sent.
#[derive(Default)]
pub struct Outgoing {
    stream: RwLock<Option<Arc<Stream>>>,
    replicas: Mutex<Vec<Arc<Replica>>>,
    /// Changes with every change of `replicas`.
    version: AtomicUsize,
    /// What connections have said of themselves that are no replicas yet.
    handshakes: Mutex<HashMap<u64, Handshake>>,
    /// Up to which offset clients wait for acknowledgements.
    pub(crate) awaited: AtomicU64,
    /// The end of the stream behind the last request for acknowledgements.
    asked_at: AtomicU64,
    /// When there was a replica last, in Unix milliseconds.
    last_seen: AtomicI64,
    pinged_at: AtomicI64,
    /// An image is being sent.
    syncing: AtomicBool,
    /// Bytes that replicas were sent.
    pub(crate) sent: AtomicU64,
    /// Full copies, resumptions, and resumptions that could not be.
    pub(crate) full_syncs: AtomicU64,
    /// See `full_syncs`.
    pub(crate) resumed: AtomicU64,
    /// See `full_syncs`.
    pub(crate) not_resumed: AtomicU64,
}

/// A replica as `INFO` and `ROLE` show it.
#[derive(Clone, Debug)]
pub struct ReplicaLine {
    /// Its address.
    pub ip: String,
    /// The port that it serves at.
    pub port: u16,
    /// `wait_bgsave`, `send_bulk`, `online`.
    pub state: &'static str,
    /// Bytes of the stream that it has acknowledged.
    pub offset: u64,
    /// Seconds since it last did so.
    pub lag: i64,
    /// It has done so since [`Outgoing::expect_answers`].
    pub(crate) has_answered: bool,
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

    /// Every replica, but for those that take a copy only.
    pub fn lines(&self) -> Vec<ReplicaLine> {
        let now = unix_ms();
        let replicas = self.replicas.lock();
        replicas.iter().filter(|replica| !replica.takes_copy_only).map(|r| r.line(now)).collect()
    }

    /// Whether replicas are being sent a copy.
    pub(crate) fn is_copying(&self) -> bool {
        self.syncing.load(SeqCst)
    }

    /// Connections that are replicas.
    pub(crate) fn count(&self) -> usize {
        self.replicas.lock().len()
    }

    /// Replicas that have been sent their copy, and heard of within so many seconds.
    pub fn good(&self, lag_max: i64) -> usize {
        let now = unix_ms();
        let replicas = self.replicas.lock();
        let has_copy = |r: &Replica| matches!(r.stage(), Stage::Loads | Stage::Online);
        let is_good =
            |r: &&Arc<Replica>| has_copy(r) && !r.takes_copy_only && r.lag(now) <= lag_max;
        replicas.iter().filter(is_good).count()
    }

    /// The end of the stream behind the last change: what is appended beside changes concerns no
    /// client. 0 if there is no stream.
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

    fn add(&self, replica: Arc<Replica>) {
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
        // Before it is gone for those who count: what waited for it alone is freed by then.
        replicas[at].leave();
        if let Some(backlog) = self.backlog() {
            backlog.release();
        }
        let replica = replicas.remove(at);
        drop(replicas);
        self.last_seen.store(unix_ms(), Relaxed);
        self.version.fetch_add(1, SeqCst);
        match replica.stage() {
            Stage::Loads if !replica.takes_copy_only => tracing::warn!(
                "replica {} is gone before it has loaded its copy; if it says that it does not know a version \
                 or a type, see rdb-version and dump-dialect",
                replica.name()
            ),
            _ => tracing::info!("replica {} is gone", replica.name()),
        }
    }

    /// Every replica has an acknowledgement to send from now on.
    pub(super) fn expect_answers(&self) {
        let replicas = self.replicas.lock();
        replicas.iter().for_each(|replica| replica.has_answered.store(false, SeqCst));
    }

    /// Asks the replicas what they have executed, unless they were asked for that much already.
    pub(crate) fn ask(&self, server: &Server) {
        let Some(stream) = self.stream() else { return };
        let still = server.replication.failover.still();
        let end = stream.backlog.end();
        if still.is_needed() || self.asked_at.load(SeqCst) == end {
            return;
        }
        let end = stream.backlog.append_aside(GET_ACK);
        self.asked_at.store(end, SeqCst);
        stream.owners.call_at_once(server);
    }
}

/// The question what a replica has executed.
pub(super) const GET_ACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

impl Server {
    /// Begins the stream unless there is one. Everything is held.
    fn begin_stream(self: &Arc<Self>, handle: &mut Handle, config: &Config) -> Arc<Stream> {
        if let Some(stream) = self.outgoing.stream() {
            return stream;
        }
        if !self.replication.is_replica() {
            // What was changed without a stream belongs to no history that a replica could know.
            self.replication.renew_ids();
        }
        self.make_stream(handle, Language::commands(None), config)
    }

    /// The same of a history that replicas may know.
    pub(super) fn begin_known_stream(
        self: &Arc<Self>,
        handle: &mut Handle,
        config: &Config,
    ) -> Arc<Stream> {
        if let Some(stream) = self.outgoing.stream() {
            return stream;
        }
        let offset = self.replication.offset().max(0) as u64;
        self.make_stream(handle, Language::commands(Some(offset)), config)
    }

    fn make_stream(
        self: &Arc<Self>,
        handle: &mut Handle,
        language: Language,
        config: &Config,
    ) -> Arc<Stream> {
        let mut place = self.outgoing.stream.write();
        let offset = self.replication.offset().max(0) as u64;
        let backlog = Backlog::new(offset, config.replication.repl_backlog_size);
        let stream = Stream::new(backlog.clone(), language, Arc::downgrade(self), config);
        self.replication.set_backlog(Some(backlog));
        handle.set_sinks(sink::NAME, Some(stream.source()));
        let now = unix_ms();
        self.outgoing.last_seen.store(now, Relaxed);
        self.outgoing.pinged_at.store(now, Relaxed);
        *place = Some(stream.clone());
        stream
    }

    /// A replica keeps what it is sent, so that it can serve others once it is promoted. The link's
    /// thread, in no batch.
    pub(super) fn keep_stream(self: &Arc<Self>, applier: &mut Applier) {
        if self.outgoing.stream().is_some() {
            return;
        }
        let config = self.config.snapshot();
        let ks = &mut applier.exec.ks;
        ks.enter();
        ks.lock_all();
        self.begin_stream(ks, &config);
        ks.unlock();
        ks.exit();
    }

    /// Ends the stream: nothing is kept any more. Everything is held.
    fn end_stream(&self, handle: &mut Handle) {
        handle.set_sinks(sink::NAME, None);
        *self.outgoing.stream.write() = None;
        self.replication.set_backlog(None);
    }

    /// Closes every replica: they ask again.
    fn close_replicas(&self) {
        let replicas = self.outgoing.replicas.lock().clone();
        replicas.iter().for_each(|replica| self.close_replica(replica));
    }

    fn close_replica(&self, replica: &Replica) {
        replica.leave();
        self.kill(&replica.client);
    }
}

/// Hears of this server's own primary.
pub(crate) struct Relay(pub Weak<Server>);

impl Downstream for Relay {
    fn relay(&self, bytes: &[u8], relayed: Relayed) {
        let Some(server) = self.0.upgrade() else { return };
        let Some(stream) = server.outgoing.stream() else { return };
        if relayed.marks {
            server.close_plain_replicas();
        }
        let end = stream.backlog.append_verbatim(bytes, relayed.marks);
        stream.language.follow(relayed, end);
        stream.owners.call(&server);
    }

    fn renamed(&self) {
        let Some(server) = self.0.upgrade() else { return };
        if let Some(stream) = server.outgoing.stream() {
            stream.backlog.forget_database();
        }
        // From now on a primary waits for replicas to come.
        server.outgoing.last_seen.store(unix_ms(), Relaxed);
        server.close_replicas();
    }

    fn replaced(&self) {
        let Some(server) = self.0.upgrade() else { return };
        server.close_replicas();
        if let Some(stream) = server.outgoing.stream() {
            stream.backlog.restart(server.replication.offset().max(0) as u64);
        }
    }
}
