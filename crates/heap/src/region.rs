//! The address space of a heap: one reservation, cut into units of 64 KiB, handed out in runs.
//!
//! ```text
//!  base                                     committed                reserved
//!   |  run  |  run |      run      |  fresh  |   no access, no memory   |
//!
//!  owners: 1 byte per unit     in use? evacuating? how many units back does the run begin?
//!  slabs: 1 descriptor per unit, used at the first unit of a run
//! ```
//!
//! Being one range, an address is told apart from foreign ones and turned into its slab with a
//! subtraction, a shift and a load from a byte map that is small enough to stay in the cache. The
//! reservation is several times the physical memory: runs of one length are never joined or split,
//! and even a peak at each length after another fits. A range that is used up, or that the
//! system refuses to reserve, is not an error: the callers turn to the global allocator.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::classes::{RUN_UNITS, UNIT_BYTES};

/// Accessible memory grows in steps of this many units (4 MiB).
const COMMIT_UNITS: usize = 64;
/// Free runs of up to this many units (2 MiB) keep their memory for the next slab.
const RETAINED_UNITS_MAX: usize = 32;
/// The reservation, as a multiple of the physical memory.
const RESERVED_PER_PHYSICAL: usize = 5;
/// Bounds of the reservation, in units: 64 MiB when the process is limited, 16 TiB at the most.
const RESERVED_UNITS: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 28;

/// An owner byte: how many units before this one the run begins.
const OWNER_BACK: u8 = 0x0f;
/// An owner byte: the unit belongs to a slab.
const OWNER_USED: u8 = 0x40;
/// An owner byte: the slab is being evacuated.
const OWNER_EVACUATING: u8 = 0x80;

/// The unit number that stands for no unit, as zeroed descriptors must read as unlinked.
pub const NO_UNIT: u32 = 0;

/// Descriptor of a slab; stored at the first unit of its run, outside of the slab.
///
/// All-zero bytes are a valid value: descriptors are never initialised before use.
#[repr(C)]
pub struct Slab {
    /// The class of the blocks. Changes only while the unit belongs to no class.
    pub class: AtomicU8,
    /// Blocks handed out: in use or in the cache of a thread. Written under the lock of the class.
    pub live: AtomicU32,
    /// Guarded by the lock of the class; of a free run, by the lock of the runs.
    pub links: Links,
}

/// The part of a [`Slab`] that only the holder of its lock looks at.
pub struct Links {
    /// Freed blocks, linked through their first word.
    pub free: GuardedPointer,
    /// Blocks cut so far; those beyond have never been touched.
    pub carved: Guarded,
    /// Neighbours in the list that holds the slab.
    pub next: Guarded,
    /// See `next`; unused in lists of free runs.
    pub prev: Guarded,
    /// The list of the class that holds the slab.
    pub bin: Guarded,
}

impl Links {
    /// Resets the descriptor to that of a slab without blocks.
    pub fn reset(&self, bin: u32) {
        self.free.set(ptr::null_mut());
        self.carved.set(0);
        self.next.set(NO_UNIT);
        self.prev.set(NO_UNIT);
        self.bin.set(bin);
    }
}

/// A number that is read and written under one lock, which orders it: plain loads and stores.
#[repr(transparent)]
pub struct Guarded(AtomicU32);

impl Guarded {
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A pointer that is read and written under one lock.
#[repr(transparent)]
pub struct GuardedPointer(AtomicPtr<u8>);

impl GuardedPointer {
    #[inline]
    pub fn get(&self) -> *mut u8 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set(&self, value: *mut u8) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The reservation and its side tables.
pub struct Region {
    base: NonNull<u8>,
    units: usize,
    owners: Mapping,
    slabs: Mapping,
    runs: RunsLock,
    /// Held for its Drop; `base` points into it.
    _blocks: Mapping,
}

/// Padded, lest the rest of the heap, which is read on every free, shares its cache line.
#[repr(align(64))]
struct RunsLock(Mutex<Runs>);

/// Free units. Unit 0 is never handed out: its number means none.
struct Runs {
    /// The first unit that was never part of a run.
    fresh: usize,
    /// Units below this are accessible.
    committed: usize,
    /// Free runs without memory behind them, by length.
    clean: [u32; RUN_UNITS.len()],
    /// Free runs that still have their memory, by length.
    retained: [u32; RUN_UNITS.len()],
    retained_units: usize,
    /// Least of `retained_units` since [`Region::purge_unused`] looked: no thread wanted these.
    retained_min: usize,
}

/// Sizes in bytes.
pub struct RegionStats {
    /// Memory that the region may access.
    pub committed: u64,
    /// Memory of free runs that is kept for the next slab.
    pub retained: u64,
}

// SAFETY: the memory is owned by the region for its whole life, and descriptors are atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves address space in proportion to the physical memory, or as much as the system
    /// grants.
    pub fn new() -> Region {
        let mut units = (physical_bytes() / UNIT_BYTES * RESERVED_PER_PHYSICAL)
            .clamp(*RESERVED_UNITS.start(), *RESERVED_UNITS.end());
        while units >= *RESERVED_UNITS.start() {
            if let Some(region) = Region::reserve(units) {
                return region;
            }
            units /= 2;
        }
        Region::empty()
    }

