//! Which nodes have on their disks what this one has changed (`WAITAOF`).
//!
//! ```text
//! home    DURABLE-ASKED n -->  in every lane, behind what it asks for: once it has come in all of
//!                              them, that is applied
//!         <-------- DURABLE n  once the log there has that, and so what was asked for before
//! ```

use super::Node;
use crate::view::{Identity, NodeSet, View};
use crate::wire::{LANES, Record};
use std::collections::BTreeMap;

/// What is known of that.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// The last question of this node.
    last: u64,
    /// The last question that each other node has answered.
    answered: BTreeMap<Identity, u64>,
    /// The last question of each other node, by lane.
    asked: BTreeMap<Identity, [u64; LANES]>,
    /// Questions that have come in all lanes.
    due: BTreeMap<Identity, u64>,
}

impl Durable {
    pub fn note_asked(&mut self, from: Identity, lane: usize, number: u64) {
        let asked = self.asked.entry(from).or_default();
        let least = |asked: &[u64; LANES]| asked.iter().copied().min().unwrap_or(0);
        let before = least(asked);
        asked[lane] = asked[lane].max(number);
        let now = least(asked);
        if now > before {
            self.due.insert(from, now);
        }
    }

    pub fn note_answer(&mut self, from: Identity, number: u64) {
        // A number that was not asked for says nothing.
        if number <= self.last {
            let answered = self.answered.entry(from).or_default();
            *answered = number.max(*answered);
        }
    }

    /// Forgets nodes that are no members.
    fn keep_members(&mut self, view: &View) {
        let is_member = |identity: &Identity| view.member(identity.node) == Some(*identity);
        self.answered.retain(|identity, _| is_member(identity));
        self.asked.retain(|identity, _| is_member(identity));
        self.due.retain(|identity, _| is_member(identity));
    }
}

impl Node {
    /// Asks all other members when they have on their disks what this one has changed by now. The
    /// number of the question.
    pub fn ask_durable(&mut self) -> u64 {
        self.durable.keep_members(&self.view);
        self.durable.last += 1;
        let number = self.durable.last;
        for lane in 0..LANES {
            self.lanes.push(lane, None, &Record::DurableAsked { number });
        }
        number
    }

    /// The other members that have answered a question, or a later one.
    pub fn durable_at(&self, number: u64) -> NodeSet {
        let is_member = |identity: &Identity| self.view.member(identity.node) == Some(*identity);
        let answered = self.durable.answered.iter();
        let answered = answered.filter(|(from, last)| **last >= number && is_member(from));
        answered.map(|(from, _)| from.node).collect()
    }

    /// Questions of others: what they ask for is applied here by now.
    pub fn take_durable_asked(&mut self) -> Vec<(Identity, u64)> {
        if self.durable.due.is_empty() {
            return Vec::new();
        }
        self.durable.keep_members(&self.view);
        std::mem::take(&mut self.durable.due).into_iter().collect()
    }

    /// Answers a question of another member, and those before it: what it asks for is durable here.
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
            durable.note_asked(from, lane, 1);
            durable.note_asked(from, lane, 2);
            assert!(durable.due.is_empty());
        }
        durable.note_asked(from, 0, 1);
        assert_eq!(durable.due, BTreeMap::from([(from, 1)]));
        durable.note_asked(from, 0, 2);
        assert_eq!(durable.due, BTreeMap::from([(from, 2)]));
    }

    #[test]
    fn an_answer_to_what_was_not_asked_says_nothing() {
        let from = Identity { node: Number(1), incarnation: 1 };
        let mut durable = Durable { last: 3, ..Durable::default() };
        durable.note_answer(from, 4);
        assert!(durable.answered.is_empty());
        durable.note_answer(from, 3);
        durable.note_answer(from, 2);
        assert_eq!(durable.answered, BTreeMap::from([(from, 3)]));
    }
}
