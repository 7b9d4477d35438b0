//! Cursors: aggregations between two reads.

use crate::search::aggregate::job::Job;
use petrel_keyspace::Handle;
use petrel_search::index::schema::Schema;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The cursors of all indexes.
#[derive(Default)]
pub(in crate::search) struct Cursors {
    all: Mutex<HashMap<u64, Idle>>,
    /// The earliest time at which one is closed, in Unix milliseconds; 0 without any.
    earliest_ms: AtomicI64,
    numbers: AtomicU64,
    hasher: RandomState,
}

/// A cursor between two reads.
struct Idle {
    job: Job,
    closed_at_ms: i64,
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Idle>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new cursor, hard to guess.
    pub(super) fn new_id(&self) -> u64 {
        // Numbers stay within a double.
        let number = self.numbers.fetch_add(1, Relaxed);
        (self.hasher.hash_one(number) >> 11).max(1)
    }

    /// Closes cursors that were not read in time.
    pub fn close_idle(&self, now_ms: i64, ks: &Handle) {
        let earliest = self.earliest_ms.load(Relaxed);
        if earliest == 0 || earliest > now_ms {
            return;
        }
        let mut all = self.lock();
        let closed: Vec<Idle> =
            all.extract_if(|_, idle| idle.closed_at_ms <= now_ms).map(|(_, idle)| idle).collect();
        self.note_earliest(&all);
        drop(all);
        for mut idle in closed {
            idle.job.release(ks);
        }
    }

    fn note_earliest(&self, all: &HashMap<u64, Idle>) {
        let earliest = all.values().map(|idle| idle.closed_at_ms).min();
        self.earliest_ms.store(earliest.unwrap_or(0), Relaxed);
    }

    /// Number of cursors of an index.
    pub(super) fn count(&self, index: u64) -> usize {
        self.lock().values().filter(|idle| idle.job.live.id == index).count()
    }

    /// Keeps an aggregation until it is read again.
    pub(super) fn keep(&self, job: Job, now_ms: i64) {
        let idle_ms = i64::try_from(job.max_idle_ms).unwrap_or(i64::MAX);
        let closed_at_ms = now_ms.saturating_add(idle_ms).max(1);
        let mut all = self.lock();
        all.insert(job.id, Idle { job, closed_at_ms });
        self.note_earliest(&all);
    }

    /// The definition of a cursor's index, if the cursor is of this database.
    pub(super) fn schema(&self, id: u64, db: u16) -> Option<Arc<Schema>> {
        let all = self.lock();
        all.get(&id).filter(|idle| idle.job.db == db).map(|idle| idle.job.schema.clone())
    }

    /// Takes a cursor, so that no other client reads it.
    pub(super) fn take(&self, id: u64) -> Option<Job> {
        let mut all = self.lock();
        let idle = all.remove(&id)?;
        self.note_earliest(&all);
        Some(idle.job)
    }
}
