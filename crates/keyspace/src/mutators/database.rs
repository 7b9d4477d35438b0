//! Operations on whole databases, and between keys and databases.

use crate::handle::Handle;
use crate::state::cleared::Cleared;
use crate::state::effect::{Effect, Removal};
use crate::state::tracking::Tracked;
use crate::structures::key_hash::Key;
use crate::structures::view::View;

impl Handle {
    /// Removes every key of a database, or of all. The keyspace is held exclusively
    /// ([`Handle::lock_all`]). Keys still needed by a running snapshot are left to it.
    pub fn clear(&mut self, db: Option<u16>) -> Cleared {
        match db {
            Some(db) => self.clear_each(db..db + 1),
            None => self.clear_all_from(0),
        }
    }

    /// Removes every key of all databases, as [`Handle::clear`] does, one database after the other:
    /// from `first` to the last, then from 0. Their effects are recorded in this order.
    pub fn clear_all_from(&mut self, first: u16) -> Cleared {
        self.clear_each((first..self.ks.databases).chain(0..first))
    }

    fn clear_each(&mut self, databases: impl Iterator<Item = u16>) -> Cleared {
        let mut cleared = Cleared {
            tables: Vec::new(),
            tracked: self.forget_everything_read(),
            cache: self.ks.heap.cache(),
        };
        for db in databases {
            let any_portions = !self.ks.image.portions().is_empty();
            let (mut entries, mut bytes) = (0i64, 0i64);
            let mut tables = Vec::new();
            for stripe in 0..self.ks.stripes.len() as u32 {
                self.touch_database(stripe, db, None);
                if any_portions {
                    self.own_portions(stripe, db);
                }
                let ghost = self.stripe_at(stripe).ghost.take();
                bytes += ghost.map_or(0, |ghost| ghost.footprint() as i64);
                let table = self.stripe_at(stripe).take_table(db);
                bytes += table.footprint() as i64;
                entries += table.weight() as i64;
                if table.buckets() > 0 {
                    tables.push(table);
                }
            }
            let own = Cleared { tables, tracked: Vec::new(), cache: self.ks.heap.cache() };
            if let Some(mut own) = self.keep_for_image(db, own) {
                cleared.tables.append(&mut own.tables);
            }
            self.clear_indexes(db);
            self.forget_counts(db);
            self.count_bytes(-bytes, -entries);
            self.counters.changes.add(1);
            self.record_database(db, &Effect::Clear);
        }
        cleared
    }

    /// Sizes the tables of a database for `keys` keys, so that they do not grow during a load.
    /// Locks one stripe after another; the thread is in a batch.
    pub fn reserve(&mut self, db: u16, keys: u64) {
        let stripes = self.ks.stripes.len();
        let share = keys / stripes as u64;
        // Keys are not spread evenly: the number per stripe varies by about its square root.
        let wanted = (share + 2 * share.isqrt()) as usize;
        for stripe in 0..stripes as u32 {
            self.with_stripe(stripe, |handle| handle.reserve_in_stripe(db, stripe, wanted));
        }
    }

    fn reserve_in_stripe(&mut self, db: u16, stripe: u32, keys: usize) {
        let ks = self.ks.clone();
        let data = self.locks.data(&ks.stripes, stripe);
        let table = data.table_mut(db, usize::from(ks.databases));
        let before = table.footprint() as i64;
        let retired = table.reserve(keys, &mut self.cache, |key| ks.hasher.hash(key));
        let after = table.footprint() as i64;
        self.count_bytes(after - before, 0);
        if let Some(array) = retired {
            self.retire(array);
        }
    }

    /// Swaps two databases. The keyspace is held exclusively.
    pub fn swap(&mut self, a: u16, b: u16) {
        if a == b {
            return;
        }
        self.swap_in_image(a, b);
        self.swap_indexes(a, b);
        for stripe in 0..self.ks.stripes.len() as u32 {
            self.touch_database(stripe, a, Some(b));
            self.touch_database(stripe, b, Some(a));
            self.stripe_at(stripe).swap_tables(a, b, usize::from(self.ks.databases));
        }
        self.forget_all_readers();
        self.ks.change_counters(|thread| {
            let (a, b) = (&thread.dbs[usize::from(a)], &thread.dbs[usize::from(b)]);
            for (a, b) in
                [(&a.keys, &b.keys), (&a.volatile, &b.volatile), (&a.expiring, &b.expiring)]
            {
                let more = a.get() - b.get();
                a.add(-more);
                b.add(more);
            }
        });
        self.counters.changes.add(1);
        self.record_database(a, &Effect::Swap { with: b });
    }

