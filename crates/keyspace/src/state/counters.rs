//! Figures that every thread keeps for itself: only the owner writes, anyone sums.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A figure with one writer; adding costs a plain load and store.
#[derive(Default)]
pub(crate) struct Cell(AtomicI64);

impl Cell {
    #[inline]
    pub fn add(&self, n: i64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }

    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Keys of one database, as far as one thread added and removed them.
#[derive(Default)]
pub(crate) struct DbCounters {
    pub keys: Cell,
    pub volatile: Cell,
    /// Collections with elements that expire.
    pub expiring: Cell,
}

/// Counters of one thread, on cache lines of their own.
#[repr(align(128))]
pub(crate) struct Counters {
    /// Odd while the thread is in a batch, during which it may peek at retired bucket arrays.
    pub batch: AtomicU64,
    pub used: Cell,
    pub table_bytes: Cell,
    /// Bytes of all entries ever inserted: the byte clock of S3-FIFO.
    pub inserted: Cell,
    pub hits: Cell,
    pub misses: Cell,
    pub expired: Cell,
    pub expired_active: Cell,
    pub expired_fields: Cell,
    pub expired_fields_active: Cell,
    pub evicted: Cell,
    /// Tracked keys, their readers, and the bytes that both take.
    pub tracked_keys: Cell,
    pub tracked_items: Cell,
    pub tracked_bytes: Cell,
    /// Effects, whether or not anybody learned of them.
    pub changes: Cell,
    pub dbs: Box<[DbCounters]>,
}

impl Counters {
    pub fn new(databases: usize) -> Self {
        Counters {
            batch: AtomicU64::new(0),
            used: Cell::default(),
            table_bytes: Cell::default(),
            inserted: Cell::default(),
            hits: Cell::default(),
            misses: Cell::default(),
            expired: Cell::default(),
            expired_active: Cell::default(),
            expired_fields: Cell::default(),
            expired_fields_active: Cell::default(),
            evicted: Cell::default(),
            tracked_keys: Cell::default(),
            tracked_items: Cell::default(),
            tracked_bytes: Cell::default(),
            changes: Cell::default(),
            dbs: (0..databases).map(|_| DbCounters::default()).collect(),
        }
    }
}

/// Sums over all threads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Bytes that `maxmemory` limits: entries, blobs, tables and the tracking table.
    pub used: u64,
    /// Bytes of hash tables, included in `used`.
    pub tables: u64,
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys removed because their time had passed.
    pub expired: u64,
    /// Expired keys removed by the sweep rather than by a command.
    pub expired_active: u64,
    /// Fields of hashes removed because theirs had.
    pub expired_fields: u64,
    /// Expired fields removed by the sweep rather than by a command.
    pub expired_fields_active: u64,
    /// Keys removed to stay under the memory limit.
    pub evicted: u64,
    /// Changes of keys and databases: effects.
    pub changes: u64,
    /// Tracked keys.
    pub tracked_keys: u64,
    /// Readers of tracked keys, counted once per key.
    pub tracked_items: u64,
    /// Bytes that both take.
    pub tracked_bytes: u64,
}

/// Size of one database.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DbStats {
    /// Keys, expired ones that are not removed yet included.
    pub keys: u64,
    /// Keys with a time to live.
    pub volatile: u64,
    /// Hashes that have fields with a time to live.
    pub expiring: u64,
}