    /// Reserves address space for `units` units; `None` if the system refuses.
    pub fn reserve(units: usize) -> Option<Region> {
        let owners = Mapping::new(units, libc::PROT_READ | libc::PROT_WRITE)?;
        let slabs = Mapping::new(units * size_of::<Slab>(), libc::PROT_READ | libc::PROT_WRITE)?;
        // One unit more than used, so that the first one can be aligned.
        let blocks = Mapping::new((units + 1) * UNIT_BYTES, libc::PROT_NONE)?;
        // Pages are the unit of giving memory back, and sparse slabs must not fill huge ones.
        blocks.advise(libc::MADV_NOHUGEPAGE);
        let skip = blocks.start.as_ptr().align_offset(UNIT_BYTES);
        // SAFETY: `skip` is less than a unit, and the mapping has a unit to spare.
        let base = unsafe { blocks.start.add(skip) };
        Some(Region { base, units, owners, slabs, runs: RunsLock::new(), _blocks: blocks })
    }

    /// A region of no units: every request is refused.
    fn empty() -> Region {
        Region {
            base: NonNull::dangling(),
            units: 0,
            owners: Mapping::EMPTY,
            slabs: Mapping::EMPTY,
            runs: RunsLock::new(),
            _blocks: Mapping::EMPTY,
        }
    }

    /// The first unit of the slab that holds `block`; `None` if the block is not of this region.
    #[inline]
    pub fn slab_of(&self, block: *const u8) -> Option<u32> {
        let unit = self.unit_of(block)?;
        let owner = self.owner(unit).load(Ordering::Relaxed);
        Some(unit as u32 - u32::from(owner & OWNER_BACK))
    }

    /// Whether the slab that holds `block` is marked for evacuation.
    #[inline]
    pub fn is_evacuating(&self, block: *const u8) -> bool {
        self.unit_of(block)
            .is_some_and(|unit| self.owner(unit).load(Ordering::Relaxed) & OWNER_EVACUATING != 0)
    }

    /// Whether the slab that begins at `unit` is marked for evacuation.
    #[inline]
    pub fn is_marked(&self, unit: u32) -> bool {
        self.owner(unit as usize).load(Ordering::Relaxed) & OWNER_EVACUATING != 0
    }

    /// Whether a slab of `class` begins at `unit`. Certain while the caller holds the lock of
    /// `class`.
    pub fn is_slab_of(&self, unit: u32, class: u8) -> bool {
        // Acquire: pairs with `own`, so that a slab that changed hands shows its new class.
        let owner = self.owner(unit as usize).load(Ordering::Acquire);
        owner & OWNER_USED != 0 && self.slab(unit).class.load(Ordering::Relaxed) == class
    }

    /// Makes a run a slab, marked for evacuation or not. The caller holds the lock of the class
    /// that is noted in the descriptor.
    pub fn own(&self, unit: u32, run: usize, evacuating: bool) {
        for back in 0..RUN_UNITS[run] {
            let owner = OWNER_USED | back as u8 | if evacuating { OWNER_EVACUATING } else { 0 };
            self.owner(unit as usize + back).store(owner, Ordering::Release);
        }
    }

    /// Undoes `own`, under the same lock; the run is yet to be released.
    pub fn disown(&self, unit: u32, run: usize) {
        for back in 0..RUN_UNITS[run] {
            self.owner(unit as usize + back).store(0, Ordering::Relaxed);
        }
    }

    /// The units at which slabs begin, as they are now; others may come and go meanwhile.
    pub fn slab_units(&self) -> impl Iterator<Item = u32> + '_ {
        let end = self.lock_runs().fresh;
        (1..end)
            .filter(|unit| {
                let owner = self.owner(*unit).load(Ordering::Relaxed);
                owner & OWNER_USED != 0 && owner & OWNER_BACK == 0
            })
            .map(|unit| unit as u32)
    }

