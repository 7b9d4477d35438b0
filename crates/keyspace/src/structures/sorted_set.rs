//! Sorted sets: distinct strings, each with a score, in the order of scores and of strings with the
//! same score.
//!
//! A small one is packed pairs ([`pairs`]). A large one is a dict of elements that hold member and
//! score, for lookups, and a tree of pointers to the same elements, for ranks and ranges.

pub(crate) mod pairs;
mod read;
mod scores;

pub use pairs::MemberRef;
pub use read::{LargeRef, Members, Ordered, Part, Run, SortedSetRef};

use crate::structures::bucket::Item as _;
use crate::structures::dict::Dict;
use crate::structures::element::Element;
use crate::structures::form::Form;
use crate::structures::key_hash::KeyHasher;
use crate::structures::limits::TypeLimits;
use crate::structures::packed::Item;
use crate::structures::rank_tree::{NODES, RankTree, Scored};
use pairs::Writer;
use petrel_heap::Cache;
use std::cmp::Ordering;
use std::ops::Range;

/// Maximum size of packed pairs in bytes: a walk over them takes a microsecond.
pub(crate) const PACKED_PAIRS_MAX: usize = 2048;

/// Elements taken out of a large sorted set before they are freed.
const REMOVED_AT_ONCE: usize = 64;

impl Scored for Element {
    #[inline]
    fn score(self) -> f64 {
        Element::score(self)
    }
}

/// Change of a member's score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoreChange {
    /// Score before; none if the member was absent.
    pub old: Option<f64>,
    /// Score now; none if the member is still absent.
    pub new: Option<f64>,
}

/// A sorted set of many members.
pub(crate) struct SortedSet {
    pub(super) members: Dict,
    pub(crate) order: RankTree<Element>,
    /// Whether it has passed the thresholds of `OBJECT ENCODING`.
    pub(crate) beyond: bool,
}

/// The thresholds of `OBJECT ENCODING`.
#[derive(Clone, Copy)]
pub(crate) struct SortedSetThresholds {
    pub(crate) entries: usize,
    value: usize,
}

impl SortedSetThresholds {
    pub(crate) fn of(limits: &TypeLimits) -> Self {
        let limit = |limit: i64| usize::try_from(limit).unwrap_or(0);
        SortedSetThresholds {
            entries: limit(limits.zset_max_listpack_entries()),
            value: limit(limits.zset_max_listpack_value()),
        }
    }

    /// Whether a set of `len` members, including the new one, has passed the thresholds.
    pub(crate) fn passed_by(self, len: usize, member: &[u8]) -> bool {
        len > self.entries || member.len() > self.value
    }
}

/// The order of members with their scores. Zeros of both signs are equal.
pub fn order(a: (&[u8], f64), b: (&[u8], f64)) -> Ordering {
    a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then_with(|| a.0.cmp(b.0))
}

/// Predicate for the elements that sort before a member with a score.
fn ahead_of(score: f64, member: &[u8]) -> impl Fn(f64, Element) -> bool {
    move |other, element| other < score || other == score && element.key() < member
}

impl SortedSet {
    fn new(hasher: &KeyHasher, beyond: bool) -> Self {
        SortedSet { members: Dict::new(hasher), order: RankTree::default(), beyond }
    }

    /// A set of distinct members in order.
    pub(crate) fn from_sorted<'m>(
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

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        Form::SortedSet.encoding(self.beyond)
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes outside this struct.
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

    /// Moves members and nodes to fresh blocks, as [`Large::relocate`]. First the members, then,
    /// from [`NODES`] on, the nodes on the path to each rank.
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

    pub(crate) fn change(
        &mut self,
        member: &[u8],
        thresholds: SortedSetThresholds,
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

    /// Sets the score of an element.
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

    pub(crate) fn remove(&mut self, member: &[u8], cache: &mut Cache) -> Option<f64> {
        let (place, element) = self.members.find(member)?;
        let score = element.score();
        self.order.remove(self.rank_of(element), cache);
        self.members.remove(place, cache).release(cache);
        Some(score)
    }

    pub(crate) fn remove_range(&mut self, ranks: Range<usize>, cache: &mut Cache) {
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

/// Packs members in order; false if they do not fit a small set.
pub(crate) fn pack_all(members: &[(f64, &[u8])], keeps_sign: bool, out: &mut Vec<u8>) -> bool {
    let mut writer = Writer::at(pairs::Spot::default(), out);
    members.iter().all(|&(score, member)| {
        writer.put_item(Item::from_text(member), held(score, keeps_sign));
        writer.len() <= PACKED_PAIRS_MAX
    })
}

/// A score as stored in a small set. Within the thresholds zero has one sign, as in Redis's
/// listpacks, unless it was loaded.
pub(crate) fn held(score: f64, keeps_sign: bool) -> f64 {
    if keeps_sign { score } else { score + 0.0 }
}
