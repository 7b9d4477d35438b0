//! The slabs of each class, shared by all threads: batches of blocks go out to the threads' caches
//! and come back here.
//!
//! A class keeps its partly free slabs in four lists by occupancy. Blocks are taken from the
//! fullest slabs first, so that sparse ones drain and their memory is given back. Full slabs and
//! those under evacuation are in no list: nothing is taken from them, and freed blocks find them by
//! address.

use std::alloc::Layout;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::classes::{CLASS, CLASSES, Class, alignment};
use super::region::{Links, NO_UNIT, Region, Slab};
use crate::prefetch::prefetch;

/// Lists of partly free slabs per class, by quarters of occupancy, the sparsest first.
const BINS: usize = 4;
/// Noted in a slab that is in no list.
const NO_BIN: u32 = BINS as u32;
/// Separate lists of blocks that one `take` may yield.
const CHAINS: usize = 8;

/// All slabs of a heap, and state shared by its threads.
pub struct Slabs {
    /// The address space the slabs are in.
    pub region: Region,
    /// Whether an evacuation is under way. Read on every free, hardly ever written.
    pub evacuating: AtomicBool,
    /// Grows whenever the caches should be trimmed.
    pub trim_epoch: AtomicU64,
    classes: Box<[ClassSlabs]>,
}

/// Padded so that the locks of two classes do not share a cache line.
#[repr(align(64))]
struct ClassSlabs(Mutex<Lists>);

/// State of a class under its lock, besides the links of its slabs.
#[derive(Default)]
struct Lists {
    /// The first slab of each list.
    bins: [u32; BINS],
    tally: Tally,
}

/// Counts of one class.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    /// Slabs, the full and the evacuating ones included.
    pub slabs: u64,
    /// Blocks cut from slabs, and blocks that the global allocator provided instead.
    pub carved: u64,
    /// Blocks out of the slabs: in use or in a cache.
    pub live: u64,
}

/// A run of blocks handed out by [`Slabs::take`].
#[derive(Clone, Copy)]
pub enum Chain {
    /// `count` blocks, each pointing to the next in its first word; the last word is not to be
    /// read.
    Linked { head: *mut u8, count: u32 },
    /// `count` adjacent blocks from `head` on, never touched since they were carved.
    Adjacent { head: *mut u8, count: u32 },
}

/// The outcome of [`Slabs::take`]: at least one block.
pub struct Taken {
    chains: [Option<Chain>; CHAINS],
    len: usize,
}

impl Taken {
    /// The runs of blocks.
    pub fn chains(&self) -> impl Iterator<Item = Chain> + '_ {
        self.chains[..self.len].iter().flatten().copied()
    }

    fn push(&mut self, chain: Chain) {
        self.chains[self.len] = Some(chain);
        self.len += 1;
    }
}

impl Slabs {
    /// No slabs yet, and next to no memory.
    pub fn new(region: Region) -> Slabs {
        Slabs {
            region,
            evacuating: AtomicBool::new(false),
            trim_epoch: AtomicU64::new(0),
            classes: (0..CLASSES).map(|_| ClassSlabs(Mutex::default())).collect(),
        }
    }

    /// Takes up to `wanted` blocks of `class`, at least one. Fewer come when more would need a new
    /// slab.
    pub fn take(&self, class: u8, wanted: u32) -> Taken {
        let mut taken = Taken { chains: [None; CHAINS], len: 0 };
        let mut missing = wanted.max(1);
        let mut lists = self.lock(class);
        while missing > 0 && taken.len < CHAINS {
            let sparse_last = lists.bins.iter().rev().find(|head| **head != NO_UNIT);
            let unit = match sparse_last {
                Some(unit) => *unit,
                None if taken.len > 0 => break,
                None => match self.add_slab(&mut lists, class) {
                    Some(unit) => unit,
                    None => {
                        lists.tally.carved += 1;
                        lists.tally.live += 1;
                        drop(lists);
                        taken.push(Chain::Adjacent { head: foreign_block(class), count: 1 });
                        return taken;
                    }
                },
            };
            let slab = self.region.slab(unit);
            let links = &slab.links;
            let (chain, count) = take_from(slab, links, self.region.address(unit), class, missing);
            if let Chain::Adjacent { .. } = chain {
                lists.tally.carved += u64::from(count);
            }
            lists.tally.live += u64::from(count);
            missing -= count;
            taken.push(chain);
            self.move_to_bin(&mut lists, unit, slab, links, class);
        }
        taken
    }

