//! What mimalloc knows of itself.

use libmimalloc_sys as mimalloc;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// Name and version.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        // SAFETY: reads a constant of the library.
        let version = unsafe { mimalloc::mi_version() };
        let (major, rest) = if version >= 10_000 {
            (version / 10_000, version % 10_000)
        } else {
            (version / 100, version % 100 * 10)
        };
        format!("mimalloc-{major}.{}.{}", rest / 100, rest % 100)
    })
}

/// Its statistics as it prints them.
pub fn report() -> String {
    let mut text = Vec::<u8>::new();
    // SAFETY: `collect` is called during this call only, with the vector that it is given here.
    unsafe { mimalloc::mi_stats_print_out(Some(collect), (&raw mut text).cast()) };
    String::from_utf8_lossy(&text).into_owned()
}

/// Number of the option that says how long freed memory is held back (`mi_option_purge_delay`), the same in all versions.
const PURGE_DELAY: mimalloc::mi_option_t = 15;

/// Longer than any process runs, milliseconds.
const NEVER_MS: std::ffi::c_long = 1 << 40;

/// Has freed memory returned by who calls [`purge`] alone. Otherwise any thread that allocates may come to return all that
/// was freed in the last second: 60 ms for a gigabyte. To be called while there is one thread.
pub fn purge_only_when_told() {
    // SAFETY: sets a number of the library's, which no other thread reads meanwhile.
    unsafe { mimalloc::mi_option_set(PURGE_DELAY, NEVER_MS) };
}

/// Returns what it holds back to the system.
pub fn purge() {
    // SAFETY: may be called by any thread at any time.
    unsafe { mimalloc::mi_collect(true) };
}

unsafe extern "C" fn collect(message: *const c_char, text: *mut c_void) {
    // SAFETY: mimalloc passes on the vector of `report`, and a string that ends in zero.
    let (text, message) = unsafe { (&mut *text.cast::<Vec<u8>>(), CStr::from_ptr(message)) };
    text.extend_from_slice(message.to_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_introduces_itself() {
        assert!(name().starts_with("mimalloc-"), "{}", name());
        assert!(!report().is_empty());
        purge();
    }

    #[test]
    fn the_delay_is_the_option_that_it_is_taken_for() {
        // SAFETY: reads a number of the library's.
        let delay = || unsafe { mimalloc::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "its default, milliseconds");
        purge_only_when_told();
        assert_eq!(delay(), NEVER_MS);
    }
}
