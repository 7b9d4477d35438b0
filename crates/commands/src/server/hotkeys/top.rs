//! Heavy hitters: the heaviest keys in a weighted stream, in bounded memory.

use std::collections::HashMap;

/// Stored keys per reported key. A key with a larger share of the total weight than one per stored
/// key is always found.
const REMEMBERED: usize = 16;

/// Sums of weights by key. Above twice the number of keys to store, the lighter half is dropped. A
/// new key starts with the weight of the heaviest key dropped, because it may have been that one.
/// So a sum is too large by that at most, and never too small (Metwally et al., Efficient
/// Computation of Frequent and Top-k Elements in Data Streams, 2005, in rounds).
#[derive(Debug)]
pub struct Top {
    wanted: usize,
    sums: HashMap<Box<[u8]>, u64>,
    forgotten_max: u64,
}

impl Top {
    /// Creates an empty sketch that reports `wanted` keys.
    pub fn new(wanted: usize) -> Self {
        Top { wanted, sums: HashMap::new(), forgotten_max: 0 }
    }

    /// Adds weight to a key.
    pub fn add(&mut self, key: &[u8], weight: u64) {
        if let Some(sum) = self.sums.get_mut(key) {
            *sum += weight;
            return;
        }
        if self.sums.len() >= 2 * REMEMBERED * self.wanted {
            self.forget_half();
        }
        self.sums.insert(key.into(), self.forgotten_max + weight);
    }

    /// Heaviest keys with their sums, heaviest first, without keys of weight 0.
    pub fn heaviest(&self) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> = self
            .sums
            .iter()
            .map(|(key, &sum)| (&key[..], sum))
            .filter(|(_, sum)| *sum > 0)
            .collect();
        all.sort_unstable_by(|one, other| (other.1, one.0).cmp(&(one.1, other.0)));
        all.truncate(self.wanted);
        all
    }

    fn forget_half(&mut self) {
        let mut sums: Vec<u64> = self.sums.values().copied().collect();
        let at = sums.len() / 2;
        let (_, &mut heaviest, _) = sums.select_nth_unstable(at);
        self.forgotten_max = self.forgotten_max.max(heaviest);
        self.sums.retain(|_, sum| *sum > heaviest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_keys_are_found_among_many() {
        let mut top = Top::new(10);
        for i in 0..200_000u32 {
            let key = if i % 4 == 0 { i / 4 % 10 } else { i };
            top.add(key.to_string().as_bytes(), 3);
        }
        let heaviest = top.heaviest();
        assert_eq!(heaviest.len(), 10);
        assert!(top.sums.len() <= 2 * REMEMBERED * 10);
        for (key, sum) in heaviest {
            let key: u32 = std::str::from_utf8(key).unwrap().parse().unwrap();
            assert!(key < 10, "{key}");
            assert!((15_000..=15_000 + top.forgotten_max).contains(&sum), "{sum}");
        }
    }

    #[test]
    fn equal_keys_are_in_order() {
        let mut top = Top::new(2);
        ["c", "a", "b"].iter().for_each(|key| top.add(key.as_bytes(), 1));
        top.add(b"none", 0);
        assert_eq!(top.heaviest(), [(&b"a"[..], 1), (&b"b"[..], 1)]);
    }
}
