//! Per-thread cache of free blocks: the fast path of allocation, without atomics or locks.

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use super::classes::{BLOCK_BYTES_MAX, CLASS, CLASSES, Class, class_of, usable};
use super::poison;
use super::slabs::{Chain, Slabs, corrupted};
use super::{Breather, Heap, Shared};
use crate::prefetch::prefetch_to_write;

/// A thread's way into a [`Heap`]: allocates and frees blocks.
///
/// Keeps at most 8 KiB of free blocks of each size class, none of those above 8 KiB. Blocks may be
/// freed through another cache of the same heap than they came from. Dropping it returns all that
/// it keeps.
pub struct Cache {
    bins: Arc<Bins>,
    shared: Arc<Shared>,
    trim_epoch: u64,
    breather: Option<Breather>,
    /// Bins are used by one thread at a time.
    _not_sync: PhantomData<Cell<()>>,
}

/// The free blocks of a cache. Other threads only read the counts, for statistics.
pub struct Bins {
    bins: [Bin; CLASSES],
    /// Bytes of huge blocks allocated through this cache less those freed through it.
    huge_bytes: AtomicI64,
}

/// The free blocks of one class, linked through their first word, the latest first.
struct Bin {
    head: Cell<*mut u8>,
    /// Written by the owner only.
    count: AtomicU32,
    count_max: u32,
}

// SAFETY: `head` is touched by the owning `Cache` only, of which there is one and which is not
// Sync; everything else is atomic or constant. Free blocks are bound to no thread.
unsafe impl Send for Bins {}
// SAFETY: as above.
unsafe impl Sync for Bins {}

impl Cache {
    /// The word of [`Heap::shared_word`].
    #[inline]
    pub fn shared_word(&self) -> &AtomicU16 {
        &self.shared.word
    }

