//! Values built as a whole: several changes of one key that observers see as one.

use crate::handle::Handle;
use crate::state::effect::{Effect, Removal};
use crate::state::event::class;
use crate::structures::form::Type;
use crate::structures::key_hash::Key;
use crate::structures::view::View;
use std::sync::atomic::Ordering::Relaxed;

impl Handle {
    /// Replaces a key's value with the one built by `build`, which calls the mutators of this key;
    /// `expiry` in Unix milliseconds. `build` finds the key absent and changes no other key. The
    /// result is recorded as one effect. If `build` fails, nothing changes; if it builds nothing,
    /// the key is removed. The key's stripe is held.
    pub fn build<E>(
        &mut self,
        db: u16,
        key: Key<'_>,
        expiry: Option<i64>,
        build: impl FnOnce(&mut Handle) -> Result<(), E>,
    ) -> Result<(), E> {
        let old = self.find_alive(db, key).map(|(at, entry)| {
            self.take_at(db, key, at, entry);
            entry
        });
        // Neither sinks nor indexes see the steps.
        let bits = std::mem::take(&mut self.observers.bits);
        let sink = self.observers.sink.take();
        let wanted = self.mute_events();
        let interest = self.stripe(key.hash).interest.take();
        let stripe = key.hash.stripe() as usize;
        let tracked = self.ks.stripes[stripe].tracked.swap(0, Relaxed);
        let broadcasts = self.observers.invalidations.broadcasts.len();
        let built = build(self);
        self.observers.invalidations.broadcasts.truncate(broadcasts);
        self.ks.stripes[stripe].tracked.store(tracked, Relaxed);
        self.stripe(key.hash).interest = interest;
        self.observers.sink = sink;
        self.observers.bits = bits;
        if let Err(error) = built {
            if let Some((at, entry)) = self.find(db, key) {
                self.take_at(db, key, at, entry);
                self.free_later(entry);
            }
            if let Some(old) = old {
                self.insert_entry(db, key, old);
            }
            self.unmute_events(wanted);
            return Err(error);
        }
        self.unmute_events(wanted);
        let before = old.map(|old| old.type_of());
        if let Some(old) = old {
            self.free_later(old);
        }
        self.record_built(db, key, expiry, before);
        Ok(())
    }

    fn record_built(&mut self, db: u16, key: Key<'_>, expiry: Option<i64>, before: Option<Type>) {
        let bytes = key.bytes;
        let Some((at, entry)) = self.find(db, key) else {
            if before.is_some() {
                self.record(db, key, &Effect::Remove { key: bytes, why: Removal::Deleted });
            }
            return;
        };
        let new = entry.with_expiry(&mut self.cache, expiry);
        if new != entry {
            self.replace_entry(db, key, at, entry, new);
            self.free_block_later(entry);
        }
        match before {
            Some(old) => self.note_replaced(db, key, old, new.type_of()),
            None => self.event(class::NEW, "new", db, bytes),
        }
        let effect = match new.string() {
            Some(value) => Effect::Put { key: bytes, value, expiry },
            None => Effect::Store { key: bytes, value: View::new(new), expiry },
        };
        self.record(db, key, &effect);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Effect, Handle, Keyspace, Options, Value};
    use std::sync::{Arc, Mutex};

    /// An expiry in the future.
    const FAR: i64 = 1 << 50;

    type Log = Arc<Mutex<Vec<String>>>;

    fn handle() -> (Handle, Log) {
        let mut handle = Keyspace::new(&Options::default()).attach();
        let log = Log::default();
        let sink = log.clone();
        handle.set_sink(Some(Box::new(move |_: u16, effect: &Effect<'_>| {
            sink.lock().unwrap().push(format!("{effect:?}"));
        })));
        handle.set_clock(1000);
        handle.enter();
        (handle, log)
    }

    /// Sets key `k` to each text in turn. Fails if `fail` is set.
    fn build(handle: &mut Handle, texts: &[&str], expiry: Option<i64>, fail: bool) -> bool {
        let key = handle.key(b"k");
        handle.lock(key.hash);
        let built = handle.build(0, key, expiry, |handle| {
            assert!(handle.peek(0, key).is_none());
            for text in texts {
                handle.put(0, key, Value::Bytes(text.as_bytes()), None);
            }
            if fail { Err(()) } else { Ok(()) }
        });
        handle.unlock();
        built.is_ok()
    }

    fn value(handle: &mut Handle) -> Option<Vec<u8>> {
        handle.exit();
        let value = handle.load(0, b"k").map(|text| text.to_vec());
        handle.enter();
        value
    }

    #[test]
    fn many_changes_are_one_effect() {
        let (mut handle, log) = handle();
        assert!(build(&mut handle, &["a", "b", "c"], Some(FAR), false));
        assert_eq!(value(&mut handle).as_deref(), Some(&b"c"[..]));
        let stats = handle.keyspace().db_stats(0);
        assert_eq!((stats.keys, stats.volatile), (1, 1));
        assert!(build(&mut handle, &["d"], None, false));
        assert_eq!(handle.keyspace().db_stats(0).volatile, 0);
        let log = log.lock().unwrap();
        assert_eq!(log.len(), 2, "{log:?}");
        assert!(log[0].starts_with("Put") && log[0].contains(&FAR.to_string()), "{log:?}");
        handle.exit();
    }

    #[test]
    fn a_failure_changes_nothing() {
        let (mut handle, log) = handle();
        assert!(!build(&mut handle, &["a"], None, true));
        assert_eq!(value(&mut handle), None);
        assert!(build(&mut handle, &["b"], Some(FAR), false));
        assert!(!build(&mut handle, &["c", "d"], None, true));
        assert_eq!(value(&mut handle).as_deref(), Some(&b"b"[..]));
        let stats = handle.keyspace().db_stats(0);
        assert_eq!((stats.keys, stats.volatile), (1, 1));
        assert_eq!(log.lock().unwrap().len(), 1);
        handle.exit();
    }

    #[test]
    fn nothing_built_removes() {
        let (mut handle, log) = handle();
        assert!(build(&mut handle, &[], None, false));
        assert!(build(&mut handle, &["b"], None, false));
        assert!(build(&mut handle, &[], None, false));
        assert_eq!(value(&mut handle), None);
        let log = log.lock().unwrap();
        assert_eq!(log.len(), 2, "{log:?}");
        assert!(log[1].starts_with("Remove"), "{log:?}");
        handle.exit();
    }
}
