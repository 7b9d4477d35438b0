//! The epoll back-end: edge-triggered, one `recv` and one `send` per connection and turn.
//!
//! Connections are registered once, for readable edges. An edge puts the connection on the `ready`
//! list; it is read when the list is worked off, and stays on the list if it may hold more (its
//! quota was used, or the arena). Only a connection with output that its peer does not take is
//! registered for writable edges too, since every read of a Unix-socket peer is one.

mod receive;
mod transmit;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use crate::event::{Chunk, Close, Event, ListenerId, Slot, Why};
use crate::listeners::Listeners;
use crate::outbox::{Outbox, Pools};
use crate::output::Output;
use crate::region::Region;
use crate::slab::Slab;
use crate::sys;
use crate::waker::{Sleep, Waker};
use crate::{Driver, Options};

/// Bytes read from all connections per turn; only the used part becomes resident.
const ARENA_BYTES: usize = 2 * 1024 * 1024;
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 512;

/// Kinds of a tag's lower bits, stored in its upper eight bits.
const TAG_CONNECTION: u64 = 0;
const TAG_LISTENER: u64 = 1;
const TAG_WAKER: u64 = 2;

const READABLE: libc::c_int = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
const GONE: libc::c_int = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;

/// The epoll driver. Works on every Linux; see [`Driver`].
pub struct Epoll {
    epoll: Arc<OwnedFd>,
    sleep: Sleep,
    connections: Slab<Connection>,
    listeners: Listeners,
    /// Connections to read in this turn, and those put off to the next.
    ready: Vec<Slot>,
    later: Vec<Slot>,
    /// Connections with output to write in the next flush.
    dirty: Vec<Slot>,
    pools: Pools,
    arena: Region,
    arena_used: usize,
    raw: Vec<libc::epoll_event>,
}

#[derive(Default)]
struct Connection {
    /// `None` only in free slots.
    socket: Option<OwnedFd>,
    /// On the `ready` list.
    queued: bool,
    paused: bool,
    /// The peer has ended its side or failed; no more edges will come, so read to the end.
    gone: bool,
    /// `HungUp` was reported for this pause.
    hung: bool,
    /// The peer does not take more: registered for writable edges.
    parked: bool,
    /// Some of the output had to wait for a later turn.
    late: bool,
    /// On the `dirty` list.
    dirty: bool,
    /// See [`Driver::expect_output`].
    expecting: bool,
    /// No more reading; closes when the output is through.
    closing: Option<Ending>,
    outbox: Option<Box<Outbox>>,
    fill: Option<Box<Fill>>,
}

/// An idle connection takes less than a cache line.
const _: () = assert!(Slab::<Connection>::ENTRY_BYTES <= 48);

impl Connection {
    /// Whether output may still be queued.
    fn takes_output(&self) -> bool {
        match self.closing {
            None => true,
            Some(ending) => ending == Ending::Eof && self.expecting,
        }
    }
}

/// Reasons to close a connection after its output.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Ending {
    Eof,
    Flush,
}

/// A `read_into` or `expect_input` under way.
struct Fill {
    buffer: Vec<u8>,
    missing: usize,
    /// Nothing was asked for: whatever comes first is reported, and the buffer made then.
    expected: bool,
}

impl Driver for Epoll {
    fn new(_options: &Options) -> io::Result<Epoll> {
        let epoll = Arc::new(sys::epoll_create()?);
        let sleep = Sleep::new()?;
        let interest = libc::EPOLLIN | libc::EPOLLET;
        let tag = TAG_WAKER << 56;
        sys::epoll_ctl(&epoll, libc::EPOLL_CTL_ADD, sleep.as_raw_fd(), interest, tag)?;
        Ok(Epoll {
            listeners: Listeners::new(epoll.clone(), TAG_LISTENER << 56),
            epoll,
            sleep,
            connections: Slab::new(),
            ready: Vec::new(),
            later: Vec::new(),
            dirty: Vec::new(),
            pools: Pools::default(),
            arena: Region::new(ARENA_BYTES)?,
            arena_used: 0,
            raw: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
        })
    }

