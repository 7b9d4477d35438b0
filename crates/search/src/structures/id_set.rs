//! Sets of rows: sorted arrays and bitmaps by the upper 16 bits of a row, as in Roaring bitmaps
//! (Lemire et al., "Roaring Bitmaps: Implementation of an Optimized Software Library", 2018).

use std::mem::size_of;

/// Number of rows of a chunk at which it becomes a bitmap.
const ARRAY_MAX: usize = 4096;
const WORDS: usize = 1024;

/// A set of row numbers.
#[derive(Clone, Debug, Default)]
pub struct IdSet {
    chunks: Vec<Chunk>,
    len: usize,
    /// Bytes of the chunks' rows.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Chunk {
    high: u16,
    rows: Rows,
}

#[derive(Clone, Debug)]
enum Rows {
    Array(Vec<u16>),
    Bits(Box<Bits>),
}

#[derive(Clone, Debug)]
struct Bits {
    words: [u64; WORDS],
    count: usize,
}

impl Rows {
    fn bytes(&self) -> usize {
        match self {
            Rows::Array(rows) => rows.capacity() * size_of::<u16>(),
            Rows::Bits(_) => size_of::<Bits>(),
        }
    }

    fn insert(&mut self, low: u16) -> bool {
        match self {
            Rows::Array(rows) => {
                // Rows mostly ascend.
                if rows.last().is_none_or(|&last| last < low) {
                    rows.push(low);
                } else {
                    let Err(at) = rows.binary_search(&low) else { return false };
                    rows.insert(at, low);
                }
                if rows.len() > ARRAY_MAX {
                    *self = Rows::Bits(Bits::of(rows));
                }
                true
            }
            Rows::Bits(bits) => bits.set(low, true),
        }
    }

    /// Removes a row; returns whether it was there.
    fn remove(&mut self, low: u16) -> bool {
        match self {
            Rows::Array(rows) => {
                let Ok(at) = rows.binary_search(&low) else { return false };
                rows.remove(at);
                if rows.len() < rows.capacity() / 4 {
                    rows.shrink_to(rows.len() * 2);
                }
                true
            }
            Rows::Bits(bits) => {
                let removed = bits.set(low, false);
                if bits.count < ARRAY_MAX / 2 {
                    *self = Rows::Array(bits.rows());
                }
                removed
            }
        }
    }

    fn contains(&self, low: u16) -> bool {
        match self {
            Rows::Array(rows) => rows.binary_search(&low).is_ok(),
            Rows::Bits(bits) => bits.words[usize::from(low >> 6)] >> (low & 63) & 1 == 1,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Rows::Array(rows) => rows.is_empty(),
            Rows::Bits(bits) => bits.count == 0,
        }
    }
}

impl Bits {
    fn of(rows: &[u16]) -> Box<Self> {
        let mut bits = Box::new(Bits { words: [0; WORDS], count: rows.len() });
        rows.iter().for_each(|&low| bits.words[usize::from(low >> 6)] |= 1 << (low & 63));
        bits
    }

    fn set(&mut self, low: u16, on: bool) -> bool {
        let word = &mut self.words[usize::from(low >> 6)];
        let bit = 1 << (low & 63);
        let changes = (*word & bit != 0) != on;
        if changes {
            *word ^= bit;
            self.count = if on { self.count + 1 } else { self.count - 1 };
        }
        changes
    }

    fn rows(&self) -> Vec<u16> {
        let mut rows = Vec::with_capacity(self.count);
        let mut next = self.next(0);
        while let Some(low) = next {
            rows.push(low);
            next = low.checked_add(1).and_then(|low| self.next(low));
        }
        rows
    }

    /// The first row that is not below `low`.
    fn next(&self, low: u16) -> Option<u16> {
        let mut at = usize::from(low >> 6);
        let mut word = self.words[at] & (u64::MAX << (low & 63));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some((at * 64) as u16 + word.trailing_zeros() as u16)
    }
}

fn split(row: u32) -> (u16, u16) {
    ((row >> 16) as u16, row as u16)
}

impl IdSet {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>() + self.bytes
    }

    fn find(&self, high: u16) -> Result<usize, usize> {
        match self.chunks.last() {
            Some(last) if last.high == high => Ok(self.chunks.len() - 1),
            Some(last) if last.high < high => Err(self.chunks.len()),
            _ => self.chunks.binary_search_by_key(&high, |chunk| chunk.high),
        }
    }

    /// Adds a row; returns whether it is new.
    pub fn insert(&mut self, row: u32) -> bool {
        let (high, low) = split(row);
        let at = self.find(high).unwrap_or_else(|at| {
            if self.chunks.is_empty() {
                self.chunks.reserve_exact(1);
            }
            self.chunks.insert(at, Chunk { high, rows: Rows::Array(Vec::new()) });
            at
        });
        let rows = &mut self.chunks[at].rows;
        let before = rows.bytes();
        let inserted = rows.insert(low);
        self.bytes = self.bytes + rows.bytes() - before;
        self.len += usize::from(inserted);
        inserted
    }

    /// Removes a row; returns whether it was there.
    pub fn remove(&mut self, row: u32) -> bool {
        let (high, low) = split(row);
        let Ok(at) = self.find(high) else { return false };
        let rows = &mut self.chunks[at].rows;
        let before = rows.bytes();
        let removed = rows.remove(low);
        self.len -= usize::from(removed);
        if rows.is_empty() {
            self.chunks.remove(at);
            self.chunks.shrink_to(self.chunks.len() * 2);
            self.bytes -= before;
        } else {
            self.bytes = self.bytes + rows.bytes() - before;
        }
        removed
    }

    /// Whether a row is in the set.
    pub fn contains(&self, row: u32) -> bool {
        let (high, low) = split(row);
        self.find(high).is_ok_and(|at| self.chunks[at].rows.contains(low))
    }

    /// A cursor at the first row.
    pub fn cursor(&self) -> IdCursor<'_> {
        let mut cursor = IdCursor { set: self, chunk: 0, at: 0, current: None };
        cursor.seek(0);
        cursor
    }

    /// The rows in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut cursor = self.cursor();
        std::iter::from_fn(move || {
            let row = cursor.current()?;
            cursor.advance();
            Some(row)
        })
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<T: IntoIterator<Item = u32>>(rows: T) -> Self {
        let mut set = IdSet::default();
        rows.into_iter().for_each(|row| {
            set.insert(row);
        });
        set
    }
}