    /// The descriptor of the run that begins at `unit`.
    #[inline]
    pub fn slab(&self, unit: u32) -> &Slab {
        assert!((unit as usize) < self.units);
        // SAFETY: the table has a descriptor for each unit, and zeroed memory is a valid
        // descriptor.
        unsafe { self.slabs.start.cast::<Slab>().add(unit as usize).as_ref() }
    }

    /// The first byte of `unit`.
    #[inline]
    pub fn address(&self, unit: u32) -> *mut u8 {
        assert!((unit as usize) < self.units);
        self.base.as_ptr().wrapping_add(unit as usize * UNIT_BYTES)
    }

    /// Hands out a run, to be owned; `None` when the region is exhausted.
    pub fn take_run(&self, run: usize) -> Option<u32> {
        let mut runs = self.lock_runs();
        match self.pop(&mut runs, run) {
            Some(unit) => Some(unit),
            None => self.commit_fresh(&mut runs, RUN_UNITS[run]),
        }
    }

    /// Takes back a disowned run. Its memory returns to the system unless little is retained.
    pub fn release_run(&self, unit: u32, run: usize) {
        let mut runs = self.lock_runs();
        if runs.retained_units + RUN_UNITS[run] <= RETAINED_UNITS_MAX {
            runs.retained_units += RUN_UNITS[run];
            self.push(&mut runs, run, unit, |runs| &mut runs.retained);
            return;
        }
        drop(runs);
        self.discard(unit, run);
    }

    /// Gives the memory of all free runs back to the system.
    pub fn purge(&self) {
        self.purge_units(usize::MAX);
    }

    /// Returns retained memory to the system that no slab has needed since the last call.
    pub fn purge_unused(&self) {
        let unused = self.lock_runs().retained_min;
        self.purge_units(unused);
        let mut runs = self.lock_runs();
        runs.retained_min = runs.retained_units;
    }

    /// Returns the memory of free runs to the system, at most `left` units.
    fn purge_units(&self, mut left: usize) {
        for (run, &len) in RUN_UNITS.iter().enumerate() {
            while len <= left {
                let mut runs = self.lock_runs();
                if runs.retained[run] == NO_UNIT {
                    break;
                }
                let Some(unit) = self.pop(&mut runs, run) else { break };
                drop(runs);
                self.discard(unit, run);
                left -= len;
            }
        }
    }

    /// Current sizes.
    pub fn stats(&self) -> RegionStats {
        let runs = self.lock_runs();
        RegionStats {
            committed: (runs.committed * UNIT_BYTES) as u64,
            retained: (runs.retained_units * UNIT_BYTES) as u64,
        }
    }

    /// Drops the pages of a run that no other thread knows, then lists it as free.
    fn discard(&self, unit: u32, run: usize) {
        let len = RUN_UNITS[run] * UNIT_BYTES;
        // SAFETY: the run is within the committed part and holds no block. Should the call fail,
        // the pages merely stay resident.
        unsafe { libc::madvise(self.address(unit).cast(), len, libc::MADV_DONTNEED) };
        let mut runs = self.lock_runs();
        self.push(&mut runs, run, unit, |runs| &mut runs.clean);
    }

    /// Pops a free run, preferably one with memory.
    fn pop(&self, runs: &mut Runs, run: usize) -> Option<u32> {
        let head = if runs.retained[run] != NO_UNIT {
            runs.retained_units -= RUN_UNITS[run];
            runs.retained_min = runs.retained_min.min(runs.retained_units);
            &mut runs.retained[run]
        } else {
            &mut runs.clean[run]
        };
        let unit = *head;
        if unit == NO_UNIT {
            return None;
        }
        *head = self.slab(unit).links.next.get();
        Some(unit)
    }

    fn push(
        &self,
        runs: &mut Runs,
        run: usize,
        unit: u32,
        list: fn(&mut Runs) -> &mut [u32; RUN_UNITS.len()],
    ) {
        let head = &mut list(runs)[run];
        self.slab(unit).links.next.set(*head);
        *head = unit;
    }

    /// Cuts `len` units from the end of the used part, making more memory accessible as needed.
    fn commit_fresh(&self, runs: &mut Runs, len: usize) -> Option<u32> {
        let unit = runs.fresh;
        let end = unit + len;
        if end > self.units {
            return None;
        }
        if end > runs.committed {
            let grown = end.next_multiple_of(COMMIT_UNITS).min(self.units);
            // SAFETY: the range is within the reservation and not handed out yet.
            let failed = unsafe {
                libc::mprotect(
                    self.base.as_ptr().add(runs.committed * UNIT_BYTES).cast(),
                    (grown - runs.committed) * UNIT_BYTES,
                    libc::PROT_READ | libc::PROT_WRITE,
                )
            };
            if failed != 0 {
                return None;
            }
            runs.committed = grown;
        }
        runs.fresh = end;
        Some(unit as u32)
    }

