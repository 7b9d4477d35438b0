//! A run of a list's elements in one block of the heap.
//!
//! ```text
//!  0       2       4        6                      start        end        size
//! +-------+-------+--------+------------------+---------+------------+----------+
//! | start | end   | layout | [len and prefix] | free    | items      | free     |  ordinary chunk:
//! +-------+-------+--------+------------------+---------+------------+----------+  1,024 bytes
//! | len           | 0      | one item of len bytes                              |  a long element
//! +---------------+--------+----------------------------------------------------+
//! ```
//!
//! Elements are stored as described in `run.rs`. Both ends have room, so pushing at either moves
//! nothing. Here, the hint of a layout counts from the beginning of the block.

use crate::structures::list::End;
use crate::structures::list::run::{Element, Layout, Packing, Run, Texts};
use crate::structures::packed::{Item, Parts};
use petrel_heap::{Cache, usable};
use std::mem;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// Maximum size of items and prefix in an ordinary chunk, in bytes; a longer element has a chunk of
/// its own.
pub const CHUNK_ROOM: usize = CHUNK_BYTES - HEADER;

const CHUNK_BYTES: usize = 1024;
const HEADER: usize = 6;
const COUNT_BITS: u32 = 11;
const SIZE_BITS: u32 = 8;

/// Owner of a chunk's block. Released with [`Chunk::release`]: there is no `Drop`, because freeing
/// needs a cache.
///
/// The word holds everything needed to walk many chunks without reading their blocks:
///
/// | 45 bits | 8 bits | 11 bits |
/// |---|---|---|
/// | address / 8 | bytes of the block / 8, 0 for a long item | number of items |
#[derive(Debug, Default)]
pub struct Chunk(u64);

/// Header of an ordinary chunk's block: offsets from the block's beginning.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    start: u16,
    end: u16,
    layout: Layout,
}

impl Chunk {
    /// A chunk of one element with room for `room` bytes; the free space is on the side of `end`. A
    /// long element gets exactly the space it needs.
    pub fn with_element(cache: &mut Cache, end: End, room: usize, text: &[u8]) -> Self {
        let item = Item::from_text(text).parts();
        let len = item.packed_len();
        if len > CHUNK_ROOM {
            return Self::long(cache, &item);
        }
        let layout = Layout::of(&item);
        let room = room.clamp(layout.held_len(&item), CHUNK_ROOM);
        let mut chunk = Self::empty(cache, Run { layout, ..Run::EMPTY }, room, end);
        let pushed = chunk.push_in_place(end, text);
        debug_assert!(pushed, "there is room for the item");
        chunk
    }

    /// An ordinary chunk with the prefix and the layout of a run, but no items; with room for
    /// `room` bytes of them on the side of `end`.
    fn empty(cache: &mut Cache, run: Run<'_>, room: usize, end: End) -> Self {
        let floor = HEADER + extra_len(run);
        let size = usable(floor + room);
        debug_assert!(size <= CHUNK_BYTES && size.is_multiple_of(8));
        let chunk = Self::of_block(cache.alloc(size), size / 8, 0);
        let at = match end {
            End::Back => floor,
            End::Front => size,
        } as u16;
        chunk.set_head(Head { start: at, end: at, layout: run.layout.with_hint(0) });
        if run.layout.is_prefixed() {
            // SAFETY: the block has room for the prefix and its length after the head.
            unsafe {
                let to = chunk.base().add(HEADER);
                to.write(run.prefix.len() as u8);
                ptr::copy_nonoverlapping(run.prefix.as_ptr(), to.add(1), run.prefix.len());
            }
        }
        chunk
    }

    fn long(cache: &mut Cache, item: &Parts<'_>) -> Self {
        let len = item.packed_len();
        let chunk = Self::of_block(cache.alloc(HEADER + len), 0, 1);
        // SAFETY: the block is fresh, 8-byte aligned and HEADER + len bytes long.
        unsafe {
            chunk.base().cast::<u32>().write(len as u32);
            write_both(chunk.base().add(HEADER), Layout::MIXED.held(item));
        }
        chunk
    }

    fn of_block(block: NonNull<u8>, size_words: usize, count: usize) -> Self {
        let address = block.as_ptr().expose_provenance() as u64;
        debug_assert!(address >> 48 == 0 && address.is_multiple_of(8));
        Chunk(address >> 3 << (COUNT_BITS + SIZE_BITS) | (size_words << COUNT_BITS | count) as u64)
    }

