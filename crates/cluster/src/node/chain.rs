//! Transactions of several primaries, on their way through these.
//!
//! ```text
//! origin -- CHAIN --> A: queued, locked, lent -- CHAIN, keys --> B: also; the last executes
//!                     A: its part <------------- DECIDED ------- B: its part
//!        <------------------------------------- DECIDED ------- B
//!        <-- parts --                           <-- parts --
//! ```
//!
//! The unit of a loan is the slot: nothing else uses it until it has its part of the decision, or
//! the attempt is refused. Slots are locked in the order of their primaries' numbers, those of one
//! primary at once, so there is no deadlock, in no sequence of views.

use super::{Host, Node, Reply, Route};
use crate::chains::{Loan, Queued};
use crate::decisions::{Attempt, without_reply};
use crate::lanes::lane_of;
use crate::mutation::{Mutation, is_broken};
use crate::origin::{Chain, Flight, Sent};
use crate::reconcile::{DeadMember, Stage};
use crate::slot::{Slot, slot_of};
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet, View};
use crate::wire::{Change, Changes, Exec, LANES, Record, Refusal, Slots, Tag, put_record};
use petrel_keyspace::{Effect, Key};
use petrel_persistence::effects::GroupWriter;
use std::sync::Arc;

/// Maximum number of transactions of several primaries that wait at one of them.
const QUEUE_MAX: usize = 1024;
/// Maximum number of keys of such a transaction at one primary.
const KEYS_MAX: usize = 65_536;
/// Number of reviews after which one that waits is refused.
const WAITS_MAX: u32 = 2;

/// Result of a transaction in a scratch keyspace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Apart {
    /// The reply.
    pub reply: Vec<u8>,
    /// Changes by slot, as groups of effects.
    pub changes: Vec<(Slot, Vec<u8>)>,
}

impl Node {
    /// Whether a slot of this primary is on loan, or lacks a part of a decision.
    pub(super) fn is_lent(&self, slot: Slot) -> bool {
        let is_lent = self.chains.is_locked(slot) && !is_broken(Mutation::UseLent)
            || self.decisions.is_open(slot) && !is_broken(Mutation::SkipMissing);
        is_lent && self.primaries.of_slot(slot) == Some(self.identity.node)
    }

    /// Whether a command may be executed at several primaries.
    pub(super) fn may_chain(&self, flight: &Flight) -> bool {
        let call = &flight.call;
        self.limits.chains
            && call.client.is_none()
            && call.wait_ms.is_none()
            && call.slots.iter().all(|&slot| self.primaries.of_slot(slot).is_some())
    }

    /// The primaries of slots, in the order in which a transaction visits them.
    fn owners_of(&self, slots: &[Slot], oseq: u64) -> Vec<Number> {
        let owners: NodeSet =
            slots.iter().filter_map(|&slot| self.primaries.of_slot(slot)).collect();
        let mut owners: Vec<Number> = owners.iter().collect();
        if is_broken(Mutation::AnyOrder) && oseq.is_multiple_of(2) {
            owners.reverse();
        }
        owners
    }

    /// Starts an attempt of a client's transaction.
    pub(super) fn start_chain(&mut self, (slot, oseq): (Slot, u64)) -> bool {
        let queue = self.origin.queues.get_mut(&slot);
        let Some(flight) = queue.and_then(|queue| queue.find(oseq)) else { return false };
        flight.attempts += 1;
        let (attempt, call) = (flight.attempts, flight.call.clone());
        let owners = self.owners_of(&call.slots, oseq);
        let Some(&first) = owners.first() else { return false };
        let (to, epoch) = (first, self.view.epoch);
        let queue = self.origin.queues.get_mut(&slot);
        if let Some(flight) = queue.and_then(|queue| queue.find(oseq)) {
            flight.sent = Some(Sent { to, epoch, position: 0 });
            let owners = owners.iter().copied().collect();
            flight.chain = Some(Chain { attempt, owners });
        }
        let mut exec = Vec::new();
        // A primary that has joined since its appointment knows no earlier tenure.
        let (call, tenure) = (call.borrowed(), self.view.epoch);
        put_record(&mut exec, &Record::Exec(Exec { oseq, first: oseq, tenure, call }));
        let (origin, lent) = (self.identity, Changes::default());
        let chain = Record::Chain { origin, attempt, lent, exec: &exec };
        if first == self.identity.node {
            let mut bytes = Vec::new();
            put_record(&mut bytes, &chain);
            self.take_chain(bytes.into());
        } else {
            self.lanes.push(0, Some(NodeSet::of(first)), &chain);
        }
        true
    }

