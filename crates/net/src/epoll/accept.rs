//! Accepting: level-triggered, a bounded number per turn.

use std::io;
use std::mem::take;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{Epoll, TAG_LISTENER};
use crate::event::Event;
use crate::sys;

/// Connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;

impl Epoll {
    pub(super) fn accept(&mut self, index: u32, events: &mut Vec<Event>) {
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
                // Another listener takes its place, or it listens again soon.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                    self.listeners.back_off(index);
                    self.disarm(index);
                    return;
                }
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
    pub(super) fn arm(&mut self, index: u32) -> io::Result<()> {
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

    pub(super) fn arm_or_back_off(&mut self, index: u32) {
        if self.arm(index).is_err() {
            self.listeners.back_off(index);
        }
    }

    pub(super) fn disarm(&mut self, index: u32) {
        if let Some(listener) = self.listeners.get_mut(index)
            && take(&mut listener.armed)
        {
            let fd = listener.socket.as_raw_fd();
            // It cannot fail: the descriptor is open and registered.
            let _ = sys::epoll_ctl(&self.epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
    }

    /// Arms the listeners whose rest is over, and shortens `timeout` to the end of the next one.
    pub(super) fn resume_rested(&mut self, timeout: Option<Duration>) -> Option<Duration> {
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
