//! Mutators of hashes.

use crate::handle::Handle;
use crate::state::effect::{Effect, Removal};
use crate::structures::entry::Entry;
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::hash::limits::HashThresholds;
use crate::structures::hash::packed::{EARLIEST_LEN, Fields, pack_value, with_expiries};
use crate::structures::hash::{Hash, WALKED_MAX};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::packed::{Item, find};
use crate::structures::sizes::PACKED_MAX;
use crate::structures::table::Position;
use petrel_heap::Cache;

pub(super) type Found = (Position, Entry);

/// Maximum size of the packed pairs of a new hash, in bytes.
const PACKED_AT_ONCE_MAX: usize = PACKED_MAX / 4;

/// Treatment of the expiry of a field that is set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldExpiry {
    /// Removes the expiry.
    Clear,
    /// Keeps the present expiry, if any.
    Keep,
    /// Sets it, in Unix milliseconds.
    At(i64),
}

impl FieldExpiry {
    /// The expiry of a field that had the expiry `old`, or was absent.
    #[inline]
    fn after(self, old: Option<i64>, now_ms: i64) -> Option<i64> {
        match self {
            FieldExpiry::Clear => None,
            FieldExpiry::Keep => old.filter(|&at| at > now_ms),
            // 0 is stored for no expiry.
            FieldExpiry::At(at) => Some(at.max(1)),
        }
    }
}

impl Handle {
    /// Sets fields of a hash, which is created if the key does not exist; `pairs` are names, each
    /// followed by a value. Returns the number of new fields.
    pub fn hash_set(
        &mut self,
        db: u16,
        key: Key<'_>,
        pairs: &[&[u8]],
        expiry: FieldExpiry,
    ) -> Result<usize, WrongType> {
        let limits = HashThresholds::of(&self.ks.limits);
        let found = self.find_type(db, key, Type::Hash)?;
        if pairs.len() < 2 {
            return Ok(0);
        }
        let beyond = limits.passed_by(pairs);
        let (mut place, rest, mut added) = match found {
            Some(place) => {
                if beyond {
                    set_beyond(place.1);
                }
                (place, pairs, 0)
            }
            None => {
                let made = self.make_hash(db, key, pairs, expiry, beyond, &limits);
                match self.find(db, key) {
                    Some(place) if made * 2 < pairs.len() => (place, &pairs[made * 2..], made),
                    _ => return Ok(made),
                }
            }
        };
        for pair in rest.chunks_exact(2) {
            let (name, value) = (pair[0], pair[1]);
            let (is_new, expiry) =
                self.put_field(db, key, &mut place, (name, value), expiry, &limits);
            added += usize::from(is_new);
            self.record(db, key, &Effect::FieldPut { key: key.bytes, field: name, value, expiry });
        }
        Ok(added)
    }

    /// Removes fields from a hash, and the key with the last field; returns the number removed,
    /// including expired ones.
    pub fn hash_remove(
        &mut self,
        db: u16,
        key: Key<'_>,
        fields: &[&[u8]],
    ) -> Result<usize, WrongType> {
        let Some(mut place) = self.find_type(db, key, Type::Hash)? else { return Ok(0) };
        let mut removed = 0;
        for field in fields {
            let Some(expiry) = self.take_field(db, key, &mut place, field) else { continue };
            let expired = expiry.is_some_and(|at| at <= self.now_ms);
            removed += 1;
            let why = if expired { Removal::Expired } else { Removal::Deleted };
            self.record(db, key, &Effect::FieldRemove { key: key.bytes, field, why });
            if self.remove_hash_if_empty(db, key, place.1) {
                break;
            }
        }
        Ok(removed)
    }

    /// Creates a hash of the first pair and of the following ones that can be packed with it: as
    /// long as names are new and fields have no expiry. Returns the number of pairs used.
    fn make_hash(
        &mut self,
        db: u16,
        key: Key<'_>,
        pairs: &[&[u8]],
        expiry: FieldExpiry,
        beyond: bool,
        limits: &HashThresholds,
    ) -> usize {
        let (name, value) = (pairs[0], pairs[1]);
        let expiry = expiry.after(None, self.now_ms);
        let form = if expiry.is_some() { Form::ExpiringHash } else { Form::Hash };
        let mut items = std::mem::take(&mut self.scratch);
        items.clear();
        if let Some(at) = expiry {
            items.extend_from_slice(&at.to_le_bytes());
        }
        Item::from_text(name).pack(&mut items);
        pack_value(&mut items, form, value, expiry);
        let mut made = 1;
        if items.len() <= PACKED_MAX {
            if expiry.is_none() {
                made += pack_new(&mut items, &pairs[2..]);
            }
            let beyond = beyond || limits.passed_at(made);
            self.insert_packed(db, key, form, beyond, &items);
        } else {
            let beyond = beyond || limits.passed_at(made);
            let mut hash = Hash::new(expiry.is_some(), beyond, &self.ks.hasher);
            hash.insert(name, value, expiry, &mut self.cache);
            self.insert_large(db, key, Large::Hash(hash));
        }
        self.scratch = items;
        if self.observers.bits != 0 {
            self.note_new_document(db, key);
        }
        for pair in pairs[..made * 2].chunks_exact(2) {
            let (field, value) = (pair[0], pair[1]);
            self.record(db, key, &Effect::FieldPut { key: key.bytes, field, value, expiry });
        }
        made
    }

