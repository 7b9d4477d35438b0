//! The interpreter's memory: counted, and limited.

use crate::state::Extra;
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::c_void;

/// The interpreter asks for no stricter alignment: that of a double or a pointer.
const ALIGN: usize = 8;

/// What an interpreter has allocated, and may.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Bytes in use.
    pub used: usize,
    /// Bytes above which allocations fail.
    pub limit: usize,
    /// No allocation fails: for code that must not be interrupted, after which [`Memory::is_over`] is asked.
    pub lenient: bool,
}

impl Memory {
    /// Whether more is in use than may be.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.used > self.limit
    }

    /// Bytes that may be allocated still.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used)
    }
}

/// The interpreter's allocator.
///
/// # Safety
/// Called by the interpreter alone, with the [`Extra`] that it was made with, and blocks of this allocator.
pub(crate) unsafe extern "C" fn allocate(
    extra: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: the interpreter runs on one thread, and nobody else refers to the counters while it allocates.
    let memory = unsafe { &mut (*extra.cast::<Extra>()).memory };
    let old = if block.is_null() { 0 } else { old };
    if new > old && !memory.lenient && memory.used + (new - old) > memory.limit {
        return std::ptr::null_mut();
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
    if new == 0 || !result.is_null() {
        memory.used = memory.used - old + new;
    }
    result.cast()
}
