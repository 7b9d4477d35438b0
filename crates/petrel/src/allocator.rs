//! The global allocator: mimalloc, with a count of allocated bytes and access to its statistics.

use ::mimalloc::MiMalloc;
use libmimalloc_sys as mimalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Longest block that is cut from a page of many, bytes; a longer one is a page by itself.
const SHARED_PAGE_MAX: usize = 512 << 10;

/// Bytes of blocks in use that are longer than [`SHARED_PAGE_MAX`].
static ALLOCATED_ALONE: AtomicI64 = AtomicI64::new(0);

/// A thread moves its balance of allocated and freed bytes to [`ALLOCATED`] when it exceeds this.
const PENDING_MAX: i64 = 32 << 10;

/// Bytes of all blocks in use, except [`PENDING`].
static ALLOCATED: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// Bytes allocated minus bytes freed by this thread that are not in [`ALLOCATED`] yet.
    static PENDING: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: the declarations are those of mimalloc.h. Each may be called by any thread at any time,
// and is given no memory: the first reads a constant table, the second a constant.
unsafe extern "C" {
    safe fn mi_good_size(size: usize) -> usize;
    safe fn mi_version() -> c_int;
    safe fn mi_collect(force: bool);
}

/// mimalloc, counting: mimalloc itself counts blocks in debug builds only.
pub struct Counted;

// SAFETY: every call is passed on to mimalloc; counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: by the contract of this function.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: by the contract of this function.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: by the contract of this function.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, 1);
        count(layout.size(), -1);
        // SAFETY: by the contract of this function.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}

/// Bytes of the block that serves `size` bytes.
#[inline]
fn size_of_block(size: usize) -> i64 {
    mi_good_size(size) as i64
}

/// Counts a block for `size` bytes: 1 adds it, -1 takes it away.
#[inline]
fn count(size: usize, sign: i64) {
    let bytes = size_of_block(size) * sign;
    if size > SHARED_PAGE_MAX {
        ALLOCATED_ALONE.fetch_add(bytes, Relaxed);
    }
    PENDING.with(|pending| {
        let sum = pending.get() + bytes;
        if sum.abs() < PENDING_MAX {
            pending.set(sum);
        } else {
            pending.set(0);
            ALLOCATED.fetch_add(sum, Relaxed);
        }
    });
}

/// Bytes of all blocks in use, each rounded up to its size class; off by at most 32 KiB per thread.
pub fn allocated() -> u64 {
    ALLOCATED.load(Relaxed).max(0) as u64
}

/// Bytes of the pages that blocks in use are in, about: threads count their own pages, and add them
/// up about once a second. Takes some 100 microseconds.
pub fn active() -> u64 {
    // SAFETY: mimalloc makes a string that ends in zero, if it has memory for it, and takes it back
    // when nothing refers to it any more.
    let shared = unsafe {
        let text = mimalloc::mi_stats_get_json(0, ptr::null_mut());
        if text.is_null() {
            return allocated();
        }
        let shared = bytes_of_pages(&CStr::from_ptr(text).to_string_lossy());
        mimalloc::mi_free(text.cast());
        shared
    };
    (shared + ALLOCATED_ALONE.load(Relaxed)).max(0) as u64
}

/// Bytes of all pages of many blocks, in statistics of mimalloc.
fn bytes_of_pages(statistics: &str) -> i64 {
    let bins = statistics.split_once("\"page_bins\": [").map_or("", |(_, bins)| bins);
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split([',', ' ', '}']).find(|word| !word.is_empty())?.parse::<i64>().ok()
    };
    let bytes = |line: &str| Some(field(line, "\"current\":")? * field(line, "\"page_size\":")?);
    bins.lines().take_while(|line| line.trim() != "],").filter_map(bytes).sum()
}

/// Name and version.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let version = mi_version();
        let (major, rest) = if version >= 10_000 {
            (version / 10_000, version % 10_000)
        } else {
            (version / 100, version % 100 * 10)
        };
        format!("mimalloc-{major}.{}.{}", rest / 100, rest % 100)
    })
}

/// Returns mimalloc's statistics in its own format.
pub fn report() -> String {
    let mut text = Vec::<u8>::new();
    // SAFETY: `collect` is called during this call only, with the vector that it is given here.
    unsafe { mimalloc::mi_stats_print_out(Some(collect), (&raw mut text).cast()) };
    String::from_utf8_lossy(&text).into_owned()
}

/// Number of the option that says how long freed memory is held back (`mi_option_purge_delay`), the
/// same in all versions.
const PURGE_DELAY: mimalloc::mi_option_t = 15;

/// Longer than any process runs, milliseconds.
const NEVER_MS: std::ffi::c_long = 1 << 40;

/// Number of the option that says how many full pages of a size class a thread keeps to itself
/// (`mi_option_page_full_retain`).
const PAGE_FULL_RETAIN: mimalloc::mi_option_t = 36;

