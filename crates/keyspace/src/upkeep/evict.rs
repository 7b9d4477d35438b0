//! Eviction: making room before a command that may need memory.
//!
//! The sum of all threads' memory use is compared with the limit. A thread repeats that only after
//! it has grown by a small share of the limit, so most commands cost one comparison of two local
//! numbers.
//!
//! Victims are found by sampling, for there is no list of all keys to keep in order: buckets drawn
//! at random offer their entries to a small pool of the best candidates seen so far, and the best
//! of the pool goes. This is how Redis documents its approximated LRU. A candidate is looked at
//! again under its stripe's lock; one that was used meanwhile stays. Under S3-FIFO the pool is two,
//! one for each queue.
//!
//! Places to sample are drawn some draws ahead, and their cache lines are prefetched in stages: the
//! stripe, then the bucket, then the entries. So the misses of several draws overlap.

use crate::handle::Handle;
use crate::state::effect::Removal;
use crate::state::evictor::{Candidate, Place};
use crate::state::ghost::Ghost;
use crate::state::policy::{Policy, is_main};
use crate::structures::bucket::Item;
use crate::structures::bucket::SLOTS;
use crate::structures::entry::Entry;
use crate::structures::key_hash::Key;
use crate::structures::key_hash::KeyHash;
use crate::structures::table::Position;
use petrel_heap::prefetch;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Evictions between two reads of the clock.
const EVICTIONS_PER_LOOK: u32 = 8;
/// Stripes visited between two reads of the clock.
const STRIPES_PER_LOOK: u32 = 64;
/// Growth of all threads together, as a part of the limit, after which each checks again: the error
/// of the limit.
const SLACK_SHARE: u64 = 1024;
/// Growth allowed under a small limit, where a comparison costs as much as several evictions, and
/// the largest part of the limit that it may be.
const SLACK_MIN: u64 = 4 << 10;
const SLACK_MIN_SHARE: u64 = 256;
/// Maximum number of bytes freed ahead of need; it bounds the pause.
const SLACK_MAX: u64 = 32 << 10;
/// A slack that is always used up: the sum may still be above the limit.
const LOOK_AGAIN: i64 = i64::MIN;
/// Draws without a candidate before all stripes are searched in turn.
const DRAWS_MAX: usize = 32;
/// S3-FIFO: draws for a candidate from the due queue before the other is tried.
const DRAWS_PER_QUEUE: usize = 4;
/// Bytes evicted for each byte that a command adds to an owner without memory: others add to it,
/// too.
const OWNERS_SHARE: u64 = 2;
/// Bytes evicted in addition: those of an entry beside its key and value.
const OWNERS_MIN: u64 = 128;
/// Buckets searched from a random one on.
const BUCKETS_PER_DRAW: usize = 16;

/// Result of an attempt to make room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Made {
    Nothing,
    /// Less than requested: the next command must check again.
    Some,
    Enough,
}

impl Handle {
    /// Makes about `needed` more bytes fit under the memory limit, by evicting keys if the policy
    /// allows. False if they do not fit and nothing can be evicted: the command must be rejected.
    ///
    /// Called before a command that may use more memory; the thread is in a batch and holds
    /// nothing.
    #[inline]
    pub fn make_room(&mut self, needed: usize) -> bool {
        let limit = self.ks.memory_limit.load(Relaxed);
        if limit == 0 {
            return true;
        }
        let grown = self.counters.used.get() - self.upkeep.evictor.own_then + needed as i64;
        if limit == self.upkeep.evictor.limit && grown <= self.upkeep.evictor.slack {
            return true;
        }
        self.make_room_slow(limit, needed as u64)
    }

    /// Enforces the limit by the present use of all threads, even if this thread has not grown
    /// since its last check: other threads' connections may have received much, or the limit was
    /// lowered. Called in upkeep, as [`Handle::make_room`] is.
    pub fn keep_limit(&mut self) {
        self.upkeep.evictor.limit = 0;
        self.make_room(0);
    }

    /// Whether an allocation of `bytes` bytes would exceed the memory limit even in an empty
    /// server.
    pub fn is_beyond_limit(&self, bytes: usize) -> bool {
        let limit = self.ks.memory_limit.load(Relaxed);
        limit > 0 && bytes as u64 >= limit
    }

