//! Storage of a log: a file, or its replacement in tests.

use crate::direct::DirectFile;
use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::sync::Arc;

/// A file that is appended to.
pub trait Storage: Send {
    /// Appends some of the bytes; how many. `left` are those of the block from here on, of which
    /// these are the first.
    ///
    /// # Errors
    /// The system's error.
    fn append(&mut self, pieces: &[IoSlice<'_>], left: u64) -> io::Result<usize>;

    /// Cuts the file down to this many bytes, behind which it goes on.
    ///
    /// # Errors
    /// The system's error.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    /// Returns an object that makes the bytes written so far durable, on any thread.
    fn syncer(&self) -> Arc<dyn Sync>;
}

/// Makes written bytes durable.
pub trait Sync: Send + std::marker::Sync {
    /// Waits until all bytes that were appended before are on the disk.
    ///
    /// # Errors
    /// The system's error. Bytes that were written and not synced may be lost then, whatever a
    /// later call returns.
    fn sync(&self) -> io::Result<()>;
}

/// A file of the system.
pub struct SystemFile(DirectFile);

impl SystemFile {
    /// Appends to a file after its present contents.
    ///
    /// # Errors
    /// If its end cannot be found.
    pub fn new(mut file: File) -> io::Result<Self> {
        let end = file.seek(SeekFrom::End(0))?;
        Ok(SystemFile(DirectFile::new(file, end)))
    }
}

impl Storage for SystemFile {
    fn append(&mut self, pieces: &[IoSlice<'_>], left: u64) -> io::Result<usize> {
        self.0.append(pieces, left)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.cut(len)
    }

    fn syncer(&self) -> Arc<dyn Sync> {
        self.0.file().clone()
    }
}

impl Sync for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
