//! Sorted sets.
//!
//! | file | holds |
//! |---|---|
//! | `members.rs` | ZADD, ZSCORE, ZRANK and what else works on members by name |
//! | `bounds.rs` | ranges by rank, score and member as ranges of ranks |
//! | `ranges.rs` | ZRANGE and its kin, counted and removed ranges |
//! | `pop.rs` | ZPOPMIN, ZMPOP and the forms that wait |
//! | `sample.rs` | ZRANDMEMBER and ZSCAN |
//! | `algebra.rs` | ZUNION, ZINTER, ZDIFF |

pub(crate) mod algebra;
mod bounds;
pub(crate) mod members;
pub(crate) mod pop;
pub(crate) mod ranges;
pub(crate) mod sample;

use crate::fail::Fail;
use petrel_keyspace::packed::Item;
use petrel_keyspace::types::sorted_set::{SortedSetRef, order};
use petrel_keyspace::{Handle, Key};
use petrel_resp::{Protocol, Reply};

/// The sorted set at a key, for reading.
#[inline]
pub(crate) fn read<'a>(
    ks: &'a mut Handle,
    db: u16,
    key: Key<'_>,
) -> Result<Option<SortedSetRef<'a>>, Fail> {
    match ks.read(db, key) {
        Some(view) => Ok(Some(view.sorted_set()?)),
        None => Ok(None),
    }
}

/// The sorted set at a key that will be changed.
#[inline]
pub(crate) fn look<'a>(
    ks: &'a mut Handle,
    db: u16,
    key: Key<'_>,
) -> Result<Option<SortedSetRef<'a>>, Fail> {
    match ks.look(db, key) {
        Some(view) => Ok(Some(view.sorted_set()?)),
        None => Ok(None),
    }
}

/// Writes a member.
#[inline]
pub(crate) fn write_member(reply: &mut dyn Reply, member: Item<'_>) {
    match member {
        Item::Text(text) => reply.bulk(text),
        member => reply.bulk(member.bytes(&mut itoa::Buffer::new())),
    }
}

/// Reply format of members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Listing {
    /// Members only.
    Members,
    /// Members and scores alternating.
    Flat,
    /// An array of member and score each.
    Pairs,
}

impl Listing {
    /// Selects the format for the client's protocol, with or without scores.
    #[inline]
    pub fn with_scores(scores: bool, reply: &dyn Reply) -> Self {
        match (scores, reply.protocol()) {
            (false, _) => Listing::Members,
            (true, Protocol::Resp2) => Listing::Flat,
            (true, Protocol::Resp3) => Listing::Pairs,
        }
    }

    /// Begins a list of `len` members.
    #[inline]
    pub fn begin(self, reply: &mut dyn Reply, len: usize) {
        reply.array(if self == Listing::Flat { 2 * len } else { len });
    }

    /// Writes a member.
    #[inline]
    pub fn write(self, reply: &mut dyn Reply, member: Item<'_>, score: f64) {
        if self == Listing::Pairs {
            reply.array(2);
        }
        write_member(reply, member);
        if self != Listing::Members {
            reply.double(score);
        }
    }
}

/// Members with their scores, collected before they are stored.
#[derive(Default)]
pub(crate) struct Gathered {
    texts: Vec<u8>,
    /// Score, and end of the member in `texts`.
    members: Vec<(f64, usize)>,
}

impl Gathered {
    /// Adds a new member.
    pub fn push(&mut self, member: Item<'_>, score: f64) {
        self.push_text(member.bytes(&mut itoa::Buffer::new()), score);
    }

    /// Like [`Gathered::push`], with the member as text.
    pub fn push_text(&mut self, member: &[u8], score: f64) {
        self.texts.extend_from_slice(member);
        self.members.push((score, self.texts.len()));
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Stores the members as a sorted set at a key, or deletes the key if there are none; returns
    /// their number.
    pub fn store(&self, ks: &mut Handle, db: u16, key: Key<'_>) -> usize {
        let mut members = self.members();
        ks.sorted_set_store(db, key, &mut members);
        members.len()
    }

    /// Sorted scores and members.
    pub fn sorted(&self) -> Vec<(f64, &[u8])> {
        let mut members = self.members();
        members.sort_unstable_by(|a, b| order((a.1, a.0), (b.1, b.0)));
        members
    }

    /// Scores and members.
    fn members(&self) -> Vec<(f64, &[u8])> {
        let mut begin = 0;
        let mut members: Vec<(f64, &[u8])> = Vec::with_capacity(self.members.len());
        for &(score, end) in &self.members {
            members.push((score, &self.texts[begin..end]));
            begin = end;
        }
        members
    }
}
