//! Heap state shared by all threads.

use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Stats;
use super::cache::{Bins, Cache};
use super::classes::CLASS;
use super::evacuation::Evacuation;
use super::region::Region;
use super::slabs::Slabs;

/// A heap, shared by all threads of a keyspace; a clone is the same heap.
///
/// Its memory lives until the heap, its clones, caches and evacuations are all dropped; then every
/// block is gone, except those above 32 KiB that were not freed: the global allocator keeps them.
#[derive(Clone)]
pub struct Heap {
    pub(super) shared: Arc<Shared>,
}

/// The inside of a [`Heap`].
pub struct Shared {
    /// The blocks that no thread has.
    pub slabs: Slabs,
    /// The bins of all caches, for statistics.
    pub caches: Mutex<Vec<Arc<Bins>>>,
    /// The balance of huge bytes of caches that are no more.
    pub huge_bytes_of_dropped: AtomicI64,
    /// [`Heap::shared_word`].
    pub word: AtomicU16,
}

impl Heap {
    /// An empty heap: much address space, a few KiB of memory.
    pub fn new() -> Heap {
        Heap {
            shared: Arc::new(Shared {
                slabs: Slabs::new(Region::new()),
                caches: Mutex::default(),
                huge_bytes_of_dropped: AtomicI64::new(0),
                word: AtomicU16::new(0),
            }),
        }
    }

    /// A word that is the user's, 0 at first. Every cache reads it without going elsewhere
    /// ([`Cache::shared_word`]): for what new blocks are to be marked with.
    #[inline]
    pub fn shared_word(&self) -> &AtomicU16 {
        &self.shared.word
    }

    /// A cache for one thread. All blocks are allocated and freed through caches.
    pub fn cache(&self) -> Cache {
        Cache::new(self)
    }

    /// Marks the sparsest slabs for evacuation if at least `fragmentation_pct_min` percent of the
    /// slabs' memory is unused. `None` if it is not, if an evacuation is under way, or if no
    /// slab is worth it.
    ///
    /// Moving the blocks of the marked slabs needs no new slabs: they fit into the holes of the
    /// remaining slabs. Costs about 10 ns per slab, on this thread only.
    pub fn begin_evacuation(&self, fragmentation_pct_min: u64) -> Option<Evacuation> {
        let worth_it = self.stats().fragmentation_pct() >= fragmentation_pct_min;
        worth_it.then(|| Evacuation::begin(&self.shared)).flatten()
    }

    /// Changes when the caches should be trimmed.
    pub fn trim_epoch(&self) -> u64 {
        self.shared.slabs.trim_epoch.load(Ordering::Relaxed)
    }

    /// Gives all free memory back to the system: at once that of free slabs, and that of the caches
    /// as their threads trim them.
    pub fn purge(&self) {
        self.shared.slabs.trim_epoch.fetch_add(1, Ordering::Relaxed);
        self.shared.slabs.region.purge();
    }

    /// Returns the memory of released slabs to the system that has not been needed since the last
    /// call.
    pub fn purge_unused(&self) {
        self.shared.slabs.region.purge_unused();
    }

    /// Current sizes. Microseconds: one short lock per size class, a few loads per class and cache.
    pub fn stats(&self) -> Stats {
        let (mut carved_bytes, mut out_bytes) = (0, 0);
        for (at, class) in CLASS.iter().enumerate() {
            let tally = self.shared.slabs.tally(at as u8);
            carved_bytes += tally.carved * u64::from(class.size);
            out_bytes += tally.live * u64::from(class.size);
        }
        let (mut cached_bytes, mut huge_bytes) = (0, 0);
        {
            let caches = self.shared.caches.lock().unwrap_or_else(PoisonError::into_inner);
            huge_bytes += self.shared.huge_bytes_of_dropped.load(Ordering::Relaxed);
            for bins in caches.iter() {
                let (cached, huge) = bins.bytes();
                cached_bytes += cached;
                huge_bytes += huge;
            }
        }
        let region = self.shared.slabs.region.stats();
        Stats {
            reserved: region.committed,
            slab_bytes: carved_bytes + region.retained,
            live_bytes: out_bytes.saturating_sub(cached_bytes),
            cached_bytes,
            retained_bytes: region.retained,
            huge_bytes: huge_bytes.max(0) as u64,
        }
    }
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}