    /// Nanoseconds that this thread has spent on evictions since the last call.
    #[inline]
    pub fn take_eviction_nanos(&mut self) -> u64 {
        std::mem::take(&mut self.upkeep.evictor.nanos)
    }

    /// Seconds since a key was last used; the key's stripe is held. `None` if it does not exist, or
    /// if the policy keeps no such time ([`Policy::knows_idle_time`]).
    pub fn idle_seconds(&mut self, db: u16, key: Key<'_>) -> Option<u32> {
        let known = self.ks.policy().knows_idle_time();
        let access = self.peek(db, key)?.access();
        known.then(|| self.clock.idle_seconds(access))
    }

    /// Seconds since a client last read or changed a key here, expired or not; its stripe is held.
    /// `None` if it does not exist, or if the policy keeps no such time because it counts uses or
    /// records only changes.
    pub fn unused_seconds(&self, db: u16, key: Key<'_>) -> Option<u32> {
        let known = self.ks.policy().knows_idle_time() && !self.clock.notes_only_changes();
        let (_, entry) = self.find(db, key).filter(|_| known)?;
        Some(self.clock.seconds_since(entry.access()))
    }

    /// Sets the time since a key's last use, expired or not, to restore the result of
    /// [`Handle::unused_seconds`] after a change that is no use; its stripe is held.
    pub fn set_unused_seconds(&self, db: u16, key: Key<'_>, seconds: u32) {
        if let Some((_, entry)) = self.find(db, key) {
            entry.set_access(self.clock.idle_for(seconds.into()));
        }
    }

    /// The logarithmic counter of a key's uses, 0 to 255; the key's stripe is held. `None` if it
    /// does not exist, or if the policy counts no uses ([`Policy::is_lfu`]).
    pub fn frequency(&mut self, db: u16, key: Key<'_>) -> Option<u8> {
        let known = self.ks.policy().is_lfu();
        let access = self.peek(db, key)?.access();
        known.then(|| self.clock.frequency(access))
    }

    /// Sets the time since a key's last use, if the policy keeps the time; its stripe is held. True
    /// if the key exists.
    pub fn set_idle_seconds(&mut self, db: u16, key: Key<'_>, seconds: u64) -> bool {
        let known = self.ks.policy().knows_idle_time();
        let access = self.clock.idle_for(seconds);
        self.set_access(db, key, known.then_some(access))
    }

    /// Sets the logarithmic counter of a key's uses, if the policy counts them; its stripe is held.
    /// True if the key exists.
    pub fn set_frequency(&mut self, db: u16, key: Key<'_>, frequency: u8) -> bool {
        let known = self.ks.policy().is_lfu();
        let access = self.clock.used_so_often(frequency);
        self.set_access(db, key, known.then_some(access))
    }

    fn set_access(&mut self, db: u16, key: Key<'_>, access: Option<u32>) -> bool {
        let Some((_, entry)) = self.find_alive(db, key) else { return false };
        if let Some(access) = access {
            entry.set_access(access);
        }
        true
    }

    /// The access field of a new entry.
    #[inline]
    pub(crate) fn initial_access(&mut self, hash: KeyHash) -> u32 {
        if self.clock.has_queues() {
            let ghost = &mut self.stripe(hash).ghost;
            if ghost.as_mut().is_some_and(|ghost| ghost.recall(hash)) {
                return self.clock.in_main();
            }
        }
        self.clock.initial()
    }

    /// Sets the byte clock of S3-FIFO, which other policies do without.
    pub(crate) fn refresh_byte_clock(&mut self) {
        if self.clock.has_queues() {
            let threads = self.upkeep.threads.get(&self.ks);
            let bytes: i64 = threads.iter().map(|thread| thread.inserted.get()).sum();
            self.clock.set_inserted(bytes as u64, self.ks.memory_limit.load(Relaxed));
        }
    }

