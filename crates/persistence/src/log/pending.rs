//! The file of pending records: memory that outlives the process.
//!
//! Threads keep their records in memory until the log's thread writes them. That memory is a shared
//! mapping of a file, so that the death of the process alone loses nothing: the pages stay in the
//! page cache, and the next start finds them ([`super::recover`]). Only creating a slot takes a
//! system call. After a stop of the machine the file is meaningless: it is never synced.
//!
//! ```text
//! file    +-------------+------------------+--------+--------+-- ...
//!         | head        | table            | slot   | slot   |     whole pages, in any order; holes between them
//!         | 4096 bytes  | 64 bytes a slot  |        |        |
//!         +-------------+------------------+--------+--------+-- ...
//! ```
//!
//! Drawn byte by byte in `docs/formats-log.md`.

use super::format::checksum;
use crate::direct::PAGE;
use crate::mapping::{Mapping, SharedWords};
use parking_lot::Mutex;
#[cfg(target_os = "linux")]
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};

pub(super) const MAGIC: &[u8; 8] = b"PETRPEND";
pub(super) const PENDING_VERSION: u32 = 1;
/// Bytes of the head that do not change, the last four their checksum.
pub(super) const FIXED_LEN: usize = 60;
/// Bytes of the head, and of the head and the table.
pub(super) const HEAD_LEN: usize = PAGE;
pub(super) const SLOTS_AT: usize = HEAD_LEN + SLOTS_MAX * ENTRY_LEN;
/// Slots that there can be. A thread has 32 MB waiting at most, which are 16 large ones.
pub(super) const SLOTS_MAX: usize = 2048;
/// Bytes of a slot's place in the table.
pub(super) const ENTRY_LEN: usize = 64;

/// Positions of numbers, in units of eight bytes. In the head: the epoch of the last complete block
/// of the log, and twice the number of a file with its first epoch ...
pub(super) const WRITTEN: usize = 8;
pub(super) const FIRSTS: [usize; 2] = [9, 11];
/// ... and in a slot's place in the table.
pub(super) const OFFSET: usize = 0;
pub(super) const CAPACITY: usize = 1;
pub(super) const EPOCH: usize = 2;
pub(super) const SERIAL: usize = 3;
pub(super) const LEN: usize = 4;

/// Identity of this boot of the machine; `None` if the system does not provide it.
pub(super) fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).ok().map(u128::to_le_bytes)
}

/// The file, while the log is written.
pub struct Pending {
    file: File,
    path: PathBuf,
    /// Head and table.
    words: SharedWords,
    /// Offset and length of each slot that there is.
    slots: Mutex<Vec<Option<(u64, u64)>>>,
    /// Reason that the last requested slot could not be created.
    failure: Mutex<Option<String>>,
}

impl Pending {
    /// Creates the file, replacing any present one, for a log with `written` as the epoch of its
    /// last block.
    ///
    /// # Errors
    /// If it cannot be made, or not be mapped.
    pub fn create(path: PathBuf, log_id: [u8; 16], written: u64) -> io::Result<Arc<Self>> {
        let boot_id = boot_id()
            .ok_or_else(|| io::Error::other("/proc/sys/kernel/random/boot_id cannot be read"))?;
        // Under its name there is only a file that is complete.
        let part = path.with_extension("pending.part");
        for before in [&path, &part] {
            match fs::remove_file(before) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&part)?;
        let mut head = [0; HEAD_LEN];
        head[..8].copy_from_slice(MAGIC);
        head[8..12].copy_from_slice(&PENDING_VERSION.to_le_bytes());
        head[12..16].copy_from_slice(&(SLOTS_MAX as u32).to_le_bytes());
        head[16..32].copy_from_slice(&log_id);
        head[32..48].copy_from_slice(&boot_id);
        head[48..56].copy_from_slice(&file.metadata()?.ino().to_le_bytes());
        let sum = checksum(&head[..FIXED_LEN - 4]);
        head[FIXED_LEN - 4..FIXED_LEN].copy_from_slice(&sum.to_le_bytes());
        head[WRITTEN * 8..][..8].copy_from_slice(&written.to_le_bytes());
        let made = fill(&file, HEAD_LEN as u64, (SLOTS_AT - HEAD_LEN) as u64, &[])
            .and_then(|()| file.write_all_at(&head, 0))
            .and_then(|()| fs::rename(&part, &path))
            .and_then(|()| Mapping::of_file(&file, 0, SLOTS_AT));
        let words = SharedWords::new(made.inspect_err(|_| {
            // It says nothing yet.
            let _ = fs::remove_file(&part).or_else(|_| fs::remove_file(&path));
        })?);
        let (slots, failure) = (Mutex::new(vec![None; SLOTS_MAX]), Mutex::default());
        Ok(Arc::new(Pending { file, path, words, slots, failure }))
    }

    /// The log's last block has this epoch now.
    pub(super) fn set_written(&self, epoch: u64) {
        self.words.at(WRITTEN).store(epoch, Release);
    }

