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
}