    #[cold]
    fn make_room_slow(&mut self, limit: u64, needed: u64) -> bool {
        self.release_kept();
        if self.holds_expired() && !self.keeps_expired() {
            return true;
        }
        if needed > limit {
            // It would not fit even in an empty keyspace: nothing is evicted for it.
            return false;
        }
        let threads = self.upkeep.threads.get(&self.ks);
        let count = threads.len() as u64;
        let used: i64 = threads.iter().map(|thread| thread.used.get()).sum();
        let used = used + self.ks.schemas.bytes() as i64;
        let used = used.max(0) as u64 + needed.min(limit / 2);
        let small = SLACK_MIN.min(limit / SLACK_MIN_SHARE);
        let slack = ((limit / SLACK_SHARE).max(small) / count).max(1);
        let policy = if self.keeps_expired() { Policy::NoEviction } else { self.ks.policy() };
        self.refresh_byte_clock();
        self.upkeep.evictor.limit = limit;
        if used <= limit {
            self.upkeep.evictor.own_then = self.counters.used.get();
            self.upkeep.evictor.slack = slack as i64;
            return true;
        }
        let slack = slack.min(SLACK_MAX);
        let (mut excess, own_before) = (used - limit + slack, self.counters.used.get());
        let mut made = self.evict_copies(policy, excess);
        let freed = own_before - self.counters.used.get();
        excess = excess.saturating_sub(freed.max(0) as u64);
        made = match policy {
            _ if made != Made::Nothing => made,
            Policy::NoEviction => Made::Nothing,
            _ => {
                let start = Instant::now();
                let made = self.evict(policy, excess);
                self.upkeep.evictor.nanos += start.elapsed().as_nanos() as u64;
                made
            }
        };
        self.upkeep.evictor.own_then = self.counters.used.get();
        self.upkeep.evictor.slack = if made == Made::Enough { slack as i64 } else { LOOK_AGAIN };
        made != Made::Nothing
    }

    /// Whether there is room for a copy of `needed` bytes, after evicting other copies if
    /// necessary. No stripe is held.
    pub fn make_room_for_copy(&mut self, needed: usize) -> bool {
        let limit = self.ks.memory_limit.load(Relaxed);
        if limit == 0 {
            return true;
        }
        let threads = self.upkeep.threads.get(&self.ks);
        let used: i64 = threads.iter().map(|thread| thread.used.get()).sum();
        let used = used + self.ks.schemas.bytes() as i64;
        let wanted = used.max(0) as u64 + needed as u64;
        if wanted <= limit {
            return true;
        }
        self.refresh_byte_clock();
        let slack = (limit / SLACK_SHARE).min(SLACK_MAX);
        self.evict_copies(self.ks.policy(), wanted - limit + slack) == Made::Enough
    }

    /// Makes room for `needed` bytes at owners of keys that have reached their memory limits, by
    /// evicting such keys of which this process is the primary. False if the policy evicts none, or
    /// there are none. No stripe is held.
    pub fn make_room_at_owners(&mut self, needed: usize) -> bool {
        let policy = if self.keeps_expired() { Policy::NoEviction } else { self.ks.policy() };
        if policy == Policy::NoEviction {
            return false;
        }
        self.refresh_byte_clock();
        // Other candidates are not to be evicted for this, nor these for anything else.
        self.upkeep.evictor.begin(policy);
        self.upkeep.evictor.is_for_owners = true;
        let start = Instant::now();
        let made = self.evict(policy, OWNERS_SHARE * needed as u64 + OWNERS_MIN);
        self.upkeep.evictor.nanos += start.elapsed().as_nanos() as u64;
        self.upkeep.evictor.is_for_owners = false;
        self.upkeep.evictor.begin(policy);
        made != Made::Nothing
    }

    /// Evicts copies until `excess` bytes are free or the time is up; `Nothing` if there are not
    /// enough, although some may have been evicted.
    fn evict_copies(&mut self, policy: Policy, excess: u64) -> Made {
        let Some(origin) = self.ks.ownership.get().and_then(|ownership| ownership.copies()) else {
            return Made::Nothing;
        };
        let policy = match policy {
            Policy::AllKeysLru | Policy::AllKeysLfu => policy,
            _ => Policy::AllKeysRandom,
        };
        let start = Instant::now();
        self.upkeep.evictor.copies = Some(origin);
        let mut made = self.evict(policy, excess);
        self.upkeep.evictor.copies = None;
        if made == Made::Some && start.elapsed() < self.ks.policy.budget() {
            made = Made::Nothing;
        }
        if made == Made::Nothing {
            self.ks.ownership.get().into_iter().for_each(|ownership| ownership.note_no_copies());
        }
        // What it has found is not to be evicted as something else.
        self.upkeep.evictor.begin(policy);
        made
    }

