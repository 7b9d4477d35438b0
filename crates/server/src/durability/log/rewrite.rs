//! Rewriting the log: a base of one moment takes the place of everything before it.
//!
//! ```text
//! with everything held   the log goes on in a new file ── an image begins
//! a thread of its own    writes the image ─ syncs it ─ the manifest names it and the new file,
//!                        and nothing else
//! ```
//!
//! Until the last step the manifest names the old files and the new one, which together are
//! everything as well.

use super::load::report_kept;
use crate::config::Config;
use crate::observation::pluralized::Pluralized;
use crate::server::Server;
use crate::state::log::Durability;
use crate::unix_time::unix_ms;
use petrel_keyspace::Handle;
use petrel_persistence::log::{FileHead, Log, SystemFile};
use petrel_persistence::rdb::{FileError, FileWriter};
use petrel_persistence::{Image, PacedFile};
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Seconds from a failed try to the next, and the most that they grow to.
const RETRY_SECONDS: i64 = 5;
const RETRY_SECONDS_MAX: i64 = 3600;

/// Minimum pause between automatic rewrites, as a multiple of the last rewrite's duration and in
/// milliseconds ...
const REST: i64 = 4;
const REST_MS_MIN: i64 = 60_000;
/// ... unless the log has grown by this many times what asks for one.
const RESTLESS: u64 = 10;

/// Result of a request to rewrite the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rewriting {
    /// The rewrite has begun.
    Begun,
    /// The rewrite will begin after the running snapshot or backup.
    Scheduled,
    /// A rewrite is running.
    Already,
}

/// A base in the making.
struct Rewrite {
    file: FileWriter<PacedFile>,
    /// Path of the temporary file.
    part: PathBuf,
    /// Number of the file for effects that follows on it.
    first: u64,
    log: Option<Arc<Log>>,
}

impl Server {
    /// Begins to rewrite the log on a thread of its own. `ks` is in a batch and holds nothing.
    ///
    /// # Errors
    /// If a file cannot be made, or no thread be started.
    pub(crate) fn begin_rewrite(self: &Arc<Self>, ks: &mut Handle) -> Result<Rewriting, FileError> {
        let durability = &self.durability;
        if durability.is_rewriting() {
            return Ok(Rewriting::Already);
        }
        self.open_awaited_file(ks)?;
        if self.snapshot.is_saving() || durability.is_pinned.load(SeqCst) {
            durability.rewrite_scheduled.store(true, Relaxed);
            return Ok(Rewriting::Scheduled);
        }
        if durability.rewriting_since.compare_exchange(0, unix_ms(), SeqCst, Relaxed).is_err() {
            return Ok(Rewriting::Already);
        }
        if durability.sealing.load(SeqCst) {
            // That takes some milliseconds.
            durability.rewrite_scheduled.store(true, Relaxed);
            durability.rewriting_since.store(0, Relaxed);
            return Ok(Rewriting::Scheduled);
        }
        durability.rewrite_tried_at.store(unix_ms() / 1000, Relaxed);
        let begun = self.rewrite_from_now(ks);
        match &begun {
            Ok(Rewriting::Begun) => {
                durability.rewrite_scheduled.store(false, Relaxed);
                return begun;
            }
            Ok(_) => durability.rewrite_scheduled.store(true, Relaxed),
            Err(error) => {
                durability.rewrite_failures.fetch_add(1, Relaxed);
                tracing::error!("the log cannot be rewritten: {error}");
            }
        }
        durability.rewriting_since.store(0, Relaxed);
        begun
    }

