//! Page-aligned memory that costs nothing until it is touched.

use std::io;
use std::ptr::NonNull;

/// An anonymous private mapping, zeroed, unmapped on drop.
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

impl Region {
    pub(crate) fn new(len: usize) -> io::Result<Region> {
        // SAFETY: a fresh anonymous mapping; no existing memory is involved.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Region { start, len })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The bytes of `start..start + len`; empty if that leaves the region.
    #[inline]
    pub(crate) fn slice(&self, start: usize, len: usize) -> &[u8] {
        if start.checked_add(len).is_none_or(|end| end > self.len) {
            return &[];
        }
        // SAFETY: in bounds, and initialised (the mapping starts zeroed). The owner lets the
        // kernel write only to parts that no live `Chunk` names.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start), len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
