//! The listeners of a driver: which of them should accept now, and when to try again.
//!
//! They are watched by an epoll instance, which holds none of them: once the process is gone, so
//! are its listeners.

use std::io;
use std::mem::take;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::{Event, ListenerId};
use crate::sys;

/// Connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;

/// Pause of a listener after the kernel refused a connection for lack of resources.
const BACKOFF: Duration = Duration::from_millis(100);

/// A listener. `armed` is the state in the kernel, the other fields are the wanted state.
struct Listener {
    id: ListenerId,
    socket: Arc<OwnedFd>,
    armed: bool,
    paused: bool,
    retry_at: Option<Instant>,
}

impl Listener {
    fn wanted(&self) -> bool {
        !self.paused && self.retry_at.is_none()
    }
}

/// Listeners by index; an index is never reused, so a late event cannot name another.
pub(crate) struct Listeners {
    list: Vec<Option<Listener>>,
    /// Whether any listener has a `retry_at`: the clock is read only then.
    resting: bool,
    /// The epoll instance that watches the listeners, possibly among other descriptors.
    epoll: Arc<OwnedFd>,
    /// Upper bits of the tags of their events, beside the index.
    tag: u64,
}

impl Listeners {
    pub(crate) fn new(epoll: Arc<OwnedFd>, tag: u64) -> Self {
        Listeners { list: Vec::new(), resting: false, epoll, tag }
    }

    /// Adds a listener and watches it.
    pub(crate) fn add(&mut self, id: ListenerId, socket: Arc<OwnedFd>) -> io::Result<()> {
        self.list.push(Some(Listener { id, socket, armed: false, paused: false, retry_at: None }));
        let index = self.list.len() - 1;
        self.arm(index).inspect_err(|_| self.list[index] = None)
    }

    /// Whether there is none, and never was.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Accepts from the listeners of that name, or stops to.
    pub(crate) fn set_paused(&mut self, id: ListenerId, paused: bool) {
        for index in self.named(id) {
            if let Some(listener) = self.get_mut(index) {
                listener.paused = paused;
            }
            if paused {
                self.disarm(index);
            } else {
                self.arm_or_back_off(index);
            }
        }
    }

    pub(crate) fn remove(&mut self, id: ListenerId) {
        for index in self.named(id) {
            self.disarm(index);
            self.list[index] = None;
        }
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut Listener> {
        self.list.get_mut(index)?.as_mut()
    }

    /// The indexes that carry `id`.
    fn named(&self, id: ListenerId) -> Vec<usize> {
        let named = |l: &Option<Listener>| l.as_ref().is_some_and(|l| l.id == id);
        (0..self.list.len()).filter(|&i| named(&self.list[i])).collect()
    }

    /// Watches a listener that should accept: level-triggered, so that the next turn sees the
    /// rest, and exclusively, so that of several workers one wakes.
    fn arm(&mut self, index: usize) -> io::Result<()> {
        let Some(Some(listener)) = self.list.get_mut(index) else { return Ok(()) };
        if listener.armed || !listener.wanted() {
            return Ok(());
        }
        let (interest, tag) = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE, self.tag | index as u64);
        let fd = listener.socket.as_raw_fd();
        sys::epoll_ctl(&self.epoll, libc::EPOLL_CTL_ADD, fd, interest, tag)?;
        listener.armed = true;
        Ok(())
    }

    /// Like [`Self::arm`], but retries later if the kernel refuses.
    fn arm_or_back_off(&mut self, index: usize) {
        if self.arm(index).is_err() {
            self.back_off(index);
        }
    }

    fn disarm(&mut self, index: usize) {
        if let Some(Some(listener)) = self.list.get_mut(index)
            && take(&mut listener.armed)
        {
            // It cannot fail: the descriptor is open and registered.
            let fd = listener.socket.as_raw_fd();
            let _ = sys::epoll_ctl(&self.epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
    }

    fn back_off(&mut self, index: usize) {
        if let Some(listener) = self.get_mut(index) {
            listener.retry_at = Some(Instant::now() + BACKOFF);
            self.resting = true;
        }
    }

    /// Accepts a bounded number of connections from the listener with this tag.
    pub(crate) fn accept(&mut self, tag: u64, events: &mut Vec<Event>) {
        let index = tag as u32 as usize;
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.get_mut(index).filter(|listener| listener.armed) else {
                return;
            };
            let id = listener.id;
            match sys::accept(&listener.socket) {
                Ok(socket) => events.push(Event::Accepted { listener: id, socket }),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // The peer gave up, or a signal came: the next connection may be fine.
                Err(e) if e.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // If it does not listen, another takes its place, or it listens again soon.
                    if error.raw_os_error() != Some(libc::EINVAL) {
                        events.push(Event::AcceptFailed { listener: id, error });
                    }
                    self.back_off(index);
                    self.disarm(index);
                    return;
                }
            }
        }
    }

    /// Ends the rests that are over, and shortens `timeout` to the end of the next one.
    pub(crate) fn end_rests(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.resting {
            return timeout;
        }
        let now = Instant::now();
        for index in 0..self.list.len() {
            if let Some(listener) = self.get_mut(index)
                && listener.retry_at.take_if(|at| *at <= now).is_some()
            {
                self.arm_or_back_off(index);
            }
        }
        let next = self.list.iter().flatten().filter_map(|listener| listener.retry_at).min();
        self.resting = next.is_some();
        let next = next.map(|at| at.saturating_duration_since(now));
        timeout.into_iter().chain(next).min()
    }
}
