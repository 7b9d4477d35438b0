//! Appending to a file past the system's memory (`O_DIRECT`, open(2)).
//!
//! A buffered write copies into the page cache, page by page, and the kernel writes the pages out
//! later in small pieces: at hundreds of megabytes a second that costs more CPU than encoding, and
//! the disk reaches a third of its speed. So pages appended in one call are written with direct
//! I/O. The partial pages at both ends, and small appends, are buffered; as no page is written both
//! ways in one call, neither waits for the other.
//!
//! ```text
//! file   ── usual ──|── direct ──|── direct ──|─ usual ─┊─ usual ─|── direct ── ...
//!                   page         page         page      append    page
//! ```

use crate::mapping::Mapping;
use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Positions and addresses of direct writes are multiples of this, which every disk takes.
pub(crate) const PAGE: usize = 4096;
/// Bytes that are written directly at once.
const CHUNK: usize = 4 << 20;
/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Fewer bytes are not worth a write that waits for the disk.
pub(crate) const DIRECT_MIN: usize = 64 * 1024;
/// A writer with more than this to append has fallen behind; if the disk is slow, the system's
/// memory takes it faster.
const HURRY: u64 = 24 << 20;
/// A disk that takes longer for a direct write of [`CHUNK`] bytes is slow.
const SLOW: Duration = Duration::from_millis(20);

/// A file with a write position that advances.
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: Arc<File>,
    at: u64,
    way: Way,
    /// Bytes that went through the system's memory.
    cached: u64,
    /// Average time of a direct write of [`CHUNK`] bytes.
    chunk_time: Duration,
}

/// State of direct I/O on the file.
#[derive(Debug)]
enum Way {
    /// Not tried yet.
    Untried,
    /// Open for direct I/O.
    Open(File, Staging),
    /// The file system has none.
    Closed,
}

/// Memory for one direct write: aligned as these have to be, and in huge pages where the system has
/// some, since every page of a write has to be looked up and held for it.
#[derive(Debug)]
pub(crate) struct Staging(Mapping);

impl Staging {
    /// # Errors
    /// If there is no memory.
    pub fn new() -> io::Result<Self> {
        // So that it holds [`CHUNK`] bytes from a huge page's beginning on.
        let mut staging = Staging(Mapping::anonymous(CHUNK + HUGE_PAGE)?);
        advise_huge(staging.bytes());
        Ok(staging)
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        let begin = self.0.bytes().as_ptr().align_offset(HUGE_PAGE);
        &mut self.0.bytes_mut()[begin..begin + CHUNK]
    }
}

/// Asks the system for huge pages where a whole one lies in this memory. Without there are others.
fn advise_huge(memory: &mut [u8]) {
    let begin = memory.as_ptr().align_offset(HUGE_PAGE).min(memory.len());
    let whole = (memory.len() - begin) / HUGE_PAGE * HUGE_PAGE;
    let whole = &mut memory[begin..begin + whole];
    // SAFETY: the range is ours. It is advice, which changes no byte of it.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::madvise(whole.as_mut_ptr().cast(), whole.len(), libc::MADV_HUGEPAGE)
    };
    #[cfg(not(target_os = "linux"))]
    let _ = whole;
}

impl DirectFile {
    /// The file, from a position on.
    pub fn new(file: File, at: u64) -> Self {
        DirectFile {
            file: Arc::new(file),
            at,
            way: Way::Untried,
            cached: 0,
            chunk_time: Duration::ZERO,
        }
    }

    /// The file itself, to be synced.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Bytes that went through the system's memory so far, which are the ones that a sync has to
    /// write.
    pub fn cached(&self) -> u64 {
        self.cached
    }

