//! Sending: tried once within the submission, and left to the kernel only for slow peers.

use std::io;
use std::mem::take;

use io_uring::opcode;
use io_uring::squeue::Flags;

use super::connection::{Closing, Transmit};
use super::{TAG_SEND, Target, Uring, tag};
use crate::event::{Event, Slot};

/// Completes within the submission, with a completion only if not everything was taken. Without
/// `MSG_WAITALL` a short send would count as a success, and be skipped.
const TRY: i32 = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
/// Waits in the kernel until the peer has made room.
const WAIT: i32 = libc::MSG_NOSIGNAL;

impl Uring {
    /// Queues one send for each connection with new output.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut dirty = take(&mut self.dirty);
        for slot in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            if connection.transmit == Transmit::Dirty && connection.closing != Closing::Dead {
                connection.transmit = Transmit::Tried;
                self.tried.push(slot);
                let owes = connection.parked || connection.closing != Closing::Open;
                self.push_send(slot, TRY, Flags::SKIP_SUCCESS)?;
                let outbox = self.connections.get(slot).and_then(|c| c.outbox.as_ref());
                // Success is silent: no completion would end a wait before the next operation.
                self.goes_on |= owes || outbox.is_some_and(|it| it.offered() < it.unsent());
            }
        }
        self.dirty = dirty;
        Ok(())
    }

    fn push_send(&mut self, slot: Slot, how: i32, flags: Flags) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let target = Target::of(slot, connection);
        let Some(outbox) = connection.outbox.as_mut() else { return Ok(()) };
        let entry = match outbox.single() {
            Some(piece) if u32::try_from(piece.len()).is_ok() => {
                let (at, len) = (piece.as_ptr(), piece.len() as u32);
                outbox.offer(len as usize);
                opcode::Send::new(target.fd, at, len).flags(how).build()
            }
            _ => opcode::SendMsg::new(target.fd, outbox.offer_pieces()).flags(how as u32).build(),
        };
        let entry = target.entry(entry, flags, tag(TAG_SEND, slot));
        // SAFETY: the bytes belong to the outbox, which stays with the connection, its front
        // unchanged, until the operation has completed; header and pieces are boxed there too.
        unsafe { self.ring.push(&entry) }
    }

    /// A send that was waiting made progress, or one that was tried did not take everything.
    pub(super) fn on_sent(
        &mut self,
        slot: Slot,
        result: i32,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        self.partial -= usize::from(connection.transmit == Transmit::Waiting);
        connection.transmit = Transmit::Idle;
        if connection.closing == Closing::Dead {
            self.unsettle(slot);
            return Ok(());
        }
        let Some(outbox) = connection.outbox.as_mut() else { return Ok(()) };
        match result {
            n if n > 0 => outbox.sent(n as usize, &mut self.pools.outputs),
            e if matches!(-e, libc::EAGAIN | libc::EINTR) => {}
            e => {
                // No socket takes zero bytes of a non-empty piece.
                connection.ended = Some(if e == 0 { libc::EPIPE } else { -e });
                self.unsettle(slot);
                return Ok(());
            }
        }
        if outbox.is_empty() {
            self.flushed(slot, events);
            return Ok(());
        }
        connection.parked = true;
        connection.transmit = Transmit::Waiting;
        self.partial += 1;
        self.push_send(slot, WAIT, Flags::empty())
    }

    /// The sends of this turn of which no completion spoke have been taken whole.
    pub(super) fn sweep_tried(&mut self, events: &mut Vec<Event>) {
        let mut tried = take(&mut self.tried);
        for slot in tried.drain(..) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            if connection.transmit != Transmit::Tried {
                continue;
            }
            connection.transmit = Transmit::Idle;
            let Some(outbox) = connection.outbox.as_mut() else { continue };
            outbox.sent(outbox.offered(), &mut self.pools.outputs);
            if outbox.is_empty() {
                self.flushed(slot, events);
            } else {
                // More pieces than one send takes: some of it waits for the next turn.
                connection.parked = true;
                connection.transmit = Transmit::Dirty;
                self.dirty.push(slot);
            }
        }
        self.tried = tried;
    }

    /// All output is written.
    #[inline]
    fn flushed(&mut self, slot: Slot, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if let Some(outbox) = connection.outbox.take() {
            self.pools.give_outbox(outbox);
        }
        if take(&mut connection.parked) && connection.takes_output() {
            events.push(Event::Drained { slot });
        }
        if connection.closing != Closing::Open {
            self.unsettle(slot);
        }
    }
}
