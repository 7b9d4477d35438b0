//! State of the server's log.

pub(crate) mod open;

use open::DeferredOpen;
use parking_lot::{Mutex, RwLock};
use petrel_commands::aux_state::NamedForm;
use petrel_persistence::log::{Directory, Log, Policy};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// Encodes the present forms.
pub(crate) type AddedForms = Box<dyn Fn() -> Vec<NamedForm> + Send + Sync>;

/// The log and its state.
#[derive(Default)]
pub struct Durability {
    /// The log that is written.
    pub(crate) log: RwLock<Option<Arc<Log>>>,
    pub(crate) writer: Mutex<Option<JoinHandle<()>>>,
    /// Held while a change of the log's parameters is followed. A thread that waits for it is in no
    /// batch.
    pub(crate) turning: Mutex<()>,
    /// Epoch at which the present policy was set.
    pub(crate) policy_since: AtomicU64,
    /// The log has no file to go on in since a start could not make one. Held while the log gets
    /// its file, or that of pending records, and while it is turned off; locked before
    /// `directory`.
    pub(crate) deferred_open: Mutex<Option<DeferredOpen>>,
    /// Time of the last attempt to create the pending file, in Unix milliseconds.
    pub(crate) pending_tried_at: AtomicI64,
    pub(crate) directory: Mutex<Option<Directory>>,
    /// Bytes of the base and of the files that are no longer written to.
    pub(crate) closed_len: AtomicU64,
    /// Bytes of all files when the log was last rewritten, or loaded.
    pub(crate) base_len: AtomicU64,
    /// Start of the running rewrite, in Unix milliseconds; 0 if none is running.
    pub(crate) rewriting_since: AtomicI64,
    /// A rewrite is to begin as soon as possible.
    pub(crate) rewrite_scheduled: AtomicBool,
    pub(crate) rewrites: AtomicU64,
    /// Times in a row that rewriting failed.
    pub(crate) rewrite_failures: AtomicU64,
    /// Start of the last rewrite, in Unix seconds.
    pub(crate) rewrite_tried_at: AtomicI64,
    /// Milliseconds that it took the last time.
    pub(crate) rewrite_ms: AtomicI64,
    /// End of the last rewrite, in Unix milliseconds.
    pub(crate) rewrite_ended_at: AtomicI64,
    /// Reason that the log cannot be written, if it cannot.
    pub(crate) failure: Mutex<Option<String>>,
    /// The files that the manifest names are all that there is.
    pub(crate) is_complete: AtomicBool,
    /// The log goes on beside its files while data are replaced, and nothing else changes which
    /// files there are: `rewriting_since` is taken.
    pub(crate) is_apart: AtomicBool,
    /// The log needs a new base to continue.
    pub(crate) needs_base: AtomicBool,
    /// The log is about to go on in a new file without being rewritten.
    pub(crate) sealing: AtomicBool,
    /// Held while the log goes on in a new file without being rewritten, by a thread in no batch.
    pub(crate) rotating: Mutex<()>,
    /// Forms that the log and snapshots have besides auxiliary states.
    pub(crate) added_forms: OnceLock<AddedForms>,
    /// A backup needs the files: the log is not rewritten.
    pub(crate) is_pinned: AtomicBool,
}

impl Durability {
    /// Forms that the log and snapshots have besides auxiliary states.
    pub(crate) fn added_forms(&self) -> Vec<NamedForm> {
        self.added_forms.get().map(|forms| forms()).unwrap_or_default()
    }

    /// The log, if one is written.
    pub fn log(&self) -> Option<Arc<Log>> {
        self.log.read().clone()
    }

    /// Whether a log is written.
    pub fn is_on(&self) -> bool {
        self.log.read().is_some()
    }

    /// The epoch up to which every change that was acknowledged to a client is durable; none
    /// without a log. With `appendfsync always` those are all changes, since replies wait for it.
    pub fn acknowledged_durable(&self) -> Option<u64> {
        let log = self.log()?;
        let durable = log.durable();
        let awaits_each = log.policy() == Policy::Always;
        let is_all = awaits_each && durable >= self.policy_since.load(Relaxed);
        Some(if is_all { u64::MAX } else { durable })
    }

    /// Seconds that rewriting took the last time; -1 if there was none.
    pub fn last_rewrite_seconds(&self) -> i64 {
        match self.rewrites.load(Relaxed) + self.rewrite_failures.load(Relaxed) {
            0 => -1,
            _ => self.rewrite_ms.load(Relaxed) / 1000,
        }
    }

    /// Whether it is being rewritten.
    pub fn is_rewriting(&self) -> bool {
        self.rewriting_since.load(Relaxed) != 0
    }

    /// Has the log rewritten soon.
    pub(crate) fn schedule_rewrite(&self) {
        self.rewrite_scheduled.store(true, Relaxed);
    }

    /// Whether the log was turned on a moment ago, and its first base is still being written.
    pub(crate) fn lacks_base(&self) -> bool {
        let is_apart = self.is_apart.load(Relaxed);
        self.is_on() && self.is_rewriting() && !is_apart && !self.is_complete.load(Relaxed)
    }

    /// Whether the log cannot be written.
    pub fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Whether unwritten records are preserved if the process dies now.
    pub fn survives_process(&self) -> bool {
        self.log().is_some_and(|log| log.survives_process())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.closed_len.load(Relaxed) + self.log().map_or(0, |log| log.file_len())
    }

    /// Bytes of all files when the log was last rewritten, or loaded.
    pub fn base_bytes(&self) -> u64 {
        self.base_len.load(Relaxed)
    }

    /// Whether there is a file that the log is written to.
    pub(crate) fn is_written(&self) -> bool {
        self.writer.lock().is_some()
    }

    /// Updates the total length of the closed files.
    pub(crate) fn weigh(&self, directory: &Directory) {
        let files = &directory.manifest().entries;
        let written = files.len().saturating_sub(usize::from(self.is_written()));
        let len = |entry| directory.path_of(entry).metadata().map_or(0, |meta| meta.len());
        self.closed_len.store(files[..written].iter().map(len).sum(), Relaxed);
    }
}
