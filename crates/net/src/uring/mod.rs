//! The io_uring back-end: one system call per turn, whatever the number of connections.
//!
//! A multishot receive per connection fills buffers shared by all of them, so an idle connection
//! owns none. Sends are tried within the submission that also waits, and complete silently when
//! the socket takes everything (`MSG_DONTWAIT` with completions skipped on success); the
//! rest for a slow peer is sent by an operation that waits in the kernel.
//!
//! The worker's wishes (pausing, `read_into`, closing) only change the state of a connection and
//! put it on the `unsettled` list; [`Uring::settle`] then starts or cancels the receive operation
//! of the connection accordingly. A slot is freed, and its memory given
//! back, only after its last operation has completed.

mod accept;
mod buffers;
mod connection;
mod receive;
mod ring;
mod transmit;

use std::io;
use std::mem::take;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::squeue::Flags;
use io_uring::{cqueue, opcode, squeue, types};

use crate::event::{Chunk, Close, Event, ListenerId, Slot, Why};
use crate::listeners::Listeners;
use crate::outbox::Pools;
use crate::output::Output;
use crate::slab::Slab;
use crate::sys;
use crate::turn::Turn;
use crate::waker::{Sleep, Waker};
use crate::{Driver, Options};
use buffers::Buffers;
use connection::{Closing, Connection, Fill, Receive, Transmit};
use ring::Ring;

/// The receive buffers of a driver; memory becomes resident as they are used. The larger they are,
/// the fewer pipelines are split between two of them.
const BUFFERS: u16 = 8;
const BUFFER_BYTES: u32 = 128 * 1024;

/// Maximum number of consecutive yields of the processor to peers that send or take a large value:
/// as many socket buffers as the value fills.
const GIVES_MAX: u32 = 4;
/// Giving the processor away takes less if no process wants it.
const RUN_MIN: Duration = Duration::from_micros(5);

/// The operation, in the upper eight bits of a tag; the lower 56 are a slot, if it is one of a
/// connection.
const TAG_RECEIVE: u64 = 0;
const TAG_SEND: u64 = 1;
const TAG_ACCEPT: u64 = 2;
const TAG_WAKER: u64 = 3;
const TAG_CANCEL: u64 = 4;
const TAG_ALARM: u64 = 5;

/// Maximum delay of the end of a wait.
const ALARM_SLACK: Duration = Duration::from_millis(1);

/// The io_uring driver, for Linux 6.0 and later; see [`Driver`].
pub struct Uring {
    /// First, so that it is gone before the memory that it refers to.
    ring: Ring,
    buffers: Buffers,
    connections: Slab<Connection>,
    /// Slots that the worker has given up and the kernel has not.
    dead: usize,
    /// Connections live in the ring's file table, at the index of their slot.
    direct: bool,
    slots_max: u32,
    listeners: Listeners,
    /// The epoll instance that watches the listeners, and whether the ring watches that.
    accept_epoll: Arc<OwnedFd>,
    accept_polled: bool,
    sleep: Sleep,
    sleep_watched: bool,
    pools: Pools,
    yielding: Turn,
    turn: u32,
    /// Chunks that wait because their connection had its event of the turn.
    deferred: Vec<(Slot, Chunk)>,
    unsettled: Vec<Slot>,
    dirty: Vec<Slot>,
    tried: Vec<Slot>,
    /// A send of this turn needs more work: more bytes to send, or an event for the worker.
    goes_on: bool,
    /// Connections in the middle of a large value: it is received into its own allocation, or
    /// waits for the peer to take more.
    partial: usize,
    /// Buffers of the chunks that the worker sees in this turn.
    lent: Vec<u16>,
    /// Bytes reported in this turn that lie in no buffer; their chunks start beyond the buffers.
    spill: Vec<u8>,
    batch: Vec<cqueue::Entry>,
    /// Time at which the kernel ends the current wait, if set.
    alarm: Option<Instant>,
    alarm_time: types::Timespec,
}

