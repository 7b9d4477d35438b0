//! Recovery of a dead member's lanes where members hold only some slots: which of the reported
//! records are applied, slot by slot.
//!
//! ```text
//! slot       the longest prefix that an owner has, then records that origins have kept
//! commit of  applied if someone has it, and each of its slots' prefixes ends right before it;
//! several    else each of its slots ends there
//! ```
//!
//! A member applies such a commit only if it has all positions of it. Each was sent to it after the
//! slot's previous change was replicated, or it owns the slot. So a commit that any member has
//! applied is recovered, unless two members have died at once. Then a slot may end before a commit
//! that other slots have.
//!
//! A reply that may show a lost change is lost with it: its command is sent again.

use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::reconcile::{Known, slot_of_group};
use crate::slot::Slot;
use crate::slot_map::Node;
use crate::view::NodeSet;
use crate::wire::{Change, Changes, LANES, Parts, Record, Slots, put_record};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// By lane: records to apply, by position.
type Queues = Vec<BTreeMap<u64, Arc<[u8]>>>;

/// Records of a dead member's lanes, read in the order in which it committed them.
pub(crate) struct OwnersRecovery<'f> {
    me: Node,
    /// By lane: the reported records that were not read yet.
    left: Vec<VecDeque<(u64, Known)>>,
    /// First lanes and positions of the commits of several slots that someone has reported.
    commits: BTreeSet<(usize, u64)>,
    /// By lane: all members have applied everything up to this position.
    stable: [u64; LANES],
    /// By lane: everything up to this position was applied here.
    applied: [u64; LANES],
    /// By lane: epoch of the view to which the next record belongs.
    epochs: [u64; LANES],
    /// By slot: position of the last record that is recovered.
    ends: BTreeMap<Slot, u64>,
    /// Slots of which nothing more is recovered.
    cut: BTreeSet<Slot>,
    /// The owners that contribute to the recovery of a slot's changes from the view of an epoch.
    followers: &'f dyn Fn(Slot, u64) -> NodeSet,
    queues: Queues,
    /// By lane: the last position of a recovered commit of several slots.
    last: [u64; LANES],
    lost: Lost,
}

/// By lane: position of the first lost change; `u64::MAX` if none is lost.
#[derive(Clone, Copy)]
pub(crate) struct Lost([u64; LANES]);

impl Lost {
    fn add(&mut self, lane: usize, seq: u64) {
        self.0[lane] = self.0[lane].min(seq);
    }

    /// Whether a reply that has observed a lane up to a position may show a lost change.
    pub fn may_show(&self, (lane, seq): (usize, u64)) -> bool {
        self.0.get(lane).is_some_and(|&first| first <= seq) && !is_broken(Mutation::AnswerLost)
    }
}

impl<'f> OwnersRecovery<'f> {
    /// Recovery from reported records (`known`), stable positions, applied positions and the epochs
    /// that follow these.
    pub fn new(
        me: Node,
        (known, stable): (Vec<BTreeMap<u64, Known>>, [u64; LANES]),
        (applied, ended): ([u64; LANES], [u64; LANES]),
        followers: &'f dyn Fn(Slot, u64) -> NodeSet,
    ) -> Self {
        let mut commits = BTreeSet::new();
        let mut epochs = ended;
        for (lane, records) in known.iter().enumerate() {
            let ends = |record: &Known| match Record::read(&record.1) {
                Ok(Record::End { epoch }) => Some(epoch),
                _ => None,
            };
            if let Some(epoch) = records.values().find_map(ends) {
                epochs[lane] = epoch.saturating_sub(1);
            }
            let is_commit =
                |record: &Known| matches!(Record::read(&record.1), Ok(Record::Commit { .. }));
            let of_lane = records.iter().filter(|(_, record)| is_commit(record));
            commits.extend(of_lane.map(|(&seq, _)| (lane, seq)));
        }
        let left = known.into_iter().map(|records| records.into_iter().collect()).collect();
        OwnersRecovery {
            me,
            left,
            commits,
            stable,
            applied,
            epochs,
            ends: BTreeMap::new(),
            cut: BTreeSet::new(),
            followers,
            queues: vec![BTreeMap::new(); LANES],
            last: [0; LANES],
            lost: Lost([u64::MAX; LANES]),
        }
    }

    /// Decides on all records. Returns those to apply here, by lane the last position of a
    /// recovered commit of several slots, and the lost positions.
    pub fn run(mut self) -> (Queues, [u64; LANES], Lost) {
        loop {
            let mut has_moved = false;
            for lane in 0..LANES {
                while self.step(lane) {
                    has_moved = true;
                }
            }
            if !has_moved {
                // All records are read: the order in which they were committed has no cycles.
                self.drop_answers();
                return (self.queues, self.last, self.lost);
            }
        }
    }

