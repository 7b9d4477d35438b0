//! Live indexes: contents under a lock, shared by all threads.
//!
//! Queries hold the lock for a step of about 200 microseconds, a change for the time of its own.

use crate::index::contents::{Applying, Contents};
use crate::index::fence::Fence;
use crate::index::schema::Schema;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire};
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

/// An index that is fed and searched.
#[derive(Debug)]
pub struct Live {
    /// Number of the index, never used again.
    pub id: u64,
    contents: RwLock<Contents>,
    /// Stamps of suspended queries, ascending.
    suspended: Mutex<Vec<u64>>,
    suspended_count: AtomicUsize,
    is_dropped: AtomicBool,
    /// The walk over present keys.
    pub scan: Scan,
    /// Number of commands that used the index.
    pub uses: AtomicU64,
    /// Nanoseconds spent on changes.
    pub nanos: AtomicU64,
    /// Time of the last use in Unix milliseconds.
    pub used_at_ms: AtomicU64,
}

/// Progress of the walk over the keys that were there before the index.
#[derive(Debug, Default)]
pub struct Scan {
    /// Number of the last requested walk.
    requested: AtomicU32,
    /// Number of the last finished walk.
    finished: AtomicU32,
    /// Whether the walk waits for memory.
    pub is_paused: AtomicBool,
    /// Stripes of the keyspace that are done.
    pub done: AtomicUsize,
    /// Stripes of the keyspace.
    pub stripes: AtomicUsize,
}

impl Scan {
    /// Requests a walk; returns its number. An older one ends early.
    pub fn request(&self) -> u32 {
        self.requested.fetch_add(1, SeqCst) + 1
    }

    /// Whether a walk is still wanted.
    pub fn is_current(&self, number: u32) -> bool {
        self.requested.load(SeqCst) == number
    }

    /// Ends a walk.
    pub fn finish(&self, number: u32) {
        self.finished.fetch_max(number, SeqCst);
    }

    /// Whether a walk is wanted or running: documents may be missing.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.finished.load(Acquire) != self.requested.load(Acquire)
    }

    /// Share of the keyspace that is indexed, 0 to 1.
    pub fn progress(&self) -> f64 {
        let stripes = self.stripes.load(Relaxed);
        if !self.is_running() || stripes == 0 {
            return if self.is_running() { 0.0 } else { 1.0 };
        }
        (self.done.load(Relaxed) as f64 / stripes as f64).min(1.0)
    }
}

impl Live {
    /// An empty index.
    pub fn new(id: u64, schema: &Schema) -> Arc<Self> {
        Arc::new(Live {
            id,
            contents: RwLock::new(Contents::new(schema, 0)),
            suspended: Mutex::default(),
            suspended_count: AtomicUsize::new(0),
            is_dropped: AtomicBool::new(false),
            scan: Scan::default(),
            uses: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            used_at_ms: AtomicU64::new(0),
        })
    }

    /// Locks the contents for a step of a query.
    pub fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read()
    }

    /// Locks the contents for changes.
    pub fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write()
    }

    /// Whether the index was dropped: nothing is applied any more.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Acquire)
    }

    /// Detaches the contents; returns them, to be freed at leisure. No change is applied later.
    pub fn drop_contents(&self, schema: &Schema) -> Contents {
        let mut contents = self.contents.write();
        self.is_dropped.store(true, Release);
        let stamp = contents.stamp() + 1;
        std::mem::replace(&mut *contents, Contents::new(schema, stamp))
    }

    /// Replaces the contents by empty ones; returns the old ones.
    pub fn clear(&self, schema: &Schema) -> Contents {
        let mut contents = self.contents.write();
        let stamp = contents.stamp() + 1;
        std::mem::replace(&mut *contents, Contents::new(schema, stamp))
    }

    /// Keeps the versions of a stamp while a query is suspended. Called while the contents are
    /// locked by the query.
    pub fn suspend(self: &Arc<Self>, stamp: u64) -> Suspension {
        let mut suspended = self.suspended.lock();
        let at = suspended.partition_point(|&other| other < stamp);
        suspended.insert(at, stamp);
        self.suspended_count.store(suspended.len(), Release);
        Suspension { live: self.clone(), stamp }
    }

    /// Stamps of the earliest and the latest suspended query.
    #[inline]
    pub fn suspended(&self) -> Option<(u64, u64)> {
        if self.suspended_count.load(Acquire) == 0 {
            return None;
        }
        let suspended = self.suspended.lock();
        Some((*suspended.first()?, *suspended.last()?))
    }

    /// Begins changes that queries see at once, with the contents locked.
    pub fn begin<'l>(
        &'l self,
        fence: &Fence,
    ) -> Option<(RwLockWriteGuard<'l, Contents>, Applying)> {
        let mut contents = self.contents.write();
        if self.is_dropped() {
            return None;
        }
        let suspended = self.suspended();
        contents.clean(suspended.map(|(earliest, _)| earliest), |hash| fence.is_in_flight(hash, 0));
        contents.begin();
        let snapshot = suspended.map(|(_, latest)| latest);
        Some((contents, Applying { snapshot, in_flight: false }))
    }

    /// Removes expired fields, at a time in Unix milliseconds; returns the growth in bytes.
    pub fn expire_fields(&self, now_ms: i64) -> i64 {
        if !self.contents.read().has_expired_fields(now_ms) {
            return 0;
        }
        let mut contents = self.contents.write();
        if self.is_dropped() {
            return 0;
        }
        let before = contents.footprint() as i64;
        let snapshot = self.suspended().map(|(_, latest)| latest);
        contents.expire_fields(now_ms, snapshot);
        contents.footprint() as i64 - before
    }
}

/// A suspended query: the versions that it needs are kept.
#[derive(Debug)]
pub struct Suspension {
    live: Arc<Live>,
    stamp: u64,
}

impl Drop for Suspension {
    fn drop(&mut self) {
        let mut suspended = self.live.suspended.lock();
        if let Ok(at) = suspended.binary_search(&self.stamp) {
            suspended.remove(at);
        }
        self.live.suspended_count.store(suspended.len(), Release);
    }
}
