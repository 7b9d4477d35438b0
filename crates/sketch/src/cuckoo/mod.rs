//! Cuckoo filters: a fingerprint of each item in one of two buckets, so that items can be deleted.
//! After a full sub-filter comes another one; an item is in the filter if one of them has it.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the filter |
//! | `table` | one sub-filter: buckets of fingerprints |
//! | `dump` | the form of `CF.SCANDUMP` |

mod dump;
mod table;

pub use dump::{HEAD_LEN, LoadChunkError, PIECE_MAX};
pub use table::Print;

use crate::pages::Pages;
use table::Table;

/// Sub-filters that a filter has at most.
pub const FILTERS_MAX: usize = u16::MAX as usize;

/// Largest bucket: fingerprints of one byte each.
pub const BUCKET_MAX: u64 = 255;

/// Largest factor by which a sub-filter is larger than the one before.
pub const EXPANSION_MAX: u64 = 32_768;

/// Deletions that a compaction follows: one in this number of items.
const DELETED_PART: u64 = 10;

/// The reason for which an item cannot be added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AddError {
    /// The filter is full and does not grow.
    Full,
    /// The filter has as many sub-filters as are allowed, or the next one would be too large.
    NoMore,
}

/// Properties of a filter, without its items.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Buckets of the first sub-filter: a power of two.
    pub buckets: u64,
    /// Fingerprints of a bucket.
    pub bucket_size: u8,
    /// Fingerprints that an item may move before the filter counts as full.
    pub iterations: u16,
    /// Factor by which each sub-filter is larger than the one before: a power of two; 0 if the
    /// filter does not grow.
    pub expansion: u16,
}

impl Shape {
    /// The shape of a filter for `capacity` items. Rounds the expansion up to a power of two. None
    /// if no such filter is possible.
    pub fn sized(capacity: u64, bucket_size: u8, iterations: u16, expansion: u16) -> Option<Self> {
        let buckets = capacity.checked_div(bucket_size.into())?.checked_next_power_of_two()?;
        let expansion = if expansion == 0 { 0 } else { expansion.checked_next_power_of_two()? };
        let shape = Shape { buckets, bucket_size, iterations, expansion };
        (shape.is_sound() && shape.bytes_of(0).is_some()).then_some(shape)
    }

    fn is_sound(&self) -> bool {
        self.buckets.is_power_of_two()
            && self.bucket_size > 0
            && self.iterations > 0
            && (self.expansion == 0 || self.expansion.is_power_of_two())
    }

    /// Buckets of sub-filter `i`; none if there are too many.
    pub fn buckets_of(&self, i: usize) -> Option<u64> {
        match (self.expansion, i) {
            (_, 0) => Some(self.buckets),
            (0, _) => None,
            (1, _) => Some(self.buckets),
            (by, _) => {
                let shift = by.ilog2().checked_mul(u32::try_from(i).ok()?)?;
                let (buckets, own) = (1u64.checked_shl(shift)?, self.buckets);
                buckets.checked_mul(own)
            }
        }
    }

    /// Bytes of sub-filter `i`; none if they are too many.
    pub fn bytes_of(&self, i: usize) -> Option<usize> {
        let bytes = self.buckets_of(i)?.checked_mul(self.bucket_size.into())?;
        usize::try_from(bytes).ok().filter(|&bytes| bytes <= crate::pages::LEN_MAX)
    }
}

/// A cuckoo filter.
#[derive(Debug)]
pub struct Cuckoo {
    shape: Shape,
    /// Oldest first; at least one.
    tables: Vec<Table>,
    items: u64,
    /// Items that were deleted since the last compaction.
    deletes: u64,
    /// Sum of [`Pages::allocated`].
    allocated: usize,
    snapshot: Option<Snapshot>,
}

/// Progress of a snapshot.
#[derive(Debug)]
struct Snapshot {
    /// Sub-filters at the beginning.
    count: usize,
    /// The sub-filter that is being handed out.
    next: usize,
    /// Whether its number of buckets was handed out.
    in_cells: bool,
    /// Sub-filters that were removed since, by place.
    removed: Vec<(usize, Table)>,
}

