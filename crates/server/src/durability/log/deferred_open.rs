//! A log without a file to go on in: the disk was full at the start. Writes are refused until there
//! is room; records that arise all the same wait in memory.
//!
//! ```text
//! start    load ─ no room for the next file ─ serve, refuse writes
//! then     twice a second: the pending records of the process before ─ the next file ─ the log
//!          is written again
//! ```

use super::load::report_kept;
use crate::server::Server;
use crate::state::log::open::LogOpening;
use crate::unix_time::unix_ms;
use petrel_keyspace::Handle;
use petrel_persistence::log::{Log, LogSource, Pending, SystemFile};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

/// Milliseconds from one try to make the next file of the log to another.
const RETRY_MS: i64 = 500;
/// Milliseconds between two attempts to create the pending file.
const PENDING_RETRY_MS: i64 = 1000;

/// Whether so much time has passed since, or the clock was put back.
fn has_passed(ms: i64, since: i64) -> bool {
    !(0..ms).contains(&unix_ms().saturating_sub(since))
}

impl Server {
    /// Makes the file that the log goes on in, if that could not be done at the start and is due.
    /// `ks` holds nothing.
    ///
    /// # Errors
    /// If there still is none.
    pub(super) fn open_awaited_file(&self, ks: &mut Handle) -> io::Result<()> {
        let durability = &self.durability;
        // The thread that has it may wait for what this one has to hand over.
        let Some(mut place) = durability.deferred_open.try_lock() else {
            return Err(io::Error::other("the log is being turned on or off"));
        };
        let (Some(deferred_open), Some(log)) = (&mut *place, durability.log()) else {
            return Ok(());
        };
        if !has_passed(RETRY_MS, deferred_open.tried_at) {
            let why = durability.failure.lock().clone();
            return Err(io::Error::other(why.unwrap_or_default()));
        }
        let previous = deferred_open.opening.previous;
        let started = self.start_awaited(ks, &log, &mut deferred_open.opening);
        let writer = started.inspect_err(|error| {
            deferred_open.tried_at = unix_ms();
            log.await_file(previous, &error.to_string());
        })?;
        *durability.writer.lock() = Some(writer);
        *place = None;
        if let Some(directory) = &*durability.directory.lock() {
            durability.weigh(directory);
        }
        Ok(())
    }

    /// Starts to write a log in its next file.
    fn start_awaited(
        &self,
        ks: &mut Handle,
        log: &Arc<Log>,
        opening: &mut LogOpening,
    ) -> io::Result<JoinHandle<()>> {
        let directory = &self.durability.directory;
        let (next, pending) = match &mut *directory.lock() {
            Some(directory) => {
                let next = opening.next_file(directory)?;
                report_kept(directory);
                let pending = match log.pending() {
                    Some(_) => None,
                    None => opening.create_pending(directory, u64::MAX),
                };
                (next, pending)
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        // Before the first write is acknowledged, and with the directory free.
        if let Some(pending) = pending {
            self.attach_pending(ks, log, pending);
        }
        let (file, head) = next;
        let started = SystemFile::new(file).and_then(|file| {
            log.start(self.keyspace.clone(), Box::new(file), head, opening.previous)
        });
        started.inspect_err(|_| {
            if let Some(directory) = &mut *directory.lock() {
                directory.abandon_effects(head.seq);
            }
        })
    }

    /// Attaches a pending file, if none could be created when the log began and it may be possible
    /// now. `ks` holds no locks.
    pub(super) fn attach_pending_if_due(&self, ks: &mut Handle) {
        let durability = &self.durability;
        let Some(log) = durability.log() else { return };
        if log.pending().is_some()
            || log.has_failed()
            || !durability.is_complete.load(Relaxed)
            || !has_passed(PENDING_RETRY_MS, durability.pending_tried_at.load(Relaxed))
        {
            return;
        }
        // The log is not turned off meanwhile.
        let Some(_place) = durability.deferred_open.try_lock() else { return };
        if !durability.log().is_some_and(|now| Arc::ptr_eq(&now, &log)) {
            return;
        }
        durability.pending_tried_at.store(unix_ms(), Relaxed);
        let directory = durability.directory.lock().clone();
        if let Some(Ok(pending)) = directory.map(|directory| directory.create_pending(u64::MAX)) {
            self.attach_pending(ks, &log, pending);
            tracing::info!("pending records survive the process again");
        }
    }

    fn attach_pending(&self, ks: &mut Handle, log: &Arc<Log>, pending: Arc<Pending>) {
        let is_inside = ks.is_inside();
        if !is_inside {
            ks.enter();
        }
        ks.lock_all();
        log.attach_pending(&self.keyspace, pending);
        ks.set_sinks(LogSource::NAME, Some(Arc::new(LogSource(log.clone()))));
        ks.unlock();
        if !is_inside {
            ks.exit();
        }
    }
}
