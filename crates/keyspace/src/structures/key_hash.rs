//! The hash of a key, computed once per command: its bits choose the stripe, the position in the
//! table and the tag.

use crate::structures::bucket::TAG_MASK;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 64 bits of hash: the top bits are the stripe's number, the next 32 the position inside it, the
/// low 15 the tag.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyHash {
    bits: u64,
    stripe_bits: u32,
}

impl KeyHash {
    /// All bits.
    #[inline]
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// The stripe's number.
    #[inline]
    pub fn stripe(self) -> u32 {
        // Two shifts, because a shift by 64, for a single stripe, is undefined.
        (self.bits >> 1 >> (63 - self.stripe_bits)) as u32
    }

    /// Position in the order of the stripe's keys.
    #[inline]
    pub fn position(self) -> u32 {
        (self.bits << self.stripe_bits >> 32) as u32
    }

    /// This hash in a table of 2^`depth` parts (`depth` at most 16): [`KeyHash::stripe`] is then
    /// the part, and [`KeyHash::position`] the place inside it.
    #[inline]
    pub(crate) fn at_depth(self, depth: u32) -> Self {
        KeyHash { stripe_bits: depth, ..self }
    }

    /// The tag kept in the slot, of 15 bits; never 0, which marks an empty slot.
    #[inline]
    pub fn tag(self) -> u16 {
        let tag = self.bits as u16 & TAG_MASK;
        if tag == 0 { 1 } else { tag }
    }
}

/// Hashes with a random seed, so that no client can choose keys that collide.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    state: SeedableRandomState,
    stripe_bits: u32,
}

impl KeyHasher {
    /// A hasher for `2^stripe_bits` stripes (at most 2^16).
    pub fn new(seed: u64, stripe_bits: u32) -> Self {
        assert!(stripe_bits <= 16, "stripe, position and tag must not overlap");
        KeyHasher {
            state: SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
            stripe_bits,
        }
    }

    /// A hasher with a new seed derived from this one's; different at each call. Keys in the hash
    /// order of one hasher are in random order for the other: filling a table in its own hash order
    /// would crowd the first buckets.
    pub fn reseeded(&self) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let seed = self.hash(&COUNT.fetch_add(1, Relaxed).to_le_bytes()).bits;
        KeyHasher::new(seed, self.stripe_bits)
    }

    /// Hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let mut hasher = self.state.build_hasher();
        hasher.write(key);
        KeyHash { bits: hasher.finish(), stripe_bits: self.stripe_bits }
    }
}

/// A key with its hash, which is computed once per command.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key's bytes.
    pub bytes: &'a [u8],
    /// Hash of the key, from [`crate::Handle::hash`].
    pub hash: KeyHash,
}
