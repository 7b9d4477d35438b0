//! Records a thread's changes in its sinks and commits them.

use crate::handle::Handle;
use crate::state::effect::{Effect, EffectHead, EffectSink, Published};
use crate::state::locks::HeldStripes;
use crate::state::observers::DOCUMENTS;
use crate::state::order::Uncommitted;
use crate::state::order::{Epochs, Order, SinkSource};
use crate::structures::key_hash::Key;
use std::sync::Arc;

/// Several sinks as one; the first decides epochs.
struct FanOut(Vec<Box<dyn EffectSink>>);

impl EffectSink for FanOut {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        let mut encoded = None;
        for sink in &mut self.0 {
            encoded = sink.record_encoded(head, effect, encoded);
        }
    }

    fn message(&mut self, message: &Published<'_>) -> bool {
        // Every sink gets the message, even if an earlier one has taken it.
        self.0.iter_mut().fold(false, |is_taken, sink| sink.message(message) | is_taken)
    }

    fn commit(&mut self, epochs: &Epochs, alone: bool) -> u64 {
        let Some((first, others)) = self.0.split_first_mut() else { return epochs.now() };
        let epoch = first.commit(epochs, alone);
        others.iter_mut().for_each(|sink| sink.committed(epoch, alone));
        epoch
    }

    fn committed(&mut self, epoch: u64, alone: bool) {
        self.0.iter_mut().for_each(|sink| sink.committed(epoch, alone));
    }

    fn hand_over(&mut self) {
        self.0.iter_mut().for_each(|sink| sink.hand_over());
    }
}

impl Handle {
    /// Sets the consumer of every effect of this thread from now on.
    pub fn set_sink(&mut self, sink: Option<Box<dyn EffectSink>>) {
        self.observers.replace_sink(sink);
    }

    /// Adds or replaces the sink source of this name, or removes it; each thread gets a sink of its
    /// own from it. Takes effect at once for all threads, because the whole keyspace is held
    /// ([`Handle::lock_all`]). Changes committed before have been handed over.
    pub fn set_sinks(&mut self, name: &'static str, source: Option<Arc<dyn SinkSource>>) {
        debug_assert!(self.holds_everything());
        self.ks.sinks.set(name, source);
        self.renew_observers();
    }

    /// Takes the sinks and the view of the indexes again, whichever has changed.
    #[cold]
    pub(crate) fn renew_observers(&mut self) {
        let version = self.ks.sinks.version();
        let seen = std::mem::replace(&mut self.observers.sinks_seen, version);
        if version as u32 != seen as u32 {
            self.renew_sink();
        }
        if version >> 32 != seen >> 32 {
            self.renew_documents();
        }
    }

    fn renew_sink(&mut self) {
        self.observers.is_strict = self.ks.sinks.is_strict();
        let mut sinks = self.ks.sinks.make();
        self.observers.replace_sink(match sinks.len() {
            0 | 1 => sinks.pop(),
            _ => Some(Box::new(FanOut(sinks))),
        });
    }

    /// The latest epoch since the last call in which this thread committed something or, with a
    /// strict sink, in which a stripe held by it was written. Replies may be sent once that epoch
    /// is durable. 0 if there was none.
    #[inline]
    pub fn take_need(&mut self) -> u64 {
        std::mem::take(&mut self.observers.need)
    }

    /// Delays this thread's replies until this epoch is durable.
    pub fn note_need(&mut self, epoch: u64) {
        self.observers.need = self.observers.need.max(epoch);
    }

