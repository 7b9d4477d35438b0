//! Who has read which keys, for clients that cache what they read: a side table of each stripe, guarded by its lock.
//!
//! ```text
//!  a command reads ── Handle::remember_reader ── key: who has read it      under the lock that the read held
//!
//!  a change is recorded ── the key leaves the table with its readers ── Handle::take_invalidations ── the host tells them
//! ```
//!
//! * A read is remembered under the lock under which it was made. So whoever changes the key afterwards finds the reader,
//!   and no change can be missed.
//! * A key is told of once; a reader that reads it again is remembered again.
//! * Keys are remembered by name, whatever their database, as clients cache them by name.
//! * Nobody looks for a reader that is gone. It stays in the table, silent, until its keys change or are forgotten, or
//!   until a list of readers would have to grow for it.
//!
//! What a reader is, only its owner knows.

use crate::counters::Counters;
use crate::filter::Filter;
use crate::handle::{Handle, Key};
use crate::hash::KeyHasher;
use crate::prefetch::prefetch;
use foldhash::fast::RandomState;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Bytes that a key in the table takes beside its name, and that the second and each further reader add.
const KEY_BYTES: usize = 48;
const GROUP_BYTES: usize = 32;
const ITEM_BYTES: usize = 8;

/// A table that has room for so many keys more than it holds gives it back.
const SPARE_MAX: usize = 64;

/// Reads that a thread remembers before it looks again whether the table is full, at most.
const UNCHECKED_MAX: u64 = 64;

/// Keys that one call forgets before it leaves the others for later, give or take those of a stripe.
const FORGET_MAX: u64 = 1024;

/// Somebody who is to learn of changes of what it has read.
pub struct Reader {
    listening: AtomicBool,
    owner: Box<dyn Any + Send + Sync>,
}

impl Reader {
    /// A reader that belongs to `owner` and listens.
    pub fn new(owner: impl Any + Send + Sync) -> Arc<Self> {
        Arc::new(Reader { listening: AtomicBool::new(true), owner: Box::new(owner) })
    }

    /// Whom it belongs to.
    pub fn owner(&self) -> &dyn Any {
        &*self.owner
    }

    /// Whether it is to be told of changes.
    pub fn is_listening(&self) -> bool {
        self.listening.load(Relaxed)
    }

    /// Says whether it is to be told. One that is not keeps its place in the table.
    pub fn listen(&self, listening: bool) {
        self.listening.store(listening, Relaxed);
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("listening", &self.is_listening()).finish_non_exhaustive()
    }
}

/// The readers of one key; at least one. Most keys have few.
#[derive(Debug)]
pub struct Readers(Few);

#[derive(Debug)]
enum Few {
    One(Arc<Reader>),
    Many(Box<Group>),
}

/// In the order of their addresses.
#[derive(Debug)]
struct Group(Vec<Arc<Reader>>);

impl Readers {
    /// All of them.
    pub fn as_slice(&self) -> &[Arc<Reader>] {
        match &self.0 {
            Few::One(reader) => std::slice::from_ref(reader),
            Few::Many(group) => &group.0,
        }
    }

    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn add(&mut self, reader: &Arc<Reader>) {
        let group = match &mut self.0 {
            Few::One(known) if Arc::ptr_eq(known, reader) => return,
            Few::One(known) if !known.is_listening() => return *known = reader.clone(),
            Few::One(known) => {
                let group = Box::new(Group(vec![known.clone()]));
                self.0 = Few::Many(group);
                return self.add(reader);
            }
            Few::Many(group) => &mut group.0,
        };
        let place =
            |group: &[Arc<Reader>]| group.binary_search_by_key(&Arc::as_ptr(reader), Arc::as_ptr);
        if place(group).is_ok() {
            return;
        }
        if group.len() == group.capacity() {
            group.retain(|known| known.is_listening());
        }
        if let Err(at) = place(group) {
            group.insert(at, reader.clone());
        }
    }
}

/// A key that has changed, and who has read it.
#[derive(Debug)]
pub struct Invalidation {
    /// The key.
    pub key: Box<[u8]>,
    /// Its readers, those included that listen no longer.
    pub readers: Readers,
    /// Whether a client changed it: neither time, nor the memory limit, nor the limit of the table.
    pub by_client: bool,
}

/// The tracked keys of one stripe.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Says of most keys that are not tracked that they are not, from one cache line.
    filter: Filter,
    keys: HashMap<Box<[u8]>, Readers, RandomState>,
}

