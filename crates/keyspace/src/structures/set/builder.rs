//! Making a set of members that come one by one, before there is an entry for it.

use crate::structures::entry::Entry;
use crate::structures::form::Form;
use crate::structures::intset::{Edit, IntSet};
use crate::structures::key_hash::KeyHasher;
use crate::structures::large::Large;
use crate::structures::packed::Item;
use crate::structures::set::joining::{Joining, joining, unpacked};
use crate::structures::set::{Encoding, Limits, Set, SetRef};
use petrel_heap::Cache;

/// A set in the making: an intset for as long as it can be one.
pub(crate) struct SetBuilder<'a> {
    held: Held,
    encoding: Encoding,
    limits: Limits,
    hasher: &'a KeyHasher,
}

enum Held {
    Packed(Form, Vec<u8>),
    Large(Set),
}

impl<'a> SetBuilder<'a> {
    /// A set without members.
    pub fn new(limits: Limits, hasher: &'a KeyHasher) -> Self {
        let held = Held::Packed(Form::Intset, IntSet::pack(&[]));
        SetBuilder { held, encoding: Encoding::Intset, limits, hasher }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.held {
            Held::Packed(form, items) => SetRef::packed(*form, items).map_or(0, |set| set.len()),
            Held::Large(set) => set.len(),
        }
    }

    /// Adds a member that is not there.
    pub fn add(&mut self, member: Item<'_>, cache: &mut Cache) {
        let mut scratch = itoa::Buffer::new();
        let (form, items) = match &mut self.held {
            Held::Packed(form, items) => (form, items),
            Held::Large(set) => {
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
            self.encoding = Encoding::Listpack;
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
                    self.held = Held::Large(set);
                }
            }
        }
    }

    /// An entry that holds the set, which has a member.
    pub fn entry(self, key: &[u8], access: u32, cache: &mut Cache) -> Entry {
        match self.held {
            Held::Packed(form, items) => {
                let beyond = self.encoding.is_beyond();
                Entry::packed_collection(cache, key, form, beyond, &items, None, access)
            }
            Held::Large(set) => {
                Entry::large_collection(cache, key, Box::new(Large::Set(set)), None, access)
            }
        }
    }
}
