//! Lane: the log of one node for a sixteenth of the slots, sent to all other members in one order.
//!
//! ```text
//! position   1   2   3   4   5   6   7   8        an entry: receivers, and a record
//!            :   :   :   +---+---+---+---+---+
//!            :   :   :   | A | B |AB | A |AB |    effects go to all owners; a forwarded command or
//!            :   :   :   +---+---+---+---+---+    an answer goes to one node
//!                        ^           ^       ^
//!                        A applied   B sent  seq
//! ```
//!
//! An entry is kept until all members have applied the lane up to it, so a new link resumes at the
//! position that the receiver names. If the bytes kept in all lanes exceed the limit, and this lane
//! exceeds its share, the member that has applied least is cut off: nothing more is kept for it,
//! and it has to rejoin under a new incarnation. The two largest records do not count towards the
//! limit.

use crate::safe::Need;
use crate::slot_map::Node;
use crate::view::{NODES_MAX, NodeSet};
use crate::wire::positions::LanePosition;
use crate::wire::{
    BatchHead, HEADER_LEN, KeptHead, LANES, is_of_commit, is_ordered, len_with_gap, put_batch_head,
    put_joined_with_gap,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum number of entries scanned for one batch.
const ENTRIES_PER_BATCH: u64 = 4096;

/// Number of records, each as large as the largest one, that may exceed the backlog limit.
const LARGE_RECORDS: usize = 2;

/// Variant of a record for the origin of the command.
pub(crate) struct ForOrigin {
    /// The origin.
    pub to: Node,
    /// The record without some arguments, if they were elided.
    pub short: Option<Box<[u8]>>,
    /// For an origin that does not own the slot, and keeps the record.
    pub kept: Option<Keep>,
}

/// Head and needs of a record that its receiver keeps ([`crate::wire::Record::Kept`]).
pub(crate) struct Keep {
    /// Names the slot's previous change.
    pub head: KeptHead,
    /// Changes of others that must be safe before the origin is sent the record.
    pub needs: Box<[Need]>,
}

struct Entry {
    to: NodeSet,
    record: Box<[u8]>,
    for_origin: Option<Box<ForOrigin>>,
    /// Changes that must be safe before the record is sent to a member that does not receive the
    /// changes of their slots anyway.
    needs: Box<[Need]>,
}

impl Entry {
    fn bytes(&self) -> usize {
        let for_origin = self.for_origin.as_ref().map(|variant| {
            let needs = variant.kept.as_ref().map_or(0, |kept| size_of_val(&*kept.needs));
            size_of::<ForOrigin>() + variant.short.as_ref().map_or(0, |short| short.len()) + needs
        });
        let needs = size_of_val(&*self.needs);
        size_of::<Entry>() + self.record.len() + for_origin.unwrap_or(0) + needs
    }
}

/// A record as sent to one member: two pieces, of which the first may be empty, and its needs.
type Outgoing<'a> = ((&'a [u8], &'a [u8]), &'a [Need]);

/// Result of [`Lane::put_batch`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Put {
    /// Nothing can be sent now.
    Nothing,
    /// Only acknowledgements and positions of others' records, which may be sent later.
    Later,
    /// A batch was appended.
    Batch {
        /// Whether it has changes of slots.
        has_changes: bool,
    },
}

/// Replication progress of one member.
#[derive(Clone, Copy, Default)]
struct Peer {
    /// Last position sent.
    sent: u64,
    /// Last position that the member has applied.
    applied: u64,
    /// The member has sent `RESUME` on the current link.
    is_ready: bool,
    /// The member has sent `RESUME` at least once, so it cannot have received more than `sent`.
    has_begun: bool,
    /// Records up to this position are sent without elided arguments: the link broke after them,
    /// and the member may have answered their commands since.
    whole: u64,
    /// Stable position in the last batch on this link; none before the first batch.
    stable: Option<u64>,
}