/// A part of a filter, in the order in which they are written.
#[derive(Debug)]
pub enum Part<'a> {
    /// Beginning of a sub-filter: its buckets, and the bytes of all of them.
    Table(u64, usize),
    /// Some of these bytes.
    Cells(&'a [u8]),
}

impl Cuckoo {
    /// Creates a filter without items; none if it would be too large.
    pub fn new(shape: Shape) -> Option<Self> {
        Cuckoo::with_items(shape, 1, 0, 0)
    }

    /// Creates a filter of this many sub-filters, which are empty still; none if no such filter is
    /// possible.
    fn with_items(shape: Shape, tables: usize, items: u64, deletes: u64) -> Option<Self> {
        if !shape.is_sound() || !(1..=FILTERS_MAX).contains(&tables) {
            return None;
        }
        let tables = (0..tables).map(|i| {
            Some(Table::new(
                shape.buckets_of(i)?,
                shape.bucket_size,
                Pages::new(shape.bytes_of(i)?)?,
            ))
        });
        let mut tables = tables.collect::<Option<Vec<_>>>()?;
        tables.shrink_to_fit();
        Some(Cuckoo { shape, tables, items, deletes, allocated: 0, snapshot: None })
    }

    /// Creates a filter from its sub-filters: their buckets, and the bytes of these. None if the
    /// shape gives them other sizes.
    pub fn from_tables(
        shape: Shape,
        tables: Vec<(u64, Pages)>,
        items: u64,
        deletes: u64,
    ) -> Option<Self> {
        let mut cuckoo = Cuckoo::with_items(shape, tables.len(), items, deletes)?;
        for (table, (buckets, cells)) in cuckoo.tables.iter_mut().zip(tables) {
            if table.buckets() != buckets || table.cells().len() != cells.len() {
                return None;
            }
            cuckoo.allocated += cells.allocated();
            *table.cells_mut() = cells;
        }
        Some(cuckoo)
    }

    /// Properties of the filter.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Number of items that were deleted since the last compaction.
    pub fn deletes(&self) -> u64 {
        self.deletes
    }

    /// Number of sub-filters.
    pub fn filters(&self) -> usize {
        self.tables.len()
    }

    /// Bytes that Redis states as the size.
    pub fn size(&self) -> u64 {
        40 + 16 * self.tables.len() as u64 + self.bytes()
    }

