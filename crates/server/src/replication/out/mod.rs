//! Serves this server's replicas: Redis, Valkey and Petrel, by `PSYNC`.
//!
//! ```text
//! any thread   commit ─ effects, or commands ─▶ backlog ◀─ read ─ a replica's worker ─▶ its socket
//! image        a thread of its own ─ RDB ─▶ each replica's queue ─▶ its worker ─▶ its socket
//! ```
//!
//! The stream begins with the first replica: before that there is no sink and no backlog. A commit
//! is appended to the backlog under its locks, so each client's change comes after every change
//! that the client had seen. A replica is a connection of a worker, which sends it the backlog's
//! new bytes at the end of a turn. Bytes that a replica does not take stay in the backlog, up to
//! `client-output-buffer-limit replica`.

mod commands;
mod encoding;
mod feed;
mod full_sync;
mod sink;
mod upkeep;

pub(crate) use commands::{PSYNC, REPLCONF, SYNC};

use crate::config::Config;
use crate::replication::apply::Applier;
use crate::server::{Server, unix_ms};
use crate::state::outgoing::stream::{Stream, StreamEncoding};
use crate::state::outgoing::{Relayed, Replica};
use crate::state::replication::Downstream;
use petrel_keyspace::Handle;
use petrel_replication::Backlog;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// Request for an acknowledgement.
pub(super) const GET_ACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

impl Server {
    /// Requests acknowledgements of the replicas, unless this part of the stream was requested
    /// already.
    pub(crate) fn ask_replicas(&self) {
        let outgoing = &self.outgoing;
        let Some(stream) = outgoing.stream() else { return };
        let still = self.replication.failover.still();
        let end = stream.backlog.end();
        if still.is_needed() || outgoing.asked_at.load(SeqCst) == end {
            return;
        }
        let end = stream.backlog.append_aside(GET_ACK);
        outgoing.asked_at.store(end, SeqCst);
        stream.owners.call_at_once(&self.workers);
    }

    /// Begins the stream unless there is one. Everything is held.
    fn begin_stream(self: &Arc<Self>, handle: &mut Handle, config: &Config) -> Arc<Stream> {
        if let Some(stream) = self.outgoing.stream() {
            return stream;
        }
        if !self.replication.is_replica() {
            // Changes made without a stream belong to no history that a replica could know.
            self.replication.renew_ids();
        }
        self.make_stream(handle, StreamEncoding::commands(None), config)
    }

    /// Begins the stream of a history that replicas may know.
    pub(super) fn begin_known_stream(
        self: &Arc<Self>,
        handle: &mut Handle,
        config: &Config,
    ) -> Arc<Stream> {
        if let Some(stream) = self.outgoing.stream() {
            return stream;
        }
        let offset = self.replication.offset().max(0) as u64;
        self.make_stream(handle, StreamEncoding::commands(Some(offset)), config)
    }

    fn make_stream(
        self: &Arc<Self>,
        handle: &mut Handle,
        encoding: StreamEncoding,
        config: &Config,
    ) -> Arc<Stream> {
        let mut place = self.outgoing.stream.write();
        let offset = self.replication.offset().max(0) as u64;
        let backlog = Backlog::new(offset, config.replication.repl_backlog_size);
        let stream = Stream::new(backlog.clone(), encoding, self.workers.len(), config);
        self.replication.set_backlog(Some(backlog));
        handle.set_sinks(sink::NAME, Some(sink::source(&stream, Arc::downgrade(self))));
        let now = unix_ms();
        self.outgoing.last_seen.store(now, Relaxed);
        self.outgoing.pinged_at.store(now, Relaxed);
        *place = Some(stream.clone());
        stream
    }

    /// On a replica, keeps the stream in a backlog, so that it can serve other replicas after a
    /// promotion. Called by the link's thread, in no batch.
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

/// Relays the primary's stream and role changes to this server's replicas.
pub(crate) struct Relay(pub Weak<Server>);

impl Downstream for Relay {
    fn relay(&self, bytes: &[u8], relayed: Relayed) {
        let Some(server) = self.0.upgrade() else { return };
        let Some(stream) = server.outgoing.stream() else { return };
        if relayed.marks {
            server.close_plain_replicas();
        }
        let end = stream.backlog.append_verbatim(bytes, relayed.marks);
        stream.encoding.follow(relayed, end);
        stream.owners.call(&server.workers);
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
