//! Mutators of parts of strings, and of numbers.

use crate::handle::Handle;
use crate::state::effect::Effect;
use crate::structures::entry::{Entry, Kind};
use crate::structures::form::WrongType;
use crate::structures::key_hash::Key;
use crate::structures::sizes::BLOB_MIN;
use crate::structures::value::{StrRef, Value, parse_int};
use bytes::BytesMut;

/// Reason why a number could not be added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AddError {
    /// The key holds no string.
    WrongType,
    /// The value is no integer, or out of range.
    NotAnInteger,
    /// The sum does not fit 64 bits.
    Overflow,
}

impl Handle {
    /// Adds to an integer; a missing key counts as 0. Expiry is kept. Returns the sum.
    pub fn add(&mut self, db: u16, key: Key<'_>, delta: i64) -> Result<i64, AddError> {
        let Some((at, entry)) = self.find_alive(db, key) else {
            let access = self.initial_access(key.hash);
            let entry = Entry::new(&mut self.cache, key.bytes, Value::Int(delta), None, access);
            self.insert_entry(db, key, entry);
            self.record(db, key, &Effect::Add { key: key.bytes, delta });
            return Ok(delta);
        };
        let old = match entry.string() {
            Some(StrRef::Int(n)) => n,
            Some(StrRef::Bytes(text)) => parse_int(text).ok_or(AddError::NotAnInteger)?,
            Some(StrRef::Blob(_)) => return Err(AddError::NotAnInteger),
            None => return Err(AddError::WrongType),
        };
        let sum = old.checked_add(delta).ok_or(AddError::Overflow)?;
        self.clock.touch(entry);
        if entry.kind() == Kind::Int {
            entry.set_int(sum);
        } else {
            let new = Entry::new(
                &mut self.cache,
                key.bytes,
                Value::Int(sum),
                entry.expiry(),
                entry.access(),
            );
            self.replace_entry(db, key, at, entry, new);
            self.free_later(entry);
        }
        self.record(db, key, &Effect::Add { key: key.bytes, delta });
        Ok(sum)
    }

    /// Appends `bytes` to a string, which is created if necessary; returns the new length.
    pub fn append(&mut self, db: u16, key: Key<'_>, bytes: &[u8]) -> Result<usize, WrongType> {
        match self.find_alive(db, key) {
            Some((_, entry)) => {
                let offset = entry.string().ok_or(WrongType)?.len();
                self.write_range(db, key, offset, bytes)
            }
            None => {
                // A first append stores the same value as SET.
                self.put(db, key, Value::from_text(bytes), None);
                Ok(bytes.len())
            }
        }
    }

    /// Makes `OBJECT ENCODING` of a string `raw`, as in Redis after a command that could have
    /// changed it and did not. Its bytes stay the same: no effect is recorded.
    ///
    /// # Errors
    /// If the key holds another type.
    pub fn make_raw(&mut self, db: u16, key: Key<'_>) -> Result<(), WrongType> {
        let Some((at, entry)) = self.find_alive(db, key) else { return Ok(()) };
        let text = entry.string().ok_or(WrongType)?;
        if entry.kind() == Kind::Int {
            let value = Value::Raw(text.bytes(&mut itoa::Buffer::new()).to_vec().into());
            let (expiry, access) = (entry.expiry(), entry.access());
            let new = Entry::new(&mut self.cache, key.bytes, value, expiry, access);
            self.replace_entry(db, key, at, entry, new);
            self.free_later(entry);
        } else {
            // The mutable borrow marks the bytes as `raw`.
            let _ = entry.inline_mut();
        }
        Ok(())
    }

    /// Writes `bytes` from `offset` on, padding with zeros; expiry is kept. Returns the new length.
    /// The caller has checked `offset + bytes.len()` against the limit of a string.
    pub fn write_range(
        &mut self,
        db: u16,
        key: Key<'_>,
        offset: usize,
        bytes: &[u8],
    ) -> Result<usize, WrongType> {
        let end = offset + bytes.len();
        let Some((at, entry)) = self.find_alive(db, key) else {
            let mut text = vec![0; end];
            text[offset..].copy_from_slice(bytes);
            let (value, access) = (Value::Raw(text.into()), self.initial_access(key.hash));
            let entry = Entry::new(&mut self.cache, key.bytes, value, None, access);
            self.insert_entry(db, key, entry);
            self.record(db, key, &Effect::Write { key: key.bytes, offset, bytes });
            return Ok(end);
        };
        let old = entry.string().ok_or(WrongType)?;
        self.clock.touch(entry);
        let len = old.len().max(end);
        let before = entry.footprint();
        if entry.kind() == Kind::Blob {
            write_blob(entry, offset, bytes);
            self.reweigh(db, key, entry.footprint() as i64 - before as i64);
        } else if entry.resize_inline(len) {
            if let Some(inline) = entry.inline_mut() {
                inline[offset..end].copy_from_slice(bytes);
            }
        } else {
            let text = patched(old, len, offset, bytes);
            let new = Entry::new(
                &mut self.cache,
                key.bytes,
                Value::Raw(text.into()),
                entry.expiry(),
                entry.access(),
            );
            self.replace_entry(db, key, at, entry, new);
            self.free_later(entry);
        }
        self.record(db, key, &Effect::Write { key: key.bytes, offset, bytes });
        Ok(len)
    }
}

impl Handle {
    /// Overwrites bytes of a string that are derived from its other bytes (the cached count of a
    /// HyperLogLog): this is no change, so it has no effect. Ignored unless the bytes lie within
    /// the string. The key's stripe is held.
    ///
    /// # Errors
    /// If the key holds another type.
    pub fn refresh_derived(
        &mut self,
        db: u16,
        key: Key<'_>,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), WrongType> {
        let Some((_, entry)) = self.find(db, key) else { return Ok(()) };
        let end = offset + bytes.len();
        if self.is_expired(entry) || entry.string().ok_or(WrongType)?.len() < end {
            return Ok(());
        }
        self.before_change(db, entry);
        if entry.kind() == Kind::Blob {
            write_blob(entry, offset, bytes);
        } else if let Some(inline) = entry.inline_mut() {
            inline[offset..end].copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// The value's bytes, overwritten with `bytes` from `offset` on.
fn patched(value: StrRef<'_>, len: usize, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(grown(len));
    text.extend_from_slice(value.bytes(&mut itoa::Buffer::new()));
    text.resize(len, 0);
    text[offset..offset + bytes.len()].copy_from_slice(bytes);
    text
}

/// Writes into a blob: in place if no one else has a reference to it, otherwise into a copy with
/// room to grow.
fn write_blob(entry: Entry, offset: usize, bytes: &[u8]) {
    let Some(blob) = entry.blob_mut() else { return };
    let end = offset + bytes.len();
    let mut text = match std::mem::take(blob).try_into_mut() {
        Ok(text) => text,
        Err(shared) => {
            let mut copy = BytesMut::with_capacity(grown(shared.len().max(end)));
            copy.extend_from_slice(&shared);
            copy
        }
    };
    if text.len() < end {
        if text.capacity() < end {
            text.reserve(grown(end) - text.len());
        }
        text.resize(end, 0);
    }
    text[offset..end].copy_from_slice(bytes);
    *blob = text.freeze();
}

/// Capacity for a string being appended to: doubles while small, adds a megabyte when large, as in
/// Redis.
fn grown(len: usize) -> usize {
    const STEP_MAX: usize = 1 << 20;
    if len < BLOB_MIN { len } else { len + len.min(STEP_MAX) }
}