    /// Bytes of all buckets.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.cells().len() as u64).sum()
    }

    /// Bytes occupied, without the filter itself.
    pub fn allocated(&self) -> usize {
        let kept = self.snapshot.as_ref().map_or(0, |snapshot| {
            let tables = snapshot.removed.iter().map(|(_, table)| table.cells().allocated());
            tables.sum::<usize>() + snapshot.removed.capacity() * size_of::<(usize, Table)>()
        });
        self.allocated + crate::allocated(self.tables.capacity() * size_of::<Table>()) + kept
    }

    /// Number of allocations, about.
    pub fn blocks(&self) -> usize {
        self.tables.iter().map(|table| table.cells().blocks()).sum::<usize>() + self.tables.len()
    }

    /// Upper bound of the bytes that looking an item up reads.
    pub fn probes(&self) -> usize {
        2 * self.tables.len() * (usize::from(self.shape.bucket_size) + 1)
    }

    /// Upper bound of the bytes that adding an item reads and writes.
    pub fn probes_to_add(&self) -> usize {
        let moves = 2 * usize::from(self.shape.iterations);
        self.probes() + moves * (usize::from(self.shape.bucket_size) + 1)
    }

    /// Upper bound of the bytes that a compaction reads; 0 if there is nothing to compact.
    pub fn probes_to_compact(&self) -> usize {
        let newer = self.tables.iter().enumerate().skip(1);
        newer.fold(0, |sum, (i, table)| {
            sum.saturating_add(table.cells().allocated().saturating_mul(1 + 2 * i))
        })
    }

    /// Whether deleting an item that is there ends in a compaction.
    pub fn is_compacted_by_deletion(&self) -> bool {
        let (items, deletes) = (self.items.wrapping_sub(1), self.deletes.wrapping_add(1));
        self.tables.len() > 1 && deletes as f64 > items as f64 / DELETED_PART as f64
    }

    /// Upper bound of the growth of [`Cuckoo::allocated`] by adding this many items, while there
    /// are at most `most` sub-filters.
    pub fn growth(&self, items: usize, most: usize) -> usize {
        let kicked = match self.snapshot {
            Some(_) => items.saturating_mul(usize::from(self.shape.iterations) + 1),
            None => items,
        };
        let mut bound = 0;
        for table in &self.tables {
            bound += table.cells().growth(kicked);
        }
        // A bucket is full before a sub-filter is added.
        let new = items.div_ceil(self.shape.bucket_size.into());
        let new = new.min(most.saturating_sub(self.tables.len()));
        for i in (self.tables.len()..).take(new) {
            let Some(cells) = self.shape.bytes_of(i).and_then(Pages::new) else { break };
            bound += cells.growth(items) + size_of::<Table>();
        }
        bound
    }

    /// Reads the buckets of items, so that they are cached when they are needed.
    pub fn touch(&self, prints: &[Print]) {
        let read = |print: &Print| {
            let newest = self.tables.iter().rev().take(2);
            newest.fold(0, |sum, table| sum ^ table.touch(*print))
        };
        std::hint::black_box(prints.iter().fold(0, |sum, print| sum ^ read(print)));
    }

    /// Whether an item seems to be there.
    #[inline]
    pub fn contains(&self, print: Print) -> bool {
        self.tables.iter().any(|table| table.find(print).is_some())
    }

    /// The number of times that an item seems to be there.
    pub fn count(&self, print: Print) -> u64 {
        self.tables.iter().map(|table| table.count(print)).sum()
    }

    /// Adds an item, whether it is there or not, in at most `most` sub-filters.
    ///
    /// # Errors
    /// If there is no room; nothing has changed then.
    pub fn add(&mut self, print: Print, most: usize) -> Result<(), AddError> {
        let before = self.tables.iter().rposition(|table| table.free(print).is_some());
        if let Some(i) = before {
            self.in_table(i, |table| table.put_free(print));
        } else {
            let newest = self.tables.len() - 1;
            let iterations = self.shape.iterations;
            if !self.in_table(newest, |table| table.kick(print, iterations)) {
                self.grow(most)?;
                self.in_table(newest + 1, |table| table.put_free(print));
            }
        }
        self.items = self.items.wrapping_add(1);
        Ok(())
    }

    /// Adds an empty sub-filter.
    #[cold]
    fn grow(&mut self, most: usize) -> Result<(), AddError> {
        if self.shape.expansion == 0 {
            return Err(AddError::Full);
        }
        let i = self.tables.len();
        let cells = self.shape.bytes_of(i).and_then(Pages::new);
        let (Some(buckets), Some(cells)) = (self.shape.buckets_of(i), cells) else {
            return Err(AddError::NoMore);
        };
        if i >= most.min(FILTERS_MAX) {
            return Err(AddError::NoMore);
        }
        self.tables.reserve_exact(1);
        self.tables.push(Table::new(buckets, self.shape.bucket_size, cells));
        Ok(())
    }

    /// Changes a sub-filter.
    fn in_table<R>(&mut self, i: usize, change: impl FnOnce(&mut Table) -> R) -> R {
        let table = &mut self.tables[i];
        let before = table.cells().allocated();
        let changed = change(table);
        self.allocated = self.allocated - before + table.cells().allocated();
        changed
    }

    /// Deletes an item once. Returns whether it seemed to be there.
    pub fn delete(&mut self, print: Print) -> bool {
        let Some(i) = self.tables.iter().rposition(|table| table.find(print).is_some()) else {
            return false;
        };
        let is_compacted = self.is_compacted_by_deletion();
        self.in_table(i, |table| table.remove(print));
        (self.items, self.deletes) = (self.items.wrapping_sub(1), self.deletes.wrapping_add(1));
        if is_compacted {
            self.compact(false);
        }
        true
    }

    /// Moves items to older sub-filters that have room, and removes the newest ones that become
    /// empty. Unless it `goes_on`, ends with the first from which an item cannot be moved.
    pub fn compact(&mut self, goes_on: bool) {
        self.compact_while(goes_on, &mut |_| true);
    }

    /// Like [`Cuckoo::compact`], but ends half done once `is_wanted`, which is shown the bytes that
    /// are read, returns false.
    pub fn compact_while(&mut self, goes_on: bool, is_wanted: &mut dyn FnMut(usize) -> bool) {
        for i in (1..self.tables.len()).rev() {
            if self.compact_one(i, is_wanted) {
                if i + 1 == self.tables.len() {
                    self.remove_newest();
                }
            } else if !goes_on {
                break;
            }
        }
        self.deletes = 0;
    }

    /// Moves all items of a sub-filter to older ones; false if one has no room there.
    fn compact_one(&mut self, i: usize, is_wanted: &mut dyn FnMut(usize) -> bool) -> bool {
        let (mut is_empty, mut next, mut cells) = (true, 0, Vec::new());
        while let Some((from, page)) = self.tables[i].cells().page_from(next) {
            cells.clear();
            cells.extend_from_slice(page);
            next = from + cells.len();
            if !is_wanted(cells.len().saturating_mul(1 + 2 * i)) {
                return false;
            }
            for (at, &cell) in (from..).zip(&cells).filter(|&(_, &cell)| cell != 0) {
                let print = Print::of_cell(cell, (at / usize::from(self.shape.bucket_size)) as u64);
                match self.tables[..i].iter().position(|table| table.free(print).is_some()) {
                    Some(older) => {
                        self.in_table(older, |table| table.put_free(print));
                        self.in_table(i, |table| table.clear(at));
                    }
                    None => is_empty = false,
                }
            }
        }
        is_empty
    }

    fn remove_newest(&mut self) {
        let Some(table) = self.tables.pop() else { return };
        self.allocated -= table.cells().allocated();
        self.tables.shrink_to_fit();
        let i = self.tables.len();
        if let Some(snapshot) = &mut self.snapshot
            && (snapshot.next..snapshot.count).contains(&i)
            && snapshot.removed.iter().all(|(place, _)| *place != i)
        {
            snapshot.removed.push((i, table));
        }
    }

    /// A copy without a snapshot.
    pub fn duplicate(&self) -> Self {
        let tables: Vec<Table> = self.tables.iter().map(Table::duplicate).collect();
        let allocated = tables.iter().map(|table| table.cells().allocated()).sum();
        Cuckoo { tables, allocated, snapshot: None, ..*self }
    }

    /// Shows all parts to `visit`, in order.
    pub fn each_part(&self, visit: &mut dyn FnMut(Part<'_>)) {
        for table in &self.tables {
            visit(Part::Table(table.buckets(), table.cells().len()));
            table.cells().each_page(&mut |cells| visit(Part::Cells(cells)));
        }
    }

    /// Begins a snapshot of the present filter.
    pub fn begin_snapshot(&mut self) {
        self.tables.iter_mut().for_each(|table| table.cells_mut().begin_snapshot());
        let count = self.tables.len();
        self.snapshot = Some(Snapshot { count, next: 0, in_cells: false, removed: Vec::new() });
    }

    /// Shows the next part of the snapshot to `visit`; false at the end.
    pub fn next_part(&mut self, visit: &mut dyn FnMut(Part<'_>)) -> bool {
        let Some(snapshot) = &mut self.snapshot else { return false };
        let i = snapshot.next;
        if i == snapshot.count {
            self.snapshot = None;
            return false;
        }
        let removed = snapshot.removed.iter().position(|(place, _)| *place == i);
        let table = match removed {
            Some(at) => &mut snapshot.removed[at].1,
            None => &mut self.tables[i],
        };
        if !snapshot.in_cells {
            snapshot.in_cells = true;
            visit(Part::Table(table.buckets(), table.cells().len()));
            return true;
        }
        let before = table.cells().allocated();
        let goes_on = table.cells_mut().next_page(&mut |cells| visit(Part::Cells(cells)));
        if removed.is_none() {
            self.allocated = self.allocated - before + table.cells().allocated();
        }
        if !goes_on {
            (snapshot.next, snapshot.in_cells) = (i + 1, false);
            removed.map(|at| snapshot.removed.swap_remove(at));
        }
        true
    }
}

#[cfg(test)]
mod tests;
