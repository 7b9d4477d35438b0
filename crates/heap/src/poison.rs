//! Catches writes to freed blocks in builds with debug assertions; in others, nothing.
//!
//! A free block is filled with [`FREED`] beyond its first word, which is a link, and must be found
//! so when it is handed out again.

use std::ptr::NonNull;

use super::classes::CLASS;
use super::slabs::corrupted;

/// Fill byte of free blocks.
const FREED: u8 = 0xDB;

/// The first word of a free block links it into a list.
const LINK_BYTES: usize = size_of::<*mut u8>();

/// Fills a block that is being freed.
#[inline(always)]
pub fn fill(block: NonNull<u8>, class: u8) {
    fill_fresh(block.as_ptr(), class);
}

/// Fills a block that was never used.
#[inline(always)]
pub fn fill_fresh(block: *mut u8, class: u8) {
    if cfg!(debug_assertions) {
        let size = CLASS[class as usize].size as usize;
        // SAFETY: the block is free, and has the size of its class.
        unsafe { block.add(LINK_BYTES).write_bytes(FREED, size - LINK_BYTES) };
    }
}

/// Ends the process if a block that is being handed out was written to after it had been freed.
#[inline(always)]
pub fn check(block: NonNull<u8>, class: u8) {
    if cfg!(debug_assertions) {
        let size = CLASS[class as usize].size as usize;
        // SAFETY: the block is free, and was filled to the size of its class.
        let bytes = unsafe {
            std::slice::from_raw_parts(block.as_ptr().add(LINK_BYTES), size - LINK_BYTES)
        };
        // Comparing neighbours is one memcmp, which unoptimised builds do fast too.
        if bytes
            .first()
            .is_some_and(|byte| *byte != FREED || bytes[1..] != bytes[..bytes.len() - 1])
        {
            corrupted("a block was written to after it had been freed");
        }
    }
}
