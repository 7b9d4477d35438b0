//! Per-thread counters: only the owner writes, any thread sums.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A counter with one writer; adding costs a plain load and store.
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

/// Number of keys of one database that one thread added, less those it removed.
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
    /// Number of effects, observed or not.
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

    /// Adds another thread's counters to these, except for its batch.
    pub fn add(&self, other: &Counters) {
        self.used.add(other.used.get());
        self.table_bytes.add(other.table_bytes.get());
        self.inserted.add(other.inserted.get());
        self.hits.add(other.hits.get());
        self.misses.add(other.misses.get());
        self.expired.add(other.expired.get());
        self.expired_active.add(other.expired_active.get());
        self.expired_fields.add(other.expired_fields.get());
        self.expired_fields_active.add(other.expired_fields_active.get());
        self.evicted.add(other.evicted.get());
        self.tracked_keys.add(other.tracked_keys.get());
        self.tracked_items.add(other.tracked_items.get());
        self.tracked_bytes.add(other.tracked_bytes.get());
        self.changes.add(other.changes.get());
        for (sum, db) in self.dbs.iter().zip(&other.dbs) {
            sum.keys.add(db.keys.get());
            sum.volatile.add(db.volatile.get());
            sum.expiring.add(db.expiring.get());
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
    /// Bytes of the schemas of compact hashes, included in `used`.
    pub schemas: u64,
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys removed after their expiry.
    pub expired: u64,
    /// Expired keys removed by the sweep rather than by a command.
    pub expired_active: u64,
    /// Fields of hashes removed after their expiry.
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
