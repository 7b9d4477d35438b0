//! Keys of requests and lengths of values.
//!
//! A key is a number from 0 to `count - 1`, written as `key:` and decimal digits. Lengths can be a
//! function of the key alone, so that a GET can be checked without a record of stored values.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::random::{Random, mix, scale};
use crate::zipf::Zipf;

/// Exponent of [`KeyOrder::Zipf`], as in YCSB.
const ALPHA: f64 = 0.99;

/// Sizes of values in bytes, uniform from `min` to `max`, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct ValueSizes {
    /// Smallest, bytes.
    pub min: u32,
    /// Largest, bytes.
    pub max: u32,
}

impl ValueSizes {
    /// The largest value that may be asked for: 512 MB, as in Redis.
    pub const LIMIT: u32 = 512 * 1024 * 1024;

    /// All values of one size.
    pub fn fixed(size: u32) -> ValueSizes {
        ValueSizes { min: size, max: size }
    }

    /// Mean size in bytes.
    pub fn mean(self) -> f64 {
        (f64::from(self.min) + f64::from(self.max)) / 2.0
    }

    /// The size that a random number of 64 bits draws.
    #[inline]
    pub fn draw(self, random: u64) -> u32 {
        let span = u64::from(self.max - self.min) + 1;
        self.min + scale(random, span) as u32
    }
}

impl FromStr for ValueSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueSizes, String> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let size = |part: &str| {
            part.parse::<u32>()
                .ok()
                .filter(|size| *size <= ValueSizes::LIMIT)
                .ok_or_else(|| format!("'{part}' is not a size in bytes up to 512 MB"))
        };
        let sizes = ValueSizes { min: size(min)?, max: size(max)? };
        if sizes.min > sizes.max {
            return Err(format!("'{text}' begins above its end"));
        }
        Ok(sizes)
    }
}

/// Order in which a connection names keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum KeyOrder {
    /// Each drawn from the whole key space.
    Random,
    /// Each connection walks its own part of the key space, again and again.
    Sequential,
    /// Each drawn by its popularity, the lowest number most often.
    Zipf,
}

/// The share of a key space that a load touches, chosen by the key's hash.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Share {
    /// Every key.
    All,
    /// The given per cent of the keys.
    First(u32),
    /// The keys that [`Share::First`] of the same number leaves out.
    Rest(u32),
}

impl Share {
    /// Whether the share holds a key.
    pub fn holds(self, key: u64) -> bool {
        let first = |percent: u32| scale(mix(key ^ 0x5ba7_e000), 100) < u64::from(percent);
        match self {
            Share::All => true,
            Share::First(percent) => first(percent),
            Share::Rest(percent) => !first(percent),
        }
    }
}

/// The set of keys of a load.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct KeySpace {
    /// Number of keys.
    pub count: u64,
    /// Length of each key in bytes.
    pub size: usize,
}

impl KeySpace {
    /// Longest key that may be asked for, bytes.
    pub const SIZE_MAX: usize = 1024;

    /// Checks that `count` different keys fit into `size` bytes.
    pub fn new(count: u64, size: usize) -> Result<KeySpace, String> {
        let space = KeySpace { count, size };
        if count == 0 {
            return Err("the key space needs at least one key".to_owned());
        }
        let digits = (count - 1).max(1).ilog10() as usize + 1;
        if size > Self::SIZE_MAX || space.digits() < digits {
            return Err(format!("{count} different keys do not fit into {size} bytes"));
        }
        Ok(space)
    }

    /// Prefix of every key.
    pub fn prefix(self) -> &'static [u8] {
        if self.size >= 16 { b"key:" } else { b"" }
    }

    /// The key of a number.
    pub fn key(self, number: u64) -> Vec<u8> {
        let digits = format!("{number:0width$}", width = self.digits());
        [self.prefix(), digits.as_bytes()].concat()
    }

    /// Number of decimal digits that follow the prefix.
    pub fn digits(self) -> usize {
        self.size - self.prefix().len()
    }
}

