//! Recovers the pending records of a process that died ([`super::pending`]).
//!
//! The records follow the last complete block of the log, if the machine has not stopped since and
//! the log is the one named in the file. Then all records of later epochs together are a state that
//! existed, since each record was in the file before its locks were released.

use super::effect::{Logged, take_effect};
use super::format::{FILE_HEAD_LEN, FileHead, VERSION, array, checksum};
use super::number::Bytes;
use super::pending::{
    CAPACITY, ENTRY_LEN, EPOCH, FIRSTS, FIXED_LEN, HEAD_LEN, LEN, MAGIC, OFFSET, PENDING_VERSION,
    SERIAL, SLOTS_AT, SLOTS_MAX, WRITTEN, boot_id,
};
use super::read::LogError;
use super::replay::{Replayed, replay, take_record};
use super::segment::{Memory, Segment};
use super::storage::{Storage, Sync};
use super::writer::Writer;
use crate::load::Progress;
use parking_lot::Mutex;
use petrel_keyspace::{Effect, Keyspace};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, IoSlice, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Offset of the boot's id in the head.
const BOOT_AT: usize = 32;

/// Epochs have 40 bits ([`petrel_keyspace::Order`]).
const EPOCHS_END: u64 = 1 << 40;

/// Reason that a pending file cannot be read.
#[derive(Debug)]
pub enum PendingError {
    /// The system refused to.
    Io(io::Error),
    /// Written by a later version of Petrel.
    Version(u32),
    /// Invalid data at this byte.
    Malformed {
        /// Bytes before it.
        at: u64,
    },
}

impl fmt::Display for PendingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendingError::Io(error) => error.fmt(f),
            PendingError::Version(version) => write!(
                f,
                "version {version} of pending records is not known here: it was written by a later Petrel"
            ),
            PendingError::Malformed { at } => write!(
                f,
                "what stands at byte {at} is no pending record; without this file a start has what the log holds"
            ),
        }
    }
}

impl std::error::Error for PendingError {}

impl From<io::Error> for PendingError {
    fn from(error: io::Error) -> Self {
        PendingError::Io(error)
    }
}

/// State of the log after its files have been read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Identity of its files.
    pub log_id: Option<[u8; 16]>,
    /// The number of its first file for effects.
    pub first_seq: u64,
    /// Epoch of its last whole block.
    pub last_epoch: Option<u64>,
}

/// All records of an epoch that were left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingEpoch {
    /// The epoch.
    pub epoch: u64,
    /// Changes must be applied sequentially.
    pub serial: bool,
    /// Contents of each slot: concatenated records.
    pub slots: Vec<Vec<u8>>,
    /// Number of records.
    pub records: u64,
}

/// The file, as it was left.
pub struct Remains {
    bytes: Vec<u8>,
    /// Identity of the log's files.
    pub log_id: [u8; 16],
    boot_id: [u8; 16],
    inode: u64,
    /// Inode of the file that was read.
    inode_now: u64,
    written: u64,
    firsts: [(u64, u64); 2],
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    epoch: u64,
    serial: bool,
    at: u64,
    len: u64,
}

