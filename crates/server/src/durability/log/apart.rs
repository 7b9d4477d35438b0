//! A log beside data that are about to be replaced by a copy of a primary. Until the whole copy is
//! there, a start loads the earlier files, as in Redis.
//!
//! ```text
//! everything before is durable ── the log continues in a file that no manifest names
//!   ── the old data go, the copy is loaded ── the file is synced, and named after those before
//! ```
//!
//! If the copy fails, it is not named before the next one is there, or a base is written.

use crate::server::Server;
use crate::unix_time::unix_ms;
use petrel_keyspace::Handle;
use petrel_persistence::log::{FileHead, Log, SystemFile};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Maximum time to wait for a rewrite, and then for the disk.
const REWRITE_PATIENCE: Duration = Duration::from_secs(60);
const DISK_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time to wait for the sync of a whole copy.
const SYNC_PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(2);

/// Ends what [`Server::part_log`] has begun, however the copy ends.
pub(crate) struct Apart(Arc<Server>);

impl Drop for Apart {
    fn drop(&mut self) {
        self.0.join_log(false);
    }
}

impl Server {
    /// Continues the log beside its files, until [`Server::join_log`]. If that is not possible, it
    /// continues behind them, and a warning is logged. The thread is in no batch.
    pub(crate) fn part_log(self: &Arc<Self>, ks: &mut Handle) -> Apart {
        let (durability, apart) = (&self.durability, Apart(self.clone()));
        let Some(log) = durability.log() else { return apart };
        if durability.has_failed() || !self.claim_files() {
            tracing::warn!("the log continues with the replaced data");
            return apart;
        }
        durability.is_apart.store(true, SeqCst);
        // After a failed copy it is still beside them.
        if durability.is_complete.load(Relaxed)
            && let Err(error) = self.go_on_apart(ks, &log)
        {
            tracing::warn!("the log continues with the replaced data: {error}");
        }
        apart
    }

    /// Appends the log beside the files to them, if the copy `is_whole`.
    pub(crate) fn join_log(&self, is_whole: bool) {
        let durability = &self.durability;
        if !durability.is_apart.load(SeqCst) {
            return;
        }
        if let Some(log) = durability.log()
            && is_whole
            && !durability.is_complete.load(Relaxed)
            && let Err(error) = self.name_what_is_apart(&log)
        {
            tracing::warn!(
                "the log gets a new base, since its new file cannot follow the earlier ones: {error}"
            );
            durability.schedule_rewrite();
        }
        durability.is_apart.store(false, SeqCst);
        durability.rewriting_since.store(0, SeqCst);
    }

    fn name_what_is_apart(&self, log: &Log) -> io::Result<()> {
        let (epoch, begin) = (self.keyspace.epochs().now(), Instant::now());
        log.want(epoch);
        while log.synced() < epoch {
            if log.has_failed() || self.is_stopping() || begin.elapsed() > SYNC_PATIENCE {
                return Err(io::Error::other("it is not on the disk yet"));
            }
            // One that has just been asked for may have begun before.
            log.want(epoch);
            std::thread::sleep(PAUSE);
        }
        let mut place = self.durability.directory.lock();
        let directory = place.as_mut().ok_or(io::ErrorKind::NotFound)?;
        directory.name_unnamed()?;
        self.durability.is_complete.store(true, Relaxed);
        self.durability.weigh(directory);
        drop(place);
        log.has_base();
        Ok(())
    }

    /// Keeps others from changing which files the log consists of, as a rewrite does.
    fn claim_files(&self) -> bool {
        let (durability, begin) = (&self.durability, Instant::now());
        while begin.elapsed() < REWRITE_PATIENCE && !self.is_stopping() {
            let since = &durability.rewriting_since;
            if since.compare_exchange(0, unix_ms(), SeqCst, Relaxed).is_ok() {
                if !durability.sealing.load(SeqCst) {
                    return true;
                }
                since.store(0, SeqCst);
            }
            std::thread::sleep(PAUSE);
        }
        false
    }

    fn go_on_apart(&self, ks: &mut Handle, log: &Log) -> io::Result<()> {
        let directory = &self.durability.directory;
        let (file, head) = match &mut *directory.lock() {
            Some(directory) => directory.begin_effects(unix_ms(), false)?,
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        let begun = SystemFile::new(file).and_then(|file| self.rotate_apart(ks, log, file, head));
        begun.inspect_err(|_| {
            if let Some(directory) = &mut *directory.lock() {
                directory.abandon_effects(head.seq);
            }
        })
    }

    fn rotate_apart(
        &self,
        ks: &mut Handle,
        log: &Log,
        file: SystemFile,
        head: FileHead,
    ) -> io::Result<()> {
        ks.enter();
        ks.lock_all();
        ks.hand_over();
        let (epoch, begin) = (self.keyspace.epochs().now(), Instant::now());
        log.want(epoch);
        while log.durable() < epoch && begin.elapsed() < DISK_PATIENCE {
            std::thread::sleep(PAUSE);
        }
        let is_durable = log.durable() >= epoch;
        if is_durable {
            log.rotate_apart(&self.keyspace, Box::new(file), head);
            self.durability.is_complete.store(false, Relaxed);
        }
        ks.unlock();
        ks.exit();
        match is_durable {
            true => Ok(()),
            false => Err(io::Error::other("earlier changes are not on the disk yet")),
        }
    }
}
