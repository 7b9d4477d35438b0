//! Reads sorted sets, small or large.

use crate::structures::bucket::Item as _;
use crate::structures::element::Element;
use crate::structures::form::{Type, WrongType};
use crate::structures::large::Large;
use crate::structures::packed::Item;
use crate::structures::random::{below, choose};
use crate::structures::rank_tree;
use crate::structures::sorted_set::SortedSet;
use crate::structures::sorted_set::pairs::{self, MemberRef, Pair, Pairs};
use crate::structures::view::View;
use std::collections::HashSet;
use std::iter::Take;
use std::ops::Range;

/// Members are drawn one by one if at most one in this many is requested, otherwise chosen in a
/// walk over all.
const DRAWN_SHARE: usize = 8;

/// Maximum number of members of a large set over which a range is measured by a walk.
const WALKED_MAX: usize = 64;

/// A borrowed sorted set, valid until a change.
#[derive(Clone, Copy)]
pub enum SortedSetRef<'a> {
    /// Pairs in the entry.
    Packed(&'a [u8]),
    /// An allocation of its own.
    Large(LargeRef<'a>),
}

/// A sorted set of many members.
#[derive(Clone, Copy)]
pub struct LargeRef<'a>(&'a SortedSet);

impl<'a> View<'a> {
    /// The sorted set.
    #[inline]
    pub fn sorted_set(&self) -> Result<SortedSetRef<'a>, WrongType> {
        let entry = self.entry();
        if entry.type_of() != Type::SortedSet {
            return Err(WrongType);
        }
        match (entry.packed(), entry.large()) {
            (Some(pairs), _) => Ok(SortedSetRef::Packed(pairs)),
            (_, Some(Large::SortedSet(set))) => Ok(SortedSetRef::Large(LargeRef(set))),
            _ => Err(WrongType),
        }
    }
}

impl<'a> SortedSetRef<'a> {
    /// Number of members.
    pub fn len(&self) -> usize {
        match self {
            SortedSetRef::Packed(pairs) => pairs::count(pairs),
            SortedSetRef::Large(LargeRef(set)) => set.len(),
        }
    }

    /// Never true of a stored set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            SortedSetRef::Packed(pairs) => {
                let (_, pair) = pairs::find(pairs, member)?;
                Some(pair.score)
            }
            SortedSetRef::Large(LargeRef(set)) => Some(set.members.get(member)?.score()),
        }
    }

    /// Number of members before a member, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            SortedSetRef::Packed(pairs) => {
                let (rank, pair) = pairs::find(pairs, member)?;
                Some((rank, pair.score))
            }
            SortedSetRef::Large(LargeRef(set)) => {
                let element = set.members.get(member)?;
                Some((set.rank_of(element), element.score()))
            }
        }
    }

    /// Number of members that satisfy `before`, which is true up to some place and false beyond.
    #[inline]
    pub fn count(&self, before: impl Fn(f64, MemberRef<'_>) -> bool) -> usize {
        match self {
            SortedSetRef::Packed(pairs) => Pairs::new(pairs).pass_while(usize::MAX, before),
            SortedSetRef::Large(LargeRef(set)) => {
                set.order.rank(|score, element| before(score, MemberRef::Text(element.key())))
            }
        }
    }

    /// The member of a rank, and its score.
    pub fn get(&self, rank: usize) -> Option<(Item<'a>, f64)> {
        match self {
            SortedSetRef::Packed(pairs) => {
                let mut pairs = Pairs::new(pairs);
                pairs.skip_pairs(rank);
                pairs.next().map(|pair| (pair.member, pair.score))
            }
            SortedSetRef::Large(LargeRef(set)) => set.order.get(rank).map(read),
        }
    }

    /// The members of the existing part of a range of ranks.
    #[inline]
    pub fn run(&self, ranks: Range<usize>) -> Run<'a> {
        match self {
            SortedSetRef::Packed(bytes) => {
                let mut pairs = Pairs::new(bytes);
                pairs.skip_pairs(ranks.start);
                let len = pairs.clone().skip_pairs(ranks.len());
                Run(RunSource::Pairs(pairs, len))
            }
            SortedSetRef::Large(LargeRef(set)) => {
                let end = ranks.end.min(set.len());
                Run(RunSource::Ranks(set, ranks.start.min(end)..end))
            }
        }
    }

    /// Part of the members between two places: the ones `within` but not `below`. Both
    /// predicates are true for all members up to some place, and false beyond.
    #[inline]
    pub fn run_within(
        &self,
        below: impl Fn(f64, MemberRef<'_>) -> bool,
        within: impl Fn(f64, MemberRef<'_>) -> bool,
        part: Part,
    ) -> Run<'a> {
        match self {
            SortedSetRef::Packed(bytes) => {
                let mut first = Pairs::new(bytes);
                first.pass_while(usize::MAX, below);
                let mut behind = first;
                if part.from_end {
                    let ranks = part.of(0..behind.pass_while(usize::MAX, within));
                    first.skip_pairs(ranks.start);
                    return Run(RunSource::Pairs(first, ranks.len()));
                }
                first.skip_pairs(part.skip);
                behind = first;
                Run(RunSource::Pairs(first, behind.pass_while(part.take, within)))
            }
            SortedSetRef::Large(LargeRef(set)) => {
                let rank = |before: &dyn Fn(f64, MemberRef<'_>) -> bool| {
                    set.order.rank(|score, element| before(score, MemberRef::Text(element.key())))
                };
                let start = rank(&below);
                if part.from_end || part.take > WALKED_MAX {
                    return Run(RunSource::Ranks(set, part.of(start..rank(&within))));
                }
                // The members will be read anyway.
                let start = start.saturating_add(part.skip).min(set.len());
                let members = set.order.range(start..start.saturating_add(part.take));
                let within =
                    |element: &Element| within(element.score(), MemberRef::Text(element.key()));
                let len = members.take_while(within).count();
                Run(RunSource::Ranks(set, start..start + len))
            }
        }
    }

    /// The members of a range of ranks, in order.
    pub fn range(&self, ranks: Range<usize>) -> Members<'a> {
        self.run(ranks).into_iter()
    }

    /// Passes the members of a range of ranks to `each`, in order.
    #[inline]
    pub fn each(&self, ranks: Range<usize>, each: impl FnMut(Item<'a>, f64)) {
        self.run(ranks).each(each);
    }

    /// Passes `count` random members, possibly repeated, to `each`.
    pub fn draw(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Item<'a>, f64),
    ) {
        let len = self.len();
        // Packed pairs can be found only by a walk.
        let pairs: Vec<_> = match self {
            SortedSetRef::Packed(_) if count > 1 => self.range(0..len).collect(),
            _ => Vec::new(),
        };
        for _ in 0..count {
            let rank = below(len, random);
            if let Some((member, score)) = pairs.get(rank).copied().or_else(|| self.get(rank)) {
                each(member, score);
            }
        }
    }

    /// Passes `count` different members drawn at random to `each`, or all if there are not more.
    pub fn sample(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Item<'a>, f64),
    ) {
        let len = self.len();
        if count < len / DRAWN_SHARE {
            let mut drawn = HashSet::with_capacity(count);
            while drawn.len() < count {
                let rank = below(len, random);
                if let Some((member, score)) = self.get(rank).filter(|_| drawn.insert(rank)) {
                    each(member, score);
                }
            }
            return;
        }
        let chosen = choose(len, count, random);
        for ((member, score), chosen) in self.range(0..len).zip(chosen) {
            if chosen {
                each(member, score);
            }
        }
    }

    /// Passes the members from the cursor on to `each`, about `count` of them, in no particular
    /// order; returns the next cursor, 0 at the end. A small set is passed as a whole.
    pub fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(Item<'a>, f64)) -> u64 {
        match self {
            SortedSetRef::Packed(_) => {
                self.each(0..usize::MAX, each);
                0
            }
            SortedSetRef::Large(LargeRef(set)) => set.members.scan(cursor, count, |element| {
                let (member, score) = read(element);
                each(member, score);
            }),
        }
    }
}

