//! The heap's twin for memory checkers: every block is one of the global allocator.
//!
//! Evacuation is imitated, so that its users are checked too: about half of all blocks, chosen by
//! their address, are to be moved.

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering};

use super::classes::{BLOCK_BYTES_MAX, alignment, usable};
use super::{Breather, Stats};

/// A heap, shared by all threads of a keyspace; a clone is the same heap.
#[derive(Clone, Default)]
pub struct Heap {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    live_bytes: AtomicI64,
    huge_bytes: AtomicI64,
    trim_epoch: AtomicU64,
    evacuating: AtomicBool,
    word: AtomicU16,
}

/// A thread's way into a [`Heap`]: allocates and frees blocks.
pub struct Cache {
    shared: Arc<Shared>,
    trim_epoch: u64,
    breather: Option<Breather>,
    _not_sync: PhantomData<Cell<()>>,
}

/// An evacuation under way. Ends when dropped.
pub struct Evacuation {
    shared: Arc<Shared>,
}

impl Heap {
    /// An empty heap.
    pub fn new() -> Heap {
        Heap::default()
    }

    /// A word that is the user's, 0 at first. Every cache reads it without going elsewhere
    /// ([`Cache::shared_word`]): for what new blocks are to be marked with.
    #[inline]
    pub fn shared_word(&self) -> &AtomicU16 {
        &self.shared.word
    }

    /// A cache for one thread. All blocks are allocated and freed through caches.
    pub fn cache(&self) -> Cache {
        let trim_epoch = self.trim_epoch();
        Cache {
            shared: Arc::clone(&self.shared),
            trim_epoch,
            breather: None,
            _not_sync: PhantomData,
        }
    }

    /// Begins an evacuation, whatever the fragmentation; `None` if one is under way or no block is
    /// live.
    pub fn begin_evacuation(&self, _fragmentation_pct_min: u64) -> Option<Evacuation> {
        if self.stats().live_bytes == 0 || self.shared.evacuating.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.shared.trim_epoch.fetch_add(1, Ordering::Relaxed);
        Some(Evacuation { shared: Arc::clone(&self.shared) })
    }

    /// Changes when the caches should be trimmed.
    pub fn trim_epoch(&self) -> u64 {
        self.shared.trim_epoch.load(Ordering::Relaxed)
    }

    /// Asks the caches to be trimmed.
    pub fn purge(&self) {
        self.shared.trim_epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing is kept, so nothing is given back.
    pub fn purge_unused(&self) {}

    /// Current sizes.
    pub fn stats(&self) -> Stats {
        let live_bytes = self.shared.live_bytes.load(Ordering::Relaxed).max(0) as u64;
        let huge_bytes = self.shared.huge_bytes.load(Ordering::Relaxed).max(0) as u64;
        Stats {
            reserved: live_bytes,
            slab_bytes: live_bytes,
            live_bytes,
            huge_bytes,
            ..Stats::default()
        }
    }
}

impl Cache {
    /// The word of [`Heap::shared_word`].
    #[inline]
    pub fn shared_word(&self) -> &AtomicU16 {
        &self.shared.word
    }

    /// Allocates a block of at least `size` bytes, aligned to 8 bytes. Ends the process when the
    /// system has no memory.
    pub fn alloc(&mut self, size: usize) -> NonNull<u8> {
        self.breathe();
        let layout = layout(size);
        // SAFETY: the size is not zero.
        let block = unsafe { alloc::alloc(layout) };
        self.count(layout.size() as i64);
        NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `block` came from a cache of the same heap, for a size with the same
    /// [`usable`](super::usable) size, was not freed since, and nothing uses it any more.
    pub unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        let layout = layout(size);
        self.count(-(layout.size() as i64));
        // SAFETY: a block of this usable size came from `alloc`, with this layout.
        unsafe { alloc::dealloc(block.as_ptr(), layout) };
        self.breathe();
    }

    /// From now on calls `breather` while blocks are allocated and freed.
    pub fn breathe_with(&mut self, breather: Breather) {
        self.breather = Some(breather);
    }

    /// Ends [`Cache::breathe_with`].
    pub fn breathe_no_more(&mut self) {
        self.breather = None;
    }

    /// Calls the breather, if there is one.
    pub fn breathe(&mut self) {
        if let Some(breather) = &mut self.breather {
            breather();
        }
    }

    /// Nothing is kept, so nothing is returned.
    pub fn trim(&mut self) {
        self.trim_epoch = self.shared.trim_epoch.load(Ordering::Relaxed);
    }

    /// Whether the heap's [`trim_epoch`](Heap::trim_epoch) has changed since the last time.
    pub fn trim_if_asked(&mut self) -> bool {
        let asked = self.shared.trim_epoch.load(Ordering::Relaxed) != self.trim_epoch;
        self.trim();
        asked
    }

    fn count(&self, bytes: i64) {
        let huge = bytes.unsigned_abs() as usize > BLOCK_BYTES_MAX;
        let sum = if huge { &self.shared.huge_bytes } else { &self.shared.live_bytes };
        sum.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Evacuation {
    /// Whether `block` is to be moved.
    pub fn contains(&self, block: *const u8) -> bool {
        (block as usize as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 != 0
    }

    /// Number of marked slabs.
    pub fn slabs(&self) -> usize {
        1
    }

    /// Ends the evacuation; the same as dropping it.
    pub fn end(self) {}
}

impl Drop for Evacuation {
    fn drop(&mut self) {
        self.shared.evacuating.store(false, Ordering::Release);
    }
}

fn layout(size: usize) -> Layout {
    let align = if size <= BLOCK_BYTES_MAX { alignment(size) } else { 8 };
    // A size beyond the address space cannot be served, which is one way of being out of memory.
    Layout::from_size_align(usable(size), align).unwrap_or_else(|_| std::process::abort())
}
