//! A thread's view of memory use, and its candidates for eviction (`upkeep/evict.rs`).

use crate::state::order::Origin;
use crate::state::policy::{AccessClock, Policy, draw, is_main};
use crate::structures::entry::Entry;
use crate::structures::key_hash::KeyHash;
use std::cell::Cell;

/// S3-FIFO: the small queue's share of memory, 1 in this many bytes.
const SMALL_SHARE: u64 = 10;
/// S3-FIFO: samples over which the small queue's share is averaged, as a power of two.
const AVERAGED_LOG2: u32 = 9;
/// Maximum number of candidates in a pool.
const POOL_MAX: usize = 16;
/// Places drawn ahead of the one that is looked at, a power of two: time enough for three cache
/// misses, one for each stage of [`Evictor::next_place`].
const PLACES_AHEAD: usize = 8;
/// Distances in places at which buckets and entries are prefetched.
const BUCKETS_AHEAD: usize = 5;
const ENTRIES_AHEAD: usize = 2;

/// A thread's view of memory use, and its candidates for eviction.
#[derive(Default)]
pub(crate) struct Evictor {
    /// The limit at the last comparison, the thread's own use then, and the growth allowed until
    /// the next comparison.
    pub(crate) limit: u64,
    pub(crate) own_then: i64,
    pub(crate) slack: i64,
    pub(crate) policy: Policy,
    pub(crate) pools: [Pool; 2],
    /// Origin of the evictions while only copies are evicted.
    pub(crate) copies: Option<Origin>,
    /// Only keys with an owner that has reached its memory limit are evicted.
    pub(crate) is_for_owners: bool,
    /// Databases with candidates, each with the cumulative number of candidates.
    pub(crate) eligible: Vec<(u16, u64)>,
    /// Nanoseconds of evictions since the last report.
    pub(crate) nanos: u64,
    /// Next stripe of the search through all stripes.
    pub(crate) search_at: u32,
    /// Entries seen beyond the samples of the last eviction: they count for the next.
    pub(crate) surplus: i64,
    /// Databases and random numbers of the places drawn ahead, a ring, and the oldest of them.
    ahead: [(u16, u64); PLACES_AHEAD],
    oldest: usize,
    /// Averages over the samples: bytes of entries in the small queue, and of all.
    small_bytes: u64,
    all_bytes: u64,
    random: Cell<u64>,
}

/// A bucket that may hold candidates.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) db: u16,
    pub(crate) stripe: u32,
    /// Place in the order of the stripe's keys.
    pub(crate) position: u32,
}

/// The places of the stages of [`Evictor::next_place`].
pub(crate) struct Places {
    /// To be looked at now.
    pub(crate) now: Place,
    /// Places to prefetch the entries, the bucket and the stripe of.
    pub(crate) entries: Place,
    pub(crate) bucket: Place,
    pub(crate) stripe: Place,
}

#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) hash: KeyHash,
    pub(crate) db: u16,
    pub(crate) entry: Entry,
    pub(crate) access: u32,
    /// The higher, the sooner it goes: as of the last [`Evictor::renew`].
    pub(crate) urgency: i64,
}

/// The best candidates seen, in ascending order of urgency.
#[derive(Default)]
pub(crate) struct Pool {
    candidates: Vec<Candidate>,
}

impl Evictor {
    /// An evictor with a random seed, so that threads draw different stripes.
    pub fn new(seed: u64) -> Self {
        let mut evictor = Evictor { random: Cell::new(seed), ..Evictor::default() };
        evictor.ahead = std::array::from_fn(|_| (0, evictor.draw()));
        evictor
    }

    pub(crate) fn draw(&self) -> u64 {
        draw(&self.random)
    }

    /// A random database, weighted by its number of candidates.
    pub(crate) fn draw_db(&self) -> u16 {
        match self.eligible[..] {
            [(db, _)] => db,
            _ => {
                let sum = self.eligible.last().map_or(1, |(_, sum)| *sum);
                let at = self.draw() % sum;
                self.eligible.iter().find(|(_, upto)| at < *upto).map_or(0, |(db, _)| *db)
            }
        }
    }

    /// Draws a place in one of `stripes` stripes, to be looked at [`PLACES_AHEAD`] draws later.
    #[inline]
    pub(crate) fn next_place(&mut self, stripes: usize) -> Places {
        let drawn = (self.draw_db(), self.draw());
        let now = std::mem::replace(&mut self.ahead[self.oldest], drawn);
        self.oldest = (self.oldest + 1) % PLACES_AHEAD;
        let place = |(db, draw): (u16, u64)| {
            let stripe = (((draw >> 32) * stripes as u64) >> 32) as u32;
            Place { db, stripe, position: draw as u32 }
        };
        let ahead = |by: usize| place(self.ahead[(self.oldest + by - 1) % PLACES_AHEAD]);
        Places {
            now: place(now),
            entries: ahead(ENTRIES_AHEAD),
            bucket: ahead(BUCKETS_AHEAD),
            stripe: place(drawn),
        }
    }

