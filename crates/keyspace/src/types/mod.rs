//! Collections: lists, sets, sorted sets, hashes and streams.
//!
//! A small collection is *packed*: its items lie inline in the entry, behind the key
//! ([`crate::packed`]), and a change splices them. A large one is a [`Large`], an allocation of its
//! own. When a collection goes from one to the other is a question of speed and memory, and is not
//! what `OBJECT ENCODING` answers: that follows Redis's thresholds ([`crate::TypeLimits`]) and
//! stays once it has changed, so a packed collection may be *beyond* them.
//!
//! Each type is a file: the structure of the large form, a reader over both forms, and the mutators
//! of [`crate::Handle`], which record one effect per changed element.

pub(crate) mod hash;
pub mod intset;
pub mod list;
pub(crate) mod rank_tree;
pub(crate) mod set;
pub mod sorted_set;
pub mod stream;

use crate::access::View;
use crate::effect::{Effect, Removal};
use crate::entry::Entry;
use crate::handle::{Handle, Key};
use crate::table::Position;
use hash::Hash;
use list::large::List;
use petrel_heap::Cache;
use set::Set;
use sorted_set::SortedSet;
use stream::Stream;

/// What a key holds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Type {
    /// Bytes.
    String,
    /// A sequence of strings.
    List,
    /// Distinct strings.
    Set,
    /// Distinct strings, ordered by a score of each.
    SortedSet,
    /// Fields with a string each.
    Hash,
    /// A log of entries with fields.
    Stream,
}

impl Type {
    /// All of them.
    pub const ALL: [Type; 6] =
        [Type::String, Type::List, Type::Set, Type::SortedSet, Type::Hash, Type::Stream];

    /// The name that `TYPE` answers.
    pub const fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
        }
    }
}

/// The key holds another type than the operation is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WrongType;

impl std::fmt::Display for WrongType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the key holds a value of another type")
    }
}

impl std::error::Error for WrongType {}

/// How a packed collection is laid out; of a large one, which type it is. Three bits of the entry's
/// first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Form {
    /// Items in order.
    List = 0,
    /// Members in the order in which they came.
    Set = 1,
    /// Integers in ascending order, each as wide as the widest.
    Intset = 2,
    /// Members, each followed by its score, in the order of scores.
    SortedSet = 3,
    /// Fields, each followed by its value, in the order in which they came.
    Hash = 4,
    /// Never packed.
    Stream = 5,
    /// A hash some of whose fields have an expiry. Packed: the earliest of them, then fields, each
    /// followed by its value and its expiry.
    ExpiringHash = 6,
}

impl Form {
    /// From the bits that an entry keeps.
    #[inline]
    pub fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Form::List,
            1 => Form::Set,
            2 => Form::Intset,
            3 => Form::SortedSet,
            4 => Form::Hash,
            6 => Form::ExpiringHash,
            _ => Form::Stream,
        }
    }

    /// The type.
    #[inline]
    pub fn type_of(self) -> Type {
        match self {
            Form::List => Type::List,
            Form::Set | Form::Intset => Type::Set,
            Form::SortedSet => Type::SortedSet,
            Form::Hash | Form::ExpiringHash => Type::Hash,
            Form::Stream => Type::Stream,
        }
    }

    /// `OBJECT ENCODING` of packed items, within the thresholds or `beyond` them.
    pub fn encoding(self, beyond: bool) -> &'static str {
        match (self, beyond) {
            (Form::Stream, _) => "stream",
            (Form::Intset, false) => "intset",
            (Form::ExpiringHash, false) => "listpackex",
            (_, false) => "listpack",
            (Form::List, true) => "quicklist",
            (Form::Set | Form::Intset | Form::Hash | Form::ExpiringHash, true) => "hashtable",
            (Form::SortedSet, true) => "skiplist",
        }
    }
}

/// A large collection. The entry of its key points at it.
pub(crate) enum Large {
    /// A list.
    List(List),
    /// A stream.
    Stream(Stream),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A hash.
    Hash(Hash),
}

