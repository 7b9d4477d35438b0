//! The interpreter's allocator.

use crate::extra::Extra;
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::c_void;

/// Alignment of all blocks: the interpreter asks for no more than that of a double or a pointer.
const ALIGN: usize = 8;

/// Allocates, resizes and frees blocks for the interpreter; fails above the limit.
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
        // Shorten the period at once, since instructions may take much longer from here on. Setting
        // a hook allocates nothing and is allowed at any time.
        running.set_period();
    }
    result.cast()
}
