//! One connection of the load generator: requests going out, replies expected.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::request::ValueBlock;
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
    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        match self {
            Stream::Unix(stream) => stream.as_raw_fd(),
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Tls(stream) => stream.socket.as_raw_fd(),
        }
    }

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

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(parts),
            Stream::Tcp(stream) => stream.write_vectored(parts),
            Stream::Tls(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// Values from this size on are sent from the value block itself; smaller ones are copied, since a
/// copy costs less than one more segment of a vectored write.
const IN_PLACE_MIN: usize = 16 * 1024;

/// Most segments of one vectored write.
const SEGMENTS_MAX: usize = 16;

/// A piece of the value block that goes out after the first `at` bytes of the buffer.
#[derive(Clone, Copy, Debug)]
struct Insert {
    at: usize,
    start: usize,
    len: usize,
}

/// Bytes on their way out: a buffer, with large values inserted by reference.
#[derive(Debug, Default)]
pub struct Outbox {
    buffer: Vec<u8>,
    sent: usize,
    inserts: VecDeque<Insert>,
}

impl Outbox {
    /// The buffer that requests are appended to.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Appends a value of the block.
    #[inline]
    pub fn put_value(&mut self, block: &ValueBlock, start: usize, len: usize) {
        if len < IN_PLACE_MIN {
            self.buffer.extend_from_slice(block.value(start, len));
        } else {
            self.inserts.push_back(Insert { at: self.buffer.len(), start, len });
        }
    }

    /// Writes as much as the socket takes; true when nothing is left.
    #[inline]
    pub fn flush(&mut self, stream: &mut Stream, block: &ValueBlock) -> io::Result<bool> {
        while !self.done() {
            let result = if self.inserts.is_empty() {
                stream.write(&self.buffer[self.sent..])
            } else {
                self.write_segments(stream, block)
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.advance(written),
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

    fn done(&self) -> bool {
        self.sent == self.buffer.len() && self.inserts.is_empty()
    }

    fn write_segments(&self, stream: &mut Stream, block: &ValueBlock) -> io::Result<usize> {
        let mut segments = [IoSlice::new(&[]); SEGMENTS_MAX];
        let mut count = 0;
        let mut at = self.sent;
        for insert in self.inserts.iter().take((SEGMENTS_MAX - 1) / 2) {
            segments[count] = IoSlice::new(&self.buffer[at..insert.at]);
            segments[count + 1] = IoSlice::new(block.value(insert.start, insert.len));
            count += 2;
            at = insert.at;
        }
        let end = self.inserts.get(count / 2).map_or(self.buffer.len(), |insert| insert.at);
        segments[count] = IoSlice::new(&self.buffer[at..end]);
        stream.write_vectored(&segments[..=count])
    }

    /// Moves past `written` bytes of the alternating segments.
    fn advance(&mut self, mut written: usize) {
        while written > 0 {
            let own_end = self.inserts.front().map_or(self.buffer.len(), |insert| insert.at);
            let own = written.min(own_end - self.sent);
            self.sent += own;
            written -= own;
            if self.sent < own_end {
                return;
            }
            let Some(insert) = self.inserts.front_mut() else { return };
            let step = written.min(insert.len);
            insert.start += step;
            insert.len -= step;
            written -= step;
            if insert.len == 0 {
                self.inserts.pop_front();
            }
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
    fn outbox_sends_buffer_and_inserted_values_in_order() {
        let block = ValueBlock::new(400_000);
        let (left, mut right) = UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        let mut left = Stream::Unix(left);
        let mut outbox = Outbox::default();
        let mut want = Vec::new();
        for i in 0..20usize {
            let len = if i % 3 == 0 { 300_000 + i } else { 10 + i };
            outbox.buffer().extend_from_slice(b"head");
            outbox.put_value(&block, i * 7, len);
            outbox.buffer().extend_from_slice(b"tail");
            want.extend_from_slice(b"head");
            want.extend_from_slice(block.value(i * 7, len));
            want.extend_from_slice(b"tail");
        }
        let mut got = Vec::new();
        let mut buffer = vec![0; 70_001];
        while got.len() < want.len() {
            outbox.flush(&mut left, &block).unwrap();
            let count = right.read(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..count]);
        }
        assert!(got == want);
        assert!(outbox.flush(&mut left, &block).unwrap() && outbox.buffer.is_empty());
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
