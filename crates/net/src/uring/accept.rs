//! Accepting: one multishot operation per listener.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use io_uring::{cqueue, opcode, types};

use super::{TAG_ACCEPT, Uring};
use crate::event::{Event, ListenerId};

impl Uring {
    pub(super) fn set_accepting(&mut self, id: ListenerId, accepting: bool) {
        for index in self.listeners.named(id) {
            self.listeners.set_paused(index, !accepting);
        }
        self.listeners_changed = true;
    }

    pub(super) fn drop_listeners(&mut self, id: ListenerId) {
        for index in self.listeners.named(id) {
            if let Some(listener) = self.listeners.remove(index)
                && listener.armed
            {
                self.cancelled_accepts.push(index);
            }
        }
    }

    /// Starts and stops accepting as wanted; returns `timeout`, shortened to the end of the next
    /// rest of a listener.
    pub(super) fn tend_listeners(
        &mut self,
        timeout: Option<Duration>,
    ) -> io::Result<Option<Duration>> {
        while let Some(index) = self.cancelled_accepts.pop() {
            self.cancel(accept_tag(index))?;
        }
        let (due, next) = self.listeners.rested();
        if self.listeners_changed || !due.is_empty() {
            self.listeners_changed = false;
            for index in 0..self.listeners.len() {
                self.tend(index)?;
            }
        }
        Ok(match (timeout, next) {
            (Some(timeout), Some(next)) => Some(timeout.min(next)),
            (timeout, next) => timeout.or(next),
        })
    }

    fn tend(&mut self, index: u32) -> io::Result<()> {
        let Some(listener) = self.listeners.get_mut(index) else { return Ok(()) };
        if listener.armed && !listener.wanted() {
            return self.cancel(accept_tag(index));
        }
        if listener.armed || !listener.wanted() {
            return Ok(());
        }
        listener.armed = true;
        let fd = types::Fd(listener.socket.as_raw_fd());
        let entry = opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: no memory is named.
        unsafe { self.ring.push(&entry.user_data(accept_tag(index))) }
    }

    pub(super) fn on_accept(
        &mut self,
        index: u32,
        completion: &cqueue::Entry,
        events: &mut Vec<Event>,
    ) {
        let result = completion.result();
        // SAFETY: a successful accept returns a descriptor that nothing else owns.
        let socket = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) });
        let Some(listener) = self.listeners.get_mut(index) else { return };
        let id = listener.id;
        if !cqueue::more(completion.flags()) {
            listener.armed = false;
            self.listeners_changed = true;
        }
        match socket {
            Some(socket) => events.push(Event::Accepted { listener: id, socket }),
            // Cancelled, interrupted, or the peer gave up: the next connection may be fine.
            None if matches!(-result, libc::ECANCELED | libc::EINTR | libc::ECONNABORTED) => {}
            // Another listener takes its place, or it listens again soon.
            None if -result == libc::EINVAL => self.listeners.back_off(index),
            None => {
                let error = io::Error::from_raw_os_error(-result);
                events.push(Event::AcceptFailed { listener: id, error });
                self.listeners.back_off(index);
            }
        }
    }
}

fn accept_tag(index: u32) -> u64 {
    TAG_ACCEPT << 56 | u64::from(index)
}
