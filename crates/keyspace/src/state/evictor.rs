//! A thread's view of memory use, and its candidates for eviction (`upkeep/evict.rs`).

use crate::state::order::Origin;
use crate::state::policy::{AccessClock, Policy, draw, is_main};
use crate::structures::entry::Entry;
use crate::structures::key_hash::KeyHash;
use std::cell::Cell;

/// S3-FIFO: the small queue's share of memory, 1 in this many bytes; and samples per victim at
/// least.
const SMALL_SHARE: u64 = 10;
/// S3-FIFO: samples over which the small queue's share is averaged, as a power of two.
const AVERAGED_LOG2: u32 = 9;
/// Maximum number of candidates in a pool.
const POOL_MAX: usize = 16;

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
    /// Databases with candidates, each with the cumulative number of candidates.
    pub(crate) eligible: Vec<(u16, u64)>,
    /// Nanoseconds of evictions since the last report.
    pub(crate) nanos: u64,
    /// Next stripe of the search through all stripes.
    pub(crate) search_at: u32,
    /// Averages over the samples: bytes of entries in the small queue, and of all.
    small_bytes: u64,
    all_bytes: u64,
    random: Cell<u64>,
}

#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) hash: KeyHash,
    pub(crate) db: u16,
    pub(crate) entry: Entry,
    pub(crate) access: u32,
    /// The expiry, or a random number, for the policies that go by it.
    pub(crate) rank: i64,
}

/// The best candidates seen, in no order.
#[derive(Default)]
pub(crate) struct Pool {
    candidates: Vec<Candidate>,
}

impl Evictor {
    /// An evictor with a random seed, so that threads draw different stripes.
    pub fn new(seed: u64) -> Self {
        Evictor { random: Cell::new(seed), ..Evictor::default() }
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

    /// Takes the best candidate out of the pool whose turn it is, or if there is none and `any`
    /// will do, of the other.
    pub(crate) fn take_best(&mut self, any: bool, clock: &AccessClock) -> Option<Candidate> {
        let small_is_due = self.small_bytes * SMALL_SHARE > self.all_bytes;
        let turn = usize::from(clock.has_queues() && !small_is_due);
        let found = self.pools[turn].take_best(self.policy, clock);
        let other = &mut self.pools[1 - turn];
        found.or_else(|| any.then(|| other.take_best(self.policy, clock)).flatten())
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
    /// Takes a candidate in, for the worst if there is no room.
    pub(crate) fn offer(&mut self, candidate: Candidate, policy: Policy, clock: &AccessClock) {
        if self.candidates.iter().any(|known| known.entry == candidate.entry) {
            return;
        }
        if self.candidates.len() < POOL_MAX {
            return self.candidates.push(candidate);
        }
        let urgency = |candidate: &Candidate| candidate.urgency(policy, clock);
        if let Some(worst) = self.candidates.iter_mut().min_by_key(|known| urgency(known))
            && urgency(worst) < urgency(&candidate)
        {
            *worst = candidate;
        }
    }

    fn take_best(&mut self, policy: Policy, clock: &AccessClock) -> Option<Candidate> {
        let urgency = |(_, candidate): &(usize, &Candidate)| candidate.urgency(policy, clock);
        let (best, _) = self.candidates.iter().enumerate().max_by_key(urgency)?;
        Some(self.candidates.swap_remove(best))
    }
}

impl Candidate {
    /// The higher, the sooner it goes.
    fn urgency(&self, policy: Policy, clock: &AccessClock) -> i64 {
        match policy {
            Policy::NoEviction => 0,
            Policy::AllKeysRandom | Policy::VolatileRandom => self.rank,
            Policy::AllKeysLru | Policy::AllKeysLrm | Policy::VolatileLru | Policy::VolatileLrm => {
                clock.idle_seconds(self.access).into()
            }
            Policy::AllKeysLfu | Policy::VolatileLfu => -i64::from(clock.frequency(self.access)),
            Policy::VolatileTtl => self.rank.saturating_neg(),
            Policy::AllKeysS3Fifo => clock.queue_age(self.access).into(),
        }
    }
}
