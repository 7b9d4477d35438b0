//! Converts ranges of a sorted set by rank, score or member into ranges of ranks.

use crate::fail::Fail;
use crate::numbers::double;
use petrel_keyspace::parse_int;
use petrel_keyspace::types::sorted_set::{MemberRef, Part, Run, SortedSetRef};
use std::ops::Range;

/// Range as given in a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bounds<'a> {
    /// By rank; negative ones count from the end.
    Ranks(i64, i64),
    /// By score.
    Scores(ScoreBound, ScoreBound),
    /// By member, among members with the same score.
    Members(MemberBound<'a>, MemberBound<'a>),
}

/// Bound of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScoreBound {
    score: f64,
    excluded: bool,
}

/// Bound of a range of members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MemberBound<'a> {
    /// Before every member.
    Lowest,
    /// After every member.
    Highest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl ScoreBound {
    fn parse(text: &[u8]) -> Result<Self, Fail> {
        let (number, excluded) = match text {
            [b'(', number @ ..] => (number, true),
            number => (number, false),
        };
        let score =
            double::parse_bound(number).ok_or(Fail::fixed("ERR min or max is not a float"))?;
        Ok(ScoreBound { score, excluded })
    }

    /// Whether this lower bound excludes a score.
    #[inline]
    fn is_above(&self, score: f64) -> bool {
        score < self.score || self.excluded && score == self.score
    }

    /// Whether this upper bound includes a score.
    #[inline]
    fn is_from(&self, score: f64) -> bool {
        score < self.score || !self.excluded && score == self.score
    }
}

impl<'a> MemberBound<'a> {
    fn parse(text: &'a [u8]) -> Result<Self, Fail> {
        match text {
            b"-" => Ok(MemberBound::Lowest),
            b"+" => Ok(MemberBound::Highest),
            [b'[', member @ ..] => Ok(MemberBound::Included(member)),
            [b'(', member @ ..] => Ok(MemberBound::Excluded(member)),
            _ => Err(Fail::fixed("ERR min or max not valid string range item")),
        }
    }

    /// Whether this lower bound excludes a member.
    fn is_above(&self, member: MemberRef<'_>) -> bool {
        match *self {
            MemberBound::Lowest => false,
            MemberBound::Highest => true,
            MemberBound::Included(bound) => member.read().bytes(&mut itoa::Buffer::new()) < bound,
            MemberBound::Excluded(bound) => member.read().bytes(&mut itoa::Buffer::new()) <= bound,
        }
    }

    /// Whether this upper bound includes a member.
    fn is_from(&self, member: MemberRef<'_>) -> bool {
        match *self {
            MemberBound::Lowest => false,
            MemberBound::Highest => true,
            MemberBound::Included(bound) => member.read().bytes(&mut itoa::Buffer::new()) <= bound,
            MemberBound::Excluded(bound) => member.read().bytes(&mut itoa::Buffer::new()) < bound,
        }
    }
}

impl<'a> Bounds<'a> {
    /// Parses a range by rank.
    pub fn ranks(start: &[u8], stop: &[u8]) -> Result<Self, Fail> {
        let rank = |text| parse_int(text).ok_or(Fail::NOT_AN_INTEGER);
        Ok(Bounds::Ranks(rank(start)?, rank(stop)?))
    }

    /// Parses a range by score.
    pub fn scores(min: &[u8], max: &[u8]) -> Result<Self, Fail> {
        Ok(Bounds::Scores(ScoreBound::parse(min)?, ScoreBound::parse(max)?))
    }

    /// Parses a range by member.
    pub fn members(min: &'a [u8], max: &'a [u8]) -> Result<Self, Fail> {
        Ok(Bounds::Members(MemberBound::parse(min)?, MemberBound::parse(max)?))
    }

    /// Ranks of a set within the range.
    pub fn ranks_of(&self, set: &SortedSetRef<'_>) -> Range<usize> {
        let range = match *self {
            Bounds::Ranks(start, stop) => ranks_of(start, stop, set.len()),
            Bounds::Scores(min, max) => {
                set.count(|score, _| min.is_above(score))..set.count(|score, _| max.is_from(score))
            }
            Bounds::Members(min, max) => {
                set.count(|_, member| min.is_above(member))
                    ..set.count(|_, member| max.is_from(member))
            }
        };
        range.start..range.end.max(range.start)
    }

    /// Part of a set within the range. If the part is taken from the end, ranks count from there
    /// too.
    #[inline]
    pub fn run_of<'s>(&self, set: &SortedSetRef<'s>, part: Part) -> Run<'s> {
        match *self {
            Bounds::Ranks(start @ 0.., stop @ 0..) if !part.from_end => {
                let start = start as usize;
                set.run(start..(stop as usize).saturating_add(1).max(start))
            }
            Bounds::Ranks(start, stop) => {
                let len = set.len();
                let range = ranks_of(start, stop, len);
                let from_end = len - range.end..len - range.start;
                set.run(if part.from_end { from_end } else { range })
            }
            Bounds::Scores(min, max) => {
                set.run_within(|score, _| min.is_above(score), |score, _| max.is_from(score), part)
            }
            Bounds::Members(min, max) => set.run_within(
                |_, member| min.is_above(member),
                |_, member| max.is_from(member),
                part,
            ),
        }
    }
}

/// Ranks `start ..= stop` within `0..len`.
fn ranks_of(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_front = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_from_either_end() {
        assert_eq!(ranks_of(0, -1, 5), 0..5);
        assert_eq!(ranks_of(-2, 9, 5), 3..5);
        assert_eq!(ranks_of(-9, 1, 5), 0..2);
        assert!(ranks_of(3, 2, 5).is_empty());
        assert!(ranks_of(5, 9, 5).is_empty());
        assert!(ranks_of(0, -6, 5).is_empty());
        assert_eq!(ranks_of(i64::MIN, i64::MAX, 5), 0..5);
        assert!(ranks_of(i64::MAX, i64::MIN, 5).is_empty());
    }

    #[test]
    fn bounds_are_parsed() {
        let score = |score, excluded| Ok(ScoreBound { score, excluded });
        assert_eq!(ScoreBound::parse(b"(1.5"), score(1.5, true));
        assert_eq!(ScoreBound::parse(b"-inf"), score(f64::NEG_INFINITY, false));
        assert!(ScoreBound::parse(b"((1").is_err());
        assert!(ScoreBound::parse(b"[1").is_err());
        assert_eq!(MemberBound::parse(b"[a"), Ok(MemberBound::Included(b"a")));
        assert_eq!(MemberBound::parse(b"("), Ok(MemberBound::Excluded(b"")));
        for text in [&b""[..], b"a", b"+a", b"--"] {
            assert!(MemberBound::parse(text).is_err());
        }
    }
}
