//! Backpressure: a connection with much unread output is not served further until its peer has read
//! some of it, so that its output does not grow.
//!
//! A peer that sends all of its commands before it reads any reply must still get through: one that
//! has taken nothing for some time is served until its output has doubled, and the time is longer
//! at the next wait. So its waits are few, and its output is bounded by the limits of its class.

use crate::event_loop::connection::Conn;
use crate::event_loop::worker::Worker;
use petrel_net::{Driver, Slot, bytes_unread};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of output that wait for a peer before it is asked whether it takes any of it.
const UNSENT_MAX: usize = 4 * 1024 * 1024;

/// Milliseconds between two checks of slow peers.
const LOOK_MS: i64 = 10;

/// Milliseconds without progress after which a peer is assumed not to read yet: first value and
/// maximum.
const PATIENCE_MS: i64 = LOOK_MS;
const PATIENCE_MAX_MS: i64 = 100;

/// Connections with more than [`UNSENT_MAX`] bytes of output.
#[derive(Default)]
pub(crate) struct Slow {
    /// By the index of their slot.
    readers: HashMap<usize, Reader>,
    look_at: i64,
}

struct Reader {
    slot: Slot,
    /// Output up to which the connection is served.
    allowed: usize,
    /// Output at the last check, here and in the kernel.
    left: usize,
    /// Time of the last check that saw progress, and the time allowed without any.
    progress_ms: i64,
    patience_ms: i64,
    /// The connection's commands wait.
    waits: bool,
}

impl Reader {
    /// Records the output that is left; `unsent` bytes of it have not been given to the kernel.
    fn note(&mut self, left: usize, unsent: usize, now: i64) {
        if left < self.left {
            self.progress_ms = now;
        } else if self.waits && now - self.progress_ms >= self.patience_ms {
            self.allowed = self.allowed.max(unsent.saturating_mul(2));
            self.patience_ms = (self.patience_ms * 2).min(PATIENCE_MAX_MS);
            self.progress_ms = now;
        }
        self.left = left;
    }
}

impl Slow {
    /// Time of the next check in milliseconds, if there are slow readers.
    pub fn next_ms(&self) -> Option<i64> {
        (!self.readers.is_empty()).then_some(self.look_at)
    }
}

impl<D: Driver> Worker<D> {
    /// Whether a connection's commands wait until its peer has read more. If so, the connection is
    /// checked at intervals, and nothing is read from it.
    #[inline]
    pub(crate) fn waits_for_reader(&mut self, conn: &mut Conn) -> bool {
        conn.client.output_bytes.load(Relaxed) != 0 && self.has_much_unsent(conn)
    }

    #[cold]
    fn has_much_unsent(&mut self, conn: &mut Conn) -> bool {
        let (slot, unsent) = (conn.slot, self.driver.unsent(conn.slot));
        conn.client.show_output(unsent);
        if unsent <= UNSENT_MAX {
            return false;
        }
        let now = self.engine.exec.ks.now_ms();
        let slow = &mut self.own.slow;
        if slow.readers.is_empty() {
            slow.look_at = now + LOOK_MS;
        }
        let new = || Reader {
            slot,
            allowed: UNSENT_MAX,
            left: usize::MAX,
            progress_ms: now,
            patience_ms: PATIENCE_MS,
            waits: false,
        };
        let reader = slow.readers.entry(slot.index()).or_insert_with(new);
        if reader.slot != slot {
            // Of a connection that is gone.
            *reader = new();
        }
        if unsent <= reader.allowed {
            return false;
        }
        if !reader.waits {
            reader.waits = true;
            reader.left = unsent + bytes_unread(conn.client.fd);
            reader.progress_ms = now;
        }
        conn.listed = true;
        self.driver.pause_reading(slot);
        true
    }

    /// Checks slow peers, and resumes connections that have been read enough.
    pub(crate) fn look_at_slow(&mut self) {
        let now = self.engine.exec.ks.now_ms();
        if self.own.slow.look_at > now {
            return;
        }
        let mut readers = std::mem::take(&mut self.own.slow.readers);
        readers.retain(|_, reader| {
            let Some(conn) = self.conn(reader.slot) else { return false };
            let unsent = self.driver.unsent(reader.slot);
            conn.client.show_output(unsent);
            reader.note(unsent + bytes_unread(conn.client.fd), unsent, now);
            if reader.waits && unsent <= reader.allowed {
                reader.waits = false;
                self.own.ready.push_back(reader.slot);
            }
            unsent > UNSENT_MAX
        });
        self.own.slow = Slow { readers, look_at: now + LOOK_MS };
    }

    /// A peer has taken all of its output.
    pub(crate) fn forget_slow(&mut self, slot: Slot) {
        if self.own.slow.readers.get(&slot.index()).is_some_and(|reader| reader.slot == slot)
            && let Some(reader) = self.own.slow.readers.remove(&slot.index())
            && reader.waits
        {
            self.own.ready.push_back(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_takes_nothing_gets_ever_more_ever_later() {
        let mut reader = Reader {
            slot: Slot::NOWHERE,
            allowed: UNSENT_MAX,
            left: 100,
            progress_ms: 0,
            patience_ms: PATIENCE_MS,
            waits: true,
        };
        let unsent = UNSENT_MAX + 1;
        reader.note(99, unsent, 10);
        reader.note(99, unsent, 19);
        assert_eq!(reader.allowed, UNSENT_MAX, "it has just taken something");
        reader.note(99, unsent, 20);
        assert_eq!(reader.allowed, 2 * unsent);
        reader.note(200, 2 * unsent, 39);
        assert_eq!(reader.allowed, 2 * unsent, "it may take twice as long");
        reader.note(200, 2 * unsent, 40);
        assert_eq!(reader.allowed, 4 * unsent);
        for now in 5..20 {
            reader.note(200, unsent, now * 1000);
        }
        assert_eq!(reader.patience_ms, PATIENCE_MAX_MS);
    }
}
