//! A hash table of numbers that grows bucket by bucket: linear hashing (Litwin, "Linear Hashing: A
//! New Tool for File and Table Addressing", 1980).
//!
//! ```text
//! bucket   a block of the pool: numbers from its begin on, 4 bytes each; tags, one byte each, from
//!          its end on; in the last byte their count
//! ```
//!
//! No addition moves more than the numbers of one bucket.

use super::paged::Paged;
use super::pool::{BlockAt, Pool};
use memchr::{memchr, memchr_iter};

/// Numbers of a bucket on average, before another one is split.
const BUCKET_LEN: usize = 24;

/// Numbers of a bucket at most: a hash function that works comes nowhere near.
const BUCKET_LEN_MAX: usize = 255;

const EMPTY: BlockAt = BlockAt::MAX;

/// Numbers by hash.
#[derive(Debug, Default)]
pub struct NumberTable {
    buckets: Paged<BlockAt>,
    pool: Pool,
    len: usize,
}

fn tag_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// Splits a bucket into numbers and tags.
fn parts(bucket: &[u8]) -> (&[u8], &[u8]) {
    let Some((&count, rest)) = bucket.split_last() else { return (&[], &[]) };
    let count = usize::from(count);
    match rest.len().checked_sub(count) {
        Some(start) if 4 * count <= start => (&rest[..4 * count], &rest[start..]),
        _ => (&[], &[]),
    }
}

fn number_at(numbers: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*numbers.get(4 * at..)?.first_chunk()?))
}

