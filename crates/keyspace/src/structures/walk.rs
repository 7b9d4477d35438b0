//! Walks over tables in the order of hashes.

use crate::structures::bucket::{DISPLACEMENT_MAX, Item, SLOTS};
use crate::structures::table::Table;
use petrel_heap::prefetch;
use std::ops::ControlFlow;

/// The smallest position with the home bucket `bucket`.
pub(crate) fn first_position(bucket: usize, buckets: usize) -> u32 {
    ((bucket as u64) << 32).div_ceil(buckets as u64) as u32
}

/// The entries with the home bucket `home`, including displaced ones.
pub(crate) fn homed<I: Item>(table: &Table<I>, home: usize, position: &dyn Fn(I) -> u32) -> Vec<I> {
    let buckets = table.buckets();
    let mut found = Vec::with_capacity(SLOTS);
    for displacement in 0..buckets {
        let bucket = table.bucket((home + displacement) % buckets);
        for slot in bucket.used().map(|i| bucket.slot(i)) {
            let exact = slot.displacement() < DISPLACEMENT_MAX;
            let is_homed = if exact {
                slot.displacement() as usize == displacement
            } else {
                displacement >= DISPLACEMENT_MAX as usize
                    && ((u64::from(position(slot.item())) * buckets as u64) >> 32) as usize == home
            };
            if is_homed {
                found.push(slot.item());
            }
        }
        if !bucket.is_full() {
            break;
        }
    }
    found
}

/// Buckets ahead that have their items prefetched by [`walk_some`].
const AHEAD: usize = 2;

/// Passes every item of the next home buckets from a position on, and perhaps others, to `take`;
/// fewer buckets if it has enough before. Returns the next position, none at the end.
///
/// An item of a full home bucket lies in one of the next buckets, and all buckets between are full.
/// So the walk continues to the first bucket that is not full, and includes items of later homes
/// there.
pub(crate) fn walk_some<I: Item>(
    table: &Table<I>,
    position: u32,
    count: usize,
    take: &mut dyn FnMut(I) -> ControlFlow<()>,
) -> Option<u32> {
    let buckets = table.buckets();
    if buckets == 0 {
        return None;
    }
    let first = ((u64::from(position) * buckets as u64) >> 32) as usize;
    let mut end = buckets.min(first + count);
    (first..first + AHEAD).for_each(|at| prefetch_items(table, at % buckets));
    for at in first..first + buckets {
        prefetch_items(table, (at + AHEAD) % buckets);
        let bucket = table.bucket(at % buckets);
        for slot in bucket.used() {
            if take(bucket.slot(slot).item()).is_break() {
                end = end.min(at + 1);
            }
        }
        if at + 1 >= end && !bucket.is_full() {
            break;
        }
    }
    (end < buckets).then(|| first_position(end, buckets))
}

fn prefetch_items<I: Item>(table: &Table<I>, bucket: usize) {
    let bucket = table.bucket(bucket);
    for slot in bucket.used() {
        let address = bucket.slot(slot).address();
        prefetch(address);
        prefetch(address + 64);
    }
}
