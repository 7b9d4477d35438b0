//! An RDB file into a keyspace, with every core.
//!
//! ```text
//! the calling thread   read ─ find the records' ends ─ runs of about 512 KiB ─┬─▶ builder: values into the keyspace
//!                      (builds one itself when the builders are busy)         └─▶ builder ...
//! ```
//!
//! A key that is too long for a run is built where it is read, so that no value is held twice.

mod beside;
mod sharing;

pub use beside::{LoadFrom, Settle, load_from};

use crate::check::Census;
use crate::rdb::{
    self, AUX_STATE, Error, FileError, FileReader, Head, Item, Leniency, Nowhere, Section,
    ShownKey, Slice, Source, Templates, ValueReader, next_key, read_text, read_value, skip_value,
};
use crate::value::Builder;
use beside::{Beside, Holds, WHOLE_MAX};
use petrel_keyspace::aux_state::{FUNCTIONS, NamedForm, is_name, put_texts};
use petrel_keyspace::{Handle, Key, KeyHash, Keyspace, Options, Type, Value};
pub use sharing::AUX_COMPACT;
use sharing::Sharing;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a key's record takes at least.
const KEY_MIN: u64 = 4;

/// The length of a file that ends where it says so.
pub const UNKNOWN_LEN: u64 = u64::MAX;

/// Keys that room is made for before they come, at most, in a file of that length.
const RESERVED_MAX: u64 = 1 << 20;

/// Number of keys prefetched before the first of them is built.
const AHEAD: usize = 16;

/// Options of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Threads, the calling one included; at least 1.
    pub threads: usize,
    /// Checks to leave out.
    pub leniency: Leniency,
    /// Load expired keys too: the changes that follow were made before the keys expired.
    pub keeps_expired: bool,
    /// Replace present keys by those of the file, and skip the file's expired keys. Otherwise a
    /// present key is an error.
    pub merges: bool,
}

/// Progress of a load. Other threads may read it, and stop the load.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of the file.
    pub total: AtomicU64,
    /// Bytes of which the keys are there, or about to be.
    pub loaded: AtomicU64,
    /// Keys that are there and had not expired.
    pub keys: AtomicU64,
    /// Keys of the file that had expired, whether they were kept or not.
    pub expired: AtomicU64,
    /// Bytes of memory that the server that saved the file used, as the file says.
    pub saver_bytes: AtomicU64,
    /// Set to stop the load early. Keys loaded so far stay, and [`Loaded::is_whole`] is false.
    pub stop: AtomicBool,
    /// Microseconds that a thread waits for each key that it has loaded, for tests; may change
    /// meanwhile.
    pub key_delay_us: AtomicU64,
    /// Messages about single keys, which were loaded nevertheless or left out with reason.
    notes: Mutex<Notes>,
}

/// Lines about single keys: the first [`NOTES_MAX`] of them, and how many more there were.
#[derive(Debug, Default)]
struct Notes {
    lines: Vec<String>,
    more: u64,
}

/// Lines about single keys that are kept of a load.
const NOTES_MAX: usize = 20;

impl Progress {
    /// Takes the messages about single loaded keys, to be logged.
    pub fn take_notes(&self) -> Vec<String> {
        let Notes { mut lines, more } = std::mem::take(&mut *lock(&self.notes));
        if more > 0 {
            lines.push(format!("and {more} more keys like these"));
        }
        lines
    }

    fn note(&self, db: u16, key: &[u8], what: &str) {
        let mut notes = lock(&self.notes);
        if notes.lines.len() == NOTES_MAX {
            notes.more += 1;
            return;
        }
        notes.lines.push(format!("{} of database {db} {what}", ShownKey(key)));
    }

    fn note_recounted(&self, db: u16, key: &[u8], what: Option<&'static str>) {
        if let Some(what) = what {
            self.note(db, key, &format!("states {what} wrongly, which was counted anew"));
        }
    }
}

/// Contents of a file other than its keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Loaded {
    /// The version in its head.
    pub version: u16,
    /// Sources of libraries of functions.
    pub functions: Vec<Vec<u8>>,
    /// Texts that describe it: name and text.
    pub aux: Vec<(Vec<u8>, Vec<u8>)>,
    /// Number of modules with auxiliary data, which was skipped.
    pub modules: usize,
    /// Position after the end of the RDB data; other data may follow. 0 if it was not read to the
    /// end.
    pub end: u64,
    /// Whether all of it was loaded: false if that was ended early ([`Progress::stop`]).
    pub is_whole: bool,
}