    /// Invalidates everything that clients have cached, because further changes may not be visible
    /// to this process. The keyspace is held exclusively.
    pub fn forget_all_readers(&mut self) {
        for tracked in self.forget_everything_read() {
            // SAFETY: the keyspace is held exclusively, so no thread is in a batch.
            unsafe { tracked.free(&mut self.cache) };
        }
    }

    /// Moves a value with its expiry to another name or database, replacing any value. Both stripes
    /// are held. False if `from` does not exist.
    pub fn rename(&mut self, from_db: u16, from: Key<'_>, to_db: u16, to: Key<'_>) -> bool {
        if from_db == to_db && from.bytes == to.bytes {
            return self.find_alive(from_db, from).is_some();
        }
        let Some((at, old)) = self.find_alive(from_db, from) else { return false };
        // The value is moved; only its block is new, because it contains the key.
        let entry = old.with_key(&mut self.cache, to.bytes);
        self.take_at(from_db, from, at, old);
        self.free_block_later(old);
        self.put_entry(to_db, to, entry);
        self.moved_in_image(to_db, entry);
        let expiry = entry.expiry();
        match entry.string() {
            Some(value) => {
                self.record(to_db, to, &Effect::Put { key: to.bytes, value, expiry });
            }
            None => self.record_copy((to_db, to), (from_db, from), true),
        }
        let gone = Effect::Remove { key: from.bytes, why: Removal::Deleted };
        self.record(from_db, from, &gone);
        true
    }

    /// Copies a value with its expiry to another name or database, replacing any value. Both
    /// stripes are held. False if `from` does not exist.
    pub fn copy(&mut self, from_db: u16, from: Key<'_>, to_db: u16, to: Key<'_>) -> bool {
        let Some((_, source)) = self.find_alive(from_db, from) else { return false };
        // The source's block is not freed before the locks are released, so its value may be
        // borrowed.
        let expiry = source.expiry();
        match source.string() {
            None => {
                let entry = source.duplicate(&mut self.cache, to.bytes, expiry);
                self.put_entry(to_db, to, entry);
                self.record_copy((to_db, to), (from_db, from), false);
            }
            Some(_) => {
                let entry = source.duplicate(&mut self.cache, to.bytes, expiry);
                self.put_entry(to_db, to, entry);
                if let Some(value) = entry.string() {
                    self.record(to_db, to, &Effect::Put { key: to.bytes, value, expiry });
                }
            }
        }
        true
    }

    /// Records a copy of a collection by the name of its source, so that nothing is encoded under
    /// the locks, however large it is.
    fn record_copy(&mut self, to: (u16, Key<'_>), from: (u16, Key<'_>), moved: bool) {
        let ((db, key), (from_db, from)) = (to, from);
        if self.has_sink() {
            self.level_orders(key, from);
        }
        let found = if self.has_sink() { self.find(db, key) } else { None };
        let value = found.map(|(_, entry)| View::new(entry));
        let effect = Effect::CopyFrom { key: key.bytes, from_db, from: from.bytes, moved, value };
        self.record(db, key, &effect);
        if self.has_sink() {
            self.level_orders(key, from);
        }
    }

    /// Marks the watched keys of `db` as changed that exist in it or in `other`, which takes its
    /// place. Expired keys of `other` count as absent. Keys of `db` with blocked clients become
    /// ready.
    fn touch_database(&mut self, stripe: u32, db: u16, other: Option<u16>) {
        let Some(mut interest) = self.stripe_at(stripe).interest.take() else { return };
        self.observers.ready.extend(interest.waiting.make_database_ready(db, &self.ks.waits));
        interest.watched.touch_database(db, |bytes| {
            let key = self.key(bytes);
            self.find(db, key).is_some()
                || other
                    .and_then(|other| self.find(other, key))
                    .is_some_and(|(_, entry)| !self.is_expired(entry))
        });
        self.stripe_at(stripe).interest = Some(interest);
    }

    /// Empties the tracking table and notifies every reader.
    fn forget_everything_read(&mut self) -> Vec<Tracked> {
        (self.observers.invalidations.everything, self.observers.invalidations.any) = (true, true);
        let stripes = 0..self.ks.stripes.len() as u32;
        let tracked = stripes.filter_map(|stripe| self.take_tracked(stripe)).collect();
        self.forget_tracked_counts();
        tracked
    }

    fn forget_counts(&self, db: u16) {
        self.ks.change_counters(|thread| {
            let counters = &thread.dbs[usize::from(db)];
            counters.keys.reset();
            counters.volatile.reset();
            counters.expiring.reset();
        });
    }
}
