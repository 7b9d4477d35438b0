//! Where the removal of expired keys goes on (`upkeep/sweep.rs`).

/// Where a thread goes on in the stripe that it claimed last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepPlace {
    pub(crate) stripe: u32,
    pub(crate) db: u16,
    pub(crate) bucket: usize,
}
