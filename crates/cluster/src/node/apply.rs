//! Applies the records of other nodes' lanes, each lane in its order.

use super::transfer::Use;
use super::{Host, Node, Reply};
use crate::decisions::Attempt;
use crate::lanes::{FROM_PEERS, lane_of};
use crate::mutation::{Mutation, is_broken};
use crate::origin::HeldAnswer;
use crate::reconcile::{FormerPrimary, slot_of_group};
use crate::slot::{Slot, slot_of};
use crate::view::{Identity, NodeSet};
use crate::wire::{Change, Changes, LANES, Parts, Record, Tag, is_exec, put_record};
use petrel_persistence::effects::{apply_group, apply_groups, apply_to_copies, visit_keys};
use petrel_persistence::log::Malformed;
use std::sync::Arc;

impl Node {
    /// Applies all applicable records of a node's lanes; true if there were any.
    pub(super) fn advance(&mut self, from: Identity, host: &mut dyn Host) -> bool {
        let mut has_moved = false;
        loop {
            let mut moved = false;
            let inboxes = self.inboxes.get(&from).map(Vec::as_slice).unwrap_or_default();
            let lanes = inboxes.iter().enumerate();
            let open = lanes.filter(|(_, inbox)| inbox.front().is_some());
            let open = open.fold(0u16, |open, (lane, _)| open | 1 << lane);
            for lane in (0..LANES).filter(|lane| open >> lane & 1 != 0) {
                while self.step(from, lane, host) {
                    moved = true;
                }
            }
            if !moved {
                break;
            }
            has_moved = true;
        }
        // Lanes also advance over positions that are for other nodes.
        self.answer_held(from);
        has_moved
    }

    /// Applies the next record of a lane; false if there is none, or it has to wait.
    fn step(&mut self, from: Identity, lane: usize, host: &mut dyn Host) -> bool {
        let Some(bytes) = self.front(from, lane) else { return false };
        if is_exec(&bytes) {
            self.pop(from, lane);
            self.serve_or_park(from, bytes, host);
            return true;
        }
        // Records were checked on arrival.
        let Ok(record) = read_unwrapped(&bytes) else { return false };
        let goes_on = match record {
            // Applied together with the effects, which are in the first of the commit's lanes.
            Record::Part { .. } | Record::CommitPart { .. } => is_broken(Mutation::IgnoreParts),
            Record::Commit { parts, changes, .. } => {
                let is_whole = is_broken(Mutation::IgnoreParts) || self.is_whole(from, parts);
                is_whole && !changes.iter().any(|change| self.is_slot_held(from, change.slot))
            }
            Record::Effects { parts, group, .. } => {
                let is_whole = self.holdings.is_some()
                    || is_broken(Mutation::IgnoreParts)
                    || self.is_whole(from, parts);
                is_whole && !self.is_held(from, group)
            }
            Record::Copy { group } => !self.is_held(from, group),
            _ => true,
        };
        if !goes_on {
            return false;
        }
        if let Record::Effects { parts, .. } = record
            && self.holdings.is_none()
            && !is_broken(Mutation::IgnoreParts)
        {
            let others = parts.iter().filter(|&(part, _)| part != lane);
            others.for_each(|(part, _)| drop(self.pop(from, part)));
        }
        if let Record::Commit { tag, served, decision, parts, changes } = record {
            if !is_broken(Mutation::IgnoreParts) {
                let others = parts.iter().filter(|&(part, _)| part != lane);
                others.for_each(|(part, _)| drop(self.pop(from, part)));
            }
            self.pop(from, lane);
            self.apply_commit(from, tag.into_iter().chain(served.iter()), changes, host);
            if !decision.is_empty() {
                let place = |slot: Slot| Some((slot, parts.in_lane(lane_of(slot))?));
                let places = changes.iter().filter_map(|change| place(change.slot));
                self.on_parts(from, decision, places);
            }
            return true;
        }
        let becomes = match record {
            Record::Effects { group, .. } if self.holdings.is_some() => {
                // A malformed group is reported when it is applied.
                slot_of_group(group).map_or(Use::Apply, |slot| self.use_of(from, lane, slot))
            }
            _ => Use::Apply,
        };
        self.pop(from, lane);
        match (record, becomes) {
            (Record::Effects { .. }, Use::Wait) => self.keep_waiting(unwrapped(bytes.clone())),
            (Record::Effects { tag, group, .. }, Use::Copies(slot)) => {
                let writer = self.writer_of(tag);
                self.attributed(writer, host, |node, host| {
                    node.apply_to_copies(from, slot, group, host);
                });
            }
            (Record::Effects { .. }, Use::Drop) => {}
            (record, _) => self.take_record((from, lane), &bytes, record, host),
        }
        true
    }

