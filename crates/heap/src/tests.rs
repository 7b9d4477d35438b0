//! The heap as its users see it; holds for the twin of `system-heap` too, where not said otherwise.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;

use proptest::prelude::*;

use super::{Cache, Heap, usable};

/// A block filled with a pattern that depends on its seed, so that any overlap shows.
struct Filled {
    block: NonNull<u8>,
    size: usize,
    seed: u8,
}

// SAFETY: the block has one owner, this value.
unsafe impl Send for Filled {}

impl Filled {
    fn new(cache: &mut Cache, size: usize, seed: u8) -> Filled {
        let block = cache.alloc(size);
        assert!(block.as_ptr().cast::<u64>().is_aligned());
        // SAFETY: the block has its usable size.
        unsafe { block.as_ptr().write_bytes(seed, usable(size)) };
        Filled { block, size, seed }
    }

    fn check(&self) {
        // SAFETY: `new` wrote that many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.block.as_ptr(), usable(self.size)) };
        let intact = bytes[0] == self.seed && bytes[1..] == bytes[..bytes.len() - 1];
        assert!(intact, "{} bytes overwritten", self.size);
    }

    fn free(self, cache: &mut Cache) {
        self.check();
        // SAFETY: allocated in `new` with this size, from a cache of the only heap of the test.
        unsafe { cache.free(self.block, self.size) };
    }

    fn relocate(&mut self, cache: &mut Cache) {
        let old = std::mem::replace(self, Filled::new(cache, self.size, self.seed));
        old.free(cache);
    }
}

/// A small generator of its own, so that tests repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

/// Mostly small sizes, a few up to beyond what slabs hold.
fn any_size(random: &mut Random) -> usize {
    let bound = [64, 1024, 1024, 9000, 70_000][random.below(5)];
    random.below(bound)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn blocks_keep_their_contents_and_are_counted(
        steps in prop::collection::vec((0usize..40_000, any::<u8>(), 0usize..64), 1..600),
        trim_every in 1usize..100,
    ) {
        let heap = Heap::new();
        let mut caches = [heap.cache(), heap.cache()];
        let mut blocks: Vec<Filled> = Vec::new();
        for (at, (size, seed, pick)) in steps.into_iter().enumerate() {
            let cache = &mut caches[pick % 2];
            if pick % 3 == 0 && !blocks.is_empty() {
                blocks.swap_remove(pick % blocks.len()).free(cache);
            } else {
                // Half of the sizes below 256 bytes, where classes are reused most.
                blocks.push(Filled::new(cache, if seed < 128 { size % 256 } else { size }, seed));
            }
            if at % trim_every == 0 {
                cache.trim();
            }
        }
        let live: usize = blocks.iter().map(|filled| usable(filled.size)).sum();
        let stats = heap.stats();
        prop_assert_eq!((stats.live_bytes + stats.huge_bytes) as usize, live);
        prop_assert!(stats.slab_bytes >= stats.live_bytes + stats.cached_bytes + stats.retained_bytes);
        for filled in blocks {
            filled.free(&mut caches[1]);
        }
        drop(caches);
        heap.purge();
        let stats = heap.stats();
        prop_assert_eq!((stats.live_bytes, stats.cached_bytes, stats.slab_bytes), (0, 0, 0));
    }
}

#[cfg(not(feature = "system-heap"))]
#[test]
fn the_breather_is_called_while_much_is_allocated_or_freed() {
    let heap = Heap::new();
    let mut cache = heap.cache();
    let breaths = Arc::new(AtomicUsize::new(0));
    let counted = breaths.clone();
    cache.breathe_with(Box::new(move || {
        counted.fetch_add(1, Relaxed);
    }));
    let blocks: Vec<Filled> = (0..10_000).map(|_| Filled::new(&mut cache, 40, 1)).collect();
    let while_allocated = breaths.load(Relaxed);
    assert!(while_allocated >= 10, "{while_allocated}");
    blocks.into_iter().for_each(|block| block.free(&mut cache));
    let while_freed = breaths.load(Relaxed) - while_allocated;
    assert!(while_freed >= 10, "{while_freed}");
    cache.breathe_no_more();
    let blocks: Vec<Filled> = (0..10_000).map(|_| Filled::new(&mut cache, 40, 1)).collect();
    blocks.into_iter().for_each(|block| block.free(&mut cache));
    assert_eq!(breaths.load(Relaxed), while_allocated + while_freed);
}

