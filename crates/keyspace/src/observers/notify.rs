//! Dispatches each effect to its observers: `WATCH`, client tracking, blocked clients, keyspace
//! events, sinks.

use crate::handle::Handle;
use crate::state::effect::{Effect, Removal};
use crate::structures::key_hash::Key;

impl Handle {
    /// Counts an effect and notifies its observers.
    #[inline]
    pub(crate) fn record(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) {
        self.counters.changes.add(1);
        self.tell(db, key, effect);
    }

    /// Notifies the observers of an effect that is part of another and not counted by itself. With
    /// none this is three predictable branches, of which the first tests the stripe and the
    /// prefixes at once.
    #[inline]
    pub(crate) fn tell(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) {
        if self.has_observers(key) {
            self.notify_observers(db, key, effect);
        }
        if self.notes_events() {
            self.note_effect(db, effect);
        }
        if self.observers.bits != 0 {
            self.record_observed(db, key, effect);
        }
    }

    /// Whether the stripe has watched keys, blocked clients or tracked keys, or any client tracks
    /// prefixes: two cache lines, of which one is the stripe's and the other never changes.
    #[inline]
    fn has_observers(&self, key: Key<'_>) -> bool {
        self.tracks_in(key.hash.stripe()) | self.has_other_observers(key)
    }

    /// Like `has_observers`, without client tracking by key.
    #[inline]
    fn has_other_observers(&self, key: Key<'_>) -> bool {
        self.stripe(key.hash).interest.is_some() | self.ks.prefixes.any()
    }

    /// Whether anything observes effects of this key; otherwise the caller need not build them.
    #[inline]
    pub(crate) fn is_observed(&self, key: Key<'_>) -> bool {
        self.has_observers(key) || self.notes_events() || self.observers.bits != 0
    }

    /// Like [`Handle::is_observed`], without client tracking by key.
    #[inline]
    pub(crate) fn is_observed_by_others(&self, key: Key<'_>) -> bool {
        self.has_other_observers(key) || self.notes_events() || self.observers.bits != 0
    }

    /// Signals a key as modified to `WATCH` and client-side caching although its value is
    /// unchanged, as Redis does if a command writes an equal value (`signalModifiedKey`). Nothing
    /// is logged. The key's stripe is held.
    pub fn signal_modified(&mut self, db: u16, key: Key<'_>) {
        if self.has_observers(key) {
            self.invalidate(db, key, true);
            if let Some(interest) = &mut self.stripe(key.hash).interest {
                interest.watched.touch(db, key.bytes);
            }
        }
    }

    /// Records that clients must drop a cached key.
    fn invalidate(&mut self, db: u16, key: Key<'_>, by_client: bool) {
        if self.ks.prefixes.any() {
            self.broadcast(db, key, by_client);
        }
        if self.tracks_in(key.hash.stripe()) {
            self.take_readers(key, by_client);
        }
    }

    #[cold]
    fn notify_observers(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) {
        let by_client = !matches!(
            effect,
            Effect::Remove { why: Removal::Expired | Removal::Evicted, .. }
                | Effect::FieldRemove { why: Removal::Expired, .. }
        );
        self.invalidate(db, key, by_client);
        let Some(interest) = &mut self.stripe(key.hash).interest else { return };
        if !interest.watched.is_empty() && effect.modifies_value() {
            interest.watched.touch(db, key.bytes);
        }
        // No blocked client waits for a change of the expiry.
        if !matches!(effect, Effect::Expire { .. }) {
            self.make_ready(db, key);
        }
    }
}