impl Loaded {
    /// Auxiliary state in the file: names and whole forms. The function libraries come first, even
    /// if there are none.
    pub fn aux_states(&self) -> Vec<NamedForm> {
        let functions = (FUNCTIONS.to_vec(), put_texts(&self.functions));
        let others = self.aux.iter().filter_map(|(name, form)| {
            let name = name.strip_prefix(AUX_STATE).filter(|name| is_name(name))?;
            (name != FUNCTIONS).then(|| (name.to_vec(), form.clone()))
        });
        std::iter::once(functions).chain(others).collect()
    }
}

/// Loads a file of `len` bytes, or [`UNKNOWN_LEN`], into a keyspace that no other thread changes
/// meanwhile. Expired keys are left out.
///
/// # Errors
/// If the file cannot be read or is damaged, if a key occurs twice or is present already (unless
/// merging), or if there are too few databases. Keys loaded until then stay.
pub fn load<R: Read>(
    file: R,
    len: u64,
    keyspace: &Arc<Keyspace>,
    options: LoadOptions,
    progress: &Progress,
) -> Result<Loaded, FileError> {
    load_with(file, len, keyspace, (options, None), progress)
}

/// Options of a load, and those of an online load.
type How<'l> = (LoadOptions, Option<LoadFrom<'l>>);

fn load_with<R: Read>(
    file: R,
    len: u64,
    keyspace: &Arc<Keyspace>,
    how: How<'_>,
    progress: &Progress,
) -> Result<Loaded, FileError> {
    let (options, _) = how;
    // More if there are other files to come.
    let known = if len == UNKNOWN_LEN { 0 } else { len };
    progress.total.fetch_max(known, Relaxed);
    let reader = FileReader::new(file, len, options.leniency)?;
    let builders = options.threads.max(1) - 1;
    let (send, receive) = sync_channel::<Run>(2 * builders);
    let queue = Mutex::new(receive);
    let failure = Mutex::new(None);
    let sharing = Sharing::new(keyspace);
    let loaded = std::thread::scope(|scope| {
        for _ in 0..builders {
            scope.spawn(|| {
                let mut target = Target::new(keyspace, how, progress);
                target.sharing = sharing.as_ref();
                while let Some(run) = next_run(&queue) {
                    if let Err(error) = target.build(&run) {
                        lock(&failure).get_or_insert(error);
                        progress.stop.store(true, Relaxed);
                    }
                }
            });
        }
        let mut target = Target::new(keyspace, how, progress);
        target.sharing = sharing.as_ref();
        Loading { reader, len, target, send, db: 0 }.load().map(|(loaded, _)| loaded)
    });
    if let Some(sharing) = sharing {
        lock(&progress.notes).lines.extend(sharing.finish(keyspace));
    }
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => loaded,
    }
}

/// Reads a file like [`load`], with the same errors, but keeps no values. Returns its contents and
/// counts.
///
/// # Errors
/// Those of [`load`].
pub(crate) fn examine<R: Read>(
    file: R,
    len: u64,
    leniency: Leniency,
    keeps_expired: bool,
) -> Result<(Loaded, Census), FileError> {
    // The keys alone: whether one comes twice shows with all of them only.
    // One thread needs no more stripes, each of which has a place for every database.
    let keyspace =
        Keyspace::new(&Options { databases: u16::MAX, stripes: 1, ..Options::default() });
    let options = LoadOptions { threads: 1, leniency, keeps_expired, merges: false };
    let (progress, (send, _)) = (Progress::default(), sync_channel(0));
    let reader = FileReader::new(file, len, leniency)?;
    let mut target = Target::new(&keyspace, (options, None), &progress);
    target.census = Some(Census::default());
    let (loaded, census) = Loading { reader, len, target, send, db: 0 }.load()?;
    Ok((loaded, Census { notes: progress.take_notes(), ..census }))
}

/// The keys of a damaged file that can be loaded, taken one by one.
pub(crate) struct Salvage {
    keyspace: Arc<Keyspace>,
    progress: Progress,
    version: u16,
}

