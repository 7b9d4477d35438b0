//! Memory outside of the keyspace counted as long as its holder exists: values collected by a
//! command before it writes its reply, caches of a thread.

use super::Handle;
use crate::embed::OutOfMemory;
use crate::state::counters::Counters;
use crate::state::keyspace::Keyspace;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum uncounted part of memory that grows in small steps, in bytes.
const UNCOUNTED_MAX: usize = 64 << 10;

/// Part of the memory limit that a command may use temporarily beyond the limit: eviction
/// compensates for it before the next command.
const ALWAYS_PART: u64 = 8;

/// Minimum of that part, for small limits, in bytes.
const ALWAYS_MIN: u64 = 4 << 20;

/// Minimum for a reply, as a part of the limit and in bytes: a slow client has several replies at a
/// time.
const REPLY_PART: u64 = 4;
const REPLY_MIN: u64 = 64 << 20;

/// Smaller amounts are neither counted nor rejected by [`Handle::hold`].
const HELD_MIN: usize = 1 << 20;

/// Memory counted as used until this is dropped, which must be before the handle that created it.
pub struct Transient {
    ks: Arc<Keyspace>,
    counters: Arc<Counters>,
    counted: usize,
}

impl Handle {
    /// Counts `bytes` bytes of temporary memory of a command, without data and reply, until the
    /// result is dropped; small amounts are not counted.
    ///
    /// # Errors
    /// If they do not fit under the memory limit.
    #[inline]
    pub fn hold(&self, bytes: usize) -> Result<Option<Transient>, OutOfMemory> {
        if bytes < HELD_MIN {
            return Ok(None);
        }
        let mut held = self.transient();
        if held.fits(bytes) { Ok(Some(held)) } else { Err(OutOfMemory) }
    }

    /// A counter of temporary memory, initially zero.
    pub fn transient(&self) -> Transient {
        Transient { ks: self.ks.clone(), counters: self.counters.clone(), counted: 0 }
    }
}

impl Transient {
    /// Sets the number of bytes counted.
    pub fn count(&mut self, bytes: usize) {
        self.counters.used.add(bytes as i64 - self.counted as i64);
        self.counted = bytes;
    }

    /// Sets the number of bytes counted, if it has grown enough since the last update; false if
    /// they do not fit under the memory limit.
    #[inline]
    pub fn fits(&mut self, bytes: usize) -> bool {
        bytes < self.counted.saturating_add(UNCOUNTED_MAX.max(self.counted / 8)) || self.grow(bytes)
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> bool {
        let left = self.ks.memory_left();
        let fits = bytes.saturating_sub(self.counted) as u64 <= left || self.ks.may_always(bytes);
        if fits {
            self.count(bytes);
        }
        fits
    }
}

impl Drop for Transient {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl Keyspace {
    /// Bytes left below the memory limit; `u64::MAX` without a limit.
    fn memory_left(&self) -> u64 {
        match self.memory_limit.load(Relaxed) {
            0 => u64::MAX,
            limit => limit.saturating_sub(self.stats().used),
        }
    }

    /// Whether less than a 64th of the memory limit is left; if it `was` so, less than a 32nd.
    pub fn is_nearly_full(&self, was: bool) -> bool {
        let limit = self.memory_limit.load(Relaxed);
        limit > 0 && self.memory_left() < limit / if was { 32 } else { 64 }
    }

    fn may_always(&self, bytes: usize) -> bool {
        bytes as u64 <= (self.memory_limit.load(Relaxed) / ALWAYS_PART).max(ALWAYS_MIN)
    }

    /// Bytes available for the replies of one client: the part of the memory limit not used by
    /// data, but at least a quarter of it and 64 MiB; `u64::MAX` without a limit.
    pub fn room_for_replies(&self) -> u64 {
        let limit = self.memory_limit.load(Relaxed);
        self.memory_left().max((limit / REPLY_PART).max(REPLY_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::OutOfMemory;
    use crate::{Keyspace, Options, Policy};

    #[test]
    fn memory_of_a_command_is_counted_and_limited() {
        let ks = Keyspace::new(&Options { stripes: 4, ..Options::default() });
        let handle = ks.attach();
        let empty = ks.stats().used;
        let mut some = handle.transient();
        assert!(some.fits(1 << 30), "there is no limit");
        assert_eq!(ks.stats().used - empty, 1 << 30);
        drop(some);
        assert_eq!(ks.stats().used, empty);
        ks.set_memory_limit(empty + (80 << 20), Policy::NoEviction);
        let (mut one, mut other) = (handle.transient(), handle.transient());
        assert!(one.fits(50 << 20) && !other.fits(40 << 20) && other.fits(20 << 20));
        // In small steps.
        assert!((0..9 << 10).all(|n| one.fits((50 << 20) + (n << 10))));
        let counted = ks.stats().used - empty;
        assert!((70 << 20..80 << 20).contains(&counted), "{counted}");
        assert!(!one.fits(70 << 20));
        assert_eq!(handle.hold(20 << 20).err(), Some(OutOfMemory));
        assert!(handle.hold(8 << 20).is_ok(), "an eighth in any case");
        drop((one, other));
        assert_eq!(ks.stats().used, empty);
    }
}