    /// Executes the next record of a lane.
    fn take_record(
        &mut self,
        (from, lane): (Identity, usize),
        bytes: &Arc<[u8]>,
        record: Record<'_>,
        host: &mut dyn Host,
    ) {
        match record {
            Record::Effects { tag, served, group, .. } => {
                self.apply(from, tag.into_iter().chain(served.iter()), group, host);
            }
            Record::Exec(_) => self.serve_or_park(from, bytes.clone(), host),
            Record::Answer { slot, oseq, waits, reply } => {
                let waits = waits.iter().collect();
                let (needs, reply) = (Box::default(), reply.map(<[u8]>::to_vec));
                let queue = self.origin.queues.get_mut(&slot);
                if let Some(flight) = queue.and_then(|queue| queue.find(oseq)) {
                    flight.answer = Some(HeldAnswer { from, waits, needs, reply });
                    self.deliver(from, slot, oseq);
                }
            }
            Record::Parked { slot, oseq, left_ms } => self.park(from, (slot, oseq), left_ms),
            Record::Woken { slot, oseq, waits, reply } => {
                let (waits, reply) = (waits.iter().collect(), reply.map(<[u8]>::to_vec));
                let needs = Box::default();
                self.woken((slot, oseq), HeldAnswer { from, waits, needs, reply });
            }
            Record::Cancel { slot, oseq, end } => {
                self.end_wait(Tag { origin: from, slot, oseq }, end, host);
            }
            Record::Unwatch { client } => host.unwatch(from, client),
            Record::End { epoch } => self.on_end(from, lane, epoch),
            Record::Message { is_sharded, channel, payload } => {
                host.publish(is_sharded, channel, payload);
                if is_broken(Mutation::RepeatMessages) {
                    host.publish(is_sharded, channel, payload);
                }
            }
            Record::Copy { group } => self.take_copy(from, group, host),
            Record::Invalidate { db, key } => self.drop_copy((db, key), host),
            // The node's next incarnation may have a copy.
            Record::NoCopy { .. } if !self.is_member(from) => {}
            Record::NoCopy { db, key } => {
                let directory = self.lanes.directory();
                let name = directory.name_of(db, key);
                directory.remove(slot_of(key), name, NodeSet::of(from.node));
            }
            Record::Interests { events, prefixes } if self.is_member(from) => {
                host.interests(from, events, prefixes);
            }
            Record::Interests { .. } => {}
            Record::Changed { is_broadcast, writer, db, key } => {
                host.changed(is_broadcast, writer, db, key);
            }
            Record::Event { db, name, key, fields } => host.event(db, name, key, fields),
            Record::DurableAsked { number } => self.durable.on_asked(from, lane, number),
            Record::Durable { number } => self.durable.on_answer(from, number),
            Record::SlotsBegin { number } => self.on_slots_begin(from, lane, number),
            Record::SlotsKnown { number } => self.on_slots_known(from, number),
            Record::Chain { .. }
            | Record::Decided { .. }
            | Record::Refused { .. }
            | Record::Recall { .. }
            | Record::Lent { .. }
            | Record::Numbered { .. } => self.take_chain_record(from, bytes, record),
            // Parts are applied with their effects; the others were handled on arrival.
            Record::Part { .. }
            | Record::Commit { .. }
            | Record::CommitPart { .. }
            | Record::Elided { .. }
            | Record::Kept { .. }
            | Record::Decision { .. }
            | Record::Tail { .. }
            | Record::TailEnd { .. }
            | Record::Reconciled { .. } => {}
        }
    }

