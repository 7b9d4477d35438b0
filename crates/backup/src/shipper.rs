//! The thread that ships: one backup at a time, the newest that there is, again and again until it is there.
//!
//! ```text
//! ship_snapshot ──▶ waiting (at most one: a newer takes the place of an older)
//!                      │ taken by the thread
//!                      ▼
//!                   upload ─ manifest ─ prune
//!                      │ failed: told, counted, tried again after 1, 2, 4 ... 300 s, for a day at most,
//!                      ▼         or until a newer one waits
//! ```

use crate::SNAPSHOT;
use crate::catalog::{self, MANIFEST};
use crate::error::Error;
use crate::manifest::{FileEntry, Manifest};
use crate::name::Name;
use crate::restore::runtime;
use crate::target::Target;
use crate::upload::upload;
use object_store::{ObjectStoreExt, PutPayload};
use parking_lot::Mutex;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;
use tokio::time::sleep_until;

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version that manifests name.
    pub server: String,
    /// How many backups stay in the store; 0 keeps all.
    pub keep: u64,
}

/// What `INFO` tells.
#[derive(Debug, Default)]
pub struct Figures {
    /// Backups that were shipped.
    pub shipped: AtomicU64,
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
    /// Bytes of the backup that is being shipped; 0 if none is.
    pub current_bytes: AtomicU64,
    /// Bytes of it that were handed to the store.
    pub current_sent: AtomicU64,
    /// When the last one was there, in Unix seconds; 0 if none was.
    pub last_at: AtomicI64,
    /// The time of what is in it, in Unix seconds.
    pub last_made: AtomicI64,
    /// Its bytes.
    pub last_bytes: AtomicU64,
    /// Milliseconds that it took.
    pub last_millis: AtomicU64,
}

/// Ships backups, on a thread of its own.
pub struct Shipper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread and those who hand it something share.
struct Shared {
    target: Target,
    url: String,
    server: String,
    keep: AtomicU64,
    figures: Figures,
    queue: Mutex<Queue>,
    /// The queue has changed.
    changed: Notify,
    /// The server stops.
    stops: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: Option<Job>,
    /// One is being shipped, or waits to be tried again.
    is_shipping: bool,
    /// Nothing more is begun; what is being shipped is given up at this time.
    stop: Option<Instant>,
}

/// A snapshot to ship.
struct Job {
    name: Name,
    file: File,
    /// Only if it is newer than everything in the store.
    if_newer: bool,
}

const DELAY_MIN: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(300);
/// After this time something that cannot be shipped is given up.
const TRYING_MAX: Duration = Duration::from_secs(24 * 3600);