impl Tracked {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn add(&mut self, key: Key<'_>, reader: &Arc<Reader>, hasher: &KeyHasher, counters: &Counters) {
        let Key { bytes: key, hash } = key;
        match self.keys.get_mut(key) {
            Some(readers) => {
                count(counters, -1, key.len(), readers.len());
                readers.add(reader);
                count(counters, 1, key.len(), readers.len());
            }
            None => {
                self.keys.insert(key.into(), Readers(Few::One(reader.clone())));
                if self.filter.is_worn(self.keys.len()) {
                    self.filter.renew(self.keys.keys().map(|key| hasher.hash(key)));
                } else {
                    self.filter.add(hash);
                }
                count(counters, 1, key.len(), 1);
            }
        }
    }

    fn take(&mut self, key: Key<'_>, counters: &Counters) -> Option<(Box<[u8]>, Readers)> {
        if !self.filter.may_hold(key.hash) {
            return None;
        }
        let (key, readers) = self.keys.remove_entry(key.bytes)?;
        count(counters, -1, key.len(), readers.len());
        if self.keys.capacity() > self.keys.len() * 8 + SPARE_MAX {
            self.keys.shrink_to(self.keys.len() * 2);
        }
        Some((key, readers))
    }

    /// Any key: those of a hash table come in no order.
    fn any(&self) -> Option<Box<[u8]>> {
        self.keys.keys().next().cloned()
    }
}

/// Counts a key of the table in or out.
fn count(counters: &Counters, sign: i64, key: usize, readers: usize) {
    let group = if readers > 1 { GROUP_BYTES + ITEM_BYTES * readers } else { 0 };
    let bytes = sign * (KEY_BYTES + key + group) as i64;
    counters.tracked_keys.add(sign);
    counters.tracked_items.add(sign * readers as i64);
    counters.tracked_bytes.add(bytes);
    counters.used.add(bytes);
}

/// What all threads share of the table.
#[derive(Default)]
pub(crate) struct TrackingLimit {
    /// Keys that the table may hold; 0 for any number.
    keys_max: AtomicUsize,
    /// The table may hold more: the limit was lowered, or there was no time to forget them all.
    suspect: AtomicBool,
    /// The stripe in which keys are forgotten next.
    forget_at: AtomicUsize,
}

impl TrackingLimit {
    pub fn set(&self, keys: usize) {
        self.keys_max.store(keys, Relaxed);
        self.suspect.store(true, Relaxed);
    }
}

impl Handle {
    /// Notes that somebody has read a key. The key's stripe is held, or nothing is.
    pub fn remember_reader(&mut self, key: Key<'_>, reader: &Arc<Reader>) {
        let held = self.holds(key.hash);
        if !held {
            self.lock(key.hash);
        }
        let counters = &self.counters;
        let interest = self.stripe(key.hash).interest.get_or_insert_default();
        interest.tracked.add(key, reader, &self.ks.hasher, counters);
        self.told.remembered += 1;
        if !held {
            self.unlock();
        }
    }

    /// A key, whose stripe is held, is about to be changed: asks for what will be looked at to find its readers.
    #[inline]
    pub(crate) fn prefetch_readers(&self, key: Key<'_>) {
        if let Some(interest) = &self.stripe(key.hash).interest {
            prefetch((&raw const **interest).addr());
            prefetch(interest.tracked.filter.line_of(key.hash).addr());
        }
    }

    /// A key has changed: takes its readers out of the table, to be told.
    pub(crate) fn take_readers(&mut self, key: Key<'_>, by_client: bool) {
        let slot = &mut self.stripe(key.hash).interest;
        let Some(interest) = slot.as_mut().filter(|interest| !interest.tracked.is_empty()) else {
            return;
        };
        let Some((key, readers)) = interest.tracked.take(key, &self.counters) else { return };
        if interest.is_empty() {
            *slot = None;
        }
        self.told.keys.push(Invalidation { key, readers, by_client });
        self.told.any = true;
    }

    /// Forgets keys while there are more of them than the limit allows, as far as it goes in a moment; their readers are
    /// to be told, since they will not hear of a change. The thread is in a batch and holds nothing. Counts the keys only
    /// now and then: each thread may exceed its share of the limit by a thousandth.
    pub fn forget_readers(&mut self) {
        let limit = &self.ks.tracking;
        let max = limit.keys_max.load(Relaxed) as u64;
        let is_due = self.told.remembered > (max / 1024).min(UNCHECKED_MAX);
        if max == 0 || !is_due && !limit.suspect.load(Relaxed) {
            return;
        }
        self.told.remembered = 0;
        limit.suspect.store(false, Relaxed);
        let threads = self.roster.threads(&self.ks);
        let keys: i64 = threads.iter().map(|thread| thread.tracked_keys.get()).sum();
        let excess = (keys.max(0) as u64).saturating_sub(max);
        let mut left = excess.min(FORGET_MAX);
        for _ in 0..self.ks.stripes.len() {
            if left == 0 {
                break;
            }
            let at = self.ks.tracking.forget_at.fetch_add(1, Relaxed) % self.ks.stripes.len();
            left -= self.with_stripe(at as u32, |handle| handle.forget_in(at as u32, left));
        }
        if excess > FORGET_MAX {
            self.ks.tracking.suspect.store(true, Relaxed);
        }
    }

