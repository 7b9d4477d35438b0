//! Interrupting a poll from another thread, with a system call only when the poll sleeps.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The driver runs: a notification now is seen before it sleeps.
const AWAKE: u8 = 0;
/// The driver is blocked in the kernel, or about to be: the eventfd must be written.
const ASLEEP: u8 = 1;
/// A wake-up is pending and has not been reported yet.
const NOTIFIED: u8 = 2;

/// Wakes the driver it came from. Cheap to clone and to use: waking a driver that is awake, or
/// already notified, is one atomic exchange.
///
/// Everything the waking thread did before `wake` is visible to the worker when it gets
/// [`crate::Event::Woken`].
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    /// Makes the current or the next poll return with [`crate::Event::Woken`].
    pub fn wake(&self) {
        if self.shared.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            self.shared.signal();
        }
    }
}

/// On a cache line of its own: the state is written by every thread that wakes.
#[derive(Debug)]
#[repr(align(64))]
struct Shared {
    state: AtomicU8,
    eventfd: OwnedFd,
}

impl Shared {
    fn signal(&self) {
        // The only failure, a counter at its maximum, still leaves the descriptor readable.
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }
}

/// The end of the thread that is woken. Drivers watch the eventfd for edges and never read it: each
/// write is one edge.
pub(crate) struct Sleep {
    shared: Arc<Shared>,
}

impl Sleep {
    pub(crate) fn new() -> io::Result<Sleep> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Sleep { shared: Arc::new(Shared { state: AtomicU8::new(AWAKE), eventfd }) })
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker { shared: Arc::clone(&self.shared) }
    }

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.shared.eventfd.as_raw_fd()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.eventfd.as_fd()
    }

    /// Makes the eventfd unreadable again, for a thread that does not watch for edges.
    pub(crate) fn forget(&self) -> io::Result<()> {
        match rustix::io::read(&self.shared.eventfd, &mut [0; 8]) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Before blocking. `false`: a wake-up is pending, so do not block.
    #[inline]
    pub(crate) fn fall_asleep(&self) -> bool {
        let state = &self.shared.state;
        state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// After the wait, blocked or not: whether a wake-up came since the last call.
    #[inline]
    pub(crate) fn woke(&self) -> bool {
        let state = &self.shared.state;
        state.load(Ordering::Acquire) != AWAKE && state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sleeper_costs_a_write() {
        let sleep = Sleep::new().unwrap();
        let waker = sleep.waker();
        let readable = || {
            let mut poll = libc::pollfd { fd: sleep.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            unsafe { libc::poll(&mut poll, 1, 0) == 1 }
        };
        waker.wake();
        assert!(!readable());
        assert!(!sleep.fall_asleep());
        assert!(sleep.woke());
        assert!(!sleep.woke());
        assert!(sleep.fall_asleep());
        waker.wake();
        waker.clone().wake();
        assert!(readable());
        assert!(sleep.woke());
    }
}
