//! Pending records of a process that died: at the start they are applied and appended to the log.

use super::load::Found;
use crate::server::Server;
use crate::state::log::open::Unwritten;
use petrel_persistence::log::{Directory, FileKind, Known, Remains, replay_pending};
use std::fs;

impl Server {
    /// Applies the pending records of a process that died. They must be written after the loaded
    /// files, before anything else.
    ///
    /// # Errors
    /// If the records cannot be read, or do not fit the loaded data.
    pub(super) fn recover_pending(
        &self,
        directory: &mut Directory,
        found: &mut Found,
    ) -> Result<(), String> {
        let path = directory.pending_path();
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let Some(remains) = Remains::read(&path).map_err(|error| failed(&error))? else {
            if path.exists() {
                tracing::warn!(
                    "{} has an incomplete head, as after a power cut, and is ignored: if the machine has not stopped since, unwritten records of the previous process are lost",
                    path.display()
                );
            }
            return Ok(());
        };
        let first = directory.manifest().logs().find(|entry| entry.kind == FileKind::Effects);
        let known = Known {
            log_id: found.chain.log_id,
            first_seq: first.map_or(0, |entry| entry.seq),
            last_epoch: found.chain.last_epoch,
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
        let before = found.chain.last_epoch;
        let replayed = replay_pending(&epochs, last, before, &self.keyspace, threads, progress)
            .map_err(|error| failed(&error))?;
        found.chain.last_epoch = replayed.last_epoch;
        found.add_aux(replayed.aux);
        found.unwritten = Some(Unwritten { epochs, previous: last });
        Ok(())
    }
}
