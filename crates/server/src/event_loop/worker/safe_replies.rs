//! Replies that wait until another owner of their hash slots has the changes that they show.
//!
//! ```text
//! batch   commands - the slots of the keys shown - last changes that are not safe: a wait
//!         output - kept by the gate until this wait and all earlier ones of the worker are over
//! agent   an acknowledgement arrives - wakes the workers with waits
//! ```
//!
//! A wait that outlasts two node timeouts ends with its connection: whether another member will
//! have the changes is not known then.

use super::Worker;
use petrel_commands::UnsafeChanges;
use petrel_net::{Driver, Slot};
use std::collections::VecDeque;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, fence};

/// Output of a connection that waits.
struct Wait {
    number: u64,
    slot: Slot,
    changes: Box<dyn UnsafeChanges>,
    /// Time at which the connection is closed, in Unix milliseconds.
    until: i64,
}

/// Waits of a worker, in order.
#[derive(Default)]
pub(crate) struct SafeWaits {
    /// Number of the last wait.
    last: u64,
    queue: VecDeque<Wait>,
}

impl<D: Driver> Worker<D> {
    /// Delays the connection's output until the changes that its commands have shown are safe.
    #[cold]
    pub(super) fn hold_until_safe(&mut self, slot: Slot) {
        let exec = &self.engine.exec;
        let cluster = exec.shared.cluster.get();
        if let Some(changes) = cluster.and_then(|cluster| cluster.unsafe_changes(&exec.shown)) {
            let until = exec.ks.now_ms() + changes.timeout_ms();
            let waits = &mut self.own.safe_waits;
            waits.last += 1;
            let number = waits.last;
            waits.queue.push_back(Wait { number, slot, changes, until });
            self.driver.below().below().hold(slot, number);
        }
        self.engine.exec.shown.clear();
    }

    /// Whether output waits for other owners.
    #[inline]
    pub(crate) fn has_safe_waits(&self) -> bool {
        !self.own.safe_waits.queue.is_empty()
    }

    /// Sends the output of waits that are over.
    #[cold]
    pub(crate) fn send_safe(&mut self) {
        let link = &self.engine.host.server.workers[self.index];
        // Before the look: an acknowledgement after it wakes this worker.
        link.awaits_owners.store(true, Relaxed);
        fence(SeqCst);
        let queue = &mut self.own.safe_waits.queue;
        let mut done = None;
        while let Some(wait) = queue.front()
            && wait.changes.are_safe()
        {
            done = Some(wait.number);
            queue.pop_front();
        }
        if queue.is_empty() {
            link.awaits_owners.store(false, Relaxed);
        }
        if let Some(done) = done {
            self.driver.below().below().release(done);
        }
    }

    /// Closes the connections of waits that have lasted too long.
    #[cold]
    pub(super) fn end_safe_waits(&mut self) {
        let now = self.engine.exec.ks.now_ms();
        let mut closed = 0;
        while let Some(wait) = self.own.safe_waits.queue.front()
            && wait.until <= now
            && let Some(Wait { number, slot, .. }) = self.own.safe_waits.queue.pop_front()
        {
            if let Some(mut conn) = self.take(slot) {
                conn.doomed = true;
                closed += 1;
                self.settle(conn);
            }
            self.driver.below().below().release(number);
        }
        if closed > 0 {
            tracing::warn!(
                "{closed} clients were disconnected: no other owner of their hash slots has acknowledged their changes within two node timeouts"
            );
        }
    }
}
