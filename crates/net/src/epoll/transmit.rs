//! Sending: one `send` or `sendmsg` per connection with output and turn.

use std::io;
use std::mem::take;

use super::{Ending, Epoll, READABLE};
use crate::event::{Event, Slot, Why};
use crate::sys;

impl Epoll {
    pub(super) fn flush(&mut self, events: &mut Vec<Event>) {
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
    pub(super) fn write(&mut self, slot: Slot, events: &mut Vec<Event>) {
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
                    // More pieces than one send takes.
                    connection.late = true;
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
        let late = take(&mut connection.late);
        let why = match connection.closing {
            _ if connection.takes_output() && connection.parked => {
                return self.park(slot, false, events);
            }
            _ if connection.takes_output() => {
                if late {
                    events.push(Event::Drained { slot });
                }
                return;
            }
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

    pub(super) fn write_again(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }
}