impl Salvage {
    /// Values of this length are read where they are, not copied.
    const COPIED_MAX: u64 = 4 << 20;

    /// None yet, of a file of this version.
    pub fn new(version: u16) -> Self {
        let keyspace =
            Keyspace::new(&Options { databases: u16::MAX, stripes: 1, ..Options::default() });
        Salvage { keyspace, progress: Progress::default(), version }
    }

    /// The thread that takes them.
    pub fn taker(&self) -> Taker<'_> {
        let options = LoadOptions {
            threads: 1,
            leniency: Leniency::default(),
            // The strictest: a key that has expired is there twice too.
            keeps_expired: true,
            merges: false,
        };
        let mut target = Target::new(&self.keyspace, (options, None), &self.progress);
        target.census = Some(Census::default());
        Taker { target, version: self.version }
    }
}

/// Takes keys of a damaged file.
pub(crate) struct Taker<'s> {
    target: Target<'s>,
    version: u16,
}

impl Taker<'_> {
    /// Loads the key with its record in these bytes of the file, and its value in those from
    /// `value_at` on.
    ///
    /// # Errors
    /// Errors of a load.
    pub fn take(
        &mut self,
        file: &File,
        db: u64,
        head: &Head,
        record: Range<u64>,
        value_at: u64,
    ) -> Result<(), FileError> {
        let db = self.target.database(db)?;
        let at = record.start;
        if record.end - at <= Salvage::COPIED_MAX {
            let mut bytes = vec![0; (record.end - at) as usize];
            file.read_exact_at(&mut bytes, at)?;
            let templates = Arc::default();
            let run = Run { db, version: self.version, at, bytes, templates };
            return self.target.build(&run);
        }
        let mut value = ValueReader::new(file, value_at..record.end);
        let key = Key { bytes: &head.key, hash: self.target.handle.hash(&head.key) };
        self.target.handle.enter();
        let taken = self.target.add(db, key, head, usize::MAX, |_, sink| {
            let read = value.read(head.type_byte, sink)?;
            read.map_err(|error| located(db, head, value_at, error))
        });
        self.target.handle.exit();
        taken
    }
}

fn next_run(queue: &Mutex<Receiver<Run>>) -> Option<Run> {
    lock(queue).recv().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whole records of keys of one database.
struct Run {
    db: u16,
    /// The version of the file.
    version: u16,
    /// Position in the file.
    at: u64,
    bytes: Vec<u8>,
    templates: Arc<Templates>,
}

/// The reading side.
struct Loading<'l, R> {
    reader: FileReader<R>,
    len: u64,
    target: Target<'l>,
    send: SyncSender<Run>,
    db: u16,
}

impl<R: Read> Loading<'_, R> {
    fn load(mut self) -> Result<(Loaded, Census), FileError> {
        let mut loaded = Loaded { version: self.reader.version(), ..Loaded::default() };
        loop {
            let progress = self.target.progress;
            let at = self.reader.position();
            progress.loaded.store(at, Relaxed);
            if progress.stop.load(Relaxed) {
                return Ok((loaded, Census::default()));
            }
            match self.reader.next_section()? {
                Section::Aux { name, text } => {
                    if name == b"used-mem" {
                        let bytes =
                            std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                        progress.saver_bytes.store(bytes.unwrap_or(0), Relaxed);
                    }
                    if name == AUX_COMPACT.as_bytes() {
                        self.target.load_as_saved();
                    }
                    loaded.aux.push((name, text));
                }
                Section::Function(source) => loaded.functions.push(source),
                Section::Database(db) => self.db = self.target.database(db)?,
                // Reserving memory for all keys at once would delay clients.
                Section::Sizes { .. } if self.target.beside.is_some() => {}
                Section::Sizes { keys, .. } => {
                    // The file's word, and no more than its bytes can hold.
                    let most = match self.len {
                        UNKNOWN_LEN => RESERVED_MAX,
                        len => len / KEY_MIN,
                    };
                    let handle = &mut self.target.handle;
                    handle.enter();
                    handle.reserve(self.db, keys.min(most));
                    handle.exit();
                }
                Section::Keys(bytes) => {
                    let version = self.reader.version();
                    let templates = self.reader.templates().clone();
                    self.hand_out(Run { db: self.db, version, at, bytes, templates })?;
                }
                Section::LongKey(head) if self.target.passes_over(&head) => {
                    self.reader.read_value(&head, &mut Nowhere)?;
                }
                Section::LongKey(head) => self.load_long_key(&head)?,
                Section::Module(_) => loaded.modules += 1,
                Section::Template => self.target.load_as_saved(),
                Section::End => {
                    loaded.end = self.reader.position();
                    loaded.is_whole = true;
                    return Ok((loaded, self.target.census.unwrap_or_default()));
                }
            }
        }
    }

    fn load_long_key(&mut self, head: &Head) -> Result<(), FileError> {
        let (db, reader, target) = (self.db, &mut self.reader, &mut self.target);
        let key = Key { bytes: &head.key, hash: target.handle.hash(&head.key) };
        target.handle.enter();
        let read = |_, sink: &mut Builder<'_, '_>| reader.read_value(head, sink);
        let added = target.add(db, key, head, usize::MAX, read);
        target.handle.exit();
        target.publish();
        added
    }

    /// Gives a run to a thread that has time for it.
    fn hand_out(&mut self, run: Run) -> Result<(), FileError> {
        match self.send.try_send(run) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(run) | TrySendError::Disconnected(run)) => {
                self.target.build(&run)
            }
        }
    }
}