    /// Sets a field; returns whether it is new, and its expiry. The caller records the effect.
    fn put_field(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: &mut Found,
        (name, value): (&[u8], &[u8]),
        expiry: FieldExpiry,
        limits: &HashThresholds,
    ) -> (bool, Option<i64>) {
        if matches!(expiry, FieldExpiry::At(_)) {
            self.let_fields_expire(db, key, place);
        }
        let (Some(form), Some(items)) = (place.1.packed_form(), place.1.packed()) else {
            return self.put_in_large(db, key, *place, (name, value), expiry, limits);
        };
        let now_ms = self.now_ms;
        let item = Item::from_text(name);
        let parts = item.parts();
        let mut insert = std::mem::take(&mut self.scratch);
        insert.clear();
        let found = Fields::new(form, items).named(&parts);
        let old = found.as_ref().ok().and_then(|field| field.expiry);
        let expiry = expiry.after(old, now_ms);
        let (at, end, len, is_new) = match found {
            Ok(field) => (field.value_at, field.end, None, !field.is_alive(now_ms)),
            Err(len) => {
                item.pack(&mut insert);
                (items.len(), items.len(), Some(len + 1), true)
            }
        };
        pack_value(&mut insert, form, value, expiry);
        self.counters.expired_fields.add(i64::from(is_new && len.is_none()));
        let beyond = place.1.is_beyond() || len.is_some_and(|len| limits.passed_at(len));
        let is_walkable = !beyond || len.is_none_or(|len| len <= WALKED_MAX);
        if items.len() - (end - at) + insert.len() <= PACKED_MAX && is_walkable {
            place.1 = self.splice(db, key, *place, at, end - at, &insert);
            if beyond {
                set_beyond(place.1);
            }
            self.note_expiry(db, key, *place, old, expiry);
        } else {
            self.enlarge_hash(db, key, place);
            let put = match expiry {
                Some(at) => FieldExpiry::At(at),
                None => FieldExpiry::Clear,
            };
            self.put_in_large(db, key, *place, (name, value), put, limits);
        }
        self.scratch = insert;
        (is_new, expiry)
    }

    fn put_in_large(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: Found,
        (name, value): (&[u8], &[u8]),
        expiry: FieldExpiry,
        limits: &HashThresholds,
    ) -> (bool, Option<i64>) {
        let now_ms = self.now_ms;
        let put = self.change_hash(db, key, place, |hash, cache| {
            let named = (name, hash.fields.hasher().hash(name));
            match hash.fields.find_hashed(named.0, named.1) {
                Some(found) => {
                    let old = found.1.expiry();
                    let expiry = expiry.after(old, now_ms);
                    hash.update(found, value, expiry, cache);
                    let expired = old.is_some_and(|at| at <= now_ms);
                    (expired, expired, expiry)
                }
                None => {
                    let expiry = expiry.after(None, now_ms);
                    hash.insert_hashed(named, value, expiry, cache);
                    hash.beyond |= limits.passed_at(hash.len());
                    (true, false, expiry)
                }
            }
        });
        let (is_new, expired, expiry) = put.unwrap_or((false, false, None));
        self.counters.expired_fields.add(i64::from(expired));
        (is_new, expiry)
    }

    /// Removes a field and returns its expiry; none if it is absent. The caller records the effect,
    /// and removes an emptied hash.
    pub(super) fn take_field(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: &mut Found,
        name: &[u8],
    ) -> Option<Option<i64>> {
        let (Some(form), Some(items)) = (place.1.packed_form(), place.1.packed()) else {
            return self.change_hash(db, key, *place, |hash, cache| {
                let found = hash.fields.find(name)?;
                let expiry = found.1.expiry();
                hash.remove(found, cache);
                Some(expiry)
            })?;
        };
        let field = Fields::new(form, items).named(&Item::from_text(name).parts()).ok()?;
        let expiry = field.expiry;
        place.1 = self.splice(db, key, *place, field.at, field.end - field.at, &[]);
        self.note_expiry(db, key, *place, expiry, None);
        Some(expiry)
    }

