//! State and statistics of snapshots.

use crate::unix_time::unix_ms;
use parking_lot::Mutex;
use petrel_persistence::Progress;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// State of snapshots.
#[derive(Debug)]
pub struct Snapshot {
    /// Progress of the load at start.
    pub progress: Progress,
    /// Start of the load, in Unix seconds; 0 if there was none.
    pub load_began: AtomicI64,
    /// Time of the last save or load, in Unix seconds; at first, the start of the server.
    pub saved_at: AtomicI64,
    /// [`petrel_keyspace::Stats::changes`] at that time.
    pub changes_then: AtomicU64,
    /// Number of saves, without saves of flushed databases.
    pub saves: AtomicU64,
    /// Start of the running background save, in Unix milliseconds; 0 if there is none.
    pub saving_since: AtomicI64,
    /// Keys that are written of it, and that there will be.
    pub keys_written: AtomicU64,
    /// See `keys_written`.
    pub keys_total: AtomicU64,
    /// The running save is to be abandoned.
    pub cancelled: AtomicBool,
    /// A save is to begin as soon as possible.
    pub scheduled: AtomicBool,
    /// Start of the last background save, in Unix seconds.
    pub tried_at: AtomicI64,
    /// Time of the last progress line in the log, in Unix milliseconds; 0 if nothing is running.
    pub(crate) told_at: AtomicI64,
    /// Number of consecutive failures; an abandoned save is no failure.
    pub failures: AtomicU64,
    /// Seconds that it took the last time; -1 if there was none.
    pub last_seconds: AtomicI64,
    /// The data was saved because the server is about to stop.
    pub(crate) is_final: AtomicBool,
    /// Locked while a file replaces the old one, and to abandon that. A thread that also locks the
    /// keyspace does so afterwards.
    pub(crate) placing: Mutex<()>,
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot {
            progress: Progress::default(),
            load_began: AtomicI64::new(0),
            saved_at: AtomicI64::new(unix_ms() / 1000),
            changes_then: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            saving_since: AtomicI64::new(0),
            keys_written: AtomicU64::new(0),
            keys_total: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            tried_at: AtomicI64::new(0),
            told_at: AtomicI64::new(0),
            failures: AtomicU64::new(0),
            last_seconds: AtomicI64::new(-1),
            is_final: AtomicBool::new(false),
            placing: Mutex::default(),
        }
    }
}

impl Snapshot {
    /// Whether it is being saved in the background.
    pub fn is_saving(&self) -> bool {
        self.saving_since.load(Relaxed) != 0
    }

    /// Whether saving in the background failed the last time, and no other way of saving was used
    /// since.
    pub fn has_failed(&self) -> bool {
        self.failures.load(Relaxed) > 0
    }

    /// Abandons the running background save: its file will not be used.
    pub(crate) fn give_up(&self) {
        let _placing = self.placing.lock();
        self.cancelled.store(true, Relaxed);
    }

    /// Part of the file that is loaded, in percent.
    pub fn loaded_percent(&self) -> f64 {
        let total = self.progress.total.load(Relaxed).max(1);
        100.0 * self.progress.loaded.load(Relaxed) as f64 / total as f64
    }

    /// Seconds that the load is expected to take still, from how it went so far.
    pub fn seconds_left(&self) -> i64 {
        let loaded = self.progress.loaded.load(Relaxed) as f64;
        let left = self.progress.total.load(Relaxed) as f64 - loaded;
        let elapsed = (unix_ms() / 1000 - self.load_began.load(Relaxed)).max(1) as f64;
        if loaded > 0.0 { (elapsed * left / loaded) as i64 } else { -1 }
    }
}
