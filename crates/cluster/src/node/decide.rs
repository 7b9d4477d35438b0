//! Decisions on transactions of several primaries: their parts, and how long they are kept.
//!
//! ```text
//! learned    from the executor, with a part, or from a survivor after a death
//! part       numbered by the slot's primary, as soon as it has all changes of the one before it
//! answered   at the origin, once it has all parts
//! kept       until every part is at all members; unknown places are asked of their primaries
//! ```

use super::{Host, Node, Reply};
use crate::decisions::{Attempt, DecisionName, Kept, Place, name_of};
use crate::lanes::{Part, lane_of};
use crate::mutation::{Mutation, is_broken};
use crate::slot::Slot;
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet, View};
use crate::wire::{Record, Slots, Tag};
use std::collections::{BTreeMap, BTreeSet};

/// Kept decisions that are looked at when something has arrived.
const LOOKED_AT: usize = 32;

impl Node {
    /// Shows all threads whether slots may be used.
    pub(super) fn show_slots(&self, slots: &[Slot]) {
        for &slot in slots {
            let is_owner = self.view.slots.owners(slot).contains(&self.identity.node);
            self.update_slot(slot, is_owner, self.may_order(&[slot]));
        }
    }

    /// Gives missing parts of this primary their places.
    pub(super) fn number_parts(&mut self, host: &mut dyn Host) {
        if !self.decisions.has_open() {
            return;
        }
        let me = Some(self.identity.node);
        let is_mine = |slot: Slot| self.primaries.of_slot(slot) == me && self.is_settled(&[slot]);
        for (name, slots) in self.decisions.missing(is_mine) {
            self.number_part(name, slots, host);
        }
    }

    fn number_part(&mut self, name: DecisionName, slots: Vec<Slot>, host: &mut dyn Host) {
        let Some(kept) = self.decisions.get(name) else { return };
        let (attempt, epoch, decision) = (kept.attempt, kept.epoch, kept.bytes.clone());
        if is_broken(Mutation::SkipMissing) && !self.chains.loans.contains_key(&attempt) {
            return;
        }
        let Ok(Record::Decision { changes, .. }) = Record::read(&decision) else { return };
        let is_void = |slot| self.decisions.is_void(epoch, slot);
        let mine = changes.iter().filter(|change| slots.contains(&change.slot));
        let effective = mine.filter(|change| !change.group.is_empty() && !is_void(change.slot));
        let groups: Vec<&[u8]> = effective.map(|change| change.group).collect();
        let all = self.lanes.receivers_of(changes.iter().map(|change| change.slot));
        let to = all.with(name.0.node).with(attempt.tag.origin.node);
        let part = Part { decision: decision.clone(), slots: slots.clone(), to };
        let positions = self.lanes.append_part(part, || {
            // After the death of two members a change may not fit. What does is made, here and
            // everywhere.
            let _ = host.apply_part(attempt.tag, &groups);
        });
        let tag = attempt.tag;
        self.executed.record(tag.origin, tag.slot, tag.oseq);
        for &slot in &slots {
            let position = positions.iter().find(|(lane, _)| *lane == lane_of(slot));
            let place = position.map_or(Place::Everywhere, |&(lane, position)| {
                Place::At(self.identity, lane, position)
            });
            self.decisions.mark(name, slot);
            self.decisions.put_place(name, slot, place);
        }
        self.end_loan(attempt);
        self.show_slots(&slots);
        self.is_unblocked = true;
        if is_broken(Mutation::ForgetDecisions) {
            self.decisions.forget(name);
        }
        self.answer_chains();
    }

    /// Handles parts that were applied here.
    pub(super) fn on_parts(
        &mut self,
        from: Identity,
        decision: &[u8],
        places: impl Iterator<Item = (Slot, u64)>,
    ) {
        let Some((name, attempt)) = name_of(decision) else { return };
        let tag = attempt.tag;
        self.executed.record(tag.origin, tag.slot, tag.oseq);
        for (slot, position) in places {
            self.decisions.mark(name, slot);
            self.decisions.put_place(name, slot, Place::At(from, lane_of(slot), position));
        }
        // An owner that has inherited the loan.
        self.settle_loan(attempt, name);
        self.answer_chains();
    }

