//! Deadlines of connections. Only due ones are visited, never all.

use petrel_net::Slot;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Deadlines, soonest first. A connection may have several; the caller checks whether one still
/// applies.
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
    /// Schedules a check of `slot` at `at_ms` (Unix time).
    pub fn set(&mut self, at_ms: i64, slot: Slot) {
        self.heap.push(Reverse(Deadline { at_ms, slot }));
    }

    /// Takes the next connection to check now.
    pub fn due(&mut self, now_ms: i64) -> Option<Slot> {
        let Reverse(next) = self.heap.peek()?;
        if next.at_ms > now_ms {
            return None;
        }
        self.heap.pop().map(|Reverse(deadline)| deadline.slot)
    }
}

/// Timeouts of blocked connections, soonest first; each is removed when its wait ends. The clock is
/// truncated to milliseconds, so one more than requested has to pass.
#[derive(Default)]
pub struct Deadlines {
    /// By time and the number of the connection.
    slots: BTreeMap<(i64, u64), Slot>,
}

impl Deadlines {
    /// Schedules the timeout of a connection at `at_ms` (Unix time).
    pub fn add(&mut self, at_ms: i64, id: u64, slot: Slot) {
        self.slots.insert((at_ms, id), slot);
    }

    /// Removes a deadline.
    pub fn remove(&mut self, at_ms: i64, id: u64) {
        self.slots.remove(&(at_ms, id));
    }

    /// Time of the next deadline.
    #[inline]
    pub fn next_ms(&self) -> Option<i64> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots.keys().next().map(|&(at_ms, _)| at_ms.saturating_add(1))
    }

    /// Takes the next connection with an expired deadline.
    pub fn due(&mut self, now_ms: i64) -> Option<Slot> {
        let first = self.slots.first_entry().filter(|first| first.key().0 < now_ms)?;
        Some(first.remove())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_are_forgotten() {
        let mut deadlines = Deadlines::default();
        assert_eq!(deadlines.next_ms(), None);
        for (at, id) in [(30, 1), (10, 2), (20, 3), (20, 4)] {
            deadlines.add(at, id, Slot::NOWHERE);
        }
        deadlines.remove(10, 2);
        deadlines.remove(10, 9);
        assert_eq!(deadlines.next_ms(), Some(21));
        assert_eq!(deadlines.due(20), None);
        assert!(deadlines.due(21).is_some() && deadlines.due(21).is_some());
        assert_eq!(deadlines.due(21), None);
        assert_eq!(deadlines.next_ms(), Some(31));
        deadlines.add(i64::MAX, 5, Slot::NOWHERE);
        assert!(deadlines.due(31).is_some() && deadlines.due(i64::MAX - 1).is_none());
    }
}