impl Uring {
    /// Whether the kernel allows everything this driver needs.
    ///
    /// # Errors
    /// The reason if not, for the log.
    pub fn probe() -> io::Result<()> {
        Uring::new(&Options::default()).map(drop)
    }
}

impl Driver for Uring {
    fn new(options: &Options) -> io::Result<Uring> {
        let ring = Ring::new(options.direct_descriptors)?;
        let buffers = Buffers::new(&ring.submitter(), BUFFERS, BUFFER_BYTES)?;
        let accept_epoll = Arc::new(sys::epoll_create()?);
        Ok(Uring {
            ring,
            buffers,
            connections: Slab::new(),
            dead: 0,
            direct: options.direct_descriptors.is_some(),
            slots_max: options.direct_descriptors.unwrap_or(u32::MAX),
            listeners: Listeners::new(accept_epoll.clone(), 0),
            accept_epoll,
            accept_polled: false,
            sleep: Sleep::new()?,
            sleep_watched: false,
            pools: Pools::default(),
            yielding: Turn::default(),
            turn: 0,
            deferred: Vec::new(),
            unsettled: Vec::new(),
            dirty: Vec::new(),
            tried: Vec::new(),
            goes_on: false,
            partial: 0,
            lent: Vec::new(),
            spill: Vec::new(),
            batch: Vec::new(),
            alarm: None,
            alarm_time: types::Timespec::new(),
        })
    }

    fn name(&self) -> &'static str {
        "io_uring"
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
        let slot = self
            .connections
            .insert(Connection::default(), self.slots_max)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENFILE))?;
        if self.direct {
            let files = [socket.as_raw_fd()];
            let registered = self.ring.submitter().register_files_update(slot.index_u32(), &files);
            if let Err(e) = registered {
                self.connections.remove(slot);
                return Err(e);
            }
        } else if let Some(connection) = self.connections.get_mut(slot) {
            connection.socket = Some(socket);
        }
        self.unsettle(slot);
        Ok(slot)
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        self.begin_turn();
        self.redeliver(events);
        self.settle_all(events)?;
        self.flush()?;
        let timeout = self.tend_listeners(timeout)?;
        self.watch_sleep()?;
        self.buffers.publish();
        self.enter(timeout, !events.is_empty())?;
        let mut batch = take(&mut self.batch);
        self.ring.take(&mut batch)?;
        for completion in batch.drain(..) {
            self.dispatch(&completion, events)?;
        }
        self.batch = batch;
        self.sweep_tried(events);
        if self.sleep.woke() {
            events.push(Event::Woken);
        }
        Ok(())
    }

    #[inline]
    fn data(&self, chunk: Chunk) -> &[u8] {
        match (chunk.start as usize).checked_sub(self.buffers.len()) {
            None => self.buffers.bytes(chunk),
            Some(start) => self.spill.get(start..start + chunk.len()).unwrap_or_default(),
        }
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
        connection.outbox.get_or_insert_with(|| self.pools.take_outbox()).push(output);
        if connection.transmit == Transmit::Idle {
            connection.transmit = Transmit::Dirty;
            self.dirty.push(slot);
        }
    }

    fn unsent(&self, slot: Slot) -> usize {
        let live = self.connections.get(slot).filter(|c| c.closing != Closing::Dead);
        live.and_then(|c| c.outbox.as_ref()).map_or(0, |outbox| outbox.unsent())
    }

    fn read_into(&mut self, slot: Slot, mut buffer: Vec<u8>, count: usize) {
        if let Some(connection) = self.open(slot) {
            connection.forget_expected();
            if connection.fill.is_none() {
                buffer.reserve_exact(count);
                connection.fill = Some(Box::new(Fill { buffer, missing: count, expected: false }));
                self.unsettle(slot);
            }
        }
    }

    fn expect_input(&mut self, slot: Slot, bytes: usize) {
        // Without a descriptor of the process's, bytes come by operations of the ring only.
        if let Some(connection) = self.open(slot)
            && connection.socket.is_some()
            && connection.fill.is_none()
            && bytes > 0
        {
            let fill = Fill { buffer: Vec::new(), missing: bytes, expected: true };
            connection.fill = Some(Box::new(fill));
            self.unsettle(slot);
        }
    }

    fn pause_reading(&mut self, slot: Slot) {
        if let Some(connection) = self.open(slot) {
            connection.paused = true;
            self.unsettle(slot);
        }
    }

    fn resume_reading(&mut self, slot: Slot) {
        if let Some(connection) = self.open(slot) {
            connection.paused = false;
            connection.hung = false;
            self.unsettle(slot);
        }
    }

    fn close(&mut self, slot: Slot, how: Close) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        match (how, connection.closing) {
            (_, Closing::Dead) => {}
            (Close::Now, _) => self.kill(slot),
            (Close::AfterFlush, Closing::Open) => {
                connection.closing = Closing::Flush;
                self.unsettle(slot);
            }
            (Close::AfterFlush, _) => {}
        }
    }

    fn expect_output(&mut self, slot: Slot, expected: bool) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.expecting = expected;
            if !expected && connection.closing != Closing::Open {
                self.unsettle(slot);
            }
        }
    }

    fn connections(&self) -> usize {
        self.connections.len() - self.dead
    }

    fn waker(&self) -> Waker {
        self.sleep.waker()
    }
}

