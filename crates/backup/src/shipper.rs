//! The backup thread: uploads one backup at a time, the newest available, retrying with backoff.
//!
//! ```text
//! ship_snapshot, ship_log ──▶ waiting (at most one of each: a newer takes the place of an older)
//!                      │ taken by the thread
//!                      ▼
//!                   upload ─ manifest ─ prune
//!                      │ failed: logged, counted, retried after 1, 2, 4 ... 300 s,
//!                      ▼         for a day at most, or until a newer one waits
//! ```

use crate::catalog;
use crate::error::Error;
use crate::job::{Job, Known, LogState, Sender, Shipped, Snapshot};
use crate::name::{BackupKind, Name};
use crate::restore::runtime;
use crate::target::Target;
use parking_lot::Mutex;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;
use tokio::time::sleep_until;

/// Options of backups.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version that manifests name.
    pub server: String,
    /// Number of backups kept in the store; 0 keeps all.
    pub keep: u64,
}

/// Fields of `INFO`.
#[derive(Debug, Default)]
pub struct Figures {
    /// Backups that were shipped; each growth of one counts.
    pub shipped: AtomicU64,
    /// Files that were shipped.
    pub files: AtomicU64,
    /// Tries that failed.
    pub failed: AtomicU64,
    /// Backups that were given up: a newer one came, or they were tried for too long.
    pub given_up: AtomicU64,
    /// Backups that were removed from the store.
    pub removed: AtomicU64,
    /// Bytes of backups that were shipped.
    pub bytes: AtomicU64,
    /// The last try failed.
    pub is_failing: AtomicBool,
    /// Bytes of the file that is being shipped; 0 if none is.
    pub current_bytes: AtomicU64,
    /// Bytes of it that were handed to the store.
    pub current_sent: AtomicU64,
    /// Time of the last complete upload in Unix seconds; 0 if there was none.
    pub last_at: AtomicI64,
    /// Time of its data in Unix seconds.
    pub last_made: AtomicI64,
    /// Bytes of the backup; of a log, the new bytes.
    pub last_bytes: AtomicU64,
    /// Milliseconds that it took.
    pub last_millis: AtomicU64,
}

/// Ships backups, on a thread of its own.
pub struct Shipper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State shared by the thread and its callers.
struct Shared {
    target: Target,
    url: String,
    server: String,
    keep: AtomicU64,
    figures: Figures,
    /// The directory was not there when something was to be shipped.
    is_away: AtomicBool,
    queue: Mutex<Queue>,
    /// The queue has changed.
    changed: Notify,
    /// The server stops.
    stops: Notify,
}

#[derive(Default)]
struct Queue {
    snapshot: Option<Snapshot>,
    log: Option<LogState>,
    /// A backup is being uploaded, or waits for a retry.
    is_shipping: bool,
    /// No upload begins any more; the current one is abandoned at this time.
    stop: Option<Instant>,
}

impl Queue {
    fn take(&mut self) -> Option<Job> {
        let next = self.snapshot.take().map(Job::Snapshot);
        next.or_else(|| self.log.take().map(Job::Log))
    }

    fn is_empty(&self) -> bool {
        self.snapshot.is_none() && self.log.is_none()
    }
}

/// Between two looks for a directory that was not there when the last backup was to go there.
const AWAY_PAUSE: Duration = Duration::from_secs(1);
const DELAY_MIN: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(300);
/// After this time something that cannot be shipped is given up.
const TRYING_MAX: Duration = Duration::from_secs(24 * 3600);

