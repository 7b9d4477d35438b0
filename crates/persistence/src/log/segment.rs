//! Records of one epoch in memory, from which the disk takes them as they lie.

use super::format::checksum_on;
use crate::direct::PAGE;

/// Bytes of a segment that has no room for more.
const FULL: usize = 192 * 1024;
/// What is allocated: the record that makes it full is mostly not long, and the last page is filled up.
const ALLOCATED: usize = 256 * 1024 + PAGE;

/// In place of the kind of a record's first effect: the record only fills the block up.
pub(super) const FILLING: u8 = 0;
/// The shortest record that does: its length, and that byte.
const FILLING_MIN: usize = 5;

/// Records of one epoch, which begin at a page of memory unless they are long.
#[derive(Default)]
pub(super) struct Segment {
    pub epoch: u64,
    /// It holds a change of whole databases, and all that the epoch has.
    pub serial: bool,
    /// Number of records.
    pub records: u64,
    /// The records, from `from` on.
    pub bytes: Vec<u8>,
    from: usize,
    /// Checksum of the records up to `summed`.
    sum: u32,
    summed: usize,
}

impl Segment {
    /// An empty one, of the same kind as another, in memory that was used before, if there is any.
    pub fn like(other: &Segment, memory: Vec<u8>) -> Self {
        let mut segment = Segment { bytes: memory, ..Segment::default() };
        (segment.epoch, segment.serial) = (other.epoch, other.serial);
        if segment.has_memory() {
            segment.begin_at(0);
        }
        segment
    }

    /// Whether it has memory.
    #[inline]
    pub fn has_memory(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// Empties it. The first byte will stand so many bytes behind the beginning of a page.
    pub fn begin_at(&mut self, offset: usize) {
        self.bytes.clear();
        if self.bytes.capacity() < ALLOCATED {
            self.bytes = Vec::with_capacity(ALLOCATED);
        }
        self.from = self.bytes.as_ptr().align_offset(PAGE) % PAGE + offset;
        self.bytes.resize(self.from, 0);
        (self.records, self.sum, self.summed) = (0, 0, self.from);
    }

    /// Its records, one behind the other.
    pub fn all(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Bytes of its records.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// Where the first record begins in `bytes`.
    #[inline]
    pub fn begin(&self) -> usize {
        self.from
    }

    /// Whether the next record is better put into another one.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= FULL
    }

    /// Bytes that are not in the checksum yet.
    #[inline]
    pub fn unsummed(&self) -> usize {
        self.bytes.len() - self.summed
    }

    /// Adds all of it to the checksum, which is that of its records then. Best done before they leave the cache.
    pub fn sum(&mut self) -> u32 {
        if self.unsummed() > 0 {
            self.sum = checksum_on(self.sum, &self.bytes[self.summed..]);
            self.summed = self.bytes.len();
        }
        self.sum
    }

    /// Whether the records of another one can stand behind its own.
    pub fn takes(&self, other: &Segment) -> bool {
        self.epoch == other.epoch
            && !self.serial
            && !other.serial
            && self.len() + other.len() <= FULL
    }

    /// Copies the records of another one behind its own, and empties that.
    pub fn take(&mut self, other: &mut Segment) {
        self.bytes.extend_from_slice(other.all());
        self.records += other.records;
        self.sum();
        other.begin_at(0);
    }

    /// Takes what stands from `at` on out of it, into an empty one.
    pub fn split_off(&mut self, at: usize, into: &mut Segment) {
        into.bytes.extend_from_slice(&self.bytes[at..]);
        self.bytes.truncate(at);
    }

    /// Appends a record that fills it up, so that its end is that of a page if its beginning is that of one; `before` bytes of the page stand
    /// before it.
    pub fn fill_page(&mut self, before: usize) {
        let end = (before + self.len()) % PAGE;
        let mut fill = (PAGE - end) % PAGE;
        if fill == 0 {
            return;
        }
        if fill < FILLING_MIN {
            fill += PAGE;
        }
        self.bytes.extend_from_slice(&(fill as u32 - 4).to_le_bytes());
        self.bytes.resize(self.bytes.len() + fill - 4, FILLING);
    }
}
