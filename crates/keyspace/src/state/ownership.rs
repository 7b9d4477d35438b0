//! Keys with expiry and eviction decided by another process.

use crate::state::order::Origin;

/// Decides which keys expire and are evicted here. In a cluster the primary of a key's hash slot
/// removes it on all nodes; a node that did so by itself would diverge. Expired keys are hidden on
/// the other nodes too, but stored until their removal arrives.
pub trait Ownership: Send + Sync {
    /// Whether this process is the key's primary, which decides about expiry and eviction. Called
    /// under the key's stripe lock, only for keys about to be removed.
    fn is_primary(&self, key: &[u8]) -> bool;

    /// The origin with which copies are evicted here, before all other keys, if there are any.
    /// Other processes are the primaries of copies, which can be fetched again.
    fn copies(&self) -> Option<Origin> {
        None
    }

    /// Called if no copy was found to evict.
    fn note_no_copies(&self) {}

    /// Whether a key is a copy. Called under its stripe lock.
    fn is_copy(&self, _key: &[u8]) -> bool {
        false
    }

    /// Whether this process is the primary of a key, and an owner of it is at its memory limit.
    /// Called under the key's stripe lock.
    fn has_full_owner(&self, _key: &[u8]) -> bool {
        false
    }

    /// Called when a copy is evicted here. Its stripe is held.
    fn note_evicted(&self, _db: u16, _key: &[u8]) {}
}
