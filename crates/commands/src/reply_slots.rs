//! Reply slots: a connection proceeds past commands that other nodes execute. The replies to later
//! commands wait here for their turn.
//!
//! ```text
//!  sent       GET a   INCR x   GET b   GET c   SET y   GET d     x and y have other primaries
//!  replies    a  ─────┐        b c ────┐       │       d
//!             slot 1: before a, INCR   slot 2: before b c, SET      behind: d
//! ```
//!
//! Local replies between two remote ones are kept before the second, or behind the last. Replies
//! are due up to the first missing one.

mod merge;

pub use merge::Merge;
pub(crate) use merge::are_done;

use crate::answer::Answer;
use crate::cluster::HashSlot;
use bytes::Bytes;
use merge::Whole;
use std::collections::VecDeque;

/// Maximum number of pending remote commands per connection.
pub const REMOTE_MAX: usize = 1024;

/// Bytes of queued replies above which the connection executes no further commands.
pub const HELD_BYTES_MAX: usize = 1024 * 1024;

/// Bits for a slot's number in a reply's name; the bits above are the number of the part.
const SEQ_BITS: u32 = 48;

/// Name of the reply to a part of a command, from the number of its slot.
pub fn part_of(seq: u64, part: usize) -> u64 {
    seq | (part as u64) << SEQ_BITS
}

/// A command that other nodes execute.
#[derive(Debug)]
struct Remote {
    seq: u64,
    /// Replies of local commands before it.
    before: Answer,
    /// Hash slots of the command.
    slots: Box<[HashSlot]>,
    /// Number of missing partial replies.
    missing: usize,
    /// Partial replies received so far.
    reply: Whole,
    /// Pushes to send after the reply.
    after: Vec<u8>,
    /// The reply is not sent.
    is_dropped: bool,
    /// The client caches what it reads: invalidations follow the reply.
    is_cached: bool,
}

/// Queued replies of a connection with pending remote commands.
#[derive(Debug, Default)]
pub struct ReplySlots {
    remote: VecDeque<Remote>,
    pending: PendingSlots,
    /// Replies of local commands after the last remote command.
    behind: Answer,
    /// Bytes of queued replies.
    bytes: usize,
    last: u64,
    /// Slot that has to be completed before the connection's next command.
    awaited: Option<u64>,
    /// Slot of a remote command that may block.
    holding_up: Option<u64>,
}

/// Number of counters of [`PendingSlots`].
const COUNTERS: usize = 512;

/// Hash slots of pending remote commands, counted, so that a long pipeline is seldom searched.
#[derive(Debug, Default)]
struct PendingSlots {
    /// Pending commands by hash slot, modulo [`COUNTERS`]; empty before the first.
    counts: Vec<u16>,
    /// Pending commands of several hash slots, or of none.
    several: usize,
}

impl PendingSlots {
    fn add(&mut self, slots: &[HashSlot]) {
        self.counts.resize(COUNTERS, 0);
        slots.iter().for_each(|slot| self.counts[usize::from(*slot) % COUNTERS] += 1);
        self.several += usize::from(slots.len() != 1);
    }

    fn remove(&mut self, slots: &[HashSlot]) {
        slots.iter().for_each(|slot| self.counts[usize::from(*slot) % COUNTERS] -= 1);
        self.several -= usize::from(slots.len() != 1);
    }

    /// Whether a command of one of these hash slots may be pending.
    fn may_have(&self, slots: &[HashSlot]) -> bool {
        let count = |slot: &HashSlot| self.counts.get(usize::from(*slot) % COUNTERS).copied();
        slots.iter().any(|slot| count(slot).unwrap_or(0) > 0)
    }
}

impl ReplySlots {
    /// Whether no remote reply is pending.
    pub fn is_empty(&self) -> bool {
        self.remote.is_empty()
    }