/// Makes [`purge`] the only function that returns freed memory to the system. By default any
/// allocation may return everything freed in the last second: 60 ms for a gigabyte. Full pages
/// become shared, so that the thread that frees a block of one makes it available to all threads.
/// Must be called while there is one thread.
pub fn configure() {
    // SAFETY: sets numbers of the library's, which no other thread reads meanwhile.
    unsafe {
        mimalloc::mi_option_set(PURGE_DELAY, NEVER_MS);
        mimalloc::mi_option_set(PAGE_FULL_RETAIN, 0);
    }
}

/// Gives free pages of the calling thread's heap to all threads. Without this a page stays with its
/// thread when others have freed the last of its blocks, until that thread allocates.
pub fn collect_thread() {
    mi_collect(false);
}

/// Returns unused memory to the system, including free pages of the calling thread's heap.
pub fn purge() {
    mi_collect(true);
}

unsafe extern "C" fn collect(message: *const c_char, text: *mut c_void) {
    // SAFETY: mimalloc passes on the vector of `report`, and a string that ends in zero.
    let (text, message) = unsafe { (&mut *text.cast::<Vec<u8>>(), CStr::from_ptr(message)) };
    text.extend_from_slice(message.to_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests look at the memory of the whole process, so they run one at a time.
    static MEMORY: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn the_allocator_introduces_itself() {
        let _alone = MEMORY.lock().unwrap();
        assert!(name().starts_with("mimalloc-"), "{}", name());
        assert!(!report().is_empty());
        purge();
    }

    #[test]
    fn the_options_are_those_that_they_are_taken_for() {
        let _alone = MEMORY.lock().unwrap();
        // SAFETY: reads numbers of the library's.
        let options =
            || [PURGE_DELAY, PAGE_FULL_RETAIN].map(|at| unsafe { mimalloc::mi_option_get(at) });
        assert_eq!(options(), [1000, 2], "their defaults");
        configure();
        assert_eq!(options(), [NEVER_MS, 0]);
    }

    #[test]
    fn blocks_in_use_are_counted() {
        let _alone = MEMORY.lock().unwrap();
        const SIZE: usize = 300_000_000;
        let before = allocated();
        let block = vec![1u8; SIZE];
        // Other tests allocate less meanwhile.
        let grown = allocated() - before;
        assert!((SIZE as u64..SIZE as u64 * 11 / 10).contains(&grown), "{grown}");
        assert!(active() >= SIZE as u64);
        drop(block);
        assert!(allocated() < before + SIZE as u64 / 10);
    }

    #[test]
    fn blobs_take_what_the_keyspace_counts_for_them() {
        let _alone = MEMORY.lock().unwrap();
        use petrel_keyspace::{BLOB_MIN, blob_bytes};
        let around = |size: usize| [size - 1, size, size + 1, size + size / 7];
        for len in (0..10).flat_map(|doubling| around((BLOB_MIN + 1) << doubling)) {
            assert_eq!(blob_bytes(len) as i64, size_of_block(len), "{len}");
        }
    }

    #[test]
    fn pages_are_found_in_the_statistics() {
        let _alone = MEMORY.lock().unwrap();
        let text = "\"malloc_bins\": [\n{ \"current\": 9, \"page_size\": 9 }\n],\n  \"page_bins\": [\n    \
            { \"total\": 7, \"peak\": 5, \"current\": 3, \"block_size\": 8, \"page_size\": 100 },\n    \
            { \"total\": 7, \"peak\": 5, \"current\": -1, \"block_size\": 8, \"page_size\": 10 }\n  ],\n  \
            \"chunk_bins\": [ { \"current\": 9, \"page_size\": 9 }";
        assert_eq!(bytes_of_pages(text), 290);
        assert_eq!(bytes_of_pages(""), 0);
        // What this version of mimalloc says can be read.
        let blocks: Vec<Vec<u8>> = (0..5_000).map(|_| vec![1; 20_000]).collect();
        collect_thread();
        assert!(active() > 90_000_000, "{}", report());
        drop(blocks);
    }

    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    fn pages_whose_blocks_others_freed_come_back_when_their_thread_collects() {
        let _alone = MEMORY.lock().unwrap();
        use std::sync::mpsc;
        const BLOCKS: usize = 10_000;
        const SIZE: usize = 20_000;
        let (blocks, theirs) = mpsc::channel::<Vec<Vec<u8>>>();
        let (collect, asked) = mpsc::channel::<()>();
        let (done, collected) = mpsc::channel::<()>();
        let owner = std::thread::spawn(move || {
            let mut all: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; SIZE]).collect();
            // Pages of which the thread has freed a block itself are its own.
            let mut at = 0;
            all.retain(|_| {
                at += 1;
                at % 4 > 0
            });
            blocks.send(all).unwrap();
            asked.recv().unwrap();
            collect_thread();
            done.send(()).unwrap();
            asked.recv().unwrap();
        });
        drop(theirs.recv().unwrap());
        purge();
        let before = resident();
        collect.send(()).unwrap();
        collected.recv().unwrap();
        purge();
        let returned = before.saturating_sub(resident());
        assert!(returned > (BLOCKS * SIZE / 2) as u64, "{returned}");
        collect.send(()).unwrap();
        owner.join().unwrap();
    }
}
