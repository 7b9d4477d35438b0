//! The interpreter's memory: counted, and limited.
//!
//! The time of one Lua instruction depends on the size of its operands: comparing or joining two
//! strings, finding the next element of a table that was emptied. So the more memory is in large
//! blocks, the fewer instructions run between two checks of the time.

use crate::pace::Pace;
use std::ffi::c_int;

/// Bytes that instructions may walk over between two looks at the time: some tens of milliseconds
/// as a rule, and seconds in the worst case, texts of nothing but zeros that are compared.
const WALKED_MAX: usize = 1 << 29;

/// Blocks of this many bytes or more are large.
const LARGE: usize = 32 << 10;

/// Counters and limits of an interpreter's memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Bytes in use.
    pub used: usize,
    /// Bytes above which allocations fail.
    pub limit: usize,
    /// Bytes that were in use after the last collection of everything.
    pub collected: usize,
    /// No allocation fails: for code that must not be interrupted, after which [`Memory::is_over`]
    /// is asked.
    pub lenient: bool,
    /// The next allocation fails, lenient or not: how a script is ended ([`crate::vm::end`]).
    pub refuses: bool,
    /// Bytes of large blocks.
    pub large: usize,
    /// Instructions between two looks at the time, at most.
    pub pace: Pace,
    /// Instructions between two looks at the time, as they were set last.
    pub period: c_int,
}

impl Memory {
    /// Whether more is in use than may be.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.used > self.limit
    }

    /// Instructions that should be between two looks at the time.
    pub fn wanted_period(&self) -> c_int {
        (WALKED_MAX / self.large.max(1)).clamp(1, self.pace.most() as usize) as c_int
    }

    /// Counts a change of a block's size, and says whether instructions take much longer now.
    #[inline]
    pub fn count(&mut self, old: usize, new: usize) -> bool {
        self.used = self.used - old + new;
        if old.max(new) < LARGE {
            return false;
        }
        let large = |size: usize| if size < LARGE { 0 } else { size };
        self.large = self.large - large(old) + large(new);
        self.wanted_period() < self.period / 2
    }

    /// Whether this many more bytes may be in use.
    #[inline]
    pub fn fits(&self, bytes: usize) -> bool {
        self.used.saturating_add(bytes) <= self.limit
    }

    /// Whether enough memory in use may be garbage for a full collection between two scripts.
    pub fn is_littered(&self) -> bool {
        /// Garbage that is left to the collector's own pace.
        const GARBAGE_MAX: usize = 16 << 20;
        self.used > self.limit / 2 || self.used > 2 * self.collected + GARBAGE_MAX
    }

    /// Bytes that may be allocated still.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used)
    }
}
