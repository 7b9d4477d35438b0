//! Upkeep thread of an engine: removes expired keys, compacts, and frees flushed data, as workers
//! do for the server.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use petrel_commands::Shared;
use petrel_keyspace::{Cleared, Handle, Keyspace, Pace};

/// Between two rounds, and while there is much to do.
const INTERVAL: Duration = Duration::from_millis(100);
const INTERVAL_BUSY: Duration = Duration::from_millis(10);

/// Time limits of the parts of one round.
const PACE: Pace = Pace { expire: Duration::from_millis(1), compact: Duration::from_millis(1) };

enum Job {
    Free(Cleared),
    End,
}

/// The thread; it ends when this is dropped.
pub(crate) struct Upkeep {
    jobs: Sender<Job>,
}

/// Queue of data to free.
pub(crate) struct Freeing(Sender<Job>);

impl Upkeep {
    /// Starts the thread. If no thread can be started, expired keys are removed on access, and
    /// flushed data is freed on the spot.
    pub(crate) fn begin(keyspace: &Arc<Keyspace>, shared: &Arc<Shared>) -> Self {
        let (jobs, queue) = channel();
        let (keyspace, shared) = (keyspace.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("petrel-upkeep".to_owned());
        let _ = thread.spawn(move || run(&keyspace, &shared, &queue));
        Self { jobs }
    }

    pub(crate) fn freeing(&self) -> Freeing {
        Freeing(self.jobs.clone())
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::End);
    }
}

impl Freeing {
    pub(crate) fn free(&self, cleared: Cleared) {
        // What cannot be sent comes back in the error, and is freed with it.
        let _ = self.0.send(Job::Free(cleared));
    }
}

fn run(keyspace: &Arc<Keyspace>, shared: &Shared, queue: &Receiver<Job>) {
    let mut ks = keyspace.attach();
    let mut pause = INTERVAL;
    loop {
        match queue.recv_timeout(pause) {
            Ok(Job::Free(cleared)) => cleared.free_gently(keyspace),
            Ok(Job::End) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                pause = if tend(&mut ks, shared) { INTERVAL_BUSY } else { INTERVAL };
            }
        }
    }
}

/// Runs one round; true if there is more to do.
fn tend(ks: &mut Handle, shared: &Shared) -> bool {
    // Work that a slow script keeps from this thread is left out.
    let is_busy = || shared.scripts.running.is_busy();
    let ticked = ks.tick_unless(PACE, is_busy);
    if ks.enter_unless(is_busy) {
        ks.keep_limit();
    }
    ks.exit();
    ticked.is_busy()
}
