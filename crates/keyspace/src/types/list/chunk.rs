//! A run of a list's items in one block of the heap.
//!
//! ```text
//!  0       2       4        6         start        end        size
//! +-------+-------+--------+---------+------------+----------+
//! | start | end   | layout | free    | items      | free     |     an ordinary chunk, of at most 1,024 bytes
//! +-------+-------+--------+---------+------------+----------+
//! | len           | 0      | one item of len bytes           |     a chunk of one long item
//! +---------------+--------+---------------------------------+
//! ```
//!
//! Items are held as `run.rs` says. Both ends have room, so pushing at either moves nothing; hence the hint of a layout
//! counts from the beginning of the block here.

use super::End;
use super::run::{Layout, Run};
use crate::heap::{Cache, usable};
use crate::packed::{Item, Parts};
use std::mem;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// Most bytes of items in an ordinary chunk; a longer item has a chunk of its own.
pub const CHUNK_ROOM: usize = CHUNK_BYTES - HEADER;

const CHUNK_BYTES: usize = 1024;
const HEADER: usize = 6;
const COUNT_BITS: u32 = 11;
const SIZE_BITS: u32 = 8;

/// Owner of a chunk's block. To be given up with [`Chunk::release`]: there is no `Drop`, since freeing needs a cache.
///
/// All that a walk over many chunks needs is in the word, so that their blocks are left alone:
///
/// | 45 bits | 8 bits | 11 bits |
/// |---|---|---|
/// | address / 8 | bytes of the block / 8, 0 for a long item | number of items |
#[derive(Debug, Default)]
pub struct Chunk(u64);

/// What an ordinary chunk's block begins with: offsets from the block's beginning.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    start: u16,
    end: u16,
    layout: Layout,
}

impl Chunk {
    /// A chunk with one item and room for `room` bytes of items, what is left of it on the side of `end`. A long item
    /// takes what it needs and leaves no room.
    pub fn with_item(cache: &mut Cache, end: End, room: usize, item: &Parts<'_>) -> Self {
        let len = item.packed_len();
        if len > CHUNK_ROOM {
            return Self::long(cache, item);
        }
        let layout = Layout::of(item);
        let room = room.clamp(layout.held_len(item), CHUNK_ROOM);
        let mut chunk = Self::empty(cache, layout, room, end);
        let pushed = chunk.push_in_place(end, item);
        debug_assert!(pushed, "there is room for the item");
        chunk
    }

    /// An empty ordinary chunk with room for `room` bytes of items on the side of `end`.
    fn empty(cache: &mut Cache, layout: Layout, room: usize, end: End) -> Self {
        let size = usable(HEADER + room);
        debug_assert!(size <= CHUNK_BYTES && size.is_multiple_of(8));
        let chunk = Self::of_block(cache.alloc(size), size / 8, 0);
        let at = match end {
            End::Back => HEADER,
            End::Front => size,
        } as u16;
        chunk.set_head(Head { start: at, end: at, layout: layout.with_hint(0) });
        chunk
    }

    fn long(cache: &mut Cache, item: &Parts<'_>) -> Self {
        let len = item.packed_len();
        let chunk = Self::of_block(cache.alloc(HEADER + len), 0, 1);
        // SAFETY: the block is fresh, 8-byte aligned and HEADER + len bytes long.
        unsafe {
            chunk.base().cast::<u32>().write(len as u32);
            write_item(chunk.base().add(HEADER), Layout::MIXED, item);
        }
        chunk
    }

    fn of_block(block: NonNull<u8>, size_words: usize, count: usize) -> Self {
        let address = block.as_ptr().expose_provenance() as u64;
        debug_assert!(address >> 48 == 0 && address.is_multiple_of(8));
        Chunk(address >> 3 << (COUNT_BITS + SIZE_BITS) | (size_words << COUNT_BITS | count) as u64)
    }

    /// Number of items.
    #[inline]
    pub fn count(&self) -> usize {
        (self.0 & ((1 << COUNT_BITS) - 1)) as usize
    }