impl Remains {
    /// Reads the file; none if there is none, or one that a power cut has left without its head.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, PendingError> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // Only files written since the machine was started have to be whole.
        let boot = head_is_whole(&bytes).then(|| array(&bytes, BOOT_AT));
        let is_old = boot.is_some_and(|boot: [u8; 16]| boot_id() != Some(boot));
        let mut remains = match Self::parse(bytes) {
            Err(PendingError::Malformed { .. }) if is_old => None,
            remains => remains?,
        };
        if let Some(remains) = &mut remains {
            remains.inode_now = fs::metadata(path)?.ino();
        }
        Ok(remains)
    }

    /// Like [`Remains::read`], from bytes of unknown origin.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn parse(bytes: Vec<u8>) -> Result<Option<Self>, PendingError> {
        if bytes.iter().take(FIXED_LEN).all(|&byte| byte == 0) {
            // It gets its name when it is complete, but is not synced.
            return Ok(None);
        }
        if !head_is_whole(&bytes) {
            return Err(PendingError::Malformed { at: 0 });
        }
        let version = u32::from_le_bytes(array(&bytes, 8));
        let slots_max = u32::from_le_bytes(array(&bytes, 12)) as usize;
        if version != PENDING_VERSION || slots_max != SLOTS_MAX {
            return Err(PendingError::Version(version));
        }
        if bytes.len() < SLOTS_AT {
            return Err(PendingError::Malformed { at: bytes.len() as u64 });
        }
        let word = |at: usize| u64::from_le_bytes(array(&bytes, at));
        let slots = slots_of(&bytes)?;
        let inode = word(48);
        Ok(Some(Remains {
            log_id: array(&bytes, 16),
            boot_id: array(&bytes, BOOT_AT),
            inode,
            inode_now: inode,
            written: word(WRITTEN * 8),
            firsts: FIRSTS.map(|at| (word(at * 8), word((at + 1) * 8))),
            slots,
            bytes,
        }))
    }

    /// Whether anything is in it.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether it was written since the machine was started: if not, it says nothing, since it is
    /// never synced.
    pub fn is_of_this_boot(&self) -> bool {
        boot_id() == Some(self.boot_id)
    }

    /// All that the log and its base hold is of epochs up to this one.
    fn floor(&self, known: &Known) -> u64 {
        let of = self.firsts.iter().find(|(seq, _)| *seq != 0 && *seq == known.first_seq);
        let floor = of.map_or(0, |(_, from)| from.saturating_sub(1));
        known.last_epoch.unwrap_or(0).max(floor)
    }

    /// Reason that the records cannot be used with this log, if there is one.
    pub fn hindrance(&self, known: &Known) -> Option<String> {
        let last = self.floor(known);
        if !self.is_of_this_boot() {
            return Some("the machine was started anew since".into());
        }
        if self.inode != self.inode_now {
            return Some("it is a copy".into());
        }
        if known.log_id != Some(self.log_id) {
            return Some("it belongs to another log".into());
        }
        (last < self.written).then(|| {
            format!(
                "it follows on epoch {} or later, and the log ends with epoch {last}",
                self.written
            )
        })
    }

    /// The records that the log does not have, and the epoch that they follow on.
    ///
    /// # Errors
    /// If what should be records is not.
    pub fn behind(&self, known: &Known) -> Result<(u64, Vec<PendingEpoch>), PendingError> {
        let last = self.floor(known);
        let mut slots: Vec<Slot> =
            self.slots.iter().filter(|slot| slot.epoch > last).copied().collect();
        slots.sort_by_key(|slot| slot.epoch);
        let mut epochs = Vec::new();
        for of_epoch in slots.chunk_by(|a, b| a.epoch == b.epoch) {
            let (epoch, serial) = (of_epoch[0].epoch, of_epoch.iter().any(|slot| slot.serial));
            let mut all = PendingEpoch { epoch, serial, slots: Vec::new(), records: 0 };
            for slot in of_epoch {
                let records = &self.bytes[slot.at as usize..(slot.at + slot.len) as usize];
                all.records += count_records(records, epoch, serial)
                    .map_err(|at| PendingError::Malformed { at: slot.at + at })?;
                all.slots.push(records.to_vec());
            }
            epochs.push(all);
        }
        Ok((last, epochs))
    }
}

/// Appends such records to a file of a log that has only its head, behind epoch `previous`, and
/// syncs it.
///
/// # Errors
/// The system's error.
pub fn append_pending(
    epochs: &[PendingEpoch],
    file: Box<dyn Storage>,
    head: FileHead,
    previous: u64,
    written_ms: i64,
) -> io::Result<()> {
    let mut writer = Writer::new(file, head, previous);
    for PendingEpoch { epoch, serial, slots, .. } in epochs {
        let segment = |records: &Vec<u8>| {
            let memory = Memory::of_record(None, records);
            Segment::of_record(*epoch, *serial, memory, records.len())
        };
        let mut segments: Vec<Segment> = slots.iter().map(segment).collect();
        let mut segments: Vec<&mut Segment> = segments.iter_mut().collect();
        writer.block(&mut segments, written_ms, FILE_HEAD_LEN as u64, false)?;
    }
    writer.syncer().sync()
}