/// Outgoing lane of this node.
pub(crate) struct Lane {
    /// The last position assigned.
    seq: u64,
    /// Position of the last change made here.
    changed: u64,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Bytes kept in all lanes.
    all_bytes: Arc<AtomicUsize>,
    /// Limit for `all_bytes`.
    bytes_max: usize,
    /// Bytes of the largest record since the lane was last empty.
    largest: usize,
    /// All other members, without the `cut_off` ones.
    members: NodeSet,
    /// Members that were cut off.
    cut_off: NodeSet,
    peers: Vec<Peer>,
}

impl Lane {
    pub fn new(members: NodeSet, all_bytes: Arc<AtomicUsize>, bytes_max: usize) -> Self {
        Lane {
            seq: 0,
            changed: 0,
            entries: VecDeque::new(),
            bytes: 0,
            all_bytes,
            bytes_max,
            largest: 0,
            members,
            cut_off: NodeSet::default(),
            peers: vec![Peer::default(); NODES_MAX.into()],
        }
    }

    /// The last position.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Position of the last change made here.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Appends a change made here, like [`Lane::push`]. The origin of the command is sent
    /// `for_origin` instead of the record.
    pub fn push_change(
        &mut self,
        to: Option<NodeSet>,
        record: &[u8],
        for_origin: Option<ForOrigin>,
        needs: Box<[Need]>,
    ) -> u64 {
        self.changed = self.append(to, record, for_origin, needs);
        self.changed
    }

    /// Bytes kept in this lane.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Members that were cut off and have to rejoin; [`crate::wire::Frame::CutOff`] notifies them.
    pub fn cut_off(&self) -> NodeSet {
        self.cut_off
    }

