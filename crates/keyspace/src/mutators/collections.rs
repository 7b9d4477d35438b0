//! Helpers shared by the mutators of all collections.

use crate::handle::Handle;
use crate::state::effect::{Effect, Removal};
use crate::structures::entry::Entry;
use crate::structures::form::Form;
use crate::structures::form::Type;
use crate::structures::form::WrongType;
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::table::Position;
use crate::structures::view::View;
use petrel_heap::Cache;

impl Handle {
    /// Finds a collection for a change, which counts as a use of the key; none if the key does not
    /// exist.
    #[inline]
    pub(crate) fn find_type(
        &mut self,
        db: u16,
        key: Key<'_>,
        of: Type,
    ) -> Result<Option<(Position, Entry)>, WrongType> {
        let Some((at, entry)) = self.find_alive(db, key) else { return Ok(None) };
        if entry.type_of() != of {
            return Err(WrongType);
        }
        self.clock.touch(entry);
        Ok(Some((at, entry)))
    }

    /// Inserts a small collection at an absent key. The caller records the effect.
    pub(crate) fn insert_packed(
        &mut self,
        db: u16,
        key: Key<'_>,
        form: Form,
        beyond: bool,
        items: &[u8],
    ) -> Entry {
        let access = self.initial_access(key.hash);
        let cache = &mut self.cache;
        let entry = Entry::packed_collection(cache, key.bytes, form, beyond, items, None, access);
        self.insert_entry(db, key, entry);
        entry
    }

    /// Inserts a large collection at an absent key. The caller records the effect.
    pub(crate) fn insert_large(&mut self, db: u16, key: Key<'_>, large: Large) -> Entry {
        let access = self.initial_access(key.hash);
        let large = Box::new(large);
        let entry = Entry::large_collection(&mut self.cache, key.bytes, large, None, access);
        self.insert_entry(db, key, entry);
        entry
    }

    /// Replaces `remove` bytes of a small collection's items, from `offset` on, with `insert`;
    /// returns the entry, which may have moved. Borrows from the old entry stay readable until the
    /// stripe is unlocked, unless it was changed in place.
    #[inline]
    pub(crate) fn splice(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: (Position, Entry),
        offset: usize,
        remove: usize,
        insert: &[u8],
    ) -> Entry {
        self.splice_with(db, key, place, offset, remove, [insert])
    }

    /// Like [`Handle::splice`], but inserts several parts.
    #[inline]
    pub(crate) fn splice_with<const N: usize>(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        offset: usize,
        remove: usize,
        insert: [&[u8]; N],
    ) -> Entry {
        let new = entry.splice(&mut self.cache, offset, remove, insert);
        if new != entry {
            self.replace_entry(db, key, at, entry, new);
            self.free_block_later(entry);
        }
        new
    }

    /// Replaces all items of a small collection, its form and whether it is beyond the thresholds.
    pub(crate) fn repack(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        form: Form,
        beyond: bool,
        items: &[u8],
    ) -> Entry {
        let (expiry, access) = (entry.expiry(), entry.access());
        let cache = &mut self.cache;
        let new = Entry::packed_collection(cache, key.bytes, form, beyond, items, expiry, access);
        self.replace_entry(db, key, at, entry, new);
        self.free_later(entry);
        new
    }

    /// Replaces a small collection with a large one; expiry and access field are kept.
    pub(crate) fn enlarge(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        large: Large,
    ) -> Entry {
        let (expiry, access) = (entry.expiry(), entry.access());
        let large = Box::new(large);
        let new = Entry::large_collection(&mut self.cache, key.bytes, large, expiry, access);
        self.replace_entry(db, key, at, entry, new);
        self.free_later(entry);
        new
    }

    /// Changes a large collection in place and accounts for its change in size. None if the entry
    /// is small.
    #[inline]
    pub(crate) fn change_large<T>(
        &mut self,
        db: u16,
        key: Key<'_>,
        entry: Entry,
        change: impl FnOnce(&mut Large, &mut Cache) -> T,
    ) -> Option<T> {
        let large = entry.large_mut()?;
        let before = large.footprint() as i64;
        let result = change(large, &mut self.cache);
        let grown = large.footprint() as i64 - before;
        if grown != 0 {
            self.reweigh(db, key, grown);
        }
        Some(result)
    }

    /// Changes an entry in a way that may give its elements their first expiry or remove the last.
    pub(crate) fn change_expiring(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        change: impl FnOnce(Entry),
    ) {
        let before = entry.elements_expire();
        change(entry);
        let after = entry.elements_expire();
        if before != after {
            let delta = i64::from(after) - i64::from(before);
            self.counters.dbs[usize::from(db)].expiring.add(delta);
            // The flag is stored in the slot too, so that the sweep need not read the entry.
            self.stripe(key.hash).table_mut(db, usize::from(self.ks.databases)).replace(at, entry);
        }
    }

    /// Removes a key with an empty collection.
    pub(crate) fn remove_emptied(&mut self, db: u16, key: Key<'_>) {
        if let Some((at, entry)) = self.find(db, key) {
            self.remove_at(db, key, at, entry, Removal::Emptied);
        }
    }

    /// Replaces a key's value with a copy of a value of any type. Both stripes are held.
    pub fn store_copy(&mut self, db: u16, key: Key<'_>, value: View<'_>, expiry: Option<i64>) {
        let entry = value.entry().duplicate(&mut self.cache, key.bytes, expiry);
        self.put_entry(db, key, entry);
        let effect = Effect::Store { key: key.bytes, value: View::new(entry), expiry };
        self.record(db, key, &effect);
    }

    /// Stores an entry at its key, replacing any other.
    pub(crate) fn put_entry(&mut self, db: u16, key: Key<'_>, entry: Entry) {
        let found = if self.notes_events() { self.find_alive(db, key) } else { self.find(db, key) };
        match found {
            Some((at, old)) => {
                self.before_change(db, old);
                self.note_replaced(db, key, old.type_of(), entry.type_of());
                self.replace_entry(db, key, at, old, entry);
                self.free_later(old);
            }
            None => self.insert_entry(db, key, entry),
        }
    }
}
