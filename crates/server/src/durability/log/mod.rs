//! The log of effects: `appendonly`.
//!
//! What it consists of, and how it is written and read, is in `petrel_persistence::log`. Here it
//! meets the server: it is opened and loaded at the start, every thread of the keyspace records
//! into it from then on, workers keep replies back until what they answer is durable, and it is
//! rewritten when it has grown.

mod load;
mod pending;
mod reply_gate;
mod rewrite;
#[cfg(feature = "object-store")]
mod seal;
mod unopened;

pub use reply_gate::ReplyGate;
pub(crate) use rewrite::Rewriting;

use crate::config::Config;
use crate::server::Server;
use parking_lot::{Mutex, RwLock};
use petrel_commands::ServerState;
use petrel_keyspace::{Effect, EffectHead, EffectSink, Handle, Order, Origin};
use petrel_persistence::log::{
    Directory, Events, Log, LogSource, Policy, Recorder, SystemFile, is_full,
};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use unopened::{Beginning, Unopened};

/// The log, and what is known of it.
#[derive(Default)]
pub struct Durability {
    /// The log that is written.
    log: RwLock<Option<Arc<Log>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The log has no file to go on in since a start could not make one. Held while the log gets
    /// its file, or that of pending records, and while it is turned off; locked before
    /// `directory`.
    unopened: Mutex<Option<Unopened>>,
    /// When the file of pending records was last tried to be made, in Unix milliseconds.
    pending_tried_at: AtomicI64,
    directory: Mutex<Option<Directory>>,
    /// Bytes of the base and of the files that are no longer written to.
    closed_len: AtomicU64,
    /// Bytes of all files when the log was last rewritten, or loaded.
    base_len: AtomicU64,
    /// When rewriting began, in Unix milliseconds; 0 while nothing is rewritten.
    pub(crate) rewriting_since: AtomicI64,
    /// It is to be rewritten once nothing is in its way.
    pub(crate) rewrite_scheduled: AtomicBool,
    pub(crate) rewrites: AtomicU64,
    /// Times in a row that rewriting failed.
    pub(crate) rewrite_failures: AtomicU64,
    /// When it was last begun, in Unix seconds.
    rewrite_tried_at: AtomicI64,
    /// Milliseconds that it took the last time.
    pub(crate) rewrite_ms: AtomicI64,
    /// When it last ended, in Unix milliseconds.
    rewrite_ended_at: AtomicI64,
    /// Why the log cannot be written, if it cannot.
    failure: Mutex<Option<String>>,
    /// The files that the manifest names are all that there is.
    is_complete: AtomicBool,
    /// It takes a new base to go on.
    needs_base: AtomicBool,
    /// The log is about to go on in a new file without being rewritten.
    sealing: AtomicBool,
}

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
        if durability.failure.lock().replace(why.into()).is_none() {
            let next = match needs_base {
                true => "it will be written anew",
                false => "what was done is kept in memory, and written once that is possible",
            };
            tracing::error!("the log cannot be written: {why}; writes are refused, {next}");
        }
        server.commands.note_log_failure(why);
        server.commands.set_state(ServerState::NotLogged, true);
    }

    fn recovered(&self) {
        let Some(server) = self.0.upgrade() else { return };
        *server.durability.failure.lock() = None;
        server.durability.needs_base.store(false, Relaxed);
        server.commands.set_state(ServerState::NotLogged, false);
        tracing::info!("the log is written again");
    }

    fn pending_failed(&self, why: Option<&str>) {
        match why {
            Some(why) => pending::warn_without(why),
            None => tracing::info!("what the log has yet to write survives the process again"),
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

impl Durability {
    /// The log, if one is written.
    pub fn log(&self) -> Option<Arc<Log>> {
        self.log.read().clone()
    }

    /// Whether a log is written.
    pub fn is_on(&self) -> bool {
        self.log.read().is_some()
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
        self.is_on() && self.is_rewriting() && !self.is_complete.load(Relaxed)
    }

    /// Whether the log cannot be written.
    pub fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Whether what was recorded and not written yet survives the process.
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
    fn is_written(&self) -> bool {
        self.writer.lock().is_some()
    }

    /// Counts anew what the files take that are not written to.
    fn weigh(&self, directory: &Directory) {
        let files = &directory.manifest().entries;
        let written = files.len().saturating_sub(usize::from(self.is_written()));
        let len = |entry| directory.path_of(entry).metadata().map_or(0, |meta| meta.len());
        self.closed_len.store(files[..written].iter().map(len).sum(), Relaxed);
    }
}

impl Server {
    /// Begins to write the log of a directory: every change of the keyspace is recorded from one
    /// moment on. If the disk is full, that is an error, or, with `awaits_room`, tried again while
    /// writes are refused. `handle` is in a batch and holds nothing.
    fn begin_log(
        self: &Arc<Self>,
        handle: &mut Handle,
        mut directory: Directory,
        config: &Config,
        mut beginning: Beginning,
        awaits_room: bool,
    ) -> io::Result<()> {
        let durability = &self.durability;
        let Beginning { previous, is_complete, .. } = beginning;
        let next = match beginning.next_file(&mut directory) {
            Err(error) if awaits_room && is_full(&error) => Err(error),
            next => Ok(next?),
        };
        let pending = next.as_ref().ok();
        let pending = pending.and_then(|_| beginning.create_pending(&directory, previous));
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
        handle.unlock();
        *durability.unopened.lock() = writer.is_none().then(|| Unopened::new(beginning));
        *durability.writer.lock() = writer;
        *durability.log.write() = Some(log);
        durability.is_complete.store(is_complete, Relaxed);
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
    /// Why the log cannot be turned on.
    pub(crate) fn reconfigure_log(
        self: &Arc<Self>,
        handle: &mut Handle,
        config: &Config,
    ) -> Result<(), String> {
        match (self.durability.log(), config.appendonly) {
            (None, true) if !self.commands.is_loading() => self.turn_log_on(handle, config),
            (Some(log), true) => {
                if log.policy() != policy(config) {
                    log.set_policy(policy(config));
                    handle.lock_all();
                    // Whether readers learn what they have seen is the sinks' to know.
                    handle.set_sinks(LogSource::NAME, Some(Arc::new(LogSource(log))));
                    handle.unlock();
                }
                Ok(())
            }
            (Some(_), false) => {
                let mut unopened = self.durability.unopened.lock();
                *unopened = None;
                handle.lock_all();
                handle.set_sinks(LogSource::NAME, None);
                handle.unlock();
                self.end_log();
                *self.durability.failure.lock() = None;
                self.commands.set_state(ServerState::NotLogged, false);
                tracing::info!("the log has been turned off; its files stay as they are");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Turns the log on while the server runs: its base is what is there at this moment.
    fn turn_log_on(self: &Arc<Self>, handle: &mut Handle, config: &Config) -> Result<(), String> {
        let directory = self.open_directory(config).map_err(|error| error.to_string())?;
        let previous = self.keyspace.epochs().now();
        let beginning = Beginning { unwritten: None, previous, is_complete: false };
        self.begin_log(handle, directory, config, beginning, false)
            .map_err(|error| error.to_string())?;
        self.durability.rewrite_scheduled.store(true, Relaxed);
        self.rewrite_if_due(handle, config);
        tracing::info!("the log has been turned on; it is complete once its base is written");
        Ok(())
    }

    /// Has the log's new file begin with the libraries of functions as they are now.
    pub(crate) fn log_libraries(&self) {
        let Some(log) = self.durability.log() else { return };
        let mut recorder = log.recorder();
        self.record_libraries(&mut recorder);
        recorder.commit(self.keyspace.epochs(), false);
        recorder.hand_over();
    }

    fn record_libraries(&self, recorder: &mut Recorder) {
        // The number first: a list that is newer than its number is followed by its own.
        let number = self.commands.library_changes();
        let texts = self.commands.library_texts();
        let sources: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
        let head = EffectHead { db: 0, order: Order(number), origin: Origin::LOCAL };
        recorder.record(head, &Effect::Functions { sources: &sources });
    }
}
