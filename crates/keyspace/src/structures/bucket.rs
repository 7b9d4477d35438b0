//! A bucket: one cache line with eight slots of eight bytes, each with 15 bits of hash, a mark for
//! the table's owner, and a 48-bit address. A table that keeps a word beside each item has the
//! words of a bucket in the next cache line.
//!
//! The tags are adjacent, so that one 16-byte comparison finds the candidates. Every field is
//! atomic and written relaxed, because the prefetch pass of a batch peeks at buckets without
//! holding their stripe; the holder of the stripe is the only writer.

use crate::structures::block::Block;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Slots in a bucket.
pub(crate) const SLOTS: usize = 8;

/// Largest displacement that a slot stores exactly; the next value means "this far or farther".
pub(crate) const DISPLACEMENT_MAX: u32 = 3;

/// Bits of a tag; the highest of its 16 bits is the slot's mark.
pub(crate) const TAG_MASK: u16 = 0x7fff;
const MARK: u16 = !TAG_MASK;

/// Replaces the tag of an empty slot past which probing continues: a mark without an item.
const TOMBSTONE: u16 = MARK;

const DISPLACEMENT_BITS: u64 = 0b011;
const FLAG_BIT: u64 = 0b100;
const OTHER_BITS: u64 = 0b111;

/// An item of a table: a block that holds its own key.
pub(crate) trait Item: Copy {
    /// Cache lines of a table of such items.
    type Line: Line;

    /// Makes an item of a slot's content.
    ///
    /// # Safety
    /// `block` and `flag` are from the slot of a live item of this type.
    unsafe fn from_slot(block: Block, flag: bool) -> Self;

    /// The block's address: a multiple of 8 below 2^48.
    fn address(self) -> usize;

    /// The key; valid for as long as the item is neither changed nor freed.
    fn key<'a>(self) -> &'a [u8];

    /// A property stored in the slot, so that it can be tested without reading the item: whether an
    /// entry or element, or a part of it, has an expiry, for the sweep.
    fn flag(self) -> bool;
}

/// A bucket with the words that a table keeps beside its items.
pub(crate) trait Line {
    /// Word kept beside each item.
    type Word: Copy + Default;

    fn bucket(&self) -> &Bucket;

    fn word(&self, slot: usize) -> Self::Word;

    fn set_word(&self, slot: usize, word: Self::Word);
}

impl Line for Bucket {
    type Word = ();

    #[inline]
    fn bucket(&self) -> &Bucket {
        self
    }

    #[inline]
    fn word(&self, _: usize) {}

    #[inline]
    fn set_word(&self, _: usize, (): ()) {}
}

/// A bucket with a word beside each item: two cache lines.
#[repr(C, align(64))]
pub(crate) struct Annotated {
    bucket: Bucket,
    words: [AtomicU64; SLOTS],
}

impl Line for Annotated {
    type Word = u64;

    #[inline]
    fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    #[inline]
    fn word(&self, slot: usize) -> u64 {
        self.words[slot].load(Relaxed)
    }

    #[inline]
    fn set_word(&self, slot: usize, word: u64) {
        self.words[slot].store(word, Relaxed);
    }
}

/// Eight slots. An empty slot has the tag 0, and is marked if it is a tombstone.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [AtomicU64; 2],
    low: [AtomicU32; SLOTS],
    high: [AtomicU16; SLOTS],
}

/// Content of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    word: u64,
}

impl Slot {
    pub fn new(item: impl Item, displacement: u32) -> Self {
        let flag = if item.flag() { FLAG_BIT } else { 0 };
        let displacement = u64::from(displacement.min(DISPLACEMENT_MAX));
        Slot { word: item.address() as u64 | displacement | flag }
    }

    /// The item of the slot. `I` is the item type of the slot's table.
    pub fn item<I: Item>(self) -> I {
        // SAFETY: a table fills its slots from live items of its one type, and clears them before
        // their item is freed.
        unsafe { I::from_slot(Block::at(self.address()), self.flag()) }
    }

    /// This slot with another displacement.
    pub fn displaced(self, displacement: u32) -> Self {
        let displacement = u64::from(displacement.min(DISPLACEMENT_MAX));
        Slot { word: self.word & !DISPLACEMENT_BITS | displacement }
    }

    pub fn address(self) -> usize {
        (self.word & !OTHER_BITS) as usize
    }

    /// Buckets between the entry's home and this one; [`DISPLACEMENT_MAX`] means "or more".
    pub fn displacement(self) -> u32 {
        (self.word & DISPLACEMENT_BITS) as u32
    }