    /// Decides on the next record of a lane; false if there is none, or it belongs to a commit with
    /// earlier records in other lanes that were not read yet.
    fn step(&mut self, lane: usize) -> bool {
        let Some((seq, (by, record))) = self.left[lane].front().cloned() else { return false };
        match Record::read(&record) {
            Ok(Record::Commit { parts, changes, .. }) => {
                let is_next = |(lane, seq): (usize, u64)| {
                    self.left[lane].front().is_none_or(|(front, _)| *front >= seq)
                };
                if !parts.iter().all(is_next) {
                    return false;
                }
                self.decide(&record, parts, changes);
                return true;
            }
            Ok(Record::CommitPart { parts, slots }) => match parts.iter().next() {
                // Decided together with the changes.
                Some(first) if self.commits.contains(&first) => return false,
                // All members have applied it.
                Some((first, at)) if at <= self.stable[first] => {
                    self.ends.extend(slots.iter().map(|slot| (slot, seq)));
                }
                _ => {
                    self.lost.add(lane, seq);
                    self.cut.extend(slots.iter());
                }
            },
            Ok(Record::Effects { group, .. }) => {
                self.decide_one((lane, seq), by, None, group, &record)
            }
            Ok(Record::Kept { back, record: inner }) => {
                if let Ok(Record::Effects { group, .. }) = Record::read(inner) {
                    self.decide_one((lane, seq), by, Some(back), group, &record);
                }
            }
            Ok(Record::End { epoch }) => {
                self.epochs[lane] = epoch;
                self.keep((lane, seq), by, record.clone());
            }
            _ => self.keep((lane, seq), by, record.clone()),
        }
        self.left[lane].pop_front();
        true
    }

    /// Decides on a record of one slot.
    fn decide_one(
        &mut self,
        (lane, seq): (usize, u64),
        by: NodeSet,
        back: Option<u64>,
        group: &[u8],
        record: &Arc<[u8]>,
    ) {
        let Some(slot) = slot_of_group(group) else { return };
        let followers = (self.followers)(slot, self.epochs[lane]);
        let is_kept = back.is_some_and(|back| self.continues(slot, (lane, seq), back, followers))
            && !is_broken(Mutation::IgnoreKept);
        if self.cut.contains(&slot) || followers.0 & by.0 == 0 && !is_kept {
            self.lost.add(lane, seq);
            return;
        }
        self.ends.insert(slot, seq);
        if followers.contains(self.me) {
            self.keep((lane, seq), by, record.clone());
        }
    }

    /// Whether the slot's change before this position, at a distance of `back`, is recovered.
    fn continues(
        &self,
        slot: Slot,
        (lane, seq): (usize, u64),
        back: u64,
        followers: NodeSet,
    ) -> bool {
        let before = seq.saturating_sub(back);
        let applied = if followers.contains(self.me) { self.applied[lane] } else { 0 };
        let end = self.ends.get(&slot).copied().unwrap_or(0);
        back == 0
            || before <= applied.max(self.stable[lane]).max(end)
            || is_broken(Mutation::AppendAnyway)
    }

