//! Views: primaries that change, members that die.

use super::{Host, Node, others};
use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::origin::Sent;
use crate::settle::{Fallen, Leaving, Stage};
use crate::slot::{Slot, SlotSet};
use crate::slot_map::{Node as Number, common_runs};
use crate::view::{Identity, View};
use crate::wire::{LANES, Record};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

impl Node {
    /// Adopts the view that follows the one adopted last. No other thread executes commands
    /// meanwhile: what was numbered before belongs to the old view, what is numbered later to the
    /// new one. What a link holds back is to be taken again afterwards ([`Node::receive`]).
    ///
    /// False if the view does not follow, or this node is no member of it.
    pub fn adopt(&mut self, view: View, host: &mut dyn Host) -> bool {
        let is_adopted = self.begin_view(view);
        if is_adopted {
            self.go_on(host);
        }
        is_adopted
    }

    /// The first half of [`Node::adopt`], which executes nothing: the one during which no other
    /// thread executes commands either. [`Node::go_on`] is the second.
    pub fn begin_view(&mut self, view: View) -> bool {
        let is_next = view.epoch == self.view.epoch + 1;
        if !is_next || view.member(self.identity.node) != Some(self.identity) {
            return false;
        }
        let before = std::mem::replace(&mut self.view, view);
        let runs = before.differences(&self.view);
        self.note_members(&before.members);
        self.note_lost_slots(&before, &runs);
        if let Some(holdings) = &mut self.holdings {
            let views = (&before, &self.view);
            self.copies.is_cut_off |= !holdings.adopt(views, &runs, self.identity);
            self.lanes.adopt(self.identity, &self.view, &runs);
            self.review_transfers();
        }
        let epoch = self.view.epoch;
        let others = others(&self.view, self.identity);
        self.lanes.set_members(others);
        for lane in 0..LANES {
            self.lanes.push(lane, None, &Record::End { epoch });
        }
        let members = &self.view.members;
        let dead: Vec<Identity> =
            before.members.into_iter().filter(|member| !members.contains(member)).collect();
        self.lanes.directory().forget(dead.iter().map(|dead| dead.node).collect());
        let has_no_positions = self.has_no_positions();
        for &identity in &dead {
            self.unlink(identity.node);
            let mut fallen = Fallen::new(identity, epoch);
            if has_no_positions {
                // There is nothing here that others lack, and the copy will hold all of it.
                fallen.settled_by = fallen.settled_by.with(self.identity.node);
                fallen.stage = Stage::Settled;
                fallen.is_blank = true;
                self.inboxes.remove(&identity);
                self.lanes.push(0, None, &Record::Settled { of: identity });
            }
            self.fallen.push(fallen);
        }
        if !dead.is_empty() {
            self.tell_tails();
        }
        self.is_unblocked = true;
        self.tell_removers_of(&runs);
        true
    }

    /// Goes on with what has waited for a view that was begun.
    pub fn go_on(&mut self, host: &mut dyn Host) {
        self.settle(host);
        self.flush(host);
    }

    fn note_lost_slots(&mut self, before: &View, runs: &[RangeInclusive<Slot>]) {
        let (me, epoch) = (self.identity.node, self.view.epoch);
        let homes = Arc::new(before.slots.clone());
        let mut leaving: BTreeMap<Number, Leaving> = BTreeMap::new();
        let directory = self.lanes.directory();
        self.primaries.adopt(&self.view, runs, |slot, from| {
            directory.clear(slot);
            if let Some(primary) = before.member(from).filter(|_| from != me) {
                leaving
                    .entry(from)
                    .or_insert_with(|| Leaving::new(primary, epoch, homes.clone()))
                    .add(slot);
            }
        });
        self.leaving.extend(leaving.into_values());
    }

    /// The keyspace removes keys by itself only of slots whose changes this node numbers.
    pub(super) fn tell_removers(&self) {
        self.tell_removers_of(&common_runs(self.view.maps()));
    }

    /// The same of runs of slots with the same homes.
    fn tell_removers_of(&self, runs: &[RangeInclusive<Slot>]) {
        let me = self.identity.node;
        let mut held = SlotSet::default();
        for leaving in &self.leaving {
            held.unite(&leaving.slots_of(!leaving.ended()));
        }
        // As `may_number`, of many slots.
        let is_early = is_broken(Mutation::NumberEarly);
        let may_number_any = self.may_number(&[]);
        let may_number =
            |slot| may_number_any && (is_early || !held.contains(slot) && self.may_hold(&[slot]));
        for run in runs.iter().cloned() {
            let is_home = self.view.slots.homes(*run.start()).contains(&me);
            for slot in run {
                self.tell_remover(slot, is_home, may_number(slot));
            }
        }
    }

    /// The same of one slot, whether or not this node is a home of it, or may number its changes
    /// if it is its primary.
    fn tell_remover(&self, slot: Slot, is_home: bool, may_number: bool) {
        let primary = self.primaries.of_slot(slot).filter(|_| may_number);
        let is_readable = !self.is_partial() || is_home && self.holds(slot);
        self.own_slots.set(slot, primary, is_readable, self.takes_copies(slot));
    }

