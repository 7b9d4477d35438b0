//! Forwarded commands that wait for their keys (`BLPOP` and its kin). The home keeps the waiter, in
//! one queue with its own clients; it alone ends the wait, once, and says how:
//!
//! ```text
//! origin   EXEC ------------> executed, finds nothing: the waiter joins the queue of its keys
//!          <--------- PARKED
//!          CANCEL ----------> time is up, CLIENT UNBLOCK, the client has gone    (a request)
//!          <---------- WOKEN  behind the effects of what was executed, which name the command;
//!                             or with the reply to an end that executed nothing;
//!                             or without one: the home is none any more, forward it again
//! ```
//!
//! If the home dies, its effects are settled first. Those that name the command have executed it,
//! and its reply is lost: UNKNOWN. Without such it was not executed, and is forwarded again with
//! the time that remains. So it is executed at most once.

use super::{Host, Node, Reply};
use crate::lanes::lane_of;
use crate::origin::{HeldAnswer, Parked};
use crate::slot::Slot;
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet};
use crate::wire::{Record, Tag, WaitEnd};

/// What became of a command that another node has forwarded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Executed {
    /// It has its reply.
    Replied,
    /// It waits for its keys, for so many milliseconds at most. What executes it later says so by
    /// [`note_served`](crate::lanes::note_served).
    Waits(Option<u64>),
}

impl Node {
    /// Asks the home of a command that waits there to end the wait. False if it is not known to
    /// wait: it is on its way there, or back.
    pub fn cancel(&mut self, token: u64, end: WaitEnd, host: &mut dyn Host) -> bool {
        let name = self.origin.parked_name(token);
        let Some((name, parked)) = name.and_then(|name| self.origin.parked.get_key_value(&name))
        else {
            return false;
        };
        let (slot, oseq) = *name;
        let home = parked.at;
        if home == self.identity {
            self.end_wait(Tag { origin: home, slot, oseq }, end, host);
        } else {
            let cancel = Record::Cancel { slot, oseq, end };
            self.lanes.push(lane_of(slot), Some(NodeSet::of(home.node)), &cancel);
        }
        true
    }

    /// The time of a command is up that waits at a node which is out of reach, or its client has
    /// left: the client hears that it may have been executed. False if it does not wait there.
    pub fn give_up_wait(&mut self, token: u64, at: Number) -> bool {
        let Some((slot, oseq)) = self.origin.parked_name(token) else { return false };
        let parked = self.origin.parked.get(&(slot, oseq));
        if parked.is_none_or(|parked| parked.at.node != at || at == self.identity.node) {
            return false;
        }
        self.origin.unpark(slot, oseq);
        let cancel = Record::Cancel { slot, oseq, end: WaitEnd::Gone };
        self.lanes.push(lane_of(slot), Some(NodeSet::of(at)), &cancel);
        self.replies.push((token, Reply::Unknown));
        true
    }

    /// A client here watches keys at the home of a slot no longer, whose transaction was forwarded
    /// before.
    pub fn unwatch(&mut self, slot: Slot, client: u64, host: &mut dyn Host) {
        match self.primaries.of_slot(slot) {
            Some(home) if home == self.identity.node => host.unwatch(self.identity, client),
            Some(home) => {
                let unwatch = Record::Unwatch { client };
                self.lanes.push(lane_of(slot), Some(NodeSet::of(home)), &unwatch);
            }
            // Their next home knows nothing of them.
            None => {}
        }
    }

    /// The wait of a command has ended here, in another way than by what [`note_served`] says: with
    /// this reply, or with none, since this is its home no longer.
    ///
    /// [`note_served`]: crate::lanes::note_served
    pub fn end_of_wait(&mut self, tag: Tag, slots: &[Slot], reply: Option<Vec<u8>>) {
        if tag.origin == self.identity {
            let held = HeldAnswer { from: tag.origin, waits: Vec::new(), reply };
            self.woken((tag.slot, tag.oseq), held);
        } else if self.view.member(tag.origin.node) == Some(tag.origin) {
            self.lanes.push_woken(tag, slots, reply.as_deref());
        }
    }

    /// An origin wants a wait here to end.
    pub(super) fn end_wait(&mut self, tag: Tag, end: WaitEnd, host: &mut dyn Host) {
        if let Some(reply) = host.end_wait(tag, end) {
            self.end_of_wait(tag, &[tag.slot], Some(reply));
        }
    }

    /// A command waits at its home. It may have been woken by then: a thread that changes the key
    /// says so first.
    pub(super) fn park(&mut self, at: Identity, name: (Slot, u64), left_ms: Option<u64>) {
        let (slot, oseq) = name;
        let flight = self.origin.queues.get_mut(&slot).and_then(|queue| queue.find(oseq));
        if flight.as_ref().is_none_or(|flight| flight.answer.is_some()) {
            return;
        }
        let Some((token, call)) = self.origin.take(slot, oseq) else {
            // Its client was answered when the home was out of reach.
            let cancel = Record::Cancel { slot, oseq, end: WaitEnd::Gone };
            self.lanes.push(lane_of(slot), Some(NodeSet::of(at.node)), &cancel);
            return;
        };
        let parked = Parked { token, call, at, is_executed: false, answer: None };
        self.origin.park(slot, oseq, parked);
        self.replies.push((token, Reply::Parked(left_ms)));
    }

    /// The home of a command has ended its wait.
    pub(super) fn woken(&mut self, (slot, oseq): (Slot, u64), held: HeldAnswer) {
        if held.reply.is_none() {
            let parked = self.origin.unpark(slot, oseq).map(|parked| (parked.token, parked.call));
            if let Some((token, call)) = parked.or_else(|| self.origin.take(slot, oseq)) {
                self.replies.push((token, Reply::Again(Box::new(call))));
            }
            return;
        }
        let from = held.from;
        let flight = self.origin.queues.get_mut(&slot).and_then(|queue| queue.find(oseq));
        match (self.origin.parked.get_mut(&(slot, oseq)), flight) {
            (Some(parked), _) => parked.answer = Some(held),
            (None, Some(flight)) => flight.answer = Some(held),
            (None, None) => return,
        }
        if !self.answer(slot, oseq) {
            self.held.push((from, slot, oseq));
        }
    }

    /// Effects that are applied here name a command that they have executed.
    pub(super) fn note_executed(&mut self, tag: Tag) {
        if tag.origin == self.identity
            && let Some(parked) = self.origin.parked.get_mut(&(tag.slot, tag.oseq))
        {
            parked.is_executed = true;
        }
    }

    /// A node has died, and all that it had changed is applied here: no answer of it will come to
    /// the commands that have waited there.
    pub(super) fn end_waits_at(&mut self, dead: Identity) {
        let names: Vec<(Slot, u64)> = self
            .origin
            .parked
            .iter()
            .filter(|(_, parked)| parked.at == dead)
            .map(|(name, _)| *name)
            .collect();
        for (slot, oseq) in names {
            let Some(Parked { token, call, is_executed, .. }) = self.origin.unpark(slot, oseq)
            else {
                continue;
            };
            // Who is no home of the slot does not hear of what was executed.
            let may_be = is_executed || !self.holds(slot);
            let reply = if may_be { Reply::Unknown } else { Reply::Again(Box::new(call)) };
            self.replies.push((token, reply));
        }
    }
}
