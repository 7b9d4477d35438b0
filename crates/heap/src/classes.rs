//! Size classes: which block sizes exist, and in what length of slab each is cut.
//!
//! Up to 512 bytes there is a class for every 8 bytes. Above, the sizes of each doubling are 64
//! times its smallest divided by 32 evenly spaced block counts, rounded down to 8 bytes: a class is
//! at most 1/32 larger than the one before, save for the rounding:
//!
//! | block bytes | slab | blocks in a slab | classes |
//! |---|---|---|---|
//! | 8 ..= 512 | 64 KiB | size dependent | 64 |
//! | 520 ..= 1,024 | 64 KiB | 126, 124 .. 64 | 32 |
//! | 1,040 ..= 2,048 | 64 KiB | 63, 62 .. 32 | 32 |
//! | 2,080 ..= 4,096 | 64 KiB | 31 .. 16 | 32 |
//! | 4,160 ..= 8,192 | 128 KiB | 31 .. 16 | 32 |
//! | 8,320 ..= 16,384 | 256 KiB | 31 .. 16 | 32 |
//! | 16,640 ..= 32,768 | 512 KiB | 31 .. 16 | 32 |
//!
//! Slabs are short, since of every class in use about half a slab is free, and there are 256
//! classes. What does not make up a block at a slab's end, less than one, is address space without
//! memory.

/// The largest block, in bytes, that is cut from a slab; larger ones belong to the global
/// allocator.
pub const BLOCK_BYTES_MAX: usize = 32 * 1024;

/// Number of size classes. A class is a `u8`, so an index into a table of classes needs no bounds
/// check.
pub const CLASSES: usize = 256;

/// Slabs are whole numbers of units; addresses are looked up by unit.
pub const UNIT_BYTES: usize = 64 * 1024;

/// Slab lengths in units. Few, so that a freed run of units finds a taker of its own length.
pub const RUN_UNITS: [usize; 4] = [1, 2, 4, 8];

/// A cache line.
const LINE_BYTES: usize = 64;

/// The most bytes of one class that a thread's cache keeps.
const CACHED_BYTES_PER_CLASS: usize = 8 * 1024;
/// The most blocks of one class that a thread's cache keeps.
const CACHED_BLOCKS_PER_CLASS: usize = 128;

/// A size class.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Bytes of a block.
    pub size: u32,
    /// Blocks in a slab.
    pub capacity: u32,
    /// Index into [`RUN_UNITS`].
    pub run: u8,
    /// Blocks that a thread's cache keeps at most; 0: the class is not cached.
    pub cached_max: u16,
    /// Blocks that move between a cache and the slabs at a time.
    pub batch: u16,
}

/// All classes by ascending size.
pub static CLASS: [Class; CLASSES] = build_classes();

/// The class of a block, indexed by its size in 8-byte steps, rounded up.
static CLASS_OF: [u8; BLOCK_BYTES_MAX / 8 + 1] = build_class_of();

/// The class that serves `size` bytes.
///
/// Precondition: `size <= BLOCK_BYTES_MAX`.
#[inline(always)]
pub fn class_of(size: usize) -> u8 {
    CLASS_OF[size.div_ceil(8)]
}

/// The bytes that a block for `size` bytes really takes, which is what memory accounting counts.
///
/// All of them may be used, and a block may be freed with any size that has the same usable size.
#[inline]
pub fn usable(size: usize) -> usize {
    if size <= BLOCK_BYTES_MAX {
        CLASS[class_of(size) as usize].size as usize
    } else {
        size.saturating_add(7) & !7
    }
}

/// Alignment of blocks for `size` bytes: a cache line if the class is a whole number of lines,
/// since slabs begin at a line; otherwise 8 bytes.
///
/// Precondition: `size <= BLOCK_BYTES_MAX`.
#[inline]
pub fn alignment(size: usize) -> usize {
    if usable(size).is_multiple_of(LINE_BYTES) { LINE_BYTES } else { 8 }
}

/// Whether blocks of both sizes have as many bytes.
#[inline]
pub fn are_alike(size: usize, other: usize) -> bool {
    if size.max(other) <= BLOCK_BYTES_MAX {
        class_of(size) == class_of(other)
    } else {
        usable(size) == usable(other)
    }
}

