//! Waiting for a few sockets, and for other threads, without a driver.

use crate::turn::Turn;
use crate::waker::{Sleep, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A thread's way to wait for sockets that it reads and writes itself, until another thread wakes
/// it or some time is over. For tens of sockets: each wait names them all.
pub struct Poll {
    sleep: Sleep,
    yielding: Turn,
}

/// A socket that is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Awaited<'a> {
    /// The socket.
    pub socket: BorrowedFd<'a>,
    /// Wait for room to write, in addition to bytes or the end of the stream.
    pub to_write: bool,
}

impl Poll {
    /// With nothing to wait for yet.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Poll { sleep: Sleep::new()?, yielding: Turn::default() })
    }

    /// Returns a waker of the thread. Writes of the waking thread before the wake-up are visible to
    /// the woken thread.
    pub fn waker(&self) -> Waker {
        self.sleep.waker()
    }

    /// Yields the processor once to threads that prepare work for this one; not while other
    /// processes keep it for long each time.
    pub fn give_turn(&mut self) {
        if self.yielding.is_offered() {
            let away = self.yielding.give();
            self.yielding.took(away, true);
        }
    }

    /// Waits until a socket is ready, [`Waker::wake`] was called since the last wait, or the
    /// timeout has passed. Sets `ready` to true for each socket that is ready; `ready` has an
    /// element for each.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn wait(
        &self,
        sockets: &[Awaited<'_>],
        timeout: Duration,
        ready: &mut Vec<bool>,
    ) -> io::Result<()> {
        let timeout = if self.sleep.fall_asleep() { timeout } else { Duration::ZERO };
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let mut fds = Vec::with_capacity(sockets.len() + 1);
        fds.push(PollFd::from_borrowed_fd(self.sleep.as_fd(), PollFlags::IN));
        for awaited in sockets {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, awaited.to_write);
            fds.push(PollFd::from_borrowed_fd(awaited.socket, flags));
        }
        ready.clear();
        let polled = poll(&mut fds, Some(&timeout));
        self.sleep.woke();
        if !fds[0].revents().is_empty() {
            self.sleep.forget()?;
        }
        ready.extend(fds[1..].iter().map(|fd| polled.is_ok() && !fd.revents().is_empty()));
        match polled {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    fn awaits(socket: &UnixStream, to_write: bool) -> Awaited<'_> {
        Awaited { socket: socket.as_fd(), to_write }
    }

    #[test]
    fn it_waits_for_sockets_and_for_threads() {
        let poll = Poll::new().unwrap();
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let mut ready = Vec::new();
        poll.wait(&[awaits(&one, false)], Duration::ZERO, &mut ready).unwrap();
        assert_eq!(ready, [false]);
        other.write_all(b"x").unwrap();
        let both = [awaits(&other, false), awaits(&one, false)];
        poll.wait(&both, LONG, &mut ready).unwrap();
        assert_eq!(ready, [false, true]);
        one.read_exact(&mut [0]).unwrap();
        poll.wait(&[awaits(&one, true)], LONG, &mut ready).unwrap();
        assert_eq!(ready, [true]);

        // Before the wait, during it, and once only.
        let waker = poll.waker();
        waker.wake();
        poll.wait(&[], LONG, &mut ready).unwrap();
        let start = Instant::now();
        poll.wait(&[], Duration::from_millis(5), &mut ready).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(5));
        for _ in 0..100 {
            let waker = waker.clone();
            let thread = std::thread::spawn(move || waker.wake());
            poll.wait(&[], LONG, &mut ready).unwrap();
            thread.join().unwrap();
        }
    }
}