    /// The file of the log with this number will have no block of an earlier epoch than `from`;
    /// should it get a base, that holds everything before.
    pub(super) fn set_first(&self, seq: u64, from: u64) {
        // A process that ends in the middle of this has at least the one before.
        let seq_of = |at: &usize| self.words.at(*at).load(Relaxed);
        let older = if seq_of(&FIRSTS[0]) <= seq_of(&FIRSTS[1]) { FIRSTS[0] } else { FIRSTS[1] };
        self.words.at(older).store(0, Release);
        self.words.at(older + 1).store(from, Release);
        self.words.at(older).store(seq, Release);
    }

    /// Reason that new records are lost if the process dies, if they are.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Deletes the file: all that was recorded is in the log.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// A slot of this many bytes, whole pages, which begins with `content`; none if it cannot be
    /// had, which [`Pending::failure`] tells.
    pub(super) fn slot(self: &Arc<Self>, len: usize, content: &[u8]) -> Option<Slot> {
        let made = self.make_slot(len as u64, content);
        *self.failure.lock() = made.as_ref().err().map(|error| error.to_string());
        made.ok()
    }

    fn make_slot(self: &Arc<Self>, len: u64, content: &[u8]) -> io::Result<Slot> {
        let (index, offset) = self.reserve(len)?;
        let made = fill(&self.file, offset, len, content)
            .and_then(|()| Mapping::of_file(&self.file, offset, len as usize));
        match made {
            Ok(mapping) => {
                let pending = self.clone();
                let slot = Slot { mapping, place: PendingSlot { pending, index } };
                slot.word(OFFSET, offset);
                slot.word(CAPACITY, len);
                Ok(slot)
            }
            Err(error) => {
                self.release(index);
                Err(error)
            }
        }
    }

    /// Finds a place in the table and one in the file.
    fn reserve(&self, len: u64) -> io::Result<(usize, u64)> {
        let mut slots = self.slots.lock();
        let index = slots
            .iter()
            .position(Option::is_none)
            .ok_or_else(|| io::Error::other(format!("there are {SLOTS_MAX} slots in use")))?;
        let mut used: Vec<(u64, u64)> = slots.iter().flatten().copied().collect();
        used.sort_unstable();
        let mut offset = SLOTS_AT as u64;
        for (begin, len_there) in used {
            if begin - offset >= len {
                break;
            }
            offset = begin + len_there;
        }
        slots[index] = Some((offset, len));
        Ok((index, offset))
    }

    /// Gives the place of a slot back, in the table and in the file.
    fn release(&self, index: usize) {
        self.words.at((HEAD_LEN + index * ENTRY_LEN) / 8 + LEN).store(0, Release);
        let Some((offset, len)) = self.slots.lock()[index] else { return };
        // While nothing else can have the place, and others need not wait.
        punch(&self.file, offset, len);
        let mut slots = self.slots.lock();
        slots[index] = None;
        let end = slots.iter().flatten().map(|(begin, len)| begin + len).max();
        let end = end.unwrap_or(SLOTS_AT as u64);
        if end <= offset {
            // If it fails, the file is longer than it need be.
            let _ = self.file.set_len(end);
        }
    }
}

/// Memory of the file.
pub(super) struct Slot {
    pub mapping: Mapping,
    // Behind the mapping: it is unmapped before its pages are freed.
    place: PendingSlot,
}

struct PendingSlot {
    pending: Arc<Pending>,
    index: usize,
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        self.pending.release(self.index);
    }
}

impl Slot {
    #[inline]
    fn word(&self, which: usize, value: u64) {
        let at = (HEAD_LEN + self.place.index * ENTRY_LEN) / 8 + which;
        self.place.pending.words.at(at).store(value, Release);
    }

    /// From now on it holds records of this epoch; at first none.
    pub fn assign(&self, epoch: u64, serial: bool) {
        self.publish(0);
        self.word(EPOCH, epoch);
        self.word(SERIAL, serial.into());
    }

    /// This many bytes of records are there.
    #[inline]
    pub fn publish(&self, len: usize) {
        self.word(LEN, len as u64);
    }
}

/// Has the file hold `content` and then zeros, this many bytes together, in blocks that are its
/// own: writing to them later needs none.
fn fill(file: &File, offset: u64, len: u64, content: &[u8]) -> io::Result<()> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    allocate(file, offset, len)?;
    file.write_all_at(content, offset)?;
    let (mut at, end) = (offset + content.len() as u64, offset + len);
    while at < end {
        let count = (end - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), offset, len).map_err(io::Error::from) {
        // Then writing has to do.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        result => result,
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}

/// Gives the blocks of a part of the file back, where the file system can do that.
fn punch(file: &File, offset: u64, len: u64) {
    #[cfg(target_os = "linux")]
    {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If it fails, the blocks stay until the file ends.
        let _ = fallocate(file, mode, offset, len);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}
