//! What a process that died had recorded and not written: at the start it is put behind the log,
//! and applied.

use super::load::Found;
use crate::observation::counted::Counted;
use crate::server::Server;
use crate::unix_time::unix_ms;
use petrel_persistence::log::{
    Directory, FileKind, Known, PendingEpoch, Remains, SystemFile, append_pending, replay_pending,
};
use std::fs;
use std::io;

/// What a process that died had recorded and not written, and what is not in the log yet either.
/// Its file stays until it is.
pub(super) struct Unwritten {
    epochs: Vec<PendingEpoch>,
    /// The epoch that they follow on.
    previous: u64,
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

impl Server {
    /// Applies what a process that died had recorded and not written; it is to be written behind
    /// the files that were loaded before anything else is.
    ///
    /// # Errors
    /// If what was left cannot be read, or does not fit what was loaded.
    pub(super) fn recover_pending(
        &self,
        directory: &mut Directory,
        found: &mut Found,
    ) -> Result<(), String> {
        let path = directory.pending_path();
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let Some(remains) = Remains::read(&path).map_err(|error| failed(&error))? else {
            return Ok(());
        };
        let first = directory.manifest().logs().find(|entry| entry.kind == FileKind::Effects);
        let known = Known {
            log_id: found.log_id,
            first_seq: first.map_or(0, |entry| entry.seq),
            last_epoch: found.last_epoch,
        };
        if let Some(why) = remains.hindrance(&known) {
            if !remains.is_empty() && remains.is_of_this_boot() {
                let aside = path.with_extension("pending.unused");
                fs::rename(&path, &aside).map_err(|error| failed(&error))?;
                tracing::warn!(
                    "{} is not used: {why}; it is kept as {}",
                    path.display(),
                    aside.display()
                );
            }
            return Ok(());
        }
        let log_id = remains.log_id;
        let (last, epochs) = remains.behind(&known).map_err(|error| failed(&error))?;
        if epochs.is_empty() {
            return Ok(());
        }
        drop(remains);
        directory.set_log_id(log_id);
        let (threads, progress) = (self.workers.len(), &self.snapshot.progress);
        let before = found.last_epoch;
        let replayed = replay_pending(&epochs, last, before, &self.keyspace, threads, progress)
            .map_err(|error| failed(&error))?;
        found.last_epoch = replayed.last_epoch;
        if let Some((_, texts)) = replayed.functions {
            found.functions = Some(texts);
        }
        found.unwritten = Some(Unwritten { epochs, previous: last });
        Ok(())
    }
}
