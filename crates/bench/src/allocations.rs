//! The allocations of this process, counted while they are asked for; `bench/rust` compiles this
//! file, too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The allocator of the system, which counts while it is asked to.
struct Counting;

/// Allocations, and their bytes, of some of the threads.
#[repr(align(128))]
struct Tally {
    allocations: AtomicU64,
    bytes: AtomicU64,
}

static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// Several, so that threads seldom share one.
static TALLIES: [Tally; 16] =
    [const { Tally { allocations: AtomicU64::new(0), bytes: AtomicU64::new(0) } }; 16];

thread_local! {
    /// Address that identifies the thread.
    static MARK: u64 = const { 0 };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn note_allocation(bytes: usize) {
    if IS_COUNTING.load(Relaxed) {
        let mark = MARK.with(|mark| std::ptr::from_ref(mark).addr());
        let tally = &TALLIES[(mark >> 12) % TALLIES.len()];
        tally.allocations.fetch_add(1, Relaxed);
        tally.bytes.fetch_add(bytes as u64, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_allocation(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_allocation(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note_allocation(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Begins or ends counting the allocations of this process. Returns how many there were so far
/// while they were counted, and their bytes; a block that grows counts as one of its new size.
pub fn count(counts: bool) -> (u64, u64) {
    IS_COUNTING.store(counts, Relaxed);
    let sum = |of: fn(&Tally) -> &AtomicU64| TALLIES.iter().map(|all| of(all).load(Relaxed)).sum();
    (sum(|tally| &tally.allocations), sum(|tally| &tally.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted_on_request() {
        let begin = count(true);
        drop(std::hint::black_box(vec![0u8; 1000]));
        let end = count(false);
        assert!(end.0 > begin.0 && end.1 >= begin.1 + 1000);
    }
}
