//! Hashes: fields with a string each, and optionally a time of expiry each.
//!
//! | form | content | until |
//! |---|---|---|
//! | packed pairs | fields, each followed by its value | a field gets an expiry, or full |
//! | packed triples | the earliest expiry; fields, each with value and expiry, or 0 | full |
//! | compact | a [`schema`] of names; packed values | a field gets an expiry, or full |
//! | [`Hash`] | a [`Dict`] of fields; a rank tree of the expiring fields | it is removed |
//!
//! The first three forms are full at 4,096 bytes, and at 128 fields as well once the hash is
//! nominally a hash table. A hash becomes compact by `HIMPORT`, or by parameters that are off by
//! default, and stays so while it fits (`mutators/compact_hashes.rs`).
//!
//! An expired field is invisible, but counts until it is removed: by the sweep, by a write, or by a
//! read of it.
//!
//! While a hash is neither compact nor nominally a hash table, its fields are returned in insertion
//! order, in any form: a [`Hash`] of at most 512 fields keeps that order beside the [`Dict`].

pub(crate) mod limits;
pub(crate) mod packed;
pub(crate) mod read;
pub mod schema;

pub use read::{Field, HashRef};

use crate::structures::bucket::Item as _;
use crate::structures::dict::{Dict, DictPosition};
use crate::structures::element::Element;
use crate::structures::form::Form;
use crate::structures::key_hash::{KeyHash, KeyHasher};
use crate::structures::rank_tree::{NODES, RankTree, Scored};
use petrel_heap::Cache;

/// Packed fields are walked, so a hash that is nominally a hash table has at most this many.
pub(crate) const WALKED_MAX: usize = 128;

/// Maximum number of fields of a [`Hash`] with insertion order: removing a field from the order is
/// a linear search.
const ORDERED_MAX: usize = 512;

/// A hash of many fields, or of long ones.
pub(crate) struct Hash {
    pub(crate) fields: Dict,
    /// The fields with an expiry, the earliest first.
    expiring: RankTree<Expiring>,
    /// Whether a field ever had an expiry.
    pub(crate) expires: bool,
    /// Whether `OBJECT ENCODING` answers `hashtable`.
    pub(crate) beyond: bool,
    /// All fields in insertion order; none once the order is dropped.
    order: Option<Vec<Element>>,
}

/// A field that has an expiry.
#[derive(Clone, Copy)]
struct Expiring(Element);

impl Scored for Expiring {
    fn score(self) -> f64 {
        self.0.expiry().unwrap_or(i64::MAX) as f64
    }
}

/// Predicate for the fields that expire before a field, to find its place in the tree.
fn before(element: Element) -> impl Fn(f64, Expiring) -> bool {
    let (at, name): (f64, &[u8]) = (Expiring(element).score(), element.key());
    move |score, other| score < at || score == at && other.0.key() < name
}

impl Hash {
    /// A hash without fields.
    pub(crate) fn new(expires: bool, beyond: bool, hasher: &KeyHasher) -> Self {
        let (fields, expiring) = (Dict::new(hasher), RankTree::default());
        Hash { fields, expiring, expires, beyond, order: (!beyond).then(Vec::new) }
    }

    /// Adds a field that is not there.
    pub(crate) fn insert(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry: Option<i64>,
        cache: &mut Cache,
    ) {
        let hash = self.fields.hasher().hash(field);
        self.insert_hashed((field, hash), value, expiry, cache);
    }

    /// Like `insert`, for a field with a known hash.
    pub(crate) fn insert_hashed(
        &mut self,
        (field, hash): (&[u8], KeyHash),
        value: &[u8],
        expiry: Option<i64>,
        cache: &mut Cache,
    ) {
        let element = Element::field(cache, field, value, expiry);
        self.fields.insert_hashed(element, hash, cache);
        self.track(element, cache);
        if self.beyond || self.fields.len() > ORDERED_MAX {
            self.order = None;
        } else if let Some(order) = &mut self.order {
            order.push(element);
        }
    }

    /// Sets the value and expiry of a present field.
    pub(crate) fn update(
        &mut self,
        (place, element): (DictPosition, Element),
        value: &[u8],
        expiry: Option<i64>,
        cache: &mut Cache,
    ) {
        self.fields.before_change(element, cache);
        if element.expiry().is_some() == expiry.is_some() && element.overwrite(value) {
            self.set_expiry((place, element), expiry, cache);
        } else {
            self.renew((place, element), value, expiry, cache);
        }
    }

    /// Sets the expiry of a present field.
    pub(crate) fn set_expiry(
        &mut self,
        (place, element): (DictPosition, Element),
        expiry: Option<i64>,
        cache: &mut Cache,
    ) {
        self.fields.before_change(element, cache);
        match (element.expiry(), expiry) {
            (old, new) if old == new => {}
            (Some(_), Some(at)) => {
                self.untrack(element, cache);
                element.set_expiry(at);
                self.track(element, cache);
            }
            _ => self.renew((place, element), element.value(), expiry, cache),
        }
    }