    /// Lets commits of several slots be sent that wait until earlier changes have another owner.
    pub fn release_commits(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| is_of_commit(&entry.record)) {
            let before = entry.bytes();
            entry.needs = Box::default();
            if let Some(kept) = entry.for_origin.as_mut().and_then(|origin| origin.kept.as_mut()) {
                kept.needs = Box::default();
            }
            let less = before - entry.bytes();
            self.bytes -= less;
            self.all_bytes.fetch_sub(less, Relaxed);
        }
    }

    /// Appends a record for the given members, or for all, and returns its position. If none of
    /// them is a member, appends nothing and returns the last position.
    pub fn push(&mut self, to: Option<NodeSet>, record: &[u8]) -> u64 {
        self.append(to, record, None, Box::default())
    }

    /// Like [`Lane::push`]; the record is sent once these changes are safe.
    pub fn push_later(&mut self, to: NodeSet, record: &[u8], needs: Box<[Need]>) -> u64 {
        self.append(Some(to), record, None, needs)
    }

    fn append(
        &mut self,
        to: Option<NodeSet>,
        record: &[u8],
        for_origin: Option<ForOrigin>,
        needs: Box<[Need]>,
    ) -> u64 {
        if to.is_some_and(|to| to.0 & self.members.0 == 0) {
            return self.seq;
        }
        self.seq += 1;
        let to = NodeSet(to.map_or(u64::MAX, |to| to.0) & self.members.0);
        let (record, for_origin) = (record.into(), for_origin.map(Box::new));
        let entry = Entry { to, record, for_origin, needs };
        let bytes = entry.bytes();
        self.bytes += bytes;
        self.all_bytes.fetch_add(bytes, Relaxed);
        self.largest = self.largest.max(bytes);
        self.entries.push_back(entry);
        if self.has_too_much() || self.members.0 == 0 {
            self.trim();
            while self.has_too_much() && self.members.0 != 0 {
                self.cut_last_off();
            }
        }
        self.seq
    }

    fn has_too_much(&self) -> bool {
        let large = LARGE_RECORDS * self.largest;
        self.bytes > self.bytes_max / LANES + large
            && self.all_bytes.load(Relaxed) > self.bytes_max + large
    }

    fn peer(&mut self, node: Node) -> &mut Peer {
        &mut self.peers[usize::from(node.0 % NODES_MAX)]
    }

    fn member_nodes(&self) -> impl Iterator<Item = Node> {
        self.members.iter()
    }

    /// The stable position: all members have applied the lane up to it.
    pub fn stable(&self) -> u64 {
        let applied = self.member_nodes().map(|node| self.peers[usize::from(node.0)].applied);
        applied.min().unwrap_or(self.seq)
    }

    /// Number of positions that a member has not applied.
    pub fn lag_of(&self, node: Node) -> u64 {
        self.seq.saturating_sub(self.peers[usize::from(node.0 % NODES_MAX)].applied)
    }

    /// The members that have applied everything up to a position.
    pub fn members_at(&self, position: u64) -> NodeSet {
        let is_there = |node: &Node| self.peers[usize::from(node.0)].applied >= position;
        self.member_nodes().filter(is_there).collect()
    }

    /// The records that one of their receivers has not applied, with these receivers.
    pub fn unapplied(&self) -> impl Iterator<Item = (NodeSet, &[u8])> {
        let begin = self.seq - self.entries.len() as u64;
        (begin + 1..).zip(&self.entries).filter_map(|(seq, entry)| {
            let to = NodeSet(entry.to.0 & !self.members_at(seq).0 & self.members.0);
            (to != NodeSet::default()).then_some((to, &*entry.record))
        })
    }

    /// Position of this node in its own lane, as sent to a joining member.
    pub fn position(&self, epoch: u64) -> LanePosition {
        let (begin, stable) = (self.seq - self.entries.len() as u64, self.stable());
        let kept = (begin + 1..).zip(&self.entries).filter(|(seq, _)| *seq > stable);
        let ordered = kept.filter(|(_, entry)| is_ordered(&entry.record));
        let tail = ordered.map(|(seq, entry)| (seq, Arc::from(&entry.record[..]))).collect();
        LanePosition { applied: self.seq, end_epoch: epoch, stable, tail }
    }

    /// Discards entries up to the stable position.
    fn trim(&mut self) {
        let stable = self.stable();
        while self.seq - (self.entries.len() as u64) < stable
            && let Some(entry) = self.entries.pop_front()
        {
            let bytes = entry.bytes();
            self.bytes -= bytes;
            self.all_bytes.fetch_sub(bytes, Relaxed);
        }
        debug_assert_eq!(self.entries.is_empty(), self.bytes == 0);
        debug_assert!(self.entries.len() as u64 <= self.seq);
        if self.entries.is_empty() {
            self.largest = 0;
        }
    }

    fn cut_last_off(&mut self) {
        let stable = self.stable();
        let last: NodeSet = self
            .member_nodes()
            .filter(|node| self.peers[usize::from(node.0)].applied == stable)
            .collect();
        self.members.0 &= !last.0;
        self.cut_off.0 |= last.0;
        self.trim();
    }

    /// Sets the other members. New ones, which it returns, start after the last position.
    pub fn set_members(&mut self, members: NodeSet) -> NodeSet {
        let mut new = NodeSet::default();
        for node in (0..NODES_MAX).map(Node) {
            let was_there = self.members.contains(node) || self.cut_off.contains(node);
            if members.contains(node) && !was_there {
                let seq = self.seq;
                *self.peer(node) = Peer { sent: seq, applied: seq, ..Peer::default() };
                new = new.with(node);
            }
        }
        self.cut_off.0 &= members.0;
        self.members = NodeSet(members.0 & !self.cut_off.0);
        assert!(members.includes(self.cut_off), "members that were cut off are members");
        self.trim();
        new
    }

    /// Removes the receiver of the record at a position, if it is addressed to this member alone
    /// and `is_meant` confirms it. The member does not get the record unless it has already
    /// received it.
    pub fn withdraw(&mut self, node: Node, position: u64, is_meant: impl Fn(&[u8]) -> bool) {
        let begin = self.seq - self.entries.len() as u64;
        let at = position.checked_sub(begin + 1).and_then(|at| usize::try_from(at).ok());
        let entry = at.and_then(|at| self.entries.get_mut(at));
        if let Some(entry) = entry.filter(|entry| entry.to == NodeSet::of(node))
            && is_meant(&entry.record)
        {
            entry.to = NodeSet::default();
        }
    }

    /// Stops sending to a member after its link has ended, until it sends `RESUME`.
    pub fn interrupt(&mut self, node: Node) {
        self.peer(node).is_ready = false;
    }

    /// Handles `RESUME`: the member has received everything up to this position, perhaps in a copy
    /// of another member's data. Returns false for an impossible position.
    pub fn resume(&mut self, node: Node, received: u64) -> bool {
        if !self.members.contains(node) {
            return true;
        }
        let seq = self.seq;
        let peer = self.peer(node);
        let most = if peer.has_begun { peer.sent } else { seq };
        if received < peer.applied || received > most {
            return false;
        }
        *peer = Peer {
            sent: received,
            is_ready: true,
            has_begun: true,
            whole: seq,
            stable: None,
            ..*peer
        };
        true
    }

    /// The position after which a member starts that has received nothing yet.
    pub fn begin_of(&mut self, node: Node) -> u64 {
        self.peer(node).applied
    }

    /// Handles an acknowledgement: the member has applied everything up to this position. Returns
    /// false for an impossible position.
    pub fn acknowledge(&mut self, node: Node, applied: u64) -> bool {
        if !self.members.contains(node) {
            return true;
        }
        let peer = self.peer(node);
        // An acknowledgement from an earlier link is merely outdated.
        if applied > peer.sent {
            return false;
        }
        if applied > peer.applied {
            peer.applied = applied;
            self.trim();
        }
        true
    }

    /// Appends the next batch for a member, of about `budget` bytes, to `out`. `number` is the
    /// lane's. `applied` is the new acknowledgement of the receiver's own lane; `is_worth_it` sends
    /// it even without records. The batch ends before the first record for the member with needs
    /// that `is_held`. A batch without records is sent only if `is_worth_it`.
    pub fn put_batch(
        &mut self,
        (number, node): (u8, Node),
        (applied, is_worth_it): (Option<u64>, bool),
        is_held: impl Fn(&[Need]) -> bool,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> Put {
        let seq = self.seq;
        let peer = self.peers[usize::from(node.0 % NODES_MAX)];
        if !peer.is_ready || !self.members.contains(node) {
            return Put::Nothing;
        }
        let from = peer.sent;
        let (mut upto, mut last, mut len, mut records) = (from, from, 0, 0);
        let mut has_changes = false;
        while upto < seq && upto - from < ENTRIES_PER_BATCH {
            if let Some(((first, rest), needs)) = self.record_for(node, upto + 1) {
                if len >= budget || !needs.is_empty() && is_held(needs) {
                    break;
                }
                len += len_with_gap(upto + 1 - last, first.len() + rest.len());
                last = upto + 1;
                records += 1;
                has_changes |= first.is_empty() && is_ordered(rest);
            }
            upto += 1;
        }
        if records == 0 {
            let is_news = applied.is_some() || upto > from;
            match (is_news, is_worth_it) {
                (false, _) => return Put::Nothing,
                (true, false) => return Put::Later,
                (true, true) => {}
            }
        }
        let stable = self.stable().min(from);
        let known = self.peer(node);
        known.sent = upto;
        let before = known.stable.replace(stable);
        let head = BatchHead {
            from: before.is_none().then_some(from),
            count: upto - from,
            applied,
            unstable: (before != Some(stable)).then_some(from - stable),
            len,
            is_one: (upto - from, records) == (1, 1),
        };
        out.reserve(len + HEADER_LEN * 4);
        put_batch_head(out, number, &head);
        let mut last = from;
        for at in from + 1..=upto {
            if let Some((pieces, _)) = self.record_for(node, at) {
                put_joined_with_gap(out, at - last, pieces);
                last = at;
            }
        }
        Put::Batch { has_changes }
    }

    /// The record of a position as sent to a member; none if it is for others.
    fn record_for(&self, node: Node, position: u64) -> Option<Outgoing<'_>> {
        let begin = self.seq - self.entries.len() as u64;
        let entry = self.entries.get(usize::try_from(position - begin - 1).ok()?)?;
        if !entry.to.contains(node) {
            return None;
        }
        let Some(variant) = entry.for_origin.as_deref().filter(|variant| variant.to == node) else {
            return Some(((&[], &entry.record), &entry.needs));
        };
        let whole = self.peers[usize::from(node.0 % NODES_MAX)].whole;
        let short = variant.short.as_ref().filter(|_| position > whole);
        let record = short.unwrap_or(&entry.record);
        Some(match &variant.kept {
            Some(Keep { head, needs }) => ((head.bytes(), record), needs),
            None => ((&[], record), &entry.needs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Batch, Record, put_record, take_batch, take_with_gap};

    fn end(epoch: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_record(&mut out, &Record::End { epoch });
        out
    }

    fn next_batch<'r>(
        lane: &mut Lane,
        node: Node,
        news: (Option<u64>, bool),
        budget: usize,
        room: &'r mut Vec<u8>,
    ) -> Option<Batch<'r>> {
        room.clear();
        let put = lane.put_batch((3, node), news, |_| false, budget, room);
        matches!(put, Put::Batch { .. }).then(|| {
            let mut bytes = &room[..];
            let taken = take_batch(&mut bytes).unwrap();
            assert_eq!((taken.0, bytes), (3, &[][..]));
            taken.1
        })
    }

    /// Positions of the records of a batch.
    fn positions(from: u64, batch: &Batch<'_>) -> Vec<u64> {
        let (mut records, mut record, mut at) = (batch.records, Vec::new(), from);
        let mut positions = Vec::new();
        while !records.is_empty() {
            at += take_with_gap(&mut records, &mut record).unwrap();
            positions.push(at);
        }
        positions
    }

    const A: Node = Node(1);
    const B: Node = Node(2);

    fn lane() -> Lane {
        let mut lane = Lane::new([A, B].into_iter().collect(), Arc::default(), 4096);
        assert!(lane.resume(A, 0) && lane.resume(B, 0));
        lane
    }

    #[test]
    fn each_member_is_sent_its_records() {
        let (mut lane, mut room) = (lane(), Vec::new());
        lane.push(None, &end(1));
        lane.push(Some(NodeSet::of(B)), &end(2));
        lane.push(None, &end(3));
        let batch = next_batch(&mut lane, A, (Some(7), true), 1000, &mut room).unwrap();
        let numbers = (batch.from, batch.count, batch.applied, batch.unstable);
        assert_eq!(numbers, (Some(0), 3, Some(7), Some(0)));
        assert_eq!(positions(0, &batch), [1, 3]);
        assert_eq!(
            positions(0, &next_batch(&mut lane, B, (None, true), 1000, &mut room).unwrap()),
            [1, 2, 3]
        );
        assert!(next_batch(&mut lane, A, (None, true), 1000, &mut room).is_none());
        let batch = next_batch(&mut lane, A, (Some(8), true), 1000, &mut room).unwrap();
        let numbers = (batch.from, batch.count, batch.applied, batch.unstable);
        assert_eq!(numbers, (None, 0, Some(8), None));
        lane.push(None, &end(4));
        let batch = next_batch(&mut lane, A, (None, true), 1000, &mut room).unwrap();
        let numbers = (batch.from, batch.count, batch.applied, batch.unstable);
        assert_eq!((numbers, positions(3, &batch)), ((None, 1, None, None), vec![4]));
    }

    #[test]
    fn a_new_link_resumes_at_the_named_position() {
        let (mut lane, mut room) = (lane(), Vec::new());
        for epoch in 1..=3 {
            lane.push(None, &end(epoch));
        }
        next_batch(&mut lane, A, (None, true), 1000, &mut room).unwrap();
        lane.interrupt(A);
        assert!(next_batch(&mut lane, A, (Some(0), true), 1000, &mut room).is_none());
        assert!(!lane.resume(A, 4));
        assert!(lane.resume(A, 1));
        let batch = next_batch(&mut lane, A, (None, true), 1000, &mut room).unwrap();
        assert_eq!((batch.from, positions(1, &batch)), (Some(1), vec![2, 3]));
        assert!(lane.acknowledge(A, 3) && !lane.acknowledge(A, 4) && !lane.resume(A, 2));
        assert_eq!(lane.stable(), 0);
        next_batch(&mut lane, B, (None, true), 1000, &mut room).unwrap();
        assert!(lane.acknowledge(B, 2));
        assert_eq!((lane.stable(), lane.entries.len()), (2, 1));
    }

    #[test]
    fn the_origin_of_a_change_is_sent_less_unless_its_link_breaks() {
        let (mut lane, mut room) = (lane(), Vec::new());
        let (whole, short) = (end(1 << 40), end(2));
        let variant = |kept| Some(ForOrigin { to: B, short: Some(short.clone().into()), kept });
        let mut sent = |lane: &mut Lane, to| {
            let (mut records, mut record) =
                (next_batch(lane, to, (None, true), 1000, &mut room).unwrap().records, Vec::new());
            take_with_gap(&mut records, &mut record).unwrap();
            assert!(records.is_empty());
            record
        };
        lane.push_change(None, &whole, variant(None), Box::default());
        assert_eq!((sent(&mut lane, A), sent(&mut lane, B)), (whole.clone(), short.clone()));
        lane.interrupt(B);
        assert!(lane.resume(B, 0));
        assert_eq!(sent(&mut lane, B), whole);
        lane.push_change(None, &whole, variant(None), Box::default());
        assert_eq!(sent(&mut lane, B), short);
        assert!(lane.acknowledge(A, 1) && lane.acknowledge(B, 2));
        sent(&mut lane, A);
        assert!(lane.acknowledge(A, 2));
        assert_eq!((lane.bytes(), lane.all_bytes.load(Relaxed)), (0, 0));
        let keep = Keep { head: KeptHead::new(300), needs: Box::default() };
        lane.push_change(None, &whole, variant(Some(keep)), Box::default());
        let kept = |record: &[u8]| [&[0, 6, 0xac, 2], record].concat();
        assert_eq!((sent(&mut lane, A), sent(&mut lane, B)), (whole.clone(), kept(&short)));
        lane.interrupt(B);
        assert!(lane.resume(B, 2));
        assert_eq!(sent(&mut lane, B), kept(&whole));
    }

    #[test]
    fn large_records_cut_no_member_off_until_there_are_several() {
        let mut lane = lane();
        let large = vec![0; 100_000];
        lane.push(None, &end(1));
        lane.push(None, &large);
        lane.push(None, &end(2));
        lane.push(None, &large);
        assert_eq!(lane.cut_off(), NodeSet::default());
        lane.push(None, &large);
        lane.push(None, &large);
        assert_eq!((lane.cut_off(), lane.bytes()), ([A, B].into_iter().collect(), 0));
        assert_eq!(lane.all_bytes.load(Relaxed), 0);
    }

    #[test]
    fn a_lagging_member_is_cut_off() {
        let (mut lane, mut room) = (lane(), Vec::new());
        for epoch in 0..1000 {
            let seq = lane.push(None, &end(epoch));
            next_batch(&mut lane, A, (None, true), 1000, &mut room).unwrap();
            assert!(lane.acknowledge(A, seq));
            assert!(lane.bytes() <= 4096 + 3 * 64);
        }
        assert_eq!(lane.cut_off(), NodeSet::of(B));
        assert!(next_batch(&mut lane, B, (None, true), 1000, &mut room).is_none());
        assert_eq!((lane.stable(), lane.bytes()), (1000, 0));
        // A member that was cut off starts afresh after a view without it.
        lane.set_members(NodeSet::of(A));
        lane.set_members([A, B].into_iter().collect());
        assert_eq!((lane.cut_off().0, lane.stable()), (0, 1000));
    }
}
