//! One connection of the load generator: requests going out, replies expected.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::tls::TlsStream;

/// A connected socket, Unix or TCP.
#[derive(Debug)]
pub enum Stream {
    /// A Unix-domain socket.
    Unix(UnixStream),
    /// A TCP socket.
    Tcp(TcpStream),
    /// A TCP socket with TLS.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Makes reads and writes return instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(on),
            Stream::Tcp(stream) => stream.set_nonblocking(on),
            Stream::Tls(stream) => stream.socket.set_nonblocking(on),
        }
    }

    /// Bounds how long a blocking read waits.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Tls(stream) => stream.socket.set_read_timeout(Some(timeout)),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// Bytes on their way out.
#[derive(Debug, Default)]
pub struct Outbox {
    buffer: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// The buffer that requests are appended to.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes as much as the socket takes; true when nothing is left.
    #[inline]
    pub fn flush(&mut self, stream: &mut Stream) -> io::Result<bool> {
        while self.sent < self.buffer.len() {
            match stream.write(&self.buffer[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.clear();
        self.sent = 0;
        match stream.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            result => result.map(|()| true),
        }
    }
}

/// The requests that wait for replies, in groups that were due at the same moment.
#[derive(Debug, Default)]
pub struct Outstanding {
    groups: VecDeque<(Instant, usize)>,
    total: usize,
}

impl Outstanding {
    /// Number of requests without a reply.
    #[inline]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Notes that `count` requests went out that count from `since`.
    #[inline]
    pub fn push(&mut self, since: Instant, count: usize) {
        self.total += count;
        self.groups.push_back((since, count));
    }

    /// Takes `count` answered requests, oldest first, and gives each group's start and size.
    /// False when there were fewer requests than replies.
    #[inline]
    pub fn pop(&mut self, mut count: usize, mut each: impl FnMut(Instant, usize)) -> bool {
        if count > self.total {
            return false;
        }
        self.total -= count;
        while count > 0 {
            let Some((since, size)) = self.groups.front_mut() else { return false };
            let step = count.min(*size);
            each(*since, step);
            *size -= step;
            count -= step;
            if *size == 0 {
                self.groups.pop_front();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outbox_sends_everything_in_order_however_little_the_socket_takes() {
        let (left, mut right) = UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        let mut left = Stream::Unix(left);
        let mut outbox = Outbox::default();
        let want: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
        outbox.buffer().extend_from_slice(&want);
        assert!(!outbox.flush(&mut left).unwrap());
        let mut got = Vec::new();
        let mut buffer = vec![0; 70_001];
        while got.len() < want.len() {
            outbox.flush(&mut left).unwrap();
            let count = right.read(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..count]);
        }
        assert!(got == want);
        assert!(outbox.flush(&mut left).unwrap() && outbox.buffer.is_empty());
    }

    #[test]
    fn outstanding_pops_oldest_first() {
        let mut outstanding = Outstanding::default();
        let (early, late) = (Instant::now(), Instant::now());
        outstanding.push(early, 3);
        outstanding.push(late, 2);
        let mut seen = Vec::new();
        assert!(outstanding.pop(4, |since, count| seen.push((since, count))));
        assert_eq!(seen, [(early, 3), (late, 1)]);
        assert_eq!(outstanding.total(), 1);
        assert!(!outstanding.pop(2, |_, _| ()));
    }
}