    /// Whether a transaction's primaries have not changed since its origin sent it, and the attempt
    /// was not refused.
    fn is_valid(&self, attempt: Attempt, exec: &Exec<'_>) -> bool {
        let slots = &exec.call.slots;
        let tenures = slots.iter().map(|&slot| self.primaries.tenure(slot));
        let is_present = tenures.max().is_some_and(|tenure| tenure <= exec.tenure)
            && slots.iter().all(|&slot| self.primaries.of_slot(slot).is_some());
        (is_present || is_broken(Mutation::DecideLate))
            && self.is_member(attempt.tag.origin)
            && !self.chains.is_refused(attempt)
    }

    /// Handles `CHAIN`: the transaction waits for its slots here.
    pub(super) fn take_chain(&mut self, record: Arc<[u8]>) {
        let Some((attempt, exec, lent)) = read_chain(&record) else { return };
        let mine = |slot: &Slot| self.primaries.of_slot(*slot) == Some(self.identity.node);
        let mut slots: Vec<Slot> = exec.call.slots.iter().copied().filter(mine).collect();
        slots.sort_unstable();
        slots.dedup();
        let is_full = self.chains.queue.len() >= QUEUE_MAX
            || self.chains.bytes() + record.len() > self.limits.chain.saturating_mul(2);
        let refusal = match () {
            () if slots.is_empty() || !self.is_valid(attempt, &exec) => Some(Refusal::Moved),
            () if is_full => Some(Refusal::Busy),
            () => None,
        };
        match refusal {
            Some(reason) => self.refuse(attempt, lenders(lent), reason),
            None => {
                let (locked, age) = (None, 0);
                self.chains.push(Queued { attempt, record, slots, locked, age });
                self.is_unblocked = true;
            }
        }
    }

    /// Ends an attempt that is not decided, for members that lend to it and for its origin.
    fn refuse(&mut self, attempt: Attempt, lenders: NodeSet, reason: Refusal) {
        self.chains.refuse(attempt);
        let Attempt { tag, number } = attempt;
        let refused = Record::Refused { tag, attempt: number, reason };
        let alone = is_broken(Mutation::RefuseAlone);
        let mut to = if alone { NodeSet::default() } else { lenders };
        if self.is_member(tag.origin) {
            to = to.with(tag.origin.node);
        }
        let to = to.without(self.identity.node);
        if to != NodeSet::default() {
            self.lanes.push(0, Some(to), &refused);
        }
        if tag.origin == self.identity {
            self.chain_refused(attempt, reason);
        }
    }

    /// Handles `REFUSED`: an attempt was not and will not be executed.
    pub(super) fn on_refused(&mut self, attempt: Attempt, reason: Refusal) {
        self.chains.refuse(attempt);
        self.end_loan(attempt);
        while let Some(at) = self.chains.queue.iter().position(|queued| queued.attempt == attempt) {
            self.drop_queued(at);
        }
        if attempt.tag.origin == self.identity {
            self.chain_refused(attempt, reason);
        }
    }

    /// Answers the client of a refused attempt, or starts the next one.
    fn chain_refused(&mut self, attempt: Attempt, reason: Refusal) {
        let Tag { slot, oseq, .. } = attempt.tag;
        let queue = self.origin.queues.get_mut(&slot);
        let Some(flight) = queue.and_then(|queue| queue.find(oseq)) else { return };
        if flight.chain.is_none_or(|chain| chain.attempt != attempt.number) {
            return;
        }
        self.to_flush.push(slot);
        self.is_unblocked = true;
        match reason {
            Refusal::Moved => (flight.sent, flight.chain) = (None, None),
            reason => self.finish(slot, oseq, Reply::Refused(reason)),
        }
    }

