//! The stream sent to replicas: its bytes, its encoding, and the workers that send it.

use crate::config::Config;
use crate::random_id::random_id;
use crate::state::worker_link::WorkerLink;
use parking_lot::Mutex;
use petrel_replication::{Backlog, Understood};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};

/// The stream that replicas are sent.
pub(crate) struct Stream {
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) owners: Owners,
    pub(crate) encoding: StreamEncoding,
    /// By name of auxiliary state: the last change that was recorded.
    aux: Mutex<BTreeMap<Vec<u8>, u64>>,
    pub(crate) understood: Understood,
    pub(crate) mark: String,
}

impl Stream {
    /// Creates an empty stream for this number of workers.
    pub(crate) fn new(
        backlog: Arc<Backlog>,
        encoding: StreamEncoding,
        workers: usize,
        config: &Config,
    ) -> Arc<Self> {
        let understood = Understood {
            dialect: config.form(),
            version_max: config.rdb_version_max(),
            databases: u16::try_from(config.databases).unwrap_or(u16::MAX),
        };
        Arc::new(Stream {
            backlog,
            owners: Owners::new(workers),
            encoding,
            aux: Mutex::default(),
            understood,
            mark: random_id(),
        })
    }

    /// Records a change of auxiliary state by its number; returns false if a later one was recorded
    /// before.
    pub(crate) fn is_newest_aux(&self, name: &[u8], number: u64) -> bool {
        let mut all = self.aux.lock();
        let last = all.entry(name.to_vec()).or_default();
        let is_newest = *last <= number;
        *last = number.max(*last);
        is_newest
    }
}

/// No offset.
const NONE: u64 = u64::MAX;

/// Encoding of the stream (`encoding.rs`).
pub(crate) struct StreamEncoding {
    /// Commits are written as frames. Changes while everything is held, or on a replica.
    frames: AtomicBool,
    /// The last offset at which a replica may stand that needs commands, or [`NONE`].
    plain_at: AtomicU64,
    /// Like `plain_at`, for replicas that its primary may have had.
    relayed_at: AtomicU64,
}

/// Kind of the primary's stream that was executed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Relayed {
    /// Contains parts that only readers of frames understand.
    pub marks: bool,
    /// Whether changes are written as frames at its end, if it says so.
    pub frames: Option<bool>,
}

impl StreamEncoding {
    /// Commands, which another server may have read up to an offset.
    pub(crate) fn commands(relayed_at: Option<u64>) -> Self {
        let relayed_at = AtomicU64::new(relayed_at.unwrap_or(NONE));
        StreamEncoding {
            frames: AtomicBool::new(false),
            plain_at: AtomicU64::new(NONE),
            relayed_at,
        }
    }

    /// Whether commits are written as frames.
    #[inline]
    pub(crate) fn has_frames(&self) -> bool {
        self.frames.load(Relaxed)
    }

    /// Name of the encoding: `repl_stream` of `INFO`.
    pub(crate) fn word(&self) -> &'static str {
        if self.has_frames() { "effects" } else { "commands" }
    }

    /// Records that the primary's stream has reached `end`, with these contents.
    pub(crate) fn follow(&self, relayed: Relayed, end: u64) {
        if let Some(frames) = relayed.frames {
            self.frames.store(frames, Relaxed);
        }
        match relayed.frames {
            Some(false) => self.relayed_at.store(end, Relaxed),
            Some(true) => self.relayed_at.store(NONE, Relaxed),
            None => {}
        }
    }

    /// A replica that needs commands stands there at most.
    pub(crate) fn note_plain(&self, end: u64) {
        self.plain_at.store(end, Relaxed);
    }

    /// Sets the encoding of further commits. The whole keyspace is locked.
    pub(crate) fn turn(&self, frames: bool, backlog: &Backlog) {
        if self.frames.swap(frames, Relaxed) != frames {
            backlog.append_turn(frames);
        }
    }

    /// Whether a replica that was sent commands, by this server or its primary, could come back and
    /// continue with them.
    pub(crate) fn is_awaited(&self, backlog: &Backlog) -> bool {
        self.awaits_own(backlog) || is_kept(self.relayed_at.load(Relaxed), backlog)
    }

    /// Whether a replica of this server itself that was sent commands could come back and continue.
    pub(crate) fn awaits_own(&self, backlog: &Backlog) -> bool {
        is_kept(self.plain_at.load(Relaxed), backlog)
    }
}

/// Whether a replica that reads only commands could continue at an offset.
fn is_kept(offset: u64, backlog: &Backlog) -> bool {
    offset != NONE && offset >= backlog.start().max(backlog.framed())
}

thread_local! {
    /// The worker that this thread is.
    static WORKER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The workers that have replicas, to be woken when there is something to send.
pub(crate) struct Owners {
    /// By worker: it has replicas, and waits for something to happen.
    asleep: Box<[AtomicBool]>,
    /// By worker: it has something to send, and waits a little for more.
    dozing: Box<[AtomicBool]>,
    /// By worker: pending bytes are to be sent at once.
    urgent: Box<[AtomicBool]>,
}

impl Owners {
    fn new(workers: usize) -> Self {
        let flags = || (0..workers).map(|_| AtomicBool::new(false)).collect();
        Owners { asleep: flags(), dozing: flags(), urgent: flags() }
    }

    /// Wakes the workers for bytes that a client waits for: they are sent at once, without
    /// batching.
    pub(crate) fn call_at_once(&self, workers: &[WorkerLink]) {
        self.urgent.iter().for_each(|urgent| urgent.store(true, SeqCst));
        self.call(workers);
        let own = WORKER.get();
        for (worker, dozing) in self.dozing.iter().enumerate() {
            if dozing.load(SeqCst) && worker != own {
                workers[worker].wake();
            }
        }
    }

    /// Announces that the worker, on the calling thread, is about to wait for more bytes; returns
    /// false if pending bytes are to be sent at once.
    pub(crate) fn dozes(&self, worker: usize) -> bool {
        self.dozing[worker].store(true, SeqCst);
        !self.urgent[worker].load(SeqCst)
    }

    /// Takes a worker's request to send pending bytes at once; returns whether there was one.
    pub(crate) fn takes_urgent(&self, worker: usize) -> bool {
        self.urgent[worker].load(SeqCst) && self.urgent[worker].swap(false, SeqCst)
    }

    /// Wakes the workers that have replicas and wait; the calling one looks by itself.
    pub(crate) fn call(&self, workers: &[WorkerLink]) {
        fence(SeqCst);
        let own = WORKER.get();
        for (worker, asleep) in self.asleep.iter().enumerate() {
            if asleep.load(SeqCst) && worker != own && asleep.swap(false, SeqCst) {
                workers[worker].wake();
            }
        }
    }

    /// The worker, which is the calling thread, is about to wait; it looks once more afterwards.
    pub(crate) fn falls_asleep(&self, worker: usize) {
        WORKER.set(worker);
        self.asleep[worker].store(true, SeqCst);
        fence(SeqCst);
    }

    pub(crate) fn wakes_up(&self, worker: usize) {
        self.dozing[worker].store(false, SeqCst);
        self.asleep[worker].store(false, SeqCst);
    }
}
