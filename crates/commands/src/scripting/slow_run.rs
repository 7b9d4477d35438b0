//! A script or a transaction that has run for a while: it is shown to others, its worker's clients
//! are answered once it is slow, and it ends on request.

use super::running::{SHUTTING_DOWN, Watched};
use crate::clock::{Clock, Tick};
use crate::host::{Attendant, Host};
use crate::server::stats::Shared;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Interval at which a slow script lets its worker answer other clients.
const ATTEND_NANOS: u64 = 500_000;

/// A script or a transaction that has run for a while, on its own thread.
pub(crate) struct SlowRun {
    shared: Arc<Shared>,
    watched: Arc<Watched>,
    attendant: Option<Rc<dyn Attendant>>,
    clock: Clock,
    started: Tick,
    /// The time of the last answers to other clients.
    attended: Cell<Tick>,
    /// Whether it is among the running scripts.
    is_listed: Cell<bool>,
}

impl SlowRun {
    /// Begins it; it began to run at `started`. It is shown once it is slow.
    pub fn begin(
        shared: &Arc<Shared>,
        watched: Watched,
        (clock, started): (Clock, Tick),
        host: &dyn Host,
    ) -> Self {
        SlowRun {
            shared: shared.clone(),
            watched: Arc::new(watched),
            attendant: host.attendant(),
            clock,
            started,
            attended: Cell::new(started),
            is_listed: Cell::new(false),
        }
    }

    /// Shows it to others at once.
    pub fn list(&self) {
        if !self.is_listed.replace(true) {
            self.shared.scripts.running.list(self.watched.clone());
        }
    }

    /// Its entry among the running scripts.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// The time.
    pub fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Nanoseconds since a point in time.
    pub fn nanos_since(&self, tick: Tick) -> u64 {
        self.clock.nanos(tick, self.clock.now())
    }

    /// Whether it runs for longer than `busy-reply-threshold`.
    pub fn is_slow(&self) -> bool {
        self.watched.is_slow.load(Relaxed)
    }

    /// Answers clients that wait while it is slow or, if it waits itself, another one is. Returns
    /// the error that ends it, if there is one.
    pub fn beat(&self, (wrote, waits): (bool, bool)) -> Option<&'static str> {
        let now = self.clock.now();
        let nanos = self.clock.nanos(self.started, now);
        let (scripts, watched) = (&self.shared.scripts, &self.watched);
        let (running, slow_ms) = (&scripts.running, scripts.slow_ms.load(Relaxed));
        if slow_ms > 0 && nanos / 1_000_000 >= slow_ms && !watched.is_slow.swap(true, Relaxed) {
            self.list();
            running.slow.fetch_add(1, Relaxed);
        }
        let attends = self.is_slow() || waits && running.is_busy();
        if attends && self.clock.nanos(self.attended.get(), now) > ATTEND_NANOS {
            if let Some(attendant) = &self.attendant {
                attendant.attend();
            }
            self.attended.set(self.clock.now());
        }
        if !running.is_ending(watched) {
            return None;
        }
        if let Some(attendant) = self.attendant.as_ref().filter(|_| wrote) {
            attendant.abandon(&watched.name);
        }
        Some(SHUTTING_DOWN)
    }

    /// The error that ends it, if it was killed by a client.
    pub fn killed(&self) -> Option<&'static str> {
        self.watched.killed_by(self.shared.dialect())
    }

    /// Whether its client has closed its connection, or was killed.
    pub fn has_lost_client(&self) -> bool {
        self.attendant.as_ref().is_some_and(|attendant| attendant.has_lost_client())
    }
}

impl Drop for SlowRun {
    fn drop(&mut self) {
        self.shared.scripts.running.end(&self.watched);
    }
}
