//! View changes: changes of primary, joining and dead members.

use super::{Host, Node, others};
use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken, is_endless};
use crate::origin::{HeldAnswer, Sent};
use crate::owners_recovery::Lost;
use crate::reconcile::{DeadMember, FormerPrimary, Stage};
use crate::slot::{Slot, SlotSet};
use crate::slot_map::{Node as Number, common_runs};
use crate::view::{Identity, View};
use crate::wire::{LANES, Record};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

impl Node {
    /// Adopts the view that follows the last one. No other thread executes commands meanwhile:
    /// changes ordered before belong to the old view, later ones to the new view. Frames that a
    /// link holds back have to be taken again afterwards ([`Node::receive`]).
    ///
    /// Returns false if the view does not follow, or does not contain this node.
    pub fn adopt(&mut self, view: View, host: &mut dyn Host) -> bool {
        let is_adopted = self.begin_view(view);
        if is_adopted {
            self.resume_pending(host);
        }
        is_adopted
    }

    /// First half of [`Node::adopt`]: executes nothing, and no other thread may execute commands
    /// meanwhile. [`Node::resume_pending`] is the second half.
    pub fn begin_view(&mut self, view: View) -> bool {
        let is_next = view.epoch == self.view.epoch + 1;
        if !is_next || view.member(self.identity.node) != Some(self.identity) {
            return false;
        }
        let before = std::mem::replace(&mut self.view, view);
        let runs = before.differences(&self.view);
        self.record_members(&before.members);
        let is_new =
            |member: &&Identity| !before.members.contains(member) || **member == self.identity;
        for member in self.view.members.iter().filter(is_new) {
            self.local_slots.note_adopted(member.node, self.view.epoch);
        }
        self.review_readers(&before, &runs);
        self.record_lost_slots(&before, &runs);
        if let Some(holdings) = &mut self.holdings {
            let views = (&before, &self.view);
            self.copies.is_cut_off |= !holdings.adopt(views, &runs, self.identity);
            self.review_transfers();
        }
        self.lanes.adopt(self.identity, &self.view, &runs);
        let epoch = self.view.epoch;
        let others = others(&self.view, self.identity);
        self.lanes.set_members(others);
        self.hand_loans_over(&before);
        self.review_places(&before);
        for lane in 0..LANES {
            self.lanes.push(lane, None, &Record::End { epoch });
        }
        let members = &self.view.members;
        let removed: Vec<Identity> =
            before.members.into_iter().filter(|member| !members.contains(member)).collect();
        self.lanes.directory().forget(removed.iter().map(|removed| removed.node).collect());
        let has_no_positions = self.has_no_positions();
        if !removed.is_empty() && !self.dead.is_empty() {
            self.lanes.release_commits();
        }
        for &identity in &removed {
            self.unlink(identity.node);
            let mut dead = DeadMember::new(identity, epoch);
            if has_no_positions {
                // Without data this node knows nothing that others lack; its copy will contain all
                // of it.
                dead.reconciled_by = dead.reconciled_by.with(self.identity.node);
                dead.stage = Stage::Reconciled;
                dead.is_blank = true;
                self.inboxes.remove(&identity);
                self.lanes.push(0, None, &Record::Reconciled { of: identity });
            }
            self.dead.push(dead);
        }
        if !removed.is_empty() {
            self.tell_decisions();
            self.send_tails();
        }
        self.is_unblocked = true;
        self.update_slots_of(&runs);
        self.forget_full();
        true
    }

    /// Second half of [`Node::adopt`]: resumes work that waited for the view.
    pub fn resume_pending(&mut self, host: &mut dyn Host) {
        self.answer_held(self.identity);
        self.reconcile(host);
        self.flush(host);
    }

    fn record_lost_slots(&mut self, before: &View, runs: &[RangeInclusive<Slot>]) {
        let (me, epoch) = (self.identity.node, self.view.epoch);
        self.past_owners.push((before.epoch, Arc::new(before.slots.clone())));
        let inboxes = self.inboxes.values().flatten();
        let oldest = inboxes.map(|inbox| inbox.end_epoch).min().unwrap_or(epoch);
        // Changes of earlier views were applied here, so no member has more of them.
        self.past_owners.retain(|(of, _)| *of >= oldest.min(before.epoch));
        let owners = &self.past_owners;
        let mut former: BTreeMap<Number, FormerPrimary> = BTreeMap::new();
        let directory = self.lanes.directory();
        self.primaries.adopt(&self.view, runs, |slot, from| {
            directory.clear(slot);
            if let Some(primary) = before.member(from).filter(|_| from != me) {
                former
                    .entry(from)
                    .or_insert_with(|| FormerPrimary::new(primary, epoch, owners.clone()))
                    .add(slot);
            }
        });
        self.former.extend(former.into_values());
    }

