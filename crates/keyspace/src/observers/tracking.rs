//! Client-side caching: a table of tracked keys and their readers for each stripe, guarded by its
//! lock.
//!
//! ```text
//!  a command reads ── Handle::remember_reader ── key: its readers, under the read's lock
//!
//!  a change is recorded ── the key leaves the table with its readers ── Handle::take_invalidations
//!                       ── the host sends messages
//! ```
//!
//! * A read is remembered under the lock under which it was made. So any later change of the key
//!   finds the reader, and no change can be missed.
//! * A key is invalidated once; a reader that reads it again is remembered again.
//! * A stripe's own cache line tells whether it has tracked keys; if there are none, a change costs
//!   nothing. In database 0 a slot's mark tells whether its key is tracked: a change of another key
//!   costs a test of the mark.
//! * Keys are remembered by name, whatever their database, as clients cache them by name.
//! * A removed reader is not searched for. It stays in the table, silent, until its keys change
//!   or are forgotten, or until a list of readers would have to grow for it.
//!
//! Readers are opaque to the keyspace.

use crate::handle::Handle;
use crate::state::tracking::tracked::Growth;
use crate::state::tracking::{Reader, TRACKED_BY_NAME, Tracked};
use crate::structures::entry::Entry;
use crate::structures::key_hash::Key;
use crate::structures::key_hash::KeyHash;
use crate::structures::table::Position;
use petrel_heap::prefetch;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Maximum number of reads that a thread records before it checks the size of the table again.
const UNCHECKED_MAX: u64 = 64;

/// Maximum number of keys removed by one call, exceeded by at most the keys of a stripe.
const FORGET_MAX: u64 = 1024;

impl Handle {
    /// Records a reader of a key. The thread holds the key's stripe, or nothing.
    pub fn remember_reader(&mut self, key: Key<'_>, reader: &Reader) {
        let held = self.holds(key.hash);
        if !held {
            self.lock(key.hash);
        }
        let (ks, stripe) = (&*self.ks, key.hash.stripe());
        ks.tracking.tables.make(ks.stripes.len());
        let entry = self.find(0, key);
        if let Some(tracked) = self.locks.side_table(&ks.tracking.tables, stripe) {
            let is_listening = |id| ks.tracking.readers.view().listening(id).is_some();
            let tools = (&mut self.cache, &ks.hasher);
            let by = entry.map(|(_, entry)| entry);
            let (growth, retired) = tracked.add(key, by, reader.id(), is_listening, tools);
            let bits = tracked.bits();
            if let Some((at, _)) = entry {
                self.stripe_at(stripe).first_mut().mark(at);
            }
            self.note_tracked(stripe, bits);
            self.count_tracked(growth);
            if let Some(array) = retired {
                self.retire(array);
            }
        }
        self.observers.invalidations.remembered += 1;
        if !held {
            self.unlock();
        }
    }

    /// Updates a stripe's flags after a change of its table. The stripe is held.
    #[inline]
    fn note_tracked(&self, stripe: u32, bits: u8) {
        let tracked = &self.ks.stripes[stripe as usize].tracked;
        let before = tracked.load(Relaxed);
        if before != bits {
            tracked.store(bits, Relaxed);
            if (before == 0) != (bits == 0) {
                self.ks.tracking.tables.count_used(bits != 0);
            }
        }
    }

    /// Whether keys of a stripe are tracked.
    #[inline]
    pub(crate) fn tracks_in(&self, stripe: u32) -> bool {
        self.ks.stripes[stripe as usize].tracked.load(Relaxed) != 0
    }

    /// Whether keys of a stripe are tracked that have no entry in database 0.
    fn tracks_by_name(&self, stripe: u32) -> bool {
        self.ks.stripes[stripe as usize].tracked.load(Relaxed) & TRACKED_BY_NAME != 0
    }

