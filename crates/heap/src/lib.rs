//! The heap that the keyspace allocates its blocks from; it knows nothing of keys.
//!
//! General allocators have four to eight size classes per doubling, and lose 6 to 12 % of memory to
//! them; this one has 32 and loses 1.5 %. Its caller says the size when a block is freed, and its
//! slabs can be emptied with the help of the blocks' owner, so that memory comes back after
//! deletes.
//!
//! ```text
//!   thread ── Cache ── per class: a list of free blocks (no lock)
//!                │ batches, 8 KiB at most
//!              Slabs ── per class: lock, partly free slabs by occupancy
//!                │ slabs of 64 KiB to 512 KiB
//!              Region ── one reserved address range, free runs
//! ```
//!
//! Blocks of up to 32 KiB come from slabs, larger ones from the global allocator. With the feature
//! `system-heap` all of them do, for the tools that look for misused memory: they cannot see into
//! slabs.

#[cfg(not(feature = "system-heap"))]
mod cache;
// The twin needs no more of the classes than their sizes.
#[cfg_attr(feature = "system-heap", allow(dead_code))]
mod classes;
#[cfg(not(feature = "system-heap"))]
mod evacuation;
#[cfg(not(feature = "system-heap"))]
mod poison;
mod prefetch;
#[cfg(not(feature = "system-heap"))]
mod region;
#[cfg(not(feature = "system-heap"))]
mod shared;
#[cfg(not(feature = "system-heap"))]
mod slabs;
#[cfg(feature = "system-heap")]
mod system;

#[cfg(test)]
mod tests;

#[cfg(not(feature = "system-heap"))]
pub use self::{cache::Cache, evacuation::Evacuation, shared::Heap};
pub use classes::{BLOCK_BYTES_MAX, alignment, are_alike, usable};
pub use prefetch::{prefetch, prefetch_to_write};
#[cfg(feature = "system-heap")]
pub use system::{Cache, Evacuation, Heap};

#[cfg(not(feature = "system-heap"))]
use shared::Shared;

/// Function that a cache calls now and then while much is allocated or freed through it: the thread
/// gives way to others, or serves them.
pub type Breather = Box<dyn FnMut() + Send>;

/// Sizes of a [`Heap`], in bytes. Taken while other threads go on, so they need not fit to the
/// byte.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Address space that slabs were given so far, with or without memory behind it.
    pub reserved: u64,
    /// Memory of slabs: all blocks that were ever cut from the present ones, and of released slabs
    /// what is kept for the next. What is resident, rounded to pages.
    pub slab_bytes: u64,
    /// Part of `slab_bytes`: blocks in use.
    pub live_bytes: u64,
    /// Part of `slab_bytes`: free blocks in the caches of threads.
    pub cached_bytes: u64,
    /// Part of `slab_bytes`: released slabs kept for the next.
    pub retained_bytes: u64,
    /// Blocks above 32 KiB, which belong to the global allocator.
    pub huge_bytes: u64,
}

impl Stats {
    /// The share of the slabs' memory that no block uses, in percent; evacuation can win it back.
    pub fn fragmentation_pct(&self) -> u64 {
        let slabs = self.slab_bytes - self.retained_bytes;
        let used = self.live_bytes + self.cached_bytes;
        (slabs.saturating_sub(used) * 100).checked_div(slabs).unwrap_or(0)
    }
}