    /// Executes a record about transactions of several primaries.
    fn take_chain_record(&mut self, from: Identity, bytes: &Arc<[u8]>, record: Record<'_>) {
        match record {
            Record::Chain { .. } => self.take_chain(bytes.clone()),
            Record::Decided { decision } => self.on_decided(decision),
            Record::Refused { tag, attempt: number, reason } => {
                self.on_refused(Attempt { tag, number }, reason);
            }
            Record::Recall { tag, attempt: number } => {
                self.on_recall(from, Attempt { tag, number });
            }
            Record::Lent { tag, attempt: number, executor, slots } => {
                self.on_lent(Attempt { tag, number }, executor, slots);
            }
            Record::Numbered { executor, number, is_asked, slots } => {
                self.on_numbered(from, (executor, number), is_asked, slots);
            }
            _ => {}
        }
    }

    /// The next record of a lane; none while a copy is loaded.
    fn front(&self, from: Identity, lane: usize) -> Option<Arc<[u8]>> {
        let inbox = self.inboxes.get(&from)?.get(lane).filter(|_| self.copies.fetch.is_none())?;
        inbox.front().map(|(_, record)| record.clone())
    }

    fn pop(&mut self, from: Identity, lane: usize) -> Option<crate::wire::positions::Placed> {
        self.inboxes.get_mut(&from)?.get_mut(lane)?.pop()
    }

    /// Whether all parts of a commit are the next records of their lanes.
    fn is_whole(&self, from: Identity, parts: Parts<'_>) -> bool {
        let Some(inboxes) = self.inboxes.get(&from) else { return false };
        let is_next = |(lane, seq): (usize, u64)| {
            inboxes[lane].front().is_some_and(|(front, _)| *front == seq)
        };
        parts.iter().all(is_next)
    }

    /// Whether effects have to wait for the end of an earlier primary of their slots, which lost
    /// them in a view that the sender had already adopted.
    fn is_held(&self, from: Identity, group: &[u8]) -> bool {
        if self.former.is_empty() || is_broken(Mutation::ApplyEarly) {
            return false;
        }
        let mut is_held = false;
        let visited = visit_keys(group, |_, key| {
            is_held |= key.is_some_and(|key| self.is_slot_held(from, slot_of(key)));
        });
        visited.is_ok() && is_held
    }

    /// Like [`Node::is_held`], for one slot.
    fn is_slot_held(&self, from: Identity, slot: Slot) -> bool {
        if self.former.is_empty() || is_broken(Mutation::ApplyEarly) {
            return false;
        }
        let Some(inboxes) = self.inboxes.get(&from) else { return false };
        let epoch = inboxes[lane_of(slot)].end_epoch;
        let is_earlier = |former: &FormerPrimary| former.from != from && former.epoch <= epoch;
        self.former.iter().any(|former| is_earlier(former) && former.holds(slot))
    }

    /// Applies a commit of several slots, each as this node holds it: clients see the changes of
    /// all slots that they may read here, or none.
    fn apply_commit(
        &mut self,
        from: Identity,
        tags: impl Iterator<Item = Tag>,
        changes: Changes<'_>,
        host: &mut dyn Host,
    ) {
        let writer = self.note_executed(tags);
        self.attributed(writer, host, |node, host| node.apply_changes(from, changes, host));
    }

