//! Receiving: one `recv` per ready connection and turn.

use std::io;
use std::mem::take;

use super::{Ending, Epoll};
use crate::event::{Chunk, Event, Slot};
use crate::sys;

/// Bytes read from one connection per turn.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Bytes received into a caller's buffer per connection and turn.
const FILL_BYTES_MAX: usize = 1024 * 1024;
/// Chunks start at multiples of this, a cache line.
const CHUNK_ALIGN: usize = 64;

impl Epoll {
    /// Works the ready list off, as far as the arena goes; the rest stays for the next turn.
    pub(super) fn read_ready(&mut self, events: &mut Vec<Event>) {
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
        if fill.expected && fill.buffer.capacity() == 0 {
            fill.buffer.reserve_exact(fill.missing);
        }
        // The missing bytes were reserved behind the buffer's length.
        let received = if room == 0 { Ok(0) } else { sys::recv_into(fd, &mut fill.buffer, room) };
        match received {
            Ok(0) if room > 0 => self.end(slot, Ending::Eof),
            Ok(n) => {
                fill.missing -= n;
                if (fill.missing == 0 || fill.expected)
                    && let Some(fill) = connection.fill.take()
                {
                    events.push(Event::Filled { slot, buffer: fill.buffer });
                }
                self.read_again(slot, n == room);
            }
            Err(e) => {
                // While nothing comes it owns no buffer.
                if fill.expected {
                    fill.buffer = Vec::new();
                }
                self.read_failed(slot, e, events)
            }
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
}
