//! The epoll back-end: edge-triggered, one `recv` and one `send` per connection and turn.
//!
//! Connections are registered once, for readable edges. An edge puts the connection on the
//! `ready` list; it is read when the list is worked off, and stays on the list if it may hold
//! more (its quota was used, or the arena). Only a connection whose peer does not take its output
//! is registered for writable edges too, since every read of a Unix-socket peer is one.

use std::io;
use std::mem::take;
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

/// Bytes read from one connection per turn.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Bytes received into a caller's buffer per connection and turn.
const FILL_BYTES_MAX: usize = 1024 * 1024;
/// Bytes read from all connections per turn; only what is used becomes resident.
const ARENA_BYTES: usize = 2 * 1024 * 1024;
/// Chunks start at multiples of this, a cache line.
const CHUNK_ALIGN: usize = 64;
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 512;
/// Connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;

/// What a tag's upper eight bits say about the lower ones.
const TAG_CONNECTION: u64 = 0;
const TAG_LISTENER: u64 = 1;
const TAG_WAKER: u64 = 2;

const READABLE: libc::c_int = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
const GONE: libc::c_int = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;

/// The epoll driver. Works on every Linux; see [`Driver`].
pub struct Epoll {
    epoll: OwnedFd,
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
    /// On the `dirty` list.
    dirty: bool,
    /// No more reading; closes when the output is through.
    closing: Option<Ending>,
    outbox: Option<Box<Outbox>>,
    fill: Option<Box<Fill>>,
}

/// An idle connection takes less than a cache line.
const _: () = assert!(Slab::<Connection>::ENTRY_BYTES <= 48);

/// Why a connection closes after its output.
#[derive(Clone, Copy)]
enum Ending {
    Eof,
    Flush,
}

/// A `read_into` under way.
struct Fill {
    buffer: Vec<u8>,
    missing: usize,
}