    /// Whether no remote reply is pending and no reply is queued.
    pub fn is_over(&self) -> bool {
        self.remote.is_empty() && self.bytes == 0 && self.awaited.is_none()
    }

    /// Number of pending remote commands.
    pub fn len(&self) -> usize {
        self.remote.len()
    }

    /// Bytes of queued replies.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Slot that has to be completed before further commands are executed, if a limit is reached.
    pub fn full_until(&self) -> Option<u64> {
        if self.holding_up.is_some() {
            return self.holding_up;
        }
        if self.remote.len() < REMOTE_MAX && self.bytes < HELD_BYTES_MAX {
            return None;
        }
        self.remote.get(self.remote.len() / 2).map(|remote| remote.seq)
    }

    /// Number of the last slot. A command that must not overtake any other waits for it.
    pub fn last(&self) -> Option<u64> {
        self.remote.back().map(|remote| remote.seq)
    }

    /// Number of the last slot with one of these hash slots.
    pub fn last_of(&self, slots: &[HashSlot]) -> Option<u64> {
        if !self.pending.may_have(slots) {
            return None;
        }
        let shares = |remote: &&Remote| remote.slots.iter().any(|slot| slots.contains(slot));
        self.remote.iter().rev().find(shares).map(|remote| remote.seq)
    }

    /// Like [`Self::last_of`], but ignores commands with exactly these hash slots: messages to one
    /// node keep their order.
    pub fn last_overlapping(&self, slots: &[HashSlot]) -> Option<u64> {
        // Single hash slots are equal or do not overlap.
        let are_single = slots.len() == 1 && self.pending.several == 0;
        if are_single || !self.pending.may_have(slots) {
            return None;
        }
        let overlaps = |remote: &&Remote| {
            *remote.slots != *slots && remote.slots.iter().any(|slot| slots.contains(slot))
        };
        self.remote.iter().rev().find(overlaps).map(|remote| remote.seq)
    }

    /// The number of the next slot.
    pub fn next_seq(&self) -> u64 {
        self.last + 1
    }

    /// Adds a slot for the reply to a command that other nodes execute in `parts` parts.
    pub fn push(&mut self, slots: &[HashSlot], parts: usize, merge: Merge, is_dropped: bool) {
        self.last += 1;
        self.pending.add(slots);
        self.remote.push_back(Remote {
            seq: self.last,
            before: std::mem::take(&mut self.behind),
            slots: slots.into(),
            missing: parts,
            reply: Whole::new(merge),
            after: Vec::new(),
            is_dropped,
            is_cached: false,
        });
    }

    /// Delays invalidations until the reply of the last slot added, which the client caches.
    pub fn delay_invalidations(&mut self) {
        self.remote.back_mut().into_iter().for_each(|last| last.is_cached = true);
    }

    /// Whether invalidations are to be queued behind a pending reply.
    pub fn delays_invalidations(&self) -> bool {
        self.remote.back().is_some_and(|last| last.is_cached)
    }

    /// Sets the places of each part's elements in the reply, for the last slot added
    /// ([`Merge::Places`]).
    pub fn place(&mut self, places: Vec<Vec<u32>>) {
        if let Some(last) = self.remote.back_mut() {
            last.reply.place(places);
        }
    }

    /// Sends a push after the reply of the last slot added.
    pub fn send_after(&mut self, message: Vec<u8>) {
        let Some(last) = self.remote.back_mut().filter(|last| !last.is_dropped) else { return };
        self.bytes = self.bytes + message.len() - last.after.len();
        last.after = message;
    }

    /// Executes no further commands until the last slot added is completed.
    pub fn hold_up(&mut self) {
        self.holding_up = self.last();
    }

    /// Whether a remote command may be blocked.
    pub fn is_held_up(&self) -> bool {
        self.holding_up.is_some()
    }

