//! Expiry of fields: setting it, and removing expired fields.

use crate::handle::Handle;
use crate::mutators::hashes::Found;
use crate::state::effect::{Effect, Removal};
use crate::structures::entry::Entry;
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::hash::packed::Fields;
use crate::structures::hash::read::HashRef;
use crate::structures::key_hash::Key;
use crate::structures::packed::Item;
use crate::structures::sizes::PACKED_MAX;

/// Maximum number of expired fields removed by one read: about ten microseconds.
const DROPPED_BY_READ: usize = 64;

impl Entry {
    /// Earliest expiry of a hash's fields; the end of time if none expires.
    pub(crate) fn earliest_field_expiry(self) -> i64 {
        match (self.packed_form(), self.packed()) {
            (Some(form), Some(items)) => Fields::new(form, items).earliest(),
            _ => {
                let hash = self.large().and_then(|large| large.hash());
                hash.and_then(|hash| hash.earliest()).unwrap_or(i64::MAX)
            }
        }
    }
}

impl Handle {
    /// Sets or clears (`None`) the expiry of a field, in Unix milliseconds. True if the field
    /// exists.
    pub fn hash_set_expiry(
        &mut self,
        db: u16,
        key: Key<'_>,
        field: &[u8],
        expiry: Option<i64>,
    ) -> Result<bool, WrongType> {
        let Some(mut place) = self.find_type(db, key, Type::Hash)? else { return Ok(false) };
        let expiry = expiry.map(|at| at.max(1));
        if expiry.is_some() {
            self.let_fields_expire(db, key, &mut place);
        }
        let set = match place.1.packed_form() {
            // No field has an expiry, and none gets one.
            None if place.1.is_compact() => {
                place.1.compact().is_some_and(|(schema, _)| schema.index(field).is_some())
            }
            Some(form) => self.set_packed_expiry(db, key, &mut place, form, field, expiry),
            None => self.set_large_expiry(db, key, place, field, expiry),
        };
        if set {
            self.record(db, key, &Effect::FieldExpire { key: key.bytes, field, expiry });
        }
        Ok(set)
    }

    fn set_packed_expiry(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: &mut Found,
        form: Form,
        field: &[u8],
        expiry: Option<i64>,
    ) -> bool {
        let now_ms = self.now_ms;
        let Some(items) = place.1.packed() else { return false };
        let found = Fields::new(form, items).named(&Item::from_text(field).parts());
        let Some(found) = found.ok().filter(|found| found.is_alive(now_ms)) else { return false };
        if found.expiry == expiry {
            return true;
        }
        let old = Item::Int(found.expiry.unwrap_or(0)).packed_len();
        let parts = Item::Int(expiry.unwrap_or(0)).parts();
        if items.len() - old + parts.packed_len() > PACKED_MAX {
            self.enlarge_hash(db, key, place);
            return self.set_large_expiry(db, key, *place, field, expiry);
        }
        let before = found.expiry;
        place.1 = self.splice(db, key, *place, found.end - old, old, parts.head());
        self.note_expiry(db, key, *place, before, expiry);
        true
    }

    fn set_large_expiry(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: Found,
        field: &[u8],
        expiry: Option<i64>,
    ) -> bool {
        let now_ms = self.now_ms;
        let set = self.change_hash(db, key, place, |hash, cache| {
            let Some(found) = hash.fields.find(field) else { return false };
            if found.1.expiry().is_some_and(|at| at <= now_ms) {
                return false;
            }
            hash.set_expiry(found, expiry, cache);
            true
        });
        set.unwrap_or(false)
    }

    /// Removes at most `budget` expired fields of a hash, and the key with the last field; returns
    /// the number removed.
    pub(crate) fn expire_fields(
        &mut self,
        db: u16,
        key: Key<'_>,
        mut place: Found,
        budget: usize,
    ) -> usize {
        self.before_change(db, place.1);
        let mut removed = 0;
        let mut name = Vec::new();
        while removed < budget {
            name.clear();
            if !first_expired(place.1, self.now_ms, &mut name) {
                break;
            }
            if self.take_field(db, key, &mut place, &name).is_none() {
                break;
            }
            removed += 1;
            self.counters.expired_fields.add(1);
            let why = Removal::Expired;
            self.record(db, key, &Effect::FieldRemove { key: key.bytes, field: &name, why });
            if self.remove_hash_if_empty(db, key, place.1) {
                return removed;
            }
        }
        removed
    }

    /// Removes the expired ones of the given fields, and the key with the last field: called by
    /// reads that name these fields.
    pub fn hash_drop_expired(&mut self, db: u16, key: Key<'_>, fields: &[&[u8]]) {
        if self.holds_expired_key(key.bytes) {
            return;
        }
        let Some((at, entry)) = self.find_alive(db, key) else { return };
        let mut place = (at, entry);
        for field in fields {
            let now_ms = self.now_ms;
            let Some(hash) = HashRef::of(place.1, now_ms) else { return };
            if !hash.has_expired() {
                return;
            }
            if !hash.is_expired(field) || self.take_field(db, key, &mut place, field).is_none() {
                continue;
            }
            self.counters.expired_fields.add(1);
            let why = Removal::Expired;
            self.record(db, key, &Effect::FieldRemove { key: key.bytes, field, why });
            if self.remove_hash_if_empty(db, key, place.1) {
                return;
            }
        }
    }

    /// Removes some expired fields, so that a random read does not draw them.
    pub fn hash_drop_some_expired(&mut self, db: u16, key: Key<'_>) {
        if !self.holds_expired_key(key.bytes)
            && let Some(place) = self.find_alive(db, key)
            && place.1.elements_expire()
        {
            self.expire_fields(db, key, place, DROPPED_BY_READ);
        }
    }
}

/// Writes the name of an expired field to `name`; false if there is none.
fn first_expired(entry: Entry, now_ms: i64, name: &mut Vec<u8>) -> bool {
    let mut scratch = itoa::Buffer::new();
    match (entry.packed_form(), entry.packed()) {
        (Some(form), Some(items)) => {
            let mut fields = Fields::new(form, items);
            let Some(field) = fields.find(|field| !field.is_alive(now_ms)) else {
                return false;
            };
            name.extend_from_slice(field.name.bytes(&mut scratch));
        }
        _ => {
            let hash = entry.large().and_then(|large| large.hash());
            let first = hash.and_then(|hash| hash.first_expired(now_ms));
            let Some(first) = first else { return false };
            name.extend_from_slice(first);
        }
    }
    true
}
