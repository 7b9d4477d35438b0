//! What the threads of the keyspace record into: effects as a frame or as commands, appended to the
//! backlog at each commit.

use super::language::Language;
use crate::config::Config;
use crate::random_id::random_id;
use crate::server::Server;
use petrel_keyspace::{Effect, EffectHead, EffectSink, Published, SinkSource};
use petrel_replication::{Backlog, Encoder, FrameWriter, Understood};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst, fence};
use std::sync::{Arc, Weak};

/// The name that the stream's sinks go by.
pub(super) const NAME: &str = "replication";

/// The stream that replicas are sent.
pub(crate) struct Stream {
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) owners: Owners,
    pub(crate) language: Language,
    /// The change of the libraries of functions that was recorded last.
    functions: AtomicU64,
    understood: Understood,
    mark: String,
    server: Weak<Server>,
    itself: Weak<Stream>,
}

impl Stream {
    pub(super) fn new(
        backlog: Arc<Backlog>,
        language: Language,
        server: Weak<Server>,
        config: &Config,
    ) -> Arc<Self> {
        let understood = Understood {
            dialect: config.form(),
            version_max: config.rdb_version_max(),
            databases: u16::try_from(config.databases).unwrap_or(u16::MAX),
        };
        let mark = random_id();
        let workers = server.upgrade().map_or(0, |server| server.workers.len());
        let owners = Owners::new(workers);
        Arc::new_cyclic(|itself| Stream {
            backlog,
            owners,
            language,
            functions: AtomicU64::new(0),
            understood,
            mark,
            server,
            itself: itself.clone(),
        })
    }

    /// What gives every thread a sink.
    pub(super) fn source(&self) -> Arc<dyn SinkSource> {
        Arc::new(StreamSource(self.itself.clone()))
    }
}

struct StreamSource(Weak<Stream>);

impl SinkSource for StreamSource {
    fn sink(&self) -> Box<dyn EffectSink> {
        let stream = self.0.upgrade();
        match stream.and_then(|stream| Some((stream.server.upgrade()?, stream))) {
            Some((server, stream)) => {
                let encoder = Encoder::new(stream.understood, stream.mark.as_bytes());
                Box::new(Recorder {
                    server,
                    stream,
                    encoder,
                    frame: FrameWriter::default(),
                    passes_on: None,
                    has_appended: false,
                })
            }
            // The stream has ended: another source, or none, takes this one's place.
            None => Box::new(|_: u16, _: &Effect<'_>| ()),
        }
    }
}

/// Records what one thread changes.
struct Recorder {
    server: Arc<Server>,
    stream: Arc<Stream>,
    encoder: Encoder,
    frame: FrameWriter,
    /// Whether the commit is sent to replicas: not if it is the primary's, whose bytes are; none
    /// before its first effect. A whole commit is, or nothing of it.
    passes_on: Option<bool>,
    has_appended: bool,
}

impl Recorder {
    #[inline]
    fn passes_on(&mut self) -> bool {
        let replication = &self.server.replication;
        *self.passes_on.get_or_insert_with(|| !replication.is_replica())
    }
}

impl EffectSink for Recorder {
    #[inline]
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        if !self.passes_on() {
            if !self.server.commands.is_loading() {
                self.server.replication.own_expiring.note(head.db, effect);
            }
            return;
        }
        if matches!(effect, Effect::Functions { .. })
            && self.stream.functions.fetch_max(head.order.0, SeqCst) > head.order.0
        {
            // A thread was faster that has put a later list into the stream.
            return;
        }
        // Everything is held when that changes, so that a commit is written in one way.
        match self.stream.language.has_frames() {
            true => self.frame.add(head.db, effect),
            false => self.encoder.add(head.db, effect),
        }
    }

    fn message(&mut self, message: &Published<'_>) -> bool {
        // What is not taken is no part of a commit, which would forget what was decided.
        if self.passes_on.unwrap_or_else(|| !self.server.replication.is_replica()) {
            self.passes_on = Some(true);
            self.encoder.message(message);
            return true;
        }
        false
    }

    #[inline]
    fn committed(&mut self, _: u64, _: bool) {
        self.passes_on = None;
        let backlog = &self.stream.backlog;
        self.has_appended |= self.frame.end(|lane, effects| {
            backlog.append_frame(lane, effects);
        });
        if let Some(commands) = self.encoder.finish() {
            self.stream.backlog.append(commands);
            self.has_appended = true;
        }
        self.encoder.clear();
    }

    fn hand_over(&mut self) {
        if std::mem::take(&mut self.has_appended) {
            self.stream.owners.call(&self.server);
        }
    }
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
    /// By worker: what there is is to be sent at once.
    urgent: Box<[AtomicBool]>,
}

impl Owners {
    fn new(workers: usize) -> Self {
        let flags = || (0..workers).map(|_| AtomicBool::new(false)).collect();
        Owners { asleep: flags(), dozing: flags(), urgent: flags() }
    }

    /// The same, for something that is awaited: it is not kept until there is more.
    pub(crate) fn call_at_once(&self, server: &Server) {
        self.urgent.iter().for_each(|urgent| urgent.store(true, SeqCst));
        self.call(server);
        let own = WORKER.get();
        for (worker, dozing) in self.dozing.iter().enumerate() {
            if dozing.load(SeqCst) && worker != own {
                server.workers[worker].wake();
            }
        }
    }

    /// The worker, which is the calling thread, is about to wait for more to send; false if what
    /// there is is to be sent at once.
    pub(super) fn dozes(&self, worker: usize) -> bool {
        self.dozing[worker].store(true, SeqCst);
        !self.urgent[worker].load(SeqCst)
    }

    /// Whether what there is for a worker's replicas is to be sent at once, now that it is.
    pub(super) fn takes_urgent(&self, worker: usize) -> bool {
        self.urgent[worker].load(SeqCst) && self.urgent[worker].swap(false, SeqCst)
    }

    /// Wakes the workers that have replicas and wait; the calling one looks by itself.
    pub(crate) fn call(&self, server: &Server) {
        fence(SeqCst);
        let own = WORKER.get();
        for (worker, asleep) in self.asleep.iter().enumerate() {
            if asleep.load(SeqCst) && worker != own && asleep.swap(false, SeqCst) {
                server.workers[worker].wake();
            }
        }
    }

    /// The worker, which is the calling thread, is about to wait; it looks once more afterwards.
    pub(super) fn falls_asleep(&self, worker: usize) {
        WORKER.set(worker);
        self.asleep[worker].store(true, SeqCst);
        fence(SeqCst);
    }

    pub(super) fn wakes_up(&self, worker: usize) {
        self.dozing[worker].store(false, SeqCst);
        self.asleep[worker].store(false, SeqCst);
    }
}
