//! Service to others while a script runs or waits: it is shown among the running scripts, its
//! worker's clients are answered, and it ends on request.

use super::running::{ProgramKind, SHUTTING_DOWN, Watched};
use crate::clock::{Clock, Tick};
use crate::host::Host;
use crate::server::stats::Shared;
use petrel_resp::Dialect;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Interval at which a slow script lets its worker answer other clients.
const ATTEND_NANOS: u64 = 500_000;

/// Time that a script waits for the keyspace before it does anything for others.
const PATIENCE_NANOS: u64 = 5_000_000;

/// Reasons for halting a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Halt {
    /// The script is run again, with the script token. It has done nothing yet.
    BeginsAnew,
    /// Another script is slow, and this one has done nothing yet.
    Busy,
    /// The script ends with this error.
    Ended(&'static str),
}

impl Halt {
    /// The error that its calls end with.
    pub fn text(self) -> &'static str {
        match self {
            Halt::BeginsAnew => "ERR the script begins anew",
            Halt::Busy => "BUSY another script runs",
            Halt::Ended(text) => text,
        }
    }
}

/// A running script, as shown to other threads.
pub(super) struct Pulse<'a> {
    pub kind: ProgramKind,
    pub name: &'a dyn Fn() -> String,
    pub command: &'a [&'a [u8]],
    pub clock: Clock,
    pub started: Tick,
    /// The time of the last answers to other clients.
    pub attended: Tick,
    /// Entry among the running scripts, once it has run for a while.
    pub watched: Option<Arc<Watched>>,
}

impl Pulse<'_> {
    /// Whether it runs for longer than `busy-reply-threshold`.
    pub fn is_slow(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.is_slow.load(Relaxed))
    }

    /// Lets others know whether it has written, and so is not to be killed.
    #[inline]
    pub fn set_wrote(&self, wrote: bool) {
        if let Some(watched) = &self.watched {
            watched.wrote.store(wrote, Relaxed);
        }
    }

    /// Shows the script to others, and answers clients that wait while it is slow or, if it waits
    /// itself, another one is. Returns the error that ends it, if there is one.
    pub fn beat(
        &mut self,
        shared: &Shared,
        (wrote, waits): (bool, bool),
        host: &mut dyn Host,
    ) -> Option<&'static str> {
        let now = self.clock.now();
        let nanos = self.clock.nanos(self.started, now);
        let running = &shared.scripts.running;
        let watched = self.watched.get_or_insert_with(|| {
            running.begin(Watched {
                kind: self.kind,
                name: (self.name)(),
                command: self.command.iter().map(|&arg| arg.into()).collect(),
                since: Instant::now(),
                wrote: AtomicBool::new(wrote),
                killed: AtomicBool::new(false),
                is_slow: AtomicBool::new(false),
            })
        });
        let slow_ms = shared.scripts.slow_ms.load(Relaxed);
        if slow_ms > 0 && nanos / 1_000_000 >= slow_ms && !watched.is_slow.swap(true, Relaxed) {
            running.slow.fetch_add(1, Relaxed);
        }
        let attends = watched.is_slow.load(Relaxed) || waits && running.is_busy();
        if attends && self.clock.nanos(self.attended, now) > ATTEND_NANOS {
            host.attend();
            self.attended = self.clock.now();
        }
        if !running.is_ending(watched) {
            return None;
        }
        if wrote {
            host.abandon(&watched.name);
        }
        Some(SHUTTING_DOWN)
    }

    /// The error that ends a killed script.
    pub fn killed(&self, dialect: Dialect) -> Option<&'static str> {
        self.watched.as_ref().and_then(|watched| watched.killed_by(dialect))
    }

    /// Called now and then while the script waits for the whole keyspace; returns the reason to
    /// stop waiting, if there is one. A script that has written waits in any case, until the server
    /// ends.
    pub fn wait(
        &mut self,
        shared: &Shared,
        (since, wrote): (Tick, bool),
        host: &mut dyn Host,
    ) -> Option<Halt> {
        // This script itself may be the slow one.
        if !wrote && shared.scripts.running.is_busy_beside(self.is_slow()) {
            return Some(Halt::Busy);
        }
        if self.clock.nanos(since, self.clock.now()) < PATIENCE_NANOS {
            return None;
        }
        let ended = self.beat(shared, (wrote, true), host);
        ended.or_else(|| self.killed(shared.dialect())).map(Halt::Ended)
    }
}
