//! A file that is synced as it is written, so that little is left to be synced at its end.
//!
//! What is written waits in the system's memory until it is synced. All of a large file at once would keep the disk from whoever else wants
//! it, such as the log, for as long as that takes.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes after which the file is synced once more.
const STEP: usize = 4 << 20;

/// A file that is written from its beginning.
#[derive(Debug)]
pub struct PacedFile {
    file: File,
    /// Bytes since the last sync was asked for.
    unsynced: usize,
    /// Asks the thread that syncs for one more; none if it is synced at the end only.
    pacer: Option<(SyncSender<()>, JoinHandle<io::Result<()>>)>,
}

impl PacedFile {
    /// A file that is synced at its end only.
    pub fn unpaced(file: File) -> Self {
        PacedFile { file, unsynced: 0, pacer: None }
    }

    /// A file that a thread of its own syncs after each few MiB, which is not waited for: while it is busy, more gathers.
    ///
    /// # Errors
    /// If the file has no second handle, or there is no thread.
    pub fn paced(file: File) -> io::Result<Self> {
        let other = file.try_clone()?;
        let (send, receive) = sync_channel::<()>(1);
        let work = move || receive.into_iter().try_for_each(|()| other.sync_data());
        let thread = std::thread::Builder::new().name("petrel-pacer".into()).spawn(work)?;
        Ok(PacedFile { pacer: Some((send, thread)), ..Self::unpaced(file) })
    }

    /// Waits until all of it is safely on the disk.
    ///
    /// # Errors
    /// If that fails, now or since the beginning.
    pub fn sync_all(self) -> io::Result<()> {
        if let Some((send, thread)) = self.pacer {
            drop(send);
            // The system tells of a failure once only, which may have been then.
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the pacing thread failed")))?;
        }
        self.file.sync_all()
    }
}

impl Write for PacedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.file.write(bytes)?;
        self.unsynced += len;
        if self.unsynced >= STEP
            && let Some((pace, _)) = &self.pacer
            && pace.try_send(()).is_ok()
        {
            self.unsynced = 0;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for PacedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there_with_and_without_pace() {
        let path = std::env::temp_dir().join(format!("petrel-paced-{}", std::process::id()));
        for is_paced in [false, true] {
            let file = File::create(&path).unwrap();
            let file = if is_paced { PacedFile::paced(file) } else { Ok(PacedFile::unpaced(file)) };
            let mut file = file.unwrap();
            let chunk = vec![7; STEP / 3 + 1];
            (0..20).for_each(|_| file.write_all(&chunk).unwrap());
            file.seek(SeekFrom::Start(0)).unwrap();
            file.write_all(b"head").unwrap();
            assert!(!is_paced || file.unsynced < 20 * chunk.len());
            file.sync_all().unwrap();
            let read = std::fs::read(&path).unwrap();
            assert!(read.starts_with(b"head") && read.len() == 20 * chunk.len());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