    pub(super) fn new(heap: &Heap) -> Cache {
        let bins = Arc::new(Bins {
            bins: std::array::from_fn(|class| Bin {
                head: Cell::new(ptr::null_mut()),
                count: AtomicU32::new(0),
                count_max: CLASS[class].cached_max.into(),
            }),
            huge_bytes: AtomicI64::new(0),
        });
        let shared = Arc::clone(&heap.shared);
        shared.caches.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&bins));
        let trim_epoch = heap.trim_epoch();
        Cache { bins, shared, trim_epoch, breather: None, _not_sync: PhantomData }
    }

    /// Allocates a block of at least `size` bytes, [`usable`](super::usable)`(size)` in fact,
    /// aligned to 8 bytes, with arbitrary contents. Ends the process when the system has no
    /// memory.
    #[inline]
    pub fn alloc(&mut self, size: usize) -> NonNull<u8> {
        if size > BLOCK_BYTES_MAX {
            return self.alloc_huge(size);
        }
        let class = class_of(size);
        let bin = &self.bins.bins[class as usize];
        let Some(block) = bin.pop() else {
            return self.refill(class);
        };
        expect(bin.head.get(), class);
        poison::check(block, class);
        block
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `block` came from a cache of the same heap, for a size with the same
    /// [`usable`](super::usable) size, was not freed since, and nothing uses it any more.
    #[inline]
    pub unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        if size > BLOCK_BYTES_MAX {
            // SAFETY: passed on.
            return unsafe { self.free_huge(block, size) };
        }
        let class = class_of(size);
        poison::fill(block, class);
        let bin = &self.bins.bins[class as usize];
        let count = bin.count.load(Ordering::Relaxed);
        // Of slabs under evacuation nothing may be kept, or the next allocation would get it again.
        if count >= bin.count_max || self.slabs().evacuating.load(Ordering::Relaxed) {
            // SAFETY: passed on.
            return unsafe { self.free_slow(block, class) };
        }
        // SAFETY: the block is free now, at least 8 bytes and aligned to 8.
        unsafe { block.cast::<*mut u8>().write(bin.head.get()) };
        bin.head.set(block.as_ptr());
        bin.count.store(count + 1, Ordering::Relaxed);
    }

    /// From now on calls `breather` now and then while much is allocated or freed: every hundred
    /// blocks or so.
    pub fn breathe_with(&mut self, breather: Breather) {
        self.breather = Some(breather);
    }

    /// Ends [`Cache::breathe_with`].
    pub fn breathe_no_more(&mut self) {
        self.breather = None;
    }

    /// Calls the breather, if there is one, for callers that free something else than blocks.
    #[inline]
    pub fn breathe(&mut self) {
        if let Some(breather) = &mut self.breather {
            breather();
        }
    }

    /// Returns all free blocks to the heap. Each worker calls this from its periodic tick when
    /// [`Heap::trim_epoch`] has changed; see [`trim_if_asked`](Cache::trim_if_asked).
    pub fn trim(&mut self) {
        self.trim_epoch = self.slabs().trim_epoch.load(Ordering::Relaxed);
        for class in 0..CLASSES {
            while self.bins.bins[class].count.load(Ordering::Relaxed) > 0 {
                self.flush(class as u8, MOVED_MAX as u32);
            }
        }
    }

    /// Trims if the heap's [`trim_epoch`](Heap::trim_epoch) has changed since the last time; says
    /// whether. Costs one load if not.
    #[inline]
    pub fn trim_if_asked(&mut self) -> bool {
        let asked = self.slabs().trim_epoch.load(Ordering::Relaxed) != self.trim_epoch;
        if asked {
            self.trim();
        }
        asked
    }

    /// Gets a batch of blocks from the slabs, keeps all but one, and returns that one.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: u8) -> NonNull<u8> {
        self.breathe();
        let bin = &self.bins.bins[class as usize];
        let Class { size, batch, .. } = CLASS[class as usize];
        let taken = self.slabs().take(class, batch.into());
        let (mut head, mut kept) = (ptr::null_mut(), 0);
        let mut push = |block: *mut u8| {
            // SAFETY: the block is free, at least 8 bytes and aligned to 8.
            unsafe { block.cast::<*mut u8>().write(head) };
            head = block;
            kept += 1;
        };
        for chain in taken.chains() {
            match chain {
                Chain::Linked { head, count } => {
                    let mut block = head;
                    for _ in 0..count {
                        // SAFETY: a linked chain has `count` blocks. The word read from the last of
                        // them may be stale, but is not followed.
                        let next = unsafe { block.cast::<*mut u8>().read() };
                        push(block);
                        block = next;
                    }
                }
                Chain::Adjacent { head, count } => {
                    // Backwards, so that they are used by ascending address.
                    for at in (0..count).rev() {
                        // SAFETY: an adjacent chain has `count` blocks of the class's size.
                        let block = unsafe { head.add((at * size) as usize) };
                        poison::fill_fresh(block, class);
                        push(block);
                    }
                }
            }
        }
        bin.head.set(head);
        bin.count.store(kept, Ordering::Relaxed);
        let Some(block) = bin.pop() else { corrupted("no block taken from the slabs") };
        poison::check(block, class);
        block
    }

    /// Frees a block when its bin is full or an evacuation is under way.
    ///
    /// # Safety
    /// As for `free`; `class` is that of the block.
    #[cold]
    #[inline(never)]
    unsafe fn free_slow(&mut self, block: NonNull<u8>, class: u8) {
        let Class { cached_max, batch, .. } = CLASS[class as usize];
        if cached_max == 0 || self.slabs().region.is_evacuating(block.as_ptr()) {
            // SAFETY: passed on.
            unsafe { self.slabs().put(class, &[block.as_ptr()]) };
            return self.breathe();
        }
        if self.bins.bins[class as usize].count.load(Ordering::Relaxed) >= cached_max.into() {
            self.flush(class, batch.into());
            self.breathe();
        }
        let bin = &self.bins.bins[class as usize];
        // SAFETY: the block is free now, at least 8 bytes and aligned to 8.
        unsafe { block.cast::<*mut u8>().write(bin.head.get()) };
        bin.head.set(block.as_ptr());
        bin.count.store(bin.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns up to `count` blocks of a class to the slabs.
    fn flush(&mut self, class: u8, count: u32) {
        let bin = &self.bins.bins[class as usize];
        let kept = bin.count.load(Ordering::Relaxed);
        let count = count.min(kept).min(MOVED_MAX as u32);
        let mut blocks = [ptr::null_mut(); MOVED_MAX];
        for (slot, block) in
            blocks[..count as usize].iter_mut().zip(std::iter::from_fn(|| bin.pop()))
        {
            *slot = block.as_ptr();
        }
        // SAFETY: blocks in a bin were freed with this class, and are in it no more.
        unsafe { self.slabs().put(class, &blocks[..count as usize]) };
    }

    #[cold]
    fn alloc_huge(&mut self, size: usize) -> NonNull<u8> {
        let layout = huge_layout(size);
        // SAFETY: the size is not zero.
        let block = unsafe { alloc::alloc(layout) };
        self.bins.add_huge(layout.size() as i64);
        NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
    }

    /// # Safety
    /// As for `free`.
    #[cold]
    unsafe fn free_huge(&mut self, block: NonNull<u8>, size: usize) {
        let layout = huge_layout(size);
        self.bins.add_huge(-(layout.size() as i64));
        // SAFETY: a block of this usable size came from `alloc_huge`, with this layout.
        unsafe { alloc::dealloc(block.as_ptr(), layout) };
        self.breathe();
    }

    #[inline]
    fn slabs(&self) -> &Slabs {
        &self.shared.slabs
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.trim();
        let huge_bytes = self.bins.huge_bytes.load(Ordering::Relaxed);
        let mut caches = self.shared.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|bins| !Arc::ptr_eq(bins, &self.bins));
        self.shared.huge_bytes_of_dropped.fetch_add(huge_bytes, Ordering::Relaxed);
    }
}

impl Bin {
    /// The block that was freed last.
    #[inline(always)]
    fn pop(&self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head.get())?;
        // SAFETY: a block in a bin is free, and its first word is the link.
        self.head.set(unsafe { block.cast::<*mut u8>().read() });
        self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(block)
    }
}

impl Bins {
    /// Bytes of free blocks in this cache, and the balance of huge bytes.
    pub fn bytes(&self) -> (u64, i64) {
        let bins = self.bins.iter().zip(&CLASS);
        let cached = bins
            .map(|(bin, class)| u64::from(bin.count.load(Ordering::Relaxed) * class.size))
            .sum();
        (cached, self.huge_bytes.load(Ordering::Relaxed))
    }

    fn add_huge(&self, bytes: i64) {
        let sum = self.huge_bytes.load(Ordering::Relaxed) + bytes;
        self.huge_bytes.store(sum, Ordering::Relaxed);
    }
}

/// Asks for the cache lines of a free block, if it is one: its next owner fills it whole.
#[inline]
fn expect(block: *mut u8, class: u8) {
    if !block.is_null() {
        prefetch_to_write(block.addr(), CLASS[class as usize].size as usize);
    }
}

/// The most blocks that move to the slabs under one lock.
const MOVED_MAX: usize = 64;

/// The layout of a block above [`BLOCK_BYTES_MAX`].
fn huge_layout(size: usize) -> Layout {
    // A size beyond the address space cannot be served, which is one way of being out of memory.
    Layout::from_size_align(usable(size), 8).unwrap_or_else(|_| corrupted("absurd block size"))
}
