//! Durability of this node's changes at other nodes (`WAITAOF`).
//!
//! ```text
//! primary   DURABLE-ASKED n -->  in every lane, after the changes in question: once it was reached
//!                                in all lanes, they were applied
//!           <-------- DURABLE n  once they are on the receiver's disk; covers earlier n too
//! ```

use super::Node;
use crate::view::{Identity, NodeSet, View};
use crate::wire::{LANES, Record};
use std::collections::BTreeMap;

/// Pending and answered durability requests.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// Number of this node's last request.
    last: u64,
    /// The last request that each other node has answered.
    answered: BTreeMap<Identity, u64>,
    /// The last request of each other node, by lane.
    asked: BTreeMap<Identity, [u64; LANES]>,
    /// Requests that were reached in all lanes.
    due: BTreeMap<Identity, u64>,
}

impl Durable {
    pub fn on_asked(&mut self, from: Identity, lane: usize, number: u64) {
        let asked = self.asked.entry(from).or_default();
        let least = |asked: &[u64; LANES]| asked.iter().copied().min().unwrap_or(0);
        let before = least(asked);
        asked[lane] = asked[lane].max(number);
        let now = least(asked);
        if now > before {
            self.due.insert(from, now);
        }
    }

    pub fn on_answer(&mut self, from: Identity, number: u64) {
        // Ignores a number that was never requested.
        if number <= self.last {
            let answered = self.answered.entry(from).or_default();
            *answered = number.max(*answered);
        }
    }

    /// Discards state of nodes that are not members any more.
    fn keep_members(&mut self, view: &View) {
        let is_member = |identity: &Identity| view.member(identity.node) == Some(*identity);
        self.answered.retain(|identity, _| is_member(identity));
        self.asked.retain(|identity, _| is_member(identity));
        self.due.retain(|identity, _| is_member(identity));
    }
}

impl Node {
    /// Asks all other members to answer when all changes made here so far are on their disks.
    /// Returns the number of the request.
    pub fn ask_durable(&mut self) -> u64 {
        self.durable.keep_members(&self.view);
        self.durable.last += 1;
        let number = self.durable.last;
        for lane in 0..LANES {
            self.lanes.push(lane, None, &Record::DurableAsked { number });
        }
        number
    }

    /// The other members that have answered a request, or a later one.
    pub fn durable_at(&self, number: u64) -> NodeSet {
        let is_member = |identity: &Identity| self.view.member(identity.node) == Some(*identity);
        let answered = self.durable.answered.iter();
        let answered = answered.filter(|(from, last)| **last >= number && is_member(from));
        answered.map(|(from, _)| from.node).collect()
    }

    /// Takes the requests of others that refer to changes applied here.
    pub fn take_durable_asked(&mut self) -> Vec<(Identity, u64)> {
        if self.durable.due.is_empty() {
            return Vec::new();
        }
        self.durable.keep_members(&self.view);
        std::mem::take(&mut self.durable.due).into_iter().collect()
    }

    /// Answers a member's request and all earlier ones: the changes are durable here.
    pub fn answer_durable(&mut self, to: Identity, number: u64) {
        if self.view.member(to.node) == Some(to) {
            self.lanes.push(0, Some(NodeSet::of(to.node)), &Record::Durable { number });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_map::Node as Number;

    #[test]
    fn a_question_is_due_once_it_has_come_in_all_lanes() {
        let from = Identity { node: Number(1), incarnation: 1 };
        let mut durable = Durable::default();
        for lane in (1..LANES).rev() {
            durable.on_asked(from, lane, 1);
            durable.on_asked(from, lane, 2);
            assert!(durable.due.is_empty());
        }
        durable.on_asked(from, 0, 1);
        assert_eq!(durable.due, BTreeMap::from([(from, 1)]));
        durable.on_asked(from, 0, 2);
        assert_eq!(durable.due, BTreeMap::from([(from, 2)]));
    }

    #[test]
    fn an_answer_to_what_was_not_asked_says_nothing() {
        let from = Identity { node: Number(1), incarnation: 1 };
        let mut durable = Durable { last: 3, ..Durable::default() };
        durable.on_answer(from, 4);
        assert!(durable.answered.is_empty());
        durable.on_answer(from, 3);
        durable.on_answer(from, 2);
        assert_eq!(durable.answered, BTreeMap::from([(from, 3)]));
    }
}