    fn count_tracked(&self, growth: Growth) {
        let counters = &self.counters;
        counters.tracked_keys.add(growth.keys);
        counters.tracked_items.add(growth.items);
        counters.tracked_bytes.add(growth.bytes);
        counters.used.add(growth.bytes);
    }

    /// Whether some key is tracked.
    #[inline]
    pub fn tracks(&self) -> bool {
        self.ks.tracking.tables.any()
    }

    /// Prefetches the side table of the stripe of `hash`, unless it is certainly empty.
    #[inline]
    pub(crate) fn prefetch_side_table(&self, hash: KeyHash) {
        if self.tracks()
            && let Some(array) = self.ks.tracking.tables.peek(hash.stripe())
        {
            prefetch((&raw const *array).addr());
        }
    }

    /// Prefetches the cache lines of a key's readers. The thread is inside, as for
    /// [`crate::Peeker::prefetch_readers`].
    #[inline]
    pub(crate) fn prefetch_readers(&self, hash: KeyHash) {
        debug_assert!(self.is_inside());
        let Some(array) = self.ks.tracking.tables.peek(hash.stripe()) else { return };
        if let Some(bucket) = array.home(hash.position()) {
            prefetch(bucket.addr());
            prefetch(bucket.wrapping_add(1).addr());
        }
    }

    /// The side table of the key's stripe, if it tracks the key at `at` by its entry's name.
    #[allow(clippy::mut_from_ref)]
    fn tracked_by_entry(&self, db: u16, stripe: u32, at: Position) -> Option<&mut Tracked> {
        let is_tracked = db == 0 && self.stripe_at(stripe).first_mut().is_marked(at);
        // The caller drops the table before it gets another reference.
        if is_tracked { self.locks.side_table(&self.ks.tracking.tables, stripe) } else { None }
    }

    /// The entry of the key at `at` was moved to another block.
    #[inline]
    pub(crate) fn note_moved(&self, db: u16, hash: KeyHash, at: Position, moved: (Entry, Entry)) {
        if self.tracks_in(hash.stripe()) {
            self.follow(db, hash, at, moved);
        }
    }

    #[inline(never)]
    fn follow(&self, db: u16, hash: KeyHash, at: Position, (old, new): (Entry, Entry)) {
        if let Some(tracked) = self.tracked_by_entry(db, hash.stripe(), at) {
            tracked.entry_moved(hash, old, new);
        }
    }

    /// Called before the entry of the key at `at` is removed: its tracked name moves to a record.
    #[inline]
    pub(crate) fn note_leaving(&self, db: u16, hash: KeyHash, at: Position, entry: Entry) {
        if self.tracks_in(hash.stripe()) {
            self.keep_name(db, hash, at, entry);
        }
    }

    #[inline(never)]
    fn keep_name(&self, db: u16, hash: KeyHash, at: Position, entry: Entry) {
        if let Some(tracked) = self.tracked_by_entry(db, hash.stripe(), at) {
            self.count_tracked(tracked.entry_leaves(hash, entry));
            self.note_tracked(hash.stripe(), tracked.bits());
        }
    }

    /// Invalidates a key that changed elsewhere for its readers. The thread is in a batch and holds
    /// nothing.
    pub fn invalidate_read(&mut self, key: Key<'_>) {
        self.lock(key.hash);
        self.take_readers(key, true);
        self.unlock();
    }

    /// Takes the readers of a changed key out of the table, to be notified.
    pub(crate) fn take_readers(&mut self, key: Key<'_>, by_client: bool) {
        let table = self.stripe_at(key.hash.stripe()).first_mut();
        self.take_readers_at(key, table.find(key.hash, key.bytes), by_client);
    }

