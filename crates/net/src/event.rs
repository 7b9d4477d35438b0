//! The words that a driver and its worker exchange.

use std::io;
use std::os::fd::OwnedFd;

/// A connection of one driver: a dense index and the generation that tells it from earlier
/// connections at the same index.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Slot {
    index: u32,
    generation: u32,
}

impl Slot {
    /// Generations fit 24 bits, so that a slot and an operation share one 64-bit kernel tag.
    pub(crate) const GENERATION_MASK: u32 = (1 << 24) - 1;

    /// A slot that no connection ever has.
    pub const NOWHERE: Slot = Slot { index: u32::MAX, generation: Self::GENERATION_MASK };

    pub(crate) fn new(index: u32, generation: u32) -> Slot {
        Slot { index, generation }
    }

    /// The index, dense from zero and reused after the connection closed: the place of the
    /// connection's state in the caller's own table.
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }

    #[inline]
    pub(crate) fn index_u32(self) -> u32 {
        self.index
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        self.generation
    }

    /// The slot in the low 56 bits of a kernel tag.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }

    /// The inverse of [`Slot::to_bits`]; the upper eight bits are the caller's.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Slot {
        Slot { index: bits as u32, generation: (bits >> 32) as u32 & Self::GENERATION_MASK }
    }
}

/// The caller's name for a listener.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ListenerId(pub u32);

/// The place of received bytes in the driver's memory; [`crate::Driver::data`] gives the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chunk {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Chunk {
    /// The number of bytes, never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// A place in the memory of a driver that is built around another one. The inner driver's
    /// chunks start below [`Chunk::OUTER`].
    pub fn at(start: u32, len: u32) -> Chunk {
        Chunk { start: start | Self::OUTER, len }
    }

    /// The inverse of [`Chunk::at`]; `None` for a chunk of the inner driver.
    #[inline]
    pub fn outer_start(self) -> Option<usize> {
        (self.start >= Self::OUTER).then_some((self.start & !Self::OUTER) as usize)
    }

    /// From here on chunks lie in the memory of an outer driver: no back-end has 2 GiB of buffers.
    const OUTER: u32 = 1 << 31;
}

/// An event since the last poll.
#[derive(Debug)]
pub enum Event {
    /// A listener accepted `socket`: [`crate::Driver::adopt`] it here or hand it to another worker.
    Accepted {
        /// The listener that accepted it.
        listener: ListenerId,
        /// The connection; dropping it closes it.
        socket: OwnedFd,
    },
    /// Accepting failed (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`, ...). The driver tries again
    /// by itself after 100 ms.
    AcceptFailed {
        /// The listener concerned.
        listener: ListenerId,
        /// Error from the kernel.
        error: io::Error,
    },
    /// Bytes arrived.
    Received {
        /// The connection.
        slot: Slot,
        /// Position of the bytes, valid until the next poll.
        chunk: Chunk,
    },
    /// A [`crate::Driver::read_into`] is complete, or bytes came after a
    /// [`crate::Driver::expect_input`].
    Filled {
        /// The connection.
        slot: Slot,
        /// The caller's buffer with the bytes appended.
        buffer: Vec<u8>,
    },
    /// The connection is gone; the slot is stale from here on. Not reported for
    /// [`Close::Now`].
    Closed {
        /// The connection that was.
        slot: Slot,
        /// The reason.
        why: Why,
    },
    /// The peer of a connection with paused reading has closed or reset it. Unread bytes may
    /// remain: resume reading to get them and then `Closed`, or close it.
    HungUp {
        /// The connection.
        slot: Slot,
    },
    /// All output has been taken after some of it had to wait for a later turn.
    Drained {
        /// The connection.
        slot: Slot,
    },
    /// A [`crate::Waker`] was used since the last poll.
    Woken,
}

/// Reason why a connection closed.
#[derive(Debug)]
pub enum Why {
    /// The peer ended its side, and all output queued before was written.
    Eof,
    /// [`Close::AfterFlush`] has been carried out.
    Flushed,
    /// The connection failed (reset, time-out, peer gone while output was pending).
    Error(io::Error),
}

/// Ways to close a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Close {
    /// At once: queued output is dropped, the slot is stale on return, no event follows.
    Now,
    /// Stop reading, write the queued output, then close and report [`Event::Closed`]. Until then
    /// the slot stays valid, so that [`crate::Driver::unsent`] and `Now` still bound a peer that
    /// does not read.
    AfterFlush,
}
