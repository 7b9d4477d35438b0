//! Collects the invalidations of client-side caching that a thread's changes cause, until its host
//! takes them.

use crate::handle::Handle;
use crate::state::invalidation::{Broadcast, RECYCLED_BYTES_MAX, RECYCLED_CHANGES_MAX, Told};
use crate::state::tracking::Readers;
use crate::structures::key_hash::Key;
use std::sync::Arc;

impl Handle {
    /// Whether there is something to be told.
    #[inline]
    pub fn has_invalidations(&self) -> bool {
        self.told.any
    }

    /// Hands out what is to be told if it is keys with their readers and nothing else: whether it
    /// was.
    #[inline]
    pub fn drain_changed_keys(&mut self, each: impl FnMut(&[u8], Readers, bool)) -> bool {
        let told = &mut self.told;
        let only_keys = !told.everything && told.broadcasts.is_empty();
        if only_keys {
            told.drain_keys(each);
            told.names.shrink_to(RECYCLED_BYTES_MAX);
            told.changes.shrink_to(RECYCLED_CHANGES_MAX);
            told.any = false;
        }
        only_keys
    }

    /// Takes what is to be told.
    pub fn take_invalidations(&mut self) -> Told {
        let remembered = self.told.remembered;
        std::mem::replace(&mut self.told, Told { remembered, ..Told::default() })
    }

    /// Takes back what was told, to use its memory again.
    pub fn recycle_told(&mut self, mut told: Told) {
        if !self.told.any {
            told.clear();
            told.names.shrink_to(RECYCLED_BYTES_MAX);
            told.changes.shrink_to(RECYCLED_CHANGES_MAX);
            told.broadcasts.shrink_to(RECYCLED_CHANGES_MAX);
            told.remembered = self.told.remembered;
            self.told = told;
        }
    }

    /// A key has changed: notes it for those who listen to its prefix.
    #[cold]
    pub(crate) fn broadcast(&mut self, key: Key<'_>, by_client: bool) {
        self.prefixes.refresh(&self.ks.prefixes);
        let told = &mut self.told;
        if let Some(last) = told.broadcasts.last_mut()
            && *last.key == *key.bytes
            && last.by_client == by_client
        {
            return;
        }
        let mut shared: Option<Arc<[u8]>> = None;
        for prefix in self.prefixes.matching(key.bytes) {
            let key = shared.get_or_insert_with(|| key.bytes.into()).clone();
            told.broadcasts.push(Broadcast { prefix: prefix.clone(), key, by_client });
            told.any = true;
        }
    }
}
