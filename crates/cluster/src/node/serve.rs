//! Executes commands that other nodes have forwarded, in the order of their origin, at most once.

use super::{Executed, Host, Node, Served};
use crate::elide_args::Arguments;
use crate::lanes::{lane_of, note_slots, positions_seen, tagged};
use crate::mutation::{Mutation, is_broken};
use crate::view::{Identity, NodeSet};
use crate::wire::{Exec, Parts, Record, Tag};
use std::sync::Arc;

impl Node {
    /// Executes a forwarded command and sends its answer, or defers it until an earlier primary has
    /// ended. A command that is not for this node is dropped: its origin sends it to the new
    /// primary once it has seen the end of this node's epoch. So is a command of a removed member:
    /// its answer would reach the node's next incarnation.
    pub(super) fn serve_or_park(&mut self, from: Identity, record: Arc<[u8]>, host: &mut dyn Host) {
        if !self.is_member(from) {
            return;
        }
        let Ok(Record::Exec(exec)) = Record::read(&record) else { return };
        let slot = exec.call.slots[0];
        // Also deferred: commands that follow a deferred one of the same origin and slot.
        let is_behind = self.parked.iter().any(|(of, at, _)| (*of, *at) == (from, slot));
        if self.is_ours(&exec) && (is_behind || !self.may_order(&exec.call.slots)) {
            self.parked.push((from, slot, record));
            return;
        }
        let oseq = exec.oseq;
        let arguments = Arguments::longest(&record, &exec.call);
        let reply = match self.serve(from, &exec, arguments, host) {
            Served::Not => return,
            Served::Before => None,
            Served::Replied(reply) => Some(reply),
            Served::Waits(left_ms) => {
                let parked = Record::Parked { slot, oseq, left_ms };
                self.lanes.push(lane_of(slot), Some(NodeSet::of(from.node)), &parked);
                return;
            }
        };
        if exec.call.wants_copies && reply.is_some() {
            self.send_copies(from.node, &exec.call, host);
        }
        let mut room = Vec::new();
        let waits = Parts::of(&mut room, positions_seen(&self.lanes, &exec.call.slots).into_iter());
        let answer = Record::Answer { slot, oseq, waits, reply: reply.as_deref() };
        self.lanes.push_shown(lane_of(slot), from.node, &exec.call.slots, &answer);
    }

    /// Whether the command was sent to this node in its present tenure as primary. An origin that
    /// joined later than the appointment uses the epoch of its own joining.
    fn is_ours(&self, exec: &Exec<'_>) -> bool {
        let me = Some(self.identity.node);
        let tenures = exec.call.slots.iter().map(|&slot| self.primaries.tenure(slot));
        exec.call.slots.iter().all(|&slot| self.primaries.of_slot(slot) == me)
            && tenures.max().is_some_and(|tenure| tenure <= exec.tenure)
    }

    /// Executes a command if it is the next one of its origin and slot.
    pub(super) fn serve(
        &mut self,
        from: Identity,
        exec: &Exec<'_>,
        arguments: Option<Arguments>,
        host: &mut dyn Host,
    ) -> Served {
        if !self.is_ours(exec) {
            return Served::Not;
        }
        let slot = exec.call.slots[0];
        let last = self.executed.of(from, slot);
        let is_repeated = exec.oseq <= *last;
        if is_repeated && !is_broken(Mutation::ExecuteTwice) {
            return Served::Before;
        }
        // An earlier command was dropped: both will be sent again.
        if exec.oseq > exec.first.max(*last + 1) {
            return Served::Not;
        }
        *last = exec.oseq.max(*last);
        let tag = Tag { origin: from, slot, oseq: exec.oseq };
        let mut reply = Vec::new();
        note_slots(&exec.call.slots);
        match tagged(tag, arguments, || host.execute(tag, &exec.call, &mut reply)) {
            Executed::Replied => Served::Replied(reply),
            Executed::Waits(left_ms) => Served::Waits(left_ms),
        }
    }

    /// Executes commands that were deferred until an earlier primary ended.
    pub(super) fn serve_parked(&mut self, host: &mut dyn Host) {
        for (from, _, record) in std::mem::take(&mut self.parked) {
            self.serve_or_park(from, record, host);
        }
    }
}