/// A thread's access to the keyspace.
struct Target<'l> {
    handle: Handle,
    keeps_expired: bool,
    /// Start of the load, in Unix milliseconds: keys expired by then count as expired even if they
    /// are kept.
    began_ms: i64,
    merges: bool,
    progress: &'l Progress,
    /// Keys that were added and left out since [`Target::publish`].
    keys: u64,
    expired: u64,
    /// The keys being built; kept for its capacity.
    ahead: Vec<Ahead>,
    /// Values are not kept, but counted.
    census: Option<Census>,
    /// Others go on serving meanwhile.
    beside: Option<Beside<'l>>,
    /// Hashes become compact.
    sharing: Option<&'l Sharing>,
}

/// A fault in the value of a key, at byte `at` of the file.
fn located(db: u16, head: &Head, at: u64, error: Error) -> FileError {
    FileError::Key { at, db: db.into(), key: head.key.clone(), error }
}

/// A key with its hash, and where in the run its value is.
type Ahead = (Head, KeyHash, Range<usize>);

impl<'l> Target<'l> {
    fn new(keyspace: &Arc<Keyspace>, (options, from): How<'l>, progress: &'l Progress) -> Self {
        let mut handle = keyspace.attach();
        if let Some(from) = from {
            handle.set_origin(from.origin);
        }
        handle.refresh_clock();
        let began_ms = handle.now_ms();
        if options.keeps_expired {
            handle.ignore_expiry();
        }
        let nothing = || (Head::default(), handle.hash(b""), 0..0);
        Target {
            ahead: (0..AHEAD).map(|_| nothing()).collect(),
            handle,
            keeps_expired: options.keeps_expired,
            began_ms,
            merges: options.merges,
            progress,
            keys: 0,
            expired: 0,
            census: None,
            beside: from.map(Beside::new),
            sharing: None,
        }
    }

    /// The file has compact hashes: others stay as they were saved.
    fn load_as_saved(&self) {
        if let Some(sharing) = self.sharing {
            sharing.turn_off();
        }
    }

    /// Publishes the changes to other threads. The handle must not be in a batch.
    fn publish(&mut self) {
        if let Some(beside) = &self.beside {
            beside.settle(&mut self.handle);
        }
        if self.progress.key_delay_us.load(Relaxed) > 0 {
            self.delay();
        }
        self.progress.keys.fetch_add(std::mem::take(&mut self.keys), Relaxed);
        self.progress.expired.fetch_add(std::mem::take(&mut self.expired), Relaxed);
    }

    #[cold]
    fn delay(&self) {
        const STEP: Duration = Duration::from_millis(1);
        let start = Instant::now();
        let micros = || self.keys.saturating_mul(self.progress.key_delay_us.load(Relaxed));
        while !self.progress.stop.load(Relaxed) && start.elapsed() < Duration::from_micros(micros())
        {
            std::thread::sleep(STEP);
        }
    }

    fn database(&self, db: u64) -> Result<u16, FileError> {
        let there = self.handle.keyspace().databases();
        let known = u16::try_from(db).ok().filter(|&db| db < there);
        known.ok_or(FileError::Databases { needed: db, there })
    }

