//! Sets: distinct strings.
//!
//! | form | content | until |
//! |---|---|---|
//! | intset ([`intset`](super::intset)) | integers, ascending | a member is no integer, or full |
//! | packed items | members in insertion order | full |
//! | [`Set`] | a [`Dict`] of members | it is removed |
//!
//! The first two forms are full at 4,096 bytes; packed items at 128 members as well, once the set
//! is nominally a hash table.

pub(crate) mod builder;
pub(crate) mod encoding;
pub(crate) mod joining;
mod read;

pub use read::SetRef;

use crate::structures::bucket::Item as _;
use crate::structures::dict::Dict;
use crate::structures::element::Element;
use crate::structures::key_hash::{KeyHash, KeyHasher};
use crate::structures::packed::Item;
use crate::structures::random::choose;
use encoding::{SetEncoding, SetThresholds};
use petrel_heap::Cache;

/// If more than one in this many members is popped, they are chosen in a walk over all.
pub(crate) const POPPED_SHARE: usize = 4;

/// Packed items are walked, so a set that is nominally a hash table has at most this many.
pub(crate) const WALKED_MAX: usize = 128;

/// A set of many members.
pub(crate) struct Set {
    pub(super) members: Dict,
    pub(crate) encoding: SetEncoding,
}

impl Set {
    /// A set of these members, which are distinct.
    pub(crate) fn of(
        members: SetRef<'_>,
        encoding: SetEncoding,
        hasher: &KeyHasher,
        cache: &mut Cache,
    ) -> Self {
        let mut set = Set { members: Dict::new(hasher), encoding };
        members.each(&mut |member| {
            let element = Element::member(cache, member.bytes(&mut itoa::Buffer::new()));
            set.members.insert(element, cache);
        });
        set
    }

    /// Adds a member; false if it is present.
    pub(crate) fn add(&mut self, member: &[u8], limits: &SetThresholds, cache: &mut Cache) -> bool {
        let hash = self.members.hasher().hash(member);
        if self.members.find_hashed(member, hash).is_some() {
            return false;
        }
        self.insert_hashed(member, hash, limits, cache);
        true
    }

    /// Adds an absent member.
    fn insert(&mut self, member: &[u8], limits: &SetThresholds, cache: &mut Cache) {
        self.insert_hashed(member, self.members.hasher().hash(member), limits, cache);
    }

    fn insert_hashed(
        &mut self,
        member: &[u8],
        hash: KeyHash,
        limits: &SetThresholds,
        cache: &mut Cache,
    ) {
        if !self.encoding.is_beyond() {
            let item = Item::from_text(member);
            self.encoding = self.encoding.joined(self.members.len(), &item, 0, limits);
        }
        self.members.insert_hashed(Element::member(cache, member), hash, cache);
    }

    /// Removes a member; false if it is absent.
    pub(crate) fn remove(&mut self, member: &[u8], cache: &mut Cache) -> bool {
        let Some((place, _)) = self.members.find(member) else { return false };
        self.members.remove(place, cache).release(cache);
        true
    }

    /// Removes a random member and passes it to `each`.
    pub(crate) fn pop(
        &mut self,
        random: &mut dyn FnMut() -> u64,
        cache: &mut Cache,
        each: &mut dyn FnMut(&[u8]),
    ) {
        let drawn = self.members.random(&mut || random());
        if let Some((place, element)) = drawn.and_then(|element| self.members.find(element.key())) {
            each(element.key());
            self.members.remove(place, cache).release(cache);
        }
    }

    /// Takes out `count` members drawn at random; the caller releases them. Walks over all members.
    pub(crate) fn take(
        &mut self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        cache: &mut Cache,
    ) -> Vec<Element> {
        let mut chosen = choose(self.members.len(), count, random);
        self.members.extract(&mut |_| chosen.next() == Some(true), cache)
    }

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        self.encoding.name()
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes outside this struct.
    pub fn footprint(&self) -> usize {
        self.members.footprint()
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        Set { members: self.members.duplicate(cache), encoding: self.encoding }
    }

    /// Moves members to fresh blocks: [`Large::relocate`].
    pub fn relocate(
        &mut self,
        cursor: u64,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> Option<u64> {
        self.members.relocate(cursor, is_marked, &mut |_, _| {}, cache)
    }

    /// Frees every member.
    pub fn release(self, cache: &mut Cache) {
        self.members.release(cache);
    }
}
