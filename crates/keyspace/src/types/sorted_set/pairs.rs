//! Small sorted sets: members, each followed by its score, in the order of scores and of members with the same score.

use crate::packed::{Item, Parts, packed_len, unpack};
use std::cmp::Ordering;

/// One member with its score, and where both lie.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Offset of the member.
    pub at: usize,
    /// Offset of the score.
    pub score_at: usize,
    /// Offset of what follows.
    pub end: usize,
    pub member: Item<'a>,
    pub score: f64,
}

/// Walks pairs forwards.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Pairs<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Pairs { bytes, at: 0 }
    }

    /// Offset of the pair that comes next.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Passes over `n` pairs, or all that are left; returns how many.
    #[inline]
    pub fn skip_pairs(&mut self, n: usize) -> usize {
        for passed in 0..n {
            if self.at == self.bytes.len() {
                return passed;
            }
            self.at += packed_len(&self.bytes[self.at..]);
            self.at += packed_len(&self.bytes[self.at..]);
        }
        n
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'a>> {
        let at = self.at;
        if at == self.bytes.len() {
            return None;
        }
        let (member, rest) = unpack(&self.bytes[at..]);
        let score_at = self.bytes.len() - rest.len();
        let (score, rest) = unpack(rest);
        self.at = self.bytes.len() - rest.len();
        Some(Pair { at, score_at, end: self.at, member, score: score.score().unwrap_or(0.0) })
    }
}

/// Where a member lies, and where it belongs.
#[derive(Clone, Copy, Debug)]
pub struct Located<'a> {
    /// The member's pair.
    pub found: Option<Pair<'a>>,
    /// Offset of the first pair that comes after the member if it has the score asked for.
    pub place: usize,
    /// Number of pairs, if the member is not there.
    pub count: usize,
}

/// Looks for a member, whose packed form is `parts`, and for the place that a score gives it, in one walk.
#[inline]
pub fn locate<'a>(bytes: &'a [u8], member: &[u8], parts: &Parts<'_>, score: f64) -> Located<'a> {
    let (mut found, mut place, mut count) = (None, None, 0);
    for pair in Pairs::new(bytes) {
        if found.is_none() && is_at(bytes, pair.at, parts) {
            found = Some(pair);
        } else if place.is_none() && compare(&pair, score, member) == Ordering::Greater {
            place = Some(pair.at);
        }
        if found.is_some() && place.is_some() {
            break;
        }
        count += 1;
    }
    Located { found, place: place.unwrap_or(bytes.len()), count }
}

/// Finds a member's pair and the number of those before it.
pub fn find<'a>(bytes: &'a [u8], parts: &Parts<'_>) -> Option<(usize, Pair<'a>)> {
    let mut pairs = Pairs::new(bytes);
    let mut rank = 0;
    while pairs.offset() < bytes.len() {
        if is_at(bytes, pairs.offset(), parts) {
            return pairs.next().map(|pair| (rank, pair));
        }
        pairs.skip_pairs(1);
        rank += 1;
    }
    None
}

/// The order of a pair relative to a member with a score.
#[inline]
fn compare(pair: &Pair<'_>, score: f64, member: &[u8]) -> Ordering {
    if pair.score < score {
        Ordering::Less
    } else if pair.score > score {
        Ordering::Greater
    } else {
        pair.member.bytes(&mut itoa::Buffer::new()).cmp(member)
    }
}

#[inline]
fn is_at(bytes: &[u8], at: usize, parts: &Parts<'_>) -> bool {
    parts.begin(&bytes[at..])
}
