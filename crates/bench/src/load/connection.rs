//! Connection of the load generator: requests to be sent, replies expected.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Instant;

use crate::wire::Stream;

/// Bytes to be sent.
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

/// Requests without a reply, in groups with the same due time.
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

    /// Records `count` sent requests; their latency runs from `since`.
    #[inline]
    pub fn push(&mut self, since: Instant, count: usize) {
        self.total += count;
        self.groups.push_back((since, count));
    }

    /// Removes `count` answered requests, oldest first, and passes on each group's start and size.
    /// False if there were fewer requests than replies.
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
    use std::io::Read;
    use std::os::unix::net::UnixStream;

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