/// Applies such records to a keyspace that no other thread changes meanwhile, with this many
/// threads, as the file will be into which [`append_pending`] puts them behind epoch `previous`.
/// The last block of the log has the epoch `last`, if there is one.
///
/// # Errors
/// If they do not fit the present data.
pub fn replay_pending(
    epochs: &[PendingEpoch],
    previous: u64,
    last: Option<u64>,
    keyspace: &Arc<Keyspace>,
    threads: usize,
    progress: &Progress,
) -> Result<Replayed, LogError> {
    let head = FileHead { version: VERSION, seq: 1, made_ms: 0, log_id: [0; 16] };
    let file = InMemory(Arc::new(Mutex::new(head.to_bytes().to_vec())));
    append_pending(epochs, Box::new(file.clone()), head, previous, 0).map_err(LogError::Io)?;
    let bytes = std::mem::take(&mut *file.0.lock());
    replay(&bytes[..], bytes.len() as u64, keyspace, threads, last, progress)
}

/// A file that is not on a disk.
#[derive(Clone, Default)]
pub(super) struct InMemory(pub(super) Arc<Mutex<Vec<u8>>>);

impl Storage for InMemory {
    fn append(&mut self, pieces: &[IoSlice<'_>], _: u64) -> io::Result<usize> {
        let mut bytes = self.0.lock();
        let before = bytes.len();
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        Ok(bytes.len() - before)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.lock().truncate(len as usize);
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn Sync> {
        Arc::new(self.clone())
    }
}

impl Sync for InMemory {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the part of the head is there that does not change.
fn head_is_whole(bytes: &[u8]) -> bool {
    let fixed = bytes.get(..FIXED_LEN).filter(|fixed| fixed.starts_with(MAGIC));
    fixed.is_some_and(|fixed| {
        let (fixed, sum) = fixed.split_at(FIXED_LEN - 4);
        sum == checksum(fixed).to_le_bytes()
    })
}

/// The slots that hold something.
fn slots_of(bytes: &[u8]) -> Result<Vec<Slot>, PendingError> {
    let mut slots = Vec::new();
    for at in (HEAD_LEN..SLOTS_AT).step_by(ENTRY_LEN) {
        let word = |which: usize| u64::from_le_bytes(array(bytes, at + which * 8));
        let (offset, capacity, epoch, len) = (word(OFFSET), word(CAPACITY), word(EPOCH), word(LEN));
        if len == 0 {
            continue;
        }
        let end = offset.checked_add(capacity).filter(|&end| end <= bytes.len() as u64);
        let is_right = offset >= SLOTS_AT as u64
            && len <= capacity
            && end.is_some()
            && (1..EPOCHS_END).contains(&epoch);
        if !is_right {
            return Err(PendingError::Malformed { at: at as u64 });
        }
        slots.push(Slot { epoch, serial: word(SERIAL) != 0, at: offset, len });
    }
    slots.sort_by_key(|slot| slot.at);
    match slots.windows(2).find(|pair| pair[0].at + pair[0].len > pair[1].at) {
        Some(pair) => Err(PendingError::Malformed { at: pair[1].at }),
        None => Ok(slots),
    }
}

/// Number of records; or where one begins that is none.
fn count_records(bytes: &[u8], epoch: u64, serial: bool) -> Result<u64, u64> {
    let mut source = Bytes(bytes);
    let mut count = 0;
    while !source.0.is_empty() {
        let at = (bytes.len() - source.0.len()) as u64;
        let (mut effects, mut context) = take_record(&mut source, epoch).map_err(|_| at)?;
        while !effects.0.is_empty() {
            let is_right = take_effect(&mut effects, &mut context, |_, logged| {
                serial
                    || logged.key().is_some()
                    || matches!(logged, Logged::Effect(Effect::Aux { .. }))
            });
            if is_right != Ok(true) {
                return Err(at);
            }
        }
        count += 1;
    }
    Ok(count)
}