/// A part of a range of members.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Number of members skipped.
    pub skip: usize,
    /// Maximum number of members after that.
    pub take: usize,
    /// Whether counting begins at the last member of the range.
    pub from_end: bool,
}

impl Part {
    /// The part of a range of ranks.
    pub fn of(&self, ranks: Range<usize>) -> Range<usize> {
        let len = ranks.end.saturating_sub(ranks.start);
        let skip = self.skip.min(len);
        let take = self.take.min(len - skip);
        let start = if self.from_end { len - skip - take } else { skip };
        ranks.start + start..ranks.start + start + take
    }
}

/// Consecutive members.
#[derive(Clone)]
pub struct Run<'a>(RunSource<'a>);

#[derive(Clone)]
enum RunSource<'a> {
    /// The next pairs, and their number.
    Pairs(Pairs<'a>, usize),
    /// Existing ranks.
    Ranks(&'a SortedSet, Range<usize>),
}

impl<'a> Run<'a> {
    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            RunSource::Pairs(_, len) => *len,
            RunSource::Ranks(_, ranks) => ranks.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes the members to `each`, in order.
    #[inline]
    pub fn each(&self, mut each: impl FnMut(Item<'a>, f64)) {
        match self.clone().into_iter() {
            Members::Packed(pairs) => pairs.for_each(|pair| each(pair.member, pair.score)),
            Members::Large(Ordered(elements)) => {
                elements.map(read).for_each(|(member, score)| each(member, score));
            }
        }
    }

    /// Like `each`, from the last to the first.
    pub fn each_back(&self, mut each: impl FnMut(Item<'a>, f64)) {
        match self.clone().into_iter() {
            Members::Packed(pairs) => {
                // Packed items are walked forwards only.
                let found: Vec<Pair<'a>> = pairs.collect();
                found.into_iter().rev().for_each(|pair| each(pair.member, pair.score));
            }
            Members::Large(Ordered(elements)) => {
                elements.rev().map(read).for_each(|(member, score)| each(member, score));
            }
        }
    }
}

impl<'a> IntoIterator for Run<'a> {
    type Item = (Item<'a>, f64);
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        match self.0 {
            RunSource::Pairs(pairs, len) => Members::Packed(pairs.take(len)),
            RunSource::Ranks(set, ranks) => Members::Large(Ordered(set.order.range(ranks))),
        }
    }
}

/// Iterates over members in order.
pub enum Members<'a> {
    /// Pairs in the entry.
    Packed(Take<Pairs<'a>>),
    /// Elements.
    Large(Ordered<'a>),
}

/// Iterates over the members of a large sorted set.
pub struct Ordered<'a>(rank_tree::Iter<'a, Element>);

impl<'a> Iterator for Members<'a> {
    type Item = (Item<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Members::Packed(pairs) => pairs.next().map(|pair| (pair.member, pair.score)),
            Members::Large(Ordered(elements)) => elements.next().map(read),
        }
    }
}

fn read<'a>(element: Element) -> (Item<'a>, f64) {
    (Item::Text(element.key()), element.score())
}
