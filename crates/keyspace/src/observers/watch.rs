//! `WATCH`: versions of the watched keys.

use crate::handle::Handle;
use crate::structures::key_hash::Key;
use std::hash::{Hash, Hasher};

/// State of a watched key when the watch began; two of the same key of the same database are equal.
#[derive(Clone, Debug)]
pub struct WatchedKey {
    db: u16,
    key: Box<[u8]>,
    version: u64,
    existed: bool,
}

impl WatchedKey {
    /// The database.
    pub fn db(&self) -> u16 {
        self.db
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl PartialEq for WatchedKey {
    fn eq(&self, other: &Self) -> bool {
        self.db == other.db && self.key == other.key
    }
}

impl Eq for WatchedKey {}

impl Hash for WatchedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.db.hash(state);
        self.key.hash(state);
    }
}

impl Handle {
    /// Begins to watch a key. Its stripe is held. The caller ends every watch with
    /// [`Handle::unwatch`].
    pub fn watch(&mut self, db: u16, key: Key<'_>) -> WatchedKey {
        // An expired key is removed now: its later removal would look like a change.
        let existed = self.find_alive(db, key).is_some();
        let interest = self.stripe(key.hash).interest.get_or_insert_default();
        let version = interest.watched.add(db, key.bytes);
        WatchedKey { db, key: key.bytes.into(), version, existed }
    }

    /// Ends a watch; the key's stripe is held.
    pub fn unwatch(&mut self, watched: &WatchedKey) {
        let hash = self.hash(&watched.key);
        let slot = &mut self.stripe(hash).interest;
        let Some(interest) = slot else { return };
        interest.watched.remove(watched.db, &watched.key);
        if interest.is_empty() {
            *slot = None;
        }
    }

    /// True if the key is unchanged since the watch began; its stripe is held.
    pub fn unchanged(&mut self, watched: &WatchedKey) -> bool {
        let key = self.key(&watched.key);
        let version = self
            .stripe(key.hash)
            .interest
            .as_ref()
            .and_then(|interest| interest.watched.version(watched.db, key.bytes));
        let expired = self.find(watched.db, key).is_some_and(|(_, entry)| self.is_expired(entry));
        version == Some(watched.version) && !(watched.existed && expired)
    }
}
