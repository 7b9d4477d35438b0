//! Expiry of fields: setting it, and removing the fields whose time has passed.

use super::change::{Place, note_expiry};
use super::packed::{EARLIEST_LEN, Fields};
use crate::effect::{Effect, Removal};
use crate::entry::{Entry, PACKED_MAX};
use crate::handle::{Handle, Key};
use crate::packed::Item;
use crate::types::{Form, Type, WrongType};

impl Entry {
    /// Whether every field of a hash has expired: the key is as good as gone.
    #[cold]
    pub(crate) fn is_outlived(self, now_ms: i64) -> bool {
        match (self.packed_form(), self.packed()) {
            (Some(Form::ExpiringHash), Some(items)) => {
                let mut fields = Fields::new(Form::ExpiringHash, items);
                fields.earliest() <= now_ms && fields.all(|field| !field.is_alive(now_ms))
            }
            (Some(_), _) => false,
            _ => self
                .large()
                .and_then(|large| large.hash())
                .is_some_and(|hash| hash.expired(now_ms) == hash.len()),
        }
    }

    /// A moment before which no field of a hash expires.
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
    /// Sets or clears (`None`) the expiry of a field, in Unix milliseconds. True if the field exists.
    pub fn hash_set_expiry(
        &mut self,
        db: u16,
        key: Key<'_>,
        field: &[u8],
        expiry: Option<i64>,
    ) -> Result<bool, WrongType> {
        let Some(mut place) = self.find_type(db, key, Type::Hash)? else { return Ok(false) };
        if expiry.is_some() {
            self.let_fields_expire(db, key, &mut place);
        }
        let set = match place.1.packed_form() {
            Some(form) => self.set_packed_expiry(db, key, &mut place, form, field, expiry),
            None => self.set_large_expiry(db, key, place.1, field, expiry),
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
        place: &mut Place,
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
            return self.set_large_expiry(db, key, place.1, field, expiry);
        }
        place.1 = self.splice(db, key, *place, found.end - old, old, parts.head());
        note_expiry(place.1, expiry);
        true
    }

    fn set_large_expiry(
        &mut self,
        db: u16,
        key: Key<'_>,
        entry: Entry,
        field: &[u8],
        expiry: Option<i64>,
    ) -> bool {
        let now_ms = self.now_ms;
        let set = self.change_hash(db, key, entry, |hash, cache| {
            let Some(found) = hash.fields.find(field) else { return false };
            if found.1.expiry().is_some_and(|at| at <= now_ms) {
                return false;
            }
            hash.set_expiry(found, expiry, cache);
            true
        });
        set.unwrap_or(false)
    }

    /// Removes at most `budget` fields of a hash that have expired, the key with the last field; returns how many.
    pub(crate) fn expire_fields(
        &mut self,
        db: u16,
        key: Key<'_>,
        mut place: Place,
        budget: usize,
    ) -> usize {
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
        recall_earliest(place.1);
        removed
    }
}

/// The name of a field that has expired, in `name`; false if there is none.
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

/// Finds out again which expiry of a small hash is the earliest.
fn recall_earliest(entry: Entry) {
    let (Some(Form::ExpiringHash), Some(items)) = (entry.packed_form(), entry.packed()) else {
        return;
    };
    let fields = Fields::new(Form::ExpiringHash, items);
    let earliest = fields.filter_map(|field| field.expiry).min().unwrap_or(i64::MAX);
    if let Some(items) = entry.packed_mut() {
        items[..EARLIEST_LEN].copy_from_slice(&earliest.to_le_bytes());
    }
}
