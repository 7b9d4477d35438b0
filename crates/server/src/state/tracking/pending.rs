//! Changed keys with invalidations that have not been sent yet.

use super::routes::Routes;
use super::writers::NO_WRITER;
use petrel_keyspace::{BatchInvalidations, Broadcast, ReaderId, Readers};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Memory for names that is kept from batch to batch.
const RETAINED_BYTES_MAX: usize = 16 * 1024;

/// Keys that a worker's commands have changed and for which no invalidation was sent yet.
#[derive(Default)]
pub struct Invalidations {
    pub(crate) waiting: Waiting,
    pub(crate) routes: Routes,
    /// By prefix: the keys that have changed.
    pub(crate) broadcasts: BTreeMap<Arc<[u8]>, LastWriters>,
    pub(crate) broadcast_keys: usize,
}

/// Keys, each with its database, and the number of the connection that changed it last.
pub(crate) type LastWriters = BTreeMap<(Arc<[u8]>, u16), u64>;

/// Changes, in their order.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Names of keys, one behind the other.
    pub names: Vec<u8>,
    pub changes: Vec<Change>,
}

pub(crate) struct Change {
    /// Number of the connection that made the change.
    pub writer: u64,
    /// End of the name.
    pub end: usize,
    /// Connections that have read the key; `None` if everything may have changed: it is for all.
    pub readers: Option<Readers>,
}

impl Waiting {
    pub fn add(&mut self, name: &[u8], readers: Option<Readers>, writer: u64) {
        self.names.extend_from_slice(name);
        self.changes.push(Change { writer, end: self.names.len(), readers });
    }

    pub fn clear(&mut self) {
        self.names.clear();
        self.names.shrink_to(RETAINED_BYTES_MAX);
        self.changes.clear();
    }
}

impl Invalidations {
    /// Whether broadcasts are to be sent when the turn ends.
    pub fn is_broadcasting(&self) -> bool {
        !self.broadcasts.is_empty()
    }

    /// Takes over the keys that `client` has changed, with the readers that `keep` keeps.
    pub(crate) fn take_in(
        &mut self,
        taken: &mut BatchInvalidations,
        client: u64,
        keep: impl Fn(ReaderId) -> bool,
    ) {
        let writer = |by_client| if by_client { client } else { NO_WRITER };
        if taken.everything {
            self.waiting.add(b"", None, client);
        }
        taken.drain_keys(|name, readers, by_client| {
            let readers = readers.retained(&keep);
            if readers.is_some() {
                self.waiting.add(name, readers, writer(by_client));
            }
        });
        for Broadcast { prefix, key, db, by_client } in taken.broadcasts.drain(..) {
            self.add_broadcast(prefix, (key, db), writer(by_client));
        }
    }

    /// Adds a changed key that begins with a tracked prefix.
    pub(crate) fn add_broadcast(&mut self, prefix: Arc<[u8]>, key: (Arc<[u8]>, u16), writer: u64) {
        let keys = self.broadcasts.entry(prefix).or_default();
        self.broadcast_keys += usize::from(keys.insert(key, writer).is_none());
    }
}
