//! Deferred commands: their primary is changing, or there is no link to it. Nothing of them was
//! sent, so after a time they fail with an error on which clients retry. Also the clients of
//! forwarded commands.

use crate::client::Client;
use petrel_cluster::wire::WaitEnd;
use petrel_cluster::{Call, Slot};
use petrel_commands::{Fail, Rest};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time for which a command waits for its primary.
const PATIENCE: Duration = Duration::from_secs(1);

/// Commands that wait at most.
const DEFERRED_MAX: usize = 64 * 1024;

/// Bytes of arguments that wait at most.
const BYTES_MAX: usize = 64 << 20;

/// A command of a client.
pub(in crate::cluster) struct Forward {
    pub client: Arc<Client>,
    pub seq: u64,
    pub call: Call,
    /// Calls to forward after the execution, as parts of the same reply.
    pub rest: Option<Box<Rest>>,
}

/// Routability of a command at this time.
pub(in crate::cluster) enum Routability {
    /// The command can be sent.
    Open,
    /// The command cannot be sent.
    Closed(Fail),
}

/// The client of a forwarded command.
pub(in crate::cluster) struct Waiting {
    pub client: Arc<Client>,
    /// The number of its reply slot.
    pub seq: u64,
    /// Calls to forward after it.
    pub rest: Option<Box<Rest>>,
    /// The command waits for its keys at their primary, or has.
    pub is_parked: bool,
    /// Until when, if not for ever.
    pub until: Option<Instant>,
    /// Reason to end its wait.
    pub end: Option<WaitEnd>,
}

impl Waiting {
    /// Whether a command that waits for its keys has waited long enough, or is to end.
    pub fn is_over(&self, now: Instant) -> bool {
        self.is_parked && (self.end.is_some() || self.until.is_some_and(|until| now >= until))
    }

    pub fn new(client: Arc<Client>, seq: u64) -> Self {
        Waiting { client, seq, rest: None, is_parked: false, until: None, end: None }
    }
}

/// The commands that wait, in the order in which they came.
#[derive(Default)]
pub(in crate::cluster) struct Deferred {
    queue: VecDeque<(Instant, Forward)>,
    bytes: usize,
}

impl Deferred {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a command of one of these slots waits, which others of the slot must not overtake.
    pub fn holds(&self, slots: &[Slot]) -> bool {
        self.queue.iter().any(|(_, forward)| shares(&forward.call, slots))
    }

    /// Lets a command wait; gives it back if too many do.
    pub fn add(&mut self, now: Instant, forward: Forward) -> Result<(), Box<Forward>> {
        let bytes = forward.call.args_bytes();
        if self.queue.len() >= DEFERRED_MAX || self.bytes + bytes > BYTES_MAX {
            return Err(Box::new(forward));
        }
        self.bytes += bytes;
        self.queue.push_back((now, forward));
        Ok(())
    }

    /// Takes out commands that can be sent, and expired ones with their error.
    pub fn take(
        &mut self,
        now: Instant,
        mut routability: impl FnMut(&Call) -> Routability,
    ) -> Vec<(Forward, Option<Fail>)> {
        let (mut taken, mut kept, mut held) = (Vec::new(), VecDeque::new(), HashSet::new());
        for (since, forward) in std::mem::take(&mut self.queue) {
            let slots = &forward.call.slots;
            let is_behind = slots.iter().any(|slot| held.contains(slot));
            let fail = match routability(&forward.call) {
                Routability::Open if !is_behind => None,
                Routability::Open => Some(Fail::PRIMARY_CHANGING),
                Routability::Closed(fail) => Some(fail),
            };
            if fail.is_some() && now.duration_since(since) < PATIENCE {
                held.extend(slots.iter().copied());
                kept.push_back((since, forward));
                continue;
            }
            self.bytes -= forward.call.args_bytes();
            taken.push((forward, fail));
        }
        self.queue = kept;
        taken
    }

    /// All that wait.
    pub fn into_all(self) -> impl Iterator<Item = Forward> {
        self.queue.into_iter().map(|(_, forward)| forward)
    }
}

fn shares(call: &Call, slots: &[Slot]) -> bool {
    call.slots.iter().any(|slot| slots.contains(slot))
}
