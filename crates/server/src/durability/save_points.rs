//! Automatic saves: at save points, after a flush, and at shutdown; and the consequences of a
//! failed one.

use crate::config::Config;
use crate::durability::snapshot::Begun;
use crate::observation::pluralized::Pluralized;
use crate::server::Server;
use crate::unix_time::unix_ms;
use petrel_commands::ServerState;
use petrel_keyspace::Handle;
use petrel_persistence::rdb::FileError;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Seconds from a failed try to the next.
const RETRY_SECONDS: i64 = 5;

impl Server {
    /// Begins to save in the background if that is due; called about ten times a second, by one
    /// thread, which is in no batch.
    pub(crate) fn save_if_due(self: &Arc<Self>, ks: &mut Handle, config: &Config) {
        self.judge_writes(config);
        self.tell_progress(config);
        let snapshot = &self.snapshot;
        if snapshot.is_saving() || self.commands.is_loading() {
            return;
        }
        let now = unix_ms() / 1000;
        if snapshot.has_failed() && now - snapshot.tried_at.load(Relaxed) <= RETRY_SECONDS {
            return;
        }
        let changes = self.unsaved_changes();
        let seconds = now - snapshot.saved_at.load(Relaxed);
        let is_due = config.save.are_met(seconds, changes);
        if !is_due && !snapshot.scheduled.load(Relaxed) {
            return;
        }
        ks.enter();
        let begun = self.begin_save(ks);
        ks.exit();
        if let (Ok(Begun::Now), true) = (begun, is_due) {
            tracing::info!("saving: {} in {seconds} s", Pluralized(changes, "change"));
        }
    }

    /// Changes since the data was last saved.
    pub fn unsaved_changes(&self) -> u64 {
        self.keyspace.stats().changes.saturating_sub(self.snapshot.changes_then.load(Relaxed))
    }

    /// Notes whether saving went well.
    pub(crate) fn note_health(&self, is_well: bool) {
        if is_well {
            self.snapshot.failures.store(0, Relaxed);
        } else {
            self.snapshot.failures.fetch_add(1, Relaxed);
        }
        self.judge_writes(&self.config.snapshot());
    }

    /// Refuses writes from now on, or no longer, as the configuration wants it of a server that
    /// fails to save.
    pub(crate) fn judge_writes(&self, config: &Config) {
        let relies = config.stop_writes_on_bgsave_error && !config.save.is_empty();
        let refuses = relies && self.snapshot.has_failed();
        if refuses != self.commands.is_in_state(ServerState::NotSaved) {
            self.commands.set_state(ServerState::NotSaved, refuses);
        }
    }

    /// Saves the data before the server stops. The thread is in a batch and holds nothing.
    ///
    /// # Errors
    /// If it cannot be saved.
    pub(crate) fn save_finally(&self, ks: &mut Handle, config: &Config) -> Result<(), FileError> {
        if self.commands.is_loading() {
            // The present data are part of the file.
            return Ok(());
        }
        self.snapshot.give_up();
        self.save(ks, config)?;
        self.snapshot.is_final.store(true, Relaxed);
        Ok(())
    }

    /// Saves data written between [`Server::save_finally`] and the end of the workers, which is
    /// now.
    ///
    /// # Errors
    /// If it cannot be saved.
    pub(crate) fn save_rest(&self) -> Result<(), FileError> {
        if !self.snapshot.is_final.load(Relaxed) || self.unsaved_changes() == 0 {
            return Ok(());
        }
        let mut ks = self.keyspace.attach();
        ks.enter();
        let saved = self.save(&mut ks, &self.config.snapshot());
        ks.exit();
        saved
    }
}
