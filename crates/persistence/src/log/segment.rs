//! Records of one epoch in memory, from which the disk takes them as they lie.

use super::format::checksum_on;
use crate::direct::{HUGE_PAGE, PAGE, advise_huge};
use petrel_keyspace::prefetch_to_write;

/// Bytes of a record that are asked for before it comes.
const EXPECTED: usize = 640;

/// How much memory a segment has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Size {
    /// What a thread needs that has little to tell.
    Small,
    /// A huge page, where the system has some: the disk's driver looks it up and holds it as one, in place of 512.
    Large,
}

impl Size {
    /// The size of such memory.
    pub fn of(memory: &Vec<u8>) -> Self {
        if memory.capacity() >= Size::Large.allocated() { Size::Large } else { Size::Small }
    }

    /// What the records' memory begins with.
    fn aligned_to(self) -> usize {
        match self {
            Size::Small => PAGE,
            Size::Large => HUGE_PAGE,
        }
    }

    /// Bytes of memory for records.
    fn room(self) -> usize {
        match self {
            Size::Small => 256 * 1024,
            Size::Large => HUGE_PAGE,
        }
    }

    /// From so many bytes on there is no room for more: the record that comes to it is mostly not long, and the last page is filled up.
    fn full(self) -> usize {
        self.room() - 64 * 1024
    }

    /// What is allocated, so that the room begins where it should.
    fn allocated(self) -> usize {
        self.room() + self.aligned_to()
    }
}

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
    /// With so many bytes of records it is full.
    full: usize,
    /// Checksum of the records up to `summed`.
    sum: u32,
    summed: usize,
}

impl Segment {
    /// An empty one, of the same kind as another, which has no memory yet.
    pub fn like(other: &Segment) -> Self {
        Segment { epoch: other.epoch, serial: other.serial, ..Segment::default() }
    }

    /// Whether it has memory.
    #[inline]
    pub fn has_memory(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// Gives it memory: some that was used before, if that is of this size at least, or new one.
    pub fn set_memory(&mut self, used: Vec<u8>, size: Size) {
        self.bytes = if used.capacity() >= size.allocated() { used } else { allocate(size) };
        self.begin_at(0);
    }

    /// Empties it. The first byte will stand so many bytes behind the beginning of a page.
    pub fn begin_at(&mut self, offset: usize) {
        if !self.has_memory() {
            self.bytes = allocate(Size::Small);
        }
        let size = Size::of(&self.bytes);
        let page = size.aligned_to();
        self.from = self.bytes.as_ptr().align_offset(page) % page + offset;
        // What stands before the records is there already, but for a little.
        self.bytes.truncate(self.from);
        self.bytes.resize(self.from, 0);
        self.full = size.full();
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
        self.len() >= self.full
    }

    /// Asks for the memory in which the next record will be, most likely.
    #[inline]
    pub fn expect_more(&self) {
        prefetch_to_write(self.bytes.as_ptr_range().end.addr(), EXPECTED);
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

/// New memory.
fn allocate(size: Size) -> Vec<u8> {
    match size {
        Size::Small => Vec::with_capacity(size.allocated()),
        Size::Large => {
            // The system's zeros are not touched by this: what stands before the huge page takes no memory.
            let mut memory = vec![0; size.allocated()];
            advise_huge(&mut memory);
            memory
        }
    }
}