impl Driver for Epoll {
    fn new(_options: &Options) -> io::Result<Epoll> {
        let epoll = sys::epoll_create()?;
        let sleep = Sleep::new()?;
        let interest = libc::EPOLLIN | libc::EPOLLET;
        let tag = TAG_WAKER << 56;
        sys::epoll_ctl(&epoll, libc::EPOLL_CTL_ADD, sleep.as_raw_fd(), interest, tag)?;
        Ok(Epoll {
            epoll,
            sleep,
            connections: Slab::new(),
            listeners: Listeners::default(),
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
        let index = self.listeners.add(id, listener);
        self.arm(index).inspect_err(|_| drop(self.listeners.remove(index)))
    }

    fn pause_accept(&mut self, id: ListenerId) {
        for index in self.listeners.named(id) {
            self.listeners.set_paused(index, true);
            self.disarm(index);
        }
    }

    fn resume_accept(&mut self, id: ListenerId) {
        for index in self.listeners.named(id) {
            self.listeners.set_paused(index, false);
            self.arm_or_back_off(index);
        }
    }

    fn unlisten(&mut self, id: ListenerId) {
        for index in self.listeners.named(id) {
            self.disarm(index);
            self.listeners.remove(index);
        }
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
        let timeout = self.resume_rested(timeout);
        let pending = !(self.ready.is_empty() && self.dirty.is_empty() && events.is_empty());
        let count = self.wait(timeout, pending)?;
        for i in 0..count {
            let (tag, what) = (self.raw[i].u64, self.raw[i].events as libc::c_int);
            match tag >> 56 {
                TAG_CONNECTION => self.on_edge(Slot::from_bits(tag), what, events),
                TAG_LISTENER => self.accept(tag as u32, events),
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
        if output.is_empty() || connection.closing.is_some() {
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
        if connection.fill.is_none() && connection.closing.is_none() {
            buffer.reserve_exact(count);
            connection.fill = Some(Box::new(Fill { buffer, missing: count }));
            self.queue(slot);
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

    fn connections(&self) -> usize {
        self.connections.len()
    }

    fn waker(&self) -> Waker {
        self.sleep.waker()
    }
}

impl Epoll {
    fn wait(&mut self, timeout: Option<Duration>, pending: bool) -> io::Result<usize> {
        let blocking = !pending && timeout != Some(Duration::ZERO) && self.sleep.fall_asleep();
        let timeout_ms = match timeout {
            _ if !blocking => 0,
            None => -1,
            // Rounded up, so that a deadline has passed when the wait for it ends.
            Some(timeout) => i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX),
        };
        match sys::epoll_wait(&self.epoll, &mut self.raw, timeout_ms) {
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

    fn read_ready(&mut self, events: &mut Vec<Event>) {
        let mut ready = take(&mut self.ready);
        for slot in ready.drain(..) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.queued = false;
            if connection.closing.is_some() {
                continue;
            }
            if connection.paused {
                if connection.gone && !connection.hung {
                    connection.hung = true;
                    events.push(Event::HungUp { slot });
                }
            } else if connection.fill.is_some() {
                self.fill(slot, events);
            } else if self.arena.len() - self.arena_used < READ_BYTES_MAX {
                connection.queued = true;
                self.later.push(slot);
            } else {
                self.read(slot, events);
            }
        }
        self.ready = ready;
        self.ready.append(&mut self.later);
    }

    /// Receives once. A short read has emptied the socket: the next edge tells of more.
    fn read(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let Some(fd) = self.fd(slot) else { return };
        let start = self.arena_used;
        // SAFETY: the caller left READ_BYTES_MAX bytes in the arena, and no chunk of this turn
        // reaches beyond `arena_used`; those of earlier turns have expired.
        let received = unsafe { sys::recv(fd, self.arena.as_mut_ptr().add(start), READ_BYTES_MAX) };
        match received {
            Ok(0) => self.end(slot, Ending::Eof),
            Ok(n) => {
                self.arena_used = start + n.next_multiple_of(CHUNK_ALIGN);
                let chunk = Chunk { start: start as u32, len: n as u32 };
                events.push(Event::Received { slot, chunk });
                self.read_again(slot, n == READ_BYTES_MAX);
            }
            Err(e) => self.read_failed(slot, e, events),
        }
    }

    /// Receives into the caller's buffer until it is full, the socket empty or the quota used.
    fn fill(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let Some(fd) = self.fd(slot) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(fill) = connection.fill.as_mut() else { return };
        let room = fill.missing.min(FILL_BYTES_MAX);
        let received = if room == 0 {
            Ok(0)
        } else {
            // SAFETY: `read_into` reserved the missing bytes behind the buffer's length.
            unsafe {
                let at = fill.buffer.as_mut_ptr().add(fill.buffer.len());
                sys::recv(fd, at, room)
            }
        };
        match received {
            Ok(0) if room > 0 => self.end(slot, Ending::Eof),
            Ok(n) => {
                // SAFETY: the kernel initialised `n` bytes within the capacity.
                unsafe { fill.buffer.set_len(fill.buffer.len() + n) };
                fill.missing -= n;
                if fill.missing == 0
                    && let Some(fill) = connection.fill.take()
                {
                    events.push(Event::Filled { slot, buffer: fill.buffer });
                }
                self.read_again(slot, n == room);
            }
            Err(e) => self.read_failed(slot, e, events),
        }
    }

    #[inline]
    fn read_again(&mut self, slot: Slot, more: bool) {
        if let Some(connection) = self.connections.get_mut(slot)
            && (more || connection.gone)
        {
            connection.queued = true;
            self.later.push(slot);
        }
    }

    fn read_failed(&mut self, slot: Slot, error: io::Error, events: &mut Vec<Event>) {
        match error.kind() {
            io::ErrorKind::WouldBlock => {}
            io::ErrorKind::Interrupted => self.read_again(slot, true),
            _ => self.fail(slot, error, events),
        }
    }

    fn flush(&mut self, events: &mut Vec<Event>) {
        let mut dirty = take(&mut self.dirty);
        for slot in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.dirty = false;
            self.write(slot, events);
        }
        // Keeps the allocation; `write` may have queued connections with very many pieces again.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    /// Sends once. A short send means that the peer must read first.
    fn write(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let Some(fd) = self.fd(slot) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(outbox) = connection.outbox.as_mut() else {
            return self.finish(slot, events);
        };
        match sys::send(fd, outbox) {
            Ok(sent) => {
                outbox.sent(sent.bytes, &mut self.pools.outputs);
                if outbox.is_empty() {
                    self.finish(slot, events);
                } else if sent.short {
                    self.park(slot, true, events);
                } else {
                    self.write_again(slot);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.park(slot, true, events),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => self.write_again(slot),
            Err(e) => self.fail(slot, e, events),
        }
    }

    /// All output is written: gives the outbox back, and closes if that was waited for.
    #[inline]
    fn finish(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if let Some(outbox) = connection.outbox.take() {
            self.pools.give_outbox(outbox);
        }
        let why = match connection.closing {
            None if connection.parked => return self.park(slot, false, events),
            None => return,
            Some(Ending::Eof) => Why::Eof,
            Some(Ending::Flush) => Why::Flushed,
        };
        self.release(slot);
        events.push(Event::Closed { slot, why });
    }

    /// Starts or ends waiting for the peer to take output.
    fn park(&mut self, slot: Slot, parked: bool, events: &mut Vec<Event>) {
        let Some(fd) = self.fd(slot) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.parked == parked {
            return;
        }
        connection.parked = parked;
        if !parked {
            events.push(Event::Drained { slot });
        }
        let interest = if parked { READABLE | libc::EPOLLOUT } else { READABLE };
        let changed =
            sys::epoll_ctl(&self.epoll, libc::EPOLL_CTL_MOD, fd, interest, slot.to_bits());
        if let Err(e) = changed {
            self.fail(slot, e, events);
        }
    }

    fn write_again(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
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

/// Accepting.
impl Epoll {
    fn accept(&mut self, index: u32, events: &mut Vec<Event>) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get_mut(index) else { return };
            if !listener.armed {
                return;
            }
            let id = listener.id;
            match sys::accept(listener.socket.as_raw_fd()) {
                Ok(socket) => events.push(Event::Accepted { listener: id, socket }),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // The peer gave up, or a signal came: the next connection may be fine.
                Err(e) if e.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    events.push(Event::AcceptFailed { listener: id, error });
                    self.listeners.back_off(index);
                    self.disarm(index);
                    return;
                }
            }
        }
    }

    /// Watches the listener: level-triggered, so that what a turn leaves is seen by the next, and
    /// exclusively, so that of several workers one wakes.
    fn arm(&mut self, index: u32) -> io::Result<()> {
        let Some(listener) = self.listeners.get_mut(index) else { return Ok(()) };
        if listener.armed || !listener.wanted() {
            return Ok(());
        }
        let interest = libc::EPOLLIN | libc::EPOLLEXCLUSIVE;
        let tag = TAG_LISTENER << 56 | u64::from(index);
        let fd = listener.socket.as_raw_fd();
        sys::epoll_ctl(&self.epoll, libc::EPOLL_CTL_ADD, fd, interest, tag)?;
        listener.armed = true;
        Ok(())
    }

    fn arm_or_back_off(&mut self, index: u32) {
        if self.arm(index).is_err() {
            self.listeners.back_off(index);
        }
    }

    fn disarm(&mut self, index: u32) {
        if let Some(listener) = self.listeners.get_mut(index)
            && take(&mut listener.armed)
        {
            let fd = listener.socket.as_raw_fd();
            // It cannot fail: the descriptor is open and registered.
            let _ = sys::epoll_ctl(&self.epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
    }

    /// Arms the listeners whose rest is over, and shortens `timeout` to the end of the next one.
    fn resume_rested(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let (due, next) = self.listeners.rested();
        for index in due {
            self.arm_or_back_off(index);
        }
        match (timeout, next) {
            (Some(timeout), Some(next)) => Some(timeout.min(next)),
            (timeout, next) => timeout.or(next),
        }
    }
}
