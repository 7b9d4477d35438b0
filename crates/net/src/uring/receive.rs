//! Receiving: from completions to at most one event per connection and turn.

use std::io;
use std::mem::take;
use std::os::fd::AsRawFd;

use io_uring::squeue::Flags;
use io_uring::{cqueue, opcode};

use super::buffers::GROUP;
use super::connection::{Closing, Connection, DEFERRED_MAX, Receive, Transmit};
use super::{TAG_RECEIVE, TAG_SEND, Target, Uring, tag};
use crate::event::{Chunk, Event, Slot, Why};
use crate::sys;

/// Neighbouring receives are joined into one event up to this size, which also is what one
/// connection may bring per turn.
const CHUNK_BYTES_MAX: u32 = 64 * 1024;

impl Uring {
    pub(super) fn on_receive(
        &mut self,
        slot: Slot,
        completion: &cqueue::Entry,
        events: &mut Vec<Event>,
    ) {
        let (result, flags) = (completion.result(), completion.flags());
        let chunk = self.buffers.received(flags, result.max(0) as u32);
        let Some(connection) = self.connections.get_mut(slot) else {
            return self.discard(chunk);
        };
        let operation = connection.receive;
        if !cqueue::more(flags) {
            self.partial -= usize::from(connection.receive == Receive::Fill);
            connection.receive = Receive::Idle;
            connection.cancelling = false;
            self.unsettle(slot);
        }
        match chunk {
            Some(chunk) if result > 0 => self.deliver(slot, chunk, events),
            chunk => {
                self.discard(chunk);
                self.on_receive_without_chunk(slot, operation, result, events);
            }
        }
    }