    /// Whether readers, too, wait until the changes that they have seen are durable.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.observers.is_strict
    }

    /// Hands committed changes over, before an operation that takes long.
    pub fn hand_over(&mut self) {
        if let Some(sink) = &mut self.observers.sink {
            sink.hand_over();
        }
    }

    /// Passes an effect to the sink and to the indexes.
    #[inline(never)]
    pub(crate) fn record_observed(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) {
        if self.observers.bits & DOCUMENTS != 0 {
            self.note_document(db, key, effect);
        }
        if self.observers.sink.is_some() {
            self.record_in_sinks(db, key, effect);
        }
    }

    /// Passes an effect to the sink.
    pub(crate) fn record_in_sinks(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) {
        self.begin_commit();
        let epoch = self.observers.uncommitted.epoch;
        let stripe = self.stripe(key.hash);
        let order = stripe.order.next(epoch);
        stripe.order = order;
        if let Some(sink) = &mut self.observers.sink {
            sink.record(EffectHead { db, order, origin: self.observers.origin }, effect);
        }
    }

    /// Called before recording an effect of `to` that must be ordered after all earlier ones of the
    /// stripe of `from`, too: both continue from the higher of their orders (Lamport, "Time,
    /// clocks, and the ordering of events in a distributed system", 1978). Both stripes are held.
    pub(crate) fn level_orders(&mut self, to: Key<'_>, from: Key<'_>) {
        let order = self.stripe(to.hash).order.max(self.stripe(from.hash).order);
        self.stripe(to.hash).order = order;
        self.stripe(from.hash).order = order;
    }

    /// Passes an effect of a whole database to the sink. Everything is held.
    pub(crate) fn record_database(&mut self, db: u16, effect: &Effect<'_>) {
        if self.observers.sink.is_some() {
            self.begin_commit();
            self.observers.uncommitted.alone = true;
        }
        if let Some(sink) = &mut self.observers.sink {
            sink.record(
                EffectHead { db, order: Order::default(), origin: self.observers.origin },
                effect,
            );
        }
    }

    /// Whether effects are recorded.
    #[inline]
    pub fn has_sink(&self) -> bool {
        self.observers.sink.is_some()
    }

    /// Records the whole form of auxiliary state; `number` grows with each change of it. Committed
    /// together with the other changes under the held locks, or at once if there are none. The
    /// thread is in a batch.
    pub fn record_aux(&mut self, number: u64, name: &[u8], bytes: &[u8]) {
        self.see_sinks();
        if self.observers.sink.is_none() {
            return;
        }
        self.begin_commit();
        let head = EffectHead { db: 0, order: Order(number), origin: self.observers.origin };
        if let Some(sink) = &mut self.observers.sink {
            sink.record(head, &Effect::Aux { name, bytes });
        }
        if !self.holds_any() {
            self.commit();
        }
    }

    /// Records a message to subscribers. It is committed together with the other changes under the
    /// held locks, or at once if there are none: no reader waits for it to be durable. The thread
    /// is in a batch.
    pub fn record_message(&mut self, message: &Published<'_>) {
        self.see_sinks();
        let holds_any = self.holds_any();
        let Some(sink) = &mut self.observers.sink else { return };
        if !sink.message(message) {
            return;
        }
        if holds_any {
            self.begin_commit();
        } else {
            sink.committed(self.ks.epochs.now(), false);
        }
    }

    /// Makes the sink commit when the locks are released, even if nothing changes: it has data of
    /// its own to commit.
    pub fn commit_at_unlock(&mut self) {
        debug_assert!(self.holds_any());
        self.see_sinks();
        if self.observers.sink.is_some() {
            self.begin_commit();
        }
    }

    #[inline]
    fn begin_commit(&mut self) {
        if !self.observers.uncommitted.any {
            self.observers.uncommitted =
                Uncommitted { any: true, alone: false, epoch: self.ks.epochs.now() };
        }
    }

    /// Commits the recorded changes; called before the locks are released.
    pub(crate) fn commit(&mut self) {
        let Uncommitted { any, alone, epoch: began } = self.observers.uncommitted;
        if any {
            self.observers.uncommitted = Uncommitted::default();
            let Some(sink) = &mut self.observers.sink else { return };
            let epoch = sink.commit(&self.ks.epochs, alone);
            self.observers.need = self.observers.need.max(epoch);
            if epoch != began {
                self.raise_order(Order::first_of(epoch));
            }
        } else if self.observers.is_strict {
            self.observers.need = self.observers.need.max(self.seen_epoch());
        }
    }

    /// The latest epoch in which a held stripe was written.
    fn seen_epoch(&self) -> u64 {
        match self.locks.held() {
            HeldStripes::Nothing => 0,
            HeldStripes::One(stripe) => self.stripe_at(stripe).order.epoch(),
            HeldStripes::Many => {
                let epochs =
                    self.locks.many().iter().map(|&stripe| self.stripe_at(stripe).order.epoch());
                epochs.max().unwrap_or(0)
            }
            HeldStripes::All => self.ks.epochs.now(),
        }
    }

    /// Stores the epoch of the write in the held stripes, for their next holders.
    #[cold]
    fn raise_order(&mut self, order: Order) {
        let raise = |stripe: u32| {
            let stripe = self.stripe_at(stripe);
            stripe.order = stripe.order.max(order);
        };
        match self.locks.held() {
            HeldStripes::Nothing => {}
            HeldStripes::One(stripe) => raise(stripe),
            HeldStripes::Many => self.locks.many().iter().copied().for_each(raise),
            HeldStripes::All => (0..self.ks.stripes.len() as u32).for_each(raise),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::list::End;
    use crate::structures::value::Value;
    use crate::{Keyspace, Options};
    use std::sync::Mutex;

    /// Calls of the sink: the order of each effect, and the epoch of each commit.
    #[derive(Debug, Eq, PartialEq)]
    enum Heard {
        Effect(u64),
        Commit(u64, bool),
        HandOver,
    }

    #[derive(Clone, Default)]
    struct Listener(Arc<Mutex<Vec<Heard>>>);

    impl Listener {
        fn note(&self, heard: Heard) {
            self.0.lock().unwrap().push(heard);
        }
    }

    impl EffectSink for Listener {
        fn record(&mut self, head: EffectHead, _: &Effect<'_>) {
            self.note(Heard::Effect(head.order.0));
        }

        fn commit(&mut self, epochs: &Epochs, alone: bool) -> u64 {
            self.note(Heard::Commit(epochs.now(), alone));
            epochs.now()
        }

        fn hand_over(&mut self) {
            self.note(Heard::HandOver);
        }
    }

    impl SinkSource for Listener {
        fn sink(&self) -> Box<dyn EffectSink> {
            Box::new(self.clone())
        }

        fn is_strict(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_copy_stands_above_what_both_keys_were_and_below_what_they_become() {
        let ks = Keyspace::new(&Options { stripes: 2, ..Options::default() });
        let mut handle = ks.attach();
        let noted: Arc<Mutex<Vec<(u64, String)>>> = Arc::default();
        struct Noting(Arc<Mutex<Vec<(u64, String)>>>);
        impl EffectSink for Noting {
            fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
                self.0.lock().unwrap().push((head.order.0, format!("{effect:?}")));
            }
        }
        handle.set_sink(Some(Box::new(Noting(noted.clone()))));
        // Two keys of different stripes.
        let names: Vec<String> = (0..64).map(|n| format!("list:{n}")).collect();
        let from = handle.key(b"from");
        let to = names.iter().map(|name| handle.key(name.as_bytes()));
        let to = to.into_iter().find(|to| to.hash.stripe() != from.hash.stripe()).unwrap();
        handle.enter();
        handle.lock_many([from.hash, to.hash].into_iter());
        for element in [b"a", b"b", b"c"] {
            handle.list_push(0, from, End::Back, &[element]).unwrap();
        }
        assert!(handle.copy(0, from, 0, to));
        handle.list_push(0, from, End::Back, &[b"d"]).unwrap();
        assert!(handle.rename(0, to, 0, from));
        handle.list_push(0, to, End::Back, &[b"e"]).unwrap();
        handle.unlock();
        handle.exit();
        let noted = noted.lock().unwrap();
        let kinds: Vec<&str> =
            noted.iter().filter_map(|(_, text)| text.split(' ').next()).collect();
        let push = "ListPush";
        assert_eq!(kinds, [push, push, push, "CopyFrom", push, "CopyFrom", "Remove", push]);
        assert!(noted.is_sorted_by_key(|(order, _)| *order), "{noted:?}");
        assert!(noted.windows(2).all(|pair| pair[0].0 < pair[1].0), "{noted:?}");
        let moved = |n: usize| noted[n].1.contains("moved: true");
        assert!(!moved(3) && moved(5));
    }

    #[test]
    fn auxiliary_state_is_an_effect_of_its_own_number() {
        let ks = Keyspace::new(&Options { stripes: 1, ..Options::default() });
        let listener = Listener::default();
        let mut handle = ks.attach();
        handle.enter();
        handle.record_aux(1, b"name", b"without a sink");
        handle.lock_all();
        handle.set_sinks("listener", Some(Arc::new(listener.clone())));
        handle.unlock();
        handle.record_aux(2, b"name", b"one");
        assert_eq!(handle.take_need(), 1);
        let hash = handle.hash(b"key");
        handle.lock(hash);
        handle.put(0, Key { bytes: b"key", hash }, Value::Int(1), None);
        handle.record_aux(3, b"name", b"");
        handle.unlock();
        handle.exit();
        let expected = vec![
            Heard::Effect(2),
            Heard::Commit(1, false),
            Heard::Effect(Order::first_of(1).0),
            Heard::Effect(3),
            Heard::Commit(1, false),
            Heard::HandOver,
        ];
        assert_eq!(*listener.0.lock().unwrap(), expected);
    }

    #[test]
    fn changes_are_numbered_by_stripe_and_committed_by_lock() {
        let ks = Keyspace::new(&Options { stripes: 1, ..Options::default() });
        let listener = Listener::default();
        let mut handle = ks.attach();
        handle.enter();
        handle.lock_all();
        handle.set_sinks("listener", Some(Arc::new(listener.clone())));
        handle.unlock();
        let put = |handle: &mut Handle, text: &str| {
            let key = Key { bytes: b"key", hash: handle.hash(b"key") };
            handle.put(0, key, Value::from_text(text.as_bytes()), None);
        };
        let hash = handle.hash(b"key");
        handle.lock(hash);
        put(&mut handle, "a");
        put(&mut handle, "b");
        handle.unlock();
        assert_eq!(handle.take_need(), 1);
        ks.epochs().advance();
        handle.lock(hash);
        handle.unlock();
        // Nothing was written, but something of epoch 1 was seen.
        assert_eq!(handle.take_need(), 1);
        handle.lock(hash);
        put(&mut handle, "c");
        handle.unlock();
        assert_eq!(handle.take_need(), 2);
        handle.lock_all();
        drop(handle.clear(Some(0)));
        handle.unlock();
        handle.exit();
        let first = |epoch| Order::first_of(epoch).0;
        let expected = vec![
            Heard::Effect(first(1)),
            Heard::Effect(first(1) + 1),
            Heard::Commit(1, false),
            Heard::Effect(first(2)),
            Heard::Commit(2, false),
            Heard::Effect(0),
            Heard::Commit(2, true),
            Heard::HandOver,
        ];
        assert_eq!(*listener.0.lock().unwrap(), expected);
        // A thread that comes later has a sink too.
        let mut other = ks.attach();
        other.enter();
        other.lock(hash);
        assert!(other.observers.sink.is_some());
        other.unlock();
        other.exit();
        handle.enter();
        handle.lock_all();
        handle.set_sinks("listener", None);
        handle.unlock();
        handle.exit();
        other.enter();
        other.lock(hash);
        assert!(other.observers.sink.is_none());
        other.unlock();
        other.exit();
    }
}
