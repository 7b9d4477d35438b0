//! The typed API for programs that embed the keyspace: each call locks, works and unlocks by itself.

use crate::access::View;
use crate::entry::Value;
use crate::handle::{Handle, Key};
use crate::scan::Cursor;
use bytes::Bytes;

/// What [`Handle::update`] does with a key.
#[derive(Clone, Debug)]
pub enum Update<'a> {
    /// Leave it as it is.
    Keep,
    /// Set it to this value and expiry (Unix milliseconds).
    Put(Value<'a>, Option<i64>),
    /// Remove it.
    Remove,
}

impl Handle {
    /// Sets a key; `expiry` in Unix milliseconds. True if it existed.
    pub fn store(&mut self, db: u16, key: &[u8], value: Value<'_>, expiry: Option<i64>) -> bool {
        self.with_key(key, |handle, key| handle.put(db, key, value, expiry))
    }

    /// Reads a key.
    pub fn load(&mut self, db: u16, key: &[u8]) -> Option<Bytes> {
        self.load_with(db, key, |view| view.value().to_bytes())
    }

    /// Reads a key in place: `read` runs under the lock of the key's stripe.
    pub fn load_with<T>(
        &mut self,
        db: u16,
        key: &[u8],
        read: impl FnOnce(View<'_>) -> T,
    ) -> Option<T> {
        self.with_key(key, |handle, key| handle.read(db, key).map(read))
    }

    /// Removes a key; true if it existed.
    pub fn delete(&mut self, db: u16, key: &[u8]) -> bool {
        self.with_key(key, |handle, key| handle.remove(db, key))
    }

    /// Reads a key and decides what becomes of it, as one step that no other thread sees half done.
    pub fn update<'v>(
        &mut self,
        db: u16,
        key: &[u8],
        decide: impl FnOnce(Option<View<'_>>) -> Update<'v>,
    ) {
        self.with_key(key, |handle, key| match decide(handle.look(db, key)) {
            Update::Keep => {}
            Update::Put(value, expiry) => {
                handle.put(db, key, value, expiry);
            }
            Update::Remove => {
                handle.remove(db, key);
            }
        });
    }

    /// Sets (Unix milliseconds) or clears the expiry of a key; true if it existed.
    pub fn expire_at(&mut self, db: u16, key: &[u8], expiry: Option<i64>) -> bool {
        self.with_key(key, |handle, key| handle.set_expiry(db, key, expiry))
    }

    /// Walks the keys: see [`Cursor`]. About `count` keys are handed to `each` per call.
    pub fn walk(
        &mut self,
        db: u16,
        cursor: Cursor,
        count: usize,
        each: impl FnMut(View<'_>),
    ) -> Cursor {
        self.refresh_clock();
        self.enter();
        let next = self.scan(db, cursor, count.max(1), each);
        self.exit();
        next
    }

    /// Removes every key of a database; returns how many there were.
    pub fn flush(&mut self, db: u16) -> usize {
        self.enter();
        self.lock_all();
        let cleared = self.clear(Some(db));
        self.unlock();
        self.exit();
        cleared.keys()
    }

    fn with_key<T>(&mut self, key: &[u8], work: impl FnOnce(&mut Self, Key<'_>) -> T) -> T {
        self.refresh_clock();
        let key = self.key(key);
        self.enter();
        self.lock(key.hash);
        let result = work(self, key);
        self.unlock();
        self.exit();
        result
    }
}
