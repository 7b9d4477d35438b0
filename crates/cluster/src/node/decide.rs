//! Decisions on transactions of several primaries: their parts, and how long they are kept.
//!
//! ```text
//! learned    from the executor, with a part, or from a survivor after a death
//! part       numbered by the slot's primary, as soon as it has all changes of the one before it
//! answered   at the origin, once it has all parts
//! kept       until every part is at all members; unknown places are asked of their primaries
//! ```

use super::{Host, Node, Reply};
use crate::decisions::{DecisionName, Kept, Place};
use crate::lanes::{Part, lane_of};
use crate::mutation::{Mutation, is_broken};
use crate::slot::Slot;
use crate::view::{Identity, NodeSet, View};
use crate::wire::{Record, Slots, Tag};
use std::collections::BTreeMap;

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
        let Ok(Record::Decision { executor, number, tag, .. }) = Record::read(decision) else {
            return;
        };
        let name = (executor, number);
        self.executed.record(tag.origin, tag.slot, tag.oseq);
        for (slot, position) in places {
            self.decisions.mark(name, slot);
            self.decisions.put_place(name, slot, Place::At(from, lane_of(slot), position));
        }
        let attempt = self.decisions.get(name).map(|kept| kept.attempt);
        // An owner that has inherited the loan.
        attempt.into_iter().for_each(|attempt| self.settle_loan(attempt));
        self.answer_chains();
    }

    /// Ends the loan of a decided transaction, unless this primary owes it a part.
    fn settle_loan(&mut self, attempt: crate::decisions::Attempt) {
        let (Some(loan), Some(name)) =
            (self.chains.loans.get(&attempt), self.decisions.of_attempt(attempt))
        else {
            return;
        };
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
        let all: Vec<_> = self.chains.loans.keys().copied().collect();
        all.into_iter().for_each(|attempt| self.settle_loan(attempt));
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
        let mut asked: BTreeMap<(u16, DecisionName), Vec<Slot>> = BTreeMap::new();
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
                    asked.entry((node.0, *name)).or_default().push(slot);
                }
            }
        }
        for ((node, (executor, number)), slots) in asked {
            let mut room = Vec::new();
            let slots = Slots::of(&mut room, slots.into_iter());
            let record = Record::Numbered { executor, number, is_asked: true, slots };
            self.lanes.push(0, Some(NodeSet::of(crate::slot_map::Node(node))), &record);
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