    /// Handles `DECIDED`, which was learned on arrival. If all parts were here before, it was not
    /// kept, and nothing else ends the loan.
    pub(super) fn on_decided(&mut self, decision: &[u8]) {
        self.is_unblocked = true;
        if let Some((name, attempt)) = name_of(decision)
            && !is_broken(Mutation::KeepDecided)
        {
            self.settle_loan(attempt, name);
        }
    }

    /// Ends the loan of a decided transaction, unless this primary owes it a part.
    fn settle_loan(&mut self, attempt: Attempt, name: DecisionName) {
        let Some(loan) = self.chains.loans.get(&attempt) else { return };
        let me = Some(self.identity.node);
        let owes = |&slot: &Slot| {
            self.primaries.of_slot(slot) == me && !self.decisions.has_part(name, slot)
        };
        if !loan.slots.iter().any(owes) {
            self.end_loan(attempt);
        }
    }

    /// Ends loans of decided transactions to which this node owes nothing.
    pub(super) fn settle_loans(&mut self) {
        if self.decisions.is_empty() || self.chains.loans.is_empty() {
            return;
        }
        let name = |attempt: &Attempt| Some((*attempt, self.decisions.of_attempt(*attempt)?));
        let decided: Vec<_> = self.chains.loans.keys().filter_map(name).collect();
        decided.into_iter().for_each(|(attempt, name)| self.settle_loan(attempt, name));
    }

    /// Answers clients of decided transactions that have all their parts here.
    pub(super) fn answer_chains(&mut self) {
        let is_here = |name: DecisionName, kept: &Kept| {
            let has = |(&slot, place): (&Slot, &Place)| {
                *place == Place::Everywhere || self.decisions.has_part(name, slot)
            };
            kept.parts.iter().all(has) || is_broken(Mutation::AnswerDecided)
        };
        let mut due = Vec::new();
        for (name, kept) in self.decisions.iter() {
            if kept.attempt.tag.origin == self.identity && is_here(*name, kept) {
                due.push((*name, kept.attempt.tag, kept.bytes.clone()));
            }
        }
        for (name, Tag { slot, oseq, .. }, bytes) in due {
            let queue = self.origin.queues.get_mut(&slot);
            if queue.and_then(|queue| queue.find(oseq)).is_none_or(|one| one.chain.is_none()) {
                continue;
            }
            let Ok(Record::Decision { reply, .. }) = Record::read(&bytes) else { continue };
            // The executor sends a long reply by itself.
            if reply.is_none() && self.is_member(name.0) {
                continue;
            }
            let reply = reply.map_or(Reply::Unknown, |reply| Reply::Bytes(reply.to_vec()));
            self.finish(slot, oseq, reply);
            self.to_flush.push(slot);
        }
    }

    /// Whether this node has decided on a transaction of which not all parts have arrived here.
    pub fn awaits_parts(&self) -> bool {
        let mut decisions = self.decisions.iter().filter(|((of, _), _)| *of == self.identity);
        decisions.any(|(name, kept)| {
            kept.parts.keys().any(|&slot| !self.decisions.has_part(*name, slot))
        })
    }

    /// Number of this node's decisions.
    pub fn decided(&self) -> u64 {
        self.decisions.last_number()
    }

    /// A member that needs what this node has sent last: the origin of a decision without all its
    /// parts, or the executor of a loan.
    pub fn heir(&self) -> Option<Number> {
        let is_open = |(name, kept): &(&DecisionName, &Kept)| {
            name.0 == self.identity
                && kept.parts.keys().any(|&slot| !self.decisions.has_part(**name, slot))
        };
        let decided = self.decisions.iter().filter(is_open).last();
        let origin = decided.map(|(_, kept)| kept.attempt.tag.origin);
        let executor = || self.chains.loans.values().last().map(|loan| loan.executor);
        let heir = origin.or_else(executor).filter(|heir| *heir != self.identity);
        heir.map(|heir| heir.node)
    }

    /// Whether a slot of this primary is on loan though its last change has no second owner.
    pub fn lends_unsafe(&self) -> bool {
        self.lanes.has_unreplicated(&self.lent_slots())
    }

    /// Whether a member that has not received a question about parts was sent it again.
    pub fn repeats_questions(&self) -> bool {
        let mut asked = BTreeSet::new();
        let lane = self.lanes.lane(0);
        let mut unsent = lane.unapplied().filter(|(_, record)| {
            matches!(Record::read(record), Ok(Record::Numbered { is_asked: true, .. }))
        });
        unsent.any(|(to, record)| !asked.insert((to.0, record)))
    }

