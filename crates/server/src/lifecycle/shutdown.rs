//! Stopping: what a signal or `SHUTDOWN` asks for, what stands against it, and how it is taken
//! back.

use crate::config::{Config, ShutdownFlags};
use crate::server::Server;
use petrel_keyspace::Handle;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Between two looks whether a stop that waits may go on.
const LOOK: Duration = Duration::from_millis(2);

/// A stop that was asked for and has not begun.
#[derive(Debug, Default)]
pub struct Closing {
    requested: AtomicBool,
}

/// The server goes on: something stands against its stop. Why is in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotStopping;

impl Closing {
    /// Asks for a stop.
    pub fn request(&self) {
        self.requested.store(true, Relaxed);
    }

    /// Takes the wish back; false if there is none, or none any more.
    pub fn abort(&self) -> bool {
        let aborted = self.requested.swap(false, Relaxed);
        if aborted {
            tracing::warn!("Shutdown manually aborted: the server goes on");
        }
        aborted
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_taken_back_once() {
        let closing = Closing::default();
        assert!(!closing.abort());
        closing.request();
        assert!(closing.abort());
        assert!(!closing.abort());
    }
}