    /// Cuts the file down to this many bytes, behind which it goes on.
    ///
    /// # Errors
    /// The system's error.
    pub fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.at = len;
        Ok(())
    }

    /// Writes some of the bytes; returns the number. `left` is the number of bytes that remain to
    /// be written, including these.
    ///
    /// # Errors
    /// The system's error.
    pub fn append(&mut self, pieces: &[IoSlice<'_>], left: u64) -> io::Result<usize> {
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        let is_slow = left > HURRY && self.chunk_time > SLOW;
        let is_direct = all >= DIRECT_MIN && !is_slow && self.open_way();
        let before_page = (PAGE - (self.at % PAGE as u64) as usize) % PAGE;
        let count = if !is_direct {
            self.usual(pieces)?
        } else if before_page > 0 {
            let mut page = [0; PAGE];
            let count = gather(pieces, &mut page[..before_page]);
            self.usual(&[IoSlice::new(&page[..count])])?
        } else {
            self.direct(pieces)?
        };
        self.at += count as u64;
        Ok(count)
    }

    fn usual(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self.file).seek(SeekFrom::Start(self.at))?;
        let count = (&*self.file).write_vectored(pieces)?;
        self.cached += count as u64;
        Ok(count)
    }

    fn direct(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Way::Open(file, staging) = &mut self.way else { return self.usual(pieces) };
        let staged = staging.bytes();
        let mut sum = 0;
        let is_taken = |piece: &&IoSlice<'_>| {
            sum += piece.len();
            is_whole(piece) && (sum <= CHUNK || sum == piece.len())
        };
        let whole = pieces.iter().take_while(is_taken).count();
        let one;
        let taken = match pieces {
            _ if whole > 0 => &pieces[..whole],
            [piece, ..] if is_aligned(piece) => {
                one = [IoSlice::new(&piece[..piece.len() / PAGE * PAGE])];
                &one[..]
            }
            _ => {
                let count = gather(pieces, staged) / PAGE * PAGE;
                one = [IoSlice::new(&staged[..count])];
                &one[..]
            }
        };
        let len: usize = taken.iter().map(|piece| piece.len()).sum();
        let began = Instant::now();
        let written =
            (&*file).seek(SeekFrom::Start(self.at)).and_then(|_| (&*file).write_vectored(taken));
        match written {
            Err(error) if is_unsupported(&error) => {
                self.way = Way::Closed;
                self.usual(pieces)
            }
            written => {
                let time = began.elapsed().mul_f64(CHUNK as f64 / len as f64);
                self.chunk_time = (3 * self.chunk_time + time) / 4;
                written
            }
        }
    }

    /// Opens the direct way, unless that was tried; whether it is open.
    fn open_way(&mut self) -> bool {
        if let Way::Untried = self.way {
            let opened = open_direct(&self.file).and_then(|file| Ok((file, Staging::new()?)));
            self.way = match opened {
                Ok((file, staging)) => Way::Open(file, staging),
                Err(_) => Way::Closed,
            };
        }
        matches!(self.way, Way::Open(..))
    }
}

impl Seek for DirectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Current(by) => SeekFrom::Start(self.at.saturating_add_signed(by)),
            other => other,
        };
        self.at = (&*self.file).seek(to)?;
        Ok(self.at)
    }
}

/// Whether direct I/O can take these bytes from their address on, except a partial page at the end.
fn is_aligned(bytes: &[u8]) -> bool {
    bytes.len() >= PAGE && bytes.as_ptr().align_offset(PAGE) == 0
}

/// Whether direct writes take all of these bytes as they lie.
fn is_whole(bytes: &[u8]) -> bool {
    is_aligned(bytes) && bytes.len().is_multiple_of(PAGE)
}

/// Copies the first bytes of the pieces; how many.
fn gather(pieces: &[IoSlice<'_>], mut into: &mut [u8]) -> usize {
    let mut count = 0;
    for piece in pieces {
        let len = piece.len().min(into.len());
        into[..len].copy_from_slice(&piece[..len]);
        into = &mut into[len..];
        count += len;
    }
    count
}

/// The file once more, past the system's memory.
#[cfg(target_os = "linux")]
fn open_direct(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &File) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the file system does not write so, whatever is tried.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn temporary(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("petrel-direct-{name}-{}", std::process::id()))
    }

    /// Appends pieces of such lengths as one.
    fn append(file: &mut DirectFile, bytes: &[u8], piece: usize, left: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let pieces: Vec<IoSlice<'_>> = bytes[done..].chunks(piece).map(IoSlice::new).collect();
            done += file.append(&pieces, left).unwrap();
        }
    }

    #[test]
    fn what_is_appended_is_there_whichever_way_it_went() {
        let path = temporary("ways");
        let bytes: Vec<u8> =
            (0..8_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for way in [Way::Untried, Way::Closed] {
            let mut file = DirectFile { way, ..DirectFile::new(File::create(&path).unwrap(), 0) };
            let lens = [7, 70_000, 1, 3_000_000, 4096, 64 * 1024, 999_999, 100];
            let mut done = 0;
            for (i, len) in lens.into_iter().cycle().enumerate() {
                let end = (done + len).min(bytes.len());
                let left = if i % 5 == 4 { HURRY + 1 } else { (end - done) as u64 };
                file.chunk_time = 2 * SLOW;
                append(&mut file, &bytes[done..end], 1000 + 37 * i, left);
                done = end;
                if done == bytes.len() {
                    break;
                }
            }
            assert!(fs::read(&path).unwrap() == bytes);
            assert!(matches!(file.way, Way::Closed) == (file.cached() == bytes.len() as u64));
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_goes_on_where_it_was_cut() {
        let path = temporary("cut");
        let mut file = DirectFile::new(File::create(&path).unwrap(), 0);
        append(&mut file, &[1; 300_000], 300_000, 300_000);
        file.cut(123_457).unwrap();
        append(&mut file, &[2; 200_000], 999, 200_000);
        let read = fs::read(&path).unwrap();
        assert_eq!(read.len(), 323_457);
        assert!(read[..123_457].iter().all(|&byte| byte == 1));
        assert!(read[123_457..].iter().all(|&byte| byte == 2));
        file.seek(SeekFrom::Start(0)).unwrap();
        append(&mut file, b"head", 4, 4);
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 323_457);
        assert!(fs::read(&path).unwrap().starts_with(b"head\x01"));
        fs::remove_file(&path).unwrap();
    }
}
