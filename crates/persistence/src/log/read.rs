//! Reading the blocks of a file.

use super::format::{
    BLOCK_HEAD_LEN, BlockHead, FILE_HEAD_LEN, FileHead, VERSION, checksum, is_log,
};
use petrel_keyspace::Misfit;
use std::fmt;
use std::io::{self, Read};

/// Bytes that are looked through at once for a block behind a damaged place.
const SEARCH_LEN: usize = 1 << 20;

/// Unreadable part of a file, from a position to its end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lost {
    /// Bytes to the end.
    pub bytes: u64,
    /// Blocks with a valid head.
    pub blocks: u64,
    /// Times of the first and the last of them, in Unix milliseconds.
    pub written_ms: Option<(i64, i64)>,
}

impl Lost {
    fn note(&mut self, head: &BlockHead) {
        self.blocks += 1;
        let first = self.written_ms.map_or(head.written_ms, |(first, _)| first);
        self.written_ms = Some((first, head.written_ms));
    }
}

/// Reason that a log cannot be read.
#[derive(Debug)]
pub enum LogError {
    /// The system refused to.
    Io(io::Error),
    /// The file is no log.
    NoLog,
    /// A version that is not known here.
    Version(u16),
    /// The file belongs to another log than those before it.
    Stranger,
    /// From this byte on nothing was known to be on the disk when the machine stopped, and what
    /// begins there is no whole block.
    Torn {
        /// Bytes of whole blocks.
        at: u64,
        /// Summary of the bytes after them.
        lost: Lost,
    },
    /// The block at this byte is damaged, although a later block states that it was on the disk.
    Damaged {
        /// Bytes before it.
        at: u64,
        /// Position of the next block's head.
        next: u64,
        /// Summary of the bytes from this one on.
        lost: Lost,
    },
    /// A block is missing before this byte.
    Gap {
        /// Bytes before it.
        at: u64,
        /// The epoch that should come before.
        wanted: u64,
        /// The one that does.
        found: u64,
    },
    /// The records of the block at this byte are not what belongs there.
    Record {
        /// Bytes before the block.
        at: u64,
    },
    /// An effect in the block at this byte does not fit the result of the effects before it.
    Misfit {
        /// Bytes before the block.
        at: u64,
        /// The effect and the reason.
        misfit: Misfit,
    },
    /// The log needs more databases than there are.
    Databases {
        /// The number of the database.
        needed: u16,
        /// Number of databases configured.
        there: u16,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Io(error) => error.fmt(f),
            LogError::NoLog => f.write_str("it does not begin as a file of Petrel's log does"),
            LogError::Version(version) => {
                write!(
                    f,
                    "version {version} of the log is not known here: it was written by a later Petrel"
                )
            }
            LogError::Stranger => f.write_str("it belongs to another log than the files before it"),
            LogError::Torn { at, lost: Lost { bytes, blocks: 0, .. } } => write!(
                f,
                "it ends in the middle of a block: of what begins at byte {at}, only {bytes} bytes are there"
            ),
            LogError::Torn { at, lost: Lost { bytes, blocks, .. } } => write!(
                f,
                "the block at byte {at} did not reach the disk, and what follows had not been synced: {bytes} bytes, \
                 with heads of blocks: {blocks}"
            ),
            LogError::Damaged { at, next, .. } => write!(
                f,
                "what stands at byte {at} is damaged, and whole blocks follow from byte {next} on: what was changed \
                 between them is lost"
            ),
            LogError::Gap { at, wanted, found } => write!(
                f,
                "a block is missing before byte {at}: what follows is behind epoch {found} instead of {wanted}"
            ),
            LogError::Record { at } => {
                write!(
                    f,
                    "the block at byte {at} holds what is no record, although its checksum is right"
                )
            }
            LogError::Misfit { at, misfit } => {
                write!(f, "the block at byte {at} does not follow on what is before it: {misfit}")
            }
            LogError::Databases { needed, there } => write!(
                f,
                "it has changes of database {needed}, but there are {there}: start with `databases {}` or more",
                u32::from(*needed) + 1
            ),
        }
    }
}

impl std::error::Error for LogError {}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        LogError::Io(error)
    }
}

/// Reads a file of a log, block by block.
pub struct BlockReader<R> {
    file: R,
    /// Head of the file.
    pub head: FileHead,
    len: u64,
    at: u64,
    /// Epoch of the block before; none if it may be any.
    previous: Option<u64>,
    follows: Option<u64>,
    ended: bool,
}

