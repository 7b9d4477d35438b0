//! A keyspace as it is at one moment into an RDB file, while it goes on.
//!
//! ```text
//! saving thread   begin ─ hand out a few buckets ─ write what is there ─ hand out ...
//! other threads   about to change a key ─ hand it out ─┐
//!                                                      ▼
//!                                              parts: records of keys of one database
//! ```

use crate::rdb::{FileError, FileOptions, FileWriter, KeyEncoder};
use petrel_keyspace::{DbStats, Handle, ImagePlace, ImageSink, Usage, View};
use std::io::{Seek, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes from which on a part is handed to the saving thread.
const PART_LEN: usize = 64 * 1024;

/// Holds of a stripe between two looks at what there is to write.
const HOLDS_AT_ONCE: usize = 64;

/// A keyspace as it was at one moment, to be written.
///
/// It must be: until [`Image::write`] has gone through it, there can be no other.
pub struct Image {
    parts: Arc<Parts>,
    sizes: Vec<DbStats>,
    /// [`petrel_keyspace::Stats::changes`] at the moment.
    pub changes: u64,
}

impl Image {
    /// Begins the image of this moment; none if one is being taken already. The thread is in a batch and holds nothing.
    pub fn begin(handle: &mut Handle, options: FileOptions) -> Option<Self> {
        let databases = handle.keyspace().databases();
        let parts = Arc::new(Parts::new(options, databases));
        let (mut sizes, mut changes) = (Vec::new(), 0);
        let begun = handle.begin_image(parts.clone(), |handle| {
            sizes.extend((0..databases).map(|db| handle.keyspace().db_stats(db)));
            changes = handle.keyspace().stats().changes;
        });
        begun.then_some(Image { parts, sizes, changes })
    }

    /// Number of keys.
    pub fn keys(&self) -> u64 {
        self.sizes.iter().map(|stats| stats.keys).sum()
    }

    /// Writes every key. `saved` hears now and then how many were written so far, and may end it. How many keys the file has; none if it was
    /// ended, by `saved` or because a database was flushed. The thread is in no batch.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write<W: Write + Seek>(
        self,
        handle: &mut Handle,
        file: &mut FileWriter<W>,
        mut saved: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<u64>, FileError> {
        let parts = &*self.parts;
        for (db, stats) in (0..).zip(&self.sizes).filter(|(_, stats)| stats.keys > 0) {
            file.database(db, stats.keys, stats.volatile);
        }
        let mut result = Ok(());
        let mut place = Some(ImagePlace::default());
        while let Some(at) = place {
            handle.refresh_clock();
            handle.enter();
            place = walk(handle, at);
            handle.exit();
            // Every entry gets its stamp, even if nobody wants the file any more.
            if result.is_ok() && !parts.is_over() {
                result = parts.take_full().into_iter().try_for_each(|part| part.write(file));
                if result.is_err() || saved(parts.keys.load(Relaxed)).is_break() {
                    parts.cancel();
                }
            }
        }
        result?;
        if let Some(error) = parts.lock().failed.take() {
            return Err(error);
        }
        if parts.is_over() {
            return Ok(None);
        }
        parts.take_all().into_iter().try_for_each(|part| part.write(file))?;
        Ok(Some(parts.keys.load(Relaxed)))
    }
}

/// Some steps of the walk.
fn walk(handle: &mut Handle, mut place: ImagePlace) -> Option<ImagePlace> {
    for _ in 0..HOLDS_AT_ONCE {
        place = handle.continue_image(place)?;
        if handle.should_yield() {
            break;
        }
    }
    Some(place)
}

/// Records of keys that were handed out and are not in the file yet.
struct Parts {
    options: FileOptions,
    kept: Mutex<Kept>,
    /// Nobody wants the rest.
    over: AtomicBool,
    keys: AtomicU64,
}

struct Kept {
    /// Parts that a thread may go on with.
    open: Vec<Part>,
    /// Parts for the file.
    full: Vec<Part>,
    /// Where each database was at the image's moment.
    origin: Vec<u16>,
    failed: Option<FileError>,
}

/// Keys of one database.
struct Part {
    db: u16,
    bytes: Vec<u8>,
    encoder: KeyEncoder,
}

impl Part {
    fn write<W: Write + Seek>(mut self, file: &mut FileWriter<W>) -> Result<(), FileError> {
        file.select(self.db);
        file.encoded(&mut self.bytes, self.encoder.version())
    }
}

impl Parts {
    fn new(options: FileOptions, databases: u16) -> Self {
        let origin = (0..databases).collect();
        let kept = Kept { open: Vec::new(), full: Vec::new(), origin, failed: None };
        let (over, keys) = (AtomicBool::new(false), AtomicU64::new(0));
        Parts { options, kept: Mutex::new(kept), over, keys }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn take_full(&self) -> Vec<Part> {
        std::mem::take(&mut self.lock().full)
    }

    /// Everything, once nothing more is handed out.
    fn take_all(&self) -> Vec<Part> {
        let mut kept = self.lock();
        let mut all = std::mem::take(&mut kept.full);
        all.append(&mut kept.open);
        all
    }

    /// A part for a key of a database as it is called now; while one thread has it, others have theirs.
    fn open(&self, db: u16) -> Part {
        let mut kept = self.lock();
        let db = kept.origin[usize::from(db)];
        match kept.open.iter().position(|part| part.db == db) {
            Some(at) => kept.open.swap_remove(at),
            None => Part { db, bytes: Vec::new(), encoder: KeyEncoder::new(self.options) },
        }
    }

    fn keep(&self, part: Part, result: Result<(), FileError>) {
        let mut kept = self.lock();
        if part.bytes.len() < PART_LEN {
            kept.open.push(part)
        } else {
            kept.full.push(part)
        }
        if let Err(error) = result {
            kept.failed.get_or_insert(error);
            self.over.store(true, Relaxed);
        }
    }
}

impl ImageSink for Parts {
    fn key(&self, db: u16, view: View<'_>, usage: Usage, now_ms: i64) {
        // A hash whose fields have all expired is as good as gone.
        if self.is_over() || view.hash(now_ms).is_ok_and(|hash| hash.alive() == 0) {
            return;
        }
        let mut part = self.open(db);
        let encoded = part.encoder.encode(&mut part.bytes, view, usage, now_ms, None);
        self.keys.fetch_add(1, Relaxed);
        self.keep(part, encoded);
    }

    fn swap(&self, a: u16, b: u16) {
        self.lock().origin.swap(a.into(), b.into());
    }

    fn cancel(&self) {
        self.over.store(true, Relaxed);
        let mut kept = self.lock();
        (kept.open, kept.full) = (Vec::new(), Vec::new());
    }
}
