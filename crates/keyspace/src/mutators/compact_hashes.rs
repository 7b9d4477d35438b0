//! Compact hashes: their field names are in a schema that they share.
//!
//! A value of a present field is changed in place. For any other change the hash is converted to
//! an ordinary one ([`Handle::unshare`]), changed, and converted back ([`Handle::share_at`]). It
//! stays ordinary if a field gets an expiry, or if it does not fit any more.

use crate::handle::Handle;
use crate::mutators::hashes::{FieldExpiry, Found};
use crate::state::effect::{Effect, Removal};
use crate::structures::entry::Entry;
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::hash::limits::{HashThresholds, is_within};
use crate::structures::hash::schema::{FieldNames, Schema, SchemaHold, order};
use crate::structures::hash::{Hash, HashRef, WALKED_MAX};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::packed::{self, Item, Items, packed_len};
use crate::structures::sizes::PACKED_MAX;
use crate::structures::view::View;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of fields of a compact hash: a read walks over values.
const FIELDS_MAX: usize = WALKED_MAX;

/// Limits of the conversion of loaded hashes: `hash-rdb-load-*`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LoadedSharing {
    /// Fields from which a hash becomes compact; 0 for never.
    pub min: usize,
    /// Fields up to which it does; 0 for no limit.
    pub max: usize,
}

impl LoadedSharing {
    /// Whether a hash of `len` fields becomes compact.
    pub fn applies_to(self, len: usize) -> bool {
        self.min > 0 && len >= self.min && is_within(len, self.max)
    }
}

/// Identity of a schema, while keys have it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SchemaId(usize);

impl Handle {
    /// Prepares field names for [`Handle::hash_import`]. None if a name is there twice.
    pub fn field_names(&self, names: &[&[u8]]) -> Option<FieldNames> {
        let mut sorted: Vec<(&[u8], u32)> = names.iter().copied().zip(0..).collect();
        sorted.sort_unstable_by(|a, b| order(a.0, b.0));
        if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let names: Vec<&[u8]> = sorted.iter().map(|(name, _)| *name).collect();
        let schema = self.ks.schemas.get(&names, &self.ks.hasher, true);
        let sorted = sorted.into_iter().map(|(name, at)| (name.into(), at)).collect();
        Some(FieldNames { hold: schema.map(SchemaHold::new), sorted })
    }

    /// Sets a key to a hash of these names with these values, as many as names and in the order in
    /// which the names were prepared. Replaces any other hash, and removes its expiry.
    pub fn hash_import(
        &mut self,
        db: u16,
        key: Key<'_>,
        names: &FieldNames,
        values: &[&[u8]],
    ) -> Result<(), WrongType> {
        debug_assert_eq!(names.len(), values.len());
        let limits = HashThresholds::of(&self.ks.limits);
        if let Some((at, entry)) = self.find_type(db, key, Type::Hash)? {
            self.remove_at(db, key, at, entry, Removal::Deleted);
        }
        let mut packed = std::mem::take(&mut self.scratch);
        packed.clear();
        for &(_, at) in &names.sorted {
            Item::from_text(values[at as usize]).pack(&mut packed);
        }
        let beyond = is_beyond(&limits, values);
        if let Some(hold) = &names.hold
            && fits(values.len(), packed.len())
        {
            self.put_compact(db, key, hold.schema().clone(), beyond, &packed);
            self.scratch = packed;
        } else {
            self.scratch = packed;
            let of_names = names.sorted.iter();
            let pairs: Vec<&[u8]> =
                of_names.flat_map(|(name, at)| [&name[..], values[*at as usize]]).collect();
            // The key holds nothing.
            let _ = self.build(db, key, None, |handle| {
                handle.hash_load(db, key, &pairs, FieldExpiry::Clear).map(drop)
            });
        }
        self.note_fields_set(db, key, names.sorted.iter().map(|(name, _)| &name[..]));
        Ok(())
    }

