//! Buckets of fingerprints.

use crate::hash::murmur64;
use crate::pages::Pages;

/// Factor of a fingerprint in the distance of its two buckets.
const SPREAD: u64 = 0x5bd1_e995;

/// An item's fingerprint, which is not 0, and its hashes, one for each of its buckets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Print {
    cell: u8,
    hashes: [u64; 2],
}

impl Print {
    /// The fingerprint of an item.
    #[inline]
    pub fn of(item: &[u8]) -> Self {
        let hash = murmur64(item, 0);
        Print::of_cell((hash % 255 + 1) as u8, hash)
    }

    /// A fingerprint with one of its hashes, or the bucket where it is.
    #[inline]
    pub(super) fn of_cell(cell: u8, hash: u64) -> Self {
        Print { cell, hashes: [hash, other(cell, hash)] }
    }
}

/// The other hash of a fingerprint.
#[inline]
fn other(cell: u8, hash: u64) -> u64 {
    hash ^ u64::from(cell).wrapping_mul(SPREAD)
}

/// Buckets of fingerprints; 0 is a free place.
#[derive(Debug)]
pub(super) struct Table {
    /// A power of two.
    buckets: u64,
    bucket_size: u8,
    cells: Pages,
}

impl Table {
    pub fn new(buckets: u64, bucket_size: u8, cells: Pages) -> Self {
        Table { buckets, bucket_size, cells }
    }

    #[inline]
    pub fn cells(&self) -> &Pages {
        &self.cells
    }

    pub fn cells_mut(&mut self) -> &mut Pages {
        &mut self.cells
    }

    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    pub fn duplicate(&self) -> Self {
        Table { cells: self.cells.duplicate(), ..*self }
    }

    /// The place of a bucket's first fingerprint.
    #[inline]
    fn start(&self, hash: u64) -> usize {
        (hash & (self.buckets - 1)) as usize * usize::from(self.bucket_size)
    }

    /// The first place of a bucket with this fingerprint.
    #[inline]
    fn in_bucket(&self, start: usize, cell: u8) -> Option<usize> {
        (start..start + usize::from(self.bucket_size)).find(|&at| self.cells.get(at) == cell)
    }

    #[inline]
    fn first(&self, print: Print, cell: u8) -> Option<usize> {
        print.hashes.iter().find_map(|&hash| self.in_bucket(self.start(hash), cell))
    }

    /// The place of an item's fingerprint.
    #[inline]
    pub fn find(&self, print: Print) -> Option<usize> {
        self.first(print, print.cell)
    }

    /// A free place for an item.
    #[inline]
    pub fn free(&self, print: Print) -> Option<usize> {
        self.first(print, 0)
    }

    /// The number of times that an item's fingerprint is there; twice that if both buckets of the
    /// item are one, as RedisBloom counts.
    pub fn count(&self, print: Print) -> u64 {
        let count = |hash: u64| {
            let start = self.start(hash);
            let places = start..start + usize::from(self.bucket_size);
            places.filter(|&at| self.cells.get(at) == print.cell).count() as u64
        };
        print.hashes.map(count).iter().sum()
    }

    /// Reads both buckets of an item.
    pub fn touch(&self, print: Print) -> u8 {
        print.hashes.iter().fold(0, |sum, &hash| sum ^ self.cells.get(self.start(hash)))
    }

    /// Puts an item where a place is free.
    pub fn put_free(&mut self, print: Print) {
        if let Some(at) = self.free(print) {
            *self.cells.get_mut(at) = print.cell;
        }
    }

    /// Removes an item's fingerprint once.
    pub fn remove(&mut self, print: Print) {
        if let Some(at) = self.find(print) {
            self.clear(at);
        }
    }

    /// Frees a place.
    pub fn clear(&mut self, at: usize) {
        *self.cells.get_mut(at) = 0;
    }

    /// Puts an item where another one is, which moves to its other bucket, and so on, until a place
    /// is free; false after `iterations` moves, which are undone.
    pub fn kick(&mut self, print: Print, iterations: u16) -> bool {
        let size = usize::from(self.bucket_size);
        let (mut cell, mut bucket) = (print.cell, print.hashes[0] & (self.buckets - 1));
        for i in 0..usize::from(iterations) {
            self.swap(bucket, i % size, &mut cell);
            bucket = other(cell, bucket) & (self.buckets - 1);
            if let Some(at) = self.in_bucket(self.start(bucket), 0) {
                *self.cells.get_mut(at) = cell;
                return true;
            }
        }
        for i in (0..usize::from(iterations)).rev() {
            bucket = other(cell, bucket) & (self.buckets - 1);
            self.swap(bucket, i % size, &mut cell);
        }
        false
    }

    fn swap(&mut self, bucket: u64, at: usize, cell: &mut u8) {
        let at = self.start(bucket) + at;
        std::mem::swap(self.cells.get_mut(at), cell);
    }
}
