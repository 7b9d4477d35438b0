//! In what the stream says changes: frames of effects while all replicas read them, commands else.
//!
//! ```text
//! commands ──▶ frames     no replica needs commands, and none that needs them could come back and go on
//! frames ──▶ commands     one that needs them is about to be sent the stream; everything is held
//! ```
//!
//! Both stand in one stream, with one name and one offset: a replica that reads frames goes on
//! anywhere in it, another behind the last of them. A replica's stream is its primary's. If it
//! needs commands, for its own replicas or itself, it says so when it links, and links anew if that
//! changes.

use super::{Replica, Stream};
use crate::config::Config;
use crate::server::Server;
use petrel_keyspace::Handle;
use petrel_replication::Backlog;
use petrel_replication::frame::READS_FRAMES;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// No offset.
const NONE: u64 = u64::MAX;

/// See the module.
pub(crate) struct Language {
    /// Commits are written as frames. Changes while everything is held, or on a replica.
    frames: AtomicBool,
    /// The last offset at which a replica may stand that reads nothing but commands, or [`NONE`].
    plain_at: AtomicU64,
}

/// What of the primary's stream was executed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Relayed {
    /// There were frames.
    pub frames: bool,
    /// There were commands that change data.
    pub changes: bool,
}

impl Language {
    /// Commands, which another server may have read up to an offset.
    pub(super) fn commands(plain_at: Option<u64>) -> Self {
        let plain_at = AtomicU64::new(plain_at.unwrap_or(NONE));
        Language { frames: AtomicBool::new(false), plain_at }
    }

    /// Whether commits are written as frames.
    #[inline]
    pub(crate) fn has_frames(&self) -> bool {
        self.frames.load(Relaxed)
    }

    /// What changes are written as: `repl_stream` of `INFO`.
    pub(crate) fn word(&self) -> &'static str {
        if self.has_frames() { "effects" } else { "commands" }
    }

    /// The primary's stream has come to `end`, with these.
    pub(super) fn follow(&self, relayed: Relayed, end: u64) {
        if relayed.frames {
            self.frames.store(true, Relaxed);
            self.plain_at.store(NONE, Relaxed);
        } else if relayed.changes {
            self.frames.store(false, Relaxed);
            self.plain_at.store(end, Relaxed);
        }
    }

    fn use_commands(&self) {
        self.frames.store(false, Relaxed);
    }

    /// Whether a replica that was sent commands could come back and go on with them.
    fn is_awaited(&self, backlog: &Backlog) -> bool {
        let plain_at = self.plain_at.load(Relaxed);
        plain_at != NONE && plain_at >= backlog.start().max(backlog.framed())
    }
}

impl Replica {
    /// What stands behind the answer to its `PSYNC`: whether frames may follow, if it asked.
    pub(super) fn frames_word(&self, config: &Config) -> String {
        let (reads, wants_commands) = self.frames;
        match reads && !wants_commands && config.replication.repl_effects {
            true => format!(" {READS_FRAMES}"),
            false => String::new(),
        }
    }
}

impl Server {
    /// Whether changes are to come as commands, from the primary or to replicas.
    pub(crate) fn needs_commands(&self, config: &Config) -> bool {
        // Events of keys, and room for what is written, are made by commands.
        let is_replica = self.replication.is_replica();
        let makes_events = is_replica && config.notify_keyspace_events.wanted() != 0;
        let evicts =
            is_replica && config.maxmemory > 0 && !config.replication.replica_ignore_maxmemory;
        let asked = || self.outgoing.replicas.lock().iter().any(|replica| replica.needs_commands());
        !config.replication.repl_effects || makes_events || evicts || asked()
    }

    /// Whether a replica reads nothing but commands.
    fn has_plain_replica(&self) -> bool {
        self.outgoing.replicas.lock().iter().any(|replica| replica.is_plain())
    }

    /// Writes commits as the replicas that there are read them. Everything is held.
    pub(super) fn settle_language(&self, stream: &Stream, config: &Config) {
        let (language, backlog) = (&stream.language, &stream.backlog);
        if self.has_plain_replica() {
            language.plain_at.store(backlog.end(), Relaxed);
        }
        // A replica's stream is its primary's.
        if !self.replication.is_replica() {
            let frames = !self.needs_commands(config) && !language.is_awaited(backlog);
            language.frames.store(frames, Relaxed);
        }
    }

    /// The same now and then, and for a replica: has its primary send what is needed here. The
    /// thread is in no batch.
    pub(super) fn tend_language(&self, ks: &mut Handle, stream: &Stream, config: &Config) {
        let language = &stream.language;
        let is_awaited = language.is_awaited(&stream.backlog);
        let needs_commands = self.needs_commands(config);
        if self.replication.is_replica() {
            let link = &self.replication.link;
            let is_wrong = match needs_commands {
                true => link.sends_frames.load(Relaxed),
                false => link.asked_commands.load(Relaxed) && !is_awaited,
            };
            if self.replication.follows() && is_wrong {
                tracing::info!(
                    "linking anew: changes are to come as {}",
                    if needs_commands { "commands" } else { "effects" }
                );
                self.replication.cut_link();
            }
            return;
        }
        if self.has_plain_replica() {
            language.plain_at.store(stream.backlog.end(), Relaxed);
        }
        if language.has_frames() == (needs_commands || is_awaited) {
            ks.enter();
            ks.lock_all();
            self.settle_language(stream, config);
            ks.unlock();
            ks.exit();
        }
    }

    /// Lets a replica that needs commands go on from an offset, if it reads all that is kept from
    /// there on. The thread is in a batch.
    pub(super) fn resume_in_commands(
        &self,
        ks: &mut Handle,
        stream: &Stream,
        replica: &Replica,
        from: u64,
    ) -> Option<petrel_replication::Reader> {
        if ks.holds_any() {
            return None;
        }
        ks.lock_all();
        let backlog = &stream.backlog;
        let reads_all = !replica.is_plain() || from >= backlog.framed();
        let reader = backlog.reader(from).ok().filter(|_| reads_all);
        if reader.is_some() && !self.replication.is_replica() {
            stream.language.use_commands();
            stream.language.plain_at.store(backlog.end(), Relaxed);
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

    /// Frames have come that this server's replicas get as they are: closes those that do not read
    /// them.
    pub(super) fn close_plain_replicas(&self) {
        let replicas: Vec<Arc<Replica>> = self.outgoing.replicas.lock().clone();
        for replica in replicas.iter().filter(|replica| replica.is_plain() && replica.is_fed()) {
            tracing::info!("replica {} is closed: it does not read effects", replica.name());
            self.close_replica(replica);
        }
    }
}
