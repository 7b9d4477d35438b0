//! Vectors of rows, one after the other in blocks.
//!
//! ```text
//! row -> place: column     place -> row: list     place -> vector: blocks
//! ```
//!
//! Places are dense: the last vector moves to the place of a removed one.

use crate::structures::column::Column;
use std::mem::size_of;

/// Bytes of a block, unless a vector is longer.
const BLOCK: usize = 64 << 10;

/// Vectors of equal length by row.
#[derive(Debug)]
pub struct Vectors {
    /// Bytes of a vector.
    len: usize,
    /// Vectors of a block.
    block_len: usize,
    /// Place of each row's vector plus one; 0 if there is none.
    places: Column<u32>,
    /// Row of each place.
    rows: Vec<u32>,
    /// All are full but the last.
    blocks: Vec<Vec<u8>>,
}

impl Vectors {
    /// No vectors; each has this number of bytes, at least one.
    pub fn new(len: usize) -> Self {
        let block_len = (BLOCK / len).max(1);
        Vectors { len, block_len, places: Column::default(), rows: Vec::new(), blocks: Vec::new() }
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The vector of a row.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&[u8]> {
        let place = self.places.get(row)?.checked_sub(1)? as usize;
        let (block, at) = (place / self.block_len, place % self.block_len * self.len);
        self.blocks.get(block)?.get(at..at + self.len)
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut [u8]> {
        let (block, at) = (place / self.block_len, place % self.block_len * self.len);
        self.blocks.get_mut(block)?.get_mut(at..at + self.len)
    }

    /// Sets the vector of a row.
    pub fn set(&mut self, row: u32, vector: &[u8]) {
        debug_assert_eq!(vector.len(), self.len);
        let place = self.places.get(row).and_then(|place| place.checked_sub(1));
        if let Some(old) = place.and_then(|place| self.get_mut(place as usize)) {
            return old.copy_from_slice(vector);
        }
        *self.places.get_mut(row) = self.rows.len() as u32 + 1;
        self.rows.push(row);
        let full = self.block_len * self.len;
        if self.blocks.last().is_none_or(|last| last.len() == full) {
            self.blocks.push(Vec::new());
        }
        if let Some(last) = self.blocks.last_mut() {
            if last.capacity() - last.len() < vector.len() {
                // Small indexes have small blocks.
                let wanted = (last.len() * 2).max(vector.len() * 4).min(full);
                last.reserve_exact(wanted - last.len());
            }
            last.extend_from_slice(vector);
        }
    }

    /// Removes the vector of a row; returns whether there was one.
    pub fn remove(&mut self, row: u32) -> bool {
        let Some(place) = self.places.get(row).and_then(|place| place.checked_sub(1)) else {
            return false;
        };
        *self.places.get_mut(row) = 0;
        let (Some(last_row), Some(last)) = (self.rows.pop(), self.blocks.last_mut()) else {
            return false;
        };
        let vector = last.split_off(last.len() - self.len);
        if last.is_empty() {
            self.blocks.pop();
        }
        if last_row != row {
            self.rows[place as usize] = last_row;
            *self.places.get_mut(last_row) = place + 1;
            if let Some(hole) = self.get_mut(place as usize) {
                hole.copy_from_slice(&vector);
            }
        }
        true
    }

    /// Moves the vector of a row to a row without one.
    pub fn rename(&mut self, row: u32, new: u32) {
        let Some(place) = self.places.get(row).copied().filter(|&place| place > 0) else { return };
        *self.places.get_mut(row) = 0;
        *self.places.get_mut(new) = place;
        self.rows[place as usize - 1] = new;
    }

    /// Frees a page of rows that will not be used again.
    pub fn drop_page(&mut self, page: usize) {
        self.places.drop_page(page);
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        let last = self.blocks.last().map_or(0, Vec::capacity);
        let full = self.blocks.len().saturating_sub(1) * self.block_len * self.len;
        self.places.footprint()
            + self.rows.capacity() * size_of::<u32>()
            + self.blocks.capacity() * size_of::<Vec<u8>>()
            + full
            + last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn vectors_are_what_a_map_is(
            len in prop::sample::select(vec![4, 12, 20_000, 70_000]),
            steps in prop::collection::vec((0u8..4, 0u32..20, any::<u8>()), 0..120),
        ) {
            let mut vectors = Vectors::new(len);
            let mut model: HashMap<u32, u8> = HashMap::new();
            for (step, row, byte) in steps {
                match step {
                    0 => {
                        prop_assert_eq!(vectors.remove(row), model.remove(&row).is_some());
                    }
                    1 if !model.contains_key(&(row + 100)) => {
                        vectors.rename(row, row + 100);
                        if let Some(byte) = model.remove(&row) {
                            model.insert(row + 100, byte);
                        }
                    }
                    _ => {
                        vectors.set(row, &vec![byte; len]);
                        model.insert(row, byte);
                    }
                }
                prop_assert_eq!(vectors.len(), model.len());
                prop_assert!(vectors.footprint() >= len * model.len());
                let full = vectors.blocks.iter().rev().skip(1);
                prop_assert!(full.clone().all(|block| block.capacity() == vectors.block_len * len));
                for row in 0..120 {
                    let expected = model.get(&row).map(|&byte| vec![byte; len]);
                    prop_assert_eq!(vectors.get(row), expected.as_deref());
                }
            }
        }
    }
}
