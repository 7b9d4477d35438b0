//! A Bloom filter of the keys in a side table of a stripe: a key that is not there is mostly told apart by one cache line,
//! instead of those of a hash table.

use crate::hash::KeyHash;

/// Lines of 512 bits. With the default number of stripes and a million keys a line holds some 60 keys, and one in twenty
/// of other keys passes.
const LINES: usize = 4;

/// Keys that may have been added since the filter was made anew, beyond twice those that are there.
const WORN_MIN: usize = 256;

/// The filter. Keys are added; those that have gone leave it when it is made anew.
#[derive(Default)]
pub(crate) struct Filter {
    lines: [Line; LINES],
    added: usize,
}

#[derive(Default)]
#[repr(align(64))]
struct Line([u64; 8]);

impl Filter {
    /// Adds a key.
    pub fn add(&mut self, key: KeyHash) {
        let Line(words) = &mut self.lines[line(key)];
        for bit in bits(key) {
            words[bit / 64] |= 1 << (bit % 64);
        }
        self.added += 1;
    }

    /// False if the key was not added.
    #[inline]
    pub fn may_hold(&self, key: KeyHash) -> bool {
        let Line(words) = &self.lines[line(key)];
        bits(key).iter().all(|bit| words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Whether so many keys have gone since it was made anew that it should be, where `keys` are there.
    pub fn is_worn(&self, keys: usize) -> bool {
        self.added > keys * 2 + WORN_MIN
    }

    /// Makes it anew of the keys that are there.
    pub fn renew(&mut self, keys: impl Iterator<Item = KeyHash>) {
        *self = Filter::default();
        keys.for_each(|key| self.add(key));
    }

    /// The line that [`Filter::may_hold`] reads.
    #[inline]
    pub fn line_of(&self, key: KeyHash) -> *const u8 {
        (&raw const self.lines[line(key)]).cast()
    }
}

#[inline]
fn line(key: KeyHash) -> usize {
    (key.position() >> 16) as usize % LINES
}

#[inline]
fn bits(key: KeyHash) -> [usize; 2] {
    [usize::from(key.tag()) % 512, key.position() as usize % 512]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn what_was_added_passes_and_little_else() {
        let hasher = KeyHasher::new(1, 0);
        let hash = |n: u32| hasher.hash(&n.to_le_bytes());
        let passing =
            |filter: &Filter| (1000..11_000).filter(|&n| filter.may_hold(hash(n))).count();
        let mut filter = Filter::default();
        (0..250).for_each(|n| filter.add(hash(n)));
        assert!((0..250).all(|n| filter.may_hold(hash(n))));
        assert!(passing(&filter) < 1500, "{} of 10,000 pass", passing(&filter));
        assert!(!filter.is_worn(250));
        (250..500).for_each(|n| filter.add(hash(n)));
        assert!(filter.is_worn(10));
        filter.renew((0..10).map(hash));
        assert!((0..10).all(|n| filter.may_hold(hash(n))));
        assert!(passing(&filter) < 100, "{} of 10,000 pass", passing(&filter));
    }
}