    /// Removes the key of an emptied hash; true if it was empty.
    pub(super) fn remove_hash_if_empty(&mut self, db: u16, key: Key<'_>, entry: Entry) -> bool {
        let is_empty = match (entry.packed_form(), entry.packed()) {
            (Some(form), Some(items)) => Fields::new(form, items).is_empty(),
            _ => entry.large().is_some_and(|large| large.len() == 0),
        };
        if is_empty {
            self.remove_emptied(db, key);
        }
        is_empty
    }

    /// Converts a small hash to the form with expiries.
    pub(super) fn let_fields_expire(&mut self, db: u16, key: Key<'_>, place: &mut Found) {
        let (Some(Form::Hash), Some(items)) = (place.1.packed_form(), place.1.packed()) else {
            return;
        };
        let triples = with_expiries(items);
        if triples.len() <= PACKED_MAX {
            let beyond = place.1.is_beyond();
            place.1 = self.repack(db, key, *place, Form::ExpiringHash, beyond, &triples);
        } else {
            self.enlarge_hash(db, key, place);
            self.change_hash(db, key, *place, |hash, _| hash.expires = true);
        }
    }

    /// Converts a small hash to a large one.
    pub(super) fn enlarge_hash(&mut self, db: u16, key: Key<'_>, place: &mut Found) {
        let (Some(form), Some(items)) = (place.1.packed_form(), place.1.packed()) else { return };
        let mut hash = Hash::new(form == Form::ExpiringHash, place.1.is_beyond(), &self.ks.hasher);
        for field in Fields::new(form, items) {
            let (mut name, mut value) = (itoa::Buffer::new(), itoa::Buffer::new());
            let (name, value) = (field.name.bytes(&mut name), field.value.bytes(&mut value));
            hash.insert(name, value, field.expiry, &mut self.cache);
        }
        place.1 = self.enlarge(db, key, *place, Large::Hash(hash));
    }

    /// Changes a large hash in place. None if the entry is small.
    pub(super) fn change_hash<T>(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: Found,
        change: impl FnOnce(&mut Hash, &mut Cache) -> T,
    ) -> Option<T> {
        let entry = place.1;
        let result = self.change_large(db, key, entry, |large, cache| {
            Some(change(large.hash_mut()?, cache))
        })??;
        let form = entry.large()?.form();
        if entry.form() != form {
            self.change_expiring(db, key, place, |entry| entry.set_large_form(form));
        }
        Some(result)
    }

    /// Updates the earliest expiry of a small hash after a field's expiry has changed from `old` to
    /// `new`.
    #[inline]
    pub(super) fn note_expiry(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: Found,
        old: Option<i64>,
        new: Option<i64>,
    ) {
        let (Some(Form::ExpiringHash), Some(items)) = (place.1.packed_form(), place.1.packed())
        else {
            return;
        };
        let mut fields = Fields::new(Form::ExpiringHash, items);
        let mut earliest = fields.earliest();
        if old == Some(earliest) {
            earliest = fields.by_ref().filter_map(|field| field.expiry).min().unwrap_or(i64::MAX);
        }
        let earliest = earliest.min(new.unwrap_or(i64::MAX));
        if fields.earliest() != earliest {
            self.change_expiring(db, key, place, |entry| {
                if let Some(items) = entry.packed_mut() {
                    items[..EARLIEST_LEN].copy_from_slice(&earliest.to_le_bytes());
                }
            });
        }
    }
}

/// Marks a hash as beyond the thresholds of a listpack.
fn set_beyond(entry: Entry) {
    if let Some(form) = entry.packed_form() {
        entry.set_packed_form(form, true);
    } else if let Some(hash) = entry.large_mut().and_then(Large::hash_mut) {
        hash.beyond = true;
    }
}

/// Packs pairs behind `items` as long as their names are new and a walk over all stays short;
/// returns the number packed.
fn pack_new(items: &mut Vec<u8>, pairs: &[&[u8]]) -> usize {
    let mut packed = 0;
    for pair in pairs.chunks_exact(2) {
        let (name, value) = (Item::from_text(pair[0]), Item::from_text(pair[1]));
        let len = items.len() + name.packed_len() + value.packed_len();
        if len > PACKED_AT_ONCE_MAX || packed == WALKED_MAX || find(items, &name.parts(), 2).is_ok()
        {
            break;
        }
        name.pack(items);
        value.pack(items);
        packed += 1;
    }
    packed
}