    /// Forgets up to so many keys of a stripe, which is held; says how many.
    fn forget_in(&mut self, stripe: u32, keys: u64) -> u64 {
        for forgotten in 0..keys {
            let interest = self.stripe_at(stripe).interest.as_ref();
            let Some(bytes) = interest.and_then(|interest| interest.tracked.any()) else {
                return forgotten;
            };
            let key = self.key(&bytes);
            self.take_readers(key, false);
        }
        keys
    }

    /// Takes a stripe's whole table out, for a flush: the readers of every key are told at once.
    pub(crate) fn take_tracked(&mut self, stripe: u32) -> Option<Tracked> {
        let slot = &mut self.stripe_at(stripe).interest;
        let interest = slot.as_mut().filter(|interest| !interest.tracked.is_empty())?;
        let tracked = std::mem::take(&mut interest.tracked);
        if interest.is_empty() {
            *slot = None;
        }
        Some(tracked)
    }

    /// Counts all keys out of the table, which has been emptied. The keyspace is held exclusively.
    pub(crate) fn forget_tracked_counts(&self) {
        for thread in self.ks.threads() {
            thread.used.add(-thread.tracked_bytes.get());
            thread.tracked_keys.reset();
            thread.tracked_items.reset();
            thread.tracked_bytes.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyspace, Options, Value};

    fn handle() -> Handle {
        let mut handle = Keyspace::new(&Options { stripes: 4, ..Options::default() }).attach();
        handle.enter();
        handle
    }

    fn put(handle: &mut Handle, key: &[u8]) {
        let key = handle.key(key);
        handle.lock(key.hash);
        handle.put(0, key, Value::Bytes(b"value"), None);
        handle.unlock();
    }

    fn told(handle: &mut Handle) -> Vec<(Vec<u8>, usize)> {
        let told = handle.take_invalidations();
        told.keys.iter().map(|key| (key.key.to_vec(), key.readers.len())).collect()
    }

    #[test]
    fn a_change_is_told_once_to_all_who_have_read() {
        let mut handle = handle();
        let readers: Vec<_> = (0..100).map(|n: i32| Reader::new(n)).collect();
        for reader in readers.iter().chain(&readers) {
            handle.remember_reader(handle.key(b"a"), reader);
        }
        let stats = handle.keyspace().stats();
        assert_eq!((stats.tracked_keys, stats.tracked_items), (1, 100));
        assert!(stats.used >= stats.tracked_bytes && stats.tracked_bytes > 800);
        put(&mut handle, b"b");
        assert!(!handle.has_invalidations());
        put(&mut handle, b"a");
        assert!(handle.has_invalidations());
        assert_eq!(told(&mut handle), [(b"a".to_vec(), 100)]);
        put(&mut handle, b"a");
        assert!(!handle.has_invalidations());
        assert_eq!(handle.keyspace().stats().tracked_bytes, 0);
        handle.exit();
    }

    #[test]
    fn readers_that_are_gone_take_no_room_for_ever() {
        let mut handle = handle();
        for n in 0..1000 {
            let reader = Reader::new(n);
            handle.remember_reader(handle.key(b"a"), &reader);
            reader.listen(false);
        }
        assert!(handle.keyspace().stats().tracked_items < 10);
        handle.exit();
    }

    #[test]
    fn the_table_is_bounded_and_what_it_forgets_is_told() {
        let mut handle = handle();
        handle.keyspace().limit_tracking(10);
        let reader = Reader::new(());
        for n in 0..100 {
            let key = format!("key{n}");
            handle.remember_reader(handle.key(key.as_bytes()), &reader);
        }
        handle.forget_readers();
        assert_eq!(handle.keyspace().stats().tracked_keys, 10);
        let told = handle.take_invalidations();
        assert_eq!(told.keys.len(), 90);
        assert!(told.keys.iter().all(|key| !key.by_client));
        handle.exit();
    }

    #[test]
    fn a_flush_forgets_every_key_and_says_so() {
        let mut handle = handle();
        let reader = Reader::new(());
        for key in [&b"a"[..], b"b", b"c"] {
            handle.remember_reader(handle.key(key), &reader);
        }
        handle.lock_all();
        let cleared = handle.clear(Some(3));
        handle.unlock();
        drop(cleared);
        assert!(handle.take_invalidations().everything);
        let stats = handle.keyspace().stats();
        assert_eq!((stats.tracked_keys, stats.tracked_bytes, stats.used), (0, 0, 0));
        assert_eq!(Arc::strong_count(&reader), 1);
        handle.exit();
    }
}
