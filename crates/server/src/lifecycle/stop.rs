//! Stopping the server.

mod replicas;

use crate::config::{Config, ShutdownFlags};
use crate::pause::PauseReason;
use crate::server::Server;
use crate::state::shutdown::{LOOK, NotStopping};
use crate::unix_time::unix_ms;
use petrel_keyspace::Handle;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Options of a shutdown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The data is saved before.
    pub saves: bool,
    /// Stop although the data cannot be saved.
    pub forces: bool,
    /// Replicas that lag behind are waited for, and members that take hash slots over.
    pub waits: bool,
}

/// Time for which a stop waits for others: `shutdown-timeout`.
fn patience(config: &Config) -> Duration {
    Duration::from_secs(u64::try_from(config.replication.shutdown_timeout).unwrap_or(0))
}

impl Server {
    /// Stops the server as a signal asks for it ([`crate::state::shutdown::Closing::request`]): by
    /// [`crate::lifecycle::process::Process::leave`], unless something stands against it. To be
    /// called on a thread that has time for it.
    pub fn shut_down(&self, flags: &ShutdownFlags) {
        let points = &self.config.snapshot().save;
        let manner = Manner {
            saves: flags.saves(points),
            forces: flags.forces(),
            waits: !flags.is_at_once(),
        };
        self.shut_down_as(manner);
    }

    /// Stops the server with these options.
    pub(crate) fn shut_down_as(&self, Manner { saves, forces, waits }: Manner) {
        self.end_scripts(saves);
        while self.upkeep_paused.load(Relaxed) && self.closing.requested.load(Relaxed) {
            std::thread::sleep(LOOK);
        }
        let config = self.config.snapshot();
        let mut ks = self.keyspace.attach();
        if waits {
            self.await_replicas(&mut ks, &config);
            if let Some(member) = self.cluster.get() {
                member.hand_slots_over(patience(&config), &|| self.closing.is_requested());
            }
        }
        if !self.closing.begin() {
            return self.resume();
        }
        ks.enter();
        let prepared = self.prepare_stop(&mut ks, &config, saves, forces);
        ks.exit();
        match prepared {
            Ok(()) => {
                if let Some(member) = self.cluster.get().filter(|_| waits) {
                    self.pause_clients(PauseReason::Shutdown, unix_ms(), i64::MAX, false);
                    self.await_writes(&mut ks);
                    member.drain(patience(&config));
                    member.leave(patience(&config));
                }
                self.stop();
                self.process.leave();
            }
            Err(NotStopping) => self.resume(),
        }
    }

    /// Ends the scripts that run, so that the data can be saved: without that a script which never
    /// ends would keep the server from stopping. One that has written is waited for, for
    /// `shutdown-timeout` at most.
    pub(crate) fn end_scripts(&self, saves: bool) {
        self.closing.saves.store(saves, Relaxed);
        self.commands.scripts.running.end_all(patience(&self.config.snapshot()));
    }

    /// Whether the stop that was asked for, and has not begun, keeps data that is nowhere else yet.
    pub(crate) fn has_to_save(&self) -> bool {
        let saves = self.closing.saves.load(Relaxed) || self.durability.lacks_base();
        saves && !self.is_stopping()
    }

    /// A stop that was prepared for does not come.
    fn resume(&self) {
        self.closing.give_up();
        self.commands.scripts.running.end_none();
        self.cluster.get().into_iter().for_each(|member| member.take_slots_back());
        self.unpause(PauseReason::Shutdown);
    }

    /// Whether a stop waits for others, unless it is to be at once.
    pub(crate) fn has_to_await_others(&self, config: &Config) -> bool {
        self.cluster.get().is_some_and(|member| member.has_to_leave())
            || self.has_to_await_replicas(config)
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