    fn rewrite_from_now(self: &Arc<Self>, ks: &mut Handle) -> Result<Rewriting, FileError> {
        let durability = &self.durability;
        let config = self.config.snapshot();
        let log = durability.log();
        let mut place = durability.directory.lock();
        let directory = match &mut *place {
            Some(directory) => directory,
            empty => empty.insert(self.open_directory(&config)?),
        };
        let part = directory.base_in_work();
        let is_paced = config.aof_rewrite_incremental_fsync;
        let made = self.create(&part, is_paced, self.base_options()).and_then(|file| {
            // The new file can continue the present log only if that is complete.
            let is_named =
                durability.is_complete.load(Relaxed) && !durability.needs_base.load(Relaxed);
            let next = match &log {
                Some(_) => Some(directory.begin_effects(unix_ms(), is_named)?),
                None => None,
            };
            Ok((file, next, !is_named))
        });
        let first = if log.is_some() && made.is_ok() { directory.last_seq() } else { u64::MAX };
        drop(place);
        let begun = made.and_then(|(file, next, awaits_base)| {
            let rewrite = Rewrite { file, part: part.clone(), first, log };
            self.begin_base(ks, rewrite, next, awaits_base)
        });
        if let Ok(true) = begun {
            return Ok(Rewriting::Begun);
        }
        let _ = fs::remove_file(&part);
        if let Some(directory) = &mut *durability.directory.lock() {
            directory.abandon_effects(first);
        }
        begun.map(|_| Rewriting::Scheduled)
    }

    /// Begins an image for the base, with which the log goes on in the next file. False, and
    /// nothing has begun, while something else takes an image.
    fn begin_base(
        self: &Arc<Self>,
        ks: &mut Handle,
        rewrite: Rewrite,
        next: Option<(File, FileHead)>,
        awaits_base: bool,
    ) -> Result<bool, FileError> {
        let next =
            next.map(|(file, head)| SystemFile::new(file).map(|file| (file, head))).transpose()?;
        let (server, (send, begun)) = (self.clone(), mpsc::sync_channel::<(Image, u64)>(1));
        let log = rewrite.log.clone();
        let work = move || {
            if let Ok((image, epoch)) = begun.recv() {
                server.rewrite_beside(image, epoch, rewrite);
            }
        };
        // Before the image begins, for one that has has to be gone through.
        std::thread::Builder::new().name("petrel-rewriter".into()).spawn(work)?;
        ks.lock_all();
        let mut image = Image::begin(ks, self.base_options());
        // A log that is begun later begins with the first.
        let mut epoch = 1;
        if image.is_some()
            && let (Some(log), Some((file, head))) = (&log, next)
        {
            epoch = log.rotate(&self.keyspace, Box::new(file), head, awaits_base);
        }
        ks.unlock();
        if let Some(image) = &mut image {
            // The rest of the cores are for the clients served meanwhile.
            image.threads = (self.workers.len() / 2).max(1);
        }
        if log.is_some() {
            // Those in the base may be older than the new file.
            self.log_aux_states();
        }
        let Some(image) = image else { return Ok(false) };
        if send.send((image, epoch)).is_err() {
            // The thread has panicked, and the log has gone on in the new file all the same.
            self.durability.rewriting_since.store(0, Relaxed);
        }
        Ok(true)
    }

