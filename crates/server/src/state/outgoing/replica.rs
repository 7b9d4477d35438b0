//! State of a replica: its position in the stream, and its acknowledgements.

use crate::client::Client;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use petrel_net::Output;
use petrel_persistence::rdb::Dialect;
use petrel_replication::{Piece, Reader};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst,
};
use std::time::{Duration, Instant};

/// Bytes of a copy that wait for a replica's worker; its sender waits for it then.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Stage of a replica's synchronisation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Stage {
    /// Waiting for a snapshot.
    Waits,
    /// Receiving a copy.
    Copied,
    /// Loading the copy that it was sent.
    Loads,
    /// Receiving the stream.
    Online,
}

/// A connection that follows this server.
pub struct Replica {
    /// The connection.
    pub client: Arc<Client>,
    /// Options that it stated.
    pub(crate) options: Handshake,
    /// Wants the copy's position in the history (`PSYNC`).
    pub(crate) speaks_psync: bool,
    stage: AtomicU8,
    /// Bytes of the stream that it has executed.
    pub acked: AtomicU64,
    /// An acknowledgement has arrived since this was last set to false.
    pub(crate) has_answered: AtomicBool,
    /// Bytes of the stream on its disk.
    pub synced: AtomicU64,
    /// Time of the last sign of life, in Unix milliseconds.
    pub heard_at: AtomicI64,
    /// Start of the wait for a snapshot.
    pub(crate) waits_since: i64,
    /// Time of the last bytes sent outside of a copy.
    pub(crate) told_at: AtomicI64,
    outbox: Mutex<Outbox>,
    taken: Condvar,
    has_left: AtomicBool,
    /// Bytes of the stream that it came back to and has not taken yet, as many as one command may
    /// have: no limit closes it for these, or it would come back to the same for ever.
    pub(crate) owed: AtomicU64,
    /// Since when its output has been above the soft limit, in Unix milliseconds; 0 if it is not.
    pub(crate) soft_since: AtomicI64,
}

#[derive(Default)]
struct Outbox {
    queue: VecDeque<Bytes>,
    bytes: usize,
    reader: Option<Reader>,
}

/// A worker's replicas.
#[derive(Default)]
pub(crate) struct OwnReplicas {
    pub(crate) list: Vec<Arc<Replica>>,
    /// Time of the last sending.
    pub(crate) sent_at: Option<Instant>,
    /// Time at which bytes held back to be batched are sent.
    pub(crate) due: Option<Instant>,
    /// [`super::Outgoing::version`] when the list was made.
    pub(crate) version: usize,
}

/// Options stated by a connection before it requests a copy or the stream.
#[derive(Clone, Debug)]
pub(crate) struct Handshake {
    /// The port that it serves at; 0 if it has not said.
    pub port: u16,
    /// The address that it wants to be named by.
    pub address: Option<String>,
    /// Accepts a copy with an end mark, so that its length need not be known in advance.
    pub knows_end_mark: bool,
    /// Understands a new id of the history in `+CONTINUE`.
    pub knows_ids: bool,
    /// Wants a copy without the stream.
    pub takes_copy_only: bool,
    /// Parts of the copy that it wants: keys, function libraries.
    pub wants: (bool, bool),
    /// The dialect of values that it reads, if stated.
    pub dialect: Option<Dialect>,
    /// Reads every type of value that this server has.
    pub is_petrel: bool,
    /// Whether it reads frames, and whether it wants commands in their place from now on.
    pub frames: (bool, bool),
}

impl Default for Handshake {
    fn default() -> Self {
        Handshake {
            port: 0,
            address: None,
            knows_end_mark: false,
            knows_ids: false,
            takes_copy_only: false,
            wants: (true, true),
            dialect: None,
            is_petrel: false,
            frames: (false, false),
        }
    }
}

/// A replica as `INFO` and `ROLE` show it.
#[derive(Clone, Debug)]
pub struct ReplicaLine {
    /// Address of the replica.
    pub ip: String,
    /// The port that it serves at.
    pub port: u16,
    /// `wait_bgsave`, `online`: what Redis says of a copy that goes from the image into the socket.
    pub state: &'static str,
    /// Bytes of the stream that it has acknowledged.
    pub offset: u64,
    /// Seconds since it last did so.
    pub lag: i64,
    /// An acknowledgement has arrived since [`super::Outgoing::expect_answers`].
    pub(crate) has_answered: bool,
}

impl Replica {
    pub(crate) fn new(
        client: Arc<Client>,
        options: Handshake,
        speaks_psync: bool,
        now: i64,
    ) -> Self {
        Replica {
            client,
            options,
            speaks_psync,
            stage: AtomicU8::new(Stage::Waits as u8),
            acked: AtomicU64::new(0),
            has_answered: AtomicBool::new(true),
            synced: AtomicU64::new(0),
            heard_at: AtomicI64::new(now),
            waits_since: now,
            told_at: AtomicI64::new(now),
            outbox: Mutex::default(),
            taken: Condvar::new(),
            has_left: AtomicBool::new(false),
            owed: AtomicU64::new(0),
            soft_since: AtomicI64::new(0),
        }
    }