    /// Tells the others all decisions that are kept here, after a death.
    pub(super) fn tell_decisions(&self) {
        if is_broken(Mutation::KeepSilent) {
            return;
        }
        for (_, kept) in self.decisions.iter() {
            self.lanes.push(0, None, &Record::Decided { decision: &kept.bytes });
        }
    }

    /// Adopts a view: slots may begin empty, and places in lanes of dead members be void.
    pub(super) fn review_places(&mut self, before: &View) {
        if let Some(holdings) = &self.holdings {
            let me = self.identity.node;
            for range in self.view.slots.ranges().iter().filter(|range| *range.owners == [me]) {
                for slot in range.first..=range.last {
                    let mut owners = before.slots.owners(slot).iter();
                    let is_lost = owners.all(|&node| before.member(node) != self.view.member(node));
                    let had = before.slots.owners(slot).contains(&me);
                    if is_lost && !had && holdings.holds(slot) {
                        self.decisions.restart(slot, self.view.epoch);
                    }
                }
            }
        }
        let (view, holdings) = (&self.view, &self.holdings);
        let is_void = |slot: Slot, from: Identity| {
            view.member(from.node) != Some(from)
                && holdings.as_ref().is_some_and(|holdings| !holdings.holds(slot))
        };
        for (_, kept) in self.decisions.iter_mut() {
            for (slot, place) in &mut kept.parts {
                if matches!(*place, Place::At(from, ..) if is_void(*slot, from)) {
                    *place = Place::Unknown;
                }
            }
        }
    }

    /// Whether all members have a part.
    fn is_stable(&self, name: DecisionName, slot: Slot, place: Place) -> bool {
        let is_primary = self.primaries.of_slot(slot) == Some(self.identity.node);
        match place {
            Place::Everywhere => true,
            // It came with data, or was forgotten here.
            Place::Unknown => {
                is_primary
                    && self.dead.is_empty()
                    && self.is_settled(&[slot])
                    && self.decisions.has_part(name, slot)
            }
            Place::At(from, lane, position) if from == self.identity => {
                self.lanes.lane(lane).stable() >= position
            }
            Place::At(from, lane, position) => match self.inboxes.get(&from) {
                Some(inboxes) if self.is_member(from) => inboxes[lane].stable() >= position,
                // All members have recovered its lanes.
                inboxes => inboxes.is_none(),
            },
        }
    }

    /// Forgets decisions of which all members have all parts.
    pub(super) fn forget_decisions(&mut self, most: usize) {
        if self.decisions.is_empty() {
            return;
        }
        let is_over = |(name, kept): &(&DecisionName, &Kept)| {
            let Tag { origin, slot, oseq } = kept.attempt.tag;
            let awaits = origin == self.identity && self.origin.call(slot, oseq).is_some();
            let is_stable = |(&slot, &place): (&Slot, &Place)| self.is_stable(**name, slot, place);
            !awaits && kept.parts.iter().all(is_stable)
        };
        let over: Vec<DecisionName> =
            self.decisions.iter().take(most).filter(is_over).map(|(name, _)| *name).collect();
        over.into_iter().for_each(|name| self.decisions.forget(name));
    }

    /// Forgets decisions where possible, and asks about parts that some members may lack, as far as
    /// known here. The host calls this at intervals.
    pub fn review_decisions(&mut self, host: &mut dyn Host) {
        self.forget_decisions(usize::MAX);
        let mut asked: BTreeMap<(Number, DecisionName), Vec<Slot>> = BTreeMap::new();
        self.decisions.iter_mut().for_each(|(_, kept)| kept.age += 1);
        for (name, kept) in self.decisions.iter().filter(|(_, kept)| kept.age > 1) {
            for (&slot, &place) in &kept.parts {
                let node = match place {
                    Place::At(from, ..) if self.is_member(from) => Some(from.node),
                    Place::At(..) | Place::Everywhere => None,
                    Place::Unknown => self.primaries.of_slot(slot),
                };
                let node = node.filter(|node| *node != self.identity.node);
                if let Some(node) = node.filter(|_| !self.is_stable(*name, slot, place)) {
                    asked.entry((node, *name)).or_default().push(slot);
                }
            }
        }
        asked.retain(|(node, _), _| self.may_ask_again(*node));
        for ((node, (executor, number)), slots) in asked {
            let mut room = Vec::new();
            let slots = Slots::of(&mut room, slots.into_iter());
            let record = Record::Numbered { executor, number, is_asked: true, slots };
            let position = self.lanes.push(0, Some(NodeSet::of(node)), &record);
            self.chains.asked.insert(node, position);
        }
        self.resume_pending(host);
    }

