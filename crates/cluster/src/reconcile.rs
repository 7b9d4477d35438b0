//! Reconciliation after a change of primary. Until everything that the former primary ordered was
//! applied, no node orders changes of the slot, and none applies those of the new primary.
//!
//! ```text
//! former primary alive   its `END` of the epoch, in each lane, follows all changes that it ordered
//! former primary dead    every member sends all others its unstable records of the dead node's
//!                        lanes; all apply the same ones: the longest known prefix, up to the
//!                        first commit of which a part is missing
//! ```

use crate::inbox::Inbox;
use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::owners_recovery::{Lost, OwnersRecovery};
use crate::slot::{Slot, SlotSet, slot_of};
use crate::slot_map::{Node, SlotMap};
use crate::view::{Identity, NodeSet};
use crate::wire::positions::Placed;
use crate::wire::{LANES, Record, is_kept};
use petrel_persistence::effects::visit_keys;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bit mask of all lanes.
const ALL: u16 = u16::MAX;

/// Owners of all slots in a view that was replaced, with its epoch.
pub(crate) type PastOwners = (u64, Arc<SlotMap>);

/// Slots that a primary lost in one view.
pub(crate) struct FormerPrimary {
    pub from: Identity,
    pub epoch: u64,
    slots: SlotSet,
    /// The owners in the views before, the last one in which it was primary included.
    owners: Vec<PastOwners>,
    /// Lanes in which the former primary has ended the epoch: a bit for each.
    ended: u16,
}

impl FormerPrimary {
    pub fn new(from: Identity, epoch: u64, owners: Vec<PastOwners>) -> Self {
        FormerPrimary { from, epoch, slots: SlotSet::default(), owners, ended: 0 }
    }

    pub fn add(&mut self, slot: Slot) {
        self.slots.insert(slot);
    }

    pub fn contains(&self, slot: Slot) -> bool {
        self.slots.contains(slot)
    }

    /// The slots of the lanes in a bit mask.
    pub fn slots_of(&self, lanes: u16) -> SlotSet {
        // Slots are distributed over the lanes round robin.
        const { assert!(LANES == u16::BITS as usize) };
        self.slots.masked(u64::from(lanes) * 0x0001_0001_0001_0001)
    }

    /// Bit mask of the lanes in which the former primary has ended the epoch.
    pub fn ended(&self) -> u16 {
        self.ended
    }

    /// The owners of a slot from the view of this epoch on: each has a prefix without gaps of the
    /// changes that the primary ordered in that view. One that is no owner any more may be the only
    /// one that has acknowledged a change.
    fn followers(&self, slot: Slot, epoch: u64) -> NodeSet {
        let last = self.owners.len() - 1;
        let views = self.owners.iter().enumerate();
        let are_past_counted = !is_broken(Mutation::ForgetPastOwners);
        let views = views.filter(|(at, (of, _))| *at == last || are_past_counted && *of >= epoch);
        views.flat_map(|(_, (_, owners))| owners.owners(slot)).copied().collect()
    }

    pub fn has_ended(&self, lane: usize) -> bool {
        self.ended >> lane & 1 != 0
    }

    pub fn end(&mut self, lane: usize) {
        self.ended |= 1 << lane;
    }

    pub fn end_all(&mut self) {
        self.ended = ALL;
    }

    pub fn is_over(&self) -> bool {
        self.ended == ALL
    }

    /// Whether changes of the slot have to wait for the end of its former primary.
    pub fn holds(&self, slot: Slot) -> bool {
        self.contains(slot) && !self.has_ended(lane_of(slot))
    }
}

/// Progress of the recovery of a dead node's lanes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Not all members have reported their records.
    Collecting,
    /// The records to apply are decided.
    Applying,
    /// The records were applied.
    Reconciled,
}

/// A record, and the members that have reported it.
pub(crate) type Known = (NodeSet, Arc<[u8]>);

/// Adds a reported record. Importers and holders of copies report a kept record without the distance
/// to the one before it. The form with the distance replaces theirs in any order of the reports.
fn add(known: &mut BTreeMap<u64, Known>, from: Node, seq: u64, record: &[u8]) {
    let unsent = || (NodeSet::default(), record.into());
    let (by, form) = known.entry(seq).or_insert_with(unsent);
    *by = by.with(from);
    if is_kept(record) && !is_kept(form) {
        *form = record.into();
    }
}

