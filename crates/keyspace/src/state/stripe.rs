//! A stripe: one lock and the data that it guards, on one cache line.

use crate::state::ghost::Ghost;
use crate::state::interest::Interest;
use crate::state::order::Order;
use crate::structures::bucket::Bucket;
use crate::structures::entry::EntryTable;
use crate::structures::table::Array;
use petrel_lock::StripeLock;
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// The keys of all databases with the same first bits of their hashes.
#[repr(align(64))]
pub(crate) struct Stripe {
    pub lock: StripeLock,
    /// Whether the stripe has tracked keys, as bits ([`crate::tracking::TRACKED`]); changed by the
    /// holder of the lock.
    pub tracked: AtomicU8,
    data: UnsafeCell<StripeData>,
}

// SAFETY: `data` is reached only by the holder of `lock`, by the holder of the exclusive intent, or
// (tables, to peek) through atomics.
unsafe impl Sync for Stripe {}

#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Stripe>() == 64);

/// Data guarded by the lock of a stripe.
#[derive(Default)]
pub(crate) struct StripeData {
    first: EntryTable,
    /// Order of the last recorded change.
    pub order: Order,
    /// Tables of the databases from 1 on; none until one of them is written.
    more: Option<Box<Later>>,
    /// Present only while a key of the stripe is watched or awaited.
    pub interest: Option<Box<Interest>>,
    /// Present only after evictions by S3-FIFO.
    pub ghost: Option<Box<Ghost>>,
}

/// Tables of the databases from 1 on.
struct Later(Box<[EntryTable]>);

impl Stripe {
    pub fn new() -> Self {
        Stripe { lock: StripeLock::new(), tracked: AtomicU8::new(0), data: UnsafeCell::default() }
    }

    /// The guarded data.
    ///
    /// # Safety
    /// The calling thread holds the lock or the exclusive intent, and no other reference from here
    /// is alive.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn data(&self) -> &mut StripeData {
        // SAFETY: by the contract.
        unsafe { &mut *self.data.get() }
    }

    /// The bucket array of database 0, for a peek without the lock.
    #[inline]
    pub fn peek(&self) -> &Array<Bucket> {
        // SAFETY: the reference is to a single atomic word inside the cell.
        unsafe { &(*self.data.get()).first.array }
    }

    /// Number of entries in database 0 that expire, or have fields that do, for a peek without the
    /// lock.
    #[inline]
    pub fn peek_expiring(&self) -> u32 {
        // SAFETY: the reference is to a single atomic word inside the cell.
        unsafe { &(*self.data.get()).first.flagged }.load(Relaxed)
    }
}

impl StripeData {
    /// The table of database 0.
    #[inline]
    pub fn first_mut(&mut self) -> &mut EntryTable {
        &mut self.first
    }

    /// The table of a database; none if it was never written.
    #[inline]
    pub fn table(&self, db: u16) -> Option<&EntryTable> {
        match db {
            0 => Some(&self.first),
            _ => self.more.as_ref().map(|more| &more.0[usize::from(db) - 1]),
        }
    }

    /// The table of a database, created on first use.
    #[inline]
    pub fn table_mut(&mut self, db: u16, databases: usize) -> &mut EntryTable {
        match db {
            0 => &mut self.first,
            _ => self.later_table_mut(db, databases),
        }
    }

    /// Out of line, so that the path to database 0 is short.
    #[inline(never)]
    fn later_table_mut(&mut self, db: u16, databases: usize) -> &mut EntryTable {
        let tables = || Box::new(Later((1..databases).map(|_| EntryTable::default()).collect()));
        &mut self.more.get_or_insert_with(tables).0[usize::from(db) - 1]
    }

    /// Takes the table of a database, leaving an empty one. The keyspace is held exclusively, so no
    /// thread can [peek](crate::Peeker) at the table while its atomic word moves.
    pub fn take_table(&mut self, db: u16) -> EntryTable {
        match db {
            0 => std::mem::take(&mut self.first),
            _ => match &mut self.more {
                Some(more) => std::mem::take(&mut more.0[usize::from(db) - 1]),
                None => EntryTable::default(),
            },
        }
    }

    /// Swaps two databases. The keyspace is held exclusively, as for [`StripeData::take_table`].
    pub fn swap_tables(&mut self, a: u16, b: u16, databases: usize) {
        let table = self.take_table(a);
        let other = std::mem::replace(self.table_mut(b, databases), table);
        *self.table_mut(a, databases) = other;
    }
}
