//! Accepting: the ring waits for the epoll instance that watches the listeners.
//!
//! An operation of the ring on a listener would hold it. When a process is killed, its rings end
//! some milliseconds after it has gone, as the kernel finds time, and a server that is started at
//! once would find the address in use.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{TAG_ACCEPT, Uring};
use crate::event::Event;
use crate::sys;

/// Listeners that are looked at in a turn; the others have their turn in the next.
const READY_MAX: usize = 16;

impl Uring {
    /// Waits for connections where there are listeners; returns `timeout`, shortened to the end of
    /// the next rest of a listener.
    pub(super) fn tend_listeners(
        &mut self,
        timeout: Option<Duration>,
    ) -> io::Result<Option<Duration>> {
        if self.listeners.is_empty() {
            return Ok(timeout);
        }
        if !self.accept_polled {
            // One-shot: remaining connections are reported when the next operation begins.
            self.ring.push_poll(self.accept_epoll.as_raw_fd(), false, TAG_ACCEPT << 56)?;
            self.accept_polled = true;
        }
        Ok(self.listeners.end_rests(timeout))
    }

    /// Accepts from the listeners at which connections wait.
    pub(super) fn accept(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.accept_polled = false;
        let mut ready = [libc::epoll_event { events: 0, u64: 0 }; READY_MAX];
        let count = match sys::epoll_wait(&self.accept_epoll, &mut ready, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            count => count?,
        };
        for event in &ready[..count] {
            self.listeners.accept(event.u64, events);
        }
        Ok(())
    }
}