    /// Like [`Handle::take_readers`], with the position of the key's entry in database 0, if any.
    pub(crate) fn take_readers_at(
        &mut self,
        key: Key<'_>,
        found: Option<(Position, Entry)>,
        by_client: bool,
    ) {
        let stripe = key.hash.stripe();
        debug_assert!(self.locks.holds(stripe));
        let table = self.stripe_at(stripe).first_mut();
        let marked = found.filter(|&(at, _)| table.take_mark(at));
        if marked.is_none() && !self.tracks_by_name(stripe) {
            return;
        }
        let tables = &self.ks.tracking.tables;
        let Some(tracked) = self.locks.side_table(tables, stripe) else { return };
        let by_entry = marked.and_then(|(_, entry)| tracked.take_of_entry(key.hash, entry));
        let taken = by_entry.map(|readers| (readers, 0)).or_else(|| tracked.take_by_name(key));
        let Some((readers, name)) = taken else { return };
        let count = readers.as_slice().len();
        self.observers.invalidations.add(key.bytes, readers, by_client);
        let retired = tracked.shrink((&mut self.cache, &self.ks.hasher));
        let bits = tracked.bits();
        self.note_tracked(stripe, bits);
        self.count_tracked(Growth::default().minus(Growth::of(name, count)));
        if let Some(array) = retired {
            self.retire(array);
        }
    }

    /// Removes keys beyond the limit of the table, a bounded number per call. Their readers are
    /// notified, because later changes will not be. The thread is in a batch and holds nothing.
    /// Counts the keys only now and then: each thread may exceed its share of the limit by a
    /// thousandth.
    pub fn forget_readers(&mut self) {
        let limit = &self.ks.tracking;
        let max = limit.keys_max.load(Relaxed) as u64;
        let is_due = self.observers.invalidations.remembered > (max / 1024).min(UNCHECKED_MAX);
        if max == 0 || !is_due && !limit.suspect.load(Relaxed) {
            return;
        }
        // Another thread is removing keys: check again later, when its removals are counted.
        if limit.forgetting.swap(true, Acquire) {
            return;
        }
        self.forget_excess(max);
        self.ks.tracking.forgetting.store(false, Release);
    }

