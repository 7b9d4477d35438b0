//! Chooses the stream's encoding: frames of effects if every replica reads them, commands
//! otherwise.
//!
//! ```text
//! commands ──▶ frames    no replica needs commands, and none that does could come back
//! frames ──▶ commands    a replica that needs commands is about to be sent the stream; all stripes
//!                        are locked
//! ```
//!
//! Frames and commands are parts of one stream with one id and one offset. A replica that reads
//! frames can continue anywhere in it, others only after the last frame; each switch is a frame of
//! its own. A replica relays its primary's stream. If it needs commands, for its own replicas or
//! itself, it says so in the handshake, and reconnects if that changes.

use crate::config::Config;
use crate::server::Server;
use crate::state::outgoing::replica::Replica;
use crate::state::outgoing::stream::{Relayed, Stream};
use petrel_keyspace::Handle;
use petrel_replication::frame::{IS_PETREL, READS_FRAMES};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Server {
    /// Whether changes are to come as commands, from the primary or to replicas.
    pub(crate) fn needs_commands(&self, config: &Config) -> bool {
        // Keyspace events and eviction need commands.
        let is_replica = self.replication.is_replica();
        let makes_events = is_replica && config.notify_keyspace_events.wanted() != 0;
        let evicts =
            is_replica && config.maxmemory > 0 && !config.replication.replica_ignore_maxmemory;
        let asked = || self.outgoing.replicas.lock().iter().any(|replica| replica.needs_commands());
        !config.replication.repl_effects || makes_events || evicts || asked()
    }

    /// Suffix of the reply to `PSYNC` for a Petrel that gets the stream from `from` on: whether it
    /// passed Petrels only, and whether it may contain frames, if the replica reads them.
    pub(super) fn stream_words(&self, replica: &Replica, stream: &Stream, from: u64) -> String {
        let (reads, _) = replica.options.frames;
        let has_frames = self.has_frames(stream);
        let replication = &self.replication;
        let is_petrel = !replication.is_replica() || replication.link.is_petrel.load(Relaxed);
        let words = [
            (replica.options.is_petrel && is_petrel, IS_PETREL),
            (reads && (has_frames || from < stream.backlog.framed()), READS_FRAMES),
        ];
        words.iter().filter(|(is_said, _)| *is_said).map(|(_, word)| format!(" {word}")).collect()
    }

    /// Whether frames may follow.
    fn has_frames(&self, stream: &Stream) -> bool {
        match self.replication.is_replica() {
            true => self.replication.link.sends_frames.load(Relaxed),
            false => stream.encoding.has_frames(),
        }
    }

    /// The primary has said whether frames may come.
    pub(crate) fn note_encoding(&self, frames: bool) {
        if let Some(stream) = self.outgoing.stream() {
            let relayed = Relayed { marks: false, frames: Some(frames) };
            stream.encoding.follow(relayed, stream.backlog.end());
        }
    }

    /// Notes how far replicas are that need commands.
    fn note_plain_replicas(&self, stream: &Stream) {
        let replicas = self.outgoing.replicas.lock();
        if replicas.iter().any(|replica| replica.needs_commands()) {
            stream.encoding.note_plain(stream.backlog.end());
        }
    }

    /// Writes commits as the replicas that there are read them. Everything is held.
    pub(super) fn settle_encoding(&self, stream: &Stream, config: &Config) {
        let (encoding, backlog) = (&stream.encoding, &stream.backlog);
        self.note_plain_replicas(stream);
        // A replica's stream is its primary's; while the role is handed over it stands still.
        if !self.replication.is_replica() && !self.replication.failover.is_active() {
            let frames = !self.needs_commands(config) && !encoding.is_awaited(backlog);
            encoding.turn(frames, backlog);
        }
    }

    /// Updates the encoding at intervals; on a replica, asks its primary for the needed encoding.
    /// The thread is in no batch.
    pub(super) fn tend_encoding(&self, ks: &mut Handle, stream: &Stream, config: &Config) {
        let encoding = &stream.encoding;
        let needs_commands = self.needs_commands(config);
        self.note_plain_replicas(stream);
        if self.replication.is_replica() {
            let link = &self.replication.link;
            let has_asked = link.asked_commands.load(Relaxed);
            let is_wrong = match needs_commands {
                true => !has_asked && link.sends_frames.load(Relaxed),
                false => has_asked && !encoding.awaits_own(&stream.backlog),
            };
            if self.replication.follows() && is_wrong {
                tracing::info!(
                    "reconnecting to the primary, for changes as {}",
                    if needs_commands { "commands" } else { "effects" }
                );
                self.replication.cut_link();
            }
            return;
        }
        let is_awaited = encoding.is_awaited(&stream.backlog);
        if encoding.has_frames() == (needs_commands || is_awaited) {
            ks.enter();
            ks.lock_all();
            self.settle_encoding(stream, config);
            ks.unlock();
            ks.exit();
            stream.owners.call_at_once(&self.workers);
        }
    }

    /// Lets a replica that needs commands go on from an offset, if it reads all that is kept from
    /// there on. The thread is in a batch.
    pub(super) fn resume_in_commands(
        &self,
        ks: &mut Handle,
        stream: &Stream,
        replica: &Arc<Replica>,
        from: u64,
    ) -> Option<petrel_replication::Reader> {
        if ks.holds_any() {
            return None;
        }
        ks.lock_all();
        let backlog = &stream.backlog;
        // A turn to commands would be a frame behind it.
        let is_plain = replica.is_plain();
        let reads_all = !is_plain || from >= backlog.framed() && !self.has_frames(stream);
        let reader = backlog.reader(from).ok().filter(|_| reads_all);
        if reader.is_some() && !self.replication.is_replica() {
            stream.encoding.turn(false, backlog);
            stream.encoding.note_plain(backlog.end());
        }
        ks.unlock();
        reader
    }

    /// Whether some of these replicas cannot be sent anything before the primary sends commands.
    pub(super) fn awaits_commands(&self, replicas: &[Arc<Replica>]) -> bool {
        let sends_frames = self.replication.link.sends_frames.load(Relaxed);
        self.replication.is_replica()
            && sends_frames
            && replicas.iter().any(|replica| replica.is_plain())
    }

    /// Frames arrived, and are relayed as they are: closes replicas that do not read them.
    pub(super) fn close_plain_replicas(&self) {
        let replicas: Vec<Arc<Replica>> = self.outgoing.replicas.lock().clone();
        for replica in replicas.iter().filter(|replica| replica.is_plain() && replica.is_fed()) {
            tracing::info!("replica {} is closed: it does not read effects", replica.name());
            self.close_replica(replica);
        }
    }
}