impl Shipper {
    /// Starts the thread for the store at an address.
    ///
    /// # Errors
    /// If the address cannot be used, or no thread be started. Whether the store answers shows later.
    pub fn start(url: &str, options: Options) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            target: Target::open(url)?,
            url: url.to_owned(),
            server: options.server,
            keep: AtomicU64::new(options.keep),
            figures: Figures::default(),
            queue: Mutex::default(),
            changed: Notify::new(),
            stops: Notify::new(),
        });
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

    /// Ships a snapshot, which never changes; its name is the time of its last change. One that still waits is given up
    /// for it.
    pub fn ship_snapshot(&self, file: File) {
        self.enqueue(file, false);
    }

    /// The same for a snapshot that was there when the server started: it is only shipped if the store has no newer one.
    pub fn ship_if_newer(&self, file: File) {
        self.enqueue(file, true);
    }

    fn enqueue(&self, file: File, if_newer: bool) {
        let made = file.metadata().and_then(|metadata| metadata.modified());
        let name = Name::at(made.unwrap_or_else(|_| SystemTime::now()));
        let mut queue = self.shared.queue.lock();
        if queue.stop.is_none() && queue.waiting.replace(Job { name, file, if_newer }).is_some() {
            self.shared.figures.given_up.fetch_add(1, Relaxed);
        }
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Backups that stay in the store from the next one on.
    pub fn set_keep(&self, keep: u64) {
        self.shared.keep.store(keep, Relaxed);
    }

    /// What `INFO` tells.
    pub fn figures(&self) -> &Figures {
        &self.shared.figures
    }

    /// Whether something is shipped or waits.
    pub fn is_busy(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.is_shipping || queue.waiting.is_some()
    }

    /// Ends the thread, once what waits is shipped: after a failed try, or after `patience`, it is given up.
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
        loop {
            let (next, is_stopping) = {
                let mut queue = self.queue.lock();
                let next = queue.waiting.take();
                queue.is_shipping = next.is_some();
                (next, queue.stop.is_some())
            };
            match next {
                Some(job) => self.ship_somehow(job).await,
                None if is_stopping => return,
                None => self.changed.notified().await,
            }
        }
    }

    /// Returns when the server that stops waits no longer.
    async fn out_of_time(&self) {
        self.stops.notified().await;
        let stop = self.queue.lock().stop;
        sleep_until(stop.unwrap_or_else(Instant::now).into()).await;
    }

    /// Tries until it is shipped, a newer one waits, the server stops or too much time has passed.
    async fn ship_somehow(&self, job: Job) {
        let (began, mut delay, figures) = (Instant::now(), DELAY_MIN, &self.figures);
        let name = job.name;
        loop {
            let tried = self.ship(&job).await;
            figures.current_bytes.store(0, Relaxed);
            figures.is_failing.store(tried.is_err(), Relaxed);
            let Err(error) = tried else { return };
            figures.failed.fetch_add(1, Relaxed);
            let seconds = delay.as_secs();
            tracing::warn!("the backup {name} failed; the next try is in {seconds} s: {error}");
            self.pause(delay).await;
            delay = (delay * 2).min(DELAY_MAX);
            if let Some(why) = self.reason_to_give_up(began) {
                figures.given_up.fetch_add(1, Relaxed);
                tracing::error!("the backup {name} is not shipped: {why}");
                return;
            }
        }
    }

    fn reason_to_give_up(&self, began: Instant) -> Option<&'static str> {
        let queue = self.queue.lock();
        if queue.waiting.is_some() {
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

    /// Ships a backup and removes those that are too many.
    async fn ship(&self, job: &Job) -> Result<(), Error> {
        let (began, figures, name) = (Instant::now(), &self.figures, job.name);
        if job.if_newer {
            let newest = catalog::latest(&self.target).await?;
            if newest.is_some_and(|newest| newest.made >= name) {
                return Ok(());
            }
        }
        let size =
            job.file.metadata().map_err(|error| Error::file("reading the snapshot", error))?;
        let size = size.len();
        figures.current_sent.store(0, Relaxed);
        figures.current_bytes.store(size, Relaxed);
        let object = self.target.object(name, SNAPSHOT);
        let sum = upload(&self.target, &object, &job.file, size, &figures.current_sent).await?;
        let file = FileEntry { name: SNAPSHOT.into(), size, sum };
        let manifest = Manifest { made: name, server: self.server.clone(), files: vec![file] };
        let object = self.target.object(name, MANIFEST);
        let put = self.target.store.put(&object, PutPayload::from(manifest.text())).await;
        put.map_err(|error| Error::store(format!("shipping {object}"), error))?;
        self.note_shipped(name, size, began);
        // What could not be removed now can be the next time: the backup is there.
        let keep = usize::try_from(self.keep.load(Relaxed)).unwrap_or(usize::MAX);
        match catalog::prune(&self.target, keep).await {
            Ok(removed) => drop(figures.removed.fetch_add(removed, Relaxed)),
            Err(error) => tracing::warn!("old backups stay: {error}"),
        }
        Ok(())
    }

    fn note_shipped(&self, name: Name, size: u64, began: Instant) {
        let (figures, took) = (&self.figures, began.elapsed());
        figures.bytes.fetch_add(size, Relaxed);
        figures.last_at.store(Name::at(SystemTime::now()).unix_seconds(), Relaxed);
        figures.last_made.store(name.unix_seconds(), Relaxed);
        figures.last_bytes.store(size, Relaxed);
        figures.last_millis.store(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Relaxed);
        figures.shipped.fetch_add(1, Relaxed);
        let seconds = took.as_secs_f64();
        tracing::info!("shipped the backup {name} to {}: {size} bytes in {seconds:.2} s", self.url);
    }
}