    /// Returns freed blocks to their slabs, and releases slabs that become empty.
    ///
    /// # Safety
    /// The blocks are distinct, of this heap and of `class`, and no longer in use.
    pub unsafe fn put(&self, class: u8, blocks: &[*mut u8]) {
        // What will be changed under the lock is on its way before.
        for slab in blocks.iter().filter_map(|block| self.region.slab_of(*block)) {
            prefetch(ptr::from_ref(self.region.slab(slab)).addr());
        }
        let mut emptied = NO_UNIT;
        let mut lists = self.lock(class);
        for block in blocks {
            lists.tally.live -= 1;
            let Some(unit) = self.region.slab_of(*block) else {
                lists.tally.carved -= 1;
                // SAFETY: a block outside of the region is one that `foreign_block` made.
                unsafe { std::alloc::dealloc(*block, layout(class)) };
                continue;
            };
            if !self.region.is_slab_of(unit, class) {
                corrupted("a block was freed twice or with the size of another");
            }
            let slab = self.region.slab(unit);
            let links = &slab.links;
            // SAFETY: the block is at least 8 bytes, aligned to 8, and owned by this thread.
            unsafe { block.cast::<*mut u8>().write(links.free.get()) };
            links.free.set(*block);
            let live = slab.live.load(Ordering::Relaxed) - 1;
            slab.live.store(live, Ordering::Relaxed);
            if live > 0 {
                if !self.region.is_marked(unit) {
                    self.move_to_bin(&mut lists, unit, slab, links, class);
                }
                continue;
            }
            self.unlink(&mut lists, unit, links);
            lists.tally.slabs -= 1;
            lists.tally.carved -= u64::from(links.carved.get());
            self.region.disown(unit, CLASS[class as usize].run.into());
            links.next.set(emptied);
            emptied = unit;
        }
        drop(lists);
        while emptied != NO_UNIT {
            // An emptied slab is in no list and no block of it is out: only this thread knows it.
            let next = self.region.slab(emptied).links.next.get();
            self.region.release_run(emptied, CLASS[class as usize].run.into());
            emptied = next;
        }
    }

    /// Marks the slab at `unit` for evacuation, if it is a partly free one of `class` with at most
    /// `live_max` blocks: nothing is taken from it any more.
    pub fn mark_sparse(&self, unit: u32, class: u8, live_max: u32) -> bool {
        let mut lists = self.lock(class);
        if !self.region.is_slab_of(unit, class) {
            return false;
        }
        let slab = self.region.slab(unit);
        let links = &slab.links;
        if links.bin.get() == NO_BIN || slab.live.load(Ordering::Relaxed) > live_max {
            return false;
        }
        self.unlink(&mut lists, unit, links);
        self.region.own(unit, CLASS[class as usize].run.into(), true);
        true
    }

    /// Undoes `mark_sparse`, unless the slab is gone since.
    pub fn unmark(&self, unit: u32) {
        let slab = self.region.slab(unit);
        let class = slab.class.load(Ordering::Relaxed);
        let mut lists = self.lock(class);
        if !self.region.is_slab_of(unit, class) || !self.region.is_marked(unit) {
            return;
        }
        self.region.own(unit, CLASS[class as usize].run.into(), false);
        let links = &slab.links;
        self.move_to_bin(&mut lists, unit, slab, links, class);
    }

    /// The counts of `class`.
    pub fn tally(&self, class: u8) -> Tally {
        self.lock(class).tally
    }

    /// A new slab for `class`, in its sparsest list.
    fn add_slab(&self, lists: &mut Lists, class: u8) -> Option<u32> {
        let run = usize::from(CLASS[class as usize].run);
        let unit = self.region.take_run(run)?;
        let slab = self.region.slab(unit);
        slab.class.store(class, Ordering::Relaxed);
        slab.live.store(0, Ordering::Relaxed);
        let links = &slab.links;
        links.reset(NO_BIN);
        self.region.own(unit, run, false);
        self.link(lists, unit, links, 0);
        lists.tally.slabs += 1;
        Some(unit)
    }

    /// Puts a slab into the list of its occupancy, or into none when it is full.
    fn move_to_bin(&self, lists: &mut Lists, unit: u32, slab: &Slab, links: &Links, class: u8) {
        // Reaches BINS, which is NO_BIN, at a full slab and only there.
        let live = slab.live.load(Ordering::Relaxed) as usize;
        let bin = (live * BINS / CLASS[class as usize].capacity as usize) as u32;
        if bin != links.bin.get() {
            self.unlink(lists, unit, links);
            if bin != NO_BIN {
                self.link(lists, unit, links, bin);
            }
        }
    }

    fn link(&self, lists: &mut Lists, unit: u32, links: &Links, bin: u32) {
        let head = &mut lists.bins[bin as usize];
        links.bin.set(bin);
        links.prev.set(NO_UNIT);
        links.next.set(*head);
        if *head != NO_UNIT {
            self.region.slab(*head).links.prev.set(unit);
        }
        *head = unit;
    }

    fn unlink(&self, lists: &mut Lists, unit: u32, links: &Links) {
        if links.bin.get() == NO_BIN {
            return;
        }
        if links.prev.get() == NO_UNIT {
            debug_assert_eq!(lists.bins[links.bin.get() as usize], unit);
            lists.bins[links.bin.get() as usize] = links.next.get();
        } else {
            self.region.slab(links.prev.get()).links.next.set(links.next.get());
        }
        if links.next.get() != NO_UNIT {
            self.region.slab(links.next.get()).links.prev.set(links.prev.get());
        }
        links.bin.set(NO_BIN);
    }

