//! The background thread that frees memory.

use crate::lifecycle::process::Process;
use petrel_keyspace::{Cleared, Keyspace};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

/// Interval after which the allocator returns unused memory.
const PURGE_EVERY: Duration = Duration::from_secs(1);

/// Tasks that wait at most.
const TASKS_MAX: usize = 64;

/// Work of the thread.
enum Reap {
    /// Contents removed by a flush.
    Cleared(Cleared),
    /// Large values that were removed: [`Keyspace::collect_garbage`].
    Garbage,
}

/// Keys that asynchronous flushes removed.
#[derive(Default)]
pub struct Reaped {
    /// Not yet freed.
    pub pending: AtomicUsize,
    /// Freed.
    pub freed: AtomicUsize,
}

impl Reaped {
    fn free(&self, cleared: Cleared, free: impl FnOnce(Cleared)) {
        let keys = cleared.keys();
        free(cleared);
        self.freed.fetch_add(keys, Relaxed);
        self.pending.fetch_sub(keys, Relaxed);
    }
}

/// Frees memory left by flushes and by removed large values, and returns unused memory of the
/// allocator, until it is dropped.
pub struct Reaper {
    /// Pending and finished work.
    pub reaped: Arc<Reaped>,
    tasks: SyncSender<Reap>,
}

impl Reaper {
    /// Starts the thread.
    pub(crate) fn start(keyspace: &Arc<Keyspace>, process: Arc<dyn Process>) -> Self {
        let (tasks, taken) = mpsc::sync_channel(TASKS_MAX);
        let reaper = Reaper { reaped: Arc::default(), tasks };
        let (reaped, owner) = (reaper.reaped.clone(), Arc::downgrade(keyspace));
        let thread = std::thread::Builder::new().name("petrel-reaper".into());
        let work = move || run(&taken, &reaped, || owner.upgrade(), &*process);
        match thread.spawn(work) {
            Ok(_) => {
                let tasks = reaper.tasks.clone();
                keyspace.set_collector(move || drop(tasks.try_send(Reap::Garbage)));
            }
            Err(error) => tracing::warn!("no background thread to free memory: {error}"),
        }
        reaper
    }

    /// Frees the contents of a flush in the background; at once if the thread is far behind.
    pub fn reap(&self, cleared: Cleared) {
        self.reaped.pending.fetch_add(cleared.keys(), Relaxed);
        use TrySendError::{Disconnected, Full};
        if let Err(Full(Reap::Cleared(cleared)) | Disconnected(Reap::Cleared(cleared))) =
            self.tasks.try_send(Reap::Cleared(cleared))
        {
            self.reaped.free(cleared, drop);
        }
    }
}

/// Works until the server or its keyspace is dropped.
fn run(
    tasks: &Receiver<Reap>,
    reaped: &Reaped,
    keyspace: impl Fn() -> Option<Arc<Keyspace>>,
    process: &dyn Process,
) {
    let mut purged = Instant::now();
    loop {
        let task = match tasks.recv_timeout(PURGE_EVERY) {
            Ok(task) => Some(task),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(keyspace) = keyspace() else { return };
        if let Some(Reap::Cleared(cleared)) = task {
            reaped.free(cleared, |cleared| cleared.free_gently(&keyspace));
        }
        // After any task, because a notice of garbage is lost when the channel is full.
        keyspace.collect_garbage();
        if purged.elapsed() >= PURGE_EVERY {
            process.purge_allocator();
            purged = Instant::now();
        }
    }
}
