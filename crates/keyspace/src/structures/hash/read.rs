//! Reads hashes of any form.

use crate::structures::bucket::Item as _;
use crate::structures::element::Element;
use crate::structures::entry::Entry;
use crate::structures::form::{Form, WrongType};
use crate::structures::hash::Hash;
use crate::structures::hash::packed::Fields;
use crate::structures::hash::schema::Schema;
use crate::structures::packed::{self, Item, unpack};
use crate::structures::random::{below, choose, gaps};
use crate::structures::view::View;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A borrowed hash at a point in time: fields expired by then are hidden.
#[derive(Clone, Copy)]
pub struct HashRef<'a> {
    held: HashSource<'a>,
    now_ms: i64,
}

#[derive(Clone, Copy)]
enum HashSource<'a> {
    Packed(Fields<'a>),
    Large(&'a Hash),
    /// A schema, and a packed value for each of its names.
    Compact(&'a Schema, &'a [u8]),
}

/// A field of a hash.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Field name.
    pub name: Item<'a>,
    /// Field value.
    pub value: Item<'a>,
    /// Field expiry in Unix milliseconds.
    pub expiry: Option<i64>,
}

impl Field<'_> {
    fn shared<'a>(name: &'a [u8], value: Item<'a>) -> Field<'a> {
        Field { name: Item::Text(name), value, expiry: None }
    }

    fn of<'a>(element: Element) -> Field<'a> {
        Field {
            name: Item::Text(element.key()),
            value: Item::Text(element.value()),
            expiry: element.expiry(),
        }
    }

    #[inline]
    fn is_alive(&self, now_ms: i64) -> bool {
        self.expiry.is_none_or(|at| at > now_ms)
    }
}

/// The packed value of a schema's name.
#[inline]
fn value_at(values: &[u8], index: usize) -> Item<'_> {
    unpack(&values[packed::skip(values, index)..]).0
}

/// Fields are drawn one by one if at most one in this many is requested, otherwise chosen in a walk
/// over all.
const DRAWN_SHARE: usize = 3;

impl<'a> View<'a> {
    /// The hash as of a time in Unix milliseconds.
    #[inline]
    pub fn hash(&self, now_ms: i64) -> Result<HashRef<'a>, WrongType> {
        HashRef::of(self.entry(), now_ms).ok_or(WrongType)
    }
}

impl<'a> HashRef<'a> {
    /// The hash that an entry holds. It is valid as long as the entry is neither changed nor freed.
    #[inline]
    pub(crate) fn of(entry: Entry, now_ms: i64) -> Option<Self> {
        let held = match entry.packed_form() {
            Some(form @ (Form::Hash | Form::ExpiringHash)) => {
                HashSource::Packed(Fields::new(form, entry.packed()?))
            }
            Some(_) => return None,
            None => match entry.compact() {
                Some((schema, values)) => HashSource::Compact(schema, values),
                None => HashSource::Large(entry.large()?.hash()?),
            },
        };
        Some(HashRef { held, now_ms })
    }

    /// Number of fields, including those expired but not yet removed.
    #[inline]
    pub fn len(&self) -> usize {
        match self.held {
            HashSource::Packed(fields) => fields.count(),
            HashSource::Large(hash) => hash.len(),
            HashSource::Compact(schema, _) => schema.len(),
        }
    }

    /// Never true of a hash at a key.
    pub fn is_empty(&self) -> bool {
        match self.held {
            HashSource::Packed(fields) => fields.is_empty(),
            HashSource::Large(hash) => hash.len() == 0,
            HashSource::Compact(schema, _) => schema.len() == 0,
        }
    }

    /// Number of visible fields.
    pub fn alive(&self) -> usize {
        match self.held {
            _ if !self.has_expired() => self.len(),
            HashSource::Packed(fields) => {
                fields.filter(|field| field.is_alive(self.now_ms)).count()
            }
            HashSource::Large(hash) => hash.len() - hash.expired(self.now_ms),
            HashSource::Compact(schema, _) => schema.len(),
        }
    }

    /// Whether there are expired fields not yet removed.
    #[inline]
    pub fn has_expired(&self) -> bool {
        let earliest = match self.held {
            HashSource::Packed(fields) => fields.earliest(),
            HashSource::Large(hash) => hash.earliest().unwrap_or(i64::MAX),
            HashSource::Compact(..) => return false,
        };
        earliest <= self.now_ms
    }

    /// The earliest expiry of a visible field.
    pub fn earliest_expiry(&self) -> Option<i64> {
        match self.held {
            HashSource::Packed(fields) => {
                let expiries = fields.filter_map(|field| field.expiry);
                expiries.filter(|&at| at > self.now_ms).min()
            }
            HashSource::Large(hash) => hash.expiring.get(hash.expired(self.now_ms))?.0.expiry(),
            HashSource::Compact(..) => None,
        }
    }