/// A position in an [`IdSet`].
#[derive(Clone, Debug)]
pub struct IdCursor<'s> {
    set: &'s IdSet,
    chunk: usize,
    /// Index of the current row in an array.
    at: usize,
    current: Option<u32>,
}

impl IdCursor<'_> {
    /// The current row; none at the end.
    #[inline]
    pub fn current(&self) -> Option<u32> {
        self.current
    }

    /// Number of rows in the set.
    pub fn set_len(&self) -> usize {
        self.set.len
    }

    /// Steps to the next row.
    #[inline]
    pub fn advance(&mut self) {
        let Some(current) = self.current else { return };
        let chunk = &self.set.chunks[self.chunk];
        let next = match &chunk.rows {
            Rows::Array(rows) => {
                self.at += 1;
                rows.get(self.at).copied()
            }
            Rows::Bits(bits) => (current as u16).checked_add(1).and_then(|low| bits.next(low)),
        };
        match next {
            Some(low) => self.current = Some(u32::from(chunk.high) << 16 | u32::from(low)),
            None => self.enter_chunk(self.chunk + 1, 0),
        }
    }

    /// Steps to the first row that is not below `row`; never backwards.
    pub fn seek(&mut self, row: u32) {
        if self.current.is_some_and(|current| current >= row) {
            return;
        }
        let (high, low) = split(row);
        let rest = &self.set.chunks[self.chunk.min(self.set.chunks.len())..];
        let chunk = self.chunk + rest.partition_point(|chunk| chunk.high < high);
        let low = match self.set.chunks.get(chunk) {
            Some(found) if found.high == high => low,
            _ => 0,
        };
        self.enter_chunk(chunk, low);
    }

    /// Steps to the first row from `low` on of a chunk, or of the next one.
    fn enter_chunk(&mut self, mut chunk: usize, mut low: u16) {
        self.current = None;
        while let Some(Chunk { high, rows }) = self.set.chunks.get(chunk) {
            let from = if chunk == self.chunk { self.at } else { 0 };
            let found = match rows {
                Rows::Array(rows) => {
                    let from = from.min(rows.len());
                    self.at = from + rows[from..].partition_point(|&other| other < low);
                    rows.get(self.at).copied()
                }
                Rows::Bits(bits) => bits.next(low),
            };
            self.chunk = chunk;
            if let Some(found) = found {
                self.current = Some(u32::from(*high) << 16 | u32::from(found));
                return;
            }
            (chunk, low) = (chunk + 1, 0);
        }
        self.chunk = chunk;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn rows() -> impl Strategy<Value = u32> {
        prop_oneof![0..300u32, 65_000..66_000u32, 0..400_000u32]
    }

    proptest! {
        #[test]
        fn a_set_is_like_a_sorted_set(
            changes in prop::collection::vec((rows(), any::<bool>()), 1..400),
            seeks in prop::collection::vec(rows(), 1..20),
        ) {
            let (mut set, mut model) = (IdSet::default(), BTreeSet::new());
            for (row, on) in changes {
                match on {
                    true => prop_assert_eq!(set.insert(row), model.insert(row)),
                    false => prop_assert_eq!(set.remove(row), model.remove(&row)),
                }
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert!(set.iter().eq(model.iter().copied()));
            let mut seeks = seeks;
            seeks.sort_unstable();
            let mut cursor = set.cursor();
            for row in seeks {
                prop_assert_eq!(set.contains(row), model.contains(&row));
                cursor.seek(row);
                prop_assert_eq!(cursor.current(), model.range(row..).next().copied());
            }
        }
    }

    #[test]
    fn a_chunk_becomes_a_bitmap_and_an_array_again() {
        let mut set: IdSet = (0..100_000).collect();
        assert_eq!((set.len(), set.iter().count()), (100_000, 100_000));
        assert!(set.footprint() < 100_000);
        let mut cursor = set.cursor();
        cursor.seek(77_777);
        assert_eq!(cursor.current(), Some(77_777));
        for row in 10..100_000 {
            assert!(set.remove(row));
        }
        assert!(set.iter().eq(0..10));
        assert!(set.footprint() < 16_000, "{}", set.footprint());
        (0..10).for_each(|row| assert!(set.remove(row)));
        assert!(set.is_empty() && set.footprint() < 100, "{}", set.footprint());
    }
}
