//! Unsent output of a connection; exists only while there is some.

use std::collections::VecDeque;

use crate::output::{Cursor, Output, OutputPool};

/// Pieces handed to the kernel by one call.
pub(crate) const PIECES_MAX: usize = 64;
/// Empty outboxes kept for the next connections.
const POOL_MAX: usize = 256;
/// A pooled outbox keeps room for this many outputs; one that grew beyond is freed.
const QUEUE_RETAIN_MAX: usize = 16;

/// Outputs in order, the front one sent up to the cursor.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Output>,
    cursor: Cursor,
    unsent: usize,
    /// Bytes handed to the operation in the kernel, for back-ends that complete later.
    offered: usize,
    message: Option<Box<Message>>,
}

/// Pieces as `sendmsg` takes them, at an address that stays.
struct Message {
    header: libc::msghdr,
    pieces: [libc::iovec; PIECES_MAX],
}

impl Outbox {
    /// Queues a non-empty output.
    #[inline]
    pub(crate) fn push(&mut self, output: Output) {
        self.unsent += output.len();
        self.queue.push_back(output);
    }

    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent == 0
    }

    /// Everything as one piece, in the common case of one plain output not sent in part.
    #[inline]
    pub(crate) fn single(&self) -> Option<&[u8]> {
        let front = self.queue.front().filter(|_| self.queue.len() == 1)?;
        let plain = front.as_plain()?;
        Some(&plain[plain.len() - self.unsent..])
    }

    /// Calls `add` with the next pieces in order, at most [`PIECES_MAX`].
    pub(crate) fn pieces(&self, mut add: impl FnMut(&[u8])) {
        let mut room = PIECES_MAX;
        let mut cursor = self.cursor;
        for output in &self.queue {
            while let Some(piece) = cursor.piece(output) {
                if room == 0 {
                    return;
                }
                room -= 1;
                add(piece);
                cursor.advance(output, piece.len());
            }
            cursor = Cursor::default();
        }
    }

    /// Records the number of bytes handed to the next operation.
    #[inline]
    pub(crate) fn offer(&mut self, bytes: usize) {
        self.offered = bytes;
    }

    #[inline]
    pub(crate) fn offered(&self) -> usize {
        self.offered
    }

    /// Offers the next pieces as a message, which is valid until the outbox is changed.
    pub(crate) fn offer_pieces(&mut self) -> *const libc::msghdr {
        let mut message = self.message.take().unwrap_or_else(Message::empty);
        let (mut count, mut offered) = (0, 0);
        self.pieces(|piece| {
            message.pieces[count].iov_base = piece.as_ptr().cast_mut().cast();
            message.pieces[count].iov_len = piece.len();
            count += 1;
            offered += piece.len();
        });
        message.header.msg_iov = message.pieces.as_mut_ptr();
        message.header.msg_iovlen = count as _;
        self.offered = offered;
        &self.message.insert(message).header
    }

    /// The kernel took `count` bytes: outputs that are through go back to the pool.
    #[inline]
    pub(crate) fn sent(&mut self, count: usize, pool: &mut OutputPool) {
        let mut count = count.min(self.unsent);
        self.unsent -= count;
        if self.unsent == 0 {
            self.clear(pool);
            return;
        }
        while let Some(front) = self.queue.front() {
            match self.cursor.piece(front) {
                Some(piece) if count < piece.len() => {
                    self.cursor.advance(front, count);
                    return;
                }
                Some(piece) => {
                    count -= piece.len();
                    self.cursor.advance(front, piece.len());
                }
                None => {
                    self.cursor = Cursor::default();
                    self.queue.pop_front().into_iter().for_each(|output| pool.give(output));
                }
            }
        }
    }

    #[inline]
    fn clear(&mut self, pool: &mut OutputPool) {
        // Mostly there is one.
        while let Some(output) = self.queue.pop_front() {
            pool.give(output);
        }
        self.cursor = Cursor::default();
        self.unsent = 0;
    }
}

impl Message {
    fn empty() -> Box<Message> {
        // SAFETY: all-zero is a valid msghdr: no name, no pieces, no control data.
        let header = unsafe { std::mem::zeroed() };
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Box::new(Message { header, pieces: [none; PIECES_MAX] })
    }
}

/// Outputs and outboxes of a driver, for reuse.
#[derive(Default)]
pub(crate) struct Pools {
    pub(crate) outputs: OutputPool,
    // Boxed, since they move in and out of connections as one pointer each.
    #[allow(clippy::vec_box)]
    outboxes: Vec<Box<Outbox>>,
}

impl Pools {
    #[inline]
    pub(crate) fn take_outbox(&mut self) -> Box<Outbox> {
        self.outboxes.pop().unwrap_or_default()
    }

    /// Takes back an outbox and whatever it still holds.
    #[inline]
    pub(crate) fn give_outbox(&mut self, mut outbox: Box<Outbox>) {
        outbox.clear(&mut self.outputs);
        if self.outboxes.len() < POOL_MAX && outbox.queue.capacity() <= QUEUE_RETAIN_MAX {
            self.outboxes.push(outbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn partial_sends_keep_the_order() {
        for step in [1, 3, 7, 1000] {
            let mut pools = Pools::default();
            let mut outbox = pools.take_outbox();
            for i in 0..100 {
                let mut output = pools.outputs.take();
                output.bytes.extend_from_slice(format!("<{i}").as_bytes());
                output.splice(Bytes::from(format!("value {i}")));
                output.bytes.push(b'>');
                outbox.push(output);
            }
            let want: String = (0..100).map(|i| format!("<{i}value {i}>")).collect();
            assert_eq!(outbox.unsent(), want.len());
            let mut got = Vec::new();
            while !outbox.is_empty() {
                let mut offered = Vec::new();
                outbox.pieces(|piece| offered.extend_from_slice(piece));
                let n = offered.len().min(step);
                got.extend_from_slice(&offered[..n]);
                outbox.sent(n, &mut pools.outputs);
            }
            assert_eq!(got, want.as_bytes());
            assert!(outbox.queue.is_empty());
        }
    }

    #[test]
    fn a_single_plain_output_is_one_piece() {
        let mut pools = Pools::default();
        let mut outbox = pools.take_outbox();
        let plain = |text: &[u8]| {
            let mut output = Output::default();
            output.bytes.extend_from_slice(text);
            output
        };
        outbox.push(plain(b"hello"));
        assert_eq!(outbox.single(), Some(&b"hello"[..]));
        outbox.sent(2, &mut pools.outputs);
        assert_eq!(outbox.single(), Some(&b"llo"[..]));
        outbox.push(plain(b"!"));
        assert_eq!(outbox.single(), None);
    }
}