#[test]
fn mixed_sizes_leave_little_of_their_slabs_unused() {
    const LIVE: usize = 100 << 20;
    let heap = Heap::new();
    let mut cache = heap.cache();
    let mut random = Random(7);
    let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
    let mut live = 0;
    for _ in 0..200_000 {
        let size = 1 + random.below(16_384);
        blocks.push((cache.alloc(size), size));
        live += size;
        while live > LIVE {
            let (block, size) = blocks.swap_remove(random.below(blocks.len()));
            // SAFETY: allocated above with this size, and no more in the list.
            unsafe { cache.free(block, size) };
            live -= size;
        }
    }
    cache.trim();
    let stats = heap.stats();
    let unused = stats.slab_bytes - stats.retained_bytes - stats.live_bytes;
    assert!(unused * 100 < stats.live_bytes * 18, "{stats:?}");
    // SAFETY: as above.
    blocks.into_iter().for_each(|(block, size)| unsafe { cache.free(block, size) });
}

#[test]
fn blocks_pass_between_threads() {
    let heap = Heap::new();
    let (sender, receiver) = mpsc::sync_channel::<Filled>(256);
    let (back_sender, back_receiver) = mpsc::sync_channel::<Filled>(100_000);
    let consumer = thread::spawn({
        let mut cache = heap.cache();
        move || {
            for (at, filled) in receiver.into_iter().enumerate() {
                // Each third block makes a round trip, relocated by this thread.
                if at % 3 == 0 {
                    let mut filled = filled;
                    filled.relocate(&mut cache);
                    back_sender.send(filled).expect("the producer listens");
                } else {
                    filled.free(&mut cache);
                }
                cache.trim_if_asked();
            }
        }
    });
    let mut cache = heap.cache();
    let mut random = Random(0x1234_5678_9abc_def1);
    for at in 0..60_000 {
        let size = any_size(&mut random) % 3000;
        sender.send(Filled::new(&mut cache, size, at as u8)).expect("the consumer listens");
        while let Ok(filled) = back_receiver.try_recv() {
            filled.free(&mut cache);
        }
        if at % 10_000 == 0 {
            heap.purge();
        }
    }
    drop(sender);
    for filled in back_receiver {
        filled.free(&mut cache);
    }
    consumer.join().expect("the consumer checks contents");
    cache.trim();
    let stats = heap.stats();
    assert_eq!((stats.live_bytes, stats.cached_bytes, stats.huge_bytes), (0, 0, 0));
}

