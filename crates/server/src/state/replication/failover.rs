//! The handover of a primary's role that there is, if any, and the stream that stands still during
//! it.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Between two looks whether a replica has executed everything.
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// No replica has executed everything yet.
    WaitsForSync,
    /// The replica at the address that is followed is asked to be the primary.
    InProgress,
}

#[derive(Clone, Copy, Debug)]
struct Handover {
    phase: Phase,
    /// Tells it from an earlier one.
    number: u64,
}

/// The handover that there is, if any.
#[derive(Default)]
pub struct Failover {
    now: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    handover: Option<Handover>,
    /// Handovers so far.
    count: u64,
}

/// The stream does not move while this is held and no handover is going on.
pub(crate) struct Still<'f>(MutexGuard<'f, Progress>);

impl Still<'_> {
    /// Whether a handover is going on, during which nothing is appended to the stream.
    pub fn is_needed(&self) -> bool {
        self.0.handover.is_some()
    }
}

impl Failover {
    /// `master_failover_state` of `INFO`.
    pub fn word(&self) -> &'static str {
        match self.now.lock().handover.map(|handover| handover.phase) {
            None => "no-failover",
            Some(Phase::WaitsForSync) => "waiting-for-sync",
            Some(Phase::InProgress) => "failover-in-progress",
        }
    }

    /// Whether a handover is going on.
    pub fn is_active(&self) -> bool {
        self.now.lock().handover.is_some()
    }

    /// Whether the server that is followed is to be asked to be the primary.
    pub(crate) fn is_handing_over(&self) -> bool {
        self.now.lock().handover.is_some_and(|handover| handover.phase == Phase::InProgress)
    }

    /// Keeps a handover from beginning.
    pub(crate) fn still(&self) -> Still<'_> {
        Still(self.now.lock())
    }

    pub(crate) fn begin(&self) -> Option<u64> {
        let mut now = self.now.lock();
        if now.handover.is_some() {
            return None;
        }
        now.count += 1;
        now.handover = Some(Handover { phase: Phase::WaitsForSync, number: now.count });
        Some(now.count)
    }

    /// The next phase; false if the handover is over.
    pub(crate) fn proceed(&self, number: u64) -> bool {
        let mut now = self.now.lock();
        let place = now.handover.as_mut().filter(|handover| handover.number == number);
        place.map(|handover| handover.phase = Phase::InProgress).is_some()
    }

    /// Ends the handover, if there is one: whether the role was being handed over already.
    pub(crate) fn end(&self) -> Option<bool> {
        let ended = self.now.lock().handover.take()?;
        self.changed.notify_all();
        Some(ended.phase == Phase::InProgress)
    }

    /// Waits for a moment; false if the handover is over.
    pub(crate) fn wait(&self, number: u64) -> bool {
        let mut now = self.now.lock();
        self.changed.wait_for(&mut now, LOOK_EVERY);
        now.handover.is_some_and(|handover| handover.number == number)
    }
}