    /// Forgets the candidates, and evicts by this policy from now on.
    pub(crate) fn begin(&mut self, policy: Policy) {
        self.pools.iter_mut().for_each(|pool| pool.candidates.clear());
        self.surplus = 0;
        self.policy = policy;
    }

    /// Orders the candidates by their urgency as of now.
    pub(crate) fn renew(&mut self, clock: &AccessClock) {
        for pool in &mut self.pools {
            for known in &mut pool.candidates {
                known.urgency = clock.urgency(self.policy, known.access).unwrap_or(known.urgency);
            }
            pool.candidates.sort_by_key(|known| known.urgency);
        }
    }

    /// Takes the best candidate out of the pool whose turn it is, or if there is none and `any`
    /// will do, of the other.
    pub(crate) fn take_best(&mut self, any: bool, clock: &AccessClock) -> Option<Candidate> {
        let small_is_due = self.small_bytes * SMALL_SHARE > self.all_bytes;
        let turn = usize::from(clock.has_queues() && !small_is_due);
        let found = self.pools[turn].candidates.pop();
        let other = &mut self.pools[1 - turn];
        found.or_else(|| any.then(|| other.candidates.pop()).flatten())
    }

    /// Updates the averages of the small queue's share with an entry.
    pub(crate) fn average(&mut self, entry: Entry, access: u32) {
        let bytes = entry.footprint() as u64;
        let small = if is_main(access) { 0 } else { bytes };
        self.small_bytes += small;
        self.small_bytes -= self.small_bytes >> AVERAGED_LOG2;
        self.all_bytes += bytes;
        self.all_bytes -= self.all_bytes >> AVERAGED_LOG2;
    }
}

impl Pool {
    /// Whether an entry of this urgency would be taken in.
    #[inline]
    pub(crate) fn wants(&self, urgency: i64) -> bool {
        self.candidates.len() < POOL_MAX || self.candidates[0].urgency < urgency
    }

    /// Takes in a candidate that is [wanted](Pool::wants), for the worst if there is no room. Of
    /// equals the latest goes first: it is near.
    pub(crate) fn offer(&mut self, candidate: Candidate) {
        if self.candidates.iter().any(|known| known.entry == candidate.entry) {
            return;
        }
        let at = self.candidates.partition_point(|known| known.urgency <= candidate.urgency);
        if self.candidates.len() < POOL_MAX {
            return self.candidates.insert(at, candidate);
        }
        self.candidates.copy_within(1..at, 0);
        self.candidates[at - 1] = candidate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::value::Value;
    use crate::{Keyspace, Options};

    #[test]
    fn a_pool_keeps_the_most_urgent_and_yields_them_in_order() {
        let keyspace = Keyspace::new(&Options::default());
        let mut handle = keyspace.attach();
        let mut evictor = Evictor::new(1);
        let clock = AccessClock::default();
        evictor.begin(Policy::VolatileTtl);
        // Of a hundred urgencies in some order, one of them twice.
        let urgencies: Vec<i64> = (0..100).map(|i| i * 37 % 100).chain([95]).collect();
        let mut entries = Vec::new();
        for &urgency in &urgencies {
            let entry = Entry::new(&mut handle.cache, b"key", Value::Int(1), None, 0);
            entries.push(entry);
            let candidate =
                Candidate { hash: handle.hash(b"key"), db: 0, entry, access: 0, urgency };
            let pool = &mut evictor.pools[0];
            if pool.wants(urgency) {
                pool.offer(candidate);
                // Known already.
                pool.offer(candidate);
            }
        }
        let taken: Vec<Candidate> =
            std::iter::from_fn(|| evictor.take_best(true, &clock)).collect();
        let order: Vec<i64> = taken.iter().map(|candidate| candidate.urgency).collect();
        assert_eq!(order, [99, 98, 97, 96, 95, 95, 94, 93, 92, 91, 90, 89, 88, 87, 86, 85]);
        // Of equals the latest first.
        assert_eq!(taken[4].entry, entries[100]);
        entries.into_iter().for_each(|entry| entry.release(&mut handle.cache));
    }

    #[test]
    fn places_are_looked_at_in_the_order_in_which_they_were_asked_for() {
        let mut evictor = Evictor::new(7);
        let same = |a: Place, b: Place| (a.stripe, a.position) == (b.stripe, b.position);
        let places: Vec<Places> = (0..20_000).map(|_| evictor.next_place(100)).collect();
        for i in PLACES_AHEAD..places.len() {
            let at = |ahead: usize| &places[i - ahead];
            assert!(same(places[i].now, at(PLACES_AHEAD).stripe));
            assert!(same(places[i].now, at(BUCKETS_AHEAD).bucket));
            assert!(same(places[i].now, at(ENTRIES_AHEAD).entries));
        }
        let mut counts = [0; 100];
        places.iter().for_each(|places| counts[places.now.stripe as usize] += 1);
        assert!(counts.iter().all(|count| (120..300).contains(count)), "{counts:?}");
    }
}
