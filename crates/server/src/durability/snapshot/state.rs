//! What the server knows of the snapshot: what is going on, and what became of it.

use crate::unix_time::unix_ms;
use parking_lot::Mutex;
use petrel_persistence::Progress;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// What is known of the snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// How far the load at start is, or was.
    pub progress: Progress,
    /// When the load began, in Unix seconds; 0 if there was none.
    pub load_began: AtomicI64,
    /// When the data was last saved or loaded, in Unix seconds; at first, when the server started.
    pub saved_at: AtomicI64,
    /// [`petrel_keyspace::Stats::changes`] at that time.
    pub changes_then: AtomicU64,
    /// How often it was saved; not by flushes.
    pub saves: AtomicU64,
    /// When saving in the background began, in Unix milliseconds; 0 while nothing is saved there.
    pub saving_since: AtomicI64,
    /// Keys that are written of it, and that there will be.
    pub keys_written: AtomicU64,
    /// See `keys_written`.
    pub keys_total: AtomicU64,
    /// It is to be given up.
    pub cancelled: AtomicBool,
    /// It is to be saved as soon as that can be.
    pub scheduled: AtomicBool,
    /// When saving in the background was begun last, in Unix seconds.
    pub tried_at: AtomicI64,
    /// When a line of the log last said how far it is, in Unix milliseconds; 0 if nothing is going
    /// on.
    pub(crate) told_at: AtomicI64,
    /// How often it failed in a row; being given up is no failure.
    pub failures: AtomicU64,
    /// Seconds that it took the last time; -1 if there was none.
    pub last_seconds: AtomicI64,
    /// The data was saved because the server is about to stop.
    pub(crate) is_final: AtomicBool,
    /// Held while a file takes the place of the old one, and to give that up. Who locks the
    /// keyspace too does so before.
    pub(super) placing: Mutex<()>,
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

    /// Gives up what is being saved in the background: its file takes no place any more.
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