    /// See [`Item::flag`].
    pub fn flag(self) -> bool {
        self.word & FLAG_BIT != 0
    }
}

/// A set of slot numbers, iterated in ascending order.
#[derive(Clone, Copy)]
pub(crate) struct SlotSet(u32);

impl Iterator for SlotSet {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

impl Bucket {
    /// Slots with the tag `tag`, regardless of their marks.
    #[inline]
    pub fn matches(&self, tag: u16) -> SlotSet {
        SlotSet(self.equal(tag))
    }

    /// Slots in use.
    #[inline]
    pub fn used(&self) -> SlotSet {
        SlotSet(!self.equal(0) & 0xff)
    }

    /// The first empty slot.
    #[inline]
    pub fn vacancy(&self) -> Option<usize> {
        let empty = self.equal(0);
        (empty != 0).then(|| empty.trailing_zeros() as usize)
    }

    /// True if no slot is empty.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.equal(0) == 0
    }

    /// Whether a search ends at this bucket: some slot is empty and not a tombstone.
    #[inline]
    pub fn ends_search(&self) -> bool {
        self.equal_of(!0, 0) != 0
    }

    #[inline]
    pub fn slot(&self, i: usize) -> Slot {
        let high = u64::from(self.high[i].load(Relaxed));
        Slot { word: high << 32 | u64::from(self.low[i].load(Relaxed)) }
    }

    /// The tag of a slot, with its mark.
    pub fn tag(&self, i: usize) -> u16 {
        (self.tags[i / 4].load(Relaxed) >> (i % 4 * 16)) as u16
    }

    /// Whether a slot bears the mark.
    #[inline]
    pub fn is_marked(&self, i: usize) -> bool {
        self.tag(i) & MARK != 0
    }

    /// Marks a slot.
    pub fn mark(&self, i: usize) {
        self.set_tag(i, self.tag(i) | MARK);
    }

    /// Removes the mark of a slot; true if it had one.
    #[inline]
    pub fn take_mark(&self, i: usize) -> bool {
        let (word, bit) = (&self.tags[i / 4], u64::from(MARK) << (i % 4 * 16));
        let before = word.load(Relaxed);
        if before & bit != 0 {
            word.store(before & !bit, Relaxed);
        }
        before & bit != 0
    }

    pub fn set(&self, i: usize, tag: u16, slot: Slot) {
        self.replace(i, slot);
        self.set_tag(i, tag);
    }

    /// Changes the slot's entry or flags; the tag stays.
    pub fn replace(&self, i: usize, slot: Slot) {
        self.low[i].store(slot.word as u32, Relaxed);
        self.high[i].store((slot.word >> 32) as u16, Relaxed);
    }

    pub fn clear(&self, i: usize) {
        self.set_tag(i, 0);
    }

    /// Empties a slot without changing where searches end.
    #[inline]
    pub fn vacate(&self, i: usize) {
        self.set_tag(i, if self.ends_search() { 0 } else { TOMBSTONE });
    }

    /// Overwrites this bucket with another.
    pub fn copy(&self, from: &Bucket) {
        for i in 0..SLOTS {
            self.set(i, from.tag(i), from.slot(i));
        }
    }

    fn set_tag(&self, i: usize, tag: u16) {
        let shift = i % 4 * 16;
        let word = self.tags[i / 4].load(Relaxed) & !(0xffff << shift);
        self.tags[i / 4].store(word | u64::from(tag) << shift, Relaxed);
    }

    /// Bit set of the slots with the tag `tag`, regardless of their marks.
    #[inline]
    fn equal(&self, tag: u16) -> u32 {
        self.equal_of(TAG_MASK, tag)
    }

    /// Bit set of the slots with 16 bits that equal `bits` under `mask`.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn equal_of(&self, mask: u16, bits: u16) -> u32 {
        use std::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set_epi64x,
            _mm_set1_epi16,
        };
        let (low, high) = (self.tags[0].load(Relaxed), self.tags[1].load(Relaxed));
        // SAFETY: SSE2 is part of every x86-64; the intrinsics touch registers only.
        unsafe {
            let tags = _mm_set_epi64x(high as i64, low as i64);
            let tags = _mm_and_si128(tags, _mm_set1_epi16(mask as i16));
            let equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(bits as i16));
            _mm_movemask_epi8(_mm_packs_epi16(equal, equal)) as u32 & 0xff
        }
    }

    /// Bit set of the slots with 16 bits that equal `bits` under `mask`.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn equal_of(&self, mask: u16, bits: u16) -> u32 {
        (0..SLOTS).fold(0, |set, i| set | u32::from(self.tag(i) & mask == bits) << i)
    }
}
