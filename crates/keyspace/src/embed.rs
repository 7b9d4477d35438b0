//! The typed API for programs that embed the keyspace: each call locks, works and unlocks by
//! itself.

use crate::handle::Handle;
use crate::mutators::scan::Cursor;
use crate::structures::key_hash::Key;
use crate::structures::value::Value;
use crate::structures::view::View;
use bytes::Bytes;

/// Decision of an [`Handle::update`] callback about its key.
#[derive(Clone, Debug)]
pub enum Update<'a> {
    /// Keep the present value.
    Keep,
    /// Set it to this value and expiry (Unix milliseconds).
    Put(Value<'a>, Option<i64>),
    /// Remove it.
    Remove,
}

/// The memory limit is reached, and the policy allows nothing to be evicted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutOfMemory;

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the memory limit is reached and nothing can be evicted")
    }
}

impl std::error::Error for OutOfMemory {}

impl Handle {
    /// Sets a key; `expiry` in Unix milliseconds. True if it existed. Keys are evicted to make
    /// room.
    ///
    /// # Errors
    /// If it does not fit under the memory limit and nothing can be evicted.
    pub fn store(
        &mut self,
        db: u16,
        key: &[u8],
        value: Value<'_>,
        expiry: Option<i64>,
    ) -> Result<bool, OutOfMemory> {
        let bytes = key.len() + value.len();
        self.with_room(key, bytes, |handle, key| handle.put(db, key, value, expiry))
    }

    /// Reads a string; none if the key does not exist or holds another type.
    pub fn load(&mut self, db: u16, key: &[u8]) -> Option<Bytes> {
        self.load_with(db, key, |view| view.string().ok().map(|value| value.to_bytes())).flatten()
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

    /// Reads a key and decides about its new value, atomically for all threads. Keys are evicted
    /// before to make room.
    ///
    /// # Errors
    /// If the memory limit is reached and nothing can be evicted; `decide` is not called then.
    pub fn update<'v>(
        &mut self,
        db: u16,
        key: &[u8],
        decide: impl FnOnce(Option<View<'_>>) -> Update<'v>,
    ) -> Result<(), OutOfMemory> {
        self.with_room(key, key.len(), |handle, key| match decide(handle.look(db, key)) {
            Update::Keep => {}
            Update::Put(value, expiry) => {
                handle.put(db, key, value, expiry);
            }
            Update::Remove => {
                handle.remove(db, key);
            }
        })
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

    /// Works on a key in one batch with the evictions that make room for `bytes` before it.
    fn with_room<T>(
        &mut self,
        key: &[u8],
        bytes: usize,
        work: impl FnOnce(&mut Self, Key<'_>) -> T,
    ) -> Result<T, OutOfMemory> {
        self.refresh_clock_if_due();
        let key = self.key(key);
        self.enter();
        let result = self.make_room(bytes).then(|| {
            self.lock(key.hash);
            let result = work(self, key);
            self.unlock();
            result
        });
        self.exit();
        result.ok_or(OutOfMemory)
    }

    fn with_key<T>(&mut self, key: &[u8], work: impl FnOnce(&mut Self, Key<'_>) -> T) -> T {
        self.refresh_clock_if_due();
        let key = self.key(key);
        self.enter();
        self.lock(key.hash);
        let result = work(self, key);
        self.unlock();
        self.exit();
        result
    }
}