    /// Removes the last slot added, for a command that could not be sent; replies before it stay.
    pub fn take_back(&mut self) {
        if let Some(remote) = self.remote.pop_back() {
            self.pending.remove(&remote.slots);
            self.last -= 1;
            self.bytes -= remote.after.len();
            self.behind = remote.before;
            self.holding_up = self.holding_up.filter(|seq| *seq != remote.seq);
        }
    }

    /// Queues local replies: before the most recent remote command if `before`, else after it.
    pub fn hold(&mut self, replies: Answer, before: bool) {
        let held = match self.remote.back_mut().filter(|_| before) {
            Some(last) => &mut last.before,
            None => &mut self.behind,
        };
        self.bytes += append(held, replies);
    }

    /// Stores a reply of another node by its name; a reply without a slot is dropped.
    pub fn answer(&mut self, name: u64, reply: &[u8]) {
        let (seq, part) = (name & ((1 << SEQ_BITS) - 1), (name >> SEQ_BITS) as usize);
        let Ok(at) = self.remote.binary_search_by_key(&seq, |remote| remote.seq) else { return };
        let remote = &mut self.remote[at];
        if remote.missing == 0 {
            return;
        }
        remote.missing -= 1;
        if remote.reply.ends_with(part, reply) {
            remote.missing = 0;
        }
        if remote.is_dropped {
            return;
        }
        self.bytes -= remote.reply.len();
        remote.reply.add(part, reply, remote.missing == 0);
        self.bytes += remote.reply.len();
    }

    /// Moves due replies to the end of `due`.
    pub fn take_due(&mut self, due: &mut Answer) {
        while let Some(first) = self.remote.front_mut() {
            self.bytes -= append(due, std::mem::take(&mut first.before));
            if first.missing > 0 {
                return;
            }
            self.bytes -= first.reply.len() + first.after.len();
            due.bytes.append(first.reply.bytes_mut());
            due.bytes.append(&mut first.after);
            self.holding_up = self.holding_up.filter(|seq| *seq != first.seq);
            self.pending.remove(&first.slots);
            self.remote.pop_front();
        }
        self.bytes -= append(due, std::mem::take(&mut self.behind));
    }

    /// Delays the connection's next command until the slot `until` is completed.
    pub fn wait_for(&mut self, until: u64) {
        self.awaited = Some(until);
    }

    /// Whether a delayed command may be executed now; resets the delay.
    pub fn may_go_on(&mut self) -> bool {
        let Some(awaited) = self.awaited else { return false };
        let is_gone = self.remote.front().is_none_or(|first| first.seq > awaited);
        if is_gone {
            self.awaited = None;
        }
        is_gone
    }
}