    /// Evicts until `excess` bytes are free or the time is up.
    fn evict(&mut self, policy: Policy, excess: u64) -> Made {
        if policy != self.upkeep.evictor.policy {
            self.upkeep.evictor.begin(policy);
        }
        if !self.find_eligible(policy) {
            return Made::Nothing;
        }
        self.upkeep.evictor.renew(&self.clock);
        let (start, budget) = (Instant::now(), self.ks.policy.budget());
        let own_then = self.counters.used.get();
        let mut evictions = 0u32;
        loop {
            let freed = own_then - self.counters.used.get();
            if freed >= excess as i64 {
                return Made::Enough;
            }
            let found = self.evict_one(policy);
            if !found && !self.search_all(policy) {
                return if freed > 0 { Made::Some } else { Made::Nothing };
            }
            evictions += 1;
            let look = !found || evictions.is_multiple_of(EVICTIONS_PER_LOOK);
            if look && start.elapsed() >= budget {
                return Made::Some;
            }
        }
    }

    /// Lists the databases with keys that the policy may evict; false if there are none.
    fn find_eligible(&mut self, policy: Policy) -> bool {
        let threads = self.upkeep.threads.get(&self.ks);
        self.upkeep.evictor.eligible.clear();
        let mut sum = 0;
        for db in 0..self.ks.databases {
            let figures = threads.iter().map(|thread| &thread.dbs[usize::from(db)]);
            let keys: i64 = figures
                .map(|db| if policy.is_volatile() { db.volatile.get() } else { db.keys.get() })
                .sum();
            if keys > 0 {
                sum += keys as u64;
                self.upkeep.evictor.eligible.push((db, sum));
            }
        }
        sum > 0
    }

    /// Evicts one key, or gives up after `DRAWS_MAX` draws.
    fn evict_one(&mut self, policy: Policy) -> bool {
        let samples = i64::from(self.ks.policy.samples());
        for draws in 0..DRAWS_MAX {
            let mut wanted = samples - std::mem::take(&mut self.upkeep.evictor.surplus);
            for _ in 0..samples {
                if wanted <= 0 {
                    break;
                }
                let place = self.next_place(policy);
                wanted -= self.sample(policy, place, 1) as i64;
            }
            self.upkeep.evictor.surplus = (-wanted).max(0);
            if draws == 0 {
                self.gather(policy, wanted.max(0) as usize);
            }
            let any = draws >= DRAWS_PER_QUEUE;
            while let Some(candidate) = self.upkeep.evictor.take_best(any, &self.clock) {
                if self.evict_candidate(candidate) {
                    return true;
                }
            }
        }
        false
    }

    /// A random place to sample. Its stripe, bucket and entries were prefetched some draws ago, one
    /// after the other, since each says where the next is.
    #[inline]
    fn next_place(&mut self, policy: Policy) -> Place {
        let places = self.upkeep.evictor.next_place(self.ks.stripes.len());
        prefetch((&raw const self.ks.stripes[places.stripe.stripe as usize]).addr());
        if let Some(peeker) = self.peeker() {
            let Place { db, stripe, position } = places.bucket;
            if db == 0 {
                peeker.prefetch_bucket_of(stripe, position);
            }
            let Place { db, stripe, position } = places.entries;
            if db == 0 {
                peeker.prefetch_entries_of(stripe, position, policy.is_volatile());
            }
        }
        places.now
    }

    /// A random place of a stripe.
    fn place_in(&self, db: u16, stripe: u32) -> Place {
        Place { db, stripe, position: self.upkeep.evictor.draw() as u32 }
    }

