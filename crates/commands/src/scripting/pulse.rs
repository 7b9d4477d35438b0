//! Service to others while a script runs or waits: it is shown among the running scripts, its
//! worker's clients are answered, and it ends on request.

use super::running::{ProgramKind, Watched};
use super::slow_run::SlowRun;
use crate::clock::{Clock, Tick};
use crate::host::Host;
use crate::server::stats::Shared;
use std::rc::Rc;
use std::sync::Arc;

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

/// A running script.
pub(super) struct Pulse<'a> {
    pub kind: ProgramKind,
    pub name: &'a dyn Fn() -> String,
    pub command: &'a [&'a [u8]],
    pub clock: Clock,
    pub started: Tick,
    /// What others see of it, once it has run for a while.
    pub slow: Option<Rc<SlowRun>>,
}

impl Pulse<'_> {
    /// Whether it runs for longer than `busy-reply-threshold`.
    pub fn is_slow(&self) -> bool {
        self.slow.as_ref().is_some_and(|slow| slow.is_slow())
    }

    /// Prepares the first command that may change something.
    ///
    /// # Errors
    /// If the script was killed before.
    #[inline]
    pub fn begin_to_write(&self) -> Result<(), Halt> {
        match &self.slow {
            Some(slow) if !slow.watched().begin_to_write() => {
                Err(Halt::Ended(slow.killed().unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// Lets it be killed though it has written, as its result is being written.
    #[inline]
    pub fn begin_result(&self) {
        if let Some(slow) = &self.slow {
            slow.watched().withdraw_write();
        }
    }

    /// Shows the script to others, if it is not shown yet.
    pub fn show(&mut self, shared: &Arc<Shared>, wrote: bool, host: &dyn Host) -> &Rc<SlowRun> {
        self.slow.get_or_insert_with(|| {
            let watched = Watched::new(self.kind, (self.name)(), self.command, wrote);
            let run = SlowRun::begin(shared, watched, (self.clock, self.started), host);
            run.list();
            Rc::new(run)
        })
    }

    /// Shows the script to others, and answers clients that wait while it is slow or, if it waits
    /// itself, another one is. Returns the error that ends it, if there is one.
    pub fn beat(
        &mut self,
        shared: &Arc<Shared>,
        (wrote, waits): (bool, bool),
        host: &dyn Host,
    ) -> Option<&'static str> {
        self.show(shared, wrote, host).beat((wrote, waits))
    }

    /// The error that ends a killed script.
    pub fn killed(&self) -> Option<&'static str> {
        self.slow.as_ref().and_then(|slow| slow.killed())
    }

    /// Whether the script's client has left.
    pub fn has_lost_client(&self) -> bool {
        self.slow.as_ref().is_some_and(|slow| slow.has_lost_client())
    }

    /// Called now and then while the script waits for the whole keyspace; returns the reason to
    /// stop waiting, if there is one. A script that has written waits in any case, until the server
    /// ends.
    pub fn wait(
        &mut self,
        shared: &Arc<Shared>,
        (since, wrote): (Tick, bool),
        host: &dyn Host,
    ) -> Option<Halt> {
        // This script itself may be the slow one.
        if !wrote && shared.scripts.running.is_busy_beside(self.is_slow()) {
            return Some(Halt::Busy);
        }
        if self.clock.nanos(since, self.clock.now()) < PATIENCE_NANOS {
            return None;
        }
        let ended = self.beat(shared, (wrote, true), host);
        ended.or_else(|| self.killed()).map(Halt::Ended)
    }
}
