//! Ordered pairs of a number and a row: the index of a NUMERIC field.
//!
//! Leaves of at most 128 pairs in a B-tree by their first pair. A pair takes 12 bytes, a leaf about
//! 80 more.

use std::collections::BTreeMap;
use std::mem::size_of;
use std::ops::Bound;

/// Maximum number of pairs of a leaf.
const LEAF_MAX: usize = 128;
/// Bytes of a leaf besides its pairs: its entry in the B-tree, of nodes three quarters full.
const LEAF_BYTES: usize = (size_of::<Pair>() + size_of::<Leaf>()) * 4 / 3;

/// A number as an integer of the same order, and a row.
type Pair = (u64, u32);

/// Lowest pair.
const FIRST: Pair = (0, 0);

/// A set of pairs of a number and a row.
#[derive(Debug, Default)]
pub struct Numbers {
    leaves: BTreeMap<Pair, Leaf>,
    len: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Leaf {
    numbers: Vec<u64>,
    rows: Vec<u32>,
}

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lower end.
    pub min: Bound<f64>,
    /// Upper end.
    pub max: Bound<f64>,
}

impl Range {
    /// Whether a number is in the range.
    #[inline]
    pub fn contains(&self, number: f64) -> bool {
        let above = match self.min {
            Bound::Included(min) => number >= min,
            Bound::Excluded(min) => number > min,
            Bound::Unbounded => true,
        };
        above
            && match self.max {
                Bound::Included(max) => number <= max,
                Bound::Excluded(max) => number < max,
                Bound::Unbounded => true,
            }
    }

    /// The pairs of the range: from the first to before the last.
    fn pairs(&self) -> (Pair, Pair) {
        const LAST: Pair = (u64::MAX, u32::MAX);
        let from = match self.min {
            Bound::Included(min) => (ordered(min), 0),
            Bound::Excluded(min) => (ordered(min).saturating_add(1), 0),
            Bound::Unbounded => FIRST,
        };
        let to = match self.max {
            Bound::Included(max) => (ordered(max).saturating_add(1), 0),
            Bound::Excluded(max) => (ordered(max), 0),
            Bound::Unbounded => LAST,
        };
        (from, to)
    }
}

/// Maps numbers to integers of the same order. Both zeros are one.
#[inline]
fn ordered(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn number_of(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

/// Error of a text that is no number.
pub fn bad_number(text: &[u8]) -> Vec<u8> {
    /// Maximum bytes of the text that are shown.
    const SHOWN_MAX: usize = 128;
    let text = &text[..text.len().min(SHOWN_MAX)];
    [b"Invalid numeric value: '", text, b"'"].concat()
}

/// Parses a number of a document.
pub fn parse_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => (-1.0, &text[1..]),
        [b'+', ..] => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        return u64::from_str_radix(hex, 16).ok().filter(|_| is_hex).map(|n| sign * n as f64);
    }
    let number: f64 = text.parse().ok()?;
    // Redis rejects what does not fit; an infinity has to be spelled out.
    let is_spelled = text.contains(['n', 'N']);
    (!number.is_nan() && (number.is_finite() || is_spelled)).then_some(number)
}

impl Leaf {
    fn bytes(&self) -> usize {
        LEAF_BYTES
            + self.numbers.capacity() * size_of::<u64>()
            + self.rows.capacity() * size_of::<u32>()
    }

    fn pair(&self, at: usize) -> Pair {
        (self.numbers[at], self.rows[at])
    }

    /// Index of the first pair that is not below `pair`.
    fn position(&self, pair: Pair) -> usize {
        let mut at = self.numbers.partition_point(|&number| number < pair.0);
        if self.numbers.get(at) == Some(&pair.0) {
            let equal = self.numbers[at..].partition_point(|&number| number == pair.0);
            at += self.rows[at..at + equal].partition_point(|&row| row < pair.1);
        }
        at
    }

    /// Number of pairs from `from` to before `to`. Most leaves of a range are whole.
    fn count(&self, from: Pair, to: Pair) -> usize {
        let len = self.numbers.len();
        if len > 0 && self.pair(0) >= from && self.pair(len - 1) < to {
            return len;
        }
        self.position(to).saturating_sub(self.position(from))
    }

    fn split_off(&mut self, at: usize) -> Leaf {
        let mut upper =
            Leaf { numbers: Vec::with_capacity(LEAF_MAX), rows: Vec::with_capacity(LEAF_MAX) };
        upper.numbers.extend(self.numbers.drain(at..));
        upper.rows.extend(self.rows.drain(at..));
        upper
    }
}

