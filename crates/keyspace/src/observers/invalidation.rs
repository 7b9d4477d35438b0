//! Collects the invalidations of client-side caching caused by a thread's changes, until its host
//! takes them.

use crate::handle::Handle;
use crate::state::invalidation::{
    BatchInvalidations, Broadcast, RECYCLED_BYTES_MAX, RECYCLED_CHANGES_MAX,
};
use crate::state::tracking::Readers;
use crate::structures::key_hash::Key;
use std::sync::Arc;

impl Handle {
    /// Whether invalidations are pending.
    #[inline]
    pub fn has_invalidations(&self) -> bool {
        self.observers.invalidations.any
    }

    /// Passes the invalidations on if they consist only of keys with their readers; returns whether
    /// they do.
    #[inline]
    pub fn drain_changed_keys(&mut self, each: impl FnMut(&[u8], Readers, bool)) -> bool {
        let invalidations = &mut self.observers.invalidations;
        let only_keys = !invalidations.everything && invalidations.broadcasts.is_empty();
        if only_keys {
            invalidations.drain_keys(each);
            invalidations.names.shrink_to(RECYCLED_BYTES_MAX);
            invalidations.changes.shrink_to(RECYCLED_CHANGES_MAX);
            invalidations.any = false;
        }
        only_keys
    }

    /// Takes the pending invalidations.
    pub fn take_invalidations(&mut self) -> BatchInvalidations {
        let remembered = self.observers.invalidations.remembered;
        std::mem::replace(
            &mut self.observers.invalidations,
            BatchInvalidations { remembered, ..BatchInvalidations::default() },
        )
    }

    /// Takes back sent invalidations, to reuse their memory.
    pub fn recycle_invalidations(&mut self, mut invalidations: BatchInvalidations) {
        if !self.observers.invalidations.any {
            invalidations.clear();
            invalidations.names.shrink_to(RECYCLED_BYTES_MAX);
            invalidations.changes.shrink_to(RECYCLED_CHANGES_MAX);
            invalidations.broadcasts.shrink_to(RECYCLED_CHANGES_MAX);
            invalidations.remembered = self.observers.invalidations.remembered;
            self.observers.invalidations = invalidations;
        }
    }

    /// Records a changed key for the clients that track its prefix (`BCAST`).
    #[cold]
    pub(crate) fn broadcast(&mut self, db: u16, key: Key<'_>, by_client: bool) {
        self.observers.prefixes.refresh(&self.ks.prefixes);
        let invalidations = &mut self.observers.invalidations;
        if let Some(last) = invalidations.broadcasts.last_mut()
            && *last.key == *key.bytes
            && (last.db, last.by_client) == (db, by_client)
        {
            return;
        }
        let mut shared: Option<Arc<[u8]>> = None;
        for prefix in self.observers.prefixes.matching(key.bytes) {
            let key = shared.get_or_insert_with(|| key.bytes.into()).clone();
            let prefix = prefix.clone();
            invalidations.broadcasts.push(Broadcast { prefix, key, db, by_client });
            invalidations.any = true;
        }
    }
}
