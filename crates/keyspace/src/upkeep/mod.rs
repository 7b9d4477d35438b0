//! Background work: expiry, eviction, compaction, snapshots.

pub(crate) mod compact;
pub(crate) mod evict;
pub(crate) mod image;
mod index_scan;
pub(crate) mod portions;
pub(crate) mod sweep;
pub(crate) mod tick;