    /// Makes a hash compact if it can be; its stripe is held. `beyond`: whatever its values are, it
    /// is beyond the thresholds of a listpack. `make`: also if no other has the same names. Returns
    /// its schema. Nothing is recorded: it is a change of form only.
    pub fn hash_share(
        &mut self,
        db: u16,
        key: Key<'_>,
        beyond: bool,
        make: bool,
    ) -> Option<SchemaId> {
        let found = self.find_alive(db, key)?;
        let mut place = found;
        if !place.1.is_compact() && !self.share_at(db, key, &mut place, beyond, make) {
            return None;
        }
        place.1.compact().map(|(schema, _)| SchemaId(std::ptr::from_ref(schema).addr()))
    }

    /// Makes a compact hash an ordinary one; its stripe is held. Nothing is recorded.
    pub fn hash_unshare(&mut self, db: u16, key: Key<'_>) {
        if let Some(mut place) = self.find_alive(db, key) {
            self.unshare(db, key, &mut place);
        }
    }

    /// Number of keys with the schema of a compact hash.
    pub fn schema_keys(&self, db: u16, key: Key<'_>) -> usize {
        let schema = self.find(db, key).and_then(|(_, entry)| entry.schema());
        schema.map_or(0, |schema| crate::structures::hash::schema::keys_beside_one(&schema))
    }

    /// [`Handle::hash_set`] of a compact hash, or of one that may become compact.
    #[cold]
    pub(super) fn compact_hash_set(
        &mut self,
        db: u16,
        key: Key<'_>,
        found: Option<Found>,
        pairs: &[&[u8]],
        expiry: FieldExpiry,
        limits: &HashThresholds,
    ) -> Result<usize, WrongType> {
        match found {
            Some(place) if place.1.is_compact() => {
                self.set_compact_fields(db, key, place, pairs, expiry, limits)
            }
            None if self.hash_make_compact(db, key, pairs, expiry, limits) => Ok(pairs.len() / 2),
            _ => {
                let added = self.hash_load(db, key, pairs, expiry)?;
                self.share_written(db, key, limits);
                Ok(added)
            }
        }
    }

    fn set_compact_fields(
        &mut self,
        db: u16,
        key: Key<'_>,
        mut place: Found,
        pairs: &[&[u8]],
        expiry: FieldExpiry,
        limits: &HashThresholds,
    ) -> Result<usize, WrongType> {
        let beyond = place.1.is_beyond();
        let stays = !matches!(expiry, FieldExpiry::At(_));
        for (done, pair) in pairs.chunks_exact(2).enumerate() {
            let (field, value) = (pair[0], pair[1]);
            if stays && self.put_value(db, key, &mut place, (field, value), limits) {
                let effect = Effect::FieldPut { key: key.bytes, field, value, expiry: None };
                self.record(db, key, &effect);
                continue;
            }
            let beyond = place.1.is_beyond() || beyond;
            self.unshare(db, key, &mut place);
            let rest = &pairs[2 * done..];
            let added = self.hash_load(db, key, rest, expiry)?;
            if let Some(mut place) = self.find(db, key)
                && stays
            {
                self.share_at(db, key, &mut place, beyond, true);
            }
            return Ok(added);
        }
        Ok(0)
    }

    /// Sets the value of a field in place; false if the hash has no such field, or no room.
    fn put_value(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: &mut Found,
        (field, value): (&[u8], &[u8]),
        limits: &HashThresholds,
    ) -> bool {
        let Some((schema, values)) = place.1.compact() else { return false };
        let Some(index) = schema.index(field) else { return false };
        let at = packed::skip(values, index);
        let old = packed_len(&values[at..]);
        let parts = Item::from_text(value).parts();
        if values.len() - old + parts.packed_len() > PACKED_MAX {
            return false;
        }
        place.1 = self.splice_with(db, key, *place, at, old, [parts.head(), parts.tail]);
        if limits.passed_by_text(value) {
            place.1.set_compact_beyond();
        }
        true
    }

