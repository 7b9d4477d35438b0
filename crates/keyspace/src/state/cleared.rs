//! Tables of flushed databases, to be freed.

use crate::state::keyspace::Keyspace;
use crate::state::tracking::Tracked;
use crate::structures::entry::Entry;
use crate::structures::entry::EntryTable;
use petrel_heap::Cache;
use std::sync::Arc;

/// Tables taken out of the keyspace, with their entries. Freeing them takes time proportional to
/// their keys, and needs no lock: a background thread can do it.
#[must_use = "dropping frees every entry on the spot"]
pub struct Cleared {
    pub(crate) tables: Vec<EntryTable>,
    /// Tracking tables of the removed keys.
    pub(crate) tracked: Vec<Tracked>,
    pub(crate) cache: Cache,
}

impl Cleared {
    /// Frees everything, yielding to active threads.
    pub fn free_gently(mut self, keyspace: &Arc<Keyspace>) {
        self.cache.breathe_with(keyspace.breather());
    }

    /// Number of keys removed.
    pub fn keys(&self) -> usize {
        self.tables.iter().map(EntryTable::len).sum()
    }
}

impl Cleared {
    /// Passes the entries of one table to `each` and frees the table.
    pub(crate) fn drain_one(&mut self, each: &mut dyn FnMut(Entry)) {
        let Some(mut table) = self.tables.pop() else { return };
        let array = table.drain(|entry| {
            each(entry);
            entry.release(&mut self.cache);
        });
        if let Some(array) = array {
            // SAFETY: the table was taken out under the exclusive intent, so no thread was in a
            // batch then, and none has seen the array since.
            unsafe { array.free(&mut self.cache) };
        }
    }

    /// Whether nothing is left to be freed.
    pub(crate) fn is_drained(&self) -> bool {
        self.tables.is_empty()
    }
}

impl Drop for Cleared {
    fn drop(&mut self) {
        while !self.is_drained() {
            self.drain_one(&mut |_| ());
        }
        for tracked in self.tracked.drain(..) {
            // SAFETY: as for the tables.
            unsafe { tracked.free(&mut self.cache) };
        }
    }
}
