//! Emptying sparse slabs, so that their memory can be given back.
//!
//! After most keys of a large keyspace have gone, nearly every slab still holds a few blocks. Only
//! the owner of the blocks can move them, because it alone knows the pointers to them. It begins an
//! evacuation, walks over its blocks, and replaces each one that [`Evacuation::contains`] by a
//! copy:
//!
//! ```text
//!   begin ── mark the sparsest slabs: nothing is taken from them any more
//!     │      workers trim their caches at their next tick
//!   walk ─── under the lock of the entry: contains(old)? new = alloc; copy; point to new; free
//!     │      a marked slab is released with its last block
//!   end ──── slabs that still hold blocks, those missed by the walk, are used again
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::classes::{CLASS, CLASSES};
use super::slabs::Slabs;

/// Steps of occupancy in which slabs are ranked.
const RANKS: usize = 32;
/// Slabs fuller than this many ranks are not worth moving: three quarters.
const RANKS_SPARSE: usize = RANKS * 3 / 4;
/// Fraction of a class's blocks (1 in this many) that stays free after an evacuation, as room for
/// the workers.
const SPARE_SHARE: u64 = 64;

/// An evacuation under way. Ends when dropped.
pub struct Evacuation {
    shared: Arc<Shared>,
    marked: Vec<u32>,
}

impl Evacuation {
    /// Marks slabs; `None` if another evacuation is under way or no slab is worth it.
    pub(super) fn begin(shared: &Arc<Shared>) -> Option<Evacuation> {
        let slabs = &shared.slabs;
        if slabs.evacuating.swap(true, Ordering::AcqRel) {
            return None;
        }
        let mut evacuation = Evacuation { shared: Arc::clone(shared), marked: Vec::new() };
        let mut plan = Plan::new(slabs);
        for unit in slabs.region.slab_units() {
            let (class, rank, live) = rank(slabs, unit);
            if plan.wants(class, rank) && slabs.mark_sparse(unit, class, live) {
                plan.took(class, rank);
                evacuation.marked.push(unit);
            }
        }
        if evacuation.marked.is_empty() {
            return None;
        }
        slabs.trim_epoch.fetch_add(1, Ordering::Relaxed);
        Some(evacuation)
    }

    /// Whether `block` is to be moved. A few nanoseconds; any address may be asked for.
    #[inline]
    pub fn contains(&self, block: *const u8) -> bool {
        self.shared.slabs.region.is_evacuating(block)
    }

    /// Number of marked slabs.
    pub fn slabs(&self) -> usize {
        self.marked.len()
    }

    /// Ends the evacuation; the same as dropping it.
    pub fn end(self) {}
}

impl Drop for Evacuation {
    fn drop(&mut self) {
        for unit in &self.marked {
            self.shared.slabs.unmark(*unit);
        }
        self.shared.slabs.evacuating.store(false, Ordering::Release);
    }
}

/// Numbers of slabs to mark, by class and rank.
struct Plan {
    quotas: Vec<[u32; RANKS]>,
}

impl Plan {
    /// Counts slabs by occupancy without stopping anyone: the outcome is an estimate, which is
    /// enough.
    fn new(slabs: &Slabs) -> Plan {
        let mut quotas = vec![[0; RANKS]; CLASSES];
        for unit in slabs.region.slab_units() {
            let (class, rank, _) = rank(slabs, unit);
            quotas[class as usize][rank] += 1;
        }
        for (class, quotas) in quotas.iter_mut().enumerate() {
            let tally = slabs.tally(class as u8);
            // `needed` slabs hold all blocks of the class; the others may be evacuated, the
            // sparsest first.
            let needed =
                (tally.live + tally.live / SPARE_SHARE).div_ceil(CLASS[class].capacity.into());
            let mut surplus = tally.slabs.saturating_sub(needed);
            for (rank, quota) in quotas.iter_mut().enumerate() {
                let taken = if rank < RANKS_SPARSE { surplus.min((*quota).into()) } else { 0 };
                *quota = taken as u32;
                surplus -= taken;
            }
        }
        Plan { quotas }
    }

    fn wants(&self, class: u8, rank: usize) -> bool {
        self.quotas[class as usize][rank] > 0
    }

    fn took(&mut self, class: u8, rank: usize) {
        self.quotas[class as usize][rank] -= 1;
    }
}

/// The class, the rank by occupancy and the live blocks of a slab, read without its lock.
fn rank(slabs: &Slabs, unit: u32) -> (u8, usize, u32) {
    let slab = slabs.region.slab(unit);
    let class = slab.class.load(Ordering::Relaxed);
    let live = slab.live.load(Ordering::Relaxed);
    let rank = live as usize * RANKS / CLASS[class as usize].capacity as usize;
    // A slab that is changing hands may show more blocks than its class has.
    (class, rank.min(RANKS - 1), live)
}