    /// The items.
    #[inline]
    pub fn run(&self) -> Run<'_> {
        let (start, end) = self.span();
        let layout = if self.is_long() { Layout::MIXED } else { self.head().layout };
        // SAFETY: the block's bytes from start to end are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(self.base().add(start), end - start) };
        Run { bytes, layout: layout.with_hint(layout.hint().saturating_sub(start)) }
    }

    /// Bytes of the block, as the heap rounds them.
    #[inline]
    pub fn footprint(&self) -> usize {
        if self.is_long() { usable(self.span().1) } else { self.size() }
    }

    /// Pushes an item, moving to a larger block where that makes room for it; false if the chunk is full.
    #[inline]
    pub fn push(&mut self, cache: &mut Cache, end: End, item: &Parts<'_>) -> bool {
        self.push_in_place(end, item) || self.push_after_all(cache, end, item)
    }

    fn push_after_all(&mut self, cache: &mut Cache, end: End, item: &Parts<'_>) -> bool {
        if !self.make_room(cache, item, 0, end) {
            return false;
        }
        let Head { start, end: behind, layout } = self.head();
        let gap = match end {
            End::Front => usize::from(start) - HEADER,
            End::Back => self.size() - usize::from(behind),
        };
        if gap < layout.held_len(item) {
            self.shift(end);
        }
        self.push_in_place(end, item)
    }

    /// Makes the layout one that takes an item, and the block large enough for it if `less` bytes go; false, and nothing
    /// is changed, if the chunk would be too long.
    fn make_room(&mut self, cache: &mut Cache, item: &Parts<'_>, less: usize, end: End) -> bool {
        if self.is_long() {
            return false;
        }
        let run = self.run();
        if !run.layout.takes(item) {
            let len = run.mixed_len() + item.packed_len();
            if len > CHUNK_ROOM {
                return false;
            }
            self.mix(cache, grown(len), end);
            return true;
        }
        let len = run.bytes.len() + run.layout.held_len(item) - less;
        if len > CHUNK_ROOM {
            return false;
        }
        if HEADER + len > self.size() {
            self.move_to(cache, grown(len), end);
        }
        true
    }

    /// Gives each item its first byte back.
    fn mix(&mut self, cache: &mut Cache, room: usize, end: End) {
        let mut bytes = Vec::with_capacity(self.run().mixed_len());
        self.run().write_mixed(&mut bytes);
        let run = Run { bytes: &bytes, layout: Layout::MIXED };
        let mixed = Self::copy_of(cache, run, self.count(), room, end);
        mem::replace(self, mixed).release(cache);
    }

    #[inline]
    fn push_in_place(&mut self, end: End, item: &Parts<'_>) -> bool {
        let mut head = self.head();
        // A long item's chunk has a size of 0 here, and its length where others have start and end.
        if self.is_long() || !head.layout.takes(item) {
            return false;
        }
        let len = head.layout.held_len(item);
        let at = match end {
            End::Back if usize::from(head.end) + len <= self.size() => {
                let at = head.end;
                head.end += len as u16;
                at
            }
            End::Front if usize::from(head.start) >= HEADER + len => {
                head.start -= len as u16;
                head.start
            }
            _ => return false,
        };
        // SAFETY: by the comparisons above, the item's bytes from `at` on lie in the block and belong to no item.
        unsafe { write_item(self.base().add(at.into()), head.layout, item) };
        self.set_head(head);
        self.0 += 1;
        true
    }

    /// Shows the item at an end to `take` and drops it. The chunk is not empty; left empty, it is to be released.
    #[inline]
    pub fn pop<T>(&mut self, end: End, take: impl FnOnce(Item<'_>) -> T) -> T {
        let run = self.run();
        let (at, layout) = match end {
            End::Front => (0, run.layout),
            End::Back => run.last(),
        };
        let taken = take(run.at(at));
        let len = if end == End::Front { run.offset(1) } else { run.bytes.len() - at };
        self.0 -= 1;
        if !self.is_long() {
            let mut head = self.head();
            match end {
                End::Front => head.start += len as u16,
                End::Back => {
                    head.end -= len as u16;
                    head.layout = layout.with_hint(usize::from(head.start) + layout.hint());
                }
            }
            self.set_head(head.with_sound_hint());
        }
        taken
    }

    /// Drops `n` items from an end, fewer than there are.
    fn drop_items(&mut self, end: End, n: usize) {
        debug_assert!(n < self.count());
        let mut head = self.head();
        match end {
            End::Front => head.start += self.run().offset(n) as u16,
            End::Back => head.end = head.start + self.run().offset(self.count() - n) as u16,
        }
        self.set_head(head.with_sound_hint());
        self.0 -= n as u64;
    }

    /// Removes some items, but not all.
    pub fn remove(&mut self, items: Range<usize>) {
        let count = self.count();
        debug_assert!(items.len() < count && items.end <= count);
        if items.start == 0 {
            self.drop_items(End::Front, items.len());
        } else if items.end == count {
            self.drop_items(End::Back, items.len());
        } else {
            let span = self.run().span(items.clone());
            self.splice(span, (&[], &[]));
            self.0 -= items.len() as u64;
        }
    }

    /// Inserts an item before item `index`, or at the end. False, and nothing is changed, if the chunk would be too long.
    pub fn insert(&mut self, cache: &mut Cache, index: usize, item: &Parts<'_>) -> bool {
        if !self.make_room(cache, item, 0, End::Back) {
            return false;
        }
        let run = self.run();
        let (at, layout) = (run.offset(index), run.layout);
        self.splice(at..at, layout.held(item));
        self.0 += 1;
        true
    }

    /// Replaces item `index`. False, and nothing is changed, if the chunk would be too long.
    pub fn set(&mut self, cache: &mut Cache, index: usize, item: &Parts<'_>) -> bool {
        let old = self.run().span(index..index + 1).len();
        if !self.make_room(cache, item, old, End::Back) {
            return false;
        }
        let run = self.run();
        let (span, layout) = (run.span(index..index + 1), run.layout);
        self.splice(span, layout.held(item));
        true
    }

    /// Replaces bytes of items with others, for which the block has room. The number of items is the caller's affair.
    fn splice(&mut self, span: Range<usize>, (first, second): (&[u8], &[u8])) {
        let held = self.run().bytes.len();
        let inserted = first.len() + second.len();
        let len = held - span.len() + inserted;
        debug_assert!(HEADER + len <= self.size());
        let head = self.head();
        let (start, end) = (usize::from(head.start), usize::from(head.end));
        let (before, behind) = (span.start, held - span.end);
        // The shorter side moves, if it has where to; else both do, and the items end with the block.
        let start_if_end_stays = end.checked_sub(len).filter(|&start| start >= HEADER);
        let new_start = match start_if_end_stays {
            Some(start) if before < behind => start,
            _ if start + len <= self.size() => start,
            _ => self.size() - len,
        };
        let new_end = new_start + len;
        // SAFETY: HEADER <= new_start and new_end <= size, since the block has room, and both outer parts are moved in the
        // order in which neither overwrites the other.
        unsafe {
            let base = self.base();
            let front = || ptr::copy(base.add(start), base.add(new_start), before);
            let back = || ptr::copy(base.add(end - behind), base.add(new_end - behind), behind);
            if new_start <= start {
                front();
                back();
            } else {
                back();
                front();
            }
            let to = base.add(new_start + before);
            ptr::copy_nonoverlapping(first.as_ptr(), to, first.len());
            ptr::copy_nonoverlapping(second.as_ptr(), to.add(first.len()), second.len());
        }
        let layout = head.layout.with_hint(0);
        self.set_head(Head { start: new_start as u16, end: new_end as u16, layout });
    }

    /// Cuts off the items from `index` on into a chunk of their own. There are items on both sides.
    pub fn split(&mut self, cache: &mut Cache, index: usize) -> Self {
        let run = self.run();
        let at = run.offset(index);
        let tail = Run { bytes: &run.bytes[at..], ..run };
        let rest = Self::copy_of(cache, tail, self.count() - index, 0, End::Back);
        let mut head = self.head();
        head.end = head.start + at as u16;
        self.set_head(head.with_sound_hint());
        self.0 -= rest.count() as u64;
        rest
    }

    /// Appends the items of the chunk behind it, if they fit; that one is to be released then.
    pub fn absorb(&mut self, cache: &mut Cache, behind: &Self) -> bool {
        let (run, other) = (self.run(), behind.run());
        let len = run.mixed_len() + other.mixed_len();
        if self.is_long() || behind.is_long() || len > CHUNK_ROOM {
            return false;
        }
        let mut bytes = Vec::with_capacity(len);
        let layout = if run.layout.common() == other.layout.common() {
            bytes.extend_from_slice(run.bytes);
            bytes.extend_from_slice(other.bytes);
            run.layout
        } else {
            run.write_mixed(&mut bytes);
            other.write_mixed(&mut bytes);
            Layout::MIXED
        };
        let both = Run { bytes: &bytes, layout };
        let merged = Self::copy_of(cache, both, self.count() + behind.count(), 0, End::Back);
        mem::replace(self, merged).release(cache);
        true
    }

    /// Moves to a block without room to spare, if that saves a sixteenth.
    pub fn fit(&mut self, cache: &mut Cache) {
        let len = self.run().bytes.len();
        if !self.is_long() && usable(HEADER + len) + self.size() / 16 <= self.size() {
            self.move_to(cache, len, End::Back);
        }
    }

    /// The same items in a fresh block.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        if !self.is_long() {
            return Self::copy_of(cache, self.run(), self.count(), 0, End::Back);
        }
        let len = self.span().1;
        let chunk = Self::of_block(cache.alloc(len), 0, 1);
        // SAFETY: two distinct blocks of at least len bytes.
        unsafe { ptr::copy_nonoverlapping(self.base(), chunk.base(), len) };
        chunk
    }

    /// Address of the chunk's block.
    pub fn address(&self) -> usize {
        self.base().addr()
    }

    /// Takes the chunk, leaving one without items or block, which need not be released.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Frees the block.
    pub fn release(self, cache: &mut Cache) {
        let size = self.footprint();
        if let Some(block) = NonNull::new(self.base()) {
            // SAFETY: the block came from this heap with this usable size, and its only owner is gone after this.
            unsafe { cache.free(block, size) };
        }
    }

    /// A chunk with these items and room for `room` bytes at least, what is free of it on the side of `end`.
    fn copy_of(cache: &mut Cache, run: Run<'_>, count: usize, room: usize, end: End) -> Self {
        let (items, layout) = (run.bytes, run.layout);
        let mut chunk = Self::empty(cache, layout, room.max(items.len()), end);
        let mut head = chunk.head();
        match end {
            End::Back => head.end += items.len() as u16,
            End::Front => head.start -= items.len() as u16,
        }
        // SAFETY: the block is fresh, and has room for the items from `start` on.
        unsafe {
            let to = chunk.base().add(head.start.into());
            ptr::copy_nonoverlapping(items.as_ptr(), to, items.len());
        }
        chunk.set_head(head);
        chunk.0 += count as u64;
        chunk
    }

    /// Moves to a block with room for `room` bytes of items, what is free of it on the side of `end`.
    fn move_to(&mut self, cache: &mut Cache, room: usize, end: End) {
        let moved = Self::copy_of(cache, self.run(), self.count(), room, end);
        mem::replace(self, moved).release(cache);
    }

    /// Moves the items within the block, so that all free room is on the side of `end`.
    fn shift(&mut self, end: End) {
        let head = self.head();
        let len = head.end - head.start;
        let start = match end {
            End::Back => HEADER as u16,
            End::Front => self.size() as u16 - len,
        };
        // SAFETY: source and destination lie in the block, and `copy` lets them overlap.
        unsafe {
            let base = self.base();
            ptr::copy(base.add(head.start.into()), base.add(start.into()), len.into());
        }
        let layout = head.layout.with_hint(0);
        self.set_head(Head { start, end: start + len, layout });
    }

    #[inline]
    fn is_long(&self) -> bool {
        self.size() == 0
    }

    /// Bytes of an ordinary chunk's block; 0 of a long item's.
    #[inline]
    fn size(&self) -> usize {
        (self.0 >> COUNT_BITS & ((1 << SIZE_BITS) - 1)) as usize * 8
    }

    /// Where the items begin and end in the block.
    #[inline]
    fn span(&self) -> (usize, usize) {
        if self.is_long() {
            // SAFETY: the block of a long item begins with its length.
            return (HEADER, HEADER + unsafe { self.base().cast::<u32>().read() } as usize);
        }
        let head = self.head();
        (head.start.into(), head.end.into())
    }

    #[inline]
    fn head(&self) -> Head {
        // SAFETY: an ordinary chunk's block begins with an initialised head; that of a long item with its length, and
        // the first bytes of the item.
        unsafe { self.base().cast::<Head>().read() }
    }

    #[inline]
    fn set_head(&self, head: Head) {
        debug_assert!(!self.is_long());
        // SAFETY: as above; the block is this chunk's alone.
        unsafe { self.base().cast::<Head>().write(head) };
    }

    #[inline]
    fn base(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut((self.0 >> (COUNT_BITS + SIZE_BITS) << 3) as usize)
    }
}

impl Head {
    /// Without the hint if it is no longer within the items.
    #[inline]
    fn with_sound_hint(self) -> Self {
        let hint = self.layout.hint();
        let is_sound = usize::from(self.start) <= hint && hint < usize::from(self.end);
        Head { layout: self.layout.with_hint(if is_sound { hint } else { 0 }), ..self }
    }
}

/// # Safety
/// From `to` on, as many bytes as the layout holds of the item may be written.
#[inline]
unsafe fn write_item(to: *mut u8, layout: Layout, item: &Parts<'_>) {
    let (head, tail) = layout.held(item);
    // SAFETY: by the contract; the item lies elsewhere.
    unsafe {
        ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
        ptr::copy_nonoverlapping(tail.as_ptr(), to.add(head.len()), tail.len());
    }
}

/// Room for a chunk that has to hold `len` bytes and goes on growing.
fn grown(len: usize) -> usize {
    (len + len / 4 + 16).min(CHUNK_ROOM)
}
