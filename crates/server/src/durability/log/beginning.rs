//! How a log begins to be written: in its next file, behind what a process before has left
//! unwritten.

use crate::observation::counted::Counted;
use crate::unix_time::unix_ms;
use petrel_persistence::log::{
    Directory, FileHead, Pending, PendingEpoch, SystemFile, append_pending,
};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// What a process that died had recorded and not written, and what is not in the log yet either.
/// Its file stays until it is.
pub(super) struct Unwritten {
    pub(super) epochs: Vec<PendingEpoch>,
    /// The epoch that they follow on.
    pub(super) previous: u64,
}

impl Unwritten {
    /// Puts it behind the log, in a file of its own.
    ///
    /// # Errors
    /// What the system says; the log has no such file then.
    pub fn write(&self, directory: &mut Directory) -> io::Result<()> {
        let (file, head) = directory.begin_effects(unix_ms(), true)?;
        let written = SystemFile::new(file).and_then(|file| {
            append_pending(&self.epochs, Box::new(file), head, self.previous, unix_ms())
        });
        written.inspect_err(|_| directory.abandon_effects(head.seq))?;
        let records = self.epochs.iter().map(|epoch| epoch.records).sum();
        let log = directory.manifest().entries.last().map(|entry| directory.path_of(entry));
        tracing::info!(
            "{} from {}, which the process before had not written when it ended, are in {} now",
            Counted(records, "record"),
            directory.pending_path().display(),
            log.unwrap_or_default().display()
        );
        Ok(())
    }
}

/// Says what it means that there is no file of pending records.
pub(super) fn warn_without(why: &str) {
    tracing::warn!(
        "there is no room for records that survive the process: {why}; with appendfsync everysec and no, what was \
         acknowledged in the last moments is lost if the process dies"
    );
}

/// How a log begins to be written.
pub(super) struct Beginning {
    /// What has to be written before anything else.
    pub unwritten: Option<Unwritten>,
    /// Epoch of the last block, of what is unwritten or else of the files that are there.
    pub previous: u64,
    /// What is in the keyspace is in those.
    pub is_complete: bool,
}

/// A log that has not begun to be written.
pub(super) struct Unopened {
    pub(super) beginning: Beginning,
    /// When that was tried last, in Unix milliseconds.
    pub(super) tried_at: i64,
}

impl Beginning {
    /// Makes the file that the log goes on in, behind what is to be written before.
    ///
    /// # Errors
    /// What the system says. What was not written then is at the next call.
    pub fn next_file(&mut self, directory: &mut Directory) -> io::Result<(File, FileHead)> {
        if let Some(unwritten) = &self.unwritten {
            unwritten.write(directory)?;
            self.unwritten = None;
        }
        directory.begin_effects(unix_ms(), self.is_complete)
    }

    /// Makes the file of pending records of a log whose last block has the epoch `written`, unless
    /// what an earlier process has left there may be of use until there is a base; none if it
    /// cannot be made, which is said.
    pub fn create_pending(&self, directory: &Directory, written: u64) -> Option<Arc<Pending>> {
        if !self.is_complete && directory.pending_path().exists() {
            return None;
        }
        let created = directory.create_pending(written);
        created.inspect_err(|error| warn_without(&error.to_string())).ok()
    }
}

impl Unopened {
    /// It was tried just now.
    pub fn new(beginning: Beginning) -> Self {
        Unopened { beginning, tried_at: unix_ms() }
    }
}