    fn apply_changes(&mut self, from: Identity, changes: Changes<'_>, host: &mut dyn Host) {
        let (mut held, mut copied) = (Vec::new(), Vec::new());
        for Change { slot, group, .. } in changes.iter().filter(|change| !change.group.is_empty()) {
            match self.use_of(from, lane_of(slot), slot) {
                Use::Apply => held.push(group),
                Use::Copies(_) => copied.push(group),
                Use::Wait => {
                    let (tag, parts, served) = Default::default();
                    let mut bytes = Vec::new();
                    put_record(&mut bytes, &Record::Effects { tag, parts, served, group });
                    self.keep_waiting(bytes.into());
                }
                Use::Drop => {}
            }
        }
        let rules = (FROM_PEERS, self.limits.copy_idle);
        let hashes = &mut self.hashes;
        let handle = host.handle();
        handle.enter();
        let mut applied = apply_groups(handle, &held, FROM_PEERS, hashes);
        for group in copied {
            // Absent copies are reported at changes of their slots alone.
            applied = applied.and(apply_to_copies(handle, group, rules, hashes, |_, _| {}));
        }
        handle.exit();
        if let Err(error) = applied {
            host.differs(from, error);
        }
    }

    pub(super) fn apply(
        &mut self,
        from: Identity,
        tags: impl Iterator<Item = Tag>,
        group: &[u8],
        host: &mut dyn Host,
    ) {
        let writer = self.note_executed(tags);
        self.attributed(writer, host, |node, host| {
            let handle = host.handle();
            handle.enter();
            let applied = apply_group(handle, group, FROM_PEERS, &mut node.hashes);
            handle.exit();
            if let Err(error) = applied {
                host.differs(from, error);
            }
        });
    }

    /// Records executed commands. Returns the client here that made the changes, if it does not
    /// want to hear of its own ones.
    fn note_executed(&mut self, tags: impl Iterator<Item = Tag>) -> Option<u64> {
        let mut writer = None;
        for tag in tags {
            self.record_executed(tag);
            self.executed.record(tag.origin, tag.slot, tag.oseq);
            writer = writer.or(self.writer_of(Some(tag)));
        }
        writer
    }

    /// Delivers the answers that have waited for a node's other lanes, or for acknowledgements of
    /// this node's.
    pub(super) fn answer_held(&mut self, from: Identity) {
        if self.held.is_empty() {
            return;
        }
        for (of, slot, oseq) in std::mem::take(&mut self.held) {
            if of != from || !self.answer(slot, oseq) {
                self.held.push((of, slot, oseq));
            }
        }
    }

    /// Answers a command if everything that it has observed was applied here; otherwise returns
    /// false.
    pub(super) fn answer(&mut self, slot: Slot, oseq: u64) -> bool {
        let flight = self.origin.queues.get_mut(&slot).and_then(|queue| queue.find(oseq));
        let held = match flight.and_then(|flight| flight.answer.as_mut()) {
            Some(held) => Some(held),
            None => self.origin.parked.get_mut(&(slot, oseq)).and_then(|it| it.answer.as_mut()),
        };
        let Some(held) = held else { return true };
        let inboxes = self.inboxes.get(&held.from).map(Vec::as_slice).unwrap_or_default();
        let is_applied = |&(lane, seq): &(usize, u64)| {
            inboxes.get(lane).is_some_and(|inbox| inbox.applied() >= seq)
        };
        if !is_broken(Mutation::AnswerEarly) && !held.waits.iter().all(is_applied) {
            return false;
        }
        if held.needs.iter().any(|need| !self.lanes.is_safe(*need)) {
            return false;
        }
        let reply = held.reply.take().map_or(Reply::Unknown, Reply::Bytes);
        match self.origin.unpark(slot, oseq) {
            Some(parked) => self.replies.push((parked.token, reply)),
            None => self.finish(slot, oseq, reply),
        }
        true
    }
}

/// Decodes a record; a kept one as its effects.
fn read_unwrapped(bytes: &[u8]) -> Result<Record<'_>, Malformed> {
    match Record::read(bytes)? {
        Record::Kept { record, .. } => Record::read(record),
        record => Ok(record),
    }
}

