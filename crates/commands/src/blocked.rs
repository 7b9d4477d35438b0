//! Clients that wait for keys, as data: what they wait for.

use crate::acl::User;
use crate::answer::{Ticket, WriteReply};
use crate::clock::Tick;
use crate::session::Access;
use crate::spec::Command;
use crate::tracking::mode::Tracking;
use petrel_keyspace::{Awaited, KeyHash, ReadyKey};
use petrel_resp::Protocol;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Relaxed};

/// A command that waits. Held by the queue of each key that it waits for, and by its host.
pub struct Blocked {
    pub(crate) command: Command,
    pub(crate) keys: Range<usize>,
    pub(crate) awaited: Awaited,
    /// Hashes of all keys of the command. Its fate is decided with the stripes of all of them
    /// held.
    pub(crate) hashes: Box<[KeyHash]>,
    pub(crate) db: u16,
    pub(crate) protocol: Protocol,
    pub(crate) no_touch: bool,
    /// What remembers its reads.
    pub(crate) tracking: Option<Box<Tracking>>,
    /// Whose permissions hold when it is executed again.
    pub(crate) access: Access,
    pub(crate) user: Option<Arc<User>>,
    pub(crate) arrival: u64,
    /// Nanoseconds that its first execution took.
    pub(crate) nanos: u64,
    pub(crate) args: Box<[u8]>,
    /// Where each argument ends.
    pub(crate) ends: Box<[usize]>,
    pub(crate) deadline: Option<i64>,
    pub(crate) polls: bool,
    pub(crate) tries_late: bool,
    /// Answers when the time is up.
    pub(crate) late: WriteReply,
    pub(crate) ticket: Ticket,
    /// Whether a helper executes it; then it waits for no key.
    pub(crate) is_moved: bool,
    /// Whether its client wants no replies.
    pub(crate) is_unwanted: bool,
    /// Answered, or given up. Changed with all of its stripes held.
    pub(crate) over: AtomicBool,
}

/// Bytes that a queue takes for its first waiter, in the table of the key's stripe.
const QUEUE_BYTES: usize = 512;

impl Blocked {
    /// The blocked client.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The command.
    pub fn command(&self) -> Command {
        self.command
    }

    /// Turns it into a command that a helper executes. Its fate depends on no stripe.
    pub(crate) fn moved(blocked: Blocked) -> Self {
        Blocked { is_moved: true, hashes: Box::default(), ..blocked }
    }

    /// Whether a helper executes it, and it waits for nothing else.
    pub fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// When the wait ends, in Unix milliseconds.
    pub fn deadline(&self) -> Option<i64> {
        self.deadline
    }

    /// Whether it is to be [tried again](crate::Executor::try_again) every tenth of a second.
    pub fn polls(&self) -> bool {
        self.polls
    }

    /// Bytes that it takes, with its places in the queues of its keys.
    pub fn footprint(&self) -> usize {
        // The names are in the tables of their stripes, too.
        size_of::<Self>()
            + 2 * self.args.len()
            + size_of_val(&self.ends[..])
            + self.hashes.len() * (size_of::<KeyHash>() + QUEUE_BYTES)
    }

    /// The arguments, the name included.
    pub(crate) fn args(&self) -> Vec<&[u8]> {
        (0..self.ends.len()).map(|i| self.arg(i)).collect()
    }

    pub(crate) fn arg(&self, i: usize) -> &[u8] {
        let begin = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.args[begin..self.ends[i]]
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Ends the wait; false if it had ended before. Who waits for no key holds no stripe that would
    /// say so.
    pub(crate) fn end(&self) -> bool {
        !self.over.swap(true, AcqRel)
    }
}

/// Whether a client that waits can be served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It can.
    Here,
    /// It is gone, and nothing is to be taken in its name.
    Gone,
}

/// What unblocking needs to remember from command to command.
#[derive(Default)]
pub(crate) struct Unblocking {
    /// A waiter's command is being executed.
    pub active: bool,
    /// And it is the last time: its time is up.
    pub last: bool,
    /// The command in hand has not been answered: its client waits.
    pub is_waiting: bool,
    /// Keys with waiters that could not be served for the time being.
    pub postponed: Vec<ReadyKey>,
}

impl Unblocking {
    /// Whether the command in hand waits; asked once.
    #[inline]
    pub fn waits(&mut self) -> bool {
        std::mem::take(&mut self.is_waiting)
    }
}

/// State of a helper thread that executes a blocked client's command.
pub(crate) struct Helping {
    pub blocked: Arc<Blocked>,
    /// Executions that were given up for an exclusive lock of the keyspace.
    pub restarts: u32,
    /// The time of the last exit from the keyspace.
    pub out_at: Tick,
    /// Locked stripes, as published in `Shared::long`.
    pub stripes: Vec<u32>,
    /// Whether the command was ended.
    pub is_ended: bool,
}