    fn build(&mut self, run: &Run) -> Result<(), FileError> {
        let mut ahead = std::mem::take(&mut self.ahead);
        self.handle.refresh_clock();
        if self.keeps_expired {
            self.handle.ignore_expiry();
        }
        self.handle.enter();
        let built = self.build_keys(run, &mut ahead);
        self.handle.exit();
        self.publish();
        self.ahead = ahead;
        built
    }

    fn build_keys(&mut self, run: &Run, ahead: &mut [Ahead]) -> Result<(), FileError> {
        let mut source = Slice::with_templates(&run.bytes, &run.templates);
        let mut scratch = Vec::new();
        loop {
            let count = self.look_ahead(run, &mut source, ahead)?;
            if count == 0 {
                return Ok(());
            }
            for (head, hash, value) in &ahead[..count] {
                if let Some(beside) = &mut self.beside {
                    beside.take_turns(&mut self.handle);
                    if self.progress.stop.load(Relaxed) {
                        return Ok(());
                    }
                }
                if self.passes_over(head) {
                    continue;
                }
                let at = run.at + value.start as u64;
                let located = |error| located(run.db, head, at, error);
                let (len, bytes) = (value.len(), &run.bytes[value.clone()]);
                let mut value = Slice::with_templates(bytes, &run.templates);
                let key = Key { bytes: &head.key, hash: *hash };
                if head.type_byte == rdb::STRING {
                    let text = read_text(&mut value, &mut scratch).map_err(located)?;
                    self.put(run.db, key, head, text)?;
                } else {
                    self.add(run.db, key, head, len, |type_byte, sink| {
                        read_value(&mut value, type_byte, sink).map_err(located)
                    })?;
                }
            }
        }
    }

    /// Reads the heads of the next keys, and lets the cache lines come that they will be put into.
    /// How many there are.
    fn look_ahead(
        &mut self,
        run: &Run,
        source: &mut Slice<'_>,
        ahead: &mut [Ahead],
    ) -> Result<usize, FileError> {
        let mut count = 0;
        for (head, hash, value) in ahead.iter_mut() {
            let at = run.bytes.len() - source.left();
            let at = run.at + at as u64;
            if !next_key(source, run.version, head)
                .map_err(|error| FileError::Format { at, error })?
            {
                break;
            }
            let value_at = run.bytes.len() - source.left();
            *hash = self.handle.hash(&head.key);
            self.handle.prefetch_stripe(*hash);
            let skipped = skip_value(source, head.type_byte);
            skipped.map_err(|error| located(run.db, head, at, error))?;
            *value = value_at..run.bytes.len() - source.left();
            count += 1;
        }
        if let Some(peek) = self.handle.peeker() {
            ahead[..count].iter().for_each(|&(_, hash, _)| peek.prefetch_bucket(run.db, hash));
        }
        Ok(count)
    }

    /// Sets a string. The handle is in a batch.
    fn put(&mut self, db: u16, key: Key<'_>, head: &Head, text: Item<'_>) -> Result<(), FileError> {
        self.note(db, head, Some(Type::String));
        if self.has_expired(head) {
            self.expired += 1;
            return Ok(());
        }
        let value = match text {
            _ if self.census.is_some() => Value::Int(0),
            Item::Text(text) => Value::from_text(text),
            Item::Int(n) => Value::Int(n),
        };
        self.handle.lock(key.hash);
        if self.beside.is_some() && self.handle.view(db, key).is_some() {
            self.handle.unlock();
            return self.count(db, head, true);
        }
        let existed = self.handle.put(db, key, value, head.expiry) && !self.merges;
        self.handle.set_usage(db, key, head.usage);
        self.handle.unlock();
        self.count(db, head, existed)
    }

