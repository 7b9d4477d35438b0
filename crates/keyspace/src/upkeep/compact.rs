//! Compaction: moves entries out of sparse slabs, so that memory is released after deletes.
//!
//! Any thread may run a step, but only one at a time. A round walks all tables in the order of
//! stripes, a few buckets under each hold of a lock, and moves the entries out of the slabs that
//! the heap wants empty ([`petrel_heap::Heap::begin_evacuation`]). An entry's address tells its
//! slab, so the other entries are not read.

use crate::handle::Handle;
use crate::state::compaction::CompactionState;
use crate::state::compaction::Ended;
use crate::state::compaction::Round;
use crate::structures::bucket::SLOTS;
use crate::structures::entry::Entry;
use crate::structures::table::Position;
use petrel_heap::Stats;
use petrel_heap::prefetch;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Minimum share of unused memory in slabs for a compaction, in percent.
pub(crate) const FRAGMENTATION_PCT_MIN: u64 = 20;
/// Minimum unused memory for a compaction, in bytes.
const WASTE_MIN: u64 = 4 << 20;
/// Buckets under one hold of a stripe's lock: at most about 20 microseconds.
const BUCKETS_PER_HOLD: usize = 16;
/// Time for which marked slabs wait until other threads, at their ticks, return the blocks in their
/// caches.
const LINGER: Duration = Duration::from_millis(300);
/// Minimum pause between rounds, and the pause if the last round found nothing to move, unless the
/// unused memory has grown by a tenth.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_IN_VAIN: Duration = Duration::from_secs(60);

/// Result of a step.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Compacted {
    /// Number of entries moved.
    pub moved: usize,
    /// True if the round over all stripes continues with the next step.
    pub unfinished: bool,
}

