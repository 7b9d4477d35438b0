//! Hints to the processor to fetch a cache line.

/// Asks for the cache line of `address` to be brought near; never faults, whatever the address.
#[inline]
pub fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(address as *const i8, _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Bytes that are asked for at once, at most.
const WRITTEN_MAX: usize = 1024;

/// Asks for this many bytes from `address` on, of which 1 KiB is looked at, to be brought near for
/// being written; never faults, whatever the address. Stores that miss wait in a buffer of some
/// dozens, and once that is full, everything waits.
#[inline]
pub fn prefetch_to_write(address: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len.min(WRITTEN_MAX)).step_by(64) {
        // SAFETY: a prefetch changes nothing and cannot fault. Processors that do not know this one
        // pass over it.
        unsafe {
            let at = address.wrapping_add(line);
            std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, len);
}