impl NumberTable {
    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.buckets.footprint() + self.pool.footprint()
    }

    /// Index of the bucket of a hash.
    #[inline]
    fn bucket_of(&self, hash: u64) -> usize {
        let buckets = self.buckets.len();
        let doubled = buckets.next_power_of_two();
        let at = hash as usize & (doubled - 1);
        if at < buckets { at } else { at & (doubled / 2).wrapping_sub(1) }
    }

    #[inline]
    fn bucket(&self, at: usize) -> &[u8] {
        self.buckets.get(at).map_or(&[], |&block| self.pool.get(block))
    }

    /// The number of a hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (numbers, tags) = parts(self.bucket(self.bucket_of(hash)));
        memchr_iter(tag_of(hash), tags)
            .filter_map(|at| number_at(numbers, tags.len() - 1 - at))
            .find(|&number| is_it(number))
    }

    /// The first number with the tag of a hash, which is most likely that of the hash.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<u32> {
        let (numbers, tags) = parts(self.bucket(self.bucket_of(hash)));
        let at = memchr(tag_of(hash), tags)?;
        number_at(numbers, tags.len() - 1 - at)
    }

    /// Adds a number. False if there is no memory to address.
    pub fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) -> bool {
        if self.len >= self.buckets.len() * BUCKET_LEN {
            self.buckets.push(EMPTY);
            self.split(&hash_of);
        }
        let is_added = self.put(self.bucket_of(hash), tag_of(hash), number);
        self.len += usize::from(is_added);
        is_added
    }

    fn put(&mut self, at: usize, tag: u8, number: u32) -> bool {
        let old = self.buckets.get(at).copied().unwrap_or(EMPTY);
        let (count, len) = {
            let bucket = self.bucket(at);
            (parts(bucket).1.len(), bucket.len())
        };
        if count >= BUCKET_LEN_MAX {
            return false;
        }
        let needed = 5 * (count + 1) + 1;
        let mut block = old;
        if needed > len {
            let Some(new) = self.pool.allocate(needed) else { return false };
            let (numbers, tags) = parts(self.bucket(at));
            let (numbers, tags) = (numbers.to_vec(), tags.to_vec());
            let bytes = self.pool.get_mut(new);
            bytes[..numbers.len()].copy_from_slice(&numbers);
            let end = bytes.len() - 1;
            bytes[end - tags.len()..end].copy_from_slice(&tags);
            if old != EMPTY {
                self.pool.free(old);
            }
            block = new;
        }
        let bytes = self.pool.get_mut(block);
        let end = bytes.len() - 1;
        bytes[4 * count..4 * count + 4].copy_from_slice(&number.to_le_bytes());
        bytes[end - 1 - count] = tag;
        bytes[end] = (count + 1) as u8;
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket = block;
        }
        true
    }

    /// Empties a bucket, and returns its numbers.
    fn take(&mut self, at: usize) -> Vec<u32> {
        let (numbers, tags) = parts(self.bucket(at));
        let numbers = (0..tags.len()).filter_map(|at| number_at(numbers, at)).collect();
        if let Some(block) = self.buckets.get_mut(at)
            && *block != EMPTY
        {
            self.pool.free(std::mem::replace(block, EMPTY));
        }
        numbers
    }

    /// Moves numbers to the last bucket, which is new.
    fn split(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let last = self.buckets.len() - 1;
        let Some(split) = last.checked_sub((last + 1).next_power_of_two() / 2) else { return };
        self.put_back(split, hash_of);
    }

    fn put_back(&mut self, at: usize, hash_of: &impl Fn(u32) -> u64) {
        for number in self.take(at) {
            let hash = hash_of(number);
            self.put(self.bucket_of(hash), tag_of(hash), number);
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let at = self.bucket_of(hash);
        let (numbers, tags) = parts(self.bucket(at));
        let count = tags.len();
        let Some(place) = (0..count).find(|&at| number_at(numbers, at) == Some(number)) else {
            return;
        };
        self.len -= 1;
        let block = self.buckets.get(at).copied().unwrap_or(EMPTY);
        let bytes = self.pool.get_mut(block);
        let end = bytes.len() - 1;
        bytes.copy_within(4 * (count - 1)..4 * count, 4 * place);
        bytes[end - 1 - place] = bytes[end - count];
        bytes.copy_within(end - count..end, end - count);
        bytes[end] = (count - 1) as u8;
        if count == 1 || bytes.len() > 2 * (5 * count + 8) {
            self.put_back(at, &hash_of);
        }
        if self.len + BUCKET_LEN < self.buckets.len() * BUCKET_LEN / 2 {
            let last = self.take(self.buckets.len() - 1);
            self.buckets.pop();
            for number in last {
                let hash = hash_of(number);
                self.put(self.bucket_of(hash), tag_of(hash), number);
            }
        }
        if self.len == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hash_of(number: u32) -> u64 {
        let hash = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ hash >> 32
    }

    #[test]
    fn numbers_come_and_go() {
        let mut table = NumberTable::default();
        let mut model = HashSet::new();
        let mut state = 1u32;
        for round in 0..60_000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // The table grows, then shrinks.
            let number = (state >> 8) % 20_000;
            let is_added = (state >> 4) % 16 < if round < 30_000 { 12 } else { 3 };
            if is_added && model.insert(number) {
                assert!(table.insert(hash_of(number), number, hash_of));
            } else if !is_added && model.remove(&number) {
                table.remove(hash_of(number), number, hash_of);
            }
            if round % 1000 == 0 {
                for number in 0..20_000 {
                    let found = table.find(hash_of(number), |found| found == number);
                    assert_eq!(found.is_some(), model.contains(&number));
                }
                assert_eq!(table.len, model.len());
            }
        }
        for number in model {
            table.remove(hash_of(number), number, hash_of);
        }
        assert_eq!((table.len, table.footprint()), (0, 0));
    }

    #[test]
    fn a_number_takes_some_eight_bytes() {
        let mut table = NumberTable::default();
        for number in 0..100_000 {
            assert!(table.insert(hash_of(number), number, hash_of));
            let len = number as usize + 1;
            if len.is_multiple_of(1000) {
                let bytes = table.footprint();
                assert!(bytes < len * 8 + 10_000, "{len} {bytes}");
            }
        }
    }

    #[test]
    fn equal_hashes_fill_a_bucket() {
        let mut table = NumberTable::default();
        let added = (0..300).filter(|&number| table.insert(7, number, |_| 7)).count();
        assert_eq!(added, BUCKET_LEN_MAX);
        assert_eq!(table.find(7, |number| number == 254), Some(254));
    }
}
