//! Forwarded blocking commands (`BLPOP` and others). The primary keeps the waiter, in one queue
//! with its own clients. It alone ends the wait, once, in one of three ways:
//!
//! ```text
//! origin   EXEC ------------> executed, finds nothing: the waiter joins the queue of its keys
//!          <--------- PARKED
//!          CANCEL ----------> timeout, CLIENT UNBLOCK, or the client has disconnected (a request)
//!          <---------- WOKEN  after the effects of its execution, which carry its tag;
//!                             or with the reply to a wait that ended without execution;
//!                             or without a reply: the node lost the slot, forward again
//! ```
//!
//! If the primary dies, its effects are reconciled first. If they carry the command's tag it was
//! executed and its reply is lost: UNKNOWN. Otherwise it was not executed, and is forwarded again
//! with the remaining timeout. So it is executed at most once.

use super::{Host, Node, Reply};
use crate::lanes::lane_of;
use crate::origin::{HeldAnswer, Parked};
use crate::slot::Slot;
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet};
use crate::wire::{Record, Tag, WaitEnd};

/// Outcome of executing a forwarded command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Executed {
    /// The reply was appended.
    Replied,
    /// The command is blocked on its keys, for at most this many milliseconds. Its later execution
    /// is announced by [`record_served`](crate::lanes::record_served).
    Waits(Option<u64>),
}

impl Node {
    /// Asks the primary at which a command is blocked to end its wait. False if the command is not
    /// known to be blocked: it is on its way there, or back.
    pub fn cancel(&mut self, token: u64, end: WaitEnd, host: &mut dyn Host) -> bool {
        let name = self.origin.parked_name(token);
        let Some((name, parked)) = name.and_then(|name| self.origin.parked.get_key_value(&name))
        else {
            return false;
        };
        let (slot, oseq) = *name;
        let primary = parked.at;
        if primary == self.identity {
            self.end_wait(Tag { origin: primary, slot, oseq }, end, host);
        } else {
            let cancel = Record::Cancel { slot, oseq, end };
            self.lanes.push(lane_of(slot), Some(NodeSet::of(primary.node)), &cancel);
        }
        true
    }

    /// Gives up a command that is blocked at an unreachable node, because its timeout has passed or
    /// its client has disconnected. The client gets an error that the command may have been
    /// executed. False if it is not blocked there.
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

    /// Ends the `WATCH` of a client here at the primary of a slot. Its transaction, if any, was
    /// forwarded before.
    pub fn unwatch(&mut self, slot: Slot, client: u64, host: &mut dyn Host) {
        match self.primaries.of_slot(slot) {
            Some(primary) if primary == self.identity.node => host.unwatch(self.identity, client),
            Some(primary) => {
                let unwatch = Record::Unwatch { client };
                self.lanes.push(lane_of(slot), Some(NodeSet::of(primary)), &unwatch);
            }
            // The next primary does not know the watches.
            None => {}
        }
    }

    /// Ends the wait of a command at this node in another way than [`record_served`]: with a reply,
    /// or without one because this node lost the slot.
    ///
    /// [`record_served`]: crate::lanes::record_served
    pub fn end_of_wait(&mut self, tag: Tag, slots: &[Slot], reply: Option<Vec<u8>>) {
        if tag.origin == self.identity {
            let (waits, needs) = (Vec::new(), self.lanes.needs_of(slots));
            let held = HeldAnswer { from: tag.origin, waits, needs, reply };
            self.woken((tag.slot, tag.oseq), held);
        } else if self.view.member(tag.origin.node) == Some(tag.origin) {
            self.lanes.push_woken(tag, slots, reply.as_deref());
        }
    }

    /// Handles an origin's request to end a wait.
    pub(super) fn end_wait(&mut self, tag: Tag, end: WaitEnd, host: &mut dyn Host) {
        if let Some(reply) = host.end_wait(tag, end) {
            self.end_of_wait(tag, &[tag.slot], Some(reply));
        }
    }

    /// Handles `PARKED`: a command is blocked at its primary. It may have been woken already, since
    /// the thread that changes the key announces that first.
    pub(super) fn park(&mut self, at: Identity, name: (Slot, u64), left_ms: Option<u64>) {
        let (slot, oseq) = name;
        let flight = self.origin.queues.get_mut(&slot).and_then(|queue| queue.find(oseq));
        if flight.as_ref().is_none_or(|flight| flight.answer.is_some()) {
            return;
        }
        let Some((token, call)) = self.origin.take(slot, oseq) else {
            // Its client was answered while the primary was unreachable.
            let cancel = Record::Cancel { slot, oseq, end: WaitEnd::Gone };
            self.lanes.push(lane_of(slot), Some(NodeSet::of(at.node)), &cancel);
            return;
        };
        let parked = Parked { token, call, at, is_executed: false, answer: None };
        self.origin.park(slot, oseq, parked);
        self.replies.push((token, Reply::Parked(left_ms)));
    }

    /// Handles `WOKEN`: the primary has ended the wait of a command.
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
        self.deliver(from, slot, oseq);
    }

    /// Marks a blocked command as executed, because effects that were applied here carry its tag.
    pub(super) fn record_executed(&mut self, tag: Tag) {
        if tag.origin == self.identity
            && let Some(parked) = self.origin.parked.get_mut(&(tag.slot, tag.oseq))
        {
            parked.is_executed = true;
        }
    }

    /// Ends the waits at a dead node after its changes were applied here: it will not answer.
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
            // A node that does not own the slot does not receive the effects, so it cannot tell.
            let may_be = is_executed || !self.holds(slot);
            let reply = if may_be { Reply::Unknown } else { Reply::Again(Box::new(call)) };
            self.replies.push((token, reply));
        }
    }
}
