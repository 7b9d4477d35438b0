//! What a stripe remembers of keys that S3-FIFO evicted from the small queue: should one be set again soon, it goes
//! straight to the main queue.
//!
//! One 16-bit fingerprint per key of the stripe or so, direct-mapped: an older one is overwritten by a newer one, so
//! that memory of an eviction fades after about as many more.

use crate::hash::KeyHash;

/// Fingerprints of evicted keys. The lock of the stripe guards it.
pub(crate) struct Ghost {
    /// A power of two of them; 0 stands for none.
    fingerprints: Box<[u16]>,
}

impl Ghost {
    /// Room for the evictions of a stripe with `keys` keys.
    pub fn new(keys: usize) -> Self {
        let len = keys.clamp(LEN_MIN, LEN_MAX).next_power_of_two();
        Ghost { fingerprints: vec![0; len].into() }
    }

    /// True if the stripe has outgrown it, or has shrunk to less than a quarter.
    pub fn misfits(&self, keys: usize) -> bool {
        let len = self.fingerprints.len();
        keys > len * 2 && len < LEN_MAX || keys < len / 4 && len > LEN_MIN
    }

    /// Bytes that it occupies.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.fingerprints)
    }

    /// Remembers an eviction.
    pub fn remember(&mut self, hash: KeyHash) {
        let at = self.place(hash);
        self.fingerprints[at] = hash.tag();
    }

    /// Whether the key was evicted not long ago; if so it is forgotten.
    pub fn recall(&mut self, hash: KeyHash) -> bool {
        let at = self.place(hash);
        let known = self.fingerprints[at] == hash.tag();
        if known {
            self.fingerprints[at] = 0;
        }
        known
    }

    fn place(&self, hash: KeyHash) -> usize {
        ((u64::from(hash.position()) * self.fingerprints.len() as u64) >> 32) as usize
    }
}

const LEN_MIN: usize = 4;
const LEN_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn recalls_the_latest_evictions_once() {
        let hasher = KeyHasher::new(1, 0);
        let hashes: Vec<KeyHash> = (0..4000u32).map(|i| hasher.hash(&i.to_le_bytes())).collect();
        let mut ghost = Ghost::new(1000);
        hashes.iter().for_each(|hash| ghost.remember(*hash));
        let recalled = |ghost: &mut Ghost, range: std::ops::Range<usize>| {
            hashes[range].iter().filter(|hash| ghost.recall(**hash)).count()
        };
        assert!(recalled(&mut ghost, 0..1000) < 100);
        assert!(recalled(&mut ghost, 3500..4000) > 350);
        assert_eq!(recalled(&mut ghost, 3500..4000), 0);
    }
}