    /// Decides on a commit of several slots, and advances its lanes behind it.
    fn decide(&mut self, record: &Arc<[u8]>, parts: Parts<'_>, changes: Changes<'_>) {
        let (mut by_any, mut by_all) = ([NodeSet::default(); LANES], NodeSet(u64::MAX));
        let mut epoch = 0;
        for (lane, seq) in parts.iter() {
            let left = &mut self.left[lane];
            if let Some((front, (by, _))) = left.front()
                && *front == seq
            {
                by_any[lane] = *by;
                left.pop_front();
            }
            by_all.0 &= by_any[lane].0;
            epoch = epoch.max(self.epochs[lane]);
        }
        let is_recovered = |change: &Change<'_>| {
            let lane = lane_of(change.slot);
            let Some(seq) = parts.in_lane(lane) else { return false };
            let followers = (self.followers)(change.slot, epoch);
            let is_known = followers.0 & by_any[lane].0 != 0
                || self.continues(change.slot, (lane, seq), change.back, followers);
            is_known && !self.cut.contains(&change.slot)
        };
        let some: Vec<Change<'_>> = changes.iter().filter(is_recovered).collect();
        let is_whole = some.len() == changes.iter().count();
        // A member with all positions may have applied it.
        let is_applied = is_whole || by_all.0 != 0 || is_broken(Mutation::RecoverParts);
        let is_kept = |slot: Slot| is_applied && some.iter().any(|change| change.slot == slot);
        let lost = changes.iter().map(|change| change.slot).filter(|&slot| !is_kept(slot));
        for slot in lost {
            self.cut.insert(slot);
            let lane = lane_of(slot);
            parts.in_lane(lane).into_iter().for_each(|seq| self.lost.add(lane, seq));
        }
        if !is_applied || some.is_empty() {
            return;
        }
        for change in &some {
            let position = parts.in_lane(lane_of(change.slot)).unwrap_or(0);
            self.ends.insert(change.slot, position);
        }
        let follows = |change: &Change<'_>| (self.followers)(change.slot, epoch).contains(self.me);
        let is_new = parts.iter().all(|(lane, seq)| seq > self.applied[lane]);
        if is_new && some.iter().any(follows) {
            self.put_commit(record, parts, if is_whole { None } else { Some(&some) });
        }
    }

    /// Adds a commit of several slots to the records to apply; only some of its changes, if these
    /// are given.
    fn put_commit(&mut self, record: &Arc<[u8]>, parts: Parts<'_>, some: Option<&[Change<'_>]>) {
        let mut record = record.clone();
        if let (Some(some), Ok(Record::Commit { tag, served, decision, .. })) =
            (some, Record::read(&record))
        {
            let (mut room, mut bytes) = (Vec::new(), Vec::new());
            let changes = Changes::of(&mut room, some.iter().copied());
            put_record(&mut bytes, &Record::Commit { tag, served, decision, parts, changes });
            record = bytes.into();
        }
        let Ok(Record::Commit { changes, .. }) = Record::read(&record) else { return };
        let (mut room, mut bytes) = (Vec::new(), Vec::new());
        for (at, (lane, seq)) in parts.iter().enumerate() {
            self.last[lane] = self.last[lane].max(seq);
            let of_lane = changes.iter().map(|change| change.slot);
            let slots = Slots::of(&mut room, of_lane.filter(|&slot| lane_of(slot) == lane));
            bytes.clear();
            put_record(&mut bytes, &Record::CommitPart { parts, slots });
            let record = if at == 0 { record.clone() } else { bytes[..].into() };
            self.queues[lane].insert(seq, record);
        }
    }

    /// Drops the replies that may show lost changes.
    fn drop_answers(&mut self) {
        let lost = self.lost;
        for (lane, queue) in self.queues.iter_mut().enumerate() {
            queue.retain(|&seq, record| match Record::read(record) {
                Ok(Record::Answer { waits, .. } | Record::Woken { waits, .. }) => {
                    !lost.may_show((lane, seq)) && !waits.iter().any(|seen| lost.may_show(seen))
                }
                _ => true,
            });
        }
    }

    /// Adds a record to those to apply here, unless it was applied.
    fn keep(&mut self, (lane, seq): (usize, u64), by: NodeSet, record: Arc<[u8]>) {
        let is_here = by.contains(self.me) || !is_broken(Mutation::NoTails);
        if seq > self.applied[lane] && is_here {
            self.queues[lane].insert(seq, record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Tags;
    use petrel_keyspace::{Effect, StrRef};
    use petrel_persistence::effects::GroupWriter;

    const A: Node = Node(1);
    const B: Node = Node(2);
    const BOTH: [Node; 2] = [A, B];
    const NOTHING: [Vec<u64>; 2] = [Vec::new(), Vec::new()];

    /// A key in each of two slots of different lanes; node 1 owns the first slot, node 2 the other.
    fn keys() -> [(Slot, Vec<u8>); 2] {
        let names = (0..100).map(|at: u32| at.to_string().into_bytes());
        let mut keys = names.map(|key| (crate::slot::slot_of(&key), key));
        let first = keys.next().unwrap();
        let other = keys.find(|(slot, _)| lane_of(*slot) > lane_of(first.0)).unwrap();
        [first, other]
    }

    fn group(key: &[u8]) -> Vec<u8> {
        let mut group = GroupWriter::default();
        group.add(0, &Effect::Put { key, value: StrRef::Int(1), expiry: None });
        group.bytes().to_vec()
    }

    fn record(record: &Record<'_>) -> Arc<[u8]> {
        let mut bytes = Vec::new();
        put_record(&mut bytes, record);
        bytes.into()
    }

    /// A commit at position 2 of both lanes, and changes before and after it in the second slot.
    struct Records {
        commit: Arc<[u8]>,
        part: Arc<[u8]>,
        single: Arc<[u8]>,
    }

    fn records() -> Records {
        let [(one, key), (other, other_key)] = keys();
        let (group, other_group) = (group(&key), group(&other_key));
        let (mut room, mut changed, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        let parts = Parts::of(&mut room, [(lane_of(one), 2), (lane_of(other), 2)].into_iter());
        let changes = [
            Change { slot: one, back: 0, group: &group },
            Change { slot: other, back: 1, group: &other_group },
        ];
        let changes = Changes::of(&mut changed, changes.into_iter());
        let slots = Slots::of(&mut slots, [other].into_iter());
        let (tag, served) = (None, Tags::default());
        Records {
            commit: record(&Record::Commit { tag, served, decision: b"", parts, changes }),
            part: record(&Record::CommitPart { parts, slots }),
            single: record(&Record::Effects {
                tag,
                parts: Parts::default(),
                served,
                group: &other_group,
            }),
        }
    }

    type Reported<'a> = (usize, u64, &'a [Node], &'a Arc<[u8]>);

    /// By lane: the records that a node applies.
    fn queues(me: Node, stable: u64, reported: &[Reported<'_>]) -> Queues {
        let [(one, _), _] = keys();
        let mut known = vec![BTreeMap::new(); LANES];
        for (lane, seq, by, record) in reported {
            known[*lane].insert(*seq, (by.iter().copied().collect::<NodeSet>(), (*record).clone()));
        }
        let followers = |slot, _| NodeSet::of(if slot == one { A } else { B });
        let known = (known, [stable; LANES]);
        let recovery = OwnersRecovery::new(me, known, ([stable; LANES], [1; LANES]), &followers);
        recovery.run().0
    }

    /// Positions of the records that a node applies, in the lanes of the two slots.
    fn recovered(me: Node, stable: u64, reported: &[Reported<'_>]) -> [Vec<u64>; 2] {
        let [(one, _), (other, _)] = keys();
        let queues = queues(me, stable, reported);
        [one, other].map(|slot| queues[lane_of(slot)].keys().copied().collect())
    }

    #[test]
    fn a_reply_that_shows_a_lost_commit_is_lost_with_it() {
        let [(one, _), (other, _)] = keys();
        let (first, second) = (lane_of(one), lane_of(other));
        let Records { commit, part, .. } = &records();
        let mut room = Vec::new();
        let waits = Parts::of(&mut room, [(second, 2)].into_iter());
        let answer =
            |slot, waits| record(&Record::Answer { slot, oseq: 1, waits, reply: Some(b"+OK\r\n") });
        let [here, beside] = [answer(one, Parts::default()), answer(7, waits)];
        let third = (0..LANES).find(|lane| ![first, second].contains(lane)).unwrap();
        let answers = [(first, 3, &[A][..], &here), (third, 1, &[A], &beside)];
        let applied = |by_b: &[Reported<'_>]| {
            let reported = [&[(first, 2, &[A][..], commit)][..], by_b, &answers].concat();
            let queues = queues(A, 0, &reported);
            answers.map(|(lane, seq, ..)| queues[lane].contains_key(&seq))
        };
        assert_eq!(applied(&[(second, 2, &[B], part)]), [true, true]);
        assert_eq!(applied(&[]), [false, false]);
    }

    #[test]
    fn a_commit_is_recovered_by_the_owners_of_all_its_slots_or_by_none() {
        let [(one, _), (other, _)] = keys();
        let (first, second) = (lane_of(one), lane_of(other));
        let Records { commit, part, single } = &records();
        let before = (second, 1, &BOTH[1..], single);
        let after = (second, 3, &BOTH[1..], single);
        // One owner has all of it, the other one the change before it.
        let reported = [before, (first, 2, &BOTH[..1], commit), (second, 2, &BOTH[..1], part)];
        for me in BOTH {
            let lane = if me == B { vec![1, 2] } else { vec![2] };
            assert_eq!(recovered(me, 0, &reported), [vec![2], lane], "{me:?}");
        }
        // One owner has not received the other position, and the change before that is lost.
        let reported = [(first, 2, &BOTH[..1], commit)];
        for me in BOTH {
            assert_eq!(recovered(me, 0, &reported), NOTHING, "{me:?}");
            // ... or that change is known to be everywhere.
            assert_eq!(recovered(me, 1, &reported), [vec![2], vec![2]], "{me:?}");
        }
        // The changes are lost: nothing that follows them is recovered.
        let reported = [before, (second, 2, &BOTH[1..], part), after];
        assert_eq!(recovered(B, 0, &reported), [vec![], vec![1]]);
        // All members have applied it, and only one has not forgotten its place.
        let late = [(second, 2, &BOTH[1..], part), after];
        let applied = recovered(B, 2, &late);
        assert_eq!(applied, [vec![], vec![3]]);
    }

    #[test]
    fn what_was_applied_somewhere_is_recovered_where_it_can_be() {
        let [(one, _), (other, _)] = keys();
        let Records { commit, part, .. } = &records();
        // As after the death of two members: the change before it in the second slot is lost.
        let reported =
            [(lane_of(one), 2, &BOTH[..1], commit), (lane_of(other), 2, &BOTH[..1], part)];
        assert_eq!(recovered(A, 0, &reported), [vec![2], vec![2]]);
        assert_eq!(recovered(B, 0, &reported), NOTHING);
    }
}