    /// Removes the keys beyond `max`. Only one thread does so at a time.
    fn forget_excess(&mut self, max: u64) {
        let limit = &self.ks.tracking;
        self.observers.invalidations.remembered = 0;
        limit.suspect.store(false, Relaxed);
        let threads = self.upkeep.threads.get(&self.ks);
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

    /// Removes up to `keys` keys of a stripe, which is held; returns their number.
    fn forget_in(&mut self, stripe: u32, keys: u64) -> u64 {
        let tables = &self.ks.tracking.tables;
        let Some(tracked) = self.locks.side_table(tables, stripe) else { return 0 };
        // A position independent of earlier removals.
        let from = self.ks.tracking.forget_at.load(Relaxed).wrapping_mul(0x9E37_79B9) >> 16;
        let names = tracked.some_names(keys as usize, from);
        for name in &names {
            let key = self.key(name);
            self.take_readers(key, false);
        }
        names.len() as u64
    }

    /// Takes a stripe's whole table for a flush, which notifies the readers of all keys at once.
    pub(crate) fn take_tracked(&mut self, stripe: u32) -> Option<Tracked> {
        let tracked = self.locks.side_table(&self.ks.tracking.tables, stripe)?;
        if tracked.is_empty() {
            return None;
        }
        self.note_tracked(stripe, 0);
        Some(std::mem::take(tracked))
    }

    /// Resets the counts of tracked keys after the table was emptied. The keyspace is held
    /// exclusively.
    pub(crate) fn forget_tracked_counts(&self) {
        self.ks.change_counters(|thread| {
            thread.used.add(-thread.tracked_bytes.get());
            thread.tracked_keys.reset();
            thread.tracked_items.reset();
            thread.tracked_bytes.reset();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tracking::ReaderId;
    use crate::structures::bucket::Bucket;
    use crate::structures::list::End;
    use crate::{Keyspace, Options, Value};
    use std::collections::{HashMap, HashSet};
    use std::time::Duration;

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
        told.keys().map(|key| (key.key.to_vec(), key.readers.as_slice().len())).collect()
    }

    #[test]
    fn a_change_is_told_once_to_all_who_have_read() {
        let mut handle = handle();
        let readers: Vec<_> = (0..100).map(|n: i32| handle.keyspace().add_reader(n)).collect();
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
    fn the_tables_are_as_a_map_is_while_they_grow_and_shrink() {
        let mut handle = handle();
        let readers: Vec<_> = (0..3).map(|n: i32| handle.keyspace().add_reader(n)).collect();
        let mut model: HashMap<String, Vec<ReaderId>> = HashMap::new();
        let mut state = 1u64;
        for step in 0..60_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = (state >> 33) as usize;
            // Mostly reads, then mostly changes, of names of many lengths.
            let name = format!("{:0len$}", random % 5000, len = 1 + random % 5000 % 40);
            if (random >> 16) % 10 < if step / 15_000 % 2 == 0 { 8 } else { 1 } {
                let reader = &readers[random % 7 % 3];
                handle.remember_reader(handle.key(name.as_bytes()), reader);
                let known = model.entry(name).or_default();
                known.push(reader.id());
                known.sort_unstable();
                known.dedup();
            } else {
                put(&mut handle, name.as_bytes());
                let told = handle.take_invalidations();
                let told =
                    told.keys().map(|told| (told.key.to_vec(), told.readers.as_slice().to_vec()));
                let known = model.remove(&name).map(|readers| (name.into_bytes(), readers));
                assert!(told.eq(known), "step {step}");
            }
        }
        let stats = handle.keyspace().stats();
        assert_eq!(stats.tracked_keys, model.len() as u64);
        assert_eq!(stats.tracked_items, model.values().map(|all| all.len() as u64).sum::<u64>());
        model.keys().for_each(|name| put(&mut handle, name.as_bytes()));
        assert_eq!(handle.take_invalidations().keys().count(), model.len());
        let stats = handle.keyspace().stats();
        assert_eq!((stats.tracked_keys, stats.tracked_items, stats.tracked_bytes), (0, 0, 0));
        assert!(!handle.tracks());
        handle.exit();
    }

    /// Every entry that holds the name of a tracked key is in database 0 and marked: their number
    /// is returned.
    fn check_names(handle: &mut Handle) -> usize {
        let mut count = 0;
        for stripe in 0..handle.ks.stripes.len() as u32 {
            let found = handle.with_stripe(stripe, |handle| {
                // SAFETY: the stripe is held.
                let tracked = unsafe { handle.ks.tracking.tables.of(stripe) };
                let bits = tracked.as_ref().map_or(0, |tracked| tracked.bits());
                assert_eq!(bits, handle.ks.stripes[stripe as usize].tracked.load(Relaxed));
                let entries = tracked.map_or(Vec::new(), |tracked| tracked.entries());
                let table = handle.stripe_at(stripe).table(0);
                let table = table.filter(|table| table.buckets() > 0);
                let there: HashSet<usize> = table.map_or(HashSet::new(), |table| {
                    let all = (0..table.buckets()).map(|n| table.bucket(n));
                    let marked =
                        |b: &Bucket, slot| b.is_marked(slot).then(|| b.slot(slot).address());
                    all.flat_map(|b| b.used().filter_map(move |slot| marked(b, slot))).collect()
                });
                assert!(entries.iter().all(|entry| there.contains(entry)), "stripe {stripe}");
                entries.len()
            });
            count += found;
        }
        count
    }

    #[test]
    fn names_follow_the_entries_that_say_them() {
        let mut handle = handle();
        let reader = handle.keyspace().add_reader(());
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut tracked = HashSet::new();
        let mut shared = 0;
        for step in 0..60_000 {
            let db = (random(8) == 0) as u16;
            let name = format!("key:{}", random(600)).into_bytes();
            let other = format!("key:{}", random(600)).into_bytes();
            let (key, to) = (handle.key(&name), handle.key(&other));
            handle.enter();
            if random(2) == 0 {
                handle.remember_reader(key, &reader);
                tracked.insert(name);
                handle.exit();
                continue;
            }
            handle.lock_many([key.hash, to.hash].into_iter());
            let text = vec![b'x'; random(300)];
            match random(10) {
                0 | 1 => _ = handle.put(db, key, Value::Bytes(&text), None),
                2 => _ = handle.append(db, key, &text),
                3 => _ = handle.remove(db, key),
                4 => _ = handle.rename(db, key, random(2) as u16, to),
                5 => _ = handle.set_expiry(db, key, Some(1 << 50)),
                6 => _ = handle.list_push(db, key, End::Back, &[&text]),
                7 => _ = handle.add(db, key, 1),
                8 => _ = handle.copy(db, to, db, key),
                _ => {
                    let fails = random(2) == 0;
                    let built = handle.build(db, key, None, |handle| {
                        handle.put(db, key, Value::Bytes(&text), None);
                        handle.append(db, key, &text).map_err(|_| ())?;
                        if fails { Err(()) } else { Ok(()) }
                    });
                    assert_eq!(built.is_err(), fails);
                }
            }
            handle.unlock();
            if step % 50 == 0 {
                shared += check_names(&mut handle);
            }
            handle.exit();
            handle.free_retired();
            for (name, readers) in told(&mut handle) {
                assert_eq!(readers, 1);
                assert!(tracked.remove(&name), "step {step}");
            }
            assert_eq!(handle.keyspace().stats().tracked_keys, tracked.len() as u64);
        }
        assert!(shared > 1000, "{shared}");
        handle.enter();
        tracked.iter().for_each(|name| put(&mut handle, name));
        assert_eq!(told(&mut handle).len(), tracked.len());
        assert_eq!(handle.keyspace().stats().tracked_bytes, 0);
        handle.exit();
    }

    #[test]
    fn names_outlive_entries_whatever_is_recorded() {
        let mut handle = handle();
        let reader = handle.keyspace().add_reader(());
        put(&mut handle, b"a");
        let key = handle.key(b"a");
        handle.remember_reader(key, &reader);
        assert_eq!(check_names(&mut handle), 1);
        let bytes = handle.keyspace().stats().tracked_bytes;
        handle.lock(key.hash);
        let (at, old) = handle.find(0, key).unwrap();
        let new = old.with_expiry(&mut handle.cache, Some(1 << 50));
        assert_ne!(old, new);
        handle.replace_entry(0, key, at, old, new);
        handle.free_block_later(old);
        handle.unlock();
        assert_eq!(check_names(&mut handle), 1);
        handle.lock(key.hash);
        handle.take_at(0, key, at, new);
        handle.free_later(new);
        handle.unlock();
        assert_eq!(check_names(&mut handle), 0);
        assert!(handle.keyspace().stats().tracked_bytes > bytes);
        put(&mut handle, b"a");
        assert_eq!(told(&mut handle), [(b"a".to_vec(), 1)]);
        assert_eq!(handle.keyspace().stats().tracked_bytes, 0);
        handle.exit();
    }

    #[test]
    fn searches_stay_short_however_many_keys_come_and_go() {
        let mut handle = Keyspace::new(&Options { stripes: 1, ..Options::default() }).attach();
        let reader = handle.keyspace().add_reader(());
        handle.enter();
        let name = |n: usize| format!("key:{n}").into_bytes();
        let mut longest = 0;
        for n in 0..50_000 {
            handle.remember_reader(handle.key(&name(n)), &reader);
            if n >= 1_000 {
                put(&mut handle, &name(n - 1_000));
                assert_eq!(told(&mut handle), [(name(n - 1_000), 1)]);
            }
            if n % 100 == 0 {
                // SAFETY: no other thread has the keyspace.
                let tracked = unsafe { handle.ks.tracking.tables.of(0) }.unwrap();
                longest = longest.max(tracked.longest_search());
                // Another round trip of the table, with its tombstones.
                let moved = tracked.relocate(&|_| true, &mut handle.cache);
                handle.retire(moved.unwrap());
            }
        }
        // A row of full buckets grows beyond the limit until a key is added that would probe that
        // far; without such a key, to all 210.
        assert!((2..=70).contains(&longest), "{longest}");
        assert_eq!(handle.keyspace().stats().tracked_keys, 1_000);
        handle.exit();
        handle.free_retired();
    }

    #[test]
    fn names_follow_entries_that_compaction_moves() {
        let mut handle = handle();
        let reader = handle.keyspace().add_reader(());
        let name = |n: usize| format!("key:{n}").into_bytes();
        for n in 0..40_000 {
            put(&mut handle, &name(n));
        }
        for n in (0..40_000).step_by(40) {
            handle.remember_reader(handle.key(&name(n)), &reader);
        }
        for n in (0..40_000).filter(|n| n % 20 != 0) {
            let name = name(n);
            let key = handle.key(&name);
            handle.lock(key.hash);
            assert!(handle.remove(0, key));
            handle.unlock();
        }
        assert!(handle.compact_step(Duration::from_secs(100), 0).moved > 500);
        assert_eq!(check_names(&mut handle), 1_000);
        handle.exit();
        handle.free_retired();
        handle.enter();
        for n in (0..40_000).step_by(20) {
            put(&mut handle, &name(n));
            let expected = if n % 40 == 0 { vec![(name(n), 1)] } else { Vec::new() };
            assert_eq!(told(&mut handle), expected);
        }
        handle.exit();
    }

    #[test]
    fn readers_that_are_gone_take_no_room_for_ever() {
        let mut handle = handle();
        for n in 0..1000 {
            let reader = handle.keyspace().add_reader(n);
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
        let reader = handle.keyspace().add_reader(());
        for n in 0..100 {
            let key = format!("key{n}");
            handle.remember_reader(handle.key(key.as_bytes()), &reader);
        }
        handle.forget_readers();
        assert_eq!(handle.keyspace().stats().tracked_keys, 10);
        let told = handle.take_invalidations();
        assert_eq!(told.keys().count(), 90);
        assert!(told.keys().all(|key| !key.by_client));
        handle.exit();
    }

    #[test]
    fn two_threads_that_forget_do_not_forget_too_much() {
        let keyspace = Keyspace::new(&Options { stripes: 64, ..Options::default() });
        let reader = keyspace.add_reader(());
        let (mut one, mut other) = (keyspace.attach(), keyspace.attach());
        let both = std::sync::Barrier::new(2);
        for _ in 0..300 {
            keyspace.limit_tracking(0);
            one.enter();
            for n in 0..250 {
                one.remember_reader(one.key(format!("key{n}").as_bytes()), &reader);
            }
            one.exit();
            keyspace.limit_tracking(1);
            std::thread::scope(|scope| {
                for handle in [&mut one, &mut other] {
                    scope.spawn(|| {
                        both.wait();
                        handle.enter();
                        handle.forget_readers();
                        handle.exit();
                        handle.take_invalidations();
                    });
                }
            });
            assert_eq!(keyspace.stats().tracked_keys, 1);
        }
    }

    #[test]
    fn databases_that_change_places_forget_every_key_too() {
        let mut handle = handle();
        let reader = handle.keyspace().add_reader(());
        for n in 0..100 {
            let key = format!("key{n}");
            handle.remember_reader(handle.key(key.as_bytes()), &reader);
        }
        handle.lock_all();
        handle.swap(0, 1);
        handle.unlock();
        assert!(handle.take_invalidations().everything && !handle.tracks());
        put(&mut handle, b"key1");
        assert!(!handle.has_invalidations());
        handle.exit();
    }

    #[test]
    fn a_flush_forgets_every_key_and_says_so() {
        let mut handle = handle();
        let reader = handle.keyspace().add_reader(());
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
        assert!(!handle.keyspace().tracking.tables.any());
        handle.exit();
    }
}
