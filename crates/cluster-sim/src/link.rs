//! Links: each direction delivers bytes late, slowly, in fragments, or not at all.

use crate::random::Random;
use std::collections::VecDeque;

/// Bytes in transit from one node to another.
#[derive(Debug, Default)]
pub struct Pipe {
    /// Time of arrival in simulated milliseconds, and bytes.
    chunks: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// Time before which nothing is delivered.
    stalled_until: u64,
}

impl Pipe {
    /// Number of bytes in transit.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is in transit.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Sends bytes that arrive at `arrive_at`, but after earlier ones.
    pub fn push(&mut self, arrive_at: u64, bytes: Vec<u8>) {
        let last = self.chunks.back().map_or(0, |(at, _)| *at);
        self.bytes += bytes.len();
        self.chunks.push_back((arrive_at.max(last), bytes));
    }

    /// Takes some of the bytes that have arrived, fragmented arbitrarily.
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

    /// Delivers nothing before a time.
    pub fn stall(&mut self, until: u64) {
        self.stalled_until = until;
    }
}

/// Direction of a link.
#[derive(Debug, Default)]
pub struct Direction {
    /// Bytes in transit.
    pub pipe: Pipe,
    /// Maximum number of bytes in transit.
    pub window: usize,
    /// Whether the receiver has to adopt a view first.
    pub is_early: bool,
}

/// All directions of links, by sender and receiver.
#[derive(Debug, Default)]
pub struct Links(Vec<((u16, u16), Direction)>);

impl Links {
    /// Number of directions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, link: (u16, u16)) -> Result<usize, usize> {
        self.0.binary_search_by_key(&link, |(link, _)| *link)
    }

    /// Whether a direction exists.
    pub fn contains(&self, link: (u16, u16)) -> bool {
        self.find(link).is_ok()
    }

    /// The direction with this sender and receiver.
    pub fn get_mut(&mut self, link: &(u16, u16)) -> Option<&mut Direction> {
        let at = self.find(*link).ok()?;
        Some(&mut self.0[at].1)
    }

    /// The direction at an index.
    pub fn nth(&mut self, at: usize) -> Option<((u16, u16), &mut Direction)> {
        self.0.get_mut(at).map(|(link, direction)| (*link, direction))
    }

    /// All directions, in order.
    pub fn iter(&self) -> impl Iterator<Item = ((u16, u16), &Direction)> {
        self.0.iter().map(|(link, direction)| (*link, direction))
    }

    /// All directions, without sender and receiver.
    pub fn directions(&mut self) -> impl Iterator<Item = &mut Direction> {
        self.0.iter_mut().map(|(_, direction)| direction)
    }

    /// Adds a direction, or resets it.
    pub fn insert(&mut self, link: (u16, u16), window: usize) {
        let direction = Direction { window, ..Direction::default() };
        match self.find(link) {
            Ok(at) => self.0[at].1 = direction,
            Err(at) => self.0.insert(at, (link, direction)),
        }
    }

    /// Removes a direction.
    pub fn remove(&mut self, link: &(u16, u16)) {
        self.retain(|other| other != *link);
    }

    /// Keeps only the directions that satisfy `is_kept`.
    pub fn retain(&mut self, is_kept: impl Fn((u16, u16)) -> bool) {
        self.0.retain(|(link, _)| is_kept(*link));
    }
}
