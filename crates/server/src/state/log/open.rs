//! Opening a log for writing: in its next file, after the pending records of an earlier process.

use crate::observation::pluralized::Pluralized;
use crate::unix_time::unix_ms;
use petrel_persistence::log::{
    Directory, FileHead, Pending, PendingEpoch, SystemFile, append_pending,
};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Pending records of a process that died, which are in no file of the log yet. The pending file
/// stays until they are.
pub(crate) struct Unwritten {
    pub(crate) epochs: Vec<PendingEpoch>,
    /// The epoch that they follow on.
    pub(crate) previous: u64,
}

impl Unwritten {
    /// Puts it behind the log, in a file of its own.
    ///
    /// # Errors
    /// The system's error; the log has no such file then.
    pub fn write(&self, directory: &mut Directory) -> io::Result<()> {
        let (file, head) = directory.begin_effects(unix_ms(), true)?;
        let written = SystemFile::new(file).and_then(|file| {
            append_pending(&self.epochs, Box::new(file), head, self.previous, unix_ms())
        });
        written.inspect_err(|_| directory.abandon_effects(head.seq))?;
        let records = self.epochs.iter().map(|epoch| epoch.records).sum();
        let log = directory.manifest().entries.last().map(|entry| directory.path_of(entry));
        tracing::info!(
            "{} from {}, left unwritten by the previous process, were written to {}",
            Pluralized(records, "record"),
            directory.pending_path().display(),
            log.unwrap_or_default().display()
        );
        Ok(())
    }
}

/// Logs the consequence of a missing pending file.
pub(crate) fn warn_without(why: &str) {
    tracing::warn!(
        "no file for pending records: {why}; with appendfsync everysec and no, the latest acknowledged writes are lost if the process dies"
    );
}

/// State with which a log is opened for writing.
pub(crate) struct LogOpening {
    /// Records to write before anything else.
    pub unwritten: Option<Unwritten>,
    /// Epoch of the last block: of the pending records, or else of the present files.
    pub previous: u64,
    /// The files contain the whole keyspace.
    pub is_complete: bool,
}

/// A log that has not begun to be written.
pub(crate) struct DeferredOpen {
    pub(crate) opening: LogOpening,
    /// Time of the last attempt, in Unix milliseconds.
    pub(crate) tried_at: i64,
}

impl LogOpening {
    /// Creates the file in which the log continues, after writing the pending records.
    ///
    /// # Errors
    /// The system's error. Records that were not written are written by the next call.
    pub fn next_file(&mut self, directory: &mut Directory) -> io::Result<(File, FileHead)> {
        if let Some(unwritten) = &self.unwritten {
            unwritten.write(directory)?;
            self.unwritten = None;
        }
        directory.begin_effects(unix_ms(), self.is_complete)
    }

    /// Creates the pending file of a log; its last block has the epoch `written`. Not while an
    /// earlier process's pending file may be needed, until there is a base. A failure is logged.
    pub fn create_pending(&self, directory: &Directory, written: u64) -> Option<Arc<Pending>> {
        if !self.is_complete && directory.pending_path().exists() {
            return None;
        }
        let created = directory.create_pending(written);
        created.inspect_err(|error| warn_without(&error.to_string())).ok()
    }
}

impl DeferredOpen {
    /// Records a failed attempt at this time.
    pub fn new(opening: LogOpening) -> Self {
        DeferredOpen { opening, tried_at: unix_ms() }
    }
}