    fn lock(&self, class: u8) -> MutexGuard<'_, Lists> {
        self.classes[class as usize].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes up to `wanted` blocks from a slab that has some: freed ones, or if there are none fresh
/// ones.
fn take_from(slab: &Slab, links: &Links, start: *mut u8, class: u8, wanted: u32) -> (Chain, u32) {
    let Class { size, capacity, .. } = &CLASS[class as usize];
    let live = slab.live.load(Ordering::Relaxed);
    if links.free.get().is_null() {
        let count = wanted.min(capacity - links.carved.get());
        let head = start.wrapping_add((links.carved.get() * size) as usize);
        links.carved.set(links.carved.get() + count);
        slab.live.store(live + count, Ordering::Relaxed);
        return (Chain::Adjacent { head, count }, count);
    }
    let head = links.free.get();
    let count = wanted.min(links.carved.get() - live);
    if count == links.carved.get() - live {
        links.free.set(ptr::null_mut());
    } else {
        let mut next = head;
        for _ in 0..count {
            // SAFETY: the list has more than `count` blocks, and the first word of each is its
            // link.
            next = unsafe { next.cast::<*mut u8>().read() };
        }
        links.free.set(next);
    }
    slab.live.store(live + count, Ordering::Relaxed);
    (Chain::Linked { head, count }, count)
}

fn layout(class: u8) -> Layout {
    let size = CLASS[class as usize].size as usize;
    Layout::from_size_align(size, alignment(size))
        .unwrap_or_else(|_| corrupted("a class has no layout"))
}

/// A block from the global allocator, for when the region is exhausted. It passes through caches
/// like any other and is recognised by its address when it comes back.
#[cold]
fn foreign_block(class: u8) -> *mut u8 {
    let layout = layout(class);
    // SAFETY: the size is not zero.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    block
}

/// Stops the process: the heap's invariants are broken by a caller, and going on would lose data.
#[cold]
pub fn corrupted(what: &str) -> ! {
    eprintln!("heap corrupted: {what}");
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::super::classes::class_of;
    use super::*;

    /// Takes blocks one by one and writes all of each.
    fn take_ones(slabs: &Slabs, class: u8, count: usize) -> Vec<*mut u8> {
        let take_one = |_| match slabs.take(class, 1).chains().next() {
            Some(Chain::Linked { head, count: 1 } | Chain::Adjacent { head, count: 1 }) => {
                // SAFETY: the block was handed out and has the size of its class.
                unsafe { head.write_bytes(1, CLASS[class as usize].size as usize) };
                head
            }
            _ => panic!("one block was asked for"),
        };
        (0..count).map(take_one).collect()
    }

    #[test]
    fn the_global_allocator_stands_in_for_an_exhausted_region() {
        let class = class_of(1024);
        let slabs = Slabs::new(Region::reserve(3).expect("3 units can be reserved"));
        // Unit 0 is not used, two slabs of 64 blocks fit.
        let blocks = take_ones(&slabs, class, 200);
        let inside = blocks.iter().filter(|block| slabs.region.slab_of(**block).is_some());
        assert_eq!(inside.count(), 128);
        let Tally { slabs: count, carved, live } = slabs.tally(class);
        assert_eq!((count, carved, live), (2, 200, 200));
        // SAFETY: all were taken just now.
        unsafe { slabs.put(class, &blocks) };
        let Tally { slabs: count, carved, live } = slabs.tally(class);
        assert_eq!((count, carved, live), (0, 0, 0));
    }

    #[test]
    fn blocks_are_taken_from_the_fullest_slab() {
        let class = class_of(1024);
        let slabs = Slabs::new(Region::reserve(16).expect("1 MiB can be reserved"));
        let blocks = take_ones(&slabs, class, 3 * 64);
        // Leaves 4, 24 and 60 of 64 blocks in the three slabs.
        for (slab, left) in [4, 24, 60].into_iter().enumerate() {
            // SAFETY: all were taken just now, and none is put back twice.
            unsafe { slabs.put(class, &blocks[slab * 64 + left..(slab + 1) * 64]) };
        }
        let order: Vec<_> = take_ones(&slabs, class, 4 + 40 + 60)
            .into_iter()
            .map(|block| slabs.region.slab_of(block))
            .collect();
        let [sparse, half, full] = [0, 64, 128].map(|at| slabs.region.slab_of(blocks[at]));
        assert!(order[..4].iter().all(|unit| *unit == full));
        assert!(order[4..44].iter().all(|unit| *unit == half));
        assert!(order[44..].iter().all(|unit| *unit == sparse));
        assert_eq!(slabs.tally(class).slabs, 3);
    }
}
