//! The log of effects: `appendonly`.
//!
//! `petrel_persistence::log` defines the log, its files and their format. Here it is connected to
//! the server: it is opened and loaded at the start, every thread of the keyspace records into it
//! from then on, workers delay replies until their changes are durable, and it is rewritten when it
//! has grown.

mod apart;
mod deferred_open;
mod load;
mod pending;
mod preload;
mod reply_gate;
mod rewrite;
#[cfg(feature = "object-store")]
mod seal;

pub(crate) use preload::is_own_log;
pub use reply_gate::ReplyGate;
pub(crate) use rewrite::Rewriting;

use crate::config::Config;
use crate::server::Server;
use crate::state::log::open::{DeferredOpen, LogOpening, warn_without};
use parking_lot::MutexGuard;
use petrel_commands::ServerState;
use petrel_commands::aux_state::AuxForm;
use petrel_keyspace::{Effect, EffectHead, EffectSink, Handle, Order, Origin};
use petrel_persistence::log::{
    Directory, Events, Log, LogSource, Policy, Recorder, SystemFile, is_full,
};
use std::io;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// Hears from the log on behalf of a server.
struct Listener(Weak<Server>);

impl Events for Listener {
    fn durable(&self, _: u64) {
        if let Some(server) = self.0.upgrade() {
            server
                .workers
                .iter()
                .filter(|link| link.holds.load(SeqCst))
                .for_each(|link| link.wake());
        }
    }

    fn failed(&self, why: &str, needs_base: bool) {
        let Some(server) = self.0.upgrade() else { return };
        let durability = &server.durability;
        durability.needs_base.store(needs_base, Relaxed);
        // Once `INFO` shows the failure, writes are refused.
        server.commands.note_log_failure(why);
        server.note_logged(false);
        if durability.failure.lock().replace(why.into()).is_none() {
            let next = match needs_base {
                true => "it will be rewritten",
                false => "changes are kept in memory, and written once that is possible",
            };
            tracing::error!("the log cannot be written: {why}; writes are refused, {next}");
        }
    }

    fn recovered(&self) {
        let Some(server) = self.0.upgrade() else { return };
        server.durability.needs_base.store(false, Relaxed);
        server.note_logged(true);
        *server.durability.failure.lock() = None;
        tracing::info!("the log is written again");
    }

    fn pending_failed(&self, why: Option<&str>) {
        match why {
            Some(why) => warn_without(why),
            None => tracing::info!("pending records survive the process again"),
        }
    }
}

/// The log's policy, as the configuration has it.
fn policy(config: &Config) -> Policy {
    match config.appendfsync {
        appendfsync if appendfsync.is("always") => Policy::Always,
        appendfsync if appendfsync.is("no") => Policy::No,
        _ => Policy::EverySecond,
    }
}

impl Server {
    /// Whether writes can be logged, or need not be.
    fn note_logged(&self, can_be: bool) {
        self.commands.set_state(ServerState::NotLogged, !can_be);
        self.apply_expiry(&self.config.snapshot());
    }

    /// Begins to write the log of a directory: every change of the keyspace is recorded from one
    /// moment on. If the disk is full, that is an error, or, with `awaits_room`, tried again while
    /// writes are refused. `handle` is in a batch and holds nothing.
    fn begin_log(
        self: &Arc<Self>,
        handle: &mut Handle,
        mut directory: Directory,
        config: &Config,
        mut opening: LogOpening,
        awaits_room: bool,
    ) -> io::Result<()> {
        let durability = &self.durability;
        let LogOpening { previous, is_complete, .. } = opening;
        let next = match opening.next_file(&mut directory) {
            Err(error) if awaits_room && is_full(&error) => Err(error),
            next => Ok(next?),
        };
        let pending = next.as_ref().ok();
        let pending = pending.and_then(|_| opening.create_pending(&directory, previous));
        let listener = Box::new(Listener(Arc::downgrade(self)));
        let log = Log::new(policy(config), listener, pending);
        self.keyspace.epochs().begin_at(previous + 1);
        let writer = match next {
            Ok((file, head)) => {
                let file = Box::new(SystemFile::new(file)?);
                Some(log.start(self.keyspace.clone(), file, head, previous)?)
            }
            // As when a server that runs has filled the disk up.
            Err(error) => {
                log.await_file(previous, &error.to_string());
                None
            }
        };
        if !is_complete {
            log.await_base();
        }
        handle.lock_all();
        handle.set_sinks(LogSource::NAME, Some(Arc::new(LogSource(log.clone()))));
        self.note_policy();
        handle.unlock();
        *durability.deferred_open.lock() = writer.is_none().then(|| DeferredOpen::new(opening));
        *durability.writer.lock() = writer;
        *durability.log.write() = Some(log);
        durability.is_complete.store(is_complete, Relaxed);
        load::report_kept(&mut directory);
        durability.weigh(&directory);
        durability.base_len.store(durability.bytes(), Relaxed);
        *durability.directory.lock() = Some(directory);
        Ok(())
    }

