//! Sorted sets: distinct strings, each with a score, in the order of scores and of strings with the
//! same score.
//!
//! A small one is packed pairs ([`pairs`]). A large one is a dict of elements that hold member and
//! score, for lookups, and a tree of pointers to the same elements, for ranks and ranges.

mod pairs;
mod read;
mod scores;

pub use pairs::MemberRef;
pub use read::{LargeRef, Members, Ordered, Part, Run, SortedSetRef};

use super::rank_tree::{NODES, RankTree, Scored};
use super::{Form, Large, Type, WrongType};
use crate::bucket::Item as _;
use crate::dict::Dict;
use crate::effect::Effect;
use crate::element::Element;
use crate::entry::Entry;
use crate::handle::{Handle, Key};
use crate::hash::KeyHasher;
use crate::limits::TypeLimits;
use crate::packed::Item;
use crate::table::Position;
use pairs::{Pair, Pairs, Writer};
use petrel_heap::Cache;
use std::cmp::Ordering;
use std::ops::Range;

/// Packed pairs take at most this many bytes: a walk over them takes a microsecond.
const PACKED_PAIRS_MAX: usize = 2048;

/// Elements taken out of a large sorted set before they are freed.
const REMOVED_AT_ONCE: usize = 64;

impl Scored for Element {
    #[inline]
    fn score(self) -> f64 {
        Element::score(self)
    }
}

/// What became of a member's score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoreChange {
    /// What it was; none if the member was not there.
    pub old: Option<f64>,
    /// What it is; none if the member is still not there.
    pub new: Option<f64>,
}

/// A sorted set of many members.
pub(crate) struct SortedSet {
    members: Dict,
    order: RankTree<Element>,
    /// Past the thresholds of `OBJECT ENCODING`.
    beyond: bool,
}

/// The thresholds of `OBJECT ENCODING`.
#[derive(Clone, Copy)]
struct Thresholds {
    entries: usize,
    value: usize,
}

impl Thresholds {
    fn of(limits: &TypeLimits) -> Self {
        let limit = |limit: i64| usize::try_from(limit).unwrap_or(0);
        Thresholds {
            entries: limit(limits.zset_max_listpack_entries()),
            value: limit(limits.zset_max_listpack_value()),
        }
    }

    /// Whether a set of `len` members is past them that has just got this one.
    fn passed_by(self, len: usize, member: &[u8]) -> bool {
        len > self.entries || member.len() > self.value
    }
}

/// The order of members with their scores. Zeros of both signs are equal.
pub fn order(a: (&[u8], f64), b: (&[u8], f64)) -> Ordering {
    a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then_with(|| a.0.cmp(b.0))
}

/// True for what comes before a member with a score.
fn ahead_of(score: f64, member: &[u8]) -> impl Fn(f64, Element) -> bool {
    move |other, element| other < score || other == score && element.key() < member
}

impl SortedSet {
    fn new(hasher: &KeyHasher, beyond: bool) -> Self {
        SortedSet { members: Dict::new(hasher), order: RankTree::default(), beyond }
    }

    /// A set of members that are distinct and in order.
    fn from_sorted<'m>(
        hasher: &KeyHasher,
        members: impl Iterator<Item = (&'m [u8], f64)>,
        beyond: bool,
        cache: &mut Cache,
    ) -> Self {
        let mut set = SortedSet::new(hasher, beyond);
        let mut elements = Vec::with_capacity(members.size_hint().0);
        for (member, score) in members {
            let element = Element::scored(cache, member, score);
            set.members.insert(element, cache);
            elements.push(element);
        }
        set.order = RankTree::from_sorted(&elements, cache);
        set
    }

    /// The members with their scores.
    pub fn dict_mut(&mut self) -> &mut Dict {
        &mut self.members
    }

