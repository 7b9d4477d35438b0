//! Links: in each direction bytes that arrive late, slowly, in pieces, or not at all.

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

/// One direction of a link.
#[derive(Debug, Default)]
pub struct Direction {
    /// What is on its way.
    pub pipe: Pipe,
    /// Bytes that may be on their way.
    pub window: usize,
    /// The receiver has to adopt a view first.
    pub is_early: bool,
}

/// All links: each direction by the numbers of the nodes from which and to which it leads.
#[derive(Debug, Default)]
pub struct Links(Vec<((u16, u16), Direction)>);

impl Links {
    /// How many directions there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, link: (u16, u16)) -> Result<usize, usize> {
        self.0.binary_search_by_key(&link, |(link, _)| *link)
    }

    /// Whether there is a direction.
    pub fn contains(&self, link: (u16, u16)) -> bool {
        self.find(link).is_ok()
    }

    /// The direction between two nodes.
    pub fn get_mut(&mut self, link: &(u16, u16)) -> Option<&mut Direction> {
        let at = self.find(*link).ok()?;
        Some(&mut self.0[at].1)
    }

    /// The direction in this place of their order.
    pub fn nth(&mut self, at: usize) -> Option<((u16, u16), &mut Direction)> {
        self.0.get_mut(at).map(|(link, direction)| (*link, direction))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = ((u16, u16), &Direction)> {
        self.0.iter().map(|(link, direction)| (*link, direction))
    }

    /// The same without their names.
    pub fn directions(&mut self) -> impl Iterator<Item = &mut Direction> {
        self.0.iter_mut().map(|(_, direction)| direction)
    }

    /// Adds one, or begins it anew.
    pub fn insert(&mut self, link: (u16, u16), window: usize) {
        let direction = Direction { window, ..Direction::default() };
        match self.find(link) {
            Ok(at) => self.0[at].1 = direction,
            Err(at) => self.0.insert(at, (link, direction)),
        }
    }

    /// Removes one.
    pub fn remove(&mut self, link: &(u16, u16)) {
        self.retain(|other| other != *link);
    }

    /// Removes all of which this is not so.
    pub fn retain(&mut self, is_kept: impl Fn((u16, u16)) -> bool) {
        self.0.retain(|(link, _)| is_kept(*link));
    }
}