    /// Offers the pool `wanted` entries of the stripes next in turn: where few stripes have any,
    /// draws alone find too few to choose from.
    fn gather(&mut self, policy: Policy, mut wanted: usize) {
        // More than there are would mean a walk through all stripes.
        let all = self.upkeep.evictor.eligible.last().map_or(0, |&(_, sum)| sum);
        wanted = wanted.min(usize::try_from(all).unwrap_or(usize::MAX));
        if wanted == 0 {
            return;
        }
        let (start, budget) = (Instant::now(), self.ks.policy.budget());
        let stripes = self.ks.stripes.len() as u32;
        for step in 0..stripes {
            self.upkeep.evictor.search_at = (self.upkeep.evictor.search_at + 1) % stripes;
            for i in 0..self.upkeep.evictor.eligible.len() {
                let db = self.upkeep.evictor.eligible[i].0;
                let place = self.place_in(db, self.upkeep.evictor.search_at);
                let seen = self.sample(policy, place, wanted);
                wanted -= seen.min(wanted);
            }
            let look = step % STRIPES_PER_LOOK == STRIPES_PER_LOOK - 1;
            if wanted == 0 || look && start.elapsed() >= budget {
                return;
            }
        }
    }

    /// Searches all stripes in turn for a candidate, if there are few of them. Stops at the time
    /// limit, and continues with the next call. False only if no stripe had any.
    fn search_all(&mut self, policy: Policy) -> bool {
        let (start, budget) = (Instant::now(), self.ks.policy.budget());
        let stripes = self.ks.stripes.len() as u32;
        for _ in 0..stripes {
            self.upkeep.evictor.search_at = (self.upkeep.evictor.search_at + 1) % stripes;
            for i in 0..self.upkeep.evictor.eligible.len() {
                let db = self.upkeep.evictor.eligible[i].0;
                let place = self.place_in(db, self.upkeep.evictor.search_at);
                if self.sample(policy, place, 1) > 0 {
                    let found = self.upkeep.evictor.take_best(true, &self.clock);
                    if found.is_some_and(|candidate| self.evict_candidate(candidate)) {
                        return true;
                    }
                }
            }
            if start.elapsed() >= budget {
                return true;
            }
        }
        false
    }

    /// Offers some `wanted` entries of a stripe to the pool, from a place on. Returns their number,
    /// with the expired ones, which are gone now.
    fn sample(&mut self, policy: Policy, place: Place, wanted: usize) -> usize {
        let Place { db, stripe, .. } = place;
        if db == 0 && self.has_no_candidate(policy, stripe) {
            return 0;
        }
        let seen = self.with_stripe_soon(stripe, |handle| {
            let mut seen = 0;
            let mut expired = None;
            let mut offset = 0;
            while let Some(drawn) = handle.drawn_entries(policy, place, offset) {
                for entry in drawn.into_iter().flatten() {
                    seen += 1;
                    if !handle.is_evictable(entry) {
                        continue;
                    }
                    if handle.is_expired(entry) && handle.upkeep.evictor.copies.is_none() {
                        expired = Some(entry);
                    } else {
                        handle.offer(policy, db, entry);
                    }
                }
                offset += 1;
                if seen >= wanted {
                    break;
                }
            }
            if let Some(key) = expired.map(|entry| handle.key_of(entry))
                && let Some((at, entry)) = handle.find(db, key)
            {
                handle.remove_at(db, key, at, entry, Removal::Expired);
            }
            seen
        });
        seen.unwrap_or_else(|| {
            self.enter_again();
            0
        })
    }

    /// Whether database 0 has nothing in the stripe that the policy may evict. Reads without the
    /// lock, so that a few volatile keys among many others are found quickly.
    fn has_no_candidate(&self, policy: Policy, stripe: u32) -> bool {
        self.peeker().is_some_and(|peeker| match policy.is_volatile() {
            true => peeker.has_none_expiring(stripe),
            false => peeker.is_vacant(stripe),
        })
    }

    /// The entries of the bucket `offset` behind a place that the policy may evict.
    #[inline]
    fn drawn_entries(
        &self,
        policy: Policy,
        place: Place,
        offset: usize,
    ) -> Option<[Option<Entry>; SLOTS]> {
        let table = self.stripe_at(place.stripe).table(place.db)?;
        let buckets = table.buckets();
        let candidates = if policy.is_volatile() { table.flagged() } else { table.len() };
        // Few candidates in a large table justify a longer search.
        let reach = if candidates < buckets { buckets } else { BUCKETS_PER_DRAW.min(buckets) };
        if candidates == 0 || offset >= reach {
            return None;
        }
        let first = ((u64::from(place.position) * buckets as u64) >> 32) as usize;
        let bucket = table.bucket((first + offset) % buckets);
        let mut drawn = [None; SLOTS];
        for i in bucket.used() {
            let slot = bucket.slot(i);
            if slot.flag() || !policy.is_volatile() {
                prefetch(slot.address());
                drawn[i] = Some(slot.item::<Entry>());
            }
        }
        Some(drawn)
    }