/// Recovery of a dead node's lanes, until all members have completed it.
pub(crate) struct DeadMember {
    pub identity: Identity,
    pub stage: Stage,
    /// Epoch of the view that removed the node. Members that joined later do not take part.
    pub since: u64,
    /// This node had no data at that view, so it has no records of the lanes.
    pub is_blank: bool,
    /// Epoch of the view in which members were last asked to report.
    pub epoch: u64,
    /// Members that have completed the recovery.
    pub reconciled_by: NodeSet,
    /// By lane: the reported records by position.
    known: Vec<BTreeMap<u64, Known>>,
    upto: [u64; LANES],
    /// By lane: all members have applied everything up to this position.
    stable: [u64; LANES],
    reported: [NodeSet; LANES],
    /// By lane: the decided end, from a member that has already completed the recovery.
    decided: [Option<u64>; LANES],
}

impl DeadMember {
    pub fn new(identity: Identity, epoch: u64) -> Self {
        DeadMember {
            identity,
            stage: Stage::Collecting,
            since: epoch,
            is_blank: false,
            epoch,
            reconciled_by: NodeSet::default(),
            known: vec![BTreeMap::new(); LANES],
            upto: [0; LANES],
            stable: [0; LANES],
            reported: [NodeSet::default(); LANES],
            decided: [None; LANES],
        }
    }

    /// Restarts the collection because another member died. Its reports may have reached only some
    /// members, so they are discarded: all decide by the reports of living members.
    pub fn ask_again(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.reported = [NodeSet::default(); LANES];
        self.known.iter_mut().for_each(BTreeMap::clear);
        (self.upto, self.stable, self.decided) = ([0; LANES], [0; LANES], [None; LANES]);
    }

    pub fn record(&mut self, lane: usize, from: Node, (seq, record): (u64, &[u8])) {
        if self.stage == Stage::Collecting {
            add(&mut self.known[lane], from, seq, record);
        }
    }

    /// Records that a member has reported everything that it knows of a lane up to `upto`.
    pub fn record_end(
        &mut self,
        lane: usize,
        from: Node,
        (upto, stable): (u64, u64),
        is_reconciled: bool,
    ) {
        self.upto[lane] = self.upto[lane].max(upto);
        self.stable[lane] = self.stable[lane].max(stable);
        self.reported[lane] = self.reported[lane].with(from);
        if is_reconciled {
            self.decided[lane] = Some(upto);
        }
    }

    /// Whether all of `members` have reported all lanes.
    pub fn is_reported_by(&self, members: NodeSet) -> bool {
        self.reported.iter().all(|reported| reported.includes(members))
    }

    /// Decides which records are applied, identically at all members, and puts them into the
    /// inboxes.
    pub fn decide(&mut self, inboxes: &mut [Inbox]) {
        let cuts = self.cuts();
        for (lane, inbox) in inboxes.iter_mut().enumerate() {
            let (cut, applied) = (cuts[lane].max(inbox.applied()), inbox.applied());
            let known = std::mem::take(&mut self.known[lane]);
            let mut queue: BTreeMap<u64, Arc<[u8]>> =
                known.into_iter().map(|(seq, (_, record))| (seq, record)).collect();
            queue.extend(inbox.queued().cloned());
            if is_broken(Mutation::NoTails) {
                let cut = inbox.received();
                inbox.replace_queue(inbox.queued().cloned().collect(), cut);
                continue;
            }
            let queue: VecDeque<Placed> =
                queue.into_iter().filter(|(seq, _)| *seq > applied && *seq <= cut).collect();
            inbox.replace_queue(queue, cut);
        }
        self.stage = Stage::Applying;
    }

    /// Like [`DeadMember::decide`], where members hold only some slots. For each slot that `me`
    /// owned it applies the records that any other owner has. Each owner has a prefix of the slot's
    /// records without gaps, so the longest prefix is the result. Records that the origins of their
    /// commands keep are appended to it, and commits of several slots ([`OwnersRecovery`]).
    pub fn decide_by_owners(
        &mut self,
        me: Node,
        former: &[FormerPrimary],
        inboxes: &mut [Inbox],
    ) -> Lost {
        for (lane, inbox) in inboxes.iter().enumerate() {
            for (seq, record) in inbox.queued() {
                add(&mut self.known[lane], me, *seq, record);
            }
        }
        let known = std::mem::replace(&mut self.known, vec![BTreeMap::new(); LANES]);
        let applied = std::array::from_fn(|lane| inboxes[lane].applied());
        let ended = std::array::from_fn(|lane| inboxes[lane].end_epoch);
        let followers = |slot, epoch| self.followers(former, slot, epoch);
        let recovery = OwnersRecovery::new(me, (known, self.stable), (applied, ended), &followers);
        let (queues, last, lost) = recovery.run();
        for (lane, (inbox, queue)) in inboxes.iter_mut().zip(queues).enumerate() {
            let cut = self.upto[lane].max(inbox.received()).max(last[lane]);
            inbox.replace_queue(queue.into_iter().collect(), cut);
        }
        self.stage = Stage::Applying;
        lost
    }