    /// Updates the slots of which the keyspace may expire and evict keys: those ordered by this
    /// node.
    pub(super) fn update_slots(&self) {
        self.update_slots_of(&common_runs(self.view.maps()));
    }

    /// Like [`Node::update_slots`], for runs of slots with the same owners.
    fn update_slots_of(&self, runs: &[RangeInclusive<Slot>]) {
        let me = self.identity.node;
        let mut held = SlotSet::default();
        for former in &self.former {
            held.unite(&former.slots_of(!former.ended()));
        }
        // Equivalent to `may_order`, for many slots at once.
        let is_early = is_broken(Mutation::OrderEarly);
        let may_order_any = self.may_order(&[]);
        let may_order = |slot| {
            may_order_any
                && (is_early || !held.contains(slot) && self.may_hold(&[slot]))
                && !self.is_lent(slot)
        };
        for run in runs.iter().cloned() {
            let is_owner = self.view.slots.owners(*run.start()).contains(&me);
            for slot in run {
                self.update_slot(slot, is_owner, may_order(slot));
            }
        }
    }

    /// Like [`Node::update_slots`], for one slot.
    pub(super) fn update_slot(&self, slot: Slot, is_owner: bool, may_order: bool) {
        let primary = self.primaries.of_slot(slot).filter(|_| may_order);
        let is_readable = !self.is_partial() || is_owner && self.holds(slot);
        let is_readable = is_readable && !self.is_lent(slot);
        self.local_slots.set(slot, primary, is_readable, self.takes_copies(slot));
    }

    /// Sends the others the unstable records that this node has of dead members' lanes.
    fn send_tails(&mut self) {
        let (me, epoch) = (self.identity.node, self.view.epoch);
        for dead in &mut self.dead {
            dead.ask_again(epoch);
            let of = dead.identity;
            let is_reconciled = dead.stage != Stage::Collecting;
            if dead.is_blank {
                for lane in 0..LANES {
                    let (upto, stable) = (0, 0);
                    let end = Record::TailEnd { of, epoch, upto, stable, is_reconciled: false };
                    self.lanes.push(lane, None, &end);
                }
                continue;
            }
            let inboxes = self.inboxes.get(&of).map(Vec::as_slice).unwrap_or_default();
            for (lane, inbox) in inboxes.iter().enumerate() {
                for (seq, record) in inbox.unstable() {
                    dead.record(lane, me, (*seq, record));
                    self.lanes.push(lane, None, &Record::Tail { of, seq: *seq, record });
                }
                let (upto, stable) = (inbox.received(), inbox.stable());
                dead.record_end(lane, me, (upto, stable), is_reconciled);
                let end = Record::TailEnd { of, epoch, upto, stable, is_reconciled };
                self.lanes.push(lane, None, &end);
            }
        }
    }

    /// Handles `END`: all further records of this lane belong to the view of that epoch.
    pub(super) fn on_end(&mut self, from: Identity, lane: usize, epoch: u64) {
        self.local_slots.note_adopted(from.node, epoch);
        if let Some(inbox) = self.inboxes.get_mut(&from).and_then(|inboxes| inboxes.get_mut(lane)) {
            inbox.end_epoch = epoch;
        }
        let is_ended = |former: &FormerPrimary| former.from == from && former.epoch <= epoch;
        for former in self.former.iter_mut().filter(|former| is_ended(former)) {
            former.end(lane);
            self.is_unblocked = true;
        }
        let me = self.identity.node;
        for former in self.former.iter().filter(|former| is_ended(former)) {
            for slot in former.slots_of(1 << lane).iter() {
                let is_owner = self.view.slots.owners(slot).contains(&me);
                self.update_slot(slot, is_owner, self.may_order(&[slot]));
            }
        }
    }

    /// Resumes work that waited for changes of primary or for the recovery of dead members' lanes.
    pub(super) fn reconcile(&mut self, host: &mut dyn Host) {
        self.send_slots_known();
        self.glance_at_decisions();
        // They may wait for acknowledgements.
        self.is_unblocked |= !self.chains.queue.is_empty();
        while std::mem::take(&mut self.is_unblocked) && !is_endless() {
            self.reconcile_dead(host);
            self.send_again();
            self.former.retain(|former| !former.is_over());
            self.number_parts(host);
            self.settle_loans();
            self.answer_chains();
            self.advance_chains(host);
            self.serve_parked(host);
            self.ask_for_slots();
            let from: Vec<Identity> = self.inboxes.keys().copied().collect();
            for from in from {
                self.is_unblocked |= self.advance(from, host);
            }
        }
    }

