//! A keyspace as it is at one moment into an RDB file, while it goes on.
//!
//! ```text
//! walking threads   a stripe each ─ encode some buckets under a hold ─┬─▶ run ─▶ the file, by the thread with a full one
//! other threads     about to change a key ─ encode it ─▶ their share ─┘
//! ```
//!
//! Each thread encodes into its own buffer, and touches shared state once per some hundred keys. A
//! thread that meets a large collection only registers it; a walking thread writes it straight into
//! the file, one chunk under each lock of the stripe.

use crate::rdb::{Error, FileError, FileOptions, FileWriter, Form, KeyRun, Shape, Writer};
use crate::turns::Turns;
use crate::value::{self, NOTHING_EXPIRED};
use petrel_keyspace::{DbStats, Handle, ImageKey, ImagePlace, ImageSink, Portions};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that a walking thread writes together.
const WALKED_LEN: usize = 512 * 1024;

/// Bytes that one hold of a stripe encodes, beyond which it ends.
const HOLD_LEN: usize = 32 * 1024;

/// Bytes of a large collection that are put into the file together.
const PORTIONS_LEN: usize = 192 * 1024;

/// Holds of a stripe in one batch.
const HOLDS_AT_ONCE: usize = 16;

/// Bytes from which on the other threads' keys are handed on to be written.
const SHARE_LEN: usize = 64 * 1024;

/// Shares that the other threads have among them.
const SHARES: usize = 16;

/// Bytes waiting to be written above which a thread that adds more waits too, for at most
/// `PATIENCE`.
const WAITING_MAX: usize = 32 << 20;
const PATIENCE: Duration = Duration::from_micros(500);

/// Whether a key, by its name at the image's moment, is part of an image. It is asked while stripes
/// are held: it is quick, and locks nothing.
pub type KeyFilter = dyn Fn(&[u8]) -> bool + Send + Sync;

/// A keyspace as it was at one moment, to be written.
///
/// It must be: until [`Image::write`] has gone through it, there can be no other.
pub struct Image {
    shares: Arc<Shares>,
    sizes: Vec<DbStats>,
    /// [`petrel_keyspace::Stats::changes`] at the moment.
    pub changes: u64,
    /// Threads that write it, the calling one included.
    pub threads: usize,
}

impl Image {
    /// Begins the image of this moment; none if one is being taken already. The thread is in a
    /// batch, and holds nothing or everything.
    pub fn begin(handle: &mut Handle, options: FileOptions) -> Option<Self> {
        Self::begin_of(handle, Shares::new(options, None))
    }

    /// Like [`Image::begin`], but only with keys for which `wanted` returns true. They are written
    /// as stored: keys and fields that have expired are included, for the receiver to remove. The
    /// number of keys is not known in advance, so the file does not state it.
    ///
    /// All other keys are gone through as well, which takes as long as finding them does.
    pub fn begin_some(
        handle: &mut Handle,
        options: FileOptions,
        wanted: Arc<KeyFilter>,
    ) -> Option<Self> {
        Self::begin_of(handle, Shares::new(options, Some(wanted)))
    }

    fn begin_of(handle: &mut Handle, shares: Shares) -> Option<Self> {
        let databases = handle.keyspace().databases();
        let (is_whole, shares) = (shares.wanted.is_none(), Arc::new(shares));
        let (mut sizes, mut changes) = (Vec::new(), 0);
        let begun = handle.begin_image(shares.clone(), |handle| {
            if is_whole {
                sizes.extend((0..databases).map(|db| handle.keyspace().db_stats(db)));
            }
            changes = handle.keyspace().stats().changes;
        });
        begun.then_some(Image { shares, sizes, changes, threads: 1 })
    }

    /// Number of keys; 0 if only some are part of it.
    pub fn keys(&self) -> u64 {
        self.sizes.iter().map(|stats| stats.keys).sum()
    }