    /// The owners that contribute to the recovery of a slot's changes from the view of an epoch.
    fn followers(&self, former: &[FormerPrimary], slot: Slot, epoch: u64) -> NodeSet {
        let lost = former.iter().filter(|former| {
            former.from == self.identity && former.epoch > epoch && former.contains(slot)
        });
        let first = lost.min_by_key(|former| former.epoch);
        first.map_or(NodeSet::default(), |former| former.followers(slot, epoch))
    }

    /// The last position to apply in each lane. Excluded are commits of which some part is unknown
    /// to all, and everything after them: no member has applied those.
    fn cuts(&self) -> [u64; LANES] {
        let mut cuts: [u64; LANES] =
            std::array::from_fn(|lane| self.decided[lane].unwrap_or(self.upto[lane]));
        if self.decided.iter().all(Option::is_some) {
            return cuts;
        }
        loop {
            let before = cuts;
            for lane in 0..LANES {
                for (&seq, (_, record)) in self.known[lane].range(..=cuts[lane]) {
                    let parts = match Record::read(record) {
                        Ok(
                            Record::Effects { parts, .. }
                            | Record::Part { parts }
                            | Record::Commit { parts, .. }
                            | Record::CommitPart { parts, .. },
                        ) => parts,
                        _ => continue,
                    };
                    if parts.iter().any(|(lane, seq)| seq > cuts[lane]) {
                        cuts[lane] = seq - 1;
                        break;
                    }
                }
            }
            if cuts == before {
                return cuts;
            }
        }
    }
}

/// The slot of a commit that is of one slot: that of its first key.
pub(crate) fn slot_of_group(group: &[u8]) -> Option<Slot> {
    let mut slot = None;
    let visited = visit_keys(group, |_, key| {
        slot = slot.or(key.map(slot_of));
    });
    visited.ok().and(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Parts, Tags, put_record};

    fn effects(parts: &[(usize, u64)]) -> Vec<u8> {
        let (mut room, mut out) = (Vec::new(), Vec::new());
        let parts = Parts::of(&mut room, parts.iter().copied());
        put_record(
            &mut out,
            &Record::Effects { tag: None, parts, served: Tags::default(), group: &[] },
        );
        out
    }

    #[test]
    fn a_kept_record_is_recovered_whoever_reports_it_first() {
        let identity = Identity { node: Node(3), incarnation: 1 };
        let (plain, mut kept) = (effects(&[]), Vec::new());
        put_record(&mut kept, &Record::Kept { back: 4, record: &plain });
        for reports in [[(1, &plain), (2, &kept)], [(2, &kept), (1, &plain)]] {
            let mut dead = DeadMember::new(identity, 2);
            for (from, record) in reports {
                dead.record(0, Node(from), (5, record));
            }
            let by = [Node(1), Node(2)].into_iter().collect();
            assert_eq!(dead.known[0].get(&5), Some(&(by, kept.as_slice().into())));
        }
    }

    #[test]
    fn nothing_is_applied_of_half_a_commit_nor_behind_it() {
        let identity = Identity { node: Node(3), incarnation: 1 };
        let mut dead = DeadMember::new(identity, 2);
        // Lanes 0 and 1 share a commit, lanes 1 and 2 a later one.
        dead.record(0, Node(1), (1, &effects(&[])));
        dead.record(0, Node(1), (2, &effects(&[(0, 2), (1, 5)])));
        dead.record(0, Node(1), (3, &effects(&[])));
        dead.record(1, Node(1), (5, &effects(&[(0, 2), (1, 5)])));
        dead.record(1, Node(1), (6, &effects(&[(1, 6), (2, 9)])));
        dead.record(2, Node(1), (8, &effects(&[])));
        dead.record(2, Node(1), (9, &effects(&[(1, 6), (2, 9)])));
        let mut cuts = |upto: [u64; 3]| {
            dead.upto[..3].copy_from_slice(&upto);
            dead.cuts()[..3].to_vec()
        };
        assert_eq!(cuts([3, 6, 9]), [3, 6, 9]);
        // The part in lane 2 is unknown to all, then that in lane 1, then that in lane 0.
        assert_eq!(cuts([3, 6, 8]), [3, 5, 8]);
        assert_eq!(cuts([3, 4, 9]), [1, 4, 8]);
        assert_eq!(cuts([1, 6, 9]), [1, 4, 8]);
    }
}