impl Shipper {
    /// Starts the thread for the store at an address.
    ///
    /// # Errors
    /// If the address cannot be used, or no thread be started. Whether the store answers shows
    /// later.
    pub fn start(url: &str, options: Options) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            target: Target::open(url)?,
            url: url.to_owned(),
            server: options.server,
            keep: AtomicU64::new(options.keep),
            figures: Figures::default(),
            is_away: AtomicBool::new(false),
            queue: Mutex::default(),
            changed: Notify::new(),
            stops: Notify::new(),
        });
        // The server serves without it; monitoring shows that backups are missing.
        if let Err(error) = shared.look_for_place() {
            shared.figures.is_failing.store(true, Relaxed);
            tracing::error!("no backup can be shipped to {url}: {error}");
        }
        let (runtime, worker) = (runtime()?, shared.clone());
        let thread = std::thread::Builder::new().name("petrel-backup".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = worker.work() => {}
                    () = worker.out_of_time() => tracing::warn!("the server stops: the backup that was being shipped is given up"),
                }
            });
        });
        let thread = thread.map_err(|error| Error::file("starting the backup thread", error))?;
        Ok(Shipper { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Ships a snapshot, which never changes; its name is the time of its last change. One that
    /// still waits is given up for it.
    pub fn ship_snapshot(&self, file: File) {
        self.enqueue(file, false);
    }

    /// Ships a snapshot that existed when the server started, unless the store has a newer one.
    pub fn ship_if_newer(&self, file: File) {
        self.enqueue(file, true);
    }

    fn enqueue(&self, file: File, if_newer: bool) {
        let made = file.metadata().and_then(|metadata| metadata.modified());
        let name = Name::at(made.unwrap_or_else(|_| SystemTime::now()), BackupKind::Snapshot);
        let mut queue = self.shared.queue.lock();
        if queue.stop.is_none()
            && queue.snapshot.replace(Snapshot { name, file, if_newer }).is_some()
        {
            self.shared.figures.given_up.fetch_add(1, Relaxed);
        }
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Ships what of a log does not change any more and is not in the store yet. The last state
    /// counts: it names all files.
    pub fn ship_log(&self, log: LogState) {
        let mut queue = self.shared.queue.lock();
        if queue.stop.is_none() {
            queue.log = Some(log);
        }
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Backups that stay in the store from the next one on.
    pub fn set_keep(&self, keep: u64) {
        self.shared.keep.store(keep, Relaxed);
    }

    /// Fields of `INFO`.
    pub fn figures(&self) -> &Figures {
        &self.shared.figures
    }

    /// Whether something is shipped or waits.
    pub fn is_busy(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.is_shipping || !queue.is_empty()
    }

    /// Ends the thread, once what waits is shipped: after a failed try, or after `patience`, it is
    /// given up.
    pub fn stop(&self, patience: Duration) {
        self.shared.queue.lock().stop = Some(Instant::now() + patience);
        self.shared.changed.notify_one();
        self.shared.stops.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // One that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

impl Shared {
    async fn work(&self) {
        let mut known = Known::default();
        loop {
            let (next, is_stopping) = {
                let mut queue = self.queue.lock();
                let next = queue.take();
                queue.is_shipping = next.is_some();
                (next, queue.stop.is_some())
            };
            match next {
                Some(job) => self.ship_somehow(&job, &mut known).await,
                None if is_stopping => return,
                None => self.await_work().await,
            }
        }
    }

    fn look_for_place(&self) -> Result<(), Error> {
        let found = self.target.is_ready();
        self.is_away.store(found.is_err(), Relaxed);
        found
    }

    /// Waits for something to ship. What failed because a directory was not there does not fail any
    /// more once it is.
    async fn await_work(&self) {
        while self.is_away.load(Relaxed) {
            if self.look_for_place().is_ok() {
                self.figures.is_failing.store(false, Relaxed);
                tracing::info!("backups can be shipped to {} again", self.url);
                break;
            }
            let changed = tokio::time::timeout(AWAY_PAUSE, self.changed.notified());
            if changed.await.is_ok() {
                return;
            }
        }
        self.changed.notified().await;
    }

    /// Returns when the server that stops waits no longer.
    async fn out_of_time(&self) {
        self.stops.notified().await;
        let stop = self.queue.lock().stop;
        sleep_until(stop.unwrap_or_else(Instant::now).into()).await;
    }

    /// Tries until it is shipped, a newer one waits, the server stops or too much time has passed.
    async fn ship_somehow(&self, job: &Job, known: &mut Known) {
        let (began, mut delay, figures) = (Instant::now(), DELAY_MIN, &self.figures);
        loop {
            let tried = self.ship(job, known).await;
            figures.current_bytes.store(0, Relaxed);
            figures.is_failing.store(tried.is_err(), Relaxed);
            let Err(error) = tried else { return };
            figures.failed.fetch_add(1, Relaxed);
            let seconds = delay.as_secs();
            tracing::warn!("{} failed; the next try is in {seconds} s: {error}", job.title());
            self.pause(delay).await;
            delay = (delay * 2).min(DELAY_MAX);
            if let Some(why) = self.reason_to_give_up(job, began) {
                figures.given_up.fetch_add(1, Relaxed);
                tracing::error!("{} is not shipped: {why}", job.title());
                return;
            }
        }
    }

    fn reason_to_give_up(&self, job: &Job, began: Instant) -> Option<&'static str> {
        let queue = self.queue.lock();
        let is_outdated = match job {
            Job::Snapshot(_) => queue.snapshot.is_some(),
            Job::Log(_) => queue.log.is_some(),
        };
        if is_outdated {
            Some("there is a newer one")
        } else if queue.stop.is_some() {
            Some("the server stops")
        } else {
            (began.elapsed() > TRYING_MAX).then_some("it was tried for a day")
        }
    }

    /// Waits, but not for longer than the server runs.
    async fn pause(&self, delay: Duration) {
        let end = tokio::time::Instant::now() + delay;
        while self.queue.lock().stop.is_none() {
            tokio::select! {
                () = sleep_until(end) => return,
                () = self.changed.notified() => {}
            }
        }
    }

    /// Ships a backup and removes surplus ones.
    async fn ship(&self, job: &Job, known: &mut Known) -> Result<(), Error> {
        let (began, figures) = (Instant::now(), &self.figures);
        self.look_for_place()?;
        let sender = Sender { target: &self.target, server: &self.server, figures };
        let shipped = match job {
            Job::Snapshot(snapshot) => sender.snapshot(snapshot).await?,
            Job::Log(log) => sender.log(log, known).await?,
        };
        let Some(shipped) = shipped else { return Ok(()) };
        self.note_shipped(&shipped, began);
        // What could not be removed now can be the next time: the backup is there.
        let keep = usize::try_from(self.keep.load(Relaxed)).unwrap_or(usize::MAX);
        match catalog::prune(&self.target, keep).await {
            Ok(removed) => drop(figures.removed.fetch_add(removed, Relaxed)),
            Err(error) => tracing::warn!("old backups stay: {error}"),
        }
        Ok(())
    }

    fn note_shipped(&self, shipped: &Shipped, began: Instant) {
        let Shipped { name, made, bytes } = *shipped;
        let (figures, took) = (&self.figures, began.elapsed());
        let seconds = |time| Name::at(time, BackupKind::Snapshot).unix_seconds();
        figures.bytes.fetch_add(bytes, Relaxed);
        figures.last_at.store(seconds(SystemTime::now()), Relaxed);
        figures.last_made.store(seconds(made), Relaxed);
        figures.last_bytes.store(bytes, Relaxed);
        figures.last_millis.store(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Relaxed);
        figures.shipped.fetch_add(1, Relaxed);
        let (url, seconds) = (&self.url, took.as_secs_f64());
        match name.kind {
            BackupKind::Snapshot => {
                tracing::info!(
                    "shipped the backup {name} to {url}: {bytes} bytes in {seconds:.2} s"
                );
            }
            // There may be one a minute.
            BackupKind::Log => {
                tracing::debug!("the backup {name} has grown by {bytes} bytes in {seconds:.2} s");
            }
        }
    }
}