impl<R: Read> BlockReader<R> {
    /// Opens a file of `len` bytes. `previous` is the epoch before its first block, if known.
    ///
    /// # Errors
    /// If it is no file of a log, or not complete up to its first block.
    pub fn new(mut file: R, len: u64, previous: Option<u64>) -> Result<Self, LogError> {
        let mut bytes = [0; FILE_HEAD_LEN];
        let count = read_some(&mut file, &mut bytes)?;
        if count < FILE_HEAD_LEN {
            let is_begun = count == 0 || is_log(&bytes[..count]) || count < 8;
            return Err(if is_begun {
                LogError::Torn { at: 0, lost: Lost { bytes: len, ..Lost::default() } }
            } else {
                LogError::NoLog
            });
        }
        let Some(head) = FileHead::from_bytes(&bytes) else {
            return Err(if is_log(&bytes) { LogError::Record { at: 0 } } else { LogError::NoLog });
        };
        if head.version > VERSION {
            return Err(LogError::Version(head.version));
        }
        let at = FILE_HEAD_LEN as u64;
        Ok(BlockReader { file, head, len, at, previous, follows: None, ended: false })
    }

    /// Number of bytes read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Epoch of the last block.
    pub fn last_epoch(&self) -> Option<u64> {
        self.previous
    }

    /// The epoch that the first block of the file says was before it.
    pub fn follows(&self) -> Option<u64> {
        self.follows
    }

    /// Whether the log was ended on purpose at the current position.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads the next block, and appends its records to `body`; none at the file's end.
    ///
    /// # Errors
    /// The fault and its position; everything before it is valid.
    pub fn next(&mut self, body: &mut Vec<u8>) -> Result<Option<BlockHead>, LogError> {
        let head_len = self.head.block_head_len();
        loop {
            let (at, start) = (self.at, body.len());
            let mut bytes = [0; BLOCK_HEAD_LEN];
            let count = read_some(&mut self.file, &mut bytes[..head_len])?;
            if count == 0 {
                return Ok(None);
            }
            let Some(head) = BlockHead::from_bytes(&bytes[..count], &self.head) else {
                return Err(self.broken_at(at, bytes[..count].to_vec(), Lost::default())?);
            };
            if self.previous.is_some_and(|previous| previous != head.previous) {
                let wanted = self.previous.unwrap_or(0);
                return Err(LogError::Gap { at, wanted, found: head.previous });
            }
            let begin = at + head_len as u64;
            let expected = head.len.min(self.len.saturating_sub(begin));
            let got = (&mut self.file).take(expected).read_to_end(body)? as u64;
            if got < head.len || checksum(&body[start..]) != head.sum {
                let seen = [&bytes[..head_len], &body[start..]].concat();
                body.truncate(start);
                let mut lost = Lost::default();
                lost.note(&head);
                return Err(self.broken_at(at, seen, lost)?);
            }
            self.at = begin + head.len;
            self.follows.get_or_insert(head.previous);
            self.previous = Some(head.epoch);
            if !head.end {
                return Ok(Some(head));
            }
            self.ended = true;
        }
    }

    /// Classifies an invalid block at `at`, of which `seen` was read: damaged if a later block
    /// states that it had been synced, otherwise torn. `lost` includes the block's own head if that
    /// is valid.
    fn broken_at(&mut self, at: u64, seen: Vec<u8>, mut lost: Lost) -> io::Result<LogError> {
        let head_len = self.head.block_head_len();
        let (mut window, mut begins) = (seen, at);
        let (mut next, mut synced) = (None, 0);
        // The damaged head itself is none, whatever it holds.
        let mut skip = 1;
        loop {
            let rest = |skip| window.get(skip..).unwrap_or_default();
            while let Some((found, head)) = BlockHead::find(rest(skip), &self.head) {
                next.get_or_insert(begins + (skip + found) as u64);
                synced = head.synced.max(synced);
                lost.note(&head);
                skip += found + head_len;
            }
            // A head may lie across the end.
            let keep = rest(skip).len().min(head_len - 1);
            let gone = window.len() - keep;
            window.drain(..gone);
            begins += gone as u64;
            skip = skip.saturating_sub(gone);
            (&mut self.file).take(SEARCH_LEN as u64).read_to_end(&mut window)?;
            if window.len() == keep {
                lost.bytes = self.len.max(begins + keep as u64) - at;
                return Ok(match next {
                    Some(next) if at < synced => LogError::Damaged { at, next, lost },
                    _ => LogError::Torn { at, lost },
                });
            }
        }
    }
}

/// Fills as much of `bytes` as there is.
fn read_some(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        match file.read(&mut bytes[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
