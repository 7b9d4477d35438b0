//! Mutators of sorted sets.

use crate::handle::Handle;
use crate::state::effect::Effect;
use crate::structures::bucket::Item as _;
use crate::structures::entry::Entry;
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::packed::Item;
use crate::structures::sorted_set::pairs::{self, Pair, Pairs};
use crate::structures::sorted_set::{
    PACKED_PAIRS_MAX, ScoreChange, SortedSet, SortedSetThresholds, held, order, pack_all,
};
use crate::structures::table::Position;
use crate::structures::view::View;
use petrel_heap::Cache;
use std::ops::Range;

/// Number of comparisons, or of effects, between two calls of the breather.
const STEPS_PER_BREATH: usize = 4096;

impl Handle {
    /// Changes a member's score, or adds the member: `decide` gets the current score and returns
    /// the new one, or none to change nothing. Fastest if `decide` returns `score`. No score is
    /// NaN.
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
                    let thresholds = SortedSetThresholds::of(self.ks.limits());
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

    /// Sets a member's score while loading a file or payload. Minus zero keeps its sign, unlike a
    /// score set by a command in a small set.
    ///
    /// # Errors
    /// If the key holds another type.
    pub fn sorted_set_load(
        &mut self,
        db: u16,
        key: Key<'_>,
        member: &[u8],
        score: f64,
    ) -> Result<ScoreChange, WrongType> {
        self.keeps_zero_sign = true;
        let change = self.sorted_set_change(db, key, member, score, |_| Some(score));
        self.keeps_zero_sign = false;
        change
    }

    /// Creates a sorted set of members at an absent key. False, with nothing changed, if the key
    /// exists or a member occurs twice. The members may be reordered; no score is NaN.
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
        let mut steps = 0;
        members.sort_unstable_by(|a, b| {
            steps += 1;
            if steps % STEPS_PER_BREATH == 0 {
                self.cache.breathe();
            }
            order((a.1, a.0), (b.1, b.0))
        });
        let entry = self.sorted_set_entry(key, members);
        self.insert_entry(db, key, entry);
        for &mut (score, member) in members {
            self.record(db, key, &Effect::ScorePut { key: key.bytes, member, score });
        }
        true
    }

    /// Makes `OBJECT ENCODING` answer from now on as if a sorted set had had `len` members, if the
    /// key holds one: Redis chooses the encoding by the number of members in a call, duplicates
    /// included.
    pub fn sorted_set_expect(&mut self, db: u16, key: Key<'_>, len: usize) {
        if len <= SortedSetThresholds::of(self.ks.limits()).entries {
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

    /// Removes a member; returns its score.
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
                    for (n, element) in set.order.range(ranks.clone()).enumerate() {
                        if n % STEPS_PER_BREATH == STEPS_PER_BREATH - 1 {
                            self.cache.breathe();
                        }
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

    /// Replaces a key with a sorted set without an expiry; without members the key is removed. The
    /// members are distinct, in any order, no score is NaN; they are sorted here. True if the key
    /// exists afterwards or did before.
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
        let effect = Effect::Store { key: key.bytes, value: View::new(entry), expiry: None };
        self.record(db, key, &effect);
        true
    }

    /// An entry with sorted members.
    fn sorted_set_entry(&mut self, key: Key<'_>, members: &[(f64, &[u8])]) -> Entry {
        let thresholds = SortedSetThresholds::of(self.ks.limits());
        let len = members.len();
        let beyond = members.iter().any(|(_, member)| thresholds.passed_by(len, member));
        let access = self.initial_access(key.hash);
        let keeps_sign = beyond || self.keeps_zero_sign;
        let Handle { ks, cache, scratch, .. } = self;
        scratch.clear();
        if pack_all(members, keeps_sign, scratch) {
            let form = Form::SortedSet;
            return Entry::packed_collection(cache, key.bytes, form, beyond, scratch, None, access);
        }
        let members = members.iter().map(|&(score, member)| (member, score));
        let set = SortedSet::from_sorted(&ks.hasher, members, beyond, cache);
        Entry::large_collection(cache, key.bytes, Box::new(Large::SortedSet(set)), None, access)
    }

    /// Changes the pairs of a small set: `edit` returns the range of bytes to be replaced, and
    /// appends the replacement.
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
                && SortedSetThresholds::of(self.ks.limits()).passed_by(located.count + 1, member);
        let packed = held(new, passed || self.keeps_zero_sign);
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

    /// Converts a small sorted set to a large one, with one member added or its score changed.
    #[cold]
    fn enlarge_pairs(
        &mut self,
        db: u16,
        key: Key<'_>,
        place: (Position, Entry),
        member: &[u8],
        score: f64,
    ) {
        let (thresholds, entry) = (SortedSetThresholds::of(self.ks.limits()), place.1);
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
