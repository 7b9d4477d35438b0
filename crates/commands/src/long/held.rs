//! Stripes held by helper threads, shared by all threads.

use petrel_keyspace::KeyHash;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Upper bound on a keyspace's stripes.
const STRIPES_MAX: usize = 1 << 16;

/// The stripes that helpers hold, and the flag that ends their commands.
#[derive(Debug)]
pub struct LongHeld {
    is_ending: AtomicBool,
    count: AtomicUsize,
    stripes: Box<[AtomicU64]>,
}

impl Default for LongHeld {
    fn default() -> Self {
        let stripes = (0..STRIPES_MAX / 64).map(|_| AtomicU64::new(0)).collect();
        LongHeld { is_ending: AtomicBool::new(false), count: AtomicUsize::new(0), stripes }
    }
}

impl LongHeld {
    /// Ends the helpers' commands at shutdown.
    pub fn end(&self) {
        self.is_ending.store(true, Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Whether a helper holds any stripe.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether a helper holds the stripe of a key.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        let stripe = hash.stripe() as usize;
        self.any() && self.stripes[stripe / 64].load(Relaxed) >> (stripe % 64) & 1 != 0
    }

    pub(super) fn add(&self, stripe: u32) {
        let bit = 1 << (stripe % 64);
        self.stripes[stripe as usize / 64].fetch_or(bit, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    pub(super) fn remove(&self, stripe: u32) {
        let bit: u64 = 1 << (stripe % 64);
        self.stripes[stripe as usize / 64].fetch_and(!bit, Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }
}
