//! S3-FIFO ghost queue of a stripe: fingerprints of keys evicted from the small queue. A key that
//! is set again soon goes straight to the main queue.
//!
//! Holds about as many fingerprints as the stripe has keys, the oldest dropped first. A longer
//! queue would promote keys that return too seldom, which costs more hits than it wins. A
//! fingerprint has 16 bits and is stored in a set chosen by the hash; each set is a FIFO queue.

use crate::structures::key_hash::KeyHash;

/// Fingerprints of evicted keys. The lock of the stripe guards it.
pub(crate) struct Ghost {
    sets: Box<[Set]>,
    /// Number of fingerprints in use per set.
    depth: usize,
}

/// A queue, the youngest first; 0 is an empty place.
type Set = [u16; DEPTH_MAX];

const DEPTH_MAX: usize = 16;

impl Ghost {
    /// Room for the evictions of a stripe with `keys` keys.
    pub fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(DEPTH_MAX).clamp(1, SETS_MAX);
        let depth = keys.div_ceil(sets).clamp(1, DEPTH_MAX);
        Ghost { sets: vec![[0; DEPTH_MAX]; sets].into(), depth }
    }

    /// True if it is much too small or too large for a stripe with `keys` keys.
    pub fn misfits(&self, keys: usize) -> bool {
        let room = self.sets.len() * self.depth;
        keys > room + room / 2 + DEPTH_MAX / 4 && self.sets.len() < SETS_MAX
            || keys + DEPTH_MAX / 4 < room / 2
    }

    /// Bytes that it occupies.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.sets)
    }

    /// Adds the fingerprint of an evicted key.
    pub fn remember(&mut self, hash: KeyHash) {
        let depth = self.depth;
        let set = self.set(hash);
        set.copy_within(..depth - 1, 1);
        set[0] = hash.tag();
    }

    /// Whether the key was evicted recently; if so, removes it from the queue.
    pub fn recall(&mut self, hash: KeyHash) -> bool {
        let found = self.set(hash).iter_mut().find(|known| **known == hash.tag());
        found.map(|known| *known = 0).is_some()
    }

    fn set(&mut self, hash: KeyHash) -> &mut Set {
        let at = (u64::from(hash.position()) * self.sets.len() as u64) >> 32;
        &mut self.sets[at as usize]
    }
}

const SETS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::key_hash::KeyHasher;

    #[test]
    fn recalls_the_latest_evictions_once() {
        let hasher = KeyHasher::new(1, 0);
        let hashes: Vec<KeyHash> = (0..4000u32).map(|i| hasher.hash(&i.to_le_bytes())).collect();
        let mut ghost = Ghost::new(1000);
        hashes.iter().for_each(|hash| ghost.remember(*hash));
        let recalled = |ghost: &mut Ghost, range: std::ops::Range<usize>| {
            hashes[range].iter().filter(|hash| ghost.recall(**hash)).count()
        };
        assert!(recalled(&mut ghost, 0..2000) < 20);
        assert!(recalled(&mut ghost, 3500..4000) > 480);
        assert!(recalled(&mut ghost, 3500..4000) < 20);
    }
}