    #[inline]
    fn offer(&mut self, policy: Policy, db: u16, entry: Entry) {
        // For a hash with expiring fields, the slot tells only that something expires.
        if policy.is_volatile() && !entry.has_expiry() {
            return;
        }
        let access = entry.access();
        let mut pool = 0;
        if self.clock.has_queues() {
            self.upkeep.evictor.average(entry, access);
            pool = usize::from(is_main(access));
        }
        let urgency = self.clock.urgency(policy, access).unwrap_or_else(|| match entry.expiry() {
            Some(expiry) if policy == Policy::VolatileTtl => expiry.saturating_neg(),
            _ => self.upkeep.evictor.draw() as i64,
        });
        if self.upkeep.evictor.pools[pool].wants(urgency) {
            let hash = self.hash(entry.key());
            let candidate = Candidate { hash, db, entry, access, urgency };
            self.upkeep.evictor.pools[pool].offer(candidate);
        }
    }

    /// Removes a candidate if it is unchanged since it was offered.
    fn evict_candidate(&mut self, candidate: Candidate) -> bool {
        let policy = self.upkeep.evictor.policy;
        let evicted = self.with_stripe_soon(candidate.hash.stripe(), |handle| {
            let Some((at, entry)) = handle.locate(candidate) else { return false };
            let access = entry.access();
            if handle.clock.has_queues() {
                // Uses since then do not count here, because they decide about the second chance
                // below.
                let turn = handle.clock.queue_age(access)
                    == handle.clock.queue_age(candidate.access)
                    && is_main(access) == is_main(candidate.access);
                let stays = handle.clock.second_chance(access);
                if let (true, Some(access)) = (turn, stays) {
                    entry.set_access(access);
                }
                if !turn || stays.is_some() {
                    return false;
                }
            } else if access != candidate.access
                || policy == Policy::VolatileTtl
                    && entry.expiry().map(i64::saturating_neg) != Some(candidate.urgency)
            {
                return false;
            }
            let key = Key { bytes: entry.key(), hash: candidate.hash };
            let remove = |handle: &mut Self| {
                handle.remove_at(candidate.db, key, at, entry, Removal::Evicted);
            };
            match handle.upkeep.evictor.copies {
                None => remove(handle),
                Some(origin) => {
                    if let Some(ownership) = handle.ks.ownership.get() {
                        ownership.note_evicted(candidate.db, key.bytes);
                    }
                    handle.on_behalf(origin, remove);
                }
            }
            handle.keep_ghost(candidate, access);
            true
        });
        evicted.unwrap_or_else(|| {
            self.enter_again();
            false
        })
    }

    /// The position of the candidate, if its entry is still present. Its stripe is held.
    fn locate(&self, candidate: Candidate) -> Option<(Position, Entry)> {
        let table = self.stripe(candidate.hash).table(candidate.db)?;
        let at = table.find_address(candidate.hash, candidate.entry.address())?;
        // The block may have been reused for another key.
        (self.hash(candidate.entry.key()) == candidate.hash).then_some((at, candidate.entry))
    }

    /// Records a victim from the small queue in the ghost queue; does nothing without queues.
    fn keep_ghost(&mut self, candidate: Candidate, access: u32) {
        let data = self.stripe(candidate.hash);
        if !self.clock.has_queues() && data.ghost.is_none() {
            return;
        }
        let before = data.ghost.as_ref().map_or(0, |ghost| ghost.footprint());
        if !self.clock.has_queues() {
            data.ghost = None;
        } else if !is_main(access) {
            let keys = data.table(candidate.db).map_or(0, |table| table.len());
            if data.ghost.as_ref().is_none_or(|ghost| ghost.misfits(keys)) {
                data.ghost = Some(Box::new(Ghost::new(keys)));
            }
            if let Some(ghost) = &mut data.ghost {
                ghost.remember(candidate.hash);
            }
        }
        let after = data.ghost.as_ref().map_or(0, |ghost| ghost.footprint());
        self.count_bytes(after as i64 - before as i64, 0);
    }
}