impl Uring {
    fn begin_turn(&mut self) {
        // Zero means "never" in connections.
        self.turn = self.turn.checked_add(1).unwrap_or(1);
        for id in self.lent.drain(..) {
            self.buffers.consumed(id);
        }
        self.spill.clear();
    }

    fn enter(&mut self, timeout: Option<Duration>, busy: bool) -> io::Result<()> {
        let pending = busy
            || take(&mut self.goes_on)
            || !self.unsettled.is_empty()
            || !self.deferred.is_empty();
        let blocks = !pending && timeout != Some(Duration::ZERO) && !self.ring.has_completions();
        let answered = !self.tried.is_empty() || self.partial > 0;
        if blocks && answered && self.yielding.is_offered() {
            self.ring.enter(false)?;
            if self.ring.has_completions() || self.give_turn() {
                return Ok(());
            }
        }
        let wait = blocks && self.sleep.fall_asleep();
        if let Some(timeout) = timeout.filter(|_| wait) {
            self.set_alarm(timeout)?;
        }
        self.ring.enter(wait)
    }

    /// Has the kernel end a wait so much later. One timer serves many waits, and ends some of them
    /// for nothing: to set and cancel one for each costs more.
    fn set_alarm(&mut self, timeout: Duration) -> io::Result<()> {
        let Some(at) = Instant::now().checked_add(timeout) else { return Ok(()) };
        let slack = (timeout / 4).min(ALARM_SLACK);
        let is_set = match self.alarm {
            Some(set) if set <= at + slack => return Ok(()),
            set => set.is_some(),
        };
        self.alarm = Some(at);
        self.alarm_time =
            types::Timespec::new().sec(timeout.as_secs()).nsec(timeout.subsec_nanos());
        let entry = if is_set {
            let set = opcode::TimeoutUpdate::new(TAG_ALARM << 56, &self.alarm_time).build();
            set.flags(Flags::SKIP_SUCCESS).user_data(TAG_CANCEL << 56)
        } else {
            opcode::Timeout::new(&self.alarm_time).build().user_data(TAG_ALARM << 56)
        };
        // SAFETY: the kernel reads the time when it takes the entry, by the end of this very poll.
        unsafe { self.ring.push(&entry) }
    }

    /// Yields the processor to peers that have just been answered, or that send or take a large
    /// value; true if they left work. Completions are in the ring when the call returns. A part of
    /// a large value completes nothing, so the run of another process counts as work.
    fn give_turn(&mut self) -> bool {
        let most = if self.partial > 0 { GIVES_MAX } else { 1 };
        for _ in 0..most {
            let away = self.yielding.give();
            let found = self.ring.has_completions();
            let moved = self.partial > 0 && away >= RUN_MIN;
            self.yielding.took(away, found || moved);
            if found || !moved || !self.yielding.is_offered() {
                return found;
            }
        }
        false
    }