    fn reconcile_dead(&mut self, host: &mut dyn Host) {
        let me = self.identity.node;
        for at in 0..self.dead.len() {
            let members = self.members_since(self.dead[at].since);
            let dead = &mut self.dead[at];
            let (of, since) = (dead.identity, dead.since);
            let Some(inboxes) = self.inboxes.get_mut(&of) else { continue };
            if dead.stage == Stage::Collecting && dead.is_reported_by(members) {
                if self.holdings.is_some() {
                    let lost = dead.decide_by_owners(me, &self.former, inboxes);
                    self.drop_lost_answers(of, lost);
                } else {
                    dead.decide(inboxes);
                }
            }
            if self.dead[at].stage != Stage::Applying {
                continue;
            }
            self.advance(of, host);
            let inboxes = self.inboxes.get(&of).map(Vec::as_slice).unwrap_or_default();
            if inboxes.iter().all(|inbox| inbox.front().is_none()) {
                let dead = &mut self.dead[at];
                dead.stage = Stage::Reconciled;
                dead.reconciled_by = dead.reconciled_by.with(me);

                self.lanes.push(0, None, &Record::Reconciled { of });
                let former = self.former.iter_mut();
                former.filter(|former| former.from == of).for_each(FormerPrimary::end_all);
                self.end_loans_of(of);
                self.start_again_without(of, since);
                self.update_slots();
                self.drop_answers(of);
                self.end_waits_at(of);
                self.is_unblocked = true;
            }
        }
        let is_over = |dead: &DeadMember| {
            let members = self.members_since(dead.since);
            dead.reconciled_by.includes(members) && dead.stage == Stage::Reconciled
        };
        let over: Vec<Identity> =
            self.dead.iter().filter(|dead| is_over(dead)).map(|dead| dead.identity).collect();
        self.dead.retain(|dead| !over.contains(&dead.identity));
        self.inboxes.retain(|identity, _| !over.contains(identity));
    }

    /// Discards a dead node's answers that have observed changes which are lost.
    fn drop_lost_answers(&mut self, of: Identity, lost: Lost) {
        let shows = |held: &HeldAnswer| {
            held.from == of && held.waits.iter().any(|&seen| lost.may_show(seen))
        };
        for queue in self.origin.queues.values_mut() {
            for flight in &mut queue.flights {
                flight.answer.take_if(|held| shows(held));
            }
        }
        for parked in self.origin.parked.values_mut() {
            parked.answer.take_if(|held| shows(held));
        }
    }

    /// Discards a dead node's answers that still wait for effects which died with it: the commands
    /// were not executed.
    fn drop_answers(&mut self, of: Identity) {
        self.held.retain(|(from, ..)| *from != of);
        for queue in self.origin.queues.values_mut() {
            for flight in &mut queue.flights {
                if flight.answer.as_ref().is_some_and(|held| held.from == of) {
                    flight.answer = None;
                }
            }
        }
    }

    /// Marks commands for sending again that were sent to a primary which lost one of their slots
    /// and has answered everything that it executed.
    fn send_again(&mut self) {
        for former in &self.former {
            for (&slot, queue) in &mut self.origin.queues {
                if !former.has_ended(lane_of(slot)) {
                    continue;
                }
                let is_dead = self.view.member(former.from.node) != Some(former.from);
                let has_lost = queue.send_again(is_dead, |flight| {
                    let sent = flight.sent;
                    // Another member ends the attempt, or it starts again without a dead one.
                    if flight.chain.is_some() {
                        return false;
                    }
                    let is_lost =
                        |sent: Sent| sent.to == former.from.node && sent.epoch < former.epoch;
                    sent.is_some_and(is_lost)
                        && flight.call.slots.iter().any(|&slot| former.contains(slot))
                });
                if has_lost {
                    self.to_flush.push(slot);
                }
            }
        }
        // Includes commands that were never sent.
        let waiting = self.origin.queues.iter();
        let waiting = waiting.filter(|(_, queue)| {
            queue.flights.iter().any(|flight| flight.sent.is_none() && flight.answer.is_none())
        });
        self.to_flush.extend(waiting.map(|(&slot, _)| slot));
        self.to_flush.sort_unstable();
    }
}
