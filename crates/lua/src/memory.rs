//! The interpreter's memory: counted, and limited.
//!
//! An instruction of a script takes time by the size of what it works on: comparing two texts,
//! joining them, looking for the next element of a table that was emptied. So the more memory is in
//! large blocks, the fewer instructions are executed between two looks at the time.

use crate::extra::Extra;
use crate::pace::Pace;
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::{c_int, c_void};

/// The interpreter asks for no stricter alignment: that of a double or a pointer.
const ALIGN: usize = 8;

/// Bytes that instructions may walk over between two looks at the time: some tens of milliseconds
/// as a rule, and seconds in the worst case, texts of nothing but zeros that are compared.
const WALKED_MAX: usize = 1 << 29;

/// Blocks of this many bytes or more are large.
const LARGE: usize = 32 << 10;

/// What an interpreter has allocated, and may.
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
    fn count(&mut self, old: usize, new: usize) -> bool {
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

    /// Whether so much of what is in use may be garbage that all of it is to be collected between
    /// two scripts.
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

/// The interpreter's allocator.
///
/// # Safety
/// Called by the interpreter alone, with the [`Extra`] that it was made with, and blocks of this
/// allocator.
pub(crate) unsafe extern "C" fn allocate(
    extra: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    let extra = extra.cast::<Extra>();
    // SAFETY: the interpreter runs on one thread, and nothing else refers to the counters while it
    // allocates, nor writes which coroutine runs.
    let (memory, running) = unsafe { (&mut (*extra).memory, (*extra).running) };
    let old = if block.is_null() { 0 } else { old };
    if new > old {
        if memory.refuses {
            memory.refuses = false;
            return std::ptr::null_mut();
        }
        if !memory.lenient && memory.used + (new - old) > memory.limit {
            return std::ptr::null_mut();
        }
    }
    let (Ok(old_layout), Ok(new_layout)) =
        (Layout::from_size_align(old, ALIGN), Layout::from_size_align(new, ALIGN))
    else {
        return std::ptr::null_mut();
    };
    // SAFETY: a block of `old` bytes came from here with that layout; sizes of 0 are not passed on.
    let result = unsafe {
        match (old, new) {
            (0, 0) => std::ptr::null_mut(),
            (0, _) => alloc(new_layout),
            (_, 0) => {
                dealloc(block.cast(), old_layout);
                std::ptr::null_mut()
            }
            _ => realloc(block.cast(), old_layout, new),
        }
    };
    if (new == 0 || !result.is_null())
        && memory.count(old, new)
        && let Some(running) = running
    {
        // Sooner, amid an instruction that has made much longer ones possible: setting a hook
        // allocates nothing and may be done at any moment.
        running.set_period();
    }
    result.cast()
}
