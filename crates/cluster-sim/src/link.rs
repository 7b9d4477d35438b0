//! A direction of a link: bytes that arrive late, slowly, in pieces, or not at all.

use crate::random::Random;
use std::collections::VecDeque;

/// Bytes on their way from one node to another.
#[derive(Debug, Default)]
pub struct Pipe {
    /// When they arrive, in simulated milliseconds, and what.
    chunks: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// Nothing arrives before.
    stalled_until: u64,
}

impl Pipe {
    /// Bytes on their way.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Sends bytes, to arrive no earlier than then, nor than those before.
    pub fn push(&mut self, arrive_at: u64, bytes: Vec<u8>) {
        let last = self.chunks.back().map_or(0, |(at, _)| *at);
        self.bytes += bytes.len();
        self.chunks.push_back((arrive_at.max(last), bytes));
    }

    /// Some of what has arrived by now, cut anywhere.
    pub fn pull(&mut self, now: u64, random: &mut Random) -> Option<Vec<u8>> {
        if now < self.stalled_until {
            return None;
        }
        let (at, chunk) = self.chunks.front_mut()?;
        if *at > now {
            return None;
        }
        let len = match random.one_in(3) {
            true => 1 + random.index(chunk.len()),
            false => chunk.len(),
        };
        let rest = chunk.split_off(len);
        let pulled = std::mem::replace(chunk, rest);
        if chunk.is_empty() {
            self.chunks.pop_front();
        }
        self.bytes -= pulled.len();
        Some(pulled)
    }

    /// Nothing arrives before then.
    pub fn stall(&mut self, until: u64) {
        self.stalled_until = until;
    }
}
