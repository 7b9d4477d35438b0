//! A file that is synced as it is written, so that little is left to be synced at its end.
//!
//! What goes through the system's memory waits there until it is synced. All of a large file at
//! once would keep the disk from other writers, such as the log, for as long as that takes.

use crate::direct::{DirectFile, Staging};
use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes after which the file is synced once more.
const STEP: u64 = 4 << 20;

/// A file that is written from its beginning.
#[derive(Debug)]
pub struct PacedFile {
    file: DirectFile,
    /// Bytes collected for the next write, and their number.
    staging: Staging,
    staged: usize,
    /// Value of [`DirectFile::cached`] when the last sync was requested.
    synced: u64,
    /// Asks the thread that syncs for one more; none if it is synced at the end only.
    pacer: Option<(SyncSender<()>, JoinHandle<io::Result<()>>)>,
}

impl PacedFile {
    /// A file that is synced at its end only.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn unpaced(file: File) -> io::Result<Self> {
        let file = DirectFile::new(file, 0);
        Ok(PacedFile { file, staging: Staging::new()?, staged: 0, synced: 0, pacer: None })
    }

    /// A file that a thread of its own syncs after each few MiB, which is not waited for: while it
    /// is busy, more gathers.
    ///
    /// # Errors
    /// If the file has no second handle, or there is no thread.
    pub fn paced(file: File) -> io::Result<Self> {
        let other = file.try_clone()?;
        let (send, receive) = sync_channel::<()>(1);
        let work = move || receive.into_iter().try_for_each(|()| other.sync_data());
        let thread = std::thread::Builder::new().name("petrel-pacer".into()).spawn(work)?;
        Ok(PacedFile { pacer: Some((send, thread)), ..Self::unpaced(file)? })
    }

    /// Waits until all of it is safely on the disk.
    ///
    /// # Errors
    /// If that fails, now or since the beginning.
    pub fn sync_all(mut self) -> io::Result<()> {
        self.flush()?;
        if let Some((send, thread)) = self.pacer {
            drop(send);
            // The system tells of a failure once only, which may have been then.
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the pacing thread failed")))?;
        }
        self.file.file().sync_all()
    }
}

impl Write for PacedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = &mut self.staging.bytes()[self.staged..];
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.staged += len;
        if len == room.len() {
            self.flush()?;
        }
        Ok(len)
    }

    /// Writes the staged bytes.
    fn flush(&mut self) -> io::Result<()> {
        let mut left = &self.staging.bytes()[..std::mem::take(&mut self.staged)];
        while !left.is_empty() {
            match self.file.append(&[IoSlice::new(left)], left.len() as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => left = &left[len..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.file.cached() - self.synced >= STEP
            && let Some((pace, _)) = &self.pacer
            && pace.try_send(()).is_ok()
        {
            self.synced = self.file.cached();
        }
        Ok(())
    }
}

impl Seek for PacedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.flush()?;
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
            let file = if is_paced { PacedFile::paced(file) } else { PacedFile::unpaced(file) };
            let mut file = file.unwrap();
            let chunk: Vec<u8> = (0..99_999u32).map(|i| (i % 251) as u8).collect();
            for i in 0..200 {
                file.write_all(&chunk).unwrap();
                if i % 2 == 0 {
                    // Flush less than is worth a direct write.
                    let _ = file.flush();
                }
            }
            assert!(file.file.cached() < STEP || is_paced == (file.synced > 0));
            file.seek(SeekFrom::Start(0)).unwrap();
            file.write_all(b"head").unwrap();
            file.sync_all().unwrap();
            let read = std::fs::read(&path).unwrap();
            assert!(read.starts_with(b"head") && read.len() == 200 * chunk.len());
            assert!(read[chunk.len()..].chunks(chunk.len()).all(|part| part == chunk));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
