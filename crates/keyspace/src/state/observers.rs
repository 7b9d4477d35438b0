//! A thread's state for the observers of its changes.

use crate::state::documents::Documents;
use crate::state::effect::EffectSink;
use crate::state::event::Events;
use crate::state::invalidation::{BatchInvalidations, PrefixView};
use crate::state::order::{Origin, Uncommitted};
use crate::state::waiting::ReadyKey;
use std::collections::VecDeque;

/// A sink is set.
pub(crate) const SINK: u8 = 1;
/// Indexes of documents exist.
pub(crate) const DOCUMENTS: u8 = 2;

/// Sinks of effects, and notifications to be sent at the end of the command.
#[derive(Default)]
pub(crate) struct Observers {
    /// Origin of the effect being applied.
    pub origin: Origin,
    /// Bits of the observers that get every effect: [`SINK`], [`DOCUMENTS`].
    pub bits: u8,
    pub sink: Option<Box<dyn EffectSink>>,
    /// Changes of documents that indexes cover; none while there is no index.
    pub documents: Option<Box<Documents>>,
    /// [`Sinks::version`](crate::state::order::Sinks::version) when the sink was created and the
    /// view of the indexes was taken.
    pub sinks_seen: u64,
    /// [`SinkSource::is_strict`](crate::SinkSource::is_strict) of the sink's source.
    pub is_strict: bool,
    /// Changes recorded in the sink but not yet committed.
    pub uncommitted: Uncommitted,
    /// The latest epoch in which this thread wrote, or of which it saw a change.
    pub need: u64,
    /// Events queued until the end of their command.
    pub events: Events,
    /// Changed keys with blocked clients; each at most once.
    pub ready: VecDeque<ReadyKey>,
    /// Room for the bytes of a change of a value type; empty between two changes.
    pub change: Vec<u8>,
    /// For clients that cache.
    pub invalidations: BatchInvalidations,
    pub prefixes: PrefixView,
}

impl Observers {
    /// Sets the sink; returns the one before.
    pub fn replace_sink(
        &mut self,
        sink: Option<Box<dyn EffectSink>>,
    ) -> Option<Box<dyn EffectSink>> {
        self.set_bit(SINK, sink.is_some());
        std::mem::replace(&mut self.sink, sink)
    }

    /// Sets a bit of [`Observers::bits`].
    pub fn set_bit(&mut self, bit: u8, on: bool) {
        self.bits = if on { self.bits | bit } else { self.bits & !bit };
    }
}
