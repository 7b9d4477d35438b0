//! Slots whose primary has changed: until everything that the one before has numbered is applied,
//! nobody numbers a change of theirs, and nobody applies one that the new primary has numbered.
//!
//! ```text
//! the one before lives   its record "end of epoch" in each lane is the last of what it has numbered
//! it has died            every member tells all others what it has of the dead node's lanes that some may lack,
//!                        and all apply the same: what anybody has, up to the first commit of which a part is missing
//! ```

use crate::inbox::Inbox;
use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::slot::{Slot, SlotSet, slot_of};
use crate::slot_map::{Node, SlotMap};
use crate::view::{Identity, NodeSet};
use crate::wire::positions::Placed;
use crate::wire::{LANES, Record};
use petrel_persistence::effects::visit_keys;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// All lanes.
const ALL: u16 = u16::MAX;

/// Slots that a primary has lost in a view.
pub(crate) struct Leaving {
    pub from: Identity,
    pub epoch: u64,
    slots: SlotSet,
    /// The homes in the last view in which it was primary.
    homes: Arc<SlotMap>,
    /// Lanes in which the primary has ended: a bit for each.
    ended: u16,
}

impl Leaving {
    pub fn new(from: Identity, epoch: u64, homes: Arc<SlotMap>) -> Self {
        Leaving { from, epoch, slots: SlotSet::default(), homes, ended: 0 }
    }

    pub fn add(&mut self, slot: Slot) {
        self.slots.insert(slot);
    }

    pub fn contains(&self, slot: Slot) -> bool {
        self.slots.contains(slot)
    }

    /// The slots of some lanes, of which there is a bit for each.
    pub fn slots_of(&self, lanes: u16) -> SlotSet {
        // Slots are in the lanes by turns.
        const { assert!(LANES == u16::BITS as usize) };
        self.slots.masked(u64::from(lanes) * 0x0001_0001_0001_0001)
    }

    /// The lanes in which the primary has ended: a bit for each.
    pub fn ended(&self) -> u16 {
        self.ended
    }

    /// The nodes that have applied all that the primary has numbered of a slot, as far as they have
    /// its lane.
    fn followers(&self, slot: Slot) -> NodeSet {
        self.homes.homes(slot).iter().copied().collect()
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

    /// Whether changes of the slot have to wait for the end of its last primary.
    pub fn holds(&self, slot: Slot) -> bool {
        self.contains(slot) && !self.has_ended(lane_of(slot))
    }
}

/// How far the survivors of a node have got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Not all members have told what they have.
    Collecting,
    /// What is to be applied is known.
    Applying,
    /// It was applied.
    Settled,
}

/// The members that have sent a record, and the record.
type Known = (NodeSet, Arc<[u8]>);

/// A node that has died, until all members have settled what it has numbered.
pub(crate) struct Fallen {
    pub identity: Identity,
    pub stage: Stage,
    /// The view that has taken it out. Members that came later are not asked.
    pub since: u64,
    /// This node had no data when the view was adopted: it knows nothing of the lanes.
    pub is_blank: bool,
    /// The view in which members were asked last.
    pub epoch: u64,
    /// Members that have settled.
    pub settled_by: NodeSet,
    /// By lane: the records that are known, with the members that have sent them.
    known: Vec<BTreeMap<u64, Known>>,
    upto: [u64; LANES],
    told: [NodeSet; LANES],
    /// Where somebody who has settled has ended.
    decided: [Option<u64>; LANES],
}

impl Fallen {
    pub fn new(identity: Identity, epoch: u64) -> Self {
        Fallen {
            identity,
            stage: Stage::Collecting,
            since: epoch,
            is_blank: false,
            epoch,
            settled_by: NodeSet::default(),
            known: vec![BTreeMap::new(); LANES],
            upto: [0; LANES],
            told: [NodeSet::default(); LANES],
            decided: [None; LANES],
        }
    }

    /// Asks all members anew, since one of them has died as well. The tails that it has sent to
    /// some members only are forgotten: all decide by the tails of living members.
    pub fn ask_again(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.told = [NodeSet::default(); LANES];
        self.known.iter_mut().for_each(BTreeMap::clear);
        (self.upto, self.decided) = ([0; LANES], [None; LANES]);
    }

    pub fn note(&mut self, lane: usize, from: Node, (seq, record): (u64, &[u8])) {
        if self.stage == Stage::Collecting {
            let unsent = || (NodeSet::default(), record.into());
            let (by, _) = self.known[lane].entry(seq).or_insert_with(unsent);
            *by = by.with(from);
        }
    }

