//! Invalidations for client-side caching: collected under the locks, sent by the host afterwards.

use crate::state::tracking::Readers;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, PoisonError};

/// Maximum memory kept for the next changes, for names and for their entries, in bytes.
pub(crate) const RECYCLED_BYTES_MAX: usize = 64 * 1024;
pub(crate) const RECYCLED_CHANGES_MAX: usize = 4096;

/// A changed key that begins with a tracked prefix (`BCAST`).
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// The prefix, as passed to [`crate::Keyspace::add_prefix`].
    pub prefix: Arc<[u8]>,
    /// The key.
    pub key: Arc<[u8]>,
    /// The key's database.
    pub db: u16,
    /// Whether a client changed it, rather than expiry or eviction.
    pub by_client: bool,
}

/// A changed key and its readers.
#[derive(Debug)]
pub struct Invalidation<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Readers of the key, including those without notifications by now.
    pub readers: &'a Readers,
    /// Whether a client changed it, rather than expiry, eviction or the limit of the table.
    pub by_client: bool,
}

/// Invalidations collected since they were last taken.
#[derive(Debug, Default)]
pub struct BatchInvalidations {
    /// Names of changed keys, concatenated.
    pub(crate) names: Vec<u8>,
    /// End of the name, readers, and whether a client made the change, for each change in order.
    pub(crate) changes: Vec<(usize, Readers, bool)>,
    /// Keys by prefix, in the order of the changes. Consecutive changes of a key are merged.
    pub broadcasts: Vec<Broadcast>,
    /// Whole databases have changed: all cached keys may be stale.
    pub everything: bool,
    pub(crate) any: bool,
    /// Reads recorded since the thread last checked the limit.
    pub(crate) remembered: u64,
}

/// The tracked prefixes, shared by all threads.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Prefixes {
    /// Odd while there are prefixes; grows with each change.
    version: AtomicU64,
    current: Mutex<PrefixSet>,
}

type PrefixSet = HashSet<Arc<[u8]>, foldhash::fast::RandomState>;

/// A thread's copy of the prefixes.
#[derive(Default)]
pub(crate) struct PrefixView {
    version: u64,
    set: PrefixSet,
    /// The lengths of prefixes, ascending: each costs one lookup per change, however many prefixes
    /// there are.
    lengths: Vec<usize>,
}

impl Prefixes {
    #[inline]
    pub fn any(&self) -> bool {
        self.version.load(Relaxed) & 1 == 1
    }

    pub fn add(&self, prefix: Arc<[u8]>) {
        self.change(|prefixes| prefixes.insert(prefix));
    }

    pub fn remove(&self, prefix: &[u8]) {
        self.change(|prefixes| prefixes.remove(prefix));
    }

    fn change(&self, change: impl FnOnce(&mut PrefixSet) -> bool) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut current) {
            let any = u64::from(!current.is_empty());
            let version = (self.version.load(Relaxed) | 1) + 1 + any;
            self.version.store(version, Release);
        }
    }
}

impl PrefixView {
    pub(crate) fn refresh(&mut self, prefixes: &Prefixes) {
        if prefixes.version.load(Acquire) != self.version {
            let current = prefixes.current.lock().unwrap_or_else(PoisonError::into_inner);
            self.version = prefixes.version.load(Relaxed);
            self.set.clone_from(&current);
            self.lengths = current.iter().map(|prefix| prefix.len()).collect();
            self.lengths.sort_unstable();
            self.lengths.dedup();
        }
    }

    pub(crate) fn matching<'v>(&'v self, key: &'v [u8]) -> impl Iterator<Item = &'v Arc<[u8]>> {
        let lengths = self.lengths.iter().take_while(|&&length| length <= key.len());
        lengths.filter_map(|&length| self.set.get(&key[..length]))
    }
}

impl BatchInvalidations {
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], readers: Readers, by_client: bool) {
        self.names.extend_from_slice(key);
        self.changes.push((self.names.len(), readers, by_client));
        self.any = true;
    }

    /// Changed keys, in the order of the changes.
    pub fn keys(&self) -> impl Iterator<Item = Invalidation<'_>> {
        let begins = std::iter::once(0).chain(self.changes.iter().map(|&(end, ..)| end));
        self.changes.iter().zip(begins).map(|((end, readers, by_client), begin)| Invalidation {
            key: &self.names[begin..*end],
            readers,
            by_client: *by_client,
        })
    }

    /// Passes each changed key with its readers to `each`, and empties the list.
    #[inline]
    pub fn drain_keys(&mut self, mut each: impl FnMut(&[u8], Readers, bool)) {
        if let [_] = self.changes[..]
            && let Some((end, readers, by_client)) = self.changes.pop()
        {
            each(&self.names[..end], readers, by_client);
            return self.names.clear();
        }
        let mut begin = 0;
        for (end, readers, by_client) in self.changes.drain(..) {
            each(&self.names[begin..end], readers, by_client);
            begin = end;
        }
        self.names.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.changes.clear();
        self.broadcasts.clear();
        (self.everything, self.any) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_all_lengths_are_found() {
        let prefixes = Prefixes::default();
        let mut view = PrefixView::default();
        assert!(!prefixes.any());
        for prefix in [&b""[..], b"a", b"abc", b"b"] {
            prefixes.add(prefix.into());
        }
        assert!(prefixes.any());
        view.refresh(&prefixes);
        let found = |view: &PrefixView, key: &[u8]| -> Vec<Vec<u8>> {
            view.matching(key).map(|prefix| prefix.to_vec()).collect()
        };
        assert_eq!(found(&view, b"abcd"), [&b""[..], b"a", b"abc"]);
        assert_eq!(found(&view, b"ab"), [&b""[..], b"a"]);
        assert_eq!(found(&view, b"c"), [b""]);
        for prefix in [&b""[..], b"a", b"abc", b"nosuch"] {
            prefixes.remove(prefix);
        }
        view.refresh(&prefixes);
        assert!(prefixes.any());
        assert_eq!(found(&view, b"bc"), [b"b"]);
        prefixes.remove(b"b");
        assert!(!prefixes.any());
        view.refresh(&prefixes);
        assert!(found(&view, b"c").is_empty());
    }
}
