//! Commands that other nodes have forwarded: executed in the order of their origin, at most once.

use super::{Host, Node};
use crate::lanes::{lane_of, tagged};
use crate::mutation::{Mutation, is_broken};
use crate::view::{Identity, NodeSet};
use crate::wire::{Exec, Parts, Record, Tag};

impl Node {
    /// Executes a forwarded command and sends its answer, unless it waits for the end of an earlier
    /// primary. One that is not this node's to execute is dropped: its origin sends it to whom it
    /// belongs once it has seen the end of this node's time.
    pub(super) fn serve_or_park(&mut self, from: Identity, record: Box<[u8]>, host: &mut dyn Host) {
        let Ok(Record::Exec(exec)) = Record::read(&record) else { return };
        let slot = exec.slots[0];
        // Behind others of the same order that wait, whatever they wait for.
        let is_behind = self.parked.iter().any(|(of, at, _)| (*of, *at) == (from, slot));
        if self.is_ours(&exec) && (is_behind || !self.may_number(&exec.slots)) {
            self.parked.push((from, slot, record));
            return;
        }
        let Some(reply) = self.serve(from, &exec, host) else { return };
        let mut others: Vec<usize> = exec.slots.iter().map(|&slot| lane_of(slot)).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|&lane| lane != lane_of(slot));
        let waits = others.into_iter().map(|lane| (lane, self.lanes.lane(lane).seq()));
        let mut room = Vec::new();
        let waits = Parts::of(&mut room, waits);
        let answer = Record::Answer { slot, oseq: exec.oseq, waits, reply: reply.as_deref() };
        self.lanes.push(lane_of(slot), Some(NodeSet::of(from.node)), &answer);
    }

    /// Whether the command was sent to this node as the primary that it is. An origin that came
    /// later than the appointment knows the epoch of its own coming for it.
    fn is_ours(&self, exec: &Exec<'_>) -> bool {
        let me = Some(self.identity.node);
        let tenures = exec.slots.iter().map(|&slot| self.primaries.tenure(slot));
        exec.slots.iter().all(|&slot| self.primaries.of_slot(slot) == me)
            && tenures.max().is_some_and(|tenure| tenure <= exec.tenure)
    }

    /// Executes a command if it is the next of its origin. None if it is not to be executed here;
    /// no reply if it was executed before, by a node that has died.
    pub(super) fn serve(
        &mut self,
        from: Identity,
        exec: &Exec<'_>,
        host: &mut dyn Host,
    ) -> Option<Option<Vec<u8>>> {
        if !self.is_ours(exec) {
            return None;
        }
        let slot = exec.slots[0];
        let last = self.executed.entry((from, slot)).or_default();
        let is_repeated = exec.oseq <= *last;
        if is_repeated && !is_broken(Mutation::ExecuteTwice) {
            return Some(None);
        }
        // One before it was dropped: both will be sent again.
        if exec.oseq > exec.first.max(*last + 1) {
            return None;
        }
        *last = exec.oseq.max(*last);
        let tag = Tag { origin: from, slot, oseq: exec.oseq };
        let mut reply = Vec::new();
        tagged(tag, || host.execute(tag, exec, &mut reply));
        Some(Some(reply))
    }

    /// Executes what has waited for the end of an earlier primary.
    pub(super) fn serve_parked(&mut self, host: &mut dyn Host) {
        for (from, _, record) in std::mem::take(&mut self.parked) {
            self.serve_or_park(from, record, host);
        }
    }
}
