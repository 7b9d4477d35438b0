//! Builds a set from members added one by one, before it has an entry.

use crate::structures::entry::Entry;
use crate::structures::form::Form;
use crate::structures::intset::{Edit, IntSet};
use crate::structures::key_hash::KeyHasher;
use crate::structures::large::Large;
use crate::structures::packed::Item;
use crate::structures::set::joining::{Joining, joining, unpacked};
use crate::structures::set::{Set, SetEncoding, SetRef, SetThresholds};
use petrel_heap::Cache;

/// A set under construction: an intset for as long as possible.
pub(crate) struct SetBuilder<'a> {
    built: Built,
    encoding: SetEncoding,
    limits: SetThresholds,
    hasher: &'a KeyHasher,
}

enum Built {
    Packed(Form, Vec<u8>),
    Large(Set),
}

impl<'a> SetBuilder<'a> {
    /// An empty set.
    pub fn new(limits: SetThresholds, hasher: &'a KeyHasher) -> Self {
        let built = Built::Packed(Form::Intset, IntSet::pack(&[]));
        SetBuilder { built, encoding: SetEncoding::Intset, limits, hasher }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.built {
            Built::Packed(form, items) => SetRef::packed(*form, items).map_or(0, |set| set.len()),
            Built::Large(set) => set.len(),
        }
    }

    /// Adds an absent member.
    pub fn add(&mut self, member: Item<'_>, cache: &mut Cache) {
        let mut scratch = itoa::Buffer::new();
        let (form, items) = match &mut self.built {
            Built::Packed(form, items) => (form, items),
            Built::Large(set) => {
                return set.insert(member.bytes(&mut scratch), &self.limits, cache);
            }
        };
        let member = match member {
            Item::Text(text) => Item::from_text(text),
            member => member,
        };
        let empty = *form == Form::Intset && items.len() == 1;
        if empty && !matches!(member, Item::Int(_)) {
            (*form, *items) = (Form::Set, Vec::new());
            self.encoding = SetEncoding::Listpack;
        }
        let Some((joining, encoding)) = joining(*form, items, self.encoding, &member, &self.limits)
        else {
            return;
        };
        self.encoding = encoding;
        match joining {
            Joining::Ints(Edit::Insert { at, bytes, len }) => {
                items.splice(at..at, bytes[..len].iter().copied());
            }
            Joining::Ints(Edit::Rewrite(bytes)) => *items = bytes,
            Joining::Ints(Edit::Remove { .. }) => {}
            Joining::Append => member.pack(items),
            Joining::Unpack => {
                (*form, *items) = (Form::Set, unpacked(IntSet::new(items)));
                member.pack(items);
            }
            Joining::Enlarge => {
                if let Some(members) = SetRef::packed(*form, items) {
                    let mut set = Set::of(members, encoding, self.hasher, cache);
                    set.insert(member.bytes(&mut scratch), &self.limits, cache);
                    self.built = Built::Large(set);
                }
            }
        }
    }

    /// An entry with the set, which is not empty.
    pub fn entry(self, key: &[u8], access: u32, cache: &mut Cache) -> Entry {
        match self.built {
            Built::Packed(form, items) => {
                let beyond = self.encoding.is_beyond();
                Entry::packed_collection(cache, key, form, beyond, &items, None, access)
            }
            Built::Large(set) => {
                Entry::large_collection(cache, key, Box::new(Large::Set(set)), None, access)
            }
        }
    }
}
