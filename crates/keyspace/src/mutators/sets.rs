//! Mutators of sets.

use crate::handle::Handle;
use crate::state::effect::Effect;
use crate::state::event::class;
use crate::structures::bucket::Item as _;
use crate::structures::entry::Entry;
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::intset::{Edit, IntSet};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::packed::{self, Item, Items};
use crate::structures::random::{below, choose};
use crate::structures::set::encoding::{SetEncoding, SetThresholds};
use crate::structures::set::joining::{Joining, joining, unpacked};
use crate::structures::set::{POPPED_SHARE, Set, SetRef};
use crate::structures::sizes::PACKED_MAX;
use crate::structures::table::Position;
use petrel_heap::Cache;

type Found = (Position, Entry);

/// Maximum size of the packed members of a new set, in bytes.
const PACKED_AT_ONCE_MAX: usize = PACKED_MAX / 4;

/// The packed members of a new set.
struct Packing<'a> {
    /// Number of members taken from the front of the given ones.
    taken: usize,
    /// New ones among them, after the first. A set of one member allocates nothing here.
    others: Vec<&'a [u8]>,
}

impl<'a> Packing<'a> {
    /// The leading integers, as far as an intset may hold them; and the same integers in ascending
    /// order.
    fn of_ints(members: &[&'a [u8]], limits: &SetThresholds) -> (Self, Vec<i64>) {
        let mut packing = Packing { taken: 0, others: Vec::new() };
        let mut ints: Vec<i64> = Vec::new();
        for &member in members {
            let item = Item::from_text(member);
            let Item::Int(n) = item else { break };
            if let Err(at) = ints.binary_search(&n) {
                let encoding = SetEncoding::Intset.joined(ints.len(), &item, 0, limits);
                if encoding != SetEncoding::Intset || ints.len() == PACKED_AT_ONCE_MAX / 8 {
                    break;
                }
                ints.insert(at, n);
                if packing.taken > 0 {
                    packing.others.push(member);
                }
            }
            packing.taken += 1;
        }
        (packing, ints)
    }

    /// The first member and the following strings, as long as the encoding stays and a walk over
    /// all is short; packed into `items`.
    fn with_texts(
        mut self,
        members: &[&'a [u8]],
        encoding: SetEncoding,
        limits: &SetThresholds,
        items: &mut Vec<u8>,
    ) -> Self {
        Item::from_text(members[0]).pack(items);
        for &member in &members[1..] {
            let item = Item::from_text(member);
            if let Err(len) = packed::find(items, &item.parts(), 1) {
                let stays = encoding.joined(len, &item, 0, limits) == encoding;
                if !stays || items.len() + item.packed_len() > PACKED_AT_ONCE_MAX {
                    break;
                }
                item.pack(items);
                self.others.push(member);
            }
            self.taken += 1;
        }
        self
    }
}

impl Handle {
    /// Adds members to a set, which is created if the key does not exist; returns the number of new
    /// ones.
    pub fn set_add(
        &mut self,
        db: u16,
        key: Key<'_>,
        members: &[&[u8]],
    ) -> Result<usize, WrongType> {
        let limits = SetThresholds::of(&self.ks.limits);
        if members.is_empty() {
            return Ok(0);
        }
        let (mut place, rest, mut added) = match self.find_type(db, key, Type::Set)? {
            Some(place) => {
                self.foresee_members(place.1, members.len(), &limits);
                (place, members, 0)
            }
            None => {
                let (taken, added) = self.make_set(db, key, members, &limits);
                match self.find(db, key) {
                    Some(place) if taken < members.len() => (place, &members[taken..], added),
                    _ => return Ok(added),
                }
            }
        };
        for member in rest {
            if self.add_member(db, key, &mut place, member, &limits) {
                added += 1;
                self.record(db, key, &Effect::MemberAdd { key: key.bytes, member });
            }
        }
        Ok(added)
    }

    /// Removes members from a set, and the key with the last of them; returns the number removed.
    pub fn set_remove(
        &mut self,
        db: u16,
        key: Key<'_>,
        members: &[&[u8]],
    ) -> Result<usize, WrongType> {
        let Some(mut place) = self.find_type(db, key, Type::Set)? else { return Ok(0) };
        let mut removed = 0;
        for member in members {
            if !self.remove_member(db, key, &mut place, member) {
                continue;
            }
            removed += 1;
            self.record(db, key, &Effect::MemberRemove { key: key.bytes, member });
            if SetRef::of(place.1).is_none_or(|set| set.is_empty()) {
                self.remove_emptied(db, key);
                break;
            }
        }
        Ok(removed)
    }

    /// Removes `count` members drawn at random, or all if there are not more, and passes each to
    /// `each`.
    pub fn set_pop(
        &mut self,
        db: u16,
        key: Key<'_>,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), WrongType> {
        let Some(place) = self.find_type(db, key, Type::Set)? else { return Ok(()) };
        let Some(set) = SetRef::of(place.1) else { return Ok(()) };
        let len = set.len();
        if count >= len {
            set.each(&mut |member| each(member.bytes(&mut itoa::Buffer::new())));
            self.event(class::SET, "spop", db, key.bytes);
            self.remove_emptied(db, key);
        } else if place.1.packed_form().is_some() {
            self.pop_packed(db, key, place, (len, count), random, each);
        } else if count > len / POPPED_SHARE {
            let taken =
                self.change_set(db, key, place.1, |set, cache| set.take(count, random, cache));
            for element in taken.unwrap_or_default() {
                each(element.key());
                let effect = Effect::MemberRemove { key: key.bytes, member: element.key() };
                self.record(db, key, &effect);
                element.release(&mut self.cache);
            }
        } else {
            let mut popped = std::mem::take(&mut self.scratch);
            for _ in 0..count {
                popped.clear();
                self.change_set(db, key, place.1, |set, cache| {
                    set.pop(random, cache, &mut |member| popped.extend_from_slice(member));
                });
                each(&popped);
                self.record(db, key, &Effect::MemberRemove { key: key.bytes, member: &popped });
            }
            self.scratch = popped;
        }
        Ok(())
    }

    /// Removes `count` of `len` packed members, fewer than all.
    fn pop_packed(
        &mut self,
        db: u16,
        key: Key<'_>,
        mut place: Found,
        (len, count): (usize, usize),
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8]),
    ) {
        let Some(form) = place.1.packed_form() else { return };
        let chosen: Vec<usize> = if count == 1 {
            vec![below(len, random)]
        } else {
            let marks = choose(len, count, random).enumerate();
            marks.filter_map(|(i, chosen)| chosen.then_some(i)).collect()
        };
        // From the last to the first, so that the remaining indexes stay valid.
        for i in chosen.into_iter().rev() {
            let Some(items) = place.1.packed() else { return };
            let (member, at, len) = if form == Form::Intset {
                let ints = IntSet::new(items);
                let (at, len) = ints.place(i);
                (Item::Int(ints.get(i)), at, len)
            } else {
                let mut walk = Items::new(items);
                walk.skip_items(i);
                let at = walk.offset();
                let Some(member) = walk.next() else { return };
                (member, at, walk.offset() - at)
            };
            let mut scratch = itoa::Buffer::new();
            let member = member.bytes(&mut scratch);
            each(member);
            self.record(db, key, &Effect::MemberRemove { key: key.bytes, member });
            place.1 = self.splice(db, key, place, at, len, &[]);
        }
    }