const fn class(size: usize, run: usize) -> Class {
    let cached = CACHED_BYTES_PER_CLASS / size;
    let cached = if cached > CACHED_BLOCKS_PER_CLASS { CACHED_BLOCKS_PER_CLASS } else { cached };
    Class {
        size: size as u32,
        capacity: (RUN_UNITS[run] * UNIT_BYTES / size) as u32,
        run: run as u8,
        cached_max: cached as u16,
        batch: if cached < 2 { 1 } else { (cached / 2) as u16 },
    }
}

const fn build_classes() -> [Class; CLASSES] {
    let mut classes = [class(8, 0); CLASSES];
    let mut at = 0;
    while at < 64 {
        classes[at] = class((at + 1) * 8, 0);
        at += 1;
    }
    // (run, units that are divided, most blocks in them exclusive, step); each ends at half of its
    // most blocks.
    let doublings = [
        (0, 1, 128, 2),
        (0, 1, 64, 1),
        (0, 2, 64, 1),
        (1, 4, 64, 1),
        (2, 8, 64, 1),
        (3, 16, 64, 1),
    ];
    let mut d = 0;
    while d < doublings.len() {
        let (run, units, most, step) = doublings[d];
        let mut blocks = most - step;
        while blocks >= most / 2 {
            classes[at] = class(units * UNIT_BYTES / blocks / 8 * 8, run);
            at += 1;
            blocks -= step;
        }
        d += 1;
    }
    assert!(at == CLASSES);
    classes
}

const fn build_class_of() -> [u8; BLOCK_BYTES_MAX / 8 + 1] {
    let classes = build_classes();
    let mut table = [0; BLOCK_BYTES_MAX / 8 + 1];
    let mut class = 0;
    let mut words = 0;
    while words < table.len() {
        while (classes[class].size as usize) < words * 8 {
            class += 1;
        }
        table[words] = class as u8;
        words += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_in_steps_of_a_thirtysecond() {
        assert_eq!(CLASS[0].size, 8);
        assert_eq!(CLASS[CLASSES - 1].size as usize, BLOCK_BYTES_MAX);
        for pair in CLASS.windows(2) {
            let step = pair[1].size - pair[0].size;
            assert!(step > 0 && step % 8 == 0, "{pair:?}");
            assert!((step - 8) * 32 < pair[1].size, "{pair:?}");
        }
    }

    #[test]
    fn slabs_have_no_room_for_another_block() {
        for class in &CLASS {
            let slab = RUN_UNITS[class.run as usize] * UNIT_BYTES;
            let used = (class.size * class.capacity) as usize;
            assert!(used <= slab && slab - used < class.size as usize, "{class:?}");
            assert!(class.capacity >= 16, "{class:?}");
        }
    }

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 0..=BLOCK_BYTES_MAX {
            let class = class_of(size) as usize;
            assert!(CLASS[class].size as usize >= size);
            assert!(class == 0 || (CLASS[class - 1].size as usize) < size);
        }
    }

    #[test]
    fn usable_sizes_meet_the_memory_budget() {
        let expected = [(56, 56), (124, 128), (280, 280), (1024, 1024), (1048, 1056), (4120, 4160)];
        for (size, block) in expected {
            assert_eq!(usable(size), block);
        }
        assert_eq!(usable(BLOCK_BYTES_MAX + 1), BLOCK_BYTES_MAX + 8);
    }

    #[test]
    fn whole_lines_are_aligned_to_lines() {
        let aligned = (1..=BLOCK_BYTES_MAX).filter(|size| size % 8 == 0 && alignment(*size) == 64);
        let classes = CLASS.iter().filter(|class| class.size % 64 == 0).count();
        assert_eq!(
            aligned.clone().map(usable).collect::<std::collections::HashSet<_>>().len(),
            classes
        );
        assert!((64..=512).step_by(64).all(|size| alignment(size) == 64));
        assert_eq!((alignment(8), alignment(72), alignment(BLOCK_BYTES_MAX)), (8, 8, 64));
    }

    #[test]
    fn a_cache_is_bounded() {
        let bytes: usize = CLASS.iter().map(|c| c.size as usize * c.cached_max as usize).sum();
        assert!(bytes < 1500 * 1024, "{bytes}");
    }
}