/// The effects of a kept record, or the record itself.
fn unwrapped(bytes: Arc<[u8]>) -> Arc<[u8]> {
    match Record::read(&bytes) {
        Ok(Record::Kept { record, .. }) => record.into(),
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Executed, GroupError, Limits};
    use crate::slot_map::{Node as Number, SlotMap};
    use crate::view::View;
    use crate::wire::{Exec, WaitEnd, put_record};
    use petrel_keyspace::{Call, Handle, Keyspace, Options};

    /// Counts executed commands.
    struct Counter {
        handle: Handle,
        executed: usize,
    }

    impl Host for Counter {
        fn handle(&mut self) -> &mut Handle {
            &mut self.handle
        }

        fn execute(&mut self, _: Tag, _: &Call<&[u8]>, _: &mut Vec<u8>) -> Executed {
            self.executed += 1;
            Executed::Replied
        }

        fn end_wait(&mut self, _: Tag, _: WaitEnd) -> Option<Vec<u8>> {
            None
        }

        fn unwatch(&mut self, _: Identity, _: u64) {}

        fn differs(&mut self, from: Identity, error: GroupError) {
            panic!("{from:?}: {error}");
        }

        fn publish(&mut self, _: bool, _: &[u8], _: &[u8]) {}

        fn keys_read(&mut self, _: &Call<&[u8]>, _: &mut Vec<Vec<u8>>) {}

        fn copy_begins(&mut self) {}

        fn copy(&mut self, _: &[u8], _: bool) {}
    }

    const FORMER: Identity = Identity { node: Number(1), incarnation: 1 };
    const PRESENT: Identity = Identity { node: Number(1), incarnation: 2 };

    /// Primary of all slots, in a view with the second incarnation of another node.
    fn primary() -> (Node, Counter) {
        let identity = Identity { node: Number(0), incarnation: 1 };
        let view = View {
            epoch: 3,
            members: vec![identity, PRESENT],
            slots: SlotMap::collect(|_| &[Number(0)]),
            incoming: Some(SlotMap::collect(|_| &[])),
        };
        let keyspace = Keyspace::new(&Options { databases: 1, stripes: 8, seed: 1 });
        let host = Counter { handle: keyspace.attach(), executed: 0 };
        (Node::new(identity, view, Limits::default()), host)
    }

    fn take(node: &mut Node, from: Identity, record: &Record<'_>, host: &mut Counter) {
        let mut bytes = Vec::new();
        put_record(&mut bytes, record);
        let (bytes, lane) = (Arc::from(bytes), lane_of(slot_of(b"key")));
        let Ok(record) = Record::read(&bytes) else { panic!("a record is not readable") };
        node.take_record((from, lane), &bytes, record, host);
    }

    #[test]
    fn a_command_of_a_former_incarnation_is_not_executed() {
        let (mut node, mut host) = primary();
        let (slots, commands) = (vec![slot_of(b"key")], vec![vec![&b"GET"[..], b"key"]]);
        let call = Call { slots, commands, ..Call::default() };
        let exec = Record::Exec(Exec { oseq: 1, first: 1, tenure: 3, call });
        let answers = |node: &Node| node.lanes.positions().iter().sum::<u64>();
        take(&mut node, FORMER, &exec, &mut host);
        assert_eq!((host.executed, answers(&node)), (0, 0));
        take(&mut node, PRESENT, &exec, &mut host);
        assert_eq!((host.executed, answers(&node)), (1, 1));
    }

    #[test]
    fn a_copy_is_not_reported_as_absent_by_a_former_incarnation() {
        let (mut node, mut host) = primary();
        let directory = node.lanes.directory();
        directory.add(slot_of(b"key"), directory.name_of(0, b"key"), PRESENT.node);
        let no_copy = Record::NoCopy { db: 0, key: b"key" };
        for (from, is_registered) in [(FORMER, true), (PRESENT, false)] {
            take(&mut node, from, &no_copy, &mut host);
            let holders = node.lanes.copy_holders(0, b"key");
            assert_eq!(holders.contains(PRESENT.node), is_registered, "after {from:?}");
        }
    }
}