    /// Creates a set of the first member and of the following ones that can be packed with it.
    /// Returns the number of `members` used, and of distinct ones among them.
    fn make_set(
        &mut self,
        db: u16,
        key: Key<'_>,
        members: &[&[u8]],
        limits: &SetThresholds,
    ) -> (usize, usize) {
        let item = Item::from_text(members[0]);
        let encoding =
            SetEncoding::initial(&item, members.len(), limits).joined(0, &item, 0, limits);
        let first = Packing { taken: 1, others: Vec::new() };
        let packing = match item {
            Item::Int(n) if encoding == SetEncoding::Intset && members.len() == 1 => {
                let (bytes, len) = IntSet::pack_one(n);
                self.insert_packed(db, key, Form::Intset, false, &bytes[..len]);
                first
            }
            Item::Int(_) if encoding == SetEncoding::Intset => {
                let (packing, ints) = Packing::of_ints(members, limits);
                self.insert_packed(db, key, Form::Intset, false, &IntSet::pack(&ints));
                packing
            }
            _ if item.packed_len() <= PACKED_MAX => {
                let mut items = std::mem::take(&mut self.scratch);
                items.clear();
                let packing = first.with_texts(members, encoding, limits, &mut items);
                self.insert_packed(db, key, Form::Set, encoding.is_beyond(), &items);
                self.scratch = items;
                packing
            }
            _ => {
                let none = SetRef::packed(Form::Set, &[]);
                let Some(none) = none else { return (members.len(), 0) };
                let mut set = Set::of(none, encoding, &self.ks.hasher, &mut self.cache);
                set.add(members[0], limits, &mut self.cache);
                self.insert_large(db, key, Large::Set(set));
                first
            }
        };
        for member in members[..1].iter().chain(&packing.others) {
            self.record(db, key, &Effect::MemberAdd { key: key.bytes, member });
        }
        (packing.taken, 1 + packing.others.len())
    }