    /// The members with their scores.
    pub fn dict(&self) -> &Dict {
        &self.members
    }

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        Form::SortedSet.encoding(self.beyond)
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes behind this struct.
    pub fn footprint(&self) -> usize {
        self.members.footprint() + self.order.footprint()
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        let mut members = Dict::new(self.members.hasher());
        let mut elements = Vec::with_capacity(self.len());
        for element in self.order.iter() {
            let element = element.duplicate(cache);
            members.insert(element, cache);
            elements.push(element);
        }
        let order = RankTree::from_sorted(&elements, cache);
        SortedSet { members, order, beyond: self.beyond }
    }

    /// Moves members and nodes to fresh blocks: [`Large::relocate`]. First come the members, then,
    /// from [`NODES`] on, the nodes on the way to each rank.
    pub fn relocate(
        &mut self,
        cursor: u64,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> Option<u64> {
        if let Some(rank) = cursor.checked_sub(NODES) {
            let next = self.order.relocate(rank as usize, is_marked, cache);
            return next.map(|rank| NODES + rank as u64);
        }
        let order = &mut self.order;
        let mut moved = |old: Element, new: Element| {
            let rank = order.rank(ahead_of(old.score(), old.key()));
            order.replace(rank, new);
        };
        Some(self.members.relocate(cursor, is_marked, &mut moved, cache).unwrap_or(NODES))
    }

    /// Frees every member.
    pub fn release(self, cache: &mut Cache) {
        self.order.release(cache);
        self.members.release(cache);
    }

    fn rank_of(&self, element: Element) -> usize {
        self.order.rank(ahead_of(element.score(), element.key()))
    }

    fn change(
        &mut self,
        member: &[u8],
        thresholds: Thresholds,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
        cache: &mut Cache,
    ) -> ScoreChange {
        let found = self.members.get(member);
        let old = found.map(Element::score);
        let Some(new) = decide(old) else { return ScoreChange { old, new: old } };
        match found {
            Some(element) if old != Some(new) => self.move_to(element, new, cache),
            Some(_) => {}
            None => {
                self.add(member, new, cache);
                self.beyond |= thresholds.passed_by(self.len(), member);
            }
        }
        ScoreChange { old, new: Some(new) }
    }

    fn add(&mut self, member: &[u8], score: f64, cache: &mut Cache) {
        let element = Element::scored(cache, member, score);
        self.members.insert(element, cache);
        self.order.insert(element, ahead_of(score, member), cache);
    }

    /// Gives an element another score.
    fn move_to(&mut self, element: Element, score: f64, cache: &mut Cache) {
        self.members.before_change(element, cache);
        let (rank, member) = (self.rank_of(element), element.key());
        let ahead = ahead_of(score, member);
        let is_ahead = |other: Element| ahead(other.score(), other);
        let before = rank.checked_sub(1).and_then(|rank| self.order.get(rank));
        if before.is_none_or(is_ahead) && !self.order.get(rank + 1).is_some_and(is_ahead) {
            element.set_score(score);
            self.order.replace(rank, element);
        } else {
            self.order.remove(rank, cache);
            element.set_score(score);
            self.order.insert(element, ahead, cache);
        }
    }

    fn remove(&mut self, member: &[u8], cache: &mut Cache) -> Option<f64> {
        let (place, element) = self.members.find(member)?;
        let score = element.score();
        self.order.remove(self.rank_of(element), cache);
        self.members.remove(place, cache).release(cache);
        Some(score)
    }

    fn remove_range(&mut self, ranks: Range<usize>, cache: &mut Cache) {
        let mut left = ranks.len();
        while left > 0 {
            let mut removed = [None; REMOVED_AT_ONCE];
            let mut slots = removed.iter_mut();
            let next = ranks.start..ranks.start + left.min(REMOVED_AT_ONCE);
            left -= next.len();
            self.order.remove_range(next, cache, |element| {
                if let Some(slot) = slots.next() {
                    *slot = Some(element);
                }
            });
            for element in removed.into_iter().flatten() {
                if let Some((place, _)) = self.members.find(element.key()) {
                    self.members.remove(place, cache).release(cache);
                }
            }
        }
    }
}

/// Mutators.
impl Handle {
    /// Gives a member another score, or adds it: `decide` is told the score that it has, and tells
    /// the new one, or none to leave everything as it is. It is quickest where `decide` tells
    /// `score`. No score is NaN.
    ///
    /// # Errors
    /// If the key holds another type.
    #[inline]
    pub fn sorted_set_change(
        &mut self,
        db: u16,
        key: Key<'_>,
        member: &[u8],
        score: f64,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Result<ScoreChange, WrongType> {
        let change = match self.find_type(db, key, Type::SortedSet)? {
            None => {
                let new = decide(None);
                if let Some(score) = new {
                    let entry = self.sorted_set_entry(key, &[(score, member)]);
                    self.insert_entry(db, key, entry);
                }
                ScoreChange { old: None, new }
            }
            Some((at, entry)) => match entry.packed() {
                Some(pairs) => {
                    self.change_pairs(db, key, (at, entry), pairs, member, score, decide)
                }
                None => {
                    let thresholds = Thresholds::of(self.ks.limits());
                    self.change_sorted_set(db, key, entry, |set, cache| {
                        set.change(member, thresholds, decide, cache)
                    })
                }
            },
        };
        if let Some(score) = change.new.filter(|_| change.new != change.old) {
            self.record(db, key, &Effect::ScorePut { key: key.bytes, member, score });
        }
        Ok(change)
    }

    /// Makes a sorted set of members at a key that does not exist. False, and nothing is done, if
    /// it does, or if a member is named twice. They may be put in another order; no score is
    /// NaN.
    pub fn sorted_set_create(
        &mut self,
        db: u16,
        key: Key<'_>,
        members: &mut [(f64, &[u8])],
    ) -> bool {
        if self.find_alive(db, key).is_some() {
            return false;
        }
        members.sort_unstable_by(|a, b| a.1.cmp(b.1));
        if members.is_empty() || members.windows(2).any(|pair| pair[0].1 == pair[1].1) {
            return false;
        }
        members.sort_unstable_by(|a, b| order((a.1, a.0), (b.1, b.0)));
        let entry = self.sorted_set_entry(key, members);
        self.insert_entry(db, key, entry);
        for &mut (score, member) in members {
            self.record(db, key, &Effect::ScorePut { key: key.bytes, member, score });
        }
        true
    }

    /// Lets `OBJECT ENCODING` answer from now on as if a sorted set had had `len` members, if the
    /// key holds one: what Redis makes of a call that adds so many, even if some are added
    /// twice.
    pub fn sorted_set_expect(&mut self, db: u16, key: Key<'_>, len: usize) {
        if len <= Thresholds::of(self.ks.limits()).entries {
            return;
        }
        let Some((_, entry)) = self.find_alive(db, key) else { return };
        match entry.large_mut() {
            Some(Large::SortedSet(set)) => set.beyond = true,
            None if entry.packed_form() == Some(Form::SortedSet) => {
                entry.set_packed_form(Form::SortedSet, true);
            }
            _ => {}
        }
    }

    /// Removes a member; returns the score that it had.
    ///
    /// # Errors
    /// If the key holds another type.
    pub fn sorted_set_remove(
        &mut self,
        db: u16,
        key: Key<'_>,
        member: &[u8],
    ) -> Result<Option<f64>, WrongType> {
        let Some((at, entry)) = self.find_type(db, key, Type::SortedSet)? else { return Ok(None) };
        let (old, is_empty) = match entry.packed() {
            Some(pairs) => {
                let Some((_, pair)) = pairs::find(pairs, member) else {
                    return Ok(None);
                };
                let (score, place) = (pair.score, (at, entry));
                let (from, to) = (pair.at, pair.end);
                let entry =
                    self.edit_pairs(db, key, place, |out| pairs::remove(pairs, from, to, out));
                (Some(score), entry.packed().is_some_and(<[u8]>::is_empty))
            }
            None => self.change_sorted_set(db, key, entry, |set, cache| {
                (set.remove(member, cache), set.len() == 0)
            }),
        };
        if old.is_some() {
            self.record(db, key, &Effect::ScoreRemove { key: key.bytes, member });
        }
        if is_empty {
            self.remove_emptied(db, key);
        }
        Ok(old)
    }

    /// Removes the members of a range of ranks that ends within the set, if the key holds one.
    ///
    /// # Errors
    /// If the key holds another type.
    pub fn sorted_set_remove_range(
        &mut self,
        db: u16,
        key: Key<'_>,
        ranks: Range<usize>,
    ) -> Result<(), WrongType> {
        let Some((at, entry)) = self.find_type(db, key, Type::SortedSet)? else { return Ok(()) };
        let is_empty = match entry.packed() {
            Some(pairs) => {
                let mut walk = Pairs::new(pairs);
                walk.skip_pairs(ranks.start);
                let from = walk.spot();
                for Pair { member, .. } in walk.by_ref().take(ranks.len()) {
                    let mut text = itoa::Buffer::new();
                    let member = member.bytes(&mut text);
                    self.record(db, key, &Effect::ScoreRemove { key: key.bytes, member });
                }
                let (to, place) = (walk.spot(), (at, entry));
                let entry =
                    self.edit_pairs(db, key, place, |out| pairs::remove(pairs, from, to, out));
                entry.packed().is_some_and(<[u8]>::is_empty)
            }
            None => {
                if let Some(Large::SortedSet(set)) = entry.large() {
                    for element in set.order.range(ranks.clone()) {
                        let member = element.key();
                        self.record(db, key, &Effect::ScoreRemove { key: key.bytes, member });
                    }
                }
                self.change_sorted_set(db, key, entry, |set, cache| {
                    set.remove_range(ranks, cache);
                    set.len() == 0
                })
            }
        };
        if is_empty {
            self.remove_emptied(db, key);
        }
        Ok(())
    }

    /// Sets a key to a sorted set, whatever it held before, without an expiry; without members the
    /// key is removed. The members are distinct, in any order, no score is NaN; they are sorted
    /// here. True if a key is there afterwards or was before.
    pub fn sorted_set_store(
        &mut self,
        db: u16,
        key: Key<'_>,
        members: &mut [(f64, &[u8])],
    ) -> bool {
        if members.is_empty() {
            return self.remove(db, key);
        }
        members.sort_unstable_by(|a, b| order((a.1, a.0), (b.1, b.0)));
        let entry = self.sorted_set_entry(key, members);
        self.put_entry(db, key, entry);
        let effect = Effect::Store { key: key.bytes, value: crate::View::new(entry), expiry: None };
        self.record(db, key, &effect);
        true
    }

    /// An entry of sorted members.
    fn sorted_set_entry(&mut self, key: Key<'_>, members: &[(f64, &[u8])]) -> Entry {
        let thresholds = Thresholds::of(self.ks.limits());
        let len = members.len();
        let beyond = members.iter().any(|(_, member)| thresholds.passed_by(len, member));
        let access = self.initial_access(key.hash);
        let Handle { ks, cache, scratch, .. } = self;
        scratch.clear();
        if pack_all(members, beyond, scratch) {
            let form = Form::SortedSet;
            return Entry::packed_collection(cache, key.bytes, form, beyond, scratch, None, access);
        }
        let members = members.iter().map(|&(score, member)| (member, score));
        let set = SortedSet::from_sorted(&ks.hasher, members, beyond, cache);
        Entry::large_collection(cache, key.bytes, Box::new(Large::SortedSet(set)), None, access)
    }

    /// Changes the pairs of a small set: `edit` tells the bytes to be replaced, and appends what
    /// replaces them.
    #[inline]
    fn edit_pairs(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: (Position, Entry),
        edit: impl FnOnce(&mut Vec<u8>) -> Range<usize>,
    ) -> Entry {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let replaced = edit(&mut scratch);
        let entry = self.splice(db, key, place, replaced.start, replaced.len(), &scratch);
        self.scratch = scratch;
        entry
    }

    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn change_pairs(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: (Position, Entry),
        pairs: &[u8],
        member: &[u8],
        score: f64,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> ScoreChange {
        let mut located = pairs::locate(pairs, member, score);
        let old = located.found.map(|pair| pair.score);
        let Some(new) = decide(old) else { return ScoreChange { old, new: old } };
        if old == Some(new) {
            return ScoreChange { old, new: old };
        }
        if new != score {
            located = pairs::locate(pairs, member, new);
        }
        let beyond = place.1.is_beyond();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let passed = beyond
            || located.found.is_none()
                && Thresholds::of(self.ks.limits()).passed_by(located.count + 1, member);
        let packed = held(new, passed);
        let replaced = match &located.found {
            Some(pair) => pairs::shift(pairs, pair, located.place, packed, &mut scratch),
            None => {
                pairs::insert(pairs, located.place, Item::from_text(member), packed, &mut scratch)
            }
        };
        if pairs.len() - replaced.len() + scratch.len() > PACKED_PAIRS_MAX {
            self.enlarge_pairs(db, key, place, member, new);
        } else {
            let entry = self.splice(db, key, place, replaced.start, replaced.len(), &scratch);
            if passed && !beyond {
                entry.set_packed_form(Form::SortedSet, true);
            }
        }
        self.scratch = scratch;
        ScoreChange { old, new: Some(new) }
    }

    /// Makes a large sorted set of a small one, in which a member gets another score or is added.
    #[cold]
    fn enlarge_pairs(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: (Position, Entry),
        member: &[u8],
        score: f64,
    ) {
        let (thresholds, entry) = (Thresholds::of(self.ks.limits()), place.1);
        let mut texts = Vec::new();
        let pairs: Vec<_> = Pairs::new(entry.packed().unwrap_or_default()).collect();
        let ends: Vec<usize> = pairs
            .iter()
            .map(|pair| {
                texts.extend_from_slice(pair.member.bytes(&mut itoa::Buffer::new()));
                texts.len()
            })
            .collect();
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let members = begins
            .zip(&ends)
            .zip(&pairs)
            .map(|((begin, &end), pair)| (&texts[begin..end], pair.score));
        let (hasher, beyond) = (&self.ks.hasher, entry.is_beyond());
        let mut set = SortedSet::from_sorted(hasher, members, beyond, &mut self.cache);
        set.change(member, thresholds, |_| Some(score), &mut self.cache);
        self.enlarge(db, key, place, Large::SortedSet(set));
    }

    /// Changes a large sorted set in place.
    #[inline]
    fn change_sorted_set<T: Default>(
        &mut self,
        db: u16,
        key: Key<'_>,
        entry: Entry,
        change: impl FnOnce(&mut SortedSet, &mut Cache) -> T,
    ) -> T {
        let changed = self.change_large(db, key, entry, |large, cache| match large {
            Large::SortedSet(set) => Some(change(set, cache)),
            _ => None,
        });
        debug_assert!(changed.is_some(), "the entry says which type it holds");
        changed.flatten().unwrap_or_default()
    }
}

/// Packs members that are in order; false if they do not fit a small set.
fn pack_all(members: &[(f64, &[u8])], beyond: bool, out: &mut Vec<u8>) -> bool {
    let mut writer = Writer::at(pairs::Spot::default(), out);
    members.iter().all(|&(score, member)| {
        writer.put_item(Item::from_text(member), held(score, beyond));
        writer.len() <= PACKED_PAIRS_MAX
    })
}

/// A score as a small set holds it. Within the thresholds zero has one sign, as in Redis's
/// listpacks.
fn held(score: f64, beyond: bool) -> f64 {
    if beyond { score } else { score + 0.0 }
}