    /// Number of elements.
    #[inline]
    pub fn count(&self) -> usize {
        (self.0 & ((1 << COUNT_BITS) - 1)) as usize
    }

    /// The elements.
    #[inline]
    pub fn run(&self) -> Run<'_> {
        if self.is_long() {
            // SAFETY: the block of a long element begins with its length, followed by that many
            // bytes.
            let bytes = unsafe {
                let len = self.base().cast::<u32>().read() as usize;
                std::slice::from_raw_parts(self.base().add(HEADER), len)
            };
            return Run { bytes, ..Run::EMPTY };
        }
        let Head { start, end, layout } = self.head();
        // SAFETY: the block's bytes from start to end are initialised, and so are the prefix and
        // its length if the layout has them.
        unsafe {
            let prefix = if layout.is_prefixed() {
                let at = self.base().add(HEADER);
                std::slice::from_raw_parts(at.add(1), usize::from(at.read()))
            } else {
                &[]
            };
            let at = self.base().add(start.into());
            let bytes = std::slice::from_raw_parts(at, usize::from(end - start));
            let hint = layout.hint().saturating_sub(start.into());
            Run { prefix, layout: layout.with_hint(hint), bytes }
        }
    }

    /// Bytes of the block, as the heap rounds them.
    #[inline]
    pub fn footprint(&self) -> usize {
        if self.is_long() { usable(HEADER + self.run().bytes.len()) } else { self.size() }
    }

    /// Pushes an element, moving to a larger block if necessary; false if the chunk is full.
    #[inline]
    pub fn push(&mut self, cache: &mut Cache, end: End, text: &[u8]) -> bool {
        self.push_in_place(end, text) || self.push_after_all(cache, end, text)
    }

    #[inline]
    fn push_in_place(&mut self, end: End, text: &[u8]) -> bool {
        if self.is_long() {
            return false;
        }
        let Some(item) = self.run().admit(self.count(), text) else { return false };
        let mut head = self.head();
        let len = head.layout.held_len(&item);
        let at = match end {
            End::Back if usize::from(head.end) + len <= self.size() => {
                let at = head.end;
                head.end += len as u16;
                at
            }
            End::Front if usize::from(head.start) >= self.floor() + len => {
                head.start -= len as u16;
                head.start
            }
            _ => return false,
        };
        // SAFETY: by the comparisons above, the item's bytes from `at` on lie in the block and
        // belong to no item.
        unsafe { write_both(self.base().add(at.into()), head.layout.held(&item)) };
        self.set_head(head);
        self.0 += 1;
        true
    }

    #[inline(never)]
    fn push_after_all(&mut self, cache: &mut Cache, end: End, text: &[u8]) -> bool {
        if self.is_long() || text.len() > CHUNK_ROOM {
            return false;
        }
        let count = self.count();
        let Some(item) = self.run().admit(count, text) else {
            let index = if end == End::Front { 0 } else { count };
            return self.pack_anew(cache, index..index, text, end);
        };
        let run = self.run();
        let held = run.layout.held_len(&item);
        let len = extra_len(run) + run.bytes.len() + held;
        if len > CHUNK_ROOM {
            return false;
        }
        if HEADER + len > self.size() {
            self.move_to(cache, grown(run.bytes.len() + held), end);
        } else {
            self.shift(end);
        }
        self.push_in_place(end, text)
    }

    /// Repacks all elements, with one more in place of some of them; false, with nothing changed,
    /// if the chunk would be too long.
    #[cold]
    fn pack_anew(
        &mut self,
        cache: &mut Cache,
        replaced: Range<usize>,
        text: &[u8],
        end: End,
    ) -> bool {
        let (run, mut texts) = (self.run(), Texts::default());
        let parts = [0..replaced.start, replaced.end..self.count()].map(|part| run.span(part));
        texts.extend(run.slice(parts[0].clone()));
        texts.push(text);
        texts.extend(run.slice(parts[1].clone()));
        let packing = Packing::of(texts.iter());
        let (run, count) = (packing.run(), packing.count);
        if extra_len(run) + run.bytes.len() > CHUNK_ROOM || count >= 1 << COUNT_BITS {
            return false;
        }
        let packed = Self::copy_of(cache, run, count, grown(run.bytes.len()), end);
        mem::replace(self, packed).release(cache);
        true
    }

    /// Passes the element at an end to `take` and drops it. The chunk is not empty; the caller
    /// releases it if it is empty afterwards.
    #[inline]
    pub fn pop<T>(&mut self, end: End, take: impl FnOnce(Element<'_>) -> T) -> T {
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

    /// Drops `n` elements from an end, fewer than there are.
    fn drop_elements(&mut self, end: End, n: usize) {
        debug_assert!(n < self.count());
        let mut head = self.head();
        match end {
            End::Front => head.start += self.run().offset(n) as u16,
            End::Back => head.end = head.start + self.run().offset(self.count() - n) as u16,
        }
        self.set_head(head.with_sound_hint());
        self.0 -= n as u64;
    }

    /// Removes some, but not all elements.
    pub fn remove(&mut self, range: Range<usize>) {
        let count = self.count();
        debug_assert!(range.len() < count && range.end <= count);
        if range.start == 0 {
            self.drop_elements(End::Front, range.len());
        } else if range.end == count {
            self.drop_elements(End::Back, range.len());
        } else {
            let span = self.run().span(range.clone());
            self.splice(span, (&[], &[]));
            self.0 -= range.len() as u64;
        }
    }

    /// Replaces a range of elements with one: an empty range to insert it, a single one to replace
    /// that. False, with nothing changed, if the chunk would be too long.
    pub fn put(&mut self, cache: &mut Cache, range: Range<usize>, text: &[u8]) -> bool {
        if self.is_long() || text.len() > CHUNK_ROOM {
            return false;
        }
        let Some(item) = self.run().admit(self.count(), text) else {
            return self.pack_anew(cache, range, text, End::Back);
        };
        let run = self.run();
        let (span, layout) = (run.span(range.clone()), run.layout);
        let items = run.bytes.len() - span.len() + layout.held_len(&item);
        let floor = HEADER + extra_len(run);
        if floor + items > CHUNK_BYTES {
            return false;
        }
        if floor + items > self.size() {
            self.move_to(cache, grown(items), End::Back);
        }
        self.splice(span, layout.held(&item));
        self.0 = self.0 + 1 - range.len() as u64;
        true
    }

    /// Replaces bytes of items with others, for which the block has room. The caller updates the
    /// number of items.
    fn splice(&mut self, span: Range<usize>, (first, second): (&[u8], &[u8])) {
        let held = self.run().bytes.len();
        let inserted = first.len() + second.len();
        let len = held - span.len() + inserted;
        debug_assert!(self.floor() + len <= self.size());
        let head = self.head();
        let (start, end) = (usize::from(head.start), usize::from(head.end));
        let (before, behind) = (span.start, held - span.end);
        // Moves the shorter side if there is room next to it; else moves both, and the items end
        // with the block.
        let floor = self.floor();
        let start_if_end_stays = end.checked_sub(len).filter(|&start| start >= floor);
        let new_start = match start_if_end_stays {
            Some(start) if before < behind => start,
            _ if start + len <= self.size() => start,
            _ => self.size() - len,
        };
        let new_end = new_start + len;
        // SAFETY: floor <= new_start and new_end <= size, since the block has room, and both outer
        // parts are moved in the order in which neither overwrites the other.
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
            write_both(base.add(new_start + before), (first, second));
        }
        let layout = head.layout.with_hint(0);
        self.set_head(Head { start: new_start as u16, end: new_end as u16, layout });
    }

    /// Cuts off the elements from `index` on into a chunk of their own. Neither side is empty.
    pub fn split(&mut self, cache: &mut Cache, index: usize) -> Self {
        let run = self.run();
        let at = run.offset(index);
        let tail = run.slice(at..run.bytes.len());
        let rest = Self::copy_of(cache, tail, self.count() - index, 0, End::Back);
        let mut head = self.head();
        head.end = head.start + at as u16;
        self.set_head(head.with_sound_hint());
        self.0 -= rest.count() as u64;
        rest
    }

    /// Appends the elements of the next chunk, if they fit; the caller then releases that chunk.
    pub fn absorb(&mut self, cache: &mut Cache, behind: &Self) -> bool {
        if self.is_long() || behind.is_long() {
            return false;
        }
        let mut texts = Texts::default();
        texts.extend(self.run());
        texts.extend(behind.run());
        let packing = Packing::of(texts.iter());
        let (run, count) = (packing.run(), packing.count);
        if extra_len(run) + run.bytes.len() > CHUNK_ROOM || count >= 1 << COUNT_BITS {
            return false;
        }
        let both = Self::copy_of(cache, run, count, 0, End::Back);
        mem::replace(self, both).release(cache);
        true
    }

    /// Moves to a block of exactly the size needed, if that saves a sixteenth.
    pub fn fit(&mut self, cache: &mut Cache) {
        let len = self.run().bytes.len();
        if !self.is_long() && usable(self.floor() + len) + self.size() / 16 <= self.size() {
            self.move_to(cache, len, End::Back);
        }
    }

    /// A copy in a fresh block.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        if !self.is_long() {
            return Self::copy_of(cache, self.run(), self.count(), 0, End::Back);
        }
        let len = HEADER + self.run().bytes.len();
        let chunk = Self::of_block(cache.alloc(len), 0, 1);
        // SAFETY: two distinct blocks of at least len bytes.
        unsafe { ptr::copy_nonoverlapping(self.base(), chunk.base(), len) };
        chunk
    }

    /// Address of the chunk's block.
    pub fn address(&self) -> usize {
        self.base().addr()
    }

    /// Takes the chunk, leaving an empty one without a block, which need not be released.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Frees the block.
    pub fn release(self, cache: &mut Cache) {
        let size = self.footprint();
        if let Some(block) = NonNull::new(self.base()) {
            // SAFETY: the block came from this heap with this usable size, and its only owner is
            // dropped here.
            unsafe { cache.free(block, size) };
        }
    }

    /// A chunk of a run, with room for at least `room` bytes of items; the free space is on the
    /// side of `end`.
    fn copy_of(cache: &mut Cache, run: Run<'_>, count: usize, room: usize, end: End) -> Self {
        let items = run.bytes;
        let room = room.min(CHUNK_ROOM - extra_len(run)).max(items.len());
        let mut chunk = Self::empty(cache, run, room, end);
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

    /// Moves to a block with room for `room` bytes of items; the free space is on the side of
    /// `end`.
    fn move_to(&mut self, cache: &mut Cache, room: usize, end: End) {
        let moved = Self::copy_of(cache, self.run(), self.count(), room, end);
        mem::replace(self, moved).release(cache);
    }

    /// Moves the items within the block, so that all free room is on the side of `end`.
    fn shift(&mut self, end: End) {
        let head = self.head();
        let len = head.end - head.start;
        let start = match end {
            End::Back => self.floor() as u16,
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

    /// Lowest offset of items in an ordinary chunk's block.
    #[inline]
    fn floor(&self) -> usize {
        HEADER + extra_len(self.run())
    }

    #[inline]
    fn head(&self) -> Head {
        // SAFETY: an ordinary chunk's block begins with an initialised head; that of a long item
        // with its length, and the first bytes of the item.
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
    /// Without the hint if it lies outside of the items.
    #[inline]
    fn with_sound_hint(self) -> Self {
        let hint = self.layout.hint();
        let is_sound = usize::from(self.start) <= hint && hint < usize::from(self.end);
        Head { layout: self.layout.with_hint(if is_sound { hint } else { 0 }), ..self }
    }
}

/// Bytes of a run's prefix with its length.
#[inline]
fn extra_len(run: Run<'_>) -> usize {
    if run.layout.is_prefixed() { 1 + run.prefix.len() } else { 0 }
}

/// # Safety
/// From `to` on, as many bytes as both have may be written.
#[inline]
unsafe fn write_both(to: *mut u8, (first, second): (&[u8], &[u8])) {
    // SAFETY: by the contract; the source lies outside of the target.
    unsafe {
        ptr::copy_nonoverlapping(first.as_ptr(), to, first.len());
        ptr::copy_nonoverlapping(second.as_ptr(), to.add(first.len()), second.len());
    }
}

/// Room for a chunk with `len` bytes of items that is expected to grow.
fn grown(len: usize) -> usize {
    (len + len / 4 + 16).min(CHUNK_ROOM)
}