    /// Makes a compact hash of new fields at an absent key; false if there are too few or too many
    /// of them, or a name is there twice. One effect, so that a follower need not convert the hash
    /// for each further field.
    fn hash_make_compact(
        &mut self,
        db: u16,
        key: Key<'_>,
        pairs: &[&[u8]],
        expiry: FieldExpiry,
        limits: &HashThresholds,
    ) -> bool {
        if matches!(expiry, FieldExpiry::At(_))
            || !limits.shares_at(pairs.len() / 2, &self.ks.limits)
        {
            return false;
        }
        let mut fields: Vec<(&[u8], &[u8])> =
            pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        fields.sort_unstable_by(|a, b| order(a.0, b.0));
        if fields.len() > FIELDS_MAX || fields.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return false;
        }
        let names: Vec<&[u8]> = fields.iter().map(|(name, _)| *name).collect();
        let values: Vec<&[u8]> = fields.iter().map(|(_, value)| *value).collect();
        let mut packed = Vec::new();
        values.iter().for_each(|value| Item::from_text(value).pack(&mut packed));
        if !fits(values.len(), packed.len()) {
            return false;
        }
        let Some(schema) = self.ks.schemas.get(&names, &self.ks.hasher, true) else {
            return false;
        };
        self.put_compact(db, key, schema, is_beyond(limits, &values), &packed);
        self.note_fields_set(db, key, pairs.iter().copied().step_by(2));
        true
    }

    /// Makes a hash that was written compact, if its number of fields says so.
    fn share_written(&mut self, db: u16, key: Key<'_>, limits: &HashThresholds) {
        let Some(mut place) = self.find(db, key) else { return };
        let len = HashRef::of(place.1, 0).map_or(0, |hash| hash.len());
        if limits.shares_at(len, &self.ks.limits) {
            self.share_at(db, key, &mut place, false, true);
        }
    }

    /// Stores a compact hash at an absent key, without an expiry and without events of its fields.
    fn put_compact(
        &mut self,
        db: u16,
        key: Key<'_>,
        schema: Arc<Schema>,
        beyond: bool,
        values: &[u8],
    ) {
        let access = self.initial_access(key.hash);
        let cache = &mut self.cache;
        let entry = Entry::compact_hash(cache, key.bytes, schema, beyond, values, None, access);
        self.insert_entry(db, key, entry);
        let effect = Effect::Store { key: key.bytes, value: View::new(entry), expiry: None };
        // The caller publishes events of the fields.
        let wanted = self.mute_events();
        self.record(db, key, &effect);
        self.unmute_events(wanted);
    }

    /// Converts an ordinary hash to a compact one; false if it stays. `beyond`: it was beyond the
    /// thresholds when it was compact. `make`: its schema is made if there is none.
    pub(super) fn share_at(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: &mut Found,
        beyond: bool,
        make: bool,
    ) -> bool {
        let entry = place.1;
        let Some(hash) = sharable(entry) else { return false };
        let (mut texts, mut values) = (Vec::new(), Vec::new());
        let mut fields = Vec::with_capacity(hash.len());
        let limits = HashThresholds::of(&self.ks.limits);
        let mut beyond = beyond || limits.passed_at(hash.len());
        let walked = hash.try_each(&mut |field| {
            let (mut name, mut value) = (itoa::Buffer::new(), itoa::Buffer::new());
            let (name, value) = (field.name.bytes(&mut name), field.value.bytes(&mut value));
            beyond |= limits.passed_by_text(value);
            let (text, packed) = (texts.len(), values.len());
            texts.extend_from_slice(name);
            Item::from_text(value).pack(&mut values);
            fields.push((text..texts.len(), packed..values.len()));
            if values.len() > PACKED_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if walked.is_break() {
            return false;
        }
        fields.sort_unstable_by(|a, b| order(&texts[a.0.clone()], &texts[b.0.clone()]));
        let names: Vec<&[u8]> = fields.iter().map(|(name, _)| &texts[name.clone()]).collect();
        let Some(schema) = self.ks.schemas.get(&names, &self.ks.hasher, make) else {
            return false;
        };
        let parts: Vec<&[u8]> = fields.iter().map(|(_, at)| &values[at.clone()]).collect();
        let (expiry, access, cache) = (entry.expiry(), entry.access(), &mut self.cache);
        let values = parts.concat();
        let new = Entry::compact_hash(cache, key.bytes, schema, beyond, &values, expiry, access);
        self.replace_form(db, key, place, new);
        true
    }

    /// Converts a compact hash to an ordinary one.
    pub(super) fn unshare(&mut self, db: u16, key: Key<'_>, place: &mut Found) {
        let Some((schema, values)) = place.1.compact() else { return };
        let limits = HashThresholds::of(&self.ks.limits);
        let (mut items, mut beyond) = (Vec::new(), limits.passed_at(schema.len()));
        for (name, value) in schema.names().zip(Items::new(values)) {
            let mut text = itoa::Buffer::new();
            beyond |= limits.passed_by_text(name) || limits.passed_by_text(value.bytes(&mut text));
            Item::from_text(name).pack(&mut items);
            value.pack(&mut items);
        }
        let (expiry, access) = (place.1.expiry(), place.1.access());
        let new = if items.len() <= PACKED_MAX && (!beyond || schema.len() <= WALKED_MAX) {
            let cache = &mut self.cache;
            let form = Form::Hash;
            Entry::packed_collection(cache, key.bytes, form, beyond, &items, expiry, access)
        } else {
            let mut hash = Hash::new(false, beyond, &self.ks.hasher);
            for (name, value) in schema.names().zip(Items::new(values)) {
                let mut text = itoa::Buffer::new();
                hash.insert(name, value.bytes(&mut text), None, &mut self.cache);
            }
            let large = Box::new(Large::Hash(hash));
            Entry::large_collection(&mut self.cache, key.bytes, large, expiry, access)
        };
        self.replace_form(db, key, place, new);
    }

    /// Converts a compact hash that has one of these fields to an ordinary one. If it was, returns
    /// whether it was beyond the thresholds.
    pub(super) fn unshare_to_remove(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: &mut Found,
        fields: &[&[u8]],
    ) -> Option<bool> {
        let (schema, _) = place.1.compact()?;
        fields.iter().find(|field| schema.index(field).is_some())?;
        let beyond = place.1.is_beyond();
        self.unshare(db, key, place);
        Some(beyond)
    }

    /// Replaces an entry by one with the same value in another form.
    fn replace_form(&mut self, db: u16, key: Key<'_>, place: &mut Found, new: Entry) {
        self.replace_entry(db, key, place.0, place.1, new);
        self.free_later(place.1);
        place.1 = new;
    }
}

/// Whether the packed values of this many fields fit a compact hash.
fn fits(len: usize, bytes: usize) -> bool {
    len <= FIELDS_MAX && bytes <= PACKED_MAX
}

/// Whether a compact hash of these values is beyond the thresholds: those of names do not count.
fn is_beyond(limits: &HashThresholds, values: &[&[u8]]) -> bool {
    limits.passed_at(values.len()) || values.iter().any(|value| limits.passed_by_text(value))
}

/// A hash that may become compact: without expiries, and with few fields.
fn sharable<'a>(entry: Entry) -> Option<HashRef<'a>> {
    let may_expire = match (entry.packed_form(), entry.large()) {
        (Some(form), _) => form != Form::Hash,
        (None, Some(large)) => large.hash().is_none_or(|hash| hash.expires),
        (None, None) => true,
    };
    if may_expire {
        return None;
    }
    HashRef::of(entry, 0).filter(|hash| hash.len() <= FIELDS_MAX)
}
