//! Hashes: fields with a string each, and with a time of expiry each if need be.
//!
//! | form | what is there | until |
//! |---|---|---|
//! | packed pairs | fields, each followed by its value | a field expires, or as below |
//! | packed triples | the earliest expiry, then fields, each followed by its value and its expiry or 0 | 4,096 bytes; 128 fields once it is nominally a hash table |
//! | [`Hash`] | a [`Dict`] of fields, and in the order of their expiry those that have one | it is removed |
//!
//! A field whose time has passed is not seen by anybody, but counts until it is removed: by the sweep, by a write, or by
//! a read that asks for it.

mod change;
mod expiry;
mod limits;
mod packed;
mod read;

pub use change::FieldExpiry;
pub use read::{Field, HashRef};

use crate::bucket::Item as _;
use crate::dict::{Dict, Place};
use crate::element::Element;
use crate::hash::KeyHasher;
use crate::heap::Cache;
use crate::types::rank_tree::{NODES, RankTree, Scored};
use crate::types::{Form, Large};

/// Packed fields are walked, so a hash that is nominally a hash table has at most this many.
const WALKED_MAX: usize = 128;

/// A hash of many fields, or of long ones.
pub(crate) struct Hash {
    fields: Dict,
    /// The fields that have an expiry, the first to expire first.
    expiring: RankTree<Expiring>,
    /// Whether a field ever had an expiry.
    expires: bool,
    /// Whether `OBJECT ENCODING` is that of a hash table.
    beyond: bool,
}

/// A field that has an expiry.
#[derive(Clone, Copy)]
struct Expiring(Element);

impl Scored for Expiring {
    fn score(self) -> f64 {
        self.0.expiry().unwrap_or(i64::MAX) as f64
    }
}

/// Where a field has its place among those that expire.
fn before(element: Element) -> impl Fn(f64, Expiring) -> bool {
    let (at, name): (f64, &[u8]) = (Expiring(element).score(), element.key());
    move |score, other| score < at || score == at && other.0.key() < name
}

impl Large {
    #[inline]
    fn hash(&self) -> Option<&Hash> {
        match self {
            Large::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    #[inline]
    fn hash_mut(&mut self) -> Option<&mut Hash> {
        match self {
            Large::Hash(hash) => Some(hash),
            _ => None,
        }
    }
}

impl Hash {
    /// A hash without fields.
    fn new(expires: bool, beyond: bool, hasher: &KeyHasher) -> Self {
        Hash { fields: Dict::new(hasher), expiring: RankTree::default(), expires, beyond }
    }

    /// The fields.
    pub fn dict_mut(&mut self) -> &mut Dict {
        &mut self.fields
    }

    /// The fields.
    pub fn dict(&self) -> &Dict {
        &self.fields
    }

    /// Adds a field that is not there.
    fn insert(&mut self, field: &[u8], value: &[u8], expiry: Option<i64>, cache: &mut Cache) {
        let element = Element::field(cache, field, value, expiry);
        self.fields.insert(element, cache);
        self.track(element, cache);
    }

    /// Gives a field that is there another value and expiry.
    fn update(
        &mut self,
        (place, element): (Place, Element),
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

    /// Gives a field that is there another expiry.
    fn set_expiry(
        &mut self,
        (place, element): (Place, Element),
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

    /// Puts a field in the place of one of the same name.
    fn renew(
        &mut self,
        (place, old): (Place, Element),
        value: &[u8],
        expiry: Option<i64>,
        cache: &mut Cache,
    ) {
        self.untrack(old, cache);
        let new = Element::field(cache, old.key(), value, expiry);
        self.fields.replace(place, new).release(cache);
        self.track(new, cache);
    }

    /// Takes a field out.
    fn remove(&mut self, (place, element): (Place, Element), cache: &mut Cache) {
        self.untrack(element, cache);
        self.fields.remove(place, cache).release(cache);
    }

    /// Keeps a field in mind that has an expiry.
    fn track(&mut self, element: Element, cache: &mut Cache) {
        if element.expiry().is_some() {
            self.expires = true;
            self.expiring.insert(Expiring(element), before(element), cache);
        }
    }

    /// Forgets a field that [`Hash::track`] keeps in mind.
    fn untrack(&mut self, element: Element, cache: &mut Cache) {
        if element.expiry().is_some() {
            let rank = self.expiring.rank(before(element));
            self.expiring.remove(rank, cache);
        }
    }

    /// The earliest expiry of a field.
    #[inline]
    fn earliest(&self) -> Option<i64> {
        self.expiring.get(0)?.0.expiry()
    }

    /// The name of the field that expires first, if it has expired.
    fn first_expired(&self, now_ms: i64) -> Option<&[u8]> {
        let first = self.expiring.get(0)?.0;
        first.expiry().filter(|&at| at <= now_ms).map(|_| first.key())
    }

    /// How many fields have expired and are there still.
    fn expired(&self, now_ms: i64) -> usize {
        match self.earliest() {
            Some(at) if at <= now_ms => self.expiring.rank(|score, _| score <= now_ms as f64),
            _ => 0,
        }
    }

    /// Which form the hash is entered under: whether fields may expire.
    pub fn form(&self) -> Form {
        if self.expiring.get(0).is_none() { Form::Hash } else { Form::ExpiringHash }
    }

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        let form = if self.expires { Form::ExpiringHash } else { Form::Hash };
        form.encoding(self.beyond)
    }

    /// Number of fields, those that have expired included.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Bytes behind this struct.
    pub fn footprint(&self) -> usize {
        self.fields.footprint() + self.expiring.footprint()
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
        Hash { fields, expiring, expires: self.expires, beyond: self.beyond }
    }

    /// Moves fields and nodes to fresh blocks: [`Large::relocate`]. First come the fields, then, from [`NODES`] on, the
    /// nodes.
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
        let expiring = &mut self.expiring;
        let mut moved = |old: Element, new: Element| {
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