    pub fn note_end(&mut self, lane: usize, from: Node, upto: u64, is_settled: bool) {
        self.upto[lane] = self.upto[lane].max(upto);
        self.told[lane] = self.told[lane].with(from);
        if is_settled {
            self.decided[lane] = Some(upto);
        }
    }

    /// Whether all members have told.
    pub fn is_told(&self, members: NodeSet) -> bool {
        self.told.iter().all(|told| told.includes(members))
    }

    /// Decides what is applied, the same at all members; makes it what waits in the inboxes.
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

    /// The same where only homes hold a slot: `me` applies of each slot that it has followed what
    /// any other follower has. Each of them has a slot's records up to some position without a
    /// gap, and a record is of one slot: what the longest has is what is left.
    pub fn decide_by_homes(&mut self, me: Node, leaving: &[Leaving], inboxes: &mut [Inbox]) {
        for (lane, inbox) in inboxes.iter_mut().enumerate() {
            let (cut, applied) = (self.upto[lane].max(inbox.received()), inbox.applied());
            let mut known = std::mem::take(&mut self.known[lane]);
            let mut kept: BTreeMap<u64, Arc<[u8]>> = BTreeMap::new();
            for (seq, record) in inbox.queued() {
                let unsent = || (NodeSet::default(), record.clone());
                let (by, _) = known.entry(*seq).or_insert_with(unsent);
                *by = by.with(me);
            }
            let mut epoch = inbox.end_epoch;
            for (seq, (by, record)) in known.into_iter().filter(|(seq, _)| *seq > applied) {
                let is_kept = match Record::read(&record) {
                    Ok(Record::End { epoch: ended }) => {
                        epoch = ended;
                        true
                    }
                    Ok(Record::Effects { group, .. }) => {
                        let followers = slot_of_group(group).map_or(NodeSet::default(), |slot| {
                            let lost = leaving.iter().filter(|leaving| {
                                let is_numbered = leaving.epoch > epoch && leaving.contains(slot);
                                leaving.from == self.identity && is_numbered
                            });
                            let first = lost.min_by_key(|leaving| leaving.epoch);
                            first.map_or(NodeSet::default(), |leaving| leaving.followers(slot))
                        });
                        followers.contains(me) && followers.0 & by.0 != 0
                    }
                    _ => true,
                };
                if is_kept && (by.contains(me) || !is_broken(Mutation::NoTails)) {
                    kept.insert(seq, record);
                }
            }
            inbox.replace_queue(kept.into_iter().collect(), cut);
        }
        self.stage = Stage::Applying;
    }

    /// The positions up to which each lane is applied: nothing of a commit of which some part is
    /// known to nobody, and nothing behind it, for nobody has applied that either.
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
                        Ok(Record::Effects { parts, .. } | Record::Part { parts }) => parts,
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
    fn nothing_is_applied_of_half_a_commit_nor_behind_it() {
        let identity = Identity { node: Node(3), incarnation: 1 };
        let mut fallen = Fallen::new(identity, 2);
        // Lanes 0 and 1 share a commit, lanes 1 and 2 a later one.
        fallen.note(0, Node(1), (1, &effects(&[])));
        fallen.note(0, Node(1), (2, &effects(&[(0, 2), (1, 5)])));
        fallen.note(0, Node(1), (3, &effects(&[])));
        fallen.note(1, Node(1), (5, &effects(&[(0, 2), (1, 5)])));
        fallen.note(1, Node(1), (6, &effects(&[(1, 6), (2, 9)])));
        fallen.note(2, Node(1), (8, &effects(&[])));
        fallen.note(2, Node(1), (9, &effects(&[(1, 6), (2, 9)])));
        let mut cuts = |upto: [u64; 3]| {
            fallen.upto[..3].copy_from_slice(&upto);
            fallen.cuts()[..3].to_vec()
        };
        assert_eq!(cuts([3, 6, 9]), [3, 6, 9]);
        // The place in lane 2 is known to nobody, then that in lane 1, then that in lane 0.
        assert_eq!(cuts([3, 6, 8]), [3, 5, 8]);
        assert_eq!(cuts([3, 4, 9]), [1, 4, 8]);
        assert_eq!(cuts([1, 6, 9]), [1, 4, 8]);
    }
}
