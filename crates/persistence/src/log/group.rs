//! The log while the server runs: group commit by epochs.
//!
//! ```text
//! threads   execute ─ commit: the record gets the epoch of this moment ─ ... ─ end of the batch: hand over
//! the log   end the epoch ─ wait for threads with records of it ─ one block ─ write ─ sync
//!           ─ the epoch is durable: its waiters are notified
//! ```
//!
//! One thread writes, so that an epoch costs one write and one sync, however many threads have
//! worked in it. Under [`Policy::EverySecond`] another thread syncs, and writing goes on meanwhile.

mod outliving;
mod reached;
mod source;

pub use source::LogSource;

use super::format::{FILE_HEAD_LEN, FileHead};
use super::pending::Pending;
use super::recorder::{Part, Recorder};
use super::segment::Segment;
use super::storage::{Storage, Sync};
use super::writer::Writer;
use parking_lot::{Condvar, Mutex};
use petrel_keyspace::Keyspace;
use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst, fence,
};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two writes while none is waited for.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two syncs of [`Policy::EverySecond`].
const SECOND: Duration = Duration::from_secs(1);
/// After something failed, until it is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// A thread that has this many bytes waiting wakes the log's.
const WAKE_BYTES: usize = 1 << 20;
/// A thread that has this many bytes waiting waits itself, unless the log has failed and so no
/// thread may write.
const WAITING_MAX: usize = 32 * 1024 * 1024;
/// Upper bound on how long group commit delays an epoch to batch more writers. Below it, the delay
/// is a share of the expected time of a sync.
const COMPANY_MAX: Duration = Duration::from_millis(1);

/// Sleep state of the log's thread: awake; asleep until much is waiting or a timeout; asleep until
/// anything is handed over.
const AWAKE: u8 = 0;
const SOUNDLY: u8 = 1;
const LIGHTLY: u8 = 2;

/// Policy of making writes durable: `appendfsync`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Policy {
    /// Before it is acknowledged.
    Always,
    /// Once a second.
    EverySecond,
    /// Left to the system.
    No,
}

/// Callbacks for durability and failure; called on the log's threads.
pub trait Events: Send + std::marker::Sync {
    /// Everything up to this epoch is durable.
    fn durable(&self, epoch: u64);

    /// The log could not be written or synced. Until [`Events::recovered`] nothing more becomes
    /// durable. With `needs_base`, recovery takes a new file and a base for it ([`Log::rotate`],
    /// [`Log::has_base`]), since the contents of the old file are unknown.
    fn failed(&self, why: &str, needs_base: bool);

    /// The log works again.
    fn recovered(&self);

    /// From now on unwritten records are lost if the process dies, because the file of pending
    /// records failed for this reason. `None`: it works again.
    fn pending_failed(&self, why: Option<&str>) {
        let _ = why;
    }
}

/// The log.
pub struct Log {
    policy: AtomicU8,
    parts: Mutex<Vec<Arc<Part>>>,
    thread: OnceLock<Thread>,
    /// Sleep state of the log's thread.
    sleep: AtomicU8,
    /// Another thread is syncing.
    syncing: AtomicBool,
    sync_failure: Mutex<Option<String>>,
    /// The current file is not usable before its base exists.
    awaits_base: AtomicBool,
    stops: AtomicBool,
    failed: AtomicBool,
    written: AtomicU64,
    /// Written and synced; durable, unless a base is awaited.
    synced: AtomicU64,
    durable: AtomicU64,
    /// Records of epochs up to this one were taken from threads, if any.
    taken: AtomicU64,
    /// The highest epoch with a waiter.
    wanted: AtomicU64,
    /// Bytes of the current file.
    len: AtomicU64,
    /// Number of a file, and how many of its bytes are known to be on the disk.
    on_disk: Mutex<(u64, u64)>,
    syncs_delayed: AtomicU64,
    next: Mutex<Option<Next>>,
    /// A thread that has too many bytes waiting sleeps here.
    room: (Mutex<()>, Condvar),
    /// File that preserves unwritten records if the process dies; unset while it cannot be created.
    pending: OnceLock<Arc<Pending>>,
    /// The pending file is not usable until everything up to this epoch was written, because
    /// earlier records are in process memory. 0 if there are none.
    pending_after: AtomicU64,
    events: Box<dyn Events>,
}