    /// Replaces a field with another of the same name.
    fn renew(
        &mut self,
        (place, old): (DictPosition, Element),
        value: &[u8],
        expiry: Option<i64>,
        cache: &mut Cache,
    ) {
        self.untrack(old, cache);
        let new = Element::field(cache, old.key(), value, expiry);
        put_in_order(&mut self.order, old, Some(new));
        self.fields.replace(place, new).release(cache);
        self.track(new, cache);
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, (place, element): (DictPosition, Element), cache: &mut Cache) {
        self.untrack(element, cache);
        put_in_order(&mut self.order, element, None);
        self.fields.remove(place, cache).release(cache);
    }

    /// The fields in insertion order, as long as this is their visible order.
    fn ordered(&self) -> Option<&[Element]> {
        self.order.as_deref().filter(|_| !self.beyond)
    }

    /// Adds a field to the tree of expiring fields, if it has an expiry.
    fn track(&mut self, element: Element, cache: &mut Cache) {
        if element.expiry().is_some() {
            self.expires = true;
            self.expiring.insert(Expiring(element), before(element), cache);
        }
    }

    /// Removes a field from the tree of expiring fields.
    fn untrack(&mut self, element: Element, cache: &mut Cache) {
        if element.expiry().is_some() {
            let rank = self.expiring.rank(before(element));
            self.expiring.remove(rank, cache);
        }
    }

    /// The earliest expiry of a field.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<i64> {
        self.expiring.get(0)?.0.expiry()
    }

    /// The name of the field with the earliest expiry, if it has expired.
    pub(crate) fn first_expired(&self, now_ms: i64) -> Option<&[u8]> {
        let first = self.expiring.get(0)?.0;
        first.expiry().filter(|&at| at <= now_ms).map(|_| first.key())
    }

    /// Number of expired fields that are still present.
    fn expired(&self, now_ms: i64) -> usize {
        match self.earliest() {
            Some(at) if at <= now_ms => self.expiring.rank(|score, _| score <= now_ms as f64),
            _ => 0,
        }
    }

    /// The form of the entry, which tells whether fields may expire.
    pub fn form(&self) -> Form {
        if self.expiring.get(0).is_none() { Form::Hash } else { Form::ExpiringHash }
    }

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        let form = if self.expires { Form::ExpiringHash } else { Form::Hash };
        form.encoding(self.beyond)
    }

    /// Number of fields, including expired ones.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Bytes outside this struct.
    pub fn footprint(&self) -> usize {
        let order = self.order.as_ref().map_or(0, Vec::capacity) * size_of::<Element>();
        self.fields.footprint() + self.expiring.footprint() + order
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        let fields = self.fields.duplicate(cache);
        let expiring: Vec<Expiring> = self
            .expiring
            .iter()
            .filter_map(|field| fields.get(field.0.key()))
            .map(Expiring)
            .collect();
        let expiring = RankTree::from_sorted(&expiring, cache);
        let order = self
            .ordered()
            .map(|order| order.iter().filter_map(|field| fields.get(field.key())).collect());
        Hash { fields, expiring, expires: self.expires, beyond: self.beyond, order }
    }

    /// Moves fields and nodes to fresh blocks, as [`Large::relocate`]. First the fields, then, from
    /// [`NODES`] on, the nodes.
    pub fn relocate(
        &mut self,
        cursor: u64,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> Option<u64> {
        if let Some(rank) = cursor.checked_sub(NODES) {
            let next = self.expiring.relocate(rank as usize, is_marked, cache);
            return next.map(|rank| NODES + rank as u64);
        }
        let (expiring, order) = (&mut self.expiring, &mut self.order);
        let mut moved = |old: Element, new: Element| {
            put_in_order(order, old, Some(new));
            if old.expiry().is_some() {
                let rank = expiring.rank(before(old));
                expiring.replace(rank, Expiring(new));
            }
        };
        Some(self.fields.relocate(cursor, is_marked, &mut moved, cache).unwrap_or(NODES))
    }

    /// Frees every field.
    pub fn release(self, cache: &mut Cache) {
        self.expiring.release(cache);
        self.fields.release(cache);
    }
}

/// Replaces or removes a field in the insertion order.
fn put_in_order(order: &mut Option<Vec<Element>>, old: Element, new: Option<Element>) {
    let Some(order) = order else { return };
    let Some(at) = order.iter().position(|field| *field == old) else { return };
    match new {
        Some(new) => order[at] = new,
        None => drop(order.remove(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_heap::Heap;

    #[test]
    fn fields_that_are_moved_keep_their_order() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let mut hash = Hash::new(false, false, &KeyHasher::new(7, 12));
        let names: Vec<String> = (0..ORDERED_MAX).map(|n| format!("field:{n}")).collect();
        for name in &names {
            hash.insert(name.as_bytes(), b"value", None, &mut cache);
        }
        let mut cursor = 0;
        while let Some(next) = hash.relocate(cursor, &|_| true, &mut cache) {
            cursor = next;
        }
        let order = hash.ordered().expect("not more than are kept in order");
        assert!(order.iter().zip(&names).all(|(field, name)| field.key() == name.as_bytes()));
        assert!(order.iter().all(|field| hash.fields.get(field.key()) == Some(*field)));
        hash.insert(b"one more", b"value", None, &mut cache);
        assert!(hash.ordered().is_none() && hash.len() == ORDERED_MAX + 1);
        hash.release(&mut cache);
    }
}
