//! Reading keys, and the mutators: the only functions that change one. Each records its effect.
//!
//! Every method requires that the stripes of its keys are held.

use crate::handle::Handle;
use crate::state::effect::{Effect, Removal};
use crate::state::event::class;
use crate::structures::bucket::Item;
use crate::structures::entry::{Entry, Kind};
use crate::structures::form::Type;
use crate::structures::key_hash::Key;
use crate::structures::table::Position;
use crate::structures::value::Value;
use crate::structures::view::View;
use std::sync::atomic::Ordering::Relaxed;

impl Handle {
    /// Reads a key: counts a hit or a miss and a use of the key.
    #[inline(always)]
    pub fn read(&mut self, db: u16, key: Key<'_>) -> Option<View<'_>> {
        let Some((_, entry)) = self.find_seen(db, key) else {
            self.count_miss(db, key);
            return None;
        };
        self.counters.hits.add(1);
        self.use_entry(entry);
        Some(View::new(entry))
    }

    /// Looks at a key as a write command does: a use of the key, but neither hit nor miss.
    #[inline]
    pub fn look(&mut self, db: u16, key: Key<'_>) -> Option<View<'_>> {
        let (_, entry) = self.find_seen(db, key)?;
        self.use_entry(entry);
        Some(View::new(entry))
    }

    /// Reads a key without counting an access (`OBJECT`, `TTL`, `DEBUG`).
    pub fn peek(&mut self, db: u16, key: Key<'_>) -> Option<View<'_>> {
        let (_, entry) = self.find_seen(db, key)?;
        Some(View::new(entry))
    }

    /// Shows a key without counting an access; views of several keys can coexist. Expired keys are
    /// hidden.
    pub fn view(&self, db: u16, key: Key<'_>) -> Option<View<'_>> {
        let (_, entry) = self.find(db, key)?;
        (!self.is_expired(entry)).then(|| View::new(entry))
    }

    /// Like [`Handle::view`], but also shows an expired key that is still stored.
    pub fn view_stored(&self, db: u16, key: Key<'_>) -> Option<View<'_>> {
        self.find(db, key).map(|(_, entry)| View::new(entry))
    }

    /// Reads a key as [`Handle::read`] does, while views of other keys exist.
    pub fn read_beside(&self, db: u16, key: Key<'_>) -> Option<View<'_>> {
        let view = self.view(db, key);
        match view {
            Some(view) => {
                self.counters.hits.add(1);
                self.use_entry(view.entry);
            }
            None => self.count_miss(db, key),
        }
        view
    }

    /// Counts a read that did not find its key.
    #[inline]
    fn count_miss(&self, db: u16, key: Key<'_>) {
        self.counters.misses.add(1);
        self.event(class::MISS, "keymiss", db, key.bytes);
    }

    /// Counts a hit or a miss, for commands that look without reading.
    pub fn count_read(&mut self, found: bool) {
        let counters = &self.counters;
        if found { counters.hits.add(1) } else { counters.misses.add(1) }
    }

    /// Counts a key that had expired before it was stored.
    pub fn count_expired(&mut self) {
        self.counters.expired.add(1);
    }

    /// Counts fields of hashes that had expired before they were stored, or were set with a past
    /// expiry.
    pub fn count_expired_fields(&mut self, fields: usize) {
        self.counters.expired_fields.add(fields as i64);
    }

    /// Sets a key to a string; `expiry` in Unix milliseconds. True if the key existed.
    pub fn put(&mut self, db: u16, key: Key<'_>, value: Value<'_>, expiry: Option<i64>) -> bool {
        let found = match self.notes_events() {
            true => self.find_overwritten(db, key, Type::String),
            false => self.find(db, key),
        };
        if let Some((_, entry)) = found {
            self.before_change(db, entry);
        }
        let existed = found.is_some_and(|(_, entry)| !self.is_expired(entry));
        let entry = match found {
            Some((_, entry))
                if entry.overwrite(&value, expiry, self.clock.used(entry.access())) =>
            {
                entry
            }
            Some((at, old)) => {
                let access = self.clock.used(old.access());
                let entry = Entry::new(&mut self.cache, key.bytes, value, expiry, access);
                self.replace_entry(db, key, at, old, entry);
                self.free_later(old);
                entry
            }
            None => {
                let access = self.initial_access(key.hash);
                let entry = Entry::new(&mut self.cache, key.bytes, value, expiry, access);
                self.insert_entry(db, key, entry);
                entry
            }
        };
        self.count_change();
        if self.is_observed(key) {
            // Client tracking needs no effect: without another observer, none is built.
            if self.tracks_in(key.hash.stripe()) {
                match db {
                    0 => self.take_readers_at(key, found.map(|(at, _)| (at, entry)), true),
                    _ => self.take_readers(key, true),
                }
            }
            if self.is_observed_by_others(key) {
                self.notify_put(db, key, entry, expiry);
            }
        }
        existed
    }

    #[inline(never)]
    fn notify_put(&mut self, db: u16, key: Key<'_>, entry: Entry, expiry: Option<i64>) {
        if let Some(value) = entry.string() {
            self.tell(db, key, &Effect::Put { key: key.bytes, value, expiry });
        }
    }

    /// Removes a key; true if it existed.
    pub fn remove(&mut self, db: u16, key: Key<'_>) -> bool {
        match self.find_alive(db, key) {
            Some((at, entry)) => {
                self.remove_at(db, key, at, entry, Removal::Deleted);
                true
            }
            None => false,
        }
    }

    /// Sets or clears (`None`) the expiry of a key, in Unix milliseconds; one in the past removes
    /// the key. True if the key existed.
    pub fn set_expiry(&mut self, db: u16, key: Key<'_>, expiry: Option<i64>) -> bool {
        let Some((at, old)) = self.find_alive(db, key) else { return false };
        if expiry.is_some_and(|at| at <= self.now_ms) && !self.keeps_expired() {
            self.remove_at(db, key, at, old, Removal::Deleted);
            self.count_expired();
            return true;
        }
        let entry = old.with_expiry(&mut self.cache, expiry);
        if entry != old {
            self.replace_entry(db, key, at, old, entry);
            self.free_block_later(old);
        }
        self.clock.touch_changed(entry);
        self.record(db, key, &Effect::Expire { key: key.bytes, expiry });
        true
    }

    /// Counts a change that records its effects with [`Handle::tell`].
    pub(crate) fn count_change(&self) {
        self.counters.changes.add(1);
    }

    /// Counts the last two changes as one.
    pub fn uncount_change(&mut self) {
        self.counters.changes.add(-1);
    }

    #[inline]
    pub(crate) fn find(&self, db: u16, key: Key<'_>) -> Option<(Position, Entry)> {
        self.stripe(key.hash).table(db)?.find(key.hash, key.bytes)
    }

    /// Finds a key for a change; an expired one is removed.
    #[inline]
    pub(crate) fn find_alive(&mut self, db: u16, key: Key<'_>) -> Option<(Position, Entry)> {
        let (at, entry) = self.find(db, key)?;
        if self.is_expired(entry) {
            self.remove_at(db, key, at, entry, Removal::Expired);
            return None;
        }
        self.before_change(db, entry);
        Some((at, entry))
    }

    /// Finds a key as a read does: an expired one is removed, unless such keys are
    /// [kept](crate::Keyspace::hold_until).
    #[inline]
    fn find_seen(&mut self, db: u16, key: Key<'_>) -> Option<(Position, Entry)> {
        let (at, entry) = self.find(db, key)?;
        if self.is_expired(entry) {
            self.drop_expired(db, key, at, entry);
            return None;
        }
        Some((at, entry))
    }

    #[cold]
    fn drop_expired(&mut self, db: u16, key: Key<'_>, at: Position, entry: Entry) {
        if !self.holds_expired_key(key.bytes) {
            self.remove_at(db, key, at, entry, Removal::Expired);
        }
    }

    /// Whether expired keys are kept for now.
    pub(crate) fn holds_expired(&self) -> bool {
        self.now_ms < self.ks.hold_until_ms.load(Relaxed) || self.keeps_expired()
    }

    /// Like [`Handle::holds_expired`], for one key: another node may decide about its expiry.
    pub(crate) fn holds_expired_key(&self, key: &[u8]) -> bool {
        self.holds_expired() || self.is_elsewhere(key)
    }

    /// Whether another node decides about the key's expiry.
    pub(crate) fn is_elsewhere(&self, key: &[u8]) -> bool {
        self.ks.ownership.get().is_some_and(|ownership| !ownership.is_primary(key))
    }

    /// Whether the key may be evicted at the moment: while copies are, no others.
    #[inline]
    pub(crate) fn is_evictable(&self, entry: Entry) -> bool {
        match (self.upkeep.evictor.copies, self.ks.ownership.get()) {
            (None, None) => true,
            (None, Some(ownership)) if self.upkeep.evictor.is_for_owners => {
                ownership.has_full_owner(entry.key())
            }
            (None, Some(ownership)) => ownership.is_primary(entry.key()),
            (Some(_), ownership) => {
                ownership.is_some_and(|ownership| ownership.is_copy(entry.key()))
            }
        }
    }

    /// Whether expired keys are kept because of
    /// [`Keyspace::keep_expired`](crate::Keyspace::keep_expired).
    pub fn keeps_expired(&self) -> bool {
        self.ks.keeps_expired.load(Relaxed)
    }

    /// Makes expired keys visible to this thread, or hides them as usual.
    pub fn see_expired(&mut self, on: bool) {
        self.sees_expired = on;
    }

    /// Time against which reads compare the expiry of hash fields: before every expiry if this
    /// thread sees expired fields.
    #[inline]
    pub fn fields_now(&self) -> i64 {
        if self.sees_expired { i64::MIN } else { self.now_ms }
    }

    #[inline]
    pub(crate) fn is_expired(&self, entry: Entry) -> bool {
        entry.expiry().is_some_and(|at| at <= self.now_ms && !self.sees_expired)
    }

    /// Removes an entry with its value and records the reason.
    pub(crate) fn remove_at(
        &mut self,
        db: u16,
        key: Key<'_>,
        at: Position,
        entry: Entry,
        why: Removal,
    ) {
        self.take_at(db, key, at, entry);
        match why {
            Removal::Deleted => {}
            // The removal of the last element has been counted.
            Removal::Emptied => self.uncount_change(),
            Removal::Expired => self.counters.expired.add(1),
            Removal::Evicted => self.counters.evicted.add(1),
        }
        self.free_later(entry);
        self.record(db, key, &Effect::Remove { key: key.bytes, why });
    }

    /// Takes an entry out of its table. The caller frees it with `free_later`, and records the
    /// removal.
    pub(crate) fn take_at(&mut self, db: u16, key: Key<'_>, at: Position, entry: Entry) {
        self.before_change(db, entry);
        self.note_leaving(db, key.hash, at, entry);
        let hasher = &self.ks.hasher;
        let stripe = self.locks.data(&self.ks.stripes, key.hash.stripe());
        let table = stripe.table_mut(db, usize::from(self.ks.databases));
        let before = table.buckets();
        let retired = table.remove(at, &mut self.cache, |key| hasher.hash(key));
        let table_delta = table.growth(before);
        let bytes = entry.footprint() as i64;
        table.weigh(-bytes);
        let db_counters = &self.counters.dbs[usize::from(db)];
        db_counters.keys.add(-1);
        db_counters.volatile.add(-i64::from(entry.has_expiry()));
        db_counters.expiring.add(-i64::from(entry.elements_expire()));
        self.count_bytes(table_delta, -bytes);
        if let Some(array) = retired {
            self.retire(array);
        }
    }

    pub(crate) fn insert_entry(&mut self, db: u16, key: Key<'_>, entry: Entry) {
        let hasher = &self.ks.hasher;
        let stripe = self.locks.data(&self.ks.stripes, key.hash.stripe());
        let table = stripe.table_mut(db, usize::from(self.ks.databases));
        let before = table.buckets();
        let retired = table.insert(key.hash, entry, &mut self.cache, |key| hasher.hash(key));
        let table_delta = table.growth(before);
        let bytes = entry.footprint() as i64;
        table.weigh(bytes);
        let db_counters = &self.counters.dbs[usize::from(db)];
        db_counters.keys.add(1);
        db_counters.volatile.add(i64::from(entry.has_expiry()));
        db_counters.expiring.add(i64::from(entry.elements_expire()));
        self.count_bytes(table_delta, bytes);
        self.counters.inserted.add(bytes);
        self.event(class::NEW, "new", db, key.bytes);
        self.note_large(entry);
        if let Some(array) = retired {
            self.retire(array);
        }
    }

    /// Replaces `old` with `entry`. `old` stays readable, and the caller frees it with
    /// `free_later`.
    #[inline]
    pub(crate) fn replace_entry(
        &mut self,
        db: u16,
        key: Key<'_>,
        at: Position,
        old: Entry,
        entry: Entry,
    ) {
        let bytes = entry.footprint() as i64 - old.footprint() as i64;
        let table = self.stripe(key.hash).table_mut(db, usize::from(self.ks.databases));
        table.replace(at, entry);
        table.weigh(bytes);
        self.note_moved(db, key.hash, at, (old, entry));
        if entry.flag() || old.flag() {
            self.count_volatile(db, old, entry);
        }
        self.count_bytes(0, bytes);
        self.note_large(entry);
    }

    /// Updates the counts of volatile keys and collections for the replacement of an entry.
    #[inline(never)]
    fn count_volatile(&self, db: u16, old: Entry, entry: Entry) {
        let counters = &self.counters.dbs[usize::from(db)];
        counters.volatile.add(i64::from(entry.has_expiry()) - i64::from(old.has_expiry()));
        let expiring = i64::from(entry.elements_expire()) - i64::from(old.elements_expire());
        counters.expiring.add(expiring);
    }

    #[inline]
    fn note_large(&self, entry: Entry) {
        if entry.kind() == Kind::Large && !self.ks.any_large.load(Relaxed) {
            self.ks.any_large.store(true, Relaxed);
        }
    }

    /// Accounts for a change in the size of an entry's memory outside its block.
    pub(crate) fn reweigh(&self, db: u16, key: Key<'_>, bytes: i64) {
        self.stripe(key.hash).table_mut(db, usize::from(self.ks.databases)).weigh(bytes);
        self.count_bytes(0, bytes);
    }

    /// Counts memory outside the keyspace under its limit; a negative number gives it back.
    pub fn count_foreign(&self, bytes: i64) {
        if bytes != 0 {
            self.counters.used.add(bytes);
        }
    }

    #[inline]
    pub(crate) fn count_bytes(&self, table: i64, entries: i64) {
        if table != 0 {
            self.counters.table_bytes.add(table);
        }
        if table + entries != 0 {
            self.counters.used.add(table + entries);
        }
    }

    #[inline]
    fn use_entry(&self, entry: Entry) {
        if self.touch {
            self.clock.touch_unchanged(entry);
        }
    }
}