    fn drop_queued(&mut self, at: usize) -> Queued {
        let queued = self.chains.take(at);
        if queued.locked.is_some() {
            self.unlock_slots(&queued.slots);
        }
        queued
    }

    fn lock_slots(&mut self, slots: &[Slot]) {
        self.chains.lock(slots);
        self.show_slots(slots);
    }

    pub(super) fn unlock_slots(&mut self, slots: &[Slot]) {
        self.chains.unlock(slots);
        self.show_slots(slots);
        self.is_unblocked = true;
    }

    /// Ends a loan, if there is one.
    pub(super) fn end_loan(&mut self, attempt: Attempt) {
        if let Some(loan) = self.chains.loans.remove(&attempt) {
            self.unlock_slots(&loan.slots);
        }
    }

    /// Lends slots that are free, and executes transactions of which this node is the last primary.
    pub(super) fn advance_chains(&mut self, host: &mut dyn Host) {
        if self.chains.queue.is_empty() {
            return;
        }
        let awaited = self.awaited_slots();
        let (mut at, mut blocked) = (0, awaited.clone());
        while at < self.chains.queue.len() {
            let Queued { attempt, record, slots, locked, .. } = &self.chains.queue[at];
            let (attempt, record, slots, locked) =
                (*attempt, record.clone(), slots.clone(), *locked);
            let Some((_, exec, lent)) = read_chain(&record) else {
                self.drop_queued(at);
                continue;
            };
            if !self.is_valid(attempt, &exec) {
                self.drop_queued(at);
                self.refuse(attempt, lenders(lent), Refusal::Moved);
                continue;
            }
            // First come, first served.
            let is_free = !slots.iter().any(|slot| blocked.contains(slot));
            if locked.is_none() && is_free && self.may_order(&slots) {
                self.lock_slots(&slots);
                self.chains.queue[at].locked = Some(host.begin_loan());
            }
            let locked = self.chains.queue[at].locked;
            let is_safe =
                || !self.lanes.has_unreplicated(&slots) || is_broken(Mutation::LendUnsafe);
            if locked.is_some_and(|number| host.may_lend(number))
                && is_safe()
                && self.is_settled(&slots)
            {
                let queued = self.chains.take(at);
                self.lend(queued, (&exec, lent), host);
                (at, blocked) = (0, awaited.clone());
                continue;
            }
            blocked.extend(slots);
            at += 1;
        }
    }

    /// Slots of commands that wait here for the end of loans: they are executed before the next
    /// loan.
    fn awaited_slots(&self) -> Vec<Slot> {
        let mut awaited = Vec::new();
        let mut add = |slots: &[Slot]| {
            if self.is_on_loan(slots) {
                awaited.extend_from_slice(slots);
            }
        };
        for (.., record) in &self.parked {
            if let Ok(Record::Exec(exec)) = Record::read(record) {
                add(&exec.call.slots);
            }
        }
        for queue in self.origin.queues.values() {
            let waiting = queue.unsent().filter(|flight| !queue.is_behind_chain(flight.oseq));
            let slots = waiting.map(|flight| &flight.call.slots);
            slots
                .filter(|slots| self.route(slots) == Route::Later)
                .into_iter()
                .for_each(|slots| add(slots));
        }
        awaited
    }