impl Handle {
    /// Moves entries out of sparse slabs for about `budget`, unless another thread is doing so or
    /// less than `fragmentation_pct_min` percent of the slabs' memory is unused. The thread is in a
    /// batch and holds nothing.
    pub fn compact_step(&mut self, budget: Duration, fragmentation_pct_min: u64) -> Compacted {
        let keyspace = self.ks.clone();
        let mut state = match keyspace.compaction.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => PoisonError::into_inner(state),
            Err(TryLockError::WouldBlock) => return Compacted::default(),
        };
        let start = Instant::now();
        let mut round = match state.round.take() {
            Some(round) => round,
            None => match self.begin_round(&state, start, fragmentation_pct_min) {
                Some(round) => round,
                None => return Compacted::default(),
            },
        };
        let mut moved = 0;
        while usize::try_from(round.stripe).is_ok_and(|stripe| stripe < keyspace.stripes.len()) {
            let stripe = round.stripe;
            match self.with_stripe_soon(stripe, |handle| handle.move_buckets(&mut round)) {
                Some(some) => moved += some,
                None => round.pass_over_stripe(),
            }
            if start.elapsed() >= budget || self.should_yield() {
                break;
            }
        }
        round.moved += moved;
        keyspace.compaction.counts.moved.fetch_add(moved as u64, Relaxed);
        let walked = round.stripe as usize >= keyspace.stripes.len();
        let alone = self.upkeep.threads.get(&self.ks).len() == 1;
        let unfinished = !walked || !alone && round.began.elapsed() < LINGER;
        if unfinished {
            state.round = Some(round);
        } else {
            round.evacuation.end();
            keyspace.heap.purge();
            let micros = round.began.elapsed().as_micros() as u64;
            keyspace.compaction.counts.micros.fetch_add(micros, Relaxed);
            let waste = waste(&keyspace.heap.stats());
            state.last = Some(Ended { at: Instant::now(), waste, moved: round.moved });
        }
        Compacted { moved, unfinished }
    }

    fn begin_round(
        &mut self,
        state: &CompactionState,
        now: Instant,
        pct_min: u64,
    ) -> Option<Round> {
        let stats = self.ks.heap.stats();
        // A threshold of 0 starts a round in any case.
        if pct_min > 0 {
            let waste = waste(&stats);
            // A round that moved something may have begun during deletes: later deletes justify
            // another round.
            let repeated = state.last.as_ref().is_some_and(|last| {
                let pause = if last.moved > 0 { PAUSE } else { PAUSE_IN_VAIN };
                now.duration_since(last.at) < pause
                    && waste < last.waste + last.waste / 10 + WASTE_MIN
            });
            if stats.fragmentation_pct() < pct_min || waste < WASTE_MIN || repeated {
                return None;
            }
        }
        let evacuation = self.ks.heap.begin_evacuation(pct_min)?;
        self.cache.trim_if_asked();
        Some(Round {
            evacuation,
            began: now,
            stripe: 0,
            db: 0,
            bucket: 0,
            inside: (0, 0),
            moved: 0,
        })
    }

    /// Moves the bucket array of the stripe's side table of tracked keys. The stripe is held.
    fn move_side_table(&mut self, round: &Round) {
        let tables = &self.ks.tracking.tables;
        let Some(tracked) = self.locks.side_table(tables, round.stripe) else { return };
        let is_marked = |address: *const u8| round.evacuation.contains(address);
        if let Some(array) = tracked.relocate(&is_marked, &mut self.cache) {
            self.retire(array);
        }
    }

    /// Works on the round's stripe, which is held, and advances the round's position.
    fn move_buckets(&mut self, round: &mut Round) -> usize {
        let mut moved = 0;
        for _ in 0..BUCKETS_PER_HOLD {
            if round.bucket == 0 && round.db < self.ks.databases {
                self.move_array(round);
            }
            if round.db == self.ks.databases {
                self.move_side_table(round);
                round.pass_over_stripe();
                return moved;
            }
            let table = self.stripe_at(round.stripe).table(round.db);
            if table.is_none_or(|table| round.bucket >= table.buckets()) {
                round.bucket = 0;
                round.db += 1;
                continue;
            }
            if round.inside == (0, 0) {
                moved += self.move_bucket(round);
            }
            moved += self.move_inside(round);
            if round.inside == (0, 0) {
                round.bucket += 1;
            }
        }
        moved
    }

    /// Moves blocks of the bucket's large collections, one step of one of them; afterwards the
    /// round's position inside the bucket is the beginning again once all are done. Changes by
    /// other threads between two steps may cause a few blocks to be missed.
    fn move_inside(&mut self, round: &mut Round) -> usize {
        if !self.ks.any_large.load(Relaxed) {
            return 0;
        }
        let table = self.stripe_at(round.stripe).table(round.db);
        let Some(table) = table.filter(|table| round.bucket < table.buckets()) else {
            round.inside = (0, 0);
            return 0;
        };
        let bucket = table.bucket(round.bucket);
        let (from, cursor) = std::mem::take(&mut round.inside);
        if (from, cursor) == (0, 0) {
            bucket.used().for_each(|slot| prefetch(bucket.slot(slot).address()));
        }
        let entries = bucket.used().filter(|&slot| slot >= from);
        let mut large = entries
            .map(|slot| (slot, bucket.slot(slot).item::<Entry>()))
            .filter(|(_, entry)| entry.large().is_some());
        let Some((slot, entry)) = large.next() else { return 0 };
        let cursor = if slot == from { cursor } else { 0 };
        let next_slot = large.next().map_or(0, |(slot, _)| slot);
        let (db, key) = (round.db, self.key_of(entry));
        let evacuation = &round.evacuation;
        let moved = Cell::new(0);
        let is_marked = |address: usize| {
            let marked = evacuation.contains(std::ptr::without_provenance(address));
            moved.set(moved.get() + usize::from(marked));
            marked
        };
        let next = self
            .change_large(db, key, entry, |large, cache| large.relocate(cursor, &is_marked, cache));
        round.inside = match next.flatten() {
            Some(cursor) => (slot, cursor),
            None => (next_slot, 0),
        };
        moved.get()
    }

    /// Moves the bucket array of the round's table, if its slab is to be emptied.
    fn move_array(&mut self, round: &Round) {
        let Some(table) = self.stripe_at(round.stripe).table(round.db) else { return };
        if table.array_address().is_some_and(|address| round.evacuation.contains(address)) {
            let databases = usize::from(self.ks.databases);
            let stripe = self.locks.data(&self.ks.stripes, round.stripe);
            let table = stripe.table_mut(round.db, databases);
            if let Some(array) = table.relocate_array(&mut self.cache) {
                self.retire(array);
            }
        }
    }

    fn move_bucket(&mut self, round: &Round) -> usize {
        let Some(table) = self.stripe_at(round.stripe).table(round.db) else { return 0 };
        let bucket = table.bucket(round.bucket);
        let mut marked = [None; SLOTS];
        for slot in bucket.used() {
            let address = bucket.slot(slot).address();
            if round.evacuation.contains(std::ptr::without_provenance(address)) {
                prefetch(address);
                marked[slot] = Some(bucket.slot(slot).item::<Entry>());
            }
        }
        let mut moved = 0;
        for (slot, old) in marked.into_iter().enumerate() {
            let Some(old) = old else { continue };
            let new = old.relocate(&mut self.cache);
            let table = self.stripe_at(round.stripe);
            let table = table.table_mut(round.db, usize::from(self.ks.databases));
            let at = Position { bucket: round.bucket, slot };
            table.replace(at, new);
            if self.tracks() {
                self.note_moved(round.db, self.key_of(new).hash, at, (old, new));
            }
            self.free_block_later(old);
            moved += 1;
        }
        self.ks.compaction.counts.keys.fetch_add(moved as u64, Relaxed);
        moved
    }
}

/// Unused memory of slabs, in bytes.
fn waste(stats: &Stats) -> u64 {
    stats.slab_bytes.saturating_sub(stats.retained_bytes + stats.live_bytes + stats.cached_bytes)
}