    fn dispatch(&mut self, completion: &cqueue::Entry, events: &mut Vec<Event>) -> io::Result<()> {
        let tag = completion.user_data();
        match tag >> 56 {
            TAG_RECEIVE => self.on_receive(Slot::from_bits(tag), completion, events),
            TAG_SEND => self.on_sent(Slot::from_bits(tag), completion.result(), events)?,
            TAG_ACCEPT => self.accept(events)?,
            TAG_ALARM => self.alarm = None,
            TAG_WAKER => self.sleep_watched = cqueue::more(completion.flags()),
            _ => {}
        }
        Ok(())
    }

    /// Watches the waker's eventfd; each write to it is one completion.
    fn watch_sleep(&mut self) -> io::Result<()> {
        if !self.sleep_watched {
            self.ring.push_poll(self.sleep.as_raw_fd(), true, TAG_WAKER << 56)?;
            self.sleep_watched = true;
        }
        Ok(())
    }

    /// The connection, if the worker has not begun to close it.
    fn open(&mut self, slot: Slot) -> Option<&mut Connection> {
        self.connections.get_mut(slot).filter(|c| c.closing == Closing::Open)
    }

    /// Has the state of the connection looked at by the next poll.
    fn unsettle(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.unsettled
        {
            connection.unsettled = true;
            self.unsettled.push(slot);
        }
    }

    /// Reports the end of a connection, and gives up its slot.
    fn closed(&mut self, slot: Slot, why: Why, events: &mut Vec<Event>) {
        self.kill(slot);
        events.push(Event::Closed { slot, why });
    }

    /// Makes the slot stale for the worker, and frees it as soon as the kernel allows.
    fn kill(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot)
            && connection.closing != Closing::Dead
        {
            connection.closing = Closing::Dead;
            self.dead += 1;
            self.bury(slot);
        }
    }

    /// Frees a dead slot if no operation refers to it; else has the operations cancelled.
    fn bury(&mut self, slot: Slot) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let receiving = connection.receive != Receive::Idle;
        let sending = matches!(connection.transmit, Transmit::Tried | Transmit::Waiting);
        if receiving || sending {
            return self.unsettle(slot);
        }
        self.dead -= 1;
        let connection = self.connections.remove(slot);
        if let Some(outbox) = connection.and_then(|c| c.outbox) {
            self.pools.give_outbox(outbox);
        }
        if self.direct {
            // It cannot fail: the index is within the table, and -1 empties its entry.
            let _ = self.ring.submitter().register_files_update(slot.index_u32(), &[-1]);
        }
    }

    /// Cancels the operation with this tag; it completes with `ECANCELED`, or as it would have.
    fn cancel(&mut self, tag: u64) -> io::Result<()> {
        self.ring.push_cancel(tag, TAG_CANCEL << 56)
    }
}

/// The socket of a connection as operations name it.
#[derive(Clone, Copy)]
struct Target {
    fd: types::Fd,
    flags: Flags,
}

impl Target {
    /// Direct descriptors differ from plain ones by a flag of the submission only.
    fn of(slot: Slot, connection: &Connection) -> Target {
        match &connection.socket {
            Some(socket) => Target { fd: types::Fd(socket.as_raw_fd()), flags: Flags::empty() },
            None => Target { fd: types::Fd(slot.index_u32() as i32), flags: Flags::FIXED_FILE },
        }
    }

    fn entry(self, entry: squeue::Entry, flags: Flags, tag: u64) -> squeue::Entry {
        // `flags` is added to the flags of the operation itself.
        entry.flags(self.flags | flags).user_data(tag)
    }
}

fn tag(operation: u64, slot: Slot) -> u64 {
    operation << 56 | slot.to_bits()
}

impl Drop for Uring {
    /// Ends all operations, so that none refers to buffers about to be freed.
    fn drop(&mut self) {
        let everything = types::CancelBuilder::any();
        // Operations that this cannot end within its second are ended by closing the ring, before
        // any other field is dropped.
        let second = types::Timespec::new().sec(1);
        let _ = self.ring.submitter().register_sync_cancel(Some(second), everything);
    }
}