    /// Writes the base, on the calling thread; it holds everything before this epoch.
    fn rewrite_beside(&self, image: Image, epoch: u64, rewrite: Rewrite) {
        let Rewrite { mut file, part, first, log } = rewrite;
        let start = Instant::now();
        let durability = &self.durability;
        let mut before = 0;
        let written = image.write(&mut self.keyspace.attach(), &mut file, |keys| {
            self.delay_saving(keys - std::mem::replace(&mut before, keys), || self.is_stopping());
            if self.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let done = written.and_then(|keys| {
            let Some(keys) = keys else { return Ok(None) };
            file.finish()?.sync_all()?;
            let mut place = durability.directory.lock();
            let Some(directory) = &mut *place else { return Ok(None) };
            let left = directory.complete_base(first, epoch)?;
            left.iter().for_each(|left| tracing::warn!("{left}"));
            report_kept(directory);
            durability.is_complete.store(true, Relaxed);
            durability.weigh(directory);
            durability.base_len.store(durability.bytes(), Relaxed);
            Ok(Some(keys))
        });
        let seconds = start.elapsed().as_secs_f64();
        match done {
            Ok(Some(keys)) => {
                if let Some(log) = &log {
                    log.has_base();
                }
                durability.rewrites.fetch_add(1, Relaxed);
                durability.rewrite_failures.store(0, Relaxed);
                let keys = Pluralized(keys, "key");
                tracing::info!("rewrote the log: {keys} in {seconds:.2} s");
            }
            ended => {
                // There may be no such file.
                let _ = fs::remove_file(part);
                if let Err(error) = ended {
                    durability.rewrite_failures.fetch_add(1, Relaxed);
                    tracing::error!("the log cannot be rewritten: {error}");
                    // A log that was turned on is nothing without its base.
                    let is_complete = durability.is_complete.load(Relaxed);
                    durability.rewrite_scheduled.fetch_or(log.is_some() && !is_complete, Relaxed);
                }
            }
        }
        durability.rewrite_ms.store((seconds * 1e3) as i64, Relaxed);
        durability.rewrite_ended_at.store(unix_ms(), Relaxed);
        durability.rewriting_since.store(0, Relaxed);
    }

    /// Begins to rewrite the log if it has grown enough and was not rewritten just now, or that has
    /// been asked for; called about ten times a second, by one thread, which holds nothing.
    pub(crate) fn rewrite_if_due(self: &Arc<Self>, ks: &mut Handle, config: &Config) {
        let durability = &self.durability;
        if self.commands.is_loading() || self.open_awaited_file(ks).is_err() {
            return;
        }
        self.attach_pending_if_due(ks);
        if !durability.is_on() && !durability.rewrite_scheduled.load(Relaxed)
            || durability.is_rewriting()
            || durability.is_pinned.load(SeqCst)
            || self.snapshot.is_saving()
        {
            return;
        }
        let failures = durability.rewrite_failures.load(Relaxed).min(16) as u32;
        let pause = (RETRY_SECONDS << failures.saturating_sub(1).min(10)).min(RETRY_SECONDS_MAX);
        // Until the base is there, nothing is durable.
        let lacks_base = durability.is_on() && !durability.is_complete.load(Relaxed);
        let pause = if lacks_base || durability.needs_base.load(Relaxed) { 1 } else { pause };
        if failures > 0 && unix_ms() / 1000 - durability.rewrite_tried_at.load(Relaxed) < pause {
            return;
        }
        let (len, base) = (durability.bytes(), durability.base_bytes().max(1));
        let growth = len.saturating_sub(base).saturating_mul(100) / base;
        let percentage = config.auto_aof_rewrite_percentage;
        // A replica with a failed copy gets its base with the next one.
        let awaits_copy = lacks_base && self.replication.is_replica();
        let has_grown = percentage > 0
            && !awaits_copy
            && durability.is_on()
            && len >= config.auto_aof_rewrite_min_size
            && growth >= percentage as u64
            && (durability.has_rested() || growth / RESTLESS >= percentage as u64);
        if !has_grown
            && (!lacks_base || awaits_copy)
            && !durability.needs_base.load(Relaxed)
            && !durability.rewrite_scheduled.load(Relaxed)
        {
            return;
        }
        let is_inside = ks.is_inside();
        if !is_inside {
            ks.enter();
        }
        // Its errors are in the log.
        let begun = self.begin_rewrite(ks);
        if !is_inside {
            ks.exit();
        }
        if has_grown && matches!(begun, Ok(Rewriting::Begun)) {
            tracing::info!("rewriting the log: it has grown by {growth} %");
        }
    }
}

impl Durability {
    /// Whether enough time has passed since the log was rewritten for it to be rewritten again by
    /// itself: writes that double it every few seconds would otherwise have it rewritten almost
    /// without a pause, and share the disk and a processor with that.
    fn has_rested(&self) -> bool {
        let rest = REST.saturating_mul(self.rewrite_ms.load(Relaxed)).max(REST_MS_MIN);
        let since = unix_ms().saturating_sub(self.rewrite_ended_at.load(Relaxed));
        // A clock that was put back keeps no client waiting.
        !(0..rest).contains(&since)
    }
}
