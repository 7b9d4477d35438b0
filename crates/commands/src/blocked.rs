//! Blocked commands as data, and the keys that they wait for.

use crate::acl::{Access, User};
use crate::answer::{Ticket, WriteReply};
use crate::clock::Tick;
use crate::modes::Modes;
use crate::tracking::mode::Tracking;
use petrel_keyspace::{Awaited, KeyHash, ReadyKey};
use petrel_resp::Protocol;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Relaxed};

/// A blocked command. The queue of each of its keys and the host refer to it.
pub struct Blocked {
    /// Number of the command in the registry.
    pub(crate) command: u16,
    pub(crate) keys: Range<usize>,
    pub(crate) awaited: Awaited,
    /// Hashes of all keys of the command. All their stripes are locked whenever the wait ends.
    pub(crate) hashes: Box<[KeyHash]>,
    pub(crate) db: u16,
    pub(crate) protocol: Protocol,
    /// Modes of its connection that the command depends on.
    pub(crate) modes: Modes,
    /// Tracking of the keys that it reads.
    pub(crate) tracking: Option<Box<Tracking>>,
    /// Access and user to check when it is executed again.
    pub(crate) access: Access,
    pub(crate) user: Option<Arc<User>>,
    pub(crate) arrival: u64,
    /// Nanoseconds that its first execution took.
    pub(crate) nanos: u64,
    pub(crate) args: Box<[u8]>,
    /// End offset of each argument in `args`.
    pub(crate) ends: Box<[usize]>,
    pub(crate) deadline: Option<i64>,
    pub(crate) polls: bool,
    pub(crate) tries_late: bool,
    /// Writes the reply after a timeout.
    pub(crate) late: WriteReply,
    pub(crate) ticket: Ticket,
    /// Whether a helper thread executes it; it waits for no key then.
    pub(crate) is_moved: bool,
    /// Whether the client has switched replies off.
    pub(crate) is_unwanted: bool,
    /// Whether it was answered or its wait was ended. Changed with all of its stripes locked.
    pub(crate) over: AtomicBool,
}

/// Size of a queue with one client in the table of the key's stripe, in bytes.
const QUEUE_BYTES: usize = 512;

impl Blocked {
    /// The blocked client.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Converts it to a command that a helper thread executes. It needs no stripe to end.
    pub(crate) fn moved(blocked: Blocked) -> Self {
        Blocked { is_moved: true, hashes: Box::default(), ..blocked }
    }

    /// Whether a helper thread executes it, and it waits for no key.
    pub fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// End of the wait, in Unix milliseconds.
    pub fn deadline(&self) -> Option<i64> {
        self.deadline
    }

    /// Whether it is [tried again](crate::Executor::try_again) every tenth of a second.
    pub fn polls(&self) -> bool {
        self.polls
    }

    /// Memory use in bytes, including the queues of its keys.
    pub fn footprint(&self) -> usize {
        // The tables of the stripes contain the key names, too.
        size_of::<Self>()
            + 2 * self.args.len()
            + size_of_val(&self.ends[..])
            + self.hashes.len() * (size_of::<KeyHash>() + QUEUE_BYTES)
    }

    /// The arguments, including the command's name.
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

    /// Ends the wait; false if it has ended before. Atomic because a command that waits for no key
    /// has no stripe lock to guard the flag.
    pub(crate) fn end(&self) -> bool {
        !self.over.swap(true, AcqRel)
    }
}

/// Whether a blocked client can be served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// Connected.
    Here,
    /// Disconnected. Its command must not take anything.
    Gone,
}

/// State of unblocking that outlasts one command.
#[derive(Default)]
pub(crate) struct Unblocking {
    /// A blocked client's command is being executed.
    pub active: bool,
    /// Last execution of that command, after the timeout.
    pub last: bool,
    /// The current command blocked its client, so it has no reply yet.
    pub is_waiting: bool,
    /// Keys with blocked clients that could not be served yet.
    pub postponed: Vec<ReadyKey>,
}

impl Unblocking {
    /// Whether the current command blocked its client; resets the flag.
    #[inline]
    pub fn waits(&mut self) -> bool {
        std::mem::take(&mut self.is_waiting)
    }
}

/// State of a helper thread that executes a blocked client's command.
pub(crate) struct Helping {
    pub blocked: Arc<Blocked>,
    /// Number of executions aborted for an exclusive lock of the keyspace.
    pub restarts: u32,
    /// Time of the last exit from the keyspace.
    pub out_at: Tick,
    /// Locked stripes, as published in `Shared::long`.
    pub stripes: Vec<u32>,
    /// Whether the command was ended.
    pub is_ended: bool,
}