impl Large {
    /// Which type it is.
    pub fn form(&self) -> Form {
        match self {
            Large::List(_) => Form::List,
            Large::Stream(_) => Form::Stream,
            Large::Set(_) => Form::Set,
            Large::SortedSet(_) => Form::SortedSet,
            Large::Hash(hash) => hash.form(),
        }
    }

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        match self {
            Large::List(list) => list.encoding(),
            Large::Stream(_) => "stream",
            Large::Set(set) => set.encoding(),
            Large::SortedSet(set) => set.encoding(),
            Large::Hash(hash) => hash.encoding(),
        }
    }

    /// What it takes to free it: the number of its elements, or of what holds several.
    pub fn len(&self) -> usize {
        match self {
            Large::List(list) => list.chunks(),
            Large::Stream(stream) => stream.pieces(),
            Large::Set(set) => set.len(),
            Large::SortedSet(set) => set.len(),
            Large::Hash(hash) => hash.len(),
        }
    }

    /// Bytes that it occupies, itself included; told without walking it.
    pub fn footprint(&self) -> usize {
        size_of::<Large>()
            + match self {
                Large::List(list) => list.footprint(),
                Large::Stream(stream) => stream.footprint() - size_of::<Stream>(),
                Large::Set(set) => set.footprint(),
                Large::SortedSet(set) => set.footprint(),
                Large::Hash(hash) => hash.footprint(),
            }
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self, cache: &mut Cache) -> Box<Self> {
        Box::new(match self {
            Large::List(list) => Large::List(list.duplicate(cache)),
            Large::Stream(stream) => Large::Stream(stream.clone()),
            Large::Set(set) => Large::Set(set.duplicate(cache)),
            Large::SortedSet(set) => Large::SortedSet(set.duplicate(cache)),
            Large::Hash(hash) => Large::Hash(hash.duplicate(cache)),
        })
    }

    /// Moves some of what lies at addresses that are marked to fresh blocks (to leave sparse
    /// slabs), for some ten microseconds. Returns where to go on, none at the end; 0 is the
    /// beginning. The footprint may change.
    pub fn relocate(
        &mut self,
        cursor: u64,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> Option<u64> {
        match self {
            Large::List(list) => list.relocate(cursor, is_marked, cache),
            // Nothing of it lies in slabs.
            Large::Stream(_) => None,
            Large::Set(set) => set.relocate(cursor, is_marked, cache),
            Large::SortedSet(set) => set.relocate(cursor, is_marked, cache),
            Large::Hash(hash) => hash.relocate(cursor, is_marked, cache),
        }
    }

    /// Frees it with all its elements.
    pub fn release(self, cache: &mut Cache) {
        match self {
            Large::List(list) => list.release(cache),
            Large::Stream(stream) => stream.release(cache),
            Large::Set(set) => set.release(cache),
            Large::SortedSet(set) => set.release(cache),
            Large::Hash(hash) => hash.release(cache),
        }
    }
}

/// What the mutators of collections have in common.
impl Handle {
    /// Finds the collection at a key to be changed, which counts as a use of it; none if the key
    /// does not exist.
    #[inline]
    pub(crate) fn find_type(
        &mut self,
        db: u16,
        key: Key<'_>,
        of: Type,
    ) -> Result<Option<(Position, Entry)>, WrongType> {
        let Some((at, entry)) = self.find_alive(db, key) else { return Ok(None) };
        if entry.type_of() != of {
            return Err(WrongType);
        }
        self.clock.touch(entry);
        Ok(Some((at, entry)))
    }

    /// Makes a small collection at a key that does not exist. The caller records the effect.
    pub(crate) fn insert_packed(
        &mut self,
        db: u16,
        key: Key<'_>,
        form: Form,
        beyond: bool,
        items: &[u8],
    ) -> Entry {
        let access = self.initial_access(key.hash);
        let cache = &mut self.cache;
        let entry = Entry::packed_collection(cache, key.bytes, form, beyond, items, None, access);
        self.insert_entry(db, key, entry);
        entry
    }

    /// Makes a large collection at a key that does not exist. The caller records the effect.
    pub(crate) fn insert_large(&mut self, db: u16, key: Key<'_>, large: Large) -> Entry {
        let access = self.initial_access(key.hash);
        let large = Box::new(large);
        let entry = Entry::large_collection(&mut self.cache, key.bytes, large, None, access);
        self.insert_entry(db, key, entry);
        entry
    }

