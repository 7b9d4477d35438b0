//! Client tracking and keyspace events across members: clients hear of changes of keys that this
//! node does not hold.
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
//! invalidation before the reply. So each change after the read is heard of after the reply. If a
//! key's slot gets another primary, which knows no readers, or this node becomes its owner, all
//! clients here are told to forget everything ([`Node::has_missed_changes`]).

use super::{Host, Node};
use crate::mutation::{Mutation, is_broken};
use crate::slot::Slot;
use crate::slot_map::Node as Number;
use crate::view::{NodeSet, View};
use crate::wire::{LANES, Record, Tag, Texts};
use petrel_keyspace::Call;
use std::ops::RangeInclusive;

impl Node {
    /// Other members that know records of interests.
    pub fn knows_interests(&self) -> NodeSet {
        self.knowing
    }

    /// Tells members what clients here want to hear of, in every lane: before all commands that are
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

    /// A call without the fields that its primary does not know, if it has any.
    pub(super) fn known_to(&self, primary: Number, call: &Call) -> Option<Call> {
        let has_any = call.tracks || call.writer.is_some();
        let is_unknown = has_any && !self.knowing.contains(primary);
        is_unknown.then(|| Call { tracks: false, writer: None, ..call.clone() })
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
        let mut primaries =
            self.view.slots.ranges().iter().filter_map(|range| range.owners.first());
        self.has_missed |= gone.0 != 0 && primaries.any(|primary| gone.contains(*primary));
        self.has_missed &= !is_broken(Mutation::KeepReaders);
    }

    /// The client here that made the changes of a forwarded command, if it does not want to hear of
    /// its own ones.
    pub(super) fn writer_of(&self, tag: Option<Tag>) -> Option<u64> {
        let tag = tag.filter(|tag| tag.origin == self.identity)?;
        self.origin.call(tag.slot, tag.oseq)?.writer
    }

    /// Applies changes of a client here, if it does not want to hear of its own ones.
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
