//! Published messages, acknowledgements as `WAIT` counts them, and flushes in steps.

use super::commands::take_replies;
use super::{Member, World};
use crate::machine::START_MS;
use petrel_cluster::lanes::lane_of;
use petrel_cluster::{Identity, Node};

/// Number of recent changes of each node that are kept for checking.
const WRITTEN_MAX: usize = 6;

/// A change made by a client of the slot's primary.
pub(super) struct Written {
    slot: u16,
    /// Position in the order of the slot.
    at: u64,
    /// Position in the lane of the slot.
    position: u64,
    /// The slot's owners at that time.
    owners: Vec<Identity>,
    /// Time of the change.
    when: u64,
}

impl Member {
    /// Records a change of a slot by a client of this node.
    pub(super) fn record_written(&mut self, slot: u16) {
        let (view, at) = (self.core.view(), self.machine.position(slot));
        let owners = view.slots.owners(slot).iter().filter_map(|&owner| view.member(owner));
        let position = self.core.lanes().positions()[lane_of(slot)];
        let when = (self.machine.now_ms - START_MS - self.skew_ms) as u64;
        self.written.push_back(Written { slot, at, position, owners: owners.collect(), when });
        if self.written.len() > WRITTEN_MAX {
            self.written.pop_front();
        }
    }
}

impl World {
    /// Lets a client publish a message.
    pub(super) fn publish(&mut self) {
        if !self.random.one_in(200) {
            return;
        }
        let Some(node) = self.any_awake() else { return };
        let channel = format!("channel{}", self.random.below(4)).into_bytes();
        let Member { core, machine, has_data, .. } = &mut self.members[usize::from(node)];
        if *has_data {
            let payload = self.witness.borrow_mut().publishes(core.identity(), &channel);
            machine.publish_message(&channel, &payload);
        }
    }

    /// Lets a primary continue its flush.
    pub(super) fn flush_some(&mut self) {
        if !self.random.one_in(20) {
            return;
        }
        let Some(node) = self.any_awake() else { return };
        self.set_member_time(node);
        let count = 1 + self.random.index(8);
        let member = &mut self.members[usize::from(node)];
        if let Some((tag, slots, reply)) = member.machine.continue_flush(count) {
            member.core.end_of_wait(tag, &slots, Some(reply));
            take_replies(member, &self.witness, &mut self.outcome);
        }
    }

    /// Checks that owners which have acknowledged a change have applied it.
    pub(super) fn compare_acknowledged(&mut self) {
        if !self.random.one_in(20) {
            return;
        }
        let Some(node) = self.any_awake() else { return };
        let count = self.members[usize::from(node)].written.len();
        if count == 0 {
            return;
        }
        let some = self.random.index(count);
        let Member { core, written, .. } = &self.members[usize::from(node)];
        let Written { slot, at, position, owners, when } = &written[some];
        let applied = core.lanes().members_at_lane(lane_of(*slot), *position);
        for owner in owners.iter().filter(|owner| applied.contains(owner.node)) {
            let other = &self.members[usize::from(owner.node.0)];
            let is_same = other.core.identity() == *owner && owner.node != Node(node);
            let view = other.core.view();
            let is_primary = view.slots.owners(*slot).contains(&owner.node);
            // A joining node acknowledges received records while it waits for data.
            let had_data = other.has_data && other.data_since < *when;
            if !is_same || !is_primary || !had_data {
                continue;
            }
            self.outcome.acknowledged += 1;
            let there = other.machine.position(*slot);
            if there < *at {
                let text = format!(
                    "{owner:?} has acknowledged change {at} of slot {slot} of node {node}, but is at {there}"
                );
                self.witness.borrow_mut().violation(text);
            }
        }
    }
}