/// The file that the log goes on in.
struct Next {
    /// First epoch of the file.
    from: u64,
    file: Box<dyn Storage>,
    head: FileHead,
    /// The file follows on a base that is being made.
    awaits_base: bool,
}

impl Log {
    /// A log that is written to no file yet.
    pub fn new(
        policy: Policy,
        events: Box<dyn Events>,
        pending: Option<Arc<Pending>>,
    ) -> Arc<Self> {
        Arc::new(Log {
            policy: AtomicU8::new(policy as u8),
            parts: Mutex::default(),
            thread: OnceLock::new(),
            sleep: AtomicU8::new(AWAKE),
            syncing: AtomicBool::new(false),
            sync_failure: Mutex::default(),
            awaits_base: AtomicBool::new(false),
            stops: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            len: AtomicU64::new(0),
            on_disk: Mutex::default(),
            syncs_delayed: AtomicU64::new(0),
            next: Mutex::default(),
            room: Default::default(),
            pending: pending.map_or_else(OnceLock::new, OnceLock::from),
            pending_after: AtomicU64::new(0),
            events,
        })
    }

    /// Starts the log's threads, which write behind the head of `file`, all that there is of it;
    /// the last block before had the epoch `previous`, and those of the keyspace are later. To
    /// be joined after [`Log::stop`].
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        self: &Arc<Self>,
        keyspace: Arc<Keyspace>,
        file: Box<dyn Storage>,
        head: FileHead,
        previous: u64,
    ) -> io::Result<thread::JoinHandle<()>> {
        self.len.store(FILE_HEAD_LEN as u64, Relaxed);
        *self.on_disk.lock() = (head.seq, FILE_HEAD_LEN as u64);
        self.written.store(previous, Relaxed);
        self.synced.store(previous, Relaxed);
        self.durable.store(previous, Relaxed);
        let (send, receive) = mpsc::sync_channel(1);
        let log = self.clone();
        let syncing = thread::Builder::new()
            .name("petrel-log-sync".into())
            .spawn(move || log.sync_in_turn(&receive))?;
        let log = self.clone();
        thread::Builder::new().name("petrel-log".into()).spawn(move || {
            let _ = log.thread.set(thread::current());
            let mut scribe = Scribe {
                writer: Writer::new(file, head, previous),
                log: &log,
                keyspace,
                backlog: Vec::new(),
                kept: None,
                is_broken: false,
                is_unsynced: false,
                synced_at: Instant::now(),
                sync_time: Duration::ZERO,
                trimmed_at: Instant::now(),
                pending_failed: false,
                company: 0,
                syncs: Some(send),
            };
            scribe.run();
            drop(scribe);
            // It ends with the channel.
            let _ = syncing.join();
        })
    }

    /// Starts without a file, as failed for the given reason: records wait in memory until
    /// [`Log::start`]. The last block before has the epoch `previous`.
    pub fn await_file(&self, previous: u64, why: &str) {
        for reached in [&self.written, &self.synced, &self.durable] {
            reached.store(previous, SeqCst);
        }
        self.fail(why, false);
    }

    /// The current policy.
    pub fn policy(&self) -> Policy {
        match self.policy.load(Acquire) {
            0 => Policy::Always,
            1 => Policy::EverySecond,
            _ => Policy::No,
        }
    }

    /// Changes the policy. Whether threads record the epochs they have read changes with their next
    /// sink. A thread that sees the policy also sees everything the caller stored before.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Release);
        self.wake();
    }

    /// Everything up to this epoch is durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Acquire)
    }

    /// Everything up to this epoch was written and synced; it is durable, unless a base is awaited.
    pub fn synced(&self) -> u64 {
        self.synced.load(Acquire)
    }

    /// Everything up to this epoch was written.
    pub fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Bytes of the file that is being written.
    pub fn file_len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// Whether the file that is being written has more than its head.
    pub fn has_blocks(&self) -> bool {
        self.file_len() > FILE_HEAD_LEN as u64
    }

    /// Number of times that a sync was due while the one before was running.
    pub fn syncs_delayed(&self) -> u64 {
        self.syncs_delayed.load(Relaxed)
    }

    /// Whether a sync is under way on a thread of its own.
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Relaxed)
    }

    /// Whether something failed that was not done since.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Bytes that were recorded and not written.
    pub fn waiting(&self) -> usize {
        self.parts.lock().iter().map(|part| part.waiting().0).sum()
    }

    /// The most of them that any one thread has.
    fn waiting_most(&self) -> usize {
        self.parts.lock().iter().map(|part| part.waiting().0).max().unwrap_or(0)
    }

    /// Asks for an epoch to become durable soon, whatever the policy.
    pub fn want(&self, epoch: u64) {
        self.wanted.fetch_max(epoch, SeqCst);
        self.wake();
    }

    /// Continues in another file, which has only its synced head, from this commit on; the whole
    /// keyspace is locked. With `awaits_base`, the file is usable only with a base of this state,
    /// and nothing in it is durable before [`Log::has_base`]. Returns the first epoch that the file
    /// may have.
    pub fn rotate(
        &self,
        keyspace: &Keyspace,
        file: Box<dyn Storage>,
        head: FileHead,
        awaits_base: bool,
    ) -> u64 {
        let mut next = self.next.lock();
        let from = keyspace.epochs().advance() + 1;
        if awaits_base {
            self.awaits_base.store(true, SeqCst);
        }
        if let Some(pending) = self.pending() {
            pending.set_first(head.seq, from);
        }
        *next = Some(Next { from, file, head, awaits_base });
        from
    }

    /// Like [`Log::rotate`] with `awaits_base`, but later records replace everything before. The
    /// earlier files are durable, and a start loads them until the base is there.
    pub fn rotate_apart(&self, keyspace: &Keyspace, file: Box<dyn Storage>, head: FileHead) {
        let from = self.rotate(keyspace, file, head, true);
        if let Some(pending) = self.pending() {
            // It follows on an epoch that the files before do not have.
            pending.set_written(from);
        }
    }

    /// Marks the current file as usable only with a base that does not exist yet: until
    /// [`Log::has_base`] nothing is durable.
    pub fn await_base(&self) {
        self.awaits_base.store(true, SeqCst);
    }

    /// The base of the current file is there and durable.
    pub fn has_base(&self) {
        self.awaits_base.store(false, SeqCst);
        self.publish(0);
        self.wake();
    }

    /// Ends the log: writes and syncs everything handed over, then the end mark.
    pub fn stop(&self) {
        self.stops.store(true, SeqCst);
        self.wake();
    }

    pub(super) fn join(&self, part: Arc<Part>) {
        self.parts.lock().push(part);
    }

    /// A thread has handed over; this many of its bytes wait now.
    #[inline]
    pub(super) fn handed_over(&self, part: &Part, waiting: usize) {
        // Orders the handing over before the check of the sleep state.
        fence(SeqCst);
        let sleep = self.sleep.load(Relaxed);
        if sleep == LIGHTLY || sleep == SOUNDLY && waiting >= WAKE_BYTES {
            self.rouse();
        }
        if waiting > WAITING_MAX {
            self.await_room(part);
        }
    }

    #[cold]
    fn await_room(&self, part: &Part) {
        let mut guard = self.room.0.lock();
        while part.waiting().0 > WAITING_MAX && !self.has_failed() && !self.stops.load(SeqCst) {
            self.wake();
            self.room.1.wait_for(&mut guard, PAUSE);
        }
    }

    /// Wakes the log's thread, once.
    #[cold]
    fn rouse(&self) {
        if self.sleep.swap(AWAKE, SeqCst) != AWAKE {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Log {
    /// A sink for a thread.
    pub fn recorder(self: &Arc<Self>) -> Recorder {
        Recorder::new(self.clone())
    }

    fn parts(&self) -> Vec<Arc<Part>> {
        self.parts.lock().clone()
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(SeqCst) > self.durable()
    }

    /// Everything up to this epoch was synced: it is durable now, unless a base is awaited.
    fn publish(&self, epoch: u64) {
        let synced = self.synced.fetch_max(epoch, SeqCst).max(epoch);
        if self.awaits_base.load(SeqCst) {
            return;
        }
        if self.durable.fetch_max(synced, SeqCst) < synced {
            self.events.durable(synced);
        }
    }

    /// This many bytes of the file with this number were synced.
    fn note_on_disk(&self, seq: u64, len: u64) {
        let mut known = self.on_disk.lock();
        if known.0 == seq {
            known.1 = known.1.max(len);
        }
    }

    fn has_sync_failure(&self) -> bool {
        self.sync_failure.lock().is_some()
    }

    fn fail(&self, why: &str, needs_base: bool) {
        self.failed.store(true, SeqCst);
        self.events.failed(why, needs_base);
    }

    /// Syncs the received files one after another.
    fn sync_in_turn(&self, receive: &mpsc::Receiver<ToSync>) {
        for ToSync { file, seq, len, epoch } in receive {
            let synced = file.sync();
            if let Err(error) = &synced {
                *self.sync_failure.lock() = Some(error.to_string());
            }
            self.syncing.store(false, SeqCst);
            match synced {
                Ok(()) => {
                    self.note_on_disk(seq, len);
                    self.publish(epoch);
                }
                Err(_) => self.wake(),
            }
        }
    }
}

/// The log's thread.
struct Scribe<'l> {
    log: &'l Arc<Log>,
    keyspace: Arc<Keyspace>,
    writer: Writer,
    /// Segments taken from threads and not written yet, in order of epochs.
    backlog: Vec<(Arc<Part>, Segment)>,
    /// Segments recorded since the current file replaced one in an unknown state, while it has no
    /// base yet: they complete the old files if the process dies.
    kept: Option<Vec<(Arc<Part>, Segment)>>,
    /// Contents of the file are unknown: nothing more is written to it.
    is_broken: bool,
    /// Something was written since the last sync began.
    is_unsynced: bool,
    synced_at: Instant,
    /// Average time of a sync.
    sync_time: Duration,
    /// Time when memory was last freed.
    trimmed_at: Instant,
    /// The listener knows that unwritten records are lost if the process dies.
    pending_failed: bool,
    /// Records of the last write.
    company: u64,
    syncs: Option<mpsc::SyncSender<ToSync>>,
}

/// Request for the sync thread.
struct ToSync {
    file: Arc<dyn Sync>,
    /// The number of the file, and how many bytes of it this makes durable.
    seq: u64,
    len: u64,
    /// Everything up to this epoch is in them.
    epoch: u64,
}

impl Scribe<'_> {
    fn run(&mut self) {
        loop {
            // Read before segments are taken: if set, those are the last.
            let stops = self.log.stops.load(SeqCst);
            self.rest(stops);
            if !stops && self.is_stalled() && self.log.waiting_most() < WAKE_BYTES {
                // Each epoch that is not written takes memory of its own.
                self.log.syncs_delayed.fetch_add(1, Relaxed);
                thread::park_timeout(PAUSE);
                continue;
            }
            let end = self.keyspace.epochs().advance();
            self.collect(end);
            self.trim_in_time();
            let written = self.write(end, stops);
            let ended = written.and_then(|()| self.sync(end, stops));
            if stops {
                return self.close(ended);
            }
            match ended {
                Ok(()) => self.note_recovery(),
                Err(error) => self.log.fail(&error.to_string(), self.is_broken),
            }
        }
    }

    /// Frees memory that threads have not needed for a while.
    fn trim_in_time(&mut self) {
        if self.trimmed_at.elapsed() >= SECOND {
            self.trimmed_at = Instant::now();
            self.log.parts().iter().for_each(|part| part.trim());
            let failure = self.log.pending().and_then(|pending| pending.failure());
            if failure.is_some() != self.pending_failed {
                self.pending_failed = failure.is_some();
                self.log.events.pending_failed(failure.as_deref());
            }
        }
    }

    /// Releases segments kept for want of a base, once there is one.
    fn release_kept(&mut self) {
        if !self.log.awaits_base.load(SeqCst)
            && let Some(kept) = self.kept.take()
        {
            self.release(kept);
        }
    }

    /// Reports recovery if the failed work has been done.
    fn note_recovery(&self) {
        let log = self.log;
        if log.has_failed()
            && self.backlog.is_empty()
            && !log.awaits_base.load(SeqCst)
            && !log.has_sync_failure()
        {
            log.failed.store(false, SeqCst);
            log.events.recovered();
        }
    }

    /// Waits until there is something to do.
    fn rest(&mut self, stops: bool) {
        if stops {
            return;
        }
        if self.log.has_failed() {
            thread::park_timeout(RETRY);
        } else if self.log.policy() == Policy::Always {
            if self.sleep(LIGHTLY, SECOND, 1) {
                self.await_company();
            }
        } else {
            self.sleep(SOUNDLY, PAUSE, u64::MAX);
        }
    }

    /// Keeps an epoch open for the threads that were part of the last one: they have had their
    /// replies, and their next commands are on the way. A share of a sync is well spent if it
    /// saves them one.
    fn await_company(&mut self) {
        let limit = COMPANY_MAX.min(self.sync_time / 2);
        let began = Instant::now();
        loop {
            let elapsed = began.elapsed();
            if elapsed >= limit || self.sleep(LIGHTLY, limit - elapsed, self.company) {
                return;
            }
        }
    }

    /// Sleeps for a time at most, unless there is something to do: this many records wait, or
    /// something is wanted. Whether there is.
    fn sleep(&self, how: u8, time: Duration, records: u64) -> bool {
        let log = self.log;
        let has_work = || {
            let (mut bytes, mut count) = (0, 0);
            for part in log.parts() {
                let waiting = part.waiting();
                (bytes, count) = (bytes.max(waiting.0), count + waiting.1);
            }
            let is_next = log.next.lock().is_some();
            count >= records
                || bytes >= WAKE_BYTES
                || is_next
                || log.stops.load(SeqCst)
                || log.has_sync_failure()
                || log.is_wanted()
        };
        log.sleep.store(how, SeqCst);
        fence(SeqCst);
        if !has_work() {
            thread::park_timeout(time);
            log.sleep.store(AWAKE, SeqCst);
            return how == SOUNDLY || has_work();
        }
        log.sleep.store(AWAKE, SeqCst);
        true
    }

    /// Takes everything that belongs to epochs up to this one, which has ended.
    fn collect(&mut self, end: u64) {
        let parts = self.log.parts();
        let mut segments = Vec::new();
        for part in &parts {
            self.await_part(part, end);
            if part.waiting().0 > 0 {
                self.log.taken.fetch_max(end, SeqCst);
            }
            part.take(end, &mut segments);
            self.backlog.extend(segments.drain(..).map(|segment| (part.clone(), segment)));
        }
        self.backlog.sort_by_key(|(_, segment)| segment.epoch);
        if parts.iter().any(|part| part.gone.load(SeqCst)) {
            let is_over = |part: &Arc<Part>| part.gone.load(SeqCst) && part.waiting().0 == 0;
            self.log.parts.lock().retain(|part| !is_over(part));
        }
        let _guard = self.log.room.0.lock();
        self.log.room.1.notify_all();
    }

    /// Waits until a thread has handed over its commits of epochs up to `end`.
    fn await_part(&self, part: &Part, end: u64) {
        while !part.is_complete(end) {
            self.log.sleep.store(LIGHTLY, SeqCst);
            fence(SeqCst);
            if !part.is_complete(end) {
                thread::park_timeout(Duration::from_millis(1));
            }
            self.log.sleep.store(AWAKE, SeqCst);
        }
    }

    /// A sync has been under way for so long that writing more would wait for it as well.
    fn is_stalled(&self) -> bool {
        self.log.syncing.load(SeqCst) && self.synced_at.elapsed() > 2 * SECOND
    }

    /// Writes the taken segments, one block per epoch up to `end`.
    fn write(&mut self, end: u64, stops: bool) -> io::Result<()> {
        let failure = self.log.sync_failure.lock().clone();
        if let Some(why) = failure {
            self.is_broken = true;
            self.follow(end)?;
            if self.is_broken {
                return Err(io::Error::other(why));
            }
        }
        if !stops && self.is_stalled() {
            // The disk is slower than the writers.
            self.log.syncs_delayed.fetch_add(1, Relaxed);
            return Ok(());
        }
        self.release_kept();
        self.company = self.backlog.iter().map(|(_, segment)| segment.records).sum();
        while let Some((_, first)) = self.backlog.first() {
            let epoch = first.epoch;
            self.follow(epoch)?;
            let count =
                self.backlog.iter().take_while(|(_, segment)| segment.epoch == epoch).count();
            let mut segments: Vec<&mut Segment> =
                self.backlog[..count].iter_mut().map(|(_, segment)| segment).collect();
            let (_, synced) = *self.log.on_disk.lock();
            self.writer.block(&mut segments, unix_ms(), synced, false)?;
            self.is_unsynced = true;
            let released = self.backlog.drain(..count).collect();
            self.release(released);
        }
        self.follow(end + 1)?;
        self.log.len.store(self.writer.len(), Relaxed);
        self.log.written.store(end, Release);
        self.settle_pending(end);
        Ok(())
    }

    /// Goes on in the next file, if this epoch belongs there.
    fn follow(&mut self, epoch: u64) -> io::Result<()> {
        let Some(next) = self.log.next.lock().take_if(|next| next.from <= epoch) else {
            return Ok(());
        };
        if next.awaits_base {
            // The base will contain records that were not written or may be lost.
            let count =
                self.backlog.iter().take_while(|(_, segment)| segment.epoch < next.from).count();
            let left = self.backlog.drain(..count).collect();
            if self.is_broken {
                self.kept.get_or_insert_default();
            }
            self.release(left);
            *self.log.sync_failure.lock() = None;
            self.is_broken = false;
        } else {
            let synced = self.writer.syncer().sync();
            self.is_broken |= synced.is_err();
            synced?;
        }
        *self.log.on_disk.lock() = (next.head.seq, FILE_HEAD_LEN as u64);
        self.writer.go_on_in(next.file, next.head);
        self.is_unsynced = false;
        Ok(())
    }

    fn sync(&mut self, end: u64, stops: bool) -> io::Result<()> {
        let log = self.log;
        if self.log.written() < end {
            return Ok(());
        }
        if !self.is_unsynced {
            // Unless another thread is at it, all is on the disk.
            if !log.syncing.load(SeqCst) {
                log.publish(end);
            }
            return Ok(());
        }
        match log.policy() {
            _ if stops => self.sync_now(end),
            Policy::Always => self.sync_now(end),
            Policy::No if !log.is_wanted() => {
                log.publish(end);
                Ok(())
            }
            Policy::EverySecond | Policy::No => {
                let is_due = self.synced_at.elapsed() >= SECOND || log.is_wanted();
                if is_due && !log.syncing.load(SeqCst) {
                    self.synced_at = Instant::now();
                    log.syncing.store(true, SeqCst);
                    self.is_unsynced = false;
                    let work = self.to_sync(end);
                    let sent = self.syncs.as_ref().map(|syncs| syncs.send(work));
                    if !matches!(sent, Some(Ok(()))) {
                        log.syncing.store(false, SeqCst);
                        return self.sync_now(end);
                    }
                }
                Ok(())
            }
        }
    }

    /// All that was written so far, which is everything up to this epoch.
    fn to_sync(&self, epoch: u64) -> ToSync {
        let (seq, len) = (self.writer.seq(), self.writer.len());
        ToSync { file: self.writer.syncer(), seq, len, epoch }
    }

    fn sync_now(&mut self, end: u64) -> io::Result<()> {
        let began = Instant::now();
        let ToSync { file, seq, len, .. } = self.to_sync(end);
        if let Err(error) = file.sync() {
            *self.log.sync_failure.lock() = Some(error.to_string());
            self.is_broken = true;
            return Err(error);
        }
        self.log.note_on_disk(seq, len);
        self.is_unsynced = false;
        let took = began.elapsed();
        self.sync_time =
            if self.sync_time.is_zero() { took } else { (7 * self.sync_time + took) / 8 };
        self.synced_at = Instant::now();
        self.log.publish(end);
        Ok(())
    }

    /// Leaves the mark of an end behind everything, if that could be written.
    fn close(&mut self, ended: io::Result<()>) {
        let (_, synced) = *self.log.on_disk.lock();
        let ended = ended
            .and_then(|()| self.writer.block(&mut [], unix_ms(), synced, true))
            .and_then(|()| self.writer.syncer().sync());
        match (ended, self.log.pending()) {
            (Err(error), _) => self.log.fail(&error.to_string(), self.is_broken),
            // Without its base, the log is not complete.
            (Ok(()), Some(pending)) if !self.log.awaits_base.load(SeqCst) => {
                if let Err(error) = pending.remove() {
                    self.log.events.pending_failed(Some(&error.to_string()));
                }
            }
            _ => {}
        }
        self.syncs = None;
    }
}

fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