    /// Replaces `remove` bytes of a small collection's items, from `offset` on, with `insert`;
    /// gives back the entry where it lies now. What was borrowed from the old one stays
    /// readable until the stripe is let go of, unless it did not move.
    #[inline]
    pub(crate) fn splice(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: (Position, Entry),
        offset: usize,
        remove: usize,
        insert: &[u8],
    ) -> Entry {
        self.splice_with(db, key, place, offset, remove, [insert])
    }

    /// The same with what is to be there in several parts.
    #[inline]
    pub(crate) fn splice_with<const N: usize>(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        offset: usize,
        remove: usize,
        insert: [&[u8]; N],
    ) -> Entry {
        let new = entry.splice(&mut self.cache, offset, remove, insert);
        if new != entry {
            self.replace_entry(db, key, at, entry, new);
            self.bury_hollow(entry);
        }
        new
    }

    /// Replaces all items of a small collection, its form and whether it is beyond the thresholds.
    pub(crate) fn repack(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        form: Form,
        beyond: bool,
        items: &[u8],
    ) -> Entry {
        let (expiry, access) = (entry.expiry(), entry.access());
        let cache = &mut self.cache;
        let new = Entry::packed_collection(cache, key.bytes, form, beyond, items, expiry, access);
        self.replace_entry(db, key, at, entry, new);
        self.bury(entry);
        new
    }

    /// Puts a large collection in the place of a small one; expiry and access are kept.
    pub(crate) fn enlarge(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        large: Large,
    ) -> Entry {
        let (expiry, access) = (entry.expiry(), entry.access());
        let large = Box::new(large);
        let new = Entry::large_collection(&mut self.cache, key.bytes, large, expiry, access);
        self.replace_entry(db, key, at, entry, new);
        self.bury(entry);
        new
    }

    /// Changes a large collection in place and accounts for what it grew or shrank by. None if the
    /// entry is small.
    #[inline]
    pub(crate) fn change_large<T>(
        &mut self,
        db: u16,
        key: Key<'_>,
        entry: Entry,
        change: impl FnOnce(&mut Large, &mut Cache) -> T,
    ) -> Option<T> {
        let large = entry.large_mut()?;
        let before = large.footprint() as i64;
        let result = change(large, &mut self.cache);
        let grown = large.footprint() as i64 - before;
        if grown != 0 {
            self.reweigh(db, key, grown);
        }
        Some(result)
    }

    /// Makes a change of an entry after which its elements may expire though they did not before,
    /// or the other way round.
    pub(crate) fn change_expiring(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        change: impl FnOnce(Entry),
    ) {
        let before = entry.elements_expire();
        change(entry);
        let after = entry.elements_expire();
        if before != after {
            let delta = i64::from(after) - i64::from(before);
            self.counters.dbs[usize::from(db)].expiring.add(delta);
            // The slot says it as well, so that the sweep need not read the entry.
            self.stripe(key.hash).table_mut(db, usize::from(self.ks.databases)).replace(at, entry);
        }
    }

    /// Removes a key whose collection has become empty.
    pub(crate) fn remove_emptied(&mut self, db: u16, key: Key<'_>) {
        if let Some((at, entry)) = self.find(db, key) {
            self.remove_at(db, key, at, entry, Removal::Emptied);
        }
    }

    /// Sets a key to a copy of a value of any type, whatever it held before. Both stripes are held.
    pub fn store_copy(&mut self, db: u16, key: Key<'_>, value: View<'_>, expiry: Option<i64>) {
        let entry = value.entry().duplicate(&mut self.cache, key.bytes, expiry);
        self.put_entry(db, key, entry);
        let effect = Effect::Store { key: key.bytes, value: View::new(entry), expiry };
        self.record(db, key, &effect);
    }

    /// Puts an entry at its key, in the place of whatever is there.
    pub(crate) fn put_entry(&mut self, db: u16, key: Key<'_>, entry: Entry) {
        let found = if self.notes_events() { self.find_alive(db, key) } else { self.find(db, key) };
        match found {
            Some((at, old)) => {
                self.before_change(db, old);
                self.note_replaced(db, key, old.type_of(), entry.type_of());
                self.replace_entry(db, key, at, old, entry);
                self.bury(old);
            }
            None => self.insert_entry(db, key, entry),
        }
    }
}
