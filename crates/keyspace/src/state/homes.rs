//! Keys whose expiry and eviction are decided elsewhere.

/// Tells which keys of a keyspace expire and are evicted here. In a cluster the primary of a key's
/// hash slot removes it everywhere; a node that did so by itself would differ from then on. What
/// has expired is not seen elsewhere either, but stays until its removal arrives.
pub trait Homes: Send + Sync {
    /// Whether this is where the key is removed when its time has passed, or memory is short.
    /// Called under the key's stripe lock, only for keys that are about to be removed.
    fn is_home(&self, key: &[u8]) -> bool;
}