    /// Adapts the encoding to the number of members that a command is about to add.
    #[inline]
    fn foresee_members(&mut self, entry: Entry, count: usize, limits: &SetThresholds) {
        if let Some(form) = entry.packed_form() {
            let encoding = SetEncoding::of_packed(form, entry.is_beyond());
            if encoding.before(count, limits) != encoding {
                entry.set_packed_form(form, true);
            }
        } else if let Some(set) = entry.large_mut().and_then(Large::set_mut) {
            set.encoding = set.encoding.before(count, limits);
        }
    }

    /// Adds a member; false if it is present. The caller records the effect.
    fn add_member(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: &mut Found,
        member: &[u8],
        limits: &SetThresholds,
    ) -> bool {
        let (Some(form), Some(items)) = (place.1.packed_form(), place.1.packed()) else {
            let added =
                self.change_set(db, key, place.1, |set, cache| set.add(member, limits, cache));
            return added.unwrap_or(false);
        };
        let item = Item::from_text(member);
        let encoding = SetEncoding::of_packed(form, place.1.is_beyond());
        let Some((joining, encoding)) = joining(form, items, encoding, &item, limits) else {
            return false;
        };
        let beyond = encoding.is_beyond();
        match joining {
            Joining::Ints(edit) => {
                place.1 = match edit {
                    Edit::Insert { at, bytes, len } => {
                        self.splice(db, key, *place, at, 0, &bytes[..len])
                    }
                    Edit::Remove { at, len } => self.splice(db, key, *place, at, len, &[]),
                    Edit::Rewrite(bytes) => self.repack(db, key, *place, form, beyond, &bytes),
                };
                place.1.set_packed_form(form, beyond);
            }
            Joining::Append => {
                let mut packed = std::mem::take(&mut self.scratch);
                packed.clear();
                item.pack(&mut packed);
                place.1 = self.splice(db, key, *place, items.len(), 0, &packed);
                place.1.set_packed_form(form, beyond);
                self.scratch = packed;
            }
            Joining::Unpack => {
                let mut all = unpacked(IntSet::new(items));
                item.pack(&mut all);
                place.1 = self.repack(db, key, *place, Form::Set, beyond, &all);
            }
            Joining::Enlarge => {
                let Some(members) = SetRef::packed(form, items) else { return false };
                let (hasher, cache) = (&self.ks.hasher, &mut self.cache);
                let mut set = Set::of(members, encoding, hasher, cache);
                set.add(member, limits, cache);
                place.1 = self.enlarge(db, key, *place, Large::Set(set));
            }
        }
        true
    }

    /// Changes a large set in place. None if the entry is small.
    fn change_set<T>(
        &mut self,
        db: u16,
        key: Key<'_>,
        entry: Entry,
        change: impl FnOnce(&mut Set, &mut Cache) -> T,
    ) -> Option<T> {
        self.change_large(db, key, entry, |large, cache| Some(change(large.set_mut()?, cache)))?
    }

    /// Removes a member; false if it is absent. The caller records the effect.
    fn remove_member(&mut self, db: u16, key: Key<'_>, place: &mut Found, member: &[u8]) -> bool {
        let (Some(form), Some(items)) = (place.1.packed_form(), place.1.packed()) else {
            let removed = self.change_set(db, key, place.1, |set, cache| set.remove(member, cache));
            return removed.unwrap_or(false);
        };
        let item = Item::from_text(member);
        let (at, len) = match (form, item) {
            (Form::Intset, Item::Int(n)) => match IntSet::new(items).removal(n) {
                Some(Edit::Remove { at, len }) => (at, len),
                _ => return false,
            },
            (Form::Intset, _) => return false,
            _ => match packed::find(items, &item.parts(), 1) {
                Ok(at) => (at, item.packed_len()),
                Err(_) => return false,
            },
        };
        place.1 = self.splice(db, key, *place, at, len, &[]);
        true
    }
}
