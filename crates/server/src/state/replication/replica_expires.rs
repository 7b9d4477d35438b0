//! Keys that clients of a writable replica gave an expiry: the primary does not know them, so that
//! the replica itself removes them when their time has passed.
//!
//! A key is tracked by name. If the primary changes it meanwhile it goes by the expiry that it has
//! then, a little earlier perhaps than the primary says so; as in Redis.

use crate::unix_time::unix_ms;
use parking_lot::Mutex;
use petrel_keyspace::{Effect, Handle};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Keys that are tracked at most; what clients add beyond is removed once it is written to again,
/// or the primary removes it.
const TRACKED_MAX: usize = 1 << 20;

/// Keys that are removed in one go.
const REMOVED_AT_ONCE: usize = 400;

thread_local! {
    /// Whether this thread executes the primary's stream.
    static FOLLOWS: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as executing the primary's stream: its keys are the primary's.
pub(crate) fn follows() {
    FOLLOWS.set(true);
}

/// Whether the calling thread executes the primary's stream.
pub(crate) fn is_following() -> bool {
    FOLLOWS.get()
}

/// A database, and a key in it.
type Place = (u16, Box<[u8]>);

/// See the module.
#[derive(Default)]
pub struct ReplicaExpires {
    tracked: Mutex<Tracked>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Tracked {
    /// Expiry of each key, in Unix milliseconds.
    times: HashMap<Place, i64>,
    by_time: BTreeSet<(i64, Place)>,
}

impl Tracked {
    fn set(&mut self, place: Place, at: i64) {
        if let Some(before) = self.times.insert(place.clone(), at) {
            self.by_time.remove(&(before, place.clone()));
        }
        self.by_time.insert((at, place));
    }

    /// Takes out an expired key.
    fn pop(&mut self, now: i64) -> Option<Place> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, place) = self.by_time.pop_first()?;
        self.times.remove(&place);
        Some(place)
    }
}

impl ReplicaExpires {
    /// Keys that are tracked: `slave_expires_tracked_keys`.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Tracks the key of an effect on a replica, if a client gave it an expiry.
    #[inline]
    pub(crate) fn note(&self, db: u16, effect: &Effect<'_>) {
        if let Effect::Put { key, expiry: Some(at), .. }
        | Effect::Store { key, expiry: Some(at), .. }
        | Effect::Expire { key, expiry: Some(at) } = *effect
            && !is_following()
        {
            self.track(db, key, at);
        }
    }

    #[cold]
    fn track(&self, db: u16, key: &[u8], at: i64) {
        let mut tracked = self.tracked.lock();
        let place = (db, key.into());
        if tracked.times.len() < TRACKED_MAX || tracked.times.contains_key(&place) {
            tracked.set(place, at);
            self.count.store(tracked.times.len(), Relaxed);
        }
    }

    /// Tracks nothing any more.
    pub(crate) fn forget(&self) {
        let forgotten = std::mem::take(&mut *self.tracked.lock());
        self.count.store(0, Relaxed);
        drop(forgotten);
    }

    /// Removes expired keys, on a replica. The thread is in no batch.
    pub(crate) fn expire(&self, ks: &mut Handle) {
        if self.count() == 0 {
            return;
        }
        let now = unix_ms();
        for _ in 0..REMOVED_AT_ONCE {
            let due = {
                let mut tracked = self.tracked.lock();
                let due = tracked.pop(now);
                self.count.store(tracked.times.len(), Relaxed);
                due
            };
            let Some((db, name)) = due else { break };
            ks.enter();
            ks.refresh_clock();
            let key = ks.key(&name);
            ks.lock(key.hash);
            let expiry = ks.view_stored(db, key).and_then(|view| view.expiry());
            match expiry {
                Some(at) if at <= ks.now_ms() => {
                    // It has expired, which a change of it finds.
                    ks.remove(db, key);
                }
                Some(at) => self.track(db, &name, at),
                None => {}
            }
            ks.unlock();
            ks.exit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_when_their_time_has() {
        let own = ReplicaExpires::default();
        own.track(0, b"later", 30);
        own.track(0, b"soon", 10);
        own.track(3, b"soon", 20);
        own.track(0, b"later", 15);
        assert_eq!(own.count(), 3);
        let mut tracked = own.tracked.lock();
        assert_eq!(tracked.pop(9), None);
        assert_eq!(tracked.pop(20), Some((0, b"soon"[..].into())));
        assert_eq!(tracked.pop(20), Some((0, b"later"[..].into())));
        assert_eq!(tracked.pop(20), Some((3, b"soon"[..].into())));
        assert!(tracked.by_time.is_empty() && tracked.times.is_empty());
    }
}
