//! State of a connection in the io_uring driver.

use std::os::fd::OwnedFd;

use crate::event::Why;
use crate::outbox::Outbox;
use crate::slab::Slab;

/// With this many receives put off, a connection is not received from until they are reported:
/// the buffers are shared.
pub(super) const DEFERRED_MAX: u16 = 4;

/// Kept small: a node holds tens of thousands of these. Boxes exist only while they are needed.
#[derive(Default)]
pub(super) struct Connection {
    /// `None` for direct descriptors: their index in the file table is the slot's index.
    pub(super) socket: Option<OwnedFd>,
    /// The turn in which this connection last had an event with bytes, and that event's place.
    pub(super) turn: u32,
    pub(super) event: u32,
    /// Receives that wait in the driver's `deferred` list.
    pub(super) deferred: u16,
    pub(super) receive: Receive,
    pub(super) transmit: Transmit,
    pub(super) closing: Closing,
    /// The receive operation is being cancelled.
    pub(super) cancelling: bool,
    /// On the driver's `unsettled` list.
    pub(super) unsettled: bool,
    pub(super) paused: bool,
    /// The peer is known to have gone while reading was paused.
    pub(super) hung: bool,
    /// Output had to wait for a later turn; `Drained` is owed.
    pub(super) parked: bool,
    /// See [`crate::Driver::expect_output`].
    pub(super) expecting: bool,
    /// The receiving side has ended: 0 for end of file, else an errno.
    pub(super) ended: Option<i32>,
    pub(super) outbox: Option<Box<Outbox>>,
    pub(super) fill: Option<Box<Fill>>,
    /// Bytes that were received before a pause took effect. Boxed, since it hardly ever exists.
    #[allow(clippy::box_collection)]
    pub(super) held: Option<Box<Vec<u8>>>,
}

/// An idle connection takes one cache line.
const _: () = assert!(Slab::<Connection>::ENTRY_BYTES <= 64);

/// The receive operation in the kernel; at most one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Receive {
    #[default]
    Idle,
    /// Multishot into the shared buffers.
    Shared,
    /// Once, into the caller's buffer.
    Fill,
    /// Only watching for bytes, which are then received into an allocation of their own.
    Expect,
    /// Only watching for the peer to go.
    Watch,
}

/// Location of the output.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Transmit {
    #[default]
    Idle,
    /// On the driver's `dirty` list.
    Dirty,
    /// Submitted so that it completes within the submission, silently if all of it was taken.
    Tried,
    /// In the kernel until the peer takes some.
    Waiting,
}

/// Progress of closing a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Closing {
    #[default]
    Open,
    /// Closes when the output is through, because the peer ended its side.
    Eof,
    /// Closes when the output is through, because the worker asked for it.
    Flush,
    /// The slot is stale for the worker; it is freed when the kernel has given everything back.
    Dead,
}

impl Closing {
    pub(super) fn why(self) -> Option<Why> {
        match self {
            Closing::Eof => Some(Why::Eof),
            Closing::Flush => Some(Why::Flushed),
            Closing::Open | Closing::Dead => None,
        }
    }
}

/// A `read_into` or `expect_input` under way.
pub(super) struct Fill {
    pub(super) buffer: Vec<u8>,
    pub(super) missing: usize,
    /// Nothing is there yet, nor was anything asked for: the buffer is made when bytes come.
    pub(super) expected: bool,
}

impl Fill {
    /// Takes the missing bytes from `bytes`; returns their number.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.missing);
        self.buffer.extend_from_slice(&bytes[..count]);
        self.missing -= count;
        count
    }
}

impl Connection {
    /// The receive operation that the connection should have.
    #[inline]
    pub(super) fn wanted(&self) -> Receive {
        let greedy = self.deferred >= DEFERRED_MAX;
        if self.closing != Closing::Open || self.ended.is_some() || greedy {
            Receive::Idle
        } else if self.paused {
            if self.hung { Receive::Idle } else { Receive::Watch }
        } else {
            match &self.fill {
                Some(fill) if fill.expected => Receive::Expect,
                Some(_) => Receive::Fill,
                None => Receive::Shared,
            }
        }
    }

    /// Bytes come by another way than expected.
    #[inline]
    pub(super) fn forget_expected(&mut self) {
        self.fill.take_if(|fill| fill.expected);
    }

    /// Whether output may still be queued.
    #[inline]
    pub(super) fn takes_output(&self) -> bool {
        self.closing == Closing::Open || self.closing == Closing::Eof && self.expecting
    }

    /// Whether bytes that came earlier are still to be reported.
    #[inline]
    pub(super) fn has_backlog(&self) -> bool {
        self.deferred > 0 || self.held.is_some()
    }
}
