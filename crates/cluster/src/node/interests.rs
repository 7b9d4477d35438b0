//! Client tracking and keyspace events across members: clients are notified of changes of keys that
//! this node does not hold.
//!
//! ```text
//! member                               primary of the key
//!   a client wants prefixes or events
//!   INTERESTS, in every lane -------->   keeps them
//!   a client reads a key, and is
//!   registered here
//!   EXEC, tracks -------------------->   executes it; registers the member as a reader of the key,
//!                                        with its stripe locked
//!                                      the key changes, or is forgotten for want of room:
//!   <-------------------------------- CHANGED, EVENT
//! ```
//!
//! A reader is registered at both ends before the primary reads, and its host delivers no
//! invalidation before the reply. So the notification of each change after the read follows the
//! reply. If a key's slot gets another primary, which knows no readers, or this node becomes its
//! owner, clients here get the invalidation of all keys ([`Node::has_missed_changes`]).

use super::{Host, Node, Route};
use crate::mutation::{Mutation, is_broken};
use crate::origin::SlotQueue;
use crate::slot::Slot;
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet, View};
use crate::wire::{LANES, Record, Tag, Texts};
use petrel_keyspace::Call;
use std::ops::RangeInclusive;

impl Node {
    /// Other members that know records of interests.
    pub fn knows_interests(&self) -> NodeSet {
        self.knowing
    }

    /// Sends members the interests of clients here, in every lane: before all commands that are
    /// forwarded later.
    pub fn tell_interests<'p>(
        &self,
        to: NodeSet,
        events: u64,
        prefixes: impl Iterator<Item = &'p [u8]>,
    ) {
        let mut room = Vec::new();
        let prefixes = Texts::of(&mut room, prefixes);
        for lane in 0..LANES {
            self.lanes.push(lane, Some(to), &Record::Interests { events, prefixes });
        }
    }

    /// Executes a record about notifications.
    pub(super) fn take_interest_record(
        &self,
        from: Identity,
        record: Record<'_>,
        host: &mut dyn Host,
    ) {
        match record {
            Record::Interests { events, prefixes } if self.is_member(from) => {
                host.interests(from, events, prefixes);
            }
            Record::Changed { is_broadcast, writer, db, key } => {
                host.changed(is_broadcast, writer, db, key);
            }
            Record::Event { db, name, key, fields } => host.event(db, name, key, fields),
            _ => {}
        }
    }

    /// Whether a call has fields that its primary may not know: it has not shown that yet.
    pub(super) fn waits_to_hear(&self, primary: Number, call: &Call) -> bool {
        (call.tracks || call.writer.is_some()) && !self.heard.contains(primary)
    }

    /// Whether the first unsent command of a slot waits for that.
    pub(super) fn is_unheard(&self, slot: Slot) -> bool {
        let unsent = self.origin.queues.get(&slot).and_then(SlotQueue::unsent);
        unsent.is_some_and(|flight| match self.route(&flight.call.slots) {
            Route::At(primary) => self.waits_to_hear(primary, &flight.call),
            _ => false,
        })
    }

    /// A call without the fields that its primary does not know, if it has any. Keys that it reads
    /// are invalidated after its reply.
    pub(super) fn known_to(
        &self,
        primary: Number,
        call: &Call,
        host: &mut dyn Host,
    ) -> Option<Call> {
        let has_any = call.tracks || call.writer.is_some();
        if !has_any || self.knowing.contains(primary) {
            return None;
        }
        if call.tracks {
            self.invalidate_reads(call, host);
        }
        Some(Call { tracks: false, writer: None, ..call.clone() })
    }

    /// Invalidates the keys that a call reads for the clients here, before its reply, which is
    /// delivered first.
    pub(super) fn invalidate_reads(&self, call: &Call, host: &mut dyn Host) {
        let mut keys = Vec::new();
        host.keys_read(&call.borrowed(), &mut keys);
        keys.iter().for_each(|key| host.changed(false, None, call.db, key));
    }

    /// Whether changes of keys that clients here have read may have been missed since the last
    /// call, because of a new view. Asked before any command is executed in the view.
    pub fn has_missed_changes(&mut self) -> bool {
        std::mem::take(&mut self.has_missed)
    }

    /// Looks at the slots with other owners than before.
    pub(super) fn review_readers(&mut self, before: &View, runs: &[RangeInclusive<Slot>]) {
        let me = self.identity.node;
        for run in runs {
            let slot = *run.start();
            let owns = |view: &View| view.slots.owners(slot).contains(&me);
            let owned = (owns(before), owns(&self.view));
            let is_same = owned.0 == owned.1 && before.primary(slot) == self.view.primary(slot);
            self.has_missed |= owned != (true, true) && !is_same;
        }
        let is_gone = |node: &Number| before.member(*node) != self.view.member(*node);
        let gone = before.members.iter().map(|member| member.node).filter(is_gone);
        let gone: NodeSet = gone.collect();
        self.knowing.0 &= !gone.0;
        self.heard.0 &= !gone.0;
        let mut primaries =
            self.view.slots.ranges().iter().filter_map(|range| range.owners.first());
        self.has_missed |= gone.0 != 0 && primaries.any(|primary| gone.contains(*primary));
        self.has_missed &= !is_broken(Mutation::KeepReaders);
    }

    /// The client here that made the changes of a forwarded command, if it is not to be notified of
    /// its own ones.
    pub(super) fn writer_of(&self, tag: Option<Tag>) -> Option<u64> {
        let tag = tag.filter(|tag| tag.origin == self.identity)?;
        self.origin.call(tag.slot, tag.oseq)?.writer
    }

    /// Applies changes of a client here, if it is not to be notified of its own ones.
    pub(super) fn attributed(
        &mut self,
        writer: Option<u64>,
        host: &mut dyn Host,
        apply: impl FnOnce(&mut Self, &mut dyn Host),
    ) {
        if writer.is_none() {
            return apply(self, host);
        }
        host.invalidated_by(None);
        apply(self, host);
        host.invalidated_by(writer);
    }
}