    fn name(&self) -> &'static str {
        "epoll"
    }

    fn listen(&mut self, listener: Arc<OwnedFd>, id: ListenerId) -> io::Result<()> {
        self.listeners.add(id, listener)
    }

    fn pause_accept(&mut self, id: ListenerId) {
        self.listeners.set_paused(id, true);
    }

    fn resume_accept(&mut self, id: ListenerId) {
        self.listeners.set_paused(id, false);
    }

    fn unlisten(&mut self, id: ListenerId) {
        self.listeners.remove(id);
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        let fd = socket.as_raw_fd();
        let connection = Connection { socket: Some(socket), ..Connection::default() };
        let slot = self
            .connections
            .insert(connection, u32::MAX)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENFILE))?;
        let added = sys::epoll_ctl(&self.epoll, libc::EPOLL_CTL_ADD, fd, READABLE, slot.to_bits());
        if let Err(e) = added {
            self.connections.remove(slot);
            return Err(e);
        }
        Ok(slot)
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        self.arena_used = 0;
        self.flush(events);
        let timeout = self.listeners.end_rests(timeout);
        let pending = !(self.ready.is_empty() && self.dirty.is_empty() && events.is_empty());
        let count = self.wait(timeout, pending)?;
        for i in 0..count {
            let (tag, what) = (self.raw[i].u64, self.raw[i].events as libc::c_int);
            match tag >> 56 {
                TAG_CONNECTION => self.on_edge(Slot::from_bits(tag), what, events),
                TAG_LISTENER => self.listeners.accept(tag, events),
                _ => {}
            }
        }
        self.read_ready(events);
        if self.sleep.woke() {
            events.push(Event::Woken);
        }
        Ok(())
    }

    #[inline]
    fn data(&self, chunk: Chunk) -> &[u8] {
        self.arena.slice(chunk.start as usize, chunk.len())
    }

    #[inline]
    fn output(&mut self) -> Output {
        self.pools.outputs.take()
    }

    #[inline]
    fn recycle(&mut self, output: Output) {
        self.pools.outputs.give(output);
    }

    fn send(&mut self, slot: Slot, output: Output) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return self.pools.outputs.give(output);
        };
        if output.is_empty() || !connection.takes_output() {
            return self.pools.outputs.give(output);
        }
        let outbox = connection.outbox.get_or_insert_with(|| self.pools.take_outbox());
        outbox.push(output);
        if !connection.parked && !connection.dirty {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    fn unsent(&self, slot: Slot) -> usize {
        let outbox = self.connections.get(slot).and_then(|c| c.outbox.as_ref());
        outbox.map_or(0, |outbox| outbox.unsent())
    }

    fn read_into(&mut self, slot: Slot, mut buffer: Vec<u8>, count: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.fill.take_if(|fill| fill.expected);
        if connection.fill.is_none() && connection.closing.is_none() {
            buffer.reserve_exact(count);
            connection.fill = Some(Box::new(Fill { buffer, missing: count, expected: false }));
            self.queue(slot);
        }
    }

    fn expect_input(&mut self, slot: Slot, bytes: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.fill.is_none() && connection.closing.is_none() && bytes > 0 {
            let fill = Fill { buffer: Vec::new(), missing: bytes, expected: true };
            connection.fill = Some(Box::new(fill));
        }
    }

    fn pause_reading(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.paused = true;
            self.queue(slot);
        }
    }

    fn resume_reading(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.paused = false;
            connection.hung = false;
            self.queue(slot);
        }
    }

    fn close(&mut self, slot: Slot, how: Close) {
        match (how, self.connections.get_mut(slot)) {
            (Close::Now, _) => self.release(slot),
            (Close::AfterFlush, Some(connection)) if connection.closing.is_none() => {
                self.end(slot, Ending::Flush);
            }
            _ => {}
        }
    }

    fn expect_output(&mut self, slot: Slot, expected: bool) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.expecting = expected;
            if !expected && connection.closing.is_some() && !connection.parked {
                self.write_again(slot);
            }
        }
    }

    fn connections(&self) -> usize {
        self.connections.len()
    }

    fn waker(&self) -> Waker {
        self.sleep.waker()
    }
}

impl Epoll {
    fn wait(&mut self, timeout: Option<Duration>, pending: bool) -> io::Result<usize> {
        let blocks = !pending && timeout != Some(Duration::ZERO);
        self.wait_ms(match timeout {
            _ if !blocks || !self.sleep.fall_asleep() => 0,
            None => -1,
            // Rounded up, so that a deadline has passed when the wait for it ends.
            Some(timeout) => i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX),
        })
    }

    fn wait_ms(&mut self, timeout: i32) -> io::Result<usize> {
        match sys::epoll_wait(&self.epoll, &mut self.raw, timeout) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            result => result,
        }
    }

    fn on_edge(&mut self, slot: Slot, what: libc::c_int, events: &mut Vec<Event>) {
        const WRITABLE: libc::c_int = libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.parked && what & WRITABLE != 0 {
            self.write(slot, events);
        }
        if let Some(connection) = self.connections.get_mut(slot)
            && what & (libc::EPOLLIN | GONE) != 0
        {
            connection.gone |= what & GONE != 0;
            self.queue(slot);
        }
    }

    /// Puts a connection on the ready list if there is something to do for it: bytes to read, or
    /// the end of a paused peer to report.
    #[inline]
    fn queue(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.queued
            && (!connection.paused || connection.gone)
            && connection.closing.is_none()
        {
            connection.queued = true;
            self.ready.push(slot);
        }
    }

    /// No more reading; the next flush, or the one that empties the outbox, closes.
    fn end(&mut self, slot: Slot, ending: Ending) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.closing = Some(ending);
            connection.fill = None;
            if !connection.parked {
                self.write_again(slot);
            }
        }
    }

    fn fail(&mut self, slot: Slot, error: io::Error, events: &mut Vec<Event>) {
        self.release(slot);
        events.push(Event::Closed { slot, why: Why::Error(error) });
    }

    /// Frees the slot and closes its socket, which also ends the kernel's interest in it.
    fn release(&mut self, slot: Slot) {
        if let Some(outbox) = self.connections.remove(slot).and_then(|c| c.outbox) {
            self.pools.give_outbox(outbox);
        }
    }

    #[inline]
    fn fd(&self, slot: Slot) -> Option<RawFd> {
        self.connections.get(slot)?.socket.as_ref().map(AsRawFd::as_raw_fd)
    }
}
