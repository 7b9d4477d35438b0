//! Sorted rows: the first of them, in a heap.

use crate::aggregate::pipeline::Row;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Slots to sort by, and whether high values are first.
pub(super) type SortKeys = Arc<[(usize, bool)]>;

/// The first rows so far, or the rest of them in their order.
#[derive(Debug)]
pub(super) enum Sorter {
    Collecting(BinaryHeap<Sorted>),
    Giving(BinaryHeap<Reverse<Sorted>>),
}

#[derive(Debug)]
pub(super) struct Sorted {
    row: Row,
    keys: SortKeys,
}

impl Sorter {
    pub fn new() -> Self {
        Sorter::Collecting(BinaryHeap::new())
    }

    /// Adds a row, keeping `most`; returns the growth in bytes.
    pub fn add(&mut self, row: Row, keys: &SortKeys, most: usize) -> i64 {
        let Sorter::Collecting(rows) = self else { return 0 };
        let sorted = Sorted { row, keys: keys.clone() };
        let grown = sorted.row.footprint() as i64;
        if rows.len() < most {
            rows.push(sorted);
            return grown;
        }
        match rows.peek_mut() {
            Some(mut worst) if sorted < *worst => {
                let freed = worst.row.footprint() as i64;
                *worst = sorted;
                grown - freed
            }
            _ => 0,
        }
    }

    /// Takes the next row in order. No row is added later.
    pub fn take(&mut self) -> Option<Row> {
        if let Sorter::Collecting(rows) = self {
            let rows = std::mem::take(rows).into_vec();
            *self = Sorter::Giving(rows.into_iter().map(Reverse).collect::<Vec<_>>().into());
        }
        match self {
            Sorter::Collecting(_) => None,
            Sorter::Giving(rows) => rows.pop().map(|Reverse(sorted)| sorted.row),
        }
    }
}

impl Ord for Sorted {
    fn cmp(&self, other: &Self) -> Ordering {
        for &(slot, is_descending) in &*self.keys {
            let [a, b] = [&self.row, &other.row].map(|row| row.values.get(slot)?.as_ref());
            let order = match (a, b) {
                (Some(a), Some(b)) if is_descending => b.order(a),
                (Some(a), Some(b)) => a.order(b),
                // Rows without a value are last in both directions.
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        let order = self.row.number.cmp(&other.row.number);
        match self.keys.last() {
            Some((_, true)) => order.reverse(),
            _ => order,
        }
    }
}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sorted {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Sorted {}