    /// Writes every key. `saved` hears now and then how many were written so far, and may end it.
    /// How many keys the file has; none if `saved` ended it. The thread is in no batch.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write<W: Write + Send>(
        self,
        handle: &mut Handle,
        file: &mut FileWriter<W>,
        mut saved: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<u64>, FileError> {
        for (db, stats) in (0..).zip(&self.sizes).filter(|(_, stats)| stats.keys > 0) {
            file.database(db, stats.keys, stats.volatile);
        }
        let (shares, keyspace) = (&*self.shares, handle.keyspace().clone());
        let (file, next) = (Mutex::new(file), AtomicU32::new(0));
        let walker = || Walker {
            shares,
            file: &file,
            next: &next,
            run: shares.run(),
            keys: 0,
            turns: Turns::default(),
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(|| {
                    let mut handle = keyspace.attach();
                    walker().walk(&mut handle, &mut |_| ControlFlow::Continue(()));
                });
            }
            walker().walk(handle, &mut saved);
        });
        // No thread walks any more, but a database may still be flushed.
        let mut last = walker();
        while !handle.end_image() {
            last.walk_cleared(handle, &mut saved);
            last.write_begun(handle, &mut saved);
        }
        last.finish();
        if let Some(error) = lock(&shares.failed).take() {
            return Err(error);
        }
        Ok((!shares.is_over()).then(|| shares.keys.load(Relaxed)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that goes through stripes and writes.
struct Walker<'w, 'f, W> {
    shares: &'w Shares,
    file: &'w Mutex<&'f mut FileWriter<W>>,
    /// Next stripe to walk.
    next: &'w AtomicU32,
    run: KeyRun,
    /// Keys in the run that are not counted yet.
    keys: u64,
    /// Decides when to yield the processor.
    turns: Turns,
}

/// Hears how many keys were written, and may end it.
type Saved<'s> = dyn FnMut(u64) -> ControlFlow<()> + 's;

impl<W: Write> Walker<'_, '_, W> {
    /// Walks stripes until none is left, then the flushed databases. Every entry gets its stamp,
    /// even if the file has been abandoned.
    fn walk(mut self, handle: &mut Handle, saved: &mut Saved<'_>) {
        let stripes = handle.keyspace().stripes();
        loop {
            let stripe = self.next.fetch_add(1, Relaxed);
            if stripe >= stripes {
                break;
            }
            let mut place = Some(ImagePlace::stripe(stripe));
            while let Some(at) = place {
                place = self.some(handle, at);
                self.pass_on(WALKED_LEN, saved);
                self.write_begun(handle, saved);
            }
            if self.shares.wanted.is_some() {
                // There may be nothing to be written for long.
                self.report(saved);
            }
        }
        self.walk_cleared(handle, saved);
        self.pass_on(1, saved);
        // Write registered collections while nothing else is to be written.
        self.shares.keys.fetch_add(self.keys, Relaxed);
    }

    /// Some steps of the walk of a stripe.
    fn some(&mut self, handle: &mut Handle, mut place: ImagePlace) -> Option<ImagePlace> {
        handle.refresh_clock();
        handle.enter();
        let mut next = Some(place);
        for _ in 0..HOLDS_AT_ONCE {
            let (now_ms, end) = (handle.now_ms(), self.run.len() + HOLD_LEN);
            next = handle.continue_image(place, &mut |key| {
                self.add(key, now_ms);
                if self.run.len() < end {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            let Some(at) = next else { break };
            place = at;
            if handle.should_yield() || self.run.len() >= WALKED_LEN {
                break;
            }
        }
        handle.exit();
        // Each time may cost others' time slices, so not each stripe.
        if self.turns.is_over() {
            self.turns.give_way();
        }
        next
    }

    /// Goes through the tables of databases that were flushed.
    fn walk_cleared(&mut self, handle: &mut Handle, saved: &mut Saved<'_>) {
        let mut is_there = true;
        while is_there {
            handle.refresh_clock();
            let now_ms = handle.now_ms();
            is_there = handle.continue_cleared(&mut |key| {
                self.add(key, now_ms);
                ControlFlow::Continue(())
            });
            self.pass_on(WALKED_LEN, saved);
        }
    }

    fn add(&mut self, key: ImageKey<'_>, now_ms: i64) {
        self.keys += u64::from(self.shares.add(&mut self.run, key, now_ms));
    }

    /// Writes the large collections that were begun.
    fn write_begun(&mut self, handle: &mut Handle, saved: &mut Saved<'_>) {
        while self.shares.any_begun.load(Relaxed) {
            let mut begun = lock(&self.shares.begun);
            let next = begun.pop();
            self.shares.any_begun.store(!begun.is_empty(), Relaxed);
            drop(begun);
            if let Some(mut begun) = next {
                if let Some(head) = begun.head.take().filter(|_| !self.shares.is_over()) {
                    self.write_collection(handle, head, &begun, saved);
                }
                // It must be walked even if the file has been abandoned.
                while self.portion(handle, &begun, None).is_ok_and(|goes_on| goes_on) {}
            }
        }
    }

    fn write_collection(
        &self,
        handle: &mut Handle,
        mut head: Head,
        begun: &Begun,
        saved: &mut Saved<'_>,
    ) {
        let shares = self.shares;
        let mut feed = |writer: &mut Writer<'_>| {
            if saved(shares.keys.load(Relaxed)).is_break() {
                shares.over.store(true, Relaxed);
            }
            if shares.is_over() {
                return Err(Error::Refused("nobody wants the file any more"));
            }
            let mut goes_on = true;
            while goes_on && writer.waiting() < PORTIONS_LEN {
                goes_on = self.portion(handle, begun, Some(writer))?;
                // Under no hold.
                writer.settle()?;
            }
            Ok(goes_on)
        };
        let (form, shape) = (head.form, head.shape);
        let written = lock(self.file).value(&mut head.run, form, shape, &mut feed);
        if !shares.is_over() {
            shares.note(written);
        }
    }

    /// Takes a portion of a collection, and writes it if there is a writer; false at the end.
    fn portion(
        &self,
        handle: &mut Handle,
        begun: &Begun,
        mut writer: Option<&mut Writer<'_>>,
    ) -> Result<bool, Error> {
        let mut fed = Ok(());
        let end = writer.as_ref().map_or(0, |writer| writer.waiting()) + HOLD_LEN;
        handle.enter();
        let goes_on = handle.continue_portions(&begun.portions, &mut |element| {
            if let (Some(writer), true) = (&mut writer, fed.is_ok()) {
                fed = value::feed_element(element, begun.now_ms, &mut **writer);
                if writer.waiting() >= end {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        handle.exit();
        fed.map(|()| goes_on)
    }

    /// Says how many keys there were so far, which may end it.
    fn report(&mut self, saved: &mut Saved<'_>) {
        let keys = self.shares.keys.fetch_add(self.keys, Relaxed) + std::mem::take(&mut self.keys);
        if saved(keys).is_break() {
            self.shares.over.store(true, Relaxed);
        }
    }

    /// Writes the run if it is so long, and what others have left to be written.
    fn pass_on(&mut self, len_min: usize, saved: &mut Saved<'_>) {
        let is_long = self.run.len() >= len_min;
        if !is_long && self.shares.waiting.load(Relaxed) == 0 {
            return;
        }
        self.report(saved);
        let full = self.shares.take_full();
        let mut written = Ok(());
        if !self.shares.is_over() {
            let mut file = lock(self.file);
            let own = is_long.then_some(&mut self.run);
            written = own.map_or(Ok(()), |run| file.run(run));
            for mut run in full {
                written = written.and_then(|()| file.run(&mut run));
                self.shares.keep(run);
            }
        }
        self.shares.note(written);
        if self.shares.is_over() {
            self.run = self.shares.run();
        }
    }

    /// Writes everything that is left, when nothing more is handed out.
    fn finish(mut self) {
        let shares = self
            .shares
            .shares
            .iter()
            .map(|share| std::mem::replace(&mut *lock(share), self.shares.run()));
        let mut all: Vec<KeyRun> = self.shares.take_full();
        all.extend(shares);
        all.push(std::mem::replace(&mut self.run, self.shares.run()));
        self.shares.keys.fetch_add(self.keys, Relaxed);
        if !self.shares.is_over() {
            let mut file = lock(self.file);
            let written = all.iter_mut().filter(|run| !run.is_empty());
            self.shares.note(written.into_iter().try_for_each(|run| file.run(run)));
        }
    }
}

/// Large collection with elements left to walk.
struct Begun {
    /// None if it is not to be written.
    head: Option<Head>,
    portions: Arc<Portions>,
    /// Start time; fields expired by then are left out.
    now_ms: i64,
}

/// Part of a collection's record before its elements.
struct Head {
    /// The key.
    run: KeyRun,
    form: Form,
    shape: Shape,
}

/// Keys emitted by threads that were about to change them, and state shared by the walking threads.
struct Shares {
    options: FileOptions,
    /// Filter of the snapshot's keys; `None` includes all.
    wanted: Option<Arc<KeyFilter>>,
    /// Each thread has one of them, which few others have.
    shares: [Mutex<KeyRun>; SHARES],
    full: Mutex<Vec<KeyRun>>,
    /// Runs that were written, for the next to be filled: they have their memory, and know whether
    /// strings compress.
    spare: Mutex<Vec<KeyRun>>,
    /// Registered large collections that no thread writes yet, and whether there are any.
    begun: Mutex<Vec<Begun>>,
    any_begun: AtomicBool,
    /// Bytes in `full`, and the threads waiting until they are fewer.
    waiting: AtomicUsize,
    written: Condvar,
    /// The file has been abandoned.
    over: AtomicBool,
    keys: AtomicU64,
    failed: Mutex<Option<FileError>>,
}

impl Shares {
    fn new(options: FileOptions, wanted: Option<Arc<KeyFilter>>) -> Self {
        Shares {
            options,
            wanted,
            shares: std::array::from_fn(|_| Mutex::new(KeyRun::new(options))),
            full: Mutex::default(),
            spare: Mutex::default(),
            begun: Mutex::default(),
            any_begun: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            written: Condvar::new(),
            over: AtomicBool::new(false),
            keys: AtomicU64::new(0),
            failed: Mutex::default(),
        }
    }

    /// A run without keys.
    fn run(&self) -> KeyRun {
        let spare = lock(&self.spare).pop();
        spare.unwrap_or_else(|| KeyRun::new(self.options))
    }

    /// Keeps a run that was written, unless there are enough or it is much larger than most.
    fn keep(&self, run: KeyRun) {
        let mut spare = lock(&self.spare);
        if run.is_empty() && spare.len() < SHARES && run.capacity() <= 4 * SHARE_LEN {
            spare.push(run);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn note(&self, result: Result<(), FileError>) {
        if let Err(error) = result {
            lock(&self.failed).get_or_insert(error);
            self.over.store(true, Relaxed);
        }
    }

    /// Adds a key to a run, or begins it apart from that; false if it is left out.
    fn add(&self, run: &mut KeyRun, key: ImageKey<'_>, now_ms: i64) -> bool {
        let view = key.view;
        let (is_wanted, now_ms) = match &self.wanted {
            None => (true, now_ms),
            Some(wanted) => (wanted(view.key()), NOTHING_EXPIRED),
        };
        // A hash with only expired fields counts as absent.
        let is_left_out = !is_wanted
            || self.is_over()
            || self.options.omits(view)
            || view.hash(now_ms).is_ok_and(|hash| hash.alive() == 0);
        if let Some(portions) = key.portions.clone() {
            let head = (!is_left_out).then(|| self.head(&key, now_ms));
            self.begin(Begun { head, portions, now_ms });
        } else if !is_left_out {
            self.note(run.add(key.db, view, key.usage, now_ms));
        }
        !is_left_out
    }

    fn head(&self, key: &ImageKey<'_>, now_ms: i64) -> Head {
        let form = self.options.form(key.view, now_ms).unwrap_or_else(|error| {
            self.note(Err(error));
            Form::String
        });
        let mut run = KeyRun::new(self.options);
        run.head(key.db, key.view, key.usage, form);
        // What comes in portions has a shape.
        let shape = value::shape(key.view, now_ms).unwrap_or(Shape::Set { len: 0 });
        Head { run, form, shape }
    }

    fn begin(&self, begun: Begun) {
        let mut all = lock(&self.begun);
        all.push(begun);
        self.any_begun.store(true, Relaxed);
    }

    fn take_full(&self) -> Vec<KeyRun> {
        let full = std::mem::take(&mut *lock(&self.full));
        self.waiting.fetch_sub(full.iter().map(KeyRun::len).sum(), Relaxed);
        self.written.notify_all();
        full
    }

    /// Queues a run for writing. If much is queued and the caller may wait, it waits for a short
    /// time: this slows a thread that changes keys faster than they can be written. A thread that
    /// holds more than one stripe does not wait, since the writer may be waiting for it.
    fn leave(&self, run: KeyRun, may_wait: bool) {
        let waiting = self.waiting.fetch_add(run.len(), Relaxed);
        let mut full = lock(&self.full);
        full.push(run);
        if may_wait && waiting > WAITING_MAX && !self.is_over() {
            drop(self.written.wait_timeout(full, PATIENCE));
        }
    }
}

impl ImageSink for Shares {
    fn key(&self, key: ImageKey<'_>, now_ms: i64) {
        let may_wait = key.may_wait;
        let mut share = lock(&self.shares[own_share()]);
        if !self.add(&mut share, key, now_ms) {
            return;
        }
        self.keys.fetch_add(1, Relaxed);
        if share.len() >= SHARE_LEN {
            let run = std::mem::replace(&mut *share, self.run());
            drop(share);
            self.leave(run, may_wait);
        }
    }
}

/// The calling thread's share.
fn own_share() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Relaxed) % SHARES);
    OWN.with(|own| *own)
}
