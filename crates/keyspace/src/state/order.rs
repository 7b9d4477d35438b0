//! The order of changes, and the epochs in which they become durable.
//!
//! No lock and no shared counter orders all changes. Each stripe numbers its own, under its lock,
//! which suffices: a change is of one key, and a key has one stripe. Stripes are ordered among each
//! other, roughly, by the *epoch*, a number that is advanced periodically by a thread that makes
//! changes durable, and read under the locks of each commit. So a change that depends on another
//! has no lower epoch, and all changes up to the end of an epoch together are a consistent state
//! (as in Silo: Tu et al., "Speedy Transactions in Multicore In-Memory Databases", SOSP 2013).
//!
//! ```text
//! order   +----------------------+----------------------+
//!         | epoch, 40 bits       | in the stripe, 24    |    changes of one key: ascending
//!         +----------------------+----------------------+
//! ```
//!
//! Changes of whole databases are made with everything held, and each has an epoch of its own.

use crate::state::effect::EffectSink;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, RwLock};

/// Bits of an [`Order`] that count within an epoch.
const COUNT_BITS: u32 = 24;

/// Position of a change among those of the same stripe. Later ones have higher orders.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Order(pub u64);

impl Order {
    /// The first order of an epoch.
    #[inline]
    pub fn first_of(epoch: u64) -> Self {
        Order(epoch << COUNT_BITS)
    }

    /// Epoch of the change; that of its commit may be later.
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

/// The epoch of the changes being committed. Read often and written seldom, on a cache line of its
/// own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Epochs(AtomicU64);

impl Default for Epochs {
    fn default() -> Self {
        Epochs(AtomicU64::new(1))
    }
}

impl Epochs {
    /// The present epoch; at first 1.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Begins the next epoch, and returns the one that has ended.
    pub fn advance(&self) -> u64 {
        self.0.fetch_add(1, SeqCst)
    }

    /// Starts epochs after those of a log that was read. No thread commits meanwhile.
    pub fn begin_at(&self, epoch: u64) {
        self.0.fetch_max(epoch, SeqCst);
    }
}

/// The process that first made an effect: 0 is this process. A sink that imports effects from
/// another process skips those with its own origin.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Origin(pub u32);

impl Origin {
    /// This process.
    pub const LOCAL: Origin = Origin(0);
}

/// Creates a sink for every thread: those of a log, of replicas, of an index.
pub trait SinkSource: Send + Sync {
    /// A sink for a thread that holds something.
    fn sink(&self) -> Box<dyn EffectSink>;

    /// Whether its sinks choose the epoch of a commit ([`EffectSink::commit`]). Of several such
    /// sources the first chooses, and all others are notified ([`EffectSink::committed`]).
    fn owns_epochs(&self) -> bool {
        false
    }

    /// Whether readers need the epoch of the changes that they have seen
    /// ([`crate::Handle::take_need`]).
    fn is_strict(&self) -> bool {
        false
    }
}

/// A source of sinks, with the name by which it is replaced or removed.
type Named = (&'static str, Arc<dyn SinkSource>);

/// The sources of sinks; a source that owns epochs comes first.
#[derive(Default)]
pub(crate) struct Sinks {
    sources: RwLock<Vec<Named>>,
    version: AtomicU64,
}

impl Sinks {
    /// Changes whenever a source is set, or the view of the indexes: the upper half counts those.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Makes all threads take the view of the indexes again.
    pub fn renew_indexes(&self) {
        self.version.fetch_add(1 << 32, Relaxed);
    }

    pub fn is_strict(&self) -> bool {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        sources.iter().any(|(_, source)| source.is_strict())
    }

    /// A sink of each source.
    pub fn make(&self) -> Vec<Box<dyn EffectSink>> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        sources.iter().map(|(_, source)| source.sink()).collect()
    }

    pub fn set(&self, name: &'static str, source: Option<Arc<dyn SinkSource>>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|(there, _)| *there != name);
        sources.extend(source.map(|source| (name, source)));
        sources.sort_by_key(|(_, source)| !source.owns_epochs());
        drop(sources);
        self.version.fetch_add(1, Relaxed);
    }
}

/// Effects recorded in the sink, under locks still held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uncommitted {
    pub(crate) any: bool,
    /// Whether one of the changes concerns a whole database.
    pub(crate) alone: bool,
    /// The epoch of the first change.
    pub(crate) epoch: u64,
}