/// Appends replies, and returns their bytes.
fn append(to: &mut Answer, mut replies: Answer) -> usize {
    let offset = to.bytes.len();
    let mut bytes = replies.bytes.len();
    if offset == 0 && to.shared.is_empty() {
        bytes += replies.shared.iter().map(|(_, value)| value.len()).sum::<usize>();
        *to = replies;
        return bytes;
    }
    to.bytes.append(&mut replies.bytes);
    for (at, value) in replies.shared {
        bytes += Bytes::len(&value);
        to.shared.push((offset + at, value));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> Answer {
        Answer { bytes: text.into(), shared: Vec::new() }
    }

    fn due(slots: &mut ReplySlots) -> String {
        let mut due = Answer::default();
        slots.take_due(&mut due);
        assert!(due.shared.is_empty());
        String::from_utf8(due.bytes).unwrap()
    }

    #[test]
    fn replies_are_sent_in_the_order_of_their_commands() {
        let mut slots = ReplySlots::default();
        slots.push(&[1], 1, Merge::Only, false);
        slots.hold(local("a"), true);
        slots.hold(local("b"), false);
        slots.push(&[2], 1, Merge::Only, false);
        slots.hold(local("c"), true);
        slots.hold(local("d"), false);
        assert_eq!((due(&mut slots), slots.bytes()), ("a".into(), 3));
        slots.answer(2, b"Y");
        assert_eq!(due(&mut slots), "");
        slots.answer(1, b"X");
        slots.answer(1, b"again");
        slots.answer(7, b"nobody");
        assert_eq!(due(&mut slots), "XbcYd");
        assert!(slots.is_empty() && slots.bytes() == 0);
    }

    #[test]
    fn large_values_keep_their_places() {
        let value = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut slots = ReplySlots::default();
        slots.push(&[1], 1, Merge::Only, false);
        slots.hold(Answer { bytes: b"12".into(), shared: vec![(1, value("A"))] }, false);
        slots.hold(Answer { bytes: b"34".into(), shared: vec![(0, value("B"))] }, false);
        assert_eq!(slots.bytes(), 6);
        slots.answer(1, b"X");
        let mut due = Answer { bytes: b"0".into(), shared: Vec::new() };
        slots.take_due(&mut due);
        assert_eq!(due.bytes, b"0X1234");
        assert_eq!(due.shared, [(3, value("A")), (4, value("B"))]);
        assert_eq!(slots.bytes(), 0);
    }

    #[test]
    fn parts_come_to_one_reply() {
        let mut slots = ReplySlots::default();
        for (merge, replies, whole) in [
            (Merge::Sum, [":1\r\n", ":2\r\n"], ":3\r\n"),
            (Merge::Same, ["+OK\r\n", "+OK\r\n"], "+OK\r\n"),
            (Merge::Sum, [":1\r\n", "-ERR no\r\n"], "-ERR no\r\n"),
            (Merge::Same, ["-ERR no\r\n", "+OK\r\n"], "-ERR no\r\n"),
            (Merge::Min, [":2\r\n", ":1\r\n"], ":1\r\n"),
            (Merge::Min, ["*2\r\n:1\r\n:3\r\n", "*2\r\n:2\r\n:0\r\n"], "*2\r\n:1\r\n:0\r\n"),
            (Merge::Min, ["*2\r\n:1\r\n:3\r\n", "-ERR no\r\n"], "-ERR no\r\n"),
            (Merge::Min, ["-ERR no\r\n", "*1\r\n:1\r\n"], "-ERR no\r\n"),
        ] {
            slots.push(&[1, 2], 2, merge, false);
            let seq = slots.last().unwrap();
            slots.answer(seq, replies[0].as_bytes());
            assert_eq!(due(&mut slots), "");
            slots.answer(seq, replies[1].as_bytes());
            assert_eq!(due(&mut slots), whole);
        }
    }

    #[test]
    fn elements_come_to_their_places() {
        let mut slots = ReplySlots::default();
        let mut whole = |replies: [(usize, &str); 2]| {
            slots.push(&[1, 2], 2, Merge::Places, false);
            slots.place(vec![vec![0, 3], vec![1, 2]]);
            slots.send_after(b">after".to_vec());
            let seq = slots.last().unwrap();
            for (part, reply) in replies {
                slots.answer(part_of(seq, part), reply.as_bytes());
            }
            due(&mut slots)
        };
        let (first, second) = ("*2\r\n$1\r\na\r\n$-1\r\n", "*2\r\n$2\r\n\r\n\r\n_\r\n");
        let expected = "*4\r\n$1\r\na\r\n$2\r\n\r\n\r\n_\r\n$-1\r\n>after";
        assert_eq!(whole([(0, first), (1, second)]), expected);
        assert_eq!(whole([(1, second), (0, first)]), expected);
        assert_eq!(whole([(1, "-ERR no\r\n"), (0, first)]), "-ERR no\r\n>after");
        assert_eq!(whole([(1, second), (0, "-ERR no\r\n")]), "-ERR no\r\n>after");
        for misfit in ["*1\r\n$1\r\na\r\n", "*2\r\n$9\r\na\r\n", "*2\r\n", "$1\r\na\r\n", ""] {
            assert!(
                whole([(0, misfit), (1, second)]).starts_with("-ERR The primaries"),
                "{misfit}"
            );
        }
        assert_eq!(slots.bytes(), 0);
    }

    #[test]
    fn errors_of_the_rest_take_the_places_of_a_transaction_s_replies() {
        let mut slots = ReplySlots::default();
        let nested = "%1\r\n$1\r\n*\r\n*2\r\n*-1\r\n,1.5\r\n";
        let push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        let done = format!("{push}*3\r\n{nested}+OK\r\n=5\r\ntxt:+\r\n");
        let failed = format!("{push}*3\r\n{nested}-NO way\r\n=5\r\ntxt:+\r\n");
        for (replies, whole) in [
            ([Some(&done[..]), Some("+OK\r\n"), Some("+OK\r\n")], &done[..]),
            ([Some(&done), Some("+OK\r\n"), Some("-NO way\r\n")], &failed),
            ([Some(&done), Some("-NO way\r\n"), Some("-NOT this\r\n")], &failed),
            // Without the transaction there is no rest.
            ([Some("*-1\r\n"), None, None], "*-1\r\n"),
            ([Some("_\r\n"), None, None], "_\r\n"),
            ([Some("-EXECABORT no\r\n"), None, None], "-EXECABORT no\r\n"),
            ([Some(&failed), None, None], &failed),
            ([Some("*3\r\n:1\r\n"), None, None], "*3\r\n:1\r\n"),
            ([Some("*1\r\n+OK\r\n"), None, None], "*1\r\n+OK\r\n"),
            ([Some("*3\r\n:1\r\n?\r\n+OK\r\n"), None, None], "*3\r\n:1\r\n?\r\n+OK\r\n"),
        ] {
            slots.push(&[1, 2], 3, Merge::Transaction, false);
            slots.place(vec![vec![1]]);
            let seq = slots.last().unwrap();
            for (part, reply) in replies.into_iter().enumerate() {
                let Some(reply) = reply else { continue };
                assert_eq!(due(&mut slots), "");
                slots.answer(part_of(seq, part), reply.as_bytes());
            }
            assert_eq!(due(&mut slots), whole);
        }
        assert_eq!(slots.bytes(), 0);
    }

    #[test]
    fn whoever_waits_goes_on_when_its_slot_is_gone() {
        let mut slots = ReplySlots::default();
        for slot in [5, 6, 5] {
            slots.push(&[slot], 1, Merge::Only, false);
        }
        assert_eq!(
            (slots.last_of(&[5]), slots.last_of(&[6, 7]), slots.last_of(&[7])),
            (Some(3), Some(2), None)
        );
        assert_eq!(
            (slots.last_overlapping(&[5]), slots.last_overlapping(&[5, 7])),
            (None, Some(3))
        );
        slots.wait_for(2);
        slots.answer(2, b"+\r\n");
        due(&mut slots);
        assert!(!slots.may_go_on());
        slots.answer(1, b"+\r\n");
        due(&mut slots);
        assert!(slots.may_go_on() && !slots.may_go_on());
    }

    #[test]
    fn there_is_a_limit() {
        let mut slots = ReplySlots::default();
        for _ in 0..REMOTE_MAX {
            assert_eq!(slots.full_until(), None);
            slots.push(&[1], 1, Merge::Only, true);
        }
        assert_eq!(slots.full_until(), Some(REMOTE_MAX as u64 / 2 + 1));
        for seq in 1..=REMOTE_MAX as u64 {
            slots.answer(seq, b"dropped");
        }
        assert_eq!(due(&mut slots), "");
        assert!(slots.is_empty());
        slots.push(&[1], 1, Merge::Only, false);
        slots.hold(local(&"x".repeat(HELD_BYTES_MAX)), false);
        assert_eq!(slots.full_until(), slots.last());
    }
}