    /// Lends the keys of a transaction that has locked its slots, and passes it on.
    fn lend(
        &mut self,
        queued: Queued,
        (exec, lent): (&Exec<'_>, Changes<'_>),
        host: &mut dyn Host,
    ) {
        let Queued { attempt, slots, .. } = queued;
        let tag = attempt.tag;
        let owners = self.owners_of(&exec.call.slots, exec.oseq);
        let before = lenders(lent);
        let is_done = slots.contains(&tag.slot)
            && self.executed.known(tag.origin, tag.slot) >= tag.oseq
            && !is_broken(Mutation::ExecuteChainTwice);
        let keys = match is_done {
            true => Err(Refusal::Before),
            false => self.keys_to_lend((tag, exec), &slots, host),
        };
        let lent_bytes: usize = lent.iter().map(|keys| keys.group.len()).sum();
        let keys = keys.and_then(|keys| match keys.len() + lent_bytes <= self.limits.chain {
            true => Ok(keys),
            false => Err(Refusal::TooLarge),
        });
        let (keys, last) = match (keys, owners.last()) {
            (Ok(keys), Some(last)) => (keys, *last),
            (keys, _) => {
                self.unlock_slots(&slots);
                return self.refuse(attempt, before, keys.err().unwrap_or(Refusal::Moved));
            }
        };
        let Some(executor) = self.view.member(last) else { return self.unlock_slots(&slots) };
        let first = slots[0];
        let identities = owners.iter().filter_map(|owner| self.view.member(*owner)).collect();
        let loan = Loan { slots, owners: identities, executor, age: 0 };
        self.chains.loans.insert(attempt, loan);
        let mut room = Vec::new();
        let here = Change { slot: first, back: self.identity.node.0.into(), group: &keys };
        let lent = Changes::of(&mut room, lent.iter().chain([here]));
        let next = owners.iter().position(|owner| *owner == self.identity.node);
        match next.and_then(|at| owners.get(at + 1)) {
            Some(next) => {
                let mut bytes = Vec::new();
                put_record(&mut bytes, &Record::Exec(exec.clone()));
                let (origin, attempt) = (tag.origin, attempt.number);
                let chain = Record::Chain { origin, attempt, lent, exec: &bytes };
                self.lanes.push(0, Some(NodeSet::of(*next)), &chain);
            }
            None => self.execute_chain(attempt, (exec, lent), before, host),
        }
    }