    /// Handles `NUMBERED`: the question where parts are, or its answer.
    pub(super) fn on_numbered(
        &mut self,
        from: Identity,
        name: DecisionName,
        is_asked: bool,
        slots: Slots<'_>,
    ) {
        if !is_asked {
            slots.iter().for_each(|slot| self.decisions.put_place(name, slot, Place::Everywhere));
            return self.answer_chains();
        }
        let me = Some(self.identity.node);
        let is_there = |slot: &Slot| {
            let is_here = self.primaries.of_slot(*slot) == me && self.is_settled(&[*slot]);
            let kept = self.decisions.get(name).and_then(|kept| kept.parts.get(slot));
            self.decisions.has_part(name, *slot)
                && match kept {
                    // It was forgotten, since all members had all parts.
                    None => true,
                    Some(&place) => {
                        let is_own = matches!(place, Place::At(of, ..) if of == self.identity);
                        (is_here || is_own) && self.is_stable(name, *slot, place)
                    }
                }
        };
        let there: Vec<Slot> = slots.iter().filter(is_there).collect();
        if !there.is_empty() && self.is_member(from) {
            let (mut room, (executor, number)) = (Vec::new(), name);
            let slots = Slots::of(&mut room, there.into_iter());
            let record = Record::Numbered { executor, number, is_asked: false, slots };
            self.lanes.push(0, Some(NodeSet::of(from.node)), &record);
        }
    }

    /// Looks at some kept decisions, since members may have got parts.
    pub(super) fn glance_at_decisions(&mut self) {
        self.forget_decisions(LOOKED_AT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlotMap;
    use crate::chains::Loan;
    use crate::node::Limits;
    use crate::wire::{Change, Changes, put_record};

    fn identity(node: u16) -> Identity {
        Identity { node: Number(node), incarnation: 1 }
    }

    /// Node 1 of three, with slot 3 on loan to an attempt that node 2 executes, and the attempt.
    fn lender() -> (Node, Attempt) {
        let view = View {
            epoch: 1,
            members: (0..3).map(identity).collect(),
            slots: SlotMap::collect(|_| &[Number(1)]),
            incoming: None,
        };
        let mut node = Node::new(identity(1), view, Limits::default());
        let tag = Tag { origin: identity(0), slot: 3, oseq: 1 };
        let (attempt, executor) = (Attempt { tag, number: 1 }, identity(2));
        node.chains.lock(&[3]);
        let loan = Loan { slots: vec![3], owners: vec![executor], executor, age: 0 };
        node.chains.loans.insert(attempt, loan);
        (node, attempt)
    }

    #[test]
    fn a_decision_behind_its_parts_ends_the_loan() {
        let (mut node, Attempt { tag, number: attempt }) = lender();
        let (mut room, mut decision, executor) = (Vec::new(), Vec::new(), identity(2));
        let change = |slot| Change { slot, back: 0, group: b"" };
        let changes = Changes::of(&mut room, [3, 5].into_iter().map(change));
        let (number, epoch, reply) = (1, 1, None);
        let record = Record::Decision { executor, number, epoch, tag, attempt, changes, reply };
        put_record(&mut decision, &record);
        node.decisions.mark((executor, 1), 3);
        node.decisions.mark((executor, 1), 5);
        // It is not kept, since nothing is left to do.
        assert!(!node.decisions.learn(&decision, |_| false));
        assert!(node.is_lent(3));
        node.on_decided(&decision);
        assert!(node.has_no_chains() && !node.is_lent(3));
    }

    #[test]
    fn a_member_that_lags_is_not_asked_again() {
        let (mut node, attempt) = lender();
        let executor = identity(2);
        assert!(node.may_ask_again(executor.node));
        let position = node.recall(attempt, executor);
        node.chains.asked.insert(executor.node, position);
        assert!(!node.may_ask_again(executor.node));
        assert!(node.lanes.lane(0).resume(executor.node, position));
        assert!(node.lanes.acknowledge(0, executor.node, position));
        assert!(node.may_ask_again(executor.node));
    }
}