    /// A field.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Field<'a>> {
        self.find(name).filter(|field| field.is_alive(self.now_ms))
    }

    /// Whether a field has expired but is not removed yet.
    pub fn is_expired(&self, name: &[u8]) -> bool {
        self.find(name).is_some_and(|field| !field.is_alive(self.now_ms))
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<Field<'a>> {
        match self.held {
            HashSource::Packed(fields) => {
                let field = fields.named(&Item::from_text(name).parts()).ok()?;
                Some(Field { name: field.name, value: field.value, expiry: field.expiry })
            }
            HashSource::Large(hash) => hash.fields.get(name).map(Field::of),
            HashSource::Compact(schema, values) => {
                let index = schema.index(name)?;
                Some(Field::shared(schema.name(index), value_at(values, index)))
            }
        }
    }

    /// Passes every field to `each`.
    pub fn each(&self, each: &mut dyn FnMut(Field<'a>)) {
        let _ = self.try_each(&mut |field| {
            each(field);
            ControlFlow::Continue(())
        });
    }

    /// Passes fields to `each` until it breaks. Names and values in a large hash are text, even if
    /// they are integers.
    pub fn try_each(&self, each: &mut dyn FnMut(Field<'a>) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut alive = |field: Field<'a>| {
            if field.is_alive(self.now_ms) { each(field) } else { ControlFlow::Continue(()) }
        };
        match self.held {
            HashSource::Packed(mut fields) => fields.try_for_each(|field| {
                alive(Field { name: field.name, value: field.value, expiry: field.expiry })
            }),
            HashSource::Large(hash) => match hash.ordered() {
                Some(order) => order.iter().map(|field| Field::of(*field)).try_for_each(alive),
                None => hash.fields.iter().map(Field::of).try_for_each(alive),
            },
            HashSource::Compact(schema, values) => {
                let fields = schema.names().zip(packed::Items::new(values));
                fields.map(|(name, value)| Field::shared(name, value)).try_for_each(alive)
            }
        }
    }

    /// A field drawn at random.
    pub fn random(&self, random: &mut dyn FnMut() -> u64) -> Option<Field<'a>> {
        if let (HashSource::Large(hash), false) = (self.held, self.has_expired()) {
            return hash.fields.random(&mut || random()).map(Field::of);
        }
        if let HashSource::Compact(schema, values) = self.held {
            let index = below(schema.len().max(1), random);
            return Some(Field::shared(schema.name(index), value_at(values, index)));
        }
        let mut left = below(self.alive().max(1), random);
        let mut found = None;
        let _ = self.try_each(&mut |field| {
            if left == 0 {
                found = Some(field);
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        found
    }

    /// Passes `count` fields drawn at random, possibly repeated, to `each`.
    pub fn draw(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Field<'a>),
    ) {
        let is_fast = matches!(self.held, HashSource::Large(_)) && !self.has_expired();
        if count <= 1 || is_fast {
            (0..count).filter_map(|_| self.random(random)).for_each(each);
            return;
        }
        let mut fields = Vec::new();
        self.each(&mut |field| fields.push(field));
        if !fields.is_empty() {
            (0..count).for_each(|_| each(fields[below(fields.len(), random)]));
        }
    }

    /// Passes `count` different fields drawn at random to `each`, or all if there are not more.
    pub fn sample(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Field<'a>),
    ) {
        let len = self.alive();
        match self.held {
            HashSource::Large(hash) if !self.has_expired() && count < len / DRAWN_SHARE => {
                let mut drawn = HashSet::with_capacity(count);
                while drawn.len() < count {
                    let Some(element) = hash.fields.random(&mut || random()) else { return };
                    if drawn.insert(element.address()) {
                        each(Field::of(element));
                    }
                }
            }
            HashSource::Packed(mut fields) if !self.has_expired() => {
                for passed in gaps(len, count, random) {
                    let Some(field) = fields.nth(passed) else { return };
                    each(Field { name: field.name, value: field.value, expiry: field.expiry });
                }
            }
            _ => {
                let mut chosen = choose(len, count, random);
                let _ = self.try_each(&mut |field| match chosen.next() {
                    Some(true) => {
                        each(field);
                        ControlFlow::Continue(())
                    }
                    Some(false) => ControlFlow::Continue(()),
                    None => ControlFlow::Break(()),
                });
            }
        }
    }

    /// Passes the fields from the cursor on to `each`: about `count` of a large hash; all of a
    /// small one or of one in insertion order. Returns the next cursor, 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, each: &mut dyn FnMut(Field<'a>)) -> u64 {
        match self.held {
            HashSource::Large(hash) if hash.ordered().is_none() => {
                hash.fields.scan(cursor, count, |element| {
                    let field = Field::of(element);
                    if field.is_alive(self.now_ms) {
                        each(field);
                    }
                })
            }
            _ => {
                self.each(each);
                0
            }
        }
    }
}