impl Numbers {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.bytes
    }

    /// Adds a pair; returns whether it is new. The number is not NaN.
    pub fn insert(&mut self, number: f64, row: u32) -> bool {
        let pair = (ordered(number), row);
        if self.leaves.is_empty() {
            self.leaves.insert(FIRST, Leaf::default());
            self.bytes += LEAF_BYTES;
        }
        let Some((_, leaf)) = self.leaves.range_mut(..=pair).next_back() else { return false };
        let at = leaf.position(pair);
        let len = leaf.numbers.len();
        if at < len && leaf.pair(at) == pair {
            return false;
        }
        self.len += 1;
        self.bytes -= leaf.bytes();
        let upper = if len < LEAF_MAX {
            None
        } else {
            // Ascending numbers fill each leaf.
            Some(leaf.split_off(if at == len { len } else { len / 2 }))
        };
        match upper {
            Some(mut upper) if at >= leaf.numbers.len() => {
                let at = at - leaf.numbers.len();
                upper.numbers.insert(at, pair.0);
                upper.rows.insert(at, pair.1);
                self.bytes += leaf.bytes() + upper.bytes();
                self.leaves.insert(upper.pair(0), upper);
            }
            upper => {
                leaf.numbers.insert(at, pair.0);
                leaf.rows.insert(at, pair.1);
                self.bytes += leaf.bytes();
                if let Some(upper) = upper {
                    self.bytes += upper.bytes();
                    self.leaves.insert(upper.pair(0), upper);
                }
            }
        }
        true
    }

    /// Removes a pair; returns whether it was there.
    pub fn remove(&mut self, number: f64, row: u32) -> bool {
        let pair = (ordered(number), row);
        let Some((&key, leaf)) = self.leaves.range_mut(..=pair).next_back() else { return false };
        let at = leaf.position(pair);
        if at == leaf.numbers.len() || leaf.pair(at) != pair {
            return false;
        }
        let before = leaf.bytes();
        leaf.numbers.remove(at);
        leaf.rows.remove(at);
        self.len -= 1;
        if self.len == 0 {
            *self = Numbers::default();
            return true;
        }
        if leaf.numbers.is_empty() && key != FIRST {
            self.leaves.remove(&key);
            self.bytes -= before;
            return true;
        }
        if leaf.numbers.len() * 4 < leaf.numbers.capacity() {
            leaf.numbers.shrink_to(leaf.numbers.len() * 2);
            leaf.rows.shrink_to(leaf.rows.len() * 2);
        }
        self.bytes = self.bytes + leaf.bytes() - before;
        true
    }

    /// The pairs of a range, in ascending order.
    pub fn range(&self, range: &Range) -> impl Iterator<Item = (f64, u32)> + '_ {
        let (from, to) = range.pairs();
        self.leaves_of(from, to).flat_map(move |leaf| {
            let (first, last) = (leaf.position(from), leaf.position(to));
            let pairs = first..last.max(first);
            pairs.map(|at| (number_of(leaf.numbers[at]), leaf.rows[at]))
        })
    }

    /// Number of pairs in a range; at least `enough` if it is not exact.
    pub fn count(&self, range: &Range, enough: usize) -> usize {
        let (from, to) = range.pairs();
        let mut count = 0;
        for leaf in self.leaves_of(from, to) {
            count += leaf.count(from, to);
            if count >= enough {
                break;
            }
        }
        count
    }

    fn leaves_of(&self, from: Pair, to: Pair) -> impl Iterator<Item = &Leaf> {
        let first = self.leaves.range(..=from).next_back().map_or(FIRST, |(&key, _)| key);
        // An inverted range has no leaves.
        self.leaves.range(first..to.max(first)).map(|(_, leaf)| leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn numbers() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-20..20i32).prop_map(f64::from),
            any::<f64>().prop_filter("no NaN", |number| !number.is_nan()),
            Just(f64::INFINITY),
            Just(-0.0),
        ]
    }

    fn bound() -> impl Strategy<Value = Bound<f64>> {
        prop_oneof![
            numbers().prop_map(Bound::Included),
            numbers().prop_map(Bound::Excluded),
            Just(Bound::Unbounded)
        ]
    }

    proptest! {
        #[test]
        fn pairs_are_like_a_sorted_set(
            changes in prop::collection::vec((numbers(), 0..40u32, 0..4u8), 1..900),
            ranges in prop::collection::vec((bound(), bound()), 1..8),
        ) {
            let (mut pairs, mut model) = (Numbers::default(), BTreeSet::new());
            for (number, row, kind) in changes {
                let pair = (ordered(number), row);
                match kind {
                    0 => prop_assert_eq!(pairs.remove(number, row), model.remove(&pair)),
                    _ => prop_assert_eq!(pairs.insert(number, row), model.insert(pair)),
                }
            }
            prop_assert_eq!(pairs.len(), model.len());
            for (min, max) in ranges {
                let range = Range { min, max };
                let expected: Vec<_> = model
                    .iter()
                    .map(|&(number, row)| (number_of(number), row))
                    .filter(|&(number, _)| range.contains(number))
                    .collect();
                let found: Vec<_> = pairs.range(&range).collect();
                prop_assert_eq!(&found, &expected);
                prop_assert_eq!(pairs.count(&range, usize::MAX), expected.len());
            }
            let bytes: usize = pairs.leaves.values().map(Leaf::bytes).sum();
            prop_assert_eq!(bytes, pairs.footprint());
            for (number, row) in model {
                prop_assert!(pairs.remove(number_of(number), row));
            }
            prop_assert_eq!((pairs.len(), pairs.footprint()), (0, 0));
        }
    }

    #[test]
    fn ascending_numbers_fill_their_leaves() {
        let mut pairs = Numbers::default();
        (0..100_000u32).for_each(|row| assert!(pairs.insert(f64::from(row), row)));
        assert!(pairs.footprint() < 100_000 * 14, "{}", pairs.footprint());
        assert_eq!(number_of(ordered(-1.5)), -1.5);
    }
}
