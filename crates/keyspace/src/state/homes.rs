//! Keys with expiry and eviction decided by another process.

use crate::state::order::Origin;

/// Tells which keys of a keyspace expire and are evicted here. In a cluster the primary of a key's
/// hash slot removes it everywhere; a node that did so by itself would differ from then on. What
/// has expired is not seen elsewhere either, but stays until its removal arrives.
pub trait Homes: Send + Sync {
    /// Whether this is where the key is removed when its time has passed, or memory is short.
    /// Called under the key's stripe lock, only for keys that are about to be removed.
    fn is_home(&self, key: &[u8]) -> bool;

    /// Whether some of the keys that have their home elsewhere may be removed here when memory is
    /// short, before all others: copies, which are fetched again. With what origin.
    fn copies(&self) -> Option<Origin> {
        None
    }

    /// None was found when memory was short.
    fn note_no_copies(&self) {}

    /// Whether a key is one of them, under its stripe lock.
    fn is_copy(&self, _key: &[u8]) -> bool {
        false
    }

    /// Called when such a key is evicted here. Its stripe is held.
    fn note_evicted(&self, _db: u16, _key: &[u8]) {}
}
