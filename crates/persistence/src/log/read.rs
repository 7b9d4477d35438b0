//! Reading the blocks of a file.

use super::format::{
    BLOCK_HEAD_LEN, BlockHead, FILE_HEAD_LEN, FileHead, VERSION, checksum, is_log,
};
use std::fmt;
use std::io::{self, Read};

/// Bytes that are looked through at once for a block behind a damaged place.
const SEARCH_LEN: usize = 1 << 20;

/// Why a log cannot be read.
#[derive(Debug)]
pub enum LogError {
    /// The system refused to.
    Io(io::Error),
    /// It is no file of a log.
    NoLog,
    /// A version that is not known here.
    Version(u16),
    /// The file belongs to another log than those before it.
    Stranger,
    /// The file ends in the middle of a block that begins at this byte: it was being written when the machine stopped.
    Torn {
        /// Bytes of whole blocks.
        at: u64,
        /// Bytes behind them.
        left: u64,
    },
    /// What stands at this byte is damaged, and there are whole blocks behind it.
    Damaged {
        /// Bytes before it.
        at: u64,
        /// Where the next whole block begins.
        next: u64,
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
    /// The log needs more databases than there are.
    Databases {
        /// The number of the database.
        needed: u16,
        /// How many there are.
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
            LogError::Torn { at, left } => write!(
                f,
                "it ends in the middle of a block: of what begins at byte {at}, only {left} bytes are there"
            ),
            LogError::Damaged { at, next } => write!(
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
    /// What the file says of itself.
    pub head: FileHead,
    len: u64,
    at: u64,
    /// Epoch of the block before; none if it may be any.
    previous: Option<u64>,
    ended: bool,
}

impl<R: Read> BlockReader<R> {
    /// A reader of a file of `len` bytes, whose first block follows on epoch `previous`, if that is known.
    ///
    /// # Errors
    /// If it is no file of a log, or not complete up to its first block.
    pub fn new(mut file: R, len: u64, previous: Option<u64>) -> Result<Self, LogError> {
        let mut bytes = [0; FILE_HEAD_LEN];
        let count = read_some(&mut file, &mut bytes)?;
        if count < FILE_HEAD_LEN && FileHead::from_bytes(&bytes).is_none() {
            let is_begun = count == 0 || is_log(&bytes[..count]) || count < 8;
            return Err(if is_begun {
                LogError::Torn { at: 0, left: len }
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
        Ok(BlockReader { file, head, len, at, previous, ended: false })
    }

    /// Bytes of what was read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Epoch of the last block.
    pub fn last_epoch(&self) -> Option<u64> {
        self.previous
    }

    /// Whether the log was ended on purpose behind what was read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads the next block, and appends its records to `body`; none at the file's end.
    ///
    /// # Errors
    /// What is wrong, and where; what came before is right.
    pub fn next(&mut self, body: &mut Vec<u8>) -> Result<Option<BlockHead>, LogError> {
        loop {
            let (at, start) = (self.at, body.len());
            let mut bytes = [0; BLOCK_HEAD_LEN];
            let count = read_some(&mut self.file, &mut bytes)?;
            if count == 0 {
                return Ok(None);
            }
            let Some(head) = BlockHead::from_bytes(&bytes[..count]) else {
                return Err(self.broken_at(at, bytes[..count].to_vec())?);
            };
            if self.previous.is_some_and(|previous| previous != head.previous) {
                let wanted = self.previous.unwrap_or(0);
                return Err(LogError::Gap { at, wanted, found: head.previous });
            }
            let left = self.len.saturating_sub(at + BLOCK_HEAD_LEN as u64);
            let expected = head.len.min(left);
            let got = (&mut self.file).take(expected).read_to_end(body)? as u64;
            if got < head.len || checksum(&body[start..]) != head.sum {
                let seen = [&bytes[..], &body[start..]].concat();
                body.truncate(start);
                return Err(self.broken_at(at, seen)?);
            }
            self.at += BLOCK_HEAD_LEN as u64 + head.len;
            self.previous = Some(head.epoch);
            if !head.end {
                return Ok(Some(head));
            }
            self.ended = true;
        }
    }

    /// What begins at `at`, of which `seen` was read, is no whole block: damaged if one follows, else torn.
    fn broken_at(&mut self, at: u64, seen: Vec<u8>) -> io::Result<LogError> {
        let (mut window, mut begins) = (seen, at);
        // The damaged head itself is none, whatever it holds.
        let mut skip = 1;
        loop {
            if let Some(found) = window.get(skip..).and_then(BlockHead::find) {
                return Ok(LogError::Damaged { at, next: begins + (skip + found) as u64 });
            }
            // A head may lie across the end.
            let keep = window.len().min(BLOCK_HEAD_LEN - 1);
            begins += (window.len() - keep) as u64;
            window.drain(..window.len() - keep);
            skip = usize::from(begins == at);
            let before = window.len();
            (&mut self.file).take(SEARCH_LEN as u64).read_to_end(&mut window)?;
            if window.len() == before {
                let left = self.len.max(begins + before as u64) - at;
                return Ok(LogError::Torn { at, left });
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
