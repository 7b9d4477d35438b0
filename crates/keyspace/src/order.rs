//! The order of changes, and the epochs in which they become durable.
//!
//! No lock and no shared counter orders all changes. Each stripe numbers its own, under its lock, and that is order enough: a change is of one
//! key, and a key has one stripe. What orders stripes among each other, roughly, is the *epoch*, a number that somebody who makes changes
//! durable advances now and then, and that is read under the locks of each commit. So a change that was made in the knowledge of
//! another has no lower epoch, and all changes up to the end of an epoch together are a state that there could have been
//! (as in Silo: Tu et al., "Speedy Transactions in Multicore In-Memory Databases", SOSP 2013).
//!
//! ```text
//! order   +----------------------+----------------------+
//!         | epoch, 40 bits       | in the stripe, 24    |    changes of one key: ascending
//!         +----------------------+----------------------+
//! ```
//!
//! What changes whole databases is made with everything held, and has an epoch of its own, to which nothing else belongs.

use crate::effect::EffectSink;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, RwLock};

/// Bits of an [`Order`] that count within an epoch.
const COUNT_BITS: u32 = 24;

/// Where a change stands among those of the same stripe. Later ones have higher orders.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Order(pub u64);

impl Order {
    /// The first of an epoch.
    #[inline]
    pub fn first_of(epoch: u64) -> Self {
        Order(epoch << COUNT_BITS)
    }

    /// The epoch that it was made in; that of its commit may be later.
    #[inline]
    pub fn epoch(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// The order of a change in `epoch` that follows this one.
    #[inline]
    pub(crate) fn next(self, epoch: u64) -> Self {
        Order(self.0 + 1).max(Order::first_of(epoch))
    }
}

/// The epoch that changes belong to that are committed now. Read often and written seldom, on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Epochs(AtomicU64);

impl Default for Epochs {
    fn default() -> Self {
        Epochs(AtomicU64::new(1))
    }
}

impl Epochs {
    /// The epoch of this moment; at first 1.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Begins the next epoch, and returns the one that has ended.
    pub fn advance(&self) -> u64 {
        self.0.fetch_add(1, SeqCst)
    }

    /// Lets epochs begin after those of a log that was read. Nobody commits meanwhile.
    pub fn begin_at(&self, epoch: u64) {
        self.0.fetch_max(epoch, SeqCst);
    }
}

/// Makes the sinks of all threads: a log.
pub trait SinkSource: Send + Sync {
    /// A sink for a thread that holds something.
    fn sink(&self) -> Box<dyn EffectSink>;

    /// Whether readers are to learn which epoch they have seen something of ([`crate::Handle::take_need`]).
    fn is_strict(&self) -> bool;
}

/// Who makes the sinks, if anybody.
#[derive(Default)]
pub(crate) struct Sinks {
    source: RwLock<Option<Arc<dyn SinkSource>>>,
    version: AtomicU64,
}

impl Sinks {
    /// Changes whenever the source does.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    pub fn get(&self) -> Option<Arc<dyn SinkSource>> {
        self.source.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, source: Option<Arc<dyn SinkSource>>) {
        *self.source.write().unwrap_or_else(PoisonError::into_inner) = source;
        self.version.fetch_add(1, Relaxed);
    }
}