/// Draws the keys of one connection.
#[derive(Clone, Debug)]
pub struct KeyPicker {
    order: KeyOrder,
    random: Random,
    first: u64,
    end: u64,
    next: u64,
    count: u64,
    share: Share,
    zipf: Zipf,
}

impl KeyPicker {
    /// The picker of connection `index` of `connections`.
    pub fn new(
        space: KeySpace,
        order: KeyOrder,
        share: Share,
        index: usize,
        connections: usize,
        seed: u64,
    ) -> KeyPicker {
        let bound = |i: usize| (u128::from(space.count) * i as u128 / connections as u128) as u64;
        let (first, end) = (bound(index), bound(index + 1));
        let random = Random::new(seed ^ mix(index as u64 + 1));
        let (count, zipf) = (space.count, Zipf::new(space.count, ALPHA));
        KeyPicker { order, random, first, end, next: first, count, share, zipf }
    }

    /// The next key. Sequential pickers start over at the end of their part.
    #[inline]
    pub fn pick(&mut self) -> u64 {
        match self.order {
            KeyOrder::Random => scale(self.random.next(), self.count),
            KeyOrder::Zipf => self.zipf.draw(&mut self.random),
            KeyOrder::Sequential => {
                let key = self.next.min(self.count - 1);
                self.next = if key + 1 >= self.end { self.first } else { key + 1 };
                key
            }
        }
    }

    /// The next key of a single walk over the part of this connection and the share of the load;
    /// `None` once through.
    pub fn pick_once(&mut self) -> Option<u64> {
        while self.next < self.end {
            let key = self.next;
            self.next += 1;
            if self.share.holds(key) {
                return Some(key);
            }
        }
        None
    }

    /// Number of keys that [`KeyPicker::pick_once`] will name.
    pub fn count_once(mut self) -> u64 {
        std::iter::from_fn(|| self.pick_once()).count() as u64
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.random.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn value_sizes_parse_and_draw_within_bounds() {
        let sizes: ValueSizes = "1-1024".parse().unwrap();
        assert_eq!(sizes, ValueSizes { min: 1, max: 1024 });
        assert_eq!("100".parse(), Ok(ValueSizes::fixed(100)));
        assert!("9-3".parse::<ValueSizes>().is_err());
        assert!("x".parse::<ValueSizes>().is_err());
        assert!("600000000".parse::<ValueSizes>().is_err());
        assert_eq!((sizes.draw(0), sizes.draw(u64::MAX)), (1, 1024));
        let total: u64 = (0..100_000).map(|key| u64::from(sizes.draw(mix(key)))).sum();
        let mean = total as f64 / 100_000.0;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.01, "mean {mean}");
    }

    #[test]
    fn one_walk_of_all_connections_names_every_key_once() {
        let space = KeySpace::new(1003, 16).unwrap();
        let mut seen = HashSet::new();
        for index in 0..8 {
            let mut picker = KeyPicker::new(space, KeyOrder::Sequential, Share::All, index, 8, 1);
            while let Some(key) = picker.pick_once() {
                assert!(seen.insert(key));
            }
        }
        assert_eq!(seen.len(), 1003);
    }

    #[test]
    fn shares_divide_the_keys() {
        let first = (0..10_000).filter(|key| Share::First(90).holds(*key)).count();
        let rest = (0..10_000).filter(|key| Share::Rest(90).holds(*key)).count();
        assert_eq!(first + rest, 10_000);
        assert!((8_800..9_200).contains(&first), "{first}");
    }

    #[test]
    fn more_connections_than_keys_still_pick_valid_keys() {
        let space = KeySpace::new(3, 16).unwrap();
        for order in [KeyOrder::Random, KeyOrder::Sequential] {
            for index in 0..10 {
                let mut picker = KeyPicker::new(space, order, Share::All, index, 10, 1);
                assert!((0..20).all(|_| picker.pick() < 3));
            }
        }
    }

    #[test]
    fn key_space_must_fit() {
        assert!(KeySpace::new(1_000_000, 16).is_ok());
        assert!(KeySpace::new(1_000_000, 6).is_ok());
        assert!(KeySpace::new(1_000_001, 6).is_err());
        assert!(KeySpace::new(0, 16).is_err());
    }
}