    /// Whether it reads nothing but commands.
    pub(crate) fn is_plain(&self) -> bool {
        let (reads, _) = self.options.frames;
        !reads && !self.options.takes_copy_only
    }

    /// Whether its copy leaves out values of types that Redis does not have. A copy without a
    /// stream may be a backup.
    pub(crate) fn has_only_redis_types(&self) -> bool {
        !self.options.is_petrel && !self.options.takes_copy_only
    }

    /// Whether changes must be sent to it as commands from now on.
    pub(crate) fn needs_commands(&self) -> bool {
        let (_, wants_commands) = self.options.frames;
        self.is_plain() || wants_commands && !self.options.takes_copy_only
    }

    /// Whether it is sent the stream, or is about to be.
    pub(crate) fn is_fed(&self) -> bool {
        self.outbox.lock().reader.is_some()
    }

    /// Current stage.
    #[inline]
    pub fn stage(&self) -> Stage {
        match self.stage.load(SeqCst) {
            0 => Stage::Waits,
            1 => Stage::Copied,
            2 => Stage::Loads,
            _ => Stage::Online,
        }
    }

    pub(crate) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, SeqCst);
    }

    /// Sets the reader of the stream that it is sent once online.
    pub(crate) fn set_reader(&self, reader: Reader) {
        self.outbox.lock().reader = Some(reader);
    }

    /// Seconds since the last sign of life.
    pub fn lag(&self, now: i64) -> i64 {
        (now - self.heard_at.load(Relaxed)).max(0) / 1000
    }

    /// Name in the log: address and port.
    pub fn name(&self) -> String {
        format!("{}:{}", self.ip(), self.options.port)
    }

    fn ip(&self) -> String {
        let peer = || self.client.peer().ip().map_or_else(String::new, |ip| ip.to_string());
        self.options.address.clone().unwrap_or_else(peer)
    }

    pub(crate) fn line(&self, now: i64) -> ReplicaLine {
        let state = match self.stage() {
            Stage::Waits | Stage::Copied => "wait_bgsave",
            Stage::Loads | Stage::Online => "online",
        };
        let (offset, lag) = (self.acked.load(SeqCst), self.lag(now));
        // One that has not acknowledged anything yet does not lag behind.
        let lag = if self.stage() == Stage::Online { lag } else { 0 };
        let has_answered = self.has_answered.load(SeqCst);
        ReplicaLine { ip: self.ip(), port: self.options.port, state, offset, lag, has_answered }
    }

    /// Sends bytes that belong to no copy.
    pub(crate) fn tell(&self, bytes: &[u8]) {
        self.put(Bytes::copy_from_slice(bytes));
    }

    fn put(&self, bytes: Bytes) {
        let mut outbox = self.outbox.lock();
        outbox.bytes += bytes.len();
        outbox.queue.push_back(bytes);
    }

    /// Sends a part of a copy, once there is room for it. False if the replica has left, or has
    /// taken nothing for so long.
    pub(crate) fn send_part(&self, part: &Bytes, patience: Duration) -> bool {
        let mut outbox = self.outbox.lock();
        while outbox.bytes >= QUEUE_BYTES_MAX && !self.has_left() {
            if self.taken.wait_for(&mut outbox, patience).timed_out() {
                return false;
            }
        }
        outbox.bytes += part.len();
        outbox.queue.push_back(part.clone());
        !self.has_left()
    }

    /// Nothing more is for it.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, SeqCst);
        let mut outbox = self.outbox.lock();
        *outbox = Outbox::default();
        self.taken.notify_all();
    }

    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(SeqCst)
    }

    /// Moves up to `room` bytes that are for it into an output, and some more if they lie
    /// together.
    pub(crate) fn fill(&self, output: &mut Output, room: usize) {
        let mut outbox = self.outbox.lock();
        while output.len() < room
            && let Some(part) = outbox.queue.pop_front()
        {
            outbox.bytes -= part.len();
            output.splice(part);
            self.taken.notify_all();
        }
        if outbox.queue.is_empty()
            && output.len() < room
            && self.stage() == Stage::Online
            && let Some(reader) = &mut outbox.reader
            && reader.behind() > 0
        {
            reader.read(room - output.len(), |piece| match piece {
                Piece::Shared(bytes) => output.splice(bytes),
                Piece::Borrowed(bytes) => output.bytes.extend_from_slice(bytes),
            });
        }
    }

    /// Bytes of the stream and of a copy that are for it and were not given to its socket.
    pub fn waiting(&self) -> u64 {
        let outbox = self.outbox.lock();
        outbox.bytes as u64 + outbox.reader.as_ref().map_or(0, Reader::behind)
    }

    /// Whether nothing but fewer bytes of the stream than these are for it.
    pub(crate) fn has_less_than(&self, bytes: u64) -> bool {
        let outbox = self.outbox.lock();
        let behind = outbox.reader.as_ref().map_or(0, Reader::behind);
        outbox.queue.is_empty() && behind < bytes
    }

    /// Whether there is something that could be sent at once.
    pub(crate) fn has_more(&self) -> bool {
        let outbox = self.outbox.lock();
        let is_behind = || outbox.reader.as_ref().is_some_and(|reader| reader.behind() > 0);
        !outbox.queue.is_empty() || self.stage() == Stage::Online && is_behind()
    }
}
