//! Records of one epoch in memory, from which the disk takes them as they lie.

use super::format::checksum_on;
use super::pending::{Pending, Slot};
use crate::direct::PAGE;
use crate::mapping::Mapping;
use petrel_keyspace::prefetch_to_write;
use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;

/// Bytes of a record that are asked for before it comes.
const EXPECTED: usize = 640;

/// Bytes that stay free behind the records, to fill the last page up.
const SPARE: usize = 2 * PAGE;

/// Memory size of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Size {
    /// For threads with few records.
    Small,
    /// For threads that have filled a small one.
    Large,
}

impl Size {
    /// Bytes of memory.
    pub fn room(self) -> usize {
        match self {
            Size::Small => 256 * 1024,
            Size::Large => 2 << 20,
        }
    }
}

/// Memory for records, which begins with a page and does not grow.
pub(super) enum Memory {
    /// Process memory, lost if the process dies.
    Own(Mapping),
    /// Part of the file of pending records.
    Shared(Slot),
}

impl Memory {
    /// Memory of this size: a part of the file, if it has some to give.
    pub fn new(pending: Option<&Arc<Pending>>, size: Size) -> Self {
        match pending.and_then(|pending| pending.slot(size.room(), &[])) {
            Some(slot) => Memory::Shared(slot),
            None => Self::own(size.room()),
        }
    }

    /// Memory that begins with a record, which is too long for any other.
    pub fn of_record(pending: Option<&Arc<Pending>>, record: &[u8]) -> Self {
        let room = (record.len() + SPARE).next_multiple_of(PAGE);
        if let Some(slot) = pending.and_then(|pending| pending.slot(room, record)) {
            return Memory::Shared(slot);
        }
        let mut own = Self::own(room);
        own.bytes_mut()[..record.len()].copy_from_slice(record);
        own
    }

    /// Whether memory of this size has room for a record of this many bytes.
    pub fn fits(size: Size, len: usize) -> bool {
        len + SPARE <= size.room()
    }

    /// Memory that ends with the process.
    pub fn own(room: usize) -> Self {
        let layout = Layout::from_size_align(room, PAGE).unwrap_or(Layout::new::<u8>());
        Memory::Own(Mapping::anonymous(room).unwrap_or_else(|_| handle_alloc_error(layout)))
    }

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.mapping().len()
    }

    /// Whether it is large.
    pub fn size(&self) -> Size {
        if self.len() >= Size::Large.room() { Size::Large } else { Size::Small }
    }

    /// Whether it outlives the process.
    pub fn is_shared(&self) -> bool {
        matches!(self, Memory::Shared(_))
    }

    /// Marks the contents as written or unneeded.
    pub fn retire(&self) {
        self.publish(0);
    }

    /// A reader after the process has ended may read this many bytes of it.
    #[inline]
    fn publish(&self, len: usize) {
        if let Memory::Shared(slot) = self {
            slot.publish(len);
        }
    }

    fn mapping(&self) -> &Mapping {
        match self {
            Memory::Own(mapping) => mapping,
            Memory::Shared(slot) => &slot.mapping,
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.mapping().bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Own(mapping) => mapping.bytes_mut(),
            Memory::Shared(slot) => slot.mapping.bytes_mut(),
        }
    }
}

/// In place of the kind of a record's first effect: the record only fills the block up.
pub(super) const FILLING: u8 = 0;
/// The shortest record that does: its length, and that byte.
const FILLING_MIN: usize = 5;

/// Records of one epoch, which begin at a page of memory.
#[derive(Default)]
pub(super) struct Segment {
    pub epoch: u64,
    /// The segment has a change of whole databases, which is alone in its epoch.
    pub serial: bool,
    /// Number of records.
    pub records: u64,
    memory: Option<Memory>,
    /// Range of the records.
    from: usize,
    end: usize,
    /// Checksum of the records up to `summed`.
    sum: u32,
    summed: usize,
}

impl Segment {
    /// An empty one.
    pub fn new(epoch: u64, serial: bool, memory: Memory) -> Self {
        if let Memory::Shared(slot) = &memory {
            slot.assign(epoch, serial);
        }
        Segment { epoch, serial, memory: Some(memory), ..Segment::default() }
    }

    /// Returns the memory for reuse.
    pub fn into_memory(self) -> Option<Memory> {
        self.memory
    }

    /// Empties it. The first byte will stand this many bytes behind the beginning of a page.
    pub fn begin_at(&mut self, offset: usize) {
        (self.from, self.end, self.summed) = (offset, offset, offset);
        (self.records, self.sum) = (0, 0);
    }

    fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], Memory::bytes)
    }

    /// The concatenated records.
    pub fn all(&self) -> &[u8] {
        &self.bytes()[self.from..self.end]
    }

    /// Bytes of its records.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.from
    }

    /// Whether a record of this many bytes can be appended.
    #[inline]
    pub fn has_room(&self, len: usize) -> bool {
        self.memory.as_ref().is_some_and(|memory| self.end + len + SPARE <= memory.len())
    }

    /// Whether the next record is better put into another one.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| self.end + 64 * 1024 >= memory.len())
    }

    /// Appends bytes, for which there is room.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        if let Some(memory) = &mut self.memory {
            memory.bytes_mut()[self.end..self.end + bytes.len()].copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Appends a record. From now on it is there, even if the process ends.
    #[inline]
    pub fn append_record(&mut self, record: &[u8]) {
        self.append(record);
        self.publish();
    }

    /// Creates a segment that begins with a record of `len` bytes already in the memory.
    pub fn of_record(epoch: u64, serial: bool, memory: Memory, len: usize) -> Self {
        assert!(len <= memory.len(), "the record is in the memory");
        let mut segment = Segment::new(epoch, serial, memory);
        segment.end = len;
        segment.publish();
        segment
    }

    /// Counts the appended bytes as a record.
    #[inline]
    fn publish(&mut self) {
        self.records += 1;
        if let Some(memory) = &self.memory {
            memory.publish(self.end);
        }
    }

    /// Puts bytes in the place of the first.
    pub fn set_first(&mut self, bytes: &[u8]) {
        if let Some(memory) = &mut self.memory {
            memory.bytes_mut()[self.from..self.from + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Asks for the memory in which the next record will be, most likely.
    #[inline]
    pub fn expect_more(&self) {
        prefetch_to_write(self.bytes().as_ptr().addr() + self.end, EXPECTED);
    }

    /// Bytes that are not in the checksum yet.
    #[inline]
    pub fn unsummed(&self) -> usize {
        self.end - self.summed
    }

    /// Adds all of it to the checksum, which is that of its records then. Best done before they
    /// leave the cache.
    pub fn sum(&mut self) -> u32 {
        if self.unsummed() > 0 {
            self.sum = checksum_on(self.sum, &self.bytes()[self.summed..self.end]);
            self.summed = self.end;
        }
        self.sum
    }

    /// Appends a record that fills it up, so that its end is that of a page if its beginning is
    /// that of one; `before` bytes of the page stand before it.
    pub fn fill_page(&mut self, before: usize) {
        let end = (before + self.len()) % PAGE;
        let mut fill = (PAGE - end) % PAGE;
        if fill == 0 {
            return;
        }
        if fill < FILLING_MIN {
            fill += PAGE;
        }
        let mut filling = [FILLING; PAGE + FILLING_MIN];
        filling[..4].copy_from_slice(&(fill as u32 - 4).to_le_bytes());
        self.append(&filling[..fill]);
        debug_assert!((before + self.len()).is_multiple_of(PAGE), "{before} {}", self.len());
    }
}
