//! What goes to other nodes beside commands: messages, and that changes were applied, which is what
//! `WAIT` counts; and what a home does in steps.

use super::commands::take_replies;
use super::{Member, World};
use crate::machine::START_MS;
use petrel_cluster::lanes::lane_of;
use petrel_cluster::{Identity, Node};

/// Changes of a node's clients that are kept to be compared.
const WRITTEN_MAX: usize = 6;

/// A change of a client of its slot's primary.
pub(super) struct Written {
    slot: u16,
    /// The position in the order of the slot.
    at: u64,
    /// The position in the lane of the slot.
    position: u64,
    /// The homes of the slot, in the view of that time.
    homes: Vec<Identity>,
    /// That time.
    when: u64,
}

impl Member {
    /// A client here has changed a slot.
    pub(super) fn note_written(&mut self, slot: u16) {
        let (view, at) = (self.core.view(), self.machine.position(slot));
        let homes = view.slots.homes(slot).iter().filter_map(|&home| view.member(home));
        let position = self.core.lanes().positions()[lane_of(slot)];
        let when = (self.machine.now_ms - START_MS - self.skew_ms) as u64;
        self.written.push_back(Written { slot, at, position, homes: homes.collect(), when });
        if self.written.len() > WRITTEN_MAX {
            self.written.pop_front();
        }
    }
}

impl World {
    /// A client publishes a message.
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

    /// A home goes on with the removal of all its keys.
    pub(super) fn flush_some(&mut self) {
        if !self.random.one_in(20) {
            return;
        }
        let Some(node) = self.any_awake() else { return };
        self.tell_time(node);
        let count = 1 + self.random.index(8);
        let member = &mut self.members[usize::from(node)];
        if let Some((tag, slots, reply)) = member.machine.go_on_flushing(count) {
            member.core.end_of_wait(tag, &slots, Some(reply));
            take_replies(member, &self.witness, &mut self.outcome);
        }
    }

    /// The homes of which a primary knows that they have applied a change are so far.
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
        let Written { slot, at, position, homes, when } = &written[some];
        let applied = core.lanes().members_at_lane(lane_of(*slot), *position);
        for home in homes.iter().filter(|home| applied.contains(home.node)) {
            let other = &self.members[usize::from(home.node.0)];
            let is_same = other.core.identity() == *home && home.node != Node(node);
            let view = other.core.view();
            let is_home = view.slots.homes(*slot).contains(&home.node);
            // What one that joins has received counts as applied while it waits for data.
            let had_data = other.has_data && other.data_since < *when;
            if !is_same || !is_home || !had_data {
                continue;
            }
            self.outcome.acknowledged += 1;
            let there = other.machine.position(*slot);
            if there < *at {
                let text = format!(
                    "{home:?} says to have applied change {at} of slot {slot} of node {node}, and is at {there}"
                );
                self.witness.borrow_mut().violation(text);
            }
        }
    }
}
