//! Small sorted sets: members, each followed by its score, in the order of scores and of members
//! with the same score. Members are packed items ([`crate::packed`]); `scores.rs` describes the
//! scores.
//!
//! A score may be stored as its distance to the previous one, so a change of a pair rewrites the
//! following pairs up to the next absolute score.

use crate::structures::packed::{Item, Parts, packed_len, prefetch_behind, unpack};
use crate::structures::sorted_set::scores;
use std::ops::Range;

/// A member with its score, and the offsets of both.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Position of the member.
    pub at: Spot,
    /// Offset of the score.
    pub score_at: usize,
    /// Position of the next pair.
    pub end: Spot,
    pub member: Item<'a>,
    pub score: f64,
}

/// A position between pairs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spot {
    /// Offset in the bytes.
    pub offset: usize,
    /// The last whole score before the position.
    base: i64,
}

/// Iterates over pairs forwards.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    spot: Spot,
}

impl<'a> Pairs<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        prefetch_behind(bytes);
        Pairs { bytes, spot: Spot::default() }
    }

    /// Position of the next pair.
    pub fn spot(&self) -> Spot {
        self.spot
    }

    /// Skips `n` pairs, or all if fewer are left; returns the number skipped.
    #[inline]
    pub fn skip_pairs(&mut self, n: usize) -> usize {
        for passed in 0..n {
            if self.spot.offset == self.bytes.len() {
                return passed;
            }
            self.skip_short_pair();
        }
        n
    }

    /// Like `next`, without the score. Short lengths are distinguished by branches, so that the
    /// processor predicts the next position without waiting for the bytes that hold it.
    #[inline(always)]
    fn skip_short_pair(&mut self) {
        let Spot { offset, base } = self.spot;
        let len = self.bytes[offset];
        let score_at = offset + 1 + usize::from(len);
        if len < 0x80
            && let Some((distance, bytes)) = scores::short_distance(self.bytes, score_at)
        {
            self.spot = Spot { offset: score_at + bytes, base: base + distance };
        } else {
            self.skip_pair();
        }
    }

    /// Skips at most `max` pairs while `keep` is true of score and member; returns the number
    /// skipped.
    #[inline]
    pub fn pass_while(&mut self, max: usize, keep: impl Fn(f64, MemberRef<'_>) -> bool) -> usize {
        for passed in 0..max {
            let at = self.spot;
            if at.offset == self.bytes.len() {
                return passed;
            }
            let score = self.skip_pair();
            if !keep(score, MemberRef::Packed(&self.bytes[at.offset..])) {
                self.spot = at;
                return passed;
            }
        }
        max
    }

    /// Skips the next pair, which must exist; returns its score.
    #[inline(always)]
    fn skip_pair(&mut self) -> f64 {
        let score_at = self.spot.offset + packed_len(&self.bytes[self.spot.offset..]);
        let (score, end) = scores::unpack(self.bytes, score_at, &mut self.spot.base);
        self.spot.offset = end;
        score
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'a>> {
        let at = self.spot;
        if at.offset == self.bytes.len() {
            return None;
        }
        let (member, rest) = unpack(&self.bytes[at.offset..]);
        let score_at = self.bytes.len() - rest.len();
        let (score, offset) = scores::unpack(self.bytes, score_at, &mut self.spot.base);
        self.spot.offset = offset;
        Some(Pair { at, score_at, end: self.spot, member, score })
    }
}

/// A member in its pair, decoded only on demand.
#[derive(Clone, Copy, Debug)]
pub enum MemberRef<'a> {
    /// Packed item at the front of these bytes.
    Packed(&'a [u8]),
    /// Text.
    Text(&'a [u8]),
}

impl<'a> MemberRef<'a> {
    /// The member.
    #[inline]
    pub fn read(self) -> Item<'a> {
        match self {
            MemberRef::Packed(bytes) => unpack(bytes).0,
            MemberRef::Text(text) => Item::Text(text),
        }
    }
}

/// Number of pairs.
pub fn count(bytes: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        at += packed_len(&bytes[at..]);
        at += scores::packed_len(bytes[at]);
        count += 1;
    }
    count
}

/// Result of the search for a member: its pair, and the place for a score.
#[derive(Clone, Copy, Debug)]
pub struct Located<'a> {
    /// The member's pair.
    pub found: Option<Pair<'a>>,
    /// Position of the first pair that sorts after the member with the score in question.
    pub place: Spot,
    /// Number of pairs, if the member is absent.
    pub count: usize,
}

/// Searches for a member and for its place by a score, in one walk.
#[inline]
pub fn locate<'a>(bytes: &'a [u8], member: &[u8], score: f64) -> Located<'a> {
    let parts = Item::from_text(member).parts();
    let sought = Sought::new(&parts);
    let (mut found, mut place, mut count) = (None, None, 0);
    let mut pairs = Pairs::new(bytes);
    while pairs.spot.offset < bytes.len() {
        let at = pairs.spot;
        if sought.is_at(bytes, at.offset) {
            found = pairs.next();
            if place.is_some() {
                break;
            }
            continue;
        }
        let other = pairs.skip_pair();
        if place.is_none() && other >= score {
            let is_behind = || {
                let (item, _) = unpack(&bytes[at.offset..]);
                item.bytes(&mut itoa::Buffer::new()) > member
            };
            if other > score || is_behind() {
                place = Some(at);
                if found.is_some() {
                    break;
                }
            }
        }
        count += 1;
    }
    Located { found, place: place.unwrap_or(pairs.spot()), count }
}

