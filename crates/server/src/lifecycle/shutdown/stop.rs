//! Stopping the server.

use super::{LOOK, NotStopping};
use crate::config::{Config, ShutdownFlags};
use crate::server::Server;
use petrel_keyspace::Handle;
use std::sync::atomic::Ordering::Relaxed;

impl Server {
    /// Stops the server as a signal asks for it ([`Closing::request`]): by
    /// [`crate::lifecycle::process::Process::leave`], unless something stands against it. To be
    /// called on a thread that has time for it.
    pub fn shut_down(&self, flags: &ShutdownFlags) {
        while self.upkeep_paused.load(Relaxed) && self.closing.requested.load(Relaxed) {
            std::thread::sleep(LOOK);
        }
        if !self.closing.requested.swap(false, Relaxed) {
            return;
        }
        let config = self.config.snapshot();
        let mut ks = self.keyspace.attach();
        ks.enter();
        let prepared =
            self.prepare_stop(&mut ks, &config, flags.saves(&config.save), flags.forces());
        ks.exit();
        if prepared.is_ok() {
            self.stop();
            self.process.leave();
        }
    }

    /// Does what comes before a stop. The thread is in a batch and holds nothing.
    ///
    /// # Errors
    /// If data would be lost, and `forces` does not say that it may be.
    pub(crate) fn prepare_stop(
        &self,
        ks: &mut Handle,
        config: &Config,
        saves: bool,
        forces: bool,
    ) -> Result<(), NotStopping> {
        if self.durability.lacks_base() {
            if !forces {
                tracing::warn!("Writing initial AOF, can't exit: the log holds nothing without it");
                return Err(NotStopping);
            }
            tracing::warn!("stopping before the log has its base, without which it holds nothing");
        }
        if saves {
            tracing::info!("Saving the final RDB snapshot before exiting");
            if let Err(error) = self.save_finally(ks, config) {
                if !forces {
                    tracing::error!("Error trying to save the DB, can't exit: {error}");
                    return Err(NotStopping);
                }
                tracing::error!("stopping without the final snapshot: {error}");
            }
        }
        Ok(())
    }
}