    /// The keys of a transaction in slots of this node, as effects that store them; also expired
    /// ones, which the executor removes.
    fn keys_to_lend(
        &mut self,
        (tag, exec): (Tag, &Exec<'_>),
        slots: &[Slot],
        host: &mut dyn Host,
    ) -> Result<Vec<u8>, Refusal> {
        let mut keys = Vec::new();
        host.keys_used(tag, &exec.call, &mut keys)?;
        keys.retain(|(_, key)| slots.contains(&slot_of(key)));
        keys.sort_unstable();
        keys.dedup();
        if keys.len() > KEYS_MAX {
            return Err(Refusal::TooLarge);
        }
        let (mut group, limit) = (GroupWriter::default(), self.limits.chain);
        let handle = host.handle();
        let databases = handle.keyspace().databases();
        handle.enter();
        for (db, bytes) in keys.iter().filter(|(db, _)| *db < databases) {
            let key = Key { bytes, hash: handle.hash(bytes) };
            handle.lock(key.hash);
            if let Some(value) = handle.view_stored(*db, key) {
                let expiry = value.expiry();
                let is_small = value.footprint() + group.bytes().len() <= limit;
                match (is_small, value.string()) {
                    (false, _) => {}
                    (true, Ok(value)) => group.add(*db, &Effect::Put { key: bytes, value, expiry }),
                    (true, Err(_)) => {
                        group.add(*db, &Effect::Store { key: bytes, value, expiry });
                    }
                }
                if !is_small {
                    handle.unlock();
                    handle.exit();
                    return Err(Refusal::TooLarge);
                }
            }
            handle.unlock();
        }
        handle.exit();
        Ok(std::mem::take(group.bytes_mut()))
    }

    /// Executes a transaction as its last primary, and decides.
    fn execute_chain(
        &mut self,
        attempt: Attempt,
        (exec, lent): (&Exec<'_>, Changes<'_>),
        before: NodeSet,
        host: &mut dyn Host,
    ) {
        let groups: Vec<&[u8]> = lent.iter().map(|keys| keys.group).collect();
        let slots = &exec.call.slots;
        let limit = self.limits.chain;
        let apart = host.execute_apart(attempt.tag, &exec.call, &groups).and_then(|apart| {
            let Apart { reply, changes } = &apart;
            let bytes: usize = changes.iter().map(|(_, group)| group.len()).sum();
            match changes.iter().all(|(slot, _)| slots.contains(slot)) {
                false => Err(Refusal::Unsupported),
                true if bytes.max(reply.len()) > limit => Err(Refusal::TooLarge),
                true => Ok(apart),
            }
        });
        let Apart { reply, changes } = match apart {
            Ok(apart) => apart,
            Err(reason) => {
                self.end_loan(attempt);
                return self.refuse(attempt, before, reason);
            }
        };
        let mut sorted = slots.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let group = |slot: Slot| {
            let of_slot = changes.iter().find(|(of, _)| *of == slot);
            of_slot.map_or(&[][..], |(_, group)| group)
        };
        let (mut room, mut whole) = (Vec::new(), Vec::new());
        let change = |slot| Change { slot, back: 0, group: group(slot) };
        let changes = Changes::of(&mut room, sorted.into_iter().map(change));
        let (executor, epoch, tag) = (self.identity, self.view.epoch, attempt.tag);
        let (number, reply) = (self.decisions.next_number(), Some(&reply[..]));

        let attempt = attempt.number;
        let decision = Record::Decision { executor, number, epoch, tag, attempt, changes, reply };
        put_record(&mut whole, &decision);
        let short = without_reply(&whole);
        let is_own = tag.origin == self.identity;
        let others = if is_own { before } else { before.without(tag.origin.node) };
        let others = others.without(self.identity.node);
        let kept = short.as_deref().unwrap_or(&whole);
        if !is_own && self.is_member(tag.origin) {
            let to = Some(NodeSet::of(tag.origin.node));
            self.lanes.push(0, to, &Record::Decided { decision: &whole });
        }
        if others != NodeSet::default() {
            self.lanes.push(0, Some(others), &Record::Decided { decision: kept });
        }
        self.decisions.learn(if is_own { &whole } else { kept }, |_| is_own);
        self.is_unblocked = true;
        self.number_parts(host);
    }

    /// Handles `RECALL`: a member that lends to an attempt asks for the end of the loan.
    pub(super) fn on_recall(&mut self, from: Identity, attempt: Attempt) {
        if !self.is_member(from) {
            return;
        }
        if let Some(kept) = self.decisions.of_attempt(attempt).and_then(|of| self.decisions.get(of))
        {
            let decided = Record::Decided { decision: &kept.bytes };
            self.lanes.push(0, Some(NodeSet::of(from.node)), &decided);
            return;
        }
        let mut asking = NodeSet::of(from.node);
        if let Some(at) = self.chains.queue.iter().position(|queued| queued.attempt == attempt) {
            let queued = self.drop_queued(at);
            if let Some((.., lent)) = read_chain(&queued.record) {
                asking.0 |= lenders(lent).0;
            }
        }
        self.refuse(attempt, asking, Refusal::Moved);
    }

    /// Before the end of an epoch: transactions with other primaries end, and the next primaries of
    /// slots on loan inherit the loans.
    pub(super) fn hand_loans_over(&mut self, before: &View) {
        let me = Some(self.identity.node);
        for at in (0..self.chains.queue.len()).rev() {
            let Queued { attempt, record, .. } = &self.chains.queue[at];
            let (attempt, record) = (*attempt, record.clone());
            let Some((_, exec, lent)) = read_chain(&record) else { continue };
            if !self.is_valid(attempt, &exec) {
                self.drop_queued(at);
                self.refuse(attempt, lenders(lent), Refusal::Moved);
            }
        }
        if is_broken(Mutation::EndLoans) {
            let all: Vec<Attempt> = self.chains.loans.keys().copied().collect();
            all.into_iter().for_each(|attempt| self.end_loan(attempt));
        }
        for (attempt, loan) in &self.chains.loans {
            let is_lost = |slot: &Slot| {
                before.slots.primary(*slot) == me && self.primaries.of_slot(*slot) != me
            };
            let lost: Vec<Slot> = loan.slots.iter().copied().filter(is_lost).collect();
            for lane in (0..LANES).filter(|_| !is_broken(Mutation::ForgetLoans)) {
                let mut room = Vec::new();
                let of_lane = lost.iter().copied().filter(|slot| lane_of(*slot) == lane);
                if of_lane.clone().next().is_none() {
                    continue;
                }
                let slots = Slots::of(&mut room, of_lane);
                let (tag, executor, attempt) = (attempt.tag, loan.executor, attempt.number);
                self.lanes.push(lane, None, &Record::Lent { tag, attempt, executor, slots });
            }
        }
        let view = &self.view;
        self.chains.keep_refused(|origin| view.member(origin.node) == Some(origin));
    }

    /// Handles `LENT`: slots that the sender loses are on loan. Every owner inherits the loan, and
    /// asks for its end. An importer gets the data from the next primary, after the loan.
    pub(super) fn on_lent(&mut self, attempt: Attempt, executor: Identity, slots: Slots<'_>) {
        let me = self.identity;
        let is_owned = |slot: &Slot| self.view.slots.owners(*slot).contains(&me.node);
        let slots: Vec<Slot> = slots.iter().filter(is_owned).collect();
        let is_over =
            self.chains.is_refused(attempt) || self.decisions.of_attempt(attempt).is_some();
        if slots.is_empty() || is_over {
            return;
        }
        if executor == me {
            return self.refuse(attempt, NodeSet::default(), Refusal::Moved);
        }
        let awaits = |of: Identity| {
            self.dead.iter().any(|dead| dead.identity == of && dead.stage != Stage::Reconciled)
        };
        let is_member = self.is_member(executor);
        if !is_member && !awaits(executor) {
            return;
        }
        // The loan may have been inherited before, from an earlier primary.
        let known = self.chains.loans.get(&attempt);
        let is_new = |slot: &Slot| known.is_none_or(|loan| !loan.slots.contains(slot));
        let slots: Vec<Slot> = slots.into_iter().filter(is_new).collect();
        self.lock_slots(&slots);
        let new = || Loan { slots: Vec::new(), owners: vec![executor], executor, age: 0 };
        self.chains.loans.entry(attempt).or_insert_with(new).slots.extend(slots);
        if is_member {
            self.recall(attempt, executor);
        }
    }

    pub(super) fn recall(&self, attempt: Attempt, executor: Identity) -> u64 {
        let recall = Record::Recall { tag: attempt.tag, attempt: attempt.number };
        self.lanes.push(0, Some(NodeSet::of(executor.node)), &recall)
    }

    /// Whether a member has received all repeated questions: one that lags is not sent more.
    pub(super) fn may_ask_again(&self, node: Number) -> bool {
        let asked = self.chains.asked.get(&node);
        asked.is_none_or(|position| self.lanes.members_at_lane(0, *position).contains(node))
            || is_broken(Mutation::AskAlways)
    }

    /// Ends the loans to transactions that were not decided before a primary of them died. No
    /// executor decides on them any more, and all its decisions are known.
    pub(super) fn end_loans_of(&mut self, dead: Identity) {
        let over = self.chains.loans.iter().filter(|(_, loan)| loan.owners.contains(&dead));
        let over = over.map(|(attempt, _)| *attempt);
        let over: Vec<Attempt> =
            over.filter(|attempt| self.decisions.of_attempt(*attempt).is_none()).collect();
        for attempt in over.into_iter().filter(|_| !is_broken(Mutation::KeepLoans)) {
            self.end_loan(attempt);
        }
    }

    /// Starts transactions again that were not decided before a primary of them died.
    pub(super) fn start_again_without(&mut self, dead: Identity, since: u64) {
        let me = self.identity;
        for (&slot, queue) in &mut self.origin.queues {
            for flight in &mut queue.flights {
                let Some(chain) = flight.chain else { continue };
                let tag = Tag { origin: me, slot, oseq: flight.oseq };
                let attempt = Attempt { tag, number: chain.attempt };
                let is_decided = self.decisions.of_attempt(attempt).is_some()
                    && !is_broken(Mutation::ExecuteChainTwice);
                let is_old = flight.sent.is_some_and(|sent| sent.epoch < since);
                if is_old && chain.owners.contains(dead.node) && !is_decided {
                    (flight.sent, flight.chain) = (None, None);
                    self.to_flush.push(slot);
                }
            }
        }
    }

    /// Refuses transactions that have waited too long, and asks for the end of loans for which
    /// others wait. The host calls this at equal intervals, half of the time that one may wait.
    pub fn review_chains(&mut self, host: &mut dyn Host) {
        for at in (0..self.chains.queue.len()).rev() {
            let queued = &mut self.chains.queue[at];
            queued.age += 1;
            if queued.age <= WAITS_MAX {
                continue;
            }
            let queued = self.drop_queued(at);
            if let Some((attempt, _, lent)) = read_chain(&queued.record) {
                self.refuse(attempt, lenders(lent), Refusal::Busy);
            }
        }
        let (queue, parked) = (&self.chains.queue, &self.parked);
        let is_wanted = |slot: &Slot| {
            queue.iter().any(|queued| queued.slots.contains(slot))
                || parked.iter().any(|(_, of, _)| of == slot)
        };
        let mut recalled = Vec::new();
        for (attempt, loan) in &mut self.chains.loans {
            loan.age += 1;
            if loan.age > 1 && loan.slots.iter().any(is_wanted) {
                recalled.push((*attempt, loan.executor));
            }
        }
        recalled.retain(|(_, executor)| self.may_ask_again(executor.node));
        for (attempt, executor) in recalled {
            if executor != self.identity && self.is_member(executor) {
                let position = self.recall(attempt, executor);
                self.chains.asked.insert(executor.node, position);
            }
        }
        self.resume_pending(host);
    }

    /// Slots of this primary that are on loan.
    pub fn lent_slots(&self) -> Vec<Slot> {
        let slots = self.chains.loans.values().flat_map(|loan| &loan.slots).copied();
        slots.filter(|&slot| self.primaries.of_slot(slot) == Some(self.identity.node)).collect()
    }

    /// State of the transactions of several primaries, for a report of what waits.
    pub fn describe_chains(&self) -> String {
        let mut text = String::new();
        for Queued { attempt, slots, locked, .. } in &self.chains.queue {
            let (may, safe) = (self.may_order(slots), !self.lanes.has_unreplicated(slots));
            text +=
                &format!(" queued {attempt:?} {slots:?} locked {locked:?} may {may} safe {safe};");
        }
        for (attempt, loan) in &self.chains.loans {
            text += &format!(" lent {attempt:?} {:?} to {:?};", loan.slots, loan.executor);
        }
        for (name, kept) in self.decisions.iter() {
            let open = kept.parts.keys().filter(|slot| !self.decisions.has_part(*name, **slot));
            let open: Vec<&Slot> = open.collect();
            text +=
                &format!(" decided {name:?} {:?} {:?} open {open:?};", kept.attempt, kept.parts);
        }
        for flight in self.origin.queues.values().flat_map(|queue| &queue.flights) {
            let sent = flight.sent.is_some();
            if let Some(Chain { attempt, owners }) = flight.chain {
                let slots = &flight.call.slots;
                text += &format!(
                    " own {} {slots:?} attempt {attempt} {owners:?} sent {sent};",
                    flight.oseq
                );
            }
        }
        text
    }

    /// Recoveries that are not over, for a report of what waits.
    pub fn describe_dead(&self) -> String {
        let dead = self.dead.iter().map(|dead| {
            let DeadMember { identity, stage, since, epoch, reconciled_by, .. } = dead;
            format!(" dead {identity:?} {stage:?} since {since}, {epoch} by {:x};", reconciled_by.0)
        });
        let former = self.former.iter().map(|former| {
            format!(" former {:?} {} ended {:x};", former.from, former.epoch, former.ended())
        });
        dead.chain(former).collect()
    }

    /// Whether no transaction of several primaries waits here, holds a loan, or has a decision that
    /// is kept.
    pub fn has_no_chains(&self) -> bool {
        self.chains.is_empty() && self.decisions.is_empty()
    }
}

/// The primaries that lend to a transaction: each one's keys have its number.
fn lenders(lent: Changes<'_>) -> NodeSet {
    lent.iter().map(|keys| Number(keys.back as u16)).collect()
}

/// Reads `CHAIN`: the attempt, the transaction and the keys that are lent to it.
fn read_chain(record: &[u8]) -> Option<(Attempt, Exec<'_>, Changes<'_>)> {
    let Ok(Record::Chain { origin, attempt, lent, exec }) = Record::read(record) else {
        return None;
    };
    let Ok(Record::Exec(exec)) = Record::read(exec) else { return None };
    let slot = *exec.call.slots.first()?;
    let tag = Tag { origin, slot, oseq: exec.oseq };
    Some((Attempt { tag, number: attempt }, exec, lent))
}
