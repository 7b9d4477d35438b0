//! Memory that is mapped: pages of the system's own, or of a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Memory-mapped pages: zeros at first, or the contents of a file.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Memory of the process.
    ///
    /// # Errors
    /// If there is none.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
    }

    /// Maps a range of a file, which must stay at least that long while the mapping exists. Writes
    /// are in the page cache at once, and stay there however the process ends.
    ///
    /// # Errors
    /// If the file system has no such mappings.
    pub fn of_file(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let offset = offset.try_into().map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut mapping = Self::new(len, libc::MAP_SHARED, file.as_raw_fd(), offset)?;
        mapping.populate();
        Ok(mapping)
    }

    fn new(len: usize, flags: i32, fd: i32, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { at, len })
    }

    /// Has the pages ready for being written to, if the system can do that.
    fn populate(&mut self) {
        #[cfg(target_os = "linux")]
        // SAFETY: the range is ours, and no byte of it changes.
        unsafe {
            libc::madvise(self.at.as_ptr().cast(), self.len, libc::MADV_POPULATE_WRITE)
        };
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is ours, holds initialised bytes, and is borrowed as this is. Nothing
        // else writes to it: the file's name is known to other processes, which have no
        // business there.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// The bytes, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nothing else borrows it.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

// SAFETY: it owns its memory, which any thread may use.
unsafe impl Send for Mapping {}

/// A mapping that threads share, as numbers of eight bytes.
#[derive(Debug)]
pub(crate) struct SharedWords(Mapping);

impl SharedWords {
    pub fn new(mapping: Mapping) -> Self {
        SharedWords(mapping)
    }

    /// The number that begins eight times this many bytes behind the beginning.
    #[inline]
    pub fn at(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * 8 <= self.0.len);
        // SAFETY: it lies within the mapping, which begins with a page, and nothing borrows the
        // mapping but through this, as atomics.
        unsafe { &*self.0.at.as_ptr().cast::<AtomicU64>().add(index) }
    }
}

// SAFETY: it is only used through atomics.
unsafe impl Sync for SharedWords {}