/// Finds a member's pair and the number of pairs before it.
pub fn find<'a>(bytes: &'a [u8], member: &[u8]) -> Option<(usize, Pair<'a>)> {
    let parts = Item::from_text(member).parts();
    let sought = Sought::new(&parts);
    let mut pairs = Pairs::new(bytes);
    let mut rank = 0;
    while pairs.spot.offset < bytes.len() {
        if sought.is_at(bytes, pairs.spot.offset) {
            return pairs.next().map(|pair| (rank, pair));
        }
        pairs.skip_pair();
        rank += 1;
    }
    None
}

/// A member searched for. The last bytes are compared first, because members mostly differ there.
struct Sought<'p> {
    parts: &'p Parts<'p>,
    first: u8,
    len: usize,
    /// The last bytes, if the member is long enough.
    last: Option<[u8; LAST]>,
}

const LAST: usize = 8;

impl<'p> Sought<'p> {
    #[inline]
    fn new(parts: &'p Parts<'p>) -> Self {
        let head = parts.head();
        let last = parts.tail.last_chunk().copied();
        Sought { parts, first: head[0], len: head.len() + parts.tail.len(), last }
    }

    #[inline(always)]
    fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        if bytes[at] != self.first {
            return false;
        }
        let Some(here) = bytes.get(at..at + self.len) else { return false };
        match self.last {
            Some(last) if here.last_chunk() != Some(&last) => false,
            _ => self.is_in(here),
        }
    }

    fn is_in(&self, here: &[u8]) -> bool {
        let head = self.parts.head();
        here.starts_with(head) && &here[head.len()..] == self.parts.tail
    }
}

/// Writes consecutive pairs.
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    base: i64,
}

impl<'o> Writer<'o> {
    /// Appends pairs that will follow `spot`.
    pub fn at(spot: Spot, out: &'o mut Vec<u8>) -> Self {
        Writer { out, base: spot.base }
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Appends a member and its score.
    pub fn put_item(&mut self, member: Item<'_>, score: f64) {
        member.pack(self.out);
        self.put(&[], score);
    }

    /// Appends a packed member and its score.
    pub fn put(&mut self, member: &[u8], score: f64) {
        self.out.extend_from_slice(member);
        scores::pack(self.out, score, &mut self.base);
    }

    /// Appends the pairs of `bytes` from one spot to another.
    fn copy(&mut self, bytes: &[u8], from: Spot, to: Spot) {
        let settled = self.settle(bytes, from, to.offset);
        if settled < to.offset {
            self.out.extend_from_slice(&bytes[settled..to.offset]);
            self.base = to.base;
        }
    }

    /// Re-encodes the pairs of `bytes` from a spot on that depend on their predecessors, at most up
    /// to `end`; returns the offset from which the bytes are unchanged.
    fn settle(&mut self, bytes: &[u8], from: Spot, end: usize) -> usize {
        let mut pairs = Pairs { bytes, spot: from };
        while pairs.spot.base != self.base && pairs.spot.offset < end {
            let Some(pair) = pairs.next() else { break };
            self.put(&bytes[pair.at.offset..pair.score_at], pair.score);
        }
        pairs.spot.offset
    }
}

/// Inserts a pair with a packed member at a spot. Like the changes below, returns the range of
/// bytes to be replaced, and appends the replacement to `out`.
pub fn insert(
    bytes: &[u8],
    spot: Spot,
    member: Item<'_>,
    score: f64,
    out: &mut Vec<u8>,
) -> Range<usize> {
    let mut writer = Writer::at(spot, out);
    writer.put_item(member, score);
    spot.offset..writer.settle(bytes, spot, bytes.len())
}

/// Removes the pairs between two spots.
pub fn remove(bytes: &[u8], from: Spot, to: Spot, out: &mut Vec<u8>) -> Range<usize> {
    from.offset..Writer::at(from, out).settle(bytes, to, bytes.len())
}

/// Changes the score of a pair, which moves it to `place`.
pub fn shift(
    bytes: &[u8],
    pair: &Pair<'_>,
    place: Spot,
    score: f64,
    out: &mut Vec<u8>,
) -> Range<usize> {
    let member = &bytes[pair.at.offset..pair.score_at];
    if place.offset > pair.end.offset {
        let mut writer = Writer::at(pair.at, out);
        writer.copy(bytes, pair.end, place);
        writer.put(member, score);
        return pair.at.offset..writer.settle(bytes, place, bytes.len());
    }
    if place.offset >= pair.at.offset {
        let mut writer = Writer::at(pair.at, out);
        writer.put(&[], score);
        return pair.score_at..writer.settle(bytes, pair.end, bytes.len());
    }
    let mut writer = Writer::at(place, out);
    writer.put(member, score);
    writer.copy(bytes, place, pair.at);
    place.offset..writer.settle(bytes, pair.end, bytes.len())
}