#[test]
fn threads_churn_while_slabs_are_evacuated() {
    let heap = Heap::new();
    let workers: Vec<_> = (1..=3u64)
        .map(|seed| {
            let heap = heap.clone();
            thread::spawn(move || {
                let mut cache = heap.cache();
                let mut random = Random(seed << 32 | 0x9E37_79B9);
                let mut blocks: VecDeque<Filled> = VecDeque::new();
                for round in 0..8 {
                    for _ in 0..2000 {
                        blocks.push_back(Filled::new(
                            &mut cache,
                            any_size(&mut random),
                            seed as u8,
                        ));
                    }
                    while blocks.len() > 600 {
                        let at = random.below(blocks.len());
                        if let Some(filled) = blocks.swap_remove_back(at) {
                            filled.free(&mut cache);
                        }
                        cache.trim_if_asked();
                    }
                    // Only one of the workers gets it at a time; each moves only what is its own.
                    if let Some(evacuation) = heap.begin_evacuation(10) {
                        cache.trim();
                        for filled in &mut blocks {
                            if evacuation.contains(filled.block.as_ptr()) {
                                filled.relocate(&mut cache);
                            }
                        }
                        if round % 2 == 0 {
                            evacuation.end();
                        }
                    }
                }
                for filled in blocks {
                    filled.free(&mut cache);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("the worker checks contents");
    }
    heap.purge();
    let stats = heap.stats();
    assert_eq!((stats.live_bytes, stats.cached_bytes, stats.slab_bytes), (0, 0, 0));
}

#[test]
fn any_size_of_a_class_frees_its_blocks() {
    let heap = Heap::new();
    let mut cache = heap.cache();
    for (allocated, freed) in [(0, 8), (505, 512), (1025, 1040), (33_001, 33_008)] {
        let block = cache.alloc(allocated);
        // SAFETY: both sizes have the same usable size.
        unsafe { cache.free(block, freed) };
    }
    cache.trim();
    assert_eq!((heap.stats().live_bytes, heap.stats().huge_bytes), (0, 0));
}

/// What only slabs do.
#[cfg(not(feature = "system-heap"))]
mod slabs {
    use super::*;

    fn fill(cache: &mut Cache, count: usize, size: impl Fn(&mut Random) -> usize) -> Vec<Filled> {
        let mut random = Random(0xfeed_beef_1234_5677);
        (0..count).map(|at| Filled::new(cache, size(&mut random), at as u8)).collect()
    }

    fn delete_randomly(cache: &mut Cache, blocks: &mut Vec<Filled>, left: usize) {
        let mut random = Random(0xabcd_ef01_2345_6789);
        while blocks.len() > left {
            let at = random.below(blocks.len());
            blocks.swap_remove(at).free(cache);
        }
    }

    fn evacuate(heap: &Heap, cache: &mut Cache, blocks: &mut [Filled]) -> bool {
        let Some(evacuation) = heap.begin_evacuation(12) else { return false };
        assert!(cache.trim_if_asked());
        for filled in blocks {
            if evacuation.contains(filled.block.as_ptr()) {
                filled.relocate(cache);
            }
        }
        evacuation.end();
        cache.trim();
        true
    }

    #[test]
    fn evacuation_wins_back_the_memory_of_deleted_blocks() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let mut blocks = fill(&mut cache, 240_000, |random| 33 + random.below(24));
        delete_randomly(&mut cache, &mut blocks, 24_000);
        cache.trim();
        assert!(heap.stats().slab_bytes > heap.stats().live_bytes * 4, "{:?}", heap.stats());
        assert!(evacuate(&heap, &mut cache, &mut blocks));
        heap.purge();
        let stats = heap.stats();
        assert!(stats.slab_bytes * 100 <= stats.live_bytes * 125, "{stats:?}");
        blocks.into_iter().for_each(|filled| filled.free(&mut cache));
    }

    #[test]
    fn missed_slabs_are_used_again() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let mut blocks = fill(&mut cache, 20_000, |_| 100);
        delete_randomly(&mut cache, &mut blocks, 2_000);
        let before = heap.stats();
        let evacuation = heap.begin_evacuation(12).expect("most of the slabs is unused");
        assert!(evacuation.slabs() > 20);
        assert!(heap.begin_evacuation(0).is_none(), "only one at a time");
        drop(evacuation);
        cache.trim();
        blocks.extend(fill(&mut cache, 17_000, |_| 100));
        assert_eq!(heap.stats().reserved, before.reserved);
        assert!(heap.begin_evacuation(12).is_none(), "{:?}", heap.stats());
        blocks.into_iter().for_each(|filled| filled.free(&mut cache));
    }

    #[test]
    fn blocks_freed_during_an_evacuation_are_not_handed_out() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let mut blocks = fill(&mut cache, 20_000, |_| 100);
        delete_randomly(&mut cache, &mut blocks, 2_000);
        let evacuation = heap.begin_evacuation(12).expect("most of the slabs is unused");
        cache.trim();
        for filled in &mut blocks {
            filled.relocate(&mut cache);
            assert!(!evacuation.contains(filled.block.as_ptr()));
        }
        drop(evacuation);
        blocks.into_iter().for_each(|filled| filled.free(&mut cache));
    }

    #[test]
    fn resident_memory_follows_use() {
        if let Some(run) = in_own_process("resident_memory_follows_use") {
            let output = String::from_utf8_lossy(&run.stdout);
            let error = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success() && output.contains("1 passed"), "{output}{error}");
            return;
        }
        let start = resident_kib();
        let heap = Heap::new();
        let mut cache = heap.cache();
        assert!(resident_kib() - start < 200, "{} KiB for nothing", resident_kib() - start);
        let mut blocks = Vec::with_capacity(60_000);
        blocks.extend(fill(&mut cache, 60_000, |_| 1000));
        assert!(resident_kib() - start > 55_000);
        blocks.drain(..).for_each(|filled| filled.free(&mut cache));
        cache.trim();
        let vec_kib = (blocks.capacity() * size_of::<Filled>()) as i64 / 1024;
        assert!(resident_kib() - start - vec_kib < 2048 + 1024);
        heap.purge();
        assert!(resident_kib() - start - vec_kib < 1024);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn a_write_to_a_freed_block_ends_the_process() {
        if let Some(run) = in_own_process("a_write_to_a_freed_block_ends_the_process") {
            let error = String::from_utf8_lossy(&run.stderr);
            assert!(!run.status.success() && error.contains("heap corrupted"), "{error}");
            return;
        }
        let heap = Heap::new();
        let mut cache = heap.cache();
        let block = cache.alloc(100);
        // SAFETY: freed once. The write is the misuse that is to be caught; the memory is the
        // heap's.
        unsafe {
            cache.free(block, 100);
            block.as_ptr().add(99).write(1);
        }
        cache.alloc(100);
    }

    /// Runs a test in a process of its own and yields how it ended; `None` in that process.
    fn in_own_process(test: &str) -> Option<std::process::Output> {
        const OWN: &str = "PETREL_TEST_IN_OWN_PROCESS";
        if std::env::var_os(OWN).is_some() {
            return None;
        }
        let program = std::env::current_exe().expect("tests are a file");
        let run = std::process::Command::new(program)
            .args([test, "--nocapture", "--test-threads=1"])
            .env(OWN, "1")
            .output();
        Some(run.expect("the tests can be run again"))
    }

    /// Resident memory without the pages of files: those of the program come in as it runs.
    fn resident_kib() -> i64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs is mounted");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.expect("the kernel tells anonymous pages apart")
    }
}
