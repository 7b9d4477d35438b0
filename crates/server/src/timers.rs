//! Deadlines of connections. Nothing walks all of them: only what is due is looked at.

use petrel_net::Slot;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines, soonest first. A connection may have several; whoever is called looks whether it was for something.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Deadline>>,
}

#[derive(Eq, PartialEq)]
struct Deadline {
    at_ms: i64,
    slot: Slot,
}

impl Timers {
    /// Asks for `slot` to be looked at when `at_ms` (Unix time) has come.
    pub fn set(&mut self, at_ms: i64, slot: Slot) {
        self.heap.push(Reverse(Deadline { at_ms, slot }));
    }

    /// The next connection to be looked at now.
    pub fn due(&mut self, now_ms: i64) -> Option<Slot> {
        let Reverse(next) = self.heap.peek()?;
        if next.at_ms > now_ms {
            return None;
        }
        self.heap.pop().map(|Reverse(deadline)| deadline.slot)
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ms, self.slot.index()).cmp(&(other.at_ms, other.slot.index()))
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
