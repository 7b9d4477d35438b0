//! Client of a node that caches the keys that it reads (`CLIENT TRACKING`). At rest the cached
//! values must be those of the primaries.

use super::Machine;
use crate::content::Content;
use crate::names::DbKey;
use petrel_cluster::{Call, Identity, Lanes};
use petrel_keyspace::{BatchInvalidations, Handle, Key, Reader};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Cached values, and readers of the node's tracking table.
#[derive(Default)]
pub(super) struct Caching {
    /// The lanes of the node.
    pub lanes: Option<Arc<Lanes>>,
    /// The client, and other nodes, as readers.
    readers: BTreeMap<Identity, Arc<Reader>>,
    cached: BTreeMap<DbKey, Content>,
    /// Keys of commands that were forwarded, and whether they were invalidated since.
    pending: BTreeMap<u64, BTreeMap<Vec<u8>, bool>>,
}

impl Caching {
    /// Reader of the client, or of another node.
    fn reader(&mut self, of: Identity, ks: &Handle) -> Arc<Reader> {
        let reader = self.readers.entry(of).or_insert_with(|| {
            let reader = ks.keyspace().add_reader(of);
            reader.listen(true);
            reader
        });
        reader.clone()
    }

    fn invalidate(&mut self, key: &[u8]) {
        self.cached.retain(|(_, cached), _| cached != key);
        self.pending.values_mut().filter_map(|keys| keys.get_mut(key)).for_each(|is| *is = true);
    }

    /// Delivers invalidations: those for other nodes by the lanes.
    pub fn deliver(&mut self, me: Identity, taken: &BatchInvalidations, ks: &Handle) {
        let readers = ks.keyspace().readers();
        for changed in taken.keys() {
            let listening =
                changed.readers.as_slice().iter().filter_map(|id| readers.listening(*id));
            let of = listening.filter_map(|reader| reader.owner().downcast_ref::<Identity>());
            for of in of.collect::<Vec<_>>() {
                match &self.lanes {
                    _ if *of == me => self.invalidate(changed.key),
                    Some(lanes) => lanes.push_changed(of.node, false, None, (0, changed.key)),
                    None => {}
                }
            }
        }
    }
}

impl Machine {
    /// Registers a reader of keys.
    fn remember(&mut self, of: Identity, keys: &BTreeSet<Vec<u8>>) {
        let ks = &mut self.exec.ks;
        let reader = self.host.caching.reader(of, ks);
        ks.enter();
        for key in keys {
            ks.remember_reader(Key { bytes: key, hash: ks.hash(key) }, &reader);
        }
        ks.exit();
    }

    /// Registers the client as the reader of keys that it reads now, or elsewhere (`token`).
    pub fn begin_caching(&mut self, token: Option<u64>, reads: &[DbKey]) {
        let keys: BTreeSet<Vec<u8>> = reads.iter().map(|(_, key)| key.clone()).collect();
        self.remember(self.identity, &keys);
        if let Some(token) = token {
            let keys = keys.into_iter().map(|key| (key, false)).collect();
            self.host.caching.pending.insert(token, keys);
        }
    }

    /// Whether the client caches the reply to a forwarded command.
    pub fn is_caching(&self, token: u64) -> bool {
        self.host.caching.pending.contains_key(&token)
    }

    /// Caches a value that was read, unless it was invalidated meanwhile.
    pub fn cache(&mut self, token: Option<u64>, key: DbKey, content: Content) {
        let pending = token.and_then(|token| self.host.caching.pending.get(&token));
        let is_invalidated = pending.and_then(|keys| keys.get(&key.1)).copied();
        if !is_invalidated.unwrap_or(false) {
            self.host.caching.cached.insert(key, content);
        }
    }

    /// Ends a forwarded command of the client.
    pub fn end_caching(&mut self, token: u64) {
        self.host.caching.pending.remove(&token);
    }

    /// Registers another node as the reader of a command's keys.
    pub(super) fn track_for(&mut self, origin: Identity, call: &Call<&[u8]>) {
        let mut keys = Vec::new();
        petrel_cluster::Host::keys_read(self, call, &mut keys);
        if call.tracks && origin != self.identity {
            self.remember(origin, &keys.into_iter().collect());
        }
    }

    /// Forgets everything cached: changes may have been missed.
    pub fn forget_cached(&mut self) {
        let caching = &mut self.host.caching;
        caching.cached.clear();
        caching.pending.values_mut().flat_map(BTreeMap::values_mut).for_each(|is| *is = true);
    }

    /// Forgets the readers of former members.
    pub fn forget_readers(&mut self, is_member: impl Fn(Identity) -> bool) {
        let me = self.identity;
        let is_gone = |of: &&Identity| **of != me && !is_member(**of);
        let readers = &mut self.host.caching.readers;
        for of in readers.keys().filter(is_gone).copied().collect::<Vec<_>>() {
            if let Some(reader) = readers.remove(&of) {
                reader.listen(false);
                self.exec.ks.keyspace().remove_reader(&reader);
            }
        }
    }

    /// Takes the cached values.
    pub fn cached(&self) -> Vec<(DbKey, Content)> {
        let cached = self.host.caching.cached.iter();
        cached.map(|(key, content)| (key.clone(), content.clone())).collect()
    }

    /// Delivers invalidations of changes made since the last call.
    pub fn deliver_invalidations(&mut self) {
        let taken = self.exec.ks.take_invalidations();
        self.host.caching.deliver(self.identity, &taken, &self.exec.ks);
    }
}