    /// Ends the log: everything that was recorded is written and synced. No thread changes anything
    /// any more.
    pub(crate) fn end_log(&self) {
        let Some(log) = self.durability.log.write().take() else { return };
        log.stop();
        if let Some(writer) = self.durability.writer.lock().take()
            && writer.join().is_err()
        {
            tracing::error!("the log's thread has panicked");
        }
    }

    /// Follows a change of the log's parameters. `handle` is in a batch and holds nothing.
    ///
    /// # Errors
    /// Why the log cannot be turned on; it is to be off then.
    pub(crate) fn reconfigure_log(self: &Arc<Self>, handle: &mut Handle) -> Result<(), String> {
        let turning = &self.durability.turning;
        let turning = turning.try_lock().unwrap_or_else(|| {
            // The thread that has it holds everything for a moment.
            handle.exit();
            let turning = turning.lock();
            handle.enter();
            turning
        });
        let config = &*self.config.snapshot();
        if config.appendonly {
            self.online_backup.lock().borrowed = None;
        }
        match (self.durability.log(), config.appendonly || self.is_log_borrowed()) {
            (None, true) if !self.commands.is_loading() => {
                self.turn_log_on(handle, config, &turning)
            }
            (Some(log), true) => {
                if log.policy() != policy(config) {
                    handle.lock_all();
                    // The moment first: with the policy `always`, replies from then on wait.
                    self.note_policy();
                    log.set_policy(policy(config));
                    // The sinks decide whether readers record the epochs that they have read.
                    handle.set_sinks(LogSource::NAME, Some(Arc::new(LogSource(log))));
                    handle.unlock();
                }
                Ok(())
            }
            (Some(_), false) => {
                self.fail_backup("appendonly is stopped");
                self.turn_log_off(handle);
                tracing::info!("the log has been turned off; its files stay as they are");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Turns the log off while the server runs. `handle` is in a batch and holds no locks.
    pub(crate) fn turn_log_off(&self, handle: &mut Handle) {
        let mut deferred_open = self.durability.deferred_open.lock();
        *deferred_open = None;
        handle.lock_all();
        handle.set_sinks(LogSource::NAME, None);
        handle.unlock();
        self.end_log();
        *self.durability.failure.lock() = None;
        self.note_logged(true);
    }

    /// The policy holds from this moment on. Everything is held.
    fn note_policy(&self) {
        self.durability.policy_since.store(self.keyspace.epochs().now(), Relaxed);
    }

    /// Turns the log on if that was asked for while data was loaded, which is there now, unless
    /// another thread follows a change of the log at this moment. `handle` is in a batch or in
    /// none, and holds nothing.
    pub(crate) fn settle_log(self: &Arc<Self>, handle: &mut Handle) {
        if self.durability.is_on() || self.is_stopping() {
            return;
        }
        let Some(turning) = self.durability.turning.try_lock() else { return };
        let config = self.config.snapshot();
        if self.durability.is_on() || !config.appendonly {
            return;
        }
        let is_inside = handle.is_inside();
        if !is_inside {
            handle.enter();
        }
        // Its errors are in the log.
        let _ = self.turn_log_on(handle, &config, &turning);
        if !is_inside {
            handle.exit();
        }
    }

    /// Turns the log on while the server runs, with the present data as its base. `handle` is in a
    /// batch and holds no locks.
    pub(crate) fn turn_log_on(
        self: &Arc<Self>,
        handle: &mut Handle,
        config: &Config,
        _turning: &MutexGuard<'_, ()>,
    ) -> Result<(), String> {
        let previous = self.keyspace.epochs().now();
        let opening = LogOpening { unwritten: None, previous, is_complete: false };
        let begun = self
            .open_directory(config)
            .and_then(|directory| self.begin_log(handle, directory, config, opening, false));
        if let Err(error) = begun {
            self.config.settle(|config| config.appendonly = false);
            tracing::error!("the log cannot be turned on: {error}");
            return Err(error.to_string());
        }
        self.durability.rewrite_scheduled.store(true, Relaxed);
        self.rewrite_if_due(handle, config);
        tracing::info!("the log has been turned on; it is complete once its base is written");
        Ok(())
    }

    /// Has the log's new file begin with the auxiliary state as it is now.
    pub(crate) fn log_aux_states(&self) {
        let Some(log) = self.durability.log() else { return };
        let mut recorder = log.recorder();
        self.record_aux_states(&mut recorder);
        recorder.commit(self.keyspace.epochs(), false);
        recorder.hand_over();
    }

    fn record_aux_states(&self, recorder: &mut Recorder) {
        for (name, AuxForm { number, bytes }) in self.commands.aux_states() {
            let head = EffectHead { db: 0, order: Order(number), origin: Origin::LOCAL };
            recorder.record(head, &Effect::Aux { name: &name, bytes: &bytes });
        }
        let order = Order::first_of(self.keyspace.epochs().now());
        let head = EffectHead { db: 0, order, origin: Origin::LOCAL };
        for (name, bytes) in self.durability.added_forms() {
            recorder.record(head, &Effect::Aux { name: &name, bytes: &bytes });
        }
    }
}