    fn on_receive_without_chunk(
        &mut self,
        slot: Slot,
        operation: Receive,
        result: i32,
        events: &mut Vec<Event>,
    ) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        match (operation, result) {
            // Out of buffers, cancelled, or interrupted: settled by the next poll.
            (_, e)
                if matches!(-e, libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN) => {}
            (_, e) if e < 0 => connection.ended = Some(-e),
            (Receive::Watch, _) => {
                connection.hung = true;
                if connection.paused && connection.closing == Closing::Open {
                    events.push(Event::HungUp { slot });
                }
            }
            (Receive::Expect, _) => self.receive_expected(slot, events),
            // An error of a send is kept, whatever the receive reports after it.
            (_, 0) => drop(connection.ended.get_or_insert(0)),
            (_, n) => {
                if let Some(fill) = connection.fill.as_mut() {
                    let count = (n as usize).min(fill.missing);
                    fill.missing -= count;
                    // SAFETY: the kernel wrote `count` bytes behind the length, within what
                    // `read_into` reserved.
                    unsafe { fill.buffer.set_len(fill.buffer.len() + count) };
                    self.report_filled(slot, events);
                }
            }
        }
    }

    /// Receives bytes into an allocation of the connection's own.
    fn receive_expected(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let turn = self.turn;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let ready = connection.closing == Closing::Open
            && !connection.paused
            && !connection.has_backlog()
            && connection.turn != turn;
        let (true, Some(socket)) = (ready, &connection.socket) else { return };
        let Some(fill) = connection.fill.take_if(|fill| fill.expected) else { return };
        let mut buffer = Vec::with_capacity(fill.missing);
        match sys::recv_into(socket.as_raw_fd(), &mut buffer, fill.missing) {
            Ok(0) => drop(connection.ended.get_or_insert(0)),
            Ok(_) => self.report(slot, Event::Filled { slot, buffer }, events),
            // Whatever it is, the ordinary way will show it.
            Err(_) => {}
        }
    }

    fn discard(&mut self, chunk: Option<Chunk>) {
        if let Some(chunk) = chunk {
            self.buffers.consumed(self.buffers.id_of(chunk));
        }
    }

    /// Passes received bytes on: to a `read_into`, behind bytes held back, to the worker, or to
    /// the next turn.
    fn deliver(&mut self, slot: Slot, chunk: Chunk, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return self.discard(Some(chunk));
        };
        connection.forget_expected();
        if connection.closing != Closing::Open {
            self.discard(Some(chunk));
        } else if connection.paused || connection.held.is_some() {
            let held = connection.held.get_or_insert_default();
            held.extend_from_slice(self.buffers.bytes(chunk));
            self.discard(Some(chunk));
        } else if connection.deferred > 0 {
            self.defer(slot, chunk);
        } else if let Some(fill) = connection.fill.as_mut() {
            let count = fill.take(self.buffers.bytes(chunk)) as u32;
            self.report_filled(slot, events);
            if count < chunk.len {
                self.defer(slot, Chunk { start: chunk.start + count, len: chunk.len - count });
            } else {
                self.discard(Some(chunk));
            }
        } else if connection.turn == self.turn {
            let id = self.buffers.id_of(chunk);
            if join(events.get_mut(connection.event as usize), chunk) {
                self.lent.push(id);
            } else {
                self.defer(slot, chunk);
            }
        } else if chunk.len > CHUNK_BYTES_MAX {
            // The buffer is given back with its tail, in a later turn.
            let (start, len) = (chunk.start, CHUNK_BYTES_MAX);
            self.report(slot, Event::Received { slot, chunk: Chunk { start, len } }, events);
            self.defer(slot, Chunk { start: start + len, len: chunk.len - len });
        } else {
            self.lent.push(self.buffers.id_of(chunk));
            self.report(slot, Event::Received { slot, chunk }, events);
        }
    }

    /// Reports the connection's event of this turn.
    #[inline]
    fn report(&mut self, slot: Slot, event: Event, events: &mut Vec<Event>) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.turn = self.turn;
            connection.event = events.len() as u32;
            events.push(event);
        }
    }

    /// Hands the caller's buffer back if it is complete and the connection may have an event.
    fn report_filled(&mut self, slot: Slot, events: &mut Vec<Event>) {
        if let Some(connection) = self.connections.get_mut(slot)
            && connection.closing == Closing::Open
            && let Some(fill) = connection.fill.take_if(|fill| fill.missing == 0)
        {
            self.report(slot, Event::Filled { slot, buffer: fill.buffer }, events);
            self.unsettle(slot);
        }
    }

    fn defer(&mut self, slot: Slot, chunk: Chunk) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.deferred += 1;
            let greedy = connection.deferred == DEFERRED_MAX;
            self.deferred.push((slot, chunk));
            if greedy {
                self.unsettle(slot);
            }
        }
    }

    /// Passes on the events that the last turn deferred, in order.
    pub(super) fn redeliver(&mut self, events: &mut Vec<Event>) {
        if self.deferred.is_empty() {
            return;
        }
        let mut deferred = take(&mut self.deferred);
        for (slot, _) in &deferred {
            if let Some(connection) = self.connections.get_mut(*slot) {
                connection.deferred = 0;
            }
        }
        for (slot, chunk) in deferred.drain(..) {
            self.deliver(slot, chunk, events);
        }
        // Keeps the allocation, and the events deferred again.
        deferred.append(&mut self.deferred);
        self.deferred = deferred;
    }

    pub(super) fn settle_all(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let mut unsettled = take(&mut self.unsettled);
        for slot in unsettled.drain(..) {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.unsettled = false;
                self.settle(slot, events)?;
            }
        }
        // Keeps the allocation, and the connections put back on the list.
        unsettled.append(&mut self.unsettled);
        self.unsettled = unsettled;
        Ok(())
    }

    /// Reports events held back, ends a finished connection, and starts or cancels the receive
    /// operation as wanted.
    fn settle(&mut self, slot: Slot, events: &mut Vec<Event>) -> io::Result<()> {
        self.report_held(slot, events);
        self.report_filled(slot, events);
        self.close_if_ended(slot, events);
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        if connection.closing == Closing::Dead {
            return self.cancel_all(slot);
        }
        let wanted = connection.wanted();
        if connection.receive != Receive::Idle {
            return if connection.receive == wanted { Ok(()) } else { self.cancel_receive(slot) };
        }
        // Earlier bytes first: more are not asked for until those are through.
        let backlog = connection.deferred > 0 || connection.held.is_some() && !connection.paused;
        if backlog && connection.closing == Closing::Open && wanted != Receive::Watch {
            self.unsettle(slot);
            return Ok(());
        }
        self.arm(slot, wanted)
    }

    fn report_held(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.paused || connection.closing != Closing::Open || connection.held.is_none() {
            return;
        }
        connection.forget_expected();
        let Some(held) = connection.held.as_mut() else { return };
        if let Some(fill) = connection.fill.as_mut() {
            let count = fill.take(held);
            held.drain(..count);
            if held.is_empty() {
                connection.held = None;
            }
        } else if connection.turn != self.turn {
            let start = (self.buffers.len() + self.spill.len()) as u32;
            let chunk = Chunk { start, len: held.len() as u32 };
            self.spill.append(held);
            connection.held = None;
            self.report(slot, Event::Received { slot, chunk }, events);
        }
        self.unsettle(slot);
    }

    /// Closes a connection that failed at once, and one that the peer ended after everything
    /// received before has been reported in earlier turns and all output is written.
    fn close_if_ended(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.closing == Closing::Dead {
            return;
        }
        match connection.ended {
            Some(errno) if errno != 0 => {
                let why = Why::Error(io::Error::from_raw_os_error(errno));
                return self.closed(slot, why, events);
            }
            Some(_) if connection.closing == Closing::Open && !connection.paused => {
                if connection.has_backlog() || connection.turn == self.turn {
                    return self.unsettle(slot);
                }
                connection.closing = Closing::Eof;
            }
            Some(_) if connection.closing == Closing::Open && !connection.hung => {
                connection.hung = true;
                events.push(Event::HungUp { slot });
            }
            _ => {}
        }
        if let Some(why) = connection.closing.why()
            && connection.outbox.is_none()
            && !connection.takes_output()
        {
            self.closed(slot, why, events);
        }
    }

    fn arm(&mut self, slot: Slot, wanted: Receive) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let target = Target::of(slot, connection);
        let entry = match (wanted, connection.fill.as_mut()) {
            (Receive::Fill, Some(fill)) => {
                let at = fill.buffer.spare_capacity_mut().as_mut_ptr().cast();
                let len = fill.missing.min(i32::MAX as usize) as u32;
                let receive = opcode::Recv::new(target.fd, at, len).flags(libc::MSG_WAITALL);
                receive.build()
            }
            (Receive::Expect, _) => opcode::PollAdd::new(target.fd, libc::POLLIN as u32).build(),
            (Receive::Shared, _) => opcode::RecvMulti::new(target.fd, GROUP).build(),
            (Receive::Watch, _) => {
                let watch = opcode::PollAdd::new(target.fd, libc::POLLRDHUP as u32);
                watch.build()
            }
            _ => return Ok(()),
        };
        connection.receive = wanted;
        self.partial += usize::from(wanted == Receive::Fill);
        let entry = target.entry(entry, Flags::empty(), tag(TAG_RECEIVE, slot));
        // SAFETY: the only memory named is the reserved space of the fill's buffer, which is
        // neither moved nor freed before the completion of this operation.
        unsafe { self.ring.push(&entry) }
    }

    fn cancel_receive(&mut self, slot: Slot) -> io::Result<()> {
        match self.connections.get_mut(slot) {
            Some(connection) if !connection.cancelling => {
                connection.cancelling = true;
                self.cancel(tag(TAG_RECEIVE, slot))
            }
            _ => Ok(()),
        }
    }

    /// Cancels what still refers to a dead slot, or frees it if nothing does.
    fn cancel_all(&mut self, slot: Slot) -> io::Result<()> {
        let Some(&Connection { receive, transmit, .. }) = self.connections.get(slot) else {
            return Ok(());
        };
        if receive != Receive::Idle {
            self.cancel_receive(slot)?;
        }
        if transmit == Transmit::Waiting {
            self.cancel(tag(TAG_SEND, slot))?;
        }
        if receive == Receive::Idle && transmit != Transmit::Waiting {
            self.bury(slot);
        }
        Ok(())
    }
}

/// Extends the chunk of `event` by `chunk` if that follows it in memory and the sum is not large.
fn join(event: Option<&mut Event>, chunk: Chunk) -> bool {
    match event {
        Some(Event::Received { chunk: earlier, .. })
            if earlier.start + earlier.len == chunk.start
                && earlier.len + chunk.len <= CHUNK_BYTES_MAX =>
        {
            earlier.len += chunk.len;
            true
        }
        _ => false,
    }
}