    /// Adds a key. `read` feeds its value of `len` bytes to a sink. The handle is in a batch.
    fn add(
        &mut self,
        db: u16,
        key: Key<'_>,
        head: &Head,
        len: usize,
        read: impl FnOnce(u8, &mut Builder<'_, '_>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        if len > WHOLE_MAX && self.beside.is_some() {
            return self.add_in_portions(db, key, head, read);
        }
        let (mut of, mut has_expired) = (None, self.has_expired(head));
        let mut recounted = None;
        let handle = &mut self.handle;
        handle.lock(key.hash);
        if handle.view(db, key).is_some() {
            if !self.merges {
                handle.unlock();
                return Err(FileError::Duplicate { key: head.key.clone(), db });
            }
            handle.remove(db, key);
        }
        let built: Result<(), FileError> = handle.build(db, key, head.expiry, |handle| {
            let mut builder = Builder::new(handle, db, key);
            read(head.type_byte, &mut builder)?;
            recounted = builder.wrongly_stated();
            let is_there = builder.finish();
            of = handle.view(db, key).map(|view| view.type_of());
            if has_expired {
                handle.remove(db, key);
            }
            has_expired |= !is_there;
            Ok(())
        });
        if self.census.is_some() && handle.view(db, key).is_some() {
            handle.remove(db, key);
            handle.put(db, key, Value::Int(0), head.expiry);
        }
        if let Some(sharing) = self.sharing
            && of == Some(Type::Hash)
        {
            sharing.share(handle, db, key);
        }
        handle.set_usage(db, key, head.usage);
        handle.unlock();
        if self.is_left_out(db, head, &built) {
            return Ok(());
        }
        built?;
        self.progress.note_recounted(db, &head.key, recounted);
        self.note(db, head, of);
        if has_expired {
            self.expired += 1;
            return Ok(());
        }
        self.count_kept(head);
        Ok(())
    }

    /// Like `add`, for a large value: the stripe is unlocked at intervals. The handle is in a
    /// batch, and in another one afterwards.
    fn add_in_portions(
        &mut self,
        db: u16,
        key: Key<'_>,
        head: &Head,
        read: impl FnOnce(u8, &mut Builder<'_, '_>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let Some(beside) = &mut self.beside else { return Ok(()) };
        let handle = &mut self.handle;
        handle.exit();
        let (mut holds, mut recounted) = (Holds::new(beside, db, key), None);
        let mut builder = Builder::new(handle, db, key).keeping_expired().holding(&mut holds);
        let built = read(head.type_byte, &mut builder).and_then(|()| {
            builder.hold().map_err(|error| located(db, head, 0, error))?;
            recounted = builder.wrongly_stated();
            builder.finish();
            Ok(())
        });
        let was_there = holds.end(handle, built.is_ok(), |handle| {
            if head.expiry.is_some() {
                handle.set_expiry(db, key, head.expiry);
            }
            handle.set_usage(db, key, head.usage);
        });
        if was_there {
            return self.count(db, head, true);
        }
        if self.is_left_out(db, head, &built) {
            return Ok(());
        }
        self.progress.note_recounted(db, &head.key, recounted);
        built.map(|()| self.count_kept(head))
    }

    /// Whether a key is left out because its value has no elements, which is noted: a server that
    /// has such a key has it by mistake, and Redis leaves it out too.
    fn is_left_out(&self, db: u16, head: &Head, built: &Result<(), FileError>) -> bool {
        let is_empty = |error: &FileError| match error {
            FileError::Key { error, .. } => error.is_empty_value(),
            _ => false,
        };
        let is_left_out = built.as_ref().is_err_and(is_empty);
        if is_left_out {
            self.progress.note(db, &head.key, "is left out: it has no elements");
        }
        is_left_out
    }

    fn note(&mut self, db: u16, head: &Head, of: Option<Type>) {
        if let Some(census) = &mut self.census {
            census.count(db.into(), head, of);
        }
    }

    /// Whether a key is left out without its value having been looked at, which is counted.
    fn passes_over(&mut self, head: &Head) -> bool {
        let passes = self.merges && self.has_expired(head);
        self.expired += u64::from(passes);
        passes
    }

    fn has_expired(&self, head: &Head) -> bool {
        head.expiry.is_some_and(|at| at <= self.handle.now_ms())
    }

    fn count(&mut self, db: u16, head: &Head, existed: bool) -> Result<(), FileError> {
        if existed {
            return Err(FileError::Duplicate { key: head.key.clone(), db });
        }
        self.count_kept(head);
        Ok(())
    }

    fn count_kept(&mut self, head: &Head) {
        match head.expiry.is_some_and(|at| at <= self.began_ms) {
            true => self.expired += 1,
            false => self.keys += 1,
        }
    }
}