    #[inline]
    fn unit_of(&self, block: *const u8) -> Option<usize> {
        let unit = (block as usize).wrapping_sub(self.base.as_ptr() as usize) / UNIT_BYTES;
        (unit < self.units).then_some(unit)
    }

    #[inline]
    fn owner(&self, unit: usize) -> &AtomicU8 {
        debug_assert!(unit < self.units);
        // SAFETY: the map has a byte for each unit; callers pass units that `unit_of` or a run
        // yields.
        unsafe { self.owners.start.cast::<AtomicU8>().add(unit).as_ref() }
    }

    fn lock_runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunsLock {
    fn new() -> RunsLock {
        let none = [NO_UNIT; RUN_UNITS.len()];
        let runs = Runs {
            fresh: 1,
            committed: 0,
            clean: none,
            retained: none,
            retained_units: 0,
            retained_min: 0,
        };
        RunsLock(Mutex::new(runs))
    }
}

/// An anonymous private mapping, zeroed on first touch.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    const EMPTY: Mapping = Mapping { start: NonNull::dangling(), len: 0 };

    fn new(len: usize, protection: libc::c_int) -> Option<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: asks for a new mapping at an address of the system's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast()).map(|start| Mapping { start, len })
    }

    /// A hint; a system without the advice works without.
    fn advise(&self, advice: libc::c_int) {
        // SAFETY: the range is this mapping, and the advices used do not change its contents.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the range was mapped by `new` and nothing uses it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

fn physical_bytes() -> usize {
    // SAFETY: plain queries without preconditions; they answer -1 when unknown.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(page).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_region_refuses_and_owns_nothing() {
        let region = Region::empty();
        assert!(region.take_run(0).is_none());
        assert!(region.slab_of(&0u8).is_none());
        assert!(!region.is_evacuating(&0u8));
        assert_eq!(region.slab_units().count(), 0);
    }

    #[test]
    fn an_exhausted_region_refuses_and_recovers() {
        let region = Region::reserve(34).expect("2 MiB can be reserved");
        let runs: Vec<u32> = std::iter::from_fn(|| region.take_run(3)).collect();
        assert_eq!(runs, [1, 9, 17, 25]);
        assert_eq!(region.take_run(0), Some(33));
        assert_eq!(region.take_run(0), None);
        region.release_run(17, 3);
        assert_eq!(region.take_run(3), Some(17));
    }

    #[test]
    fn inner_addresses_find_the_first_unit() {
        let region = Region::reserve(64).expect("4 MiB can be reserved");
        let unit = region.take_run(2).expect("room");
        region.own(unit, 2, false);
        for inner in 0..4 {
            assert_eq!(region.slab_of(region.address(unit + inner)), Some(unit));
        }
        region.own(unit, 2, true);
        assert!(region.is_evacuating(region.address(unit + 3)) && region.is_marked(unit));
    }

    #[test]
    fn memory_beyond_the_retained_is_given_back() {
        let region = Region::reserve(256).expect("16 MiB can be reserved");
        let runs: Vec<u32> = (0..12).map(|_| region.take_run(3).expect("room")).collect();
        for unit in &runs {
            // SAFETY: the run was just handed out.
            unsafe { region.address(*unit).write(1) };
            region.release_run(*unit, 3);
        }
        assert_eq!(region.stats().retained as usize, RETAINED_UNITS_MAX * UNIT_BYTES);
        region.purge();
        assert_eq!(region.stats().retained, 0);
        let unit = region.take_run(3).expect("room");
        // SAFETY: the run was just handed out; given back memory reads as zeroes.
        assert_eq!(unsafe { region.address(unit).read() }, 0);
    }

    #[test]
    fn what_nobody_wants_for_a_while_is_given_back() {
        let region = Region::reserve(256).expect("16 MiB can be reserved");
        let runs: Vec<u32> = (0..8).map(|_| region.take_run(0).expect("room")).collect();
        runs.iter().for_each(|unit| region.release_run(*unit, 0));
        let retained = || region.stats().retained as usize / UNIT_BYTES;
        region.purge_unused();
        assert_eq!(retained(), 8);
        let wanted: Vec<u32> = (0..3).map(|_| region.take_run(0).expect("room")).collect();
        wanted.iter().for_each(|unit| region.release_run(*unit, 0));
        region.purge_unused();
        assert_eq!(retained(), 3);
        region.purge_unused();
        assert_eq!(retained(), 0);
    }
}