    /// Tells the others what this node has of the lanes of nodes that have died.
    fn tell_tails(&mut self) {
        let (me, epoch) = (self.identity.node, self.view.epoch);
        for fallen in &mut self.fallen {
            fallen.ask_again(epoch);
            let of = fallen.identity;
            let is_settled = fallen.stage != Stage::Collecting;
            if fallen.is_blank {
                for lane in 0..LANES {
                    let end = Record::TailEnd { of, epoch, upto: 0, is_settled: false };
                    self.lanes.push(lane, None, &end);
                }
                continue;
            }
            let inboxes = self.inboxes.get(&of).map(Vec::as_slice).unwrap_or_default();
            for (lane, inbox) in inboxes.iter().enumerate() {
                for (seq, record) in inbox.unstable() {
                    fallen.note(lane, me, (*seq, record));
                    self.lanes.push(lane, None, &Record::Tail { of, seq: *seq, record });
                }
                let upto = inbox.received();
                fallen.note_end(lane, me, upto, is_settled);
                let end = Record::TailEnd { of, epoch, upto, is_settled };
                self.lanes.push(lane, None, &end);
            }
        }
    }

    /// A node has numbered everything that it has in a lane before a view.
    pub(super) fn note_end(&mut self, from: Identity, lane: usize, epoch: u64) {
        if let Some(inbox) = self.inboxes.get_mut(&from).and_then(|inboxes| inboxes.get_mut(lane)) {
            inbox.end_epoch = epoch;
        }
        let is_ended = |leaving: &Leaving| leaving.from == from && leaving.epoch <= epoch;
        for leaving in self.leaving.iter_mut().filter(|leaving| is_ended(leaving)) {
            leaving.end(lane);
            self.is_unblocked = true;
        }
        let me = self.identity.node;
        for leaving in self.leaving.iter().filter(|leaving| is_ended(leaving)) {
            for slot in leaving.slots_of(1 << lane).iter() {
                let is_home = self.view.slots.homes(slot).contains(&me);
                self.tell_remover(slot, is_home, self.may_number(&[slot]));
            }
        }
    }

    /// Goes on with what has waited for slots that have changed their primaries, or for nodes that
    /// have died.
    pub(super) fn settle(&mut self, host: &mut dyn Host) {
        self.tell_known();
        while std::mem::take(&mut self.is_unblocked) {
            self.settle_fallen(host);
            self.send_again();
            self.leaving.retain(|leaving| !leaving.is_over());
            self.serve_parked(host);
            self.ask_for_slots();
            let from: Vec<Identity> = self.inboxes.keys().copied().collect();
            for from in from {
                self.is_unblocked |= self.advance(from, host);
            }
        }
    }

    fn settle_fallen(&mut self, host: &mut dyn Host) {
        let me = self.identity.node;
        for at in 0..self.fallen.len() {
            let members = self.members_since(self.fallen[at].since);
            let fallen = &mut self.fallen[at];
            let of = fallen.identity;
            let Some(inboxes) = self.inboxes.get_mut(&of) else { continue };
            if fallen.stage == Stage::Collecting && fallen.is_told(members) {
                match self.holdings.is_some() {
                    true => fallen.decide_by_homes(me, &self.leaving, inboxes),
                    false => fallen.decide(inboxes),
                }
            }
            if fallen.stage != Stage::Applying {
                continue;
            }
            self.advance(of, host);
            let inboxes = self.inboxes.get(&of).map(Vec::as_slice).unwrap_or_default();
            if inboxes.iter().all(|inbox| inbox.front().is_none()) {
                let fallen = &mut self.fallen[at];
                fallen.stage = Stage::Settled;
                fallen.settled_by = fallen.settled_by.with(me);
                self.lanes.push(0, None, &Record::Settled { of });
                let leaving = self.leaving.iter_mut();
                leaving.filter(|leaving| leaving.from == of).for_each(Leaving::end_all);
                self.tell_removers();
                self.drop_answers(of);
                self.end_waits_at(of);
                self.is_unblocked = true;
            }
        }
        let is_over = |fallen: &Fallen| {
            let members = self.members_since(fallen.since);
            fallen.settled_by.includes(members) && fallen.stage == Stage::Settled
        };
        let over: Vec<Identity> = self
            .fallen
            .iter()
            .filter(|fallen| is_over(fallen))
            .map(|fallen| fallen.identity)
            .collect();
        self.fallen.retain(|fallen| !over.contains(&fallen.identity));
        self.inboxes.retain(|identity, _| !over.contains(identity));
    }

    /// Answers of a node that has died whose effects died with it: the commands were not executed.
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

    /// Commands that were sent to a primary which has lost one of their slots, and has answered all
    /// that it had executed by then, are sent to the next one.
    fn send_again(&mut self) {
        for leaving in &self.leaving {
            for (&slot, queue) in &mut self.origin.queues {
                if !leaving.has_ended(lane_of(slot)) {
                    continue;
                }
                let has_lost = queue.send_again(|flight| {
                    let sent = flight.sent;
                    let is_lost =
                        |sent: Sent| sent.to == leaving.from.node && sent.epoch < leaving.epoch;
                    sent.is_some_and(is_lost)
                        && flight.call.slots.iter().any(|&slot| leaving.contains(slot))
                });
                if has_lost {
                    self.to_flush.push(slot);
                }
            }
        }
        // Those too that have waited for nothing else.
        let waiting = self.origin.queues.iter();
        let waiting = waiting.filter(|(_, queue)| {
            queue.flights.iter().any(|flight| flight.sent.is_none() && flight.answer.is_none())
        });
        self.to_flush.extend(waiting.map(|(&slot, _)| slot));
        self.to_flush.sort_unstable();
    }
}
