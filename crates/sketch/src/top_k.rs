//! Top-k lists: the most frequent items of a stream (HeavyKeeper). Rows of counters, each with the
//! fingerprint of the item that it counts; other items of the same counter make it decay. A heap
//! has the k items with the highest counts.

use crate::allocated;
use crate::hash::{murmur32, murmur32_each};
use crate::pages::Pages;
use std::cell::RefCell;

/// Items of a list at most: each that is added is compared with all of them.
pub const K_MAX: u64 = 1 << 20;

/// Rows of a list at most: an item's count needs a hash for each.
pub const DEPTH_MAX: u64 = 4096;

/// Increment of one item at most.
pub const INCREMENT_MAX: u32 = 100_000;

/// Seed of the hash that is an item's fingerprint.
const PRINT_SEED: u32 = 1919;

/// Bytes of a counter: fingerprint and count.
const CELL: usize = 8;

/// Counts from which on the chance of decay is computed, not looked up.
const TABLE: u32 = 256;

/// Entries of the heap that are handed out at once.
const ENTRIES_AT_ONCE: usize = 256;

/// Properties of a list, without its items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Items in the list.
    pub k: u32,
    /// Counters of a row.
    pub width: u32,
    /// Rows.
    pub depth: u32,
    /// Chance with which another item decrements a counter of 1; that of a higher one is a power.
    pub decay: f64,
}

impl Shape {
    /// The number of bytes of all counters; none if the list would be too large.
    pub fn bytes(&self) -> Option<usize> {
        let cells = u64::from(self.width).checked_mul(self.depth.into())?;
        let is_sound = (1..=K_MAX).contains(&self.k.into())
            && self.width > 0
            && (1..=DEPTH_MAX).contains(&self.depth.into())
            && self.decay > 0.0
            && self.decay <= 1.0;
        let bytes = usize::try_from(cells.checked_mul(CELL as u64)?).ok()?;
        (is_sound && bytes <= crate::pages::LEN_MAX).then_some(bytes)
    }
}

/// A place of the heap.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Entry {
    print: u32,
    count: u32,
    /// None if the place is free.
    item: Option<Box<[u8]>>,
}

impl Entry {
    /// A place with an item that counts this often; free if the item is empty and does not count.
    pub fn new(item: &[u8], count: u32) -> Self {
        if item.is_empty() && count == 0 {
            return Entry::default();
        }
        Entry { print: murmur32(item, PRINT_SEED), count, item: Some(item.into()) }
    }

    /// The item; none if the place is free.
    pub fn item(&self) -> Option<&[u8]> {
        self.item.as_deref()
    }

    /// The fingerprint of the item.
    pub fn print(&self) -> u32 {
        self.print
    }

    /// Estimated count of the item.
    pub fn count(&self) -> u32 {
        self.count
    }

    fn allocated(&self) -> usize {
        self.item.as_ref().map_or(0, |item| allocated(item.len()))
    }
}

/// A top-k list.
#[derive(Debug)]
pub struct TopK {
    shape: Shape,
    cells: Pages,
    /// The item with the lowest count first.
    heap: Vec<Entry>,
    /// Bytes of all items.
    items: usize,
    snapshot: Option<Box<Snapshot>>,
}

/// Progress of a snapshot.
#[derive(Debug, Default)]
struct Snapshot {
    stage: Stage,
    /// The heap as it was, if it has changed since.
    saved: Option<Vec<Entry>>,
    saved_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Cells,
    /// The next entry.
    Heap(usize),
    /// The next item.
    Items(usize),
}

/// A part of a list, in the order in which they are written.
#[derive(Debug)]
pub enum Part<'a> {
    /// Some bytes of the counters.
    Cells(&'a [u8]),
    /// The beginning of a heap with this many entries.
    Heap(usize),
    /// Some entries of the heap, without their items.
    Entries(&'a [Entry]),
    /// The items of these entries.
    Items(&'a [Entry]),
}

/// Draws numbers from a seed. Logs and replication repeat its draws: they never change.
#[derive(Clone, Copy, Debug)]
struct Draws(u64);

impl Draws {
    /// A number from 0 to 1, without 1 (SplitMix64).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// `base` to the power of `exponent`, by products alone: equal on every platform.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 != 0 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

/// Powers of the decay of the list that this thread used last, computed when they are needed.
struct Powers {
    decay: f64,
    /// Negative where it has not been computed.
    of: [f64; TABLE as usize],
}

thread_local! {
    static POWERS: RefCell<Box<Powers>> =
        RefCell::new(Box::new(Powers { decay: 0.0, of: [-1.0; TABLE as usize] }));
}

impl Powers {
    /// Calls with the powers of a decay.
    fn with<T>(decay: f64, call: impl FnOnce(&mut Powers) -> T) -> T {
        POWERS.with_borrow_mut(|powers| {
            if powers.decay.to_bits() != decay.to_bits() {
                **powers = Powers { decay, of: [-1.0; TABLE as usize] };
            }
            call(powers)
        })
    }

    /// The chance with which another item decrements a counter.
    #[inline]
    fn chance(&mut self, count: u32) -> f64 {
        if count < TABLE {
            return self.power(count);
        }
        let (whole, rest) = (count / (TABLE - 1), count % (TABLE - 1));
        power(self.power(TABLE - 1), whole) * self.power(rest)
    }

    #[inline]
    fn power(&mut self, exponent: u32) -> f64 {
        let known = &mut self.of[exponent as usize];
        if *known < 0.0 {
            *known = power(self.decay, exponent);
        }
        *known
    }
}

/// Decrements another item's counter by chance, at most `times` times. Returns its new value, and
/// how often an item that came `times` times counts for itself: 0 unless the other's is used up.
#[inline]
fn decay(before: u32, times: u32, draws: &mut Draws, powers: &mut Powers) -> (u32, u32) {
    let mut count = before;
    for left in (1..=times).rev() {
        let chance = powers.chance(count);
        // No draw is lower.
        if chance * (1u64 << 54) as f64 <= 1.0 {
            break;
        }
        if draws.next() < chance {
            count -= 1;
            if count == 0 {
                return (0, left);
            }
        }
    }
    (count, 0)
}

/// Remainders of divisions by one number, by products (Lemire, Kaser and Kurz, 2019).
#[derive(Clone, Copy)]
struct Divisor {
    number: u32,
    inverse: u64,
}

impl Divisor {
    /// Creates it for a number, which is not 0.
    fn new(number: u32) -> Self {
        Divisor { number, inverse: (u64::MAX / u64::from(number)).wrapping_add(1) }
    }

    #[inline]
    fn remainder(self, of: u32) -> u32 {
        let low = self.inverse.wrapping_mul(u64::from(of));
        ((u128::from(low) * u128::from(self.number)) >> 64) as u32
    }
}

/// Number of rows with places that are computed at once, beside the print.
const ROWS: u32 = 7;

impl TopK {
    /// Creates an empty list; none if it would be too large.
    pub fn new(shape: Shape) -> Option<Self> {
        let cells = Pages::new(shape.bytes()?)?;
        let heap = vec![Entry::default(); shape.k as usize];
        Some(TopK { shape, cells, heap, items: 0, snapshot: None })
    }

    /// Creates a list of these counters and this heap; none if they do not fit the shape.
    pub fn from_parts(shape: Shape, cells: &[u8], mut heap: Vec<Entry>) -> Option<Self> {
        if shape.bytes()? != cells.len() || heap.len() != shape.k as usize {
            return None;
        }
        heap.shrink_to_fit();
        let items = heap.iter().map(Entry::allocated).sum();
        Some(TopK { shape, cells: Pages::from_bytes(cells)?, heap, items, snapshot: None })
    }

    /// Bytes that an empty list of this shape occupies, without the list itself.
    pub fn empty_bytes(shape: Shape) -> usize {
        allocated(shape.k as usize * size_of::<Entry>())
    }

    /// Properties of the list.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of all counters.
    pub fn bytes(&self) -> usize {
        self.cells.len()
    }

    /// All places of the heap.
    pub fn heap(&self) -> &[Entry] {
        &self.heap
    }

    /// Bytes occupied, without the list itself.
    pub fn allocated(&self) -> usize {
        let saved = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.saved_bytes);
        self.cells.allocated() + self.heap_bytes() + saved
    }

    fn heap_bytes(&self) -> usize {
        allocated(self.heap.len() * size_of::<Entry>()) + self.items
    }

    /// Number of allocations, about.
    pub fn blocks(&self) -> usize {
        self.cells.blocks() + self.heap.len()
    }

    /// Upper bound of the growth of [`TopK::allocated`] by counting this many items, which have
    /// `bytes` together.
    pub fn growth(&self, items: usize, bytes: usize) -> usize {
        let copy = match &self.snapshot {
            Some(snapshot) if snapshot.saved.is_none() => self.heap_bytes(),
            _ => 0,
        };
        let cells = self.cells.growth(items.saturating_mul(self.shape.depth as usize));
        cells + copy + bytes * 5 / 4 + 16 * items
    }

    /// The byte place of an item's counter in a row.
    #[inline]
    fn place(&self, item: &[u8], row: u32) -> usize {
        let column = murmur32(item, row) % self.shape.width;
        (row as usize * self.shape.width as usize + column as usize) * CELL
    }

    #[inline]
    fn find(&self, item: &[u8], print: u32) -> Option<usize> {
        let is_it = |entry: &Entry| entry.print == print && entry.item() == Some(item);
        self.heap.iter().rposition(is_it)
    }

    /// Whether an item is in the list.
    pub fn contains(&self, item: &[u8]) -> bool {
        self.find(item, murmur32(item, PRINT_SEED)).is_some()
    }

    /// Estimated count of an item.
    pub fn count(&self, item: &[u8]) -> u32 {
        let print = murmur32(item, PRINT_SEED);
        let least = if self.find(item, print).is_some() { self.heap[0].count } else { 0 };
        let cells = (0..self.shape.depth).map(|row| self.place(item, row));
        let own = cells.filter(|&at| self.cells.number(at) == print);
        let counts = own.map(|at| self.cells.number(at + 4));
        counts.filter(|&count| count >= least).max().unwrap_or(0)
    }

    /// Counts an item that came `times` times, with the numbers that follow from a seed. Returns
    /// the item that it expels from the list.
    pub fn add(&mut self, item: &[u8], times: u32, seed: u64) -> Option<Box<[u8]>> {
        self.add_while(item, times, seed, &mut |_| true)
    }

    /// Like [`TopK::add`], but ends half done once `goes_on`, which is shown the draws of each row,
    /// returns false.
    pub fn add_while(
        &mut self,
        item: &[u8],
        times: u32,
        seed: u64,
        goes_on: &mut impl FnMut(usize) -> bool,
    ) -> Option<Box<[u8]>> {
        let (print, highest) = Powers::with(self.shape.decay, |powers| {
            self.count_in_rows(item, times, &mut Draws(seed), powers, goes_on)
        })?;
        if highest < self.heap[0].count {
            return None;
        }
        self.place_in_heap(item, print, highest)
    }

    /// Counts an item in each row. Returns its print and the highest of its counters; none if
    /// `goes_on` ended it.
    fn count_in_rows(
        &mut self,
        item: &[u8],
        times: u32,
        draws: &mut Draws,
        powers: &mut Powers,
        goes_on: &mut impl FnMut(usize) -> bool,
    ) -> Option<(u32, u32)> {
        let Shape { width, depth, .. } = self.shape;
        let (by_width, mut print, mut highest) = (Divisor::new(width), 0, 0);
        for first in (0..depth.max(1)).step_by(ROWS as usize) {
            let [of_print, columns @ ..] = murmur32_each(
                item,
                [
                    PRINT_SEED,
                    first,
                    first + 1,
                    first + 2,
                    first + 3,
                    first + 4,
                    first + 5,
                    first + 6,
                ],
            );
            print = of_print;
            for (row, hash) in (first..depth).zip(columns) {
                let at = (row as usize * width as usize + by_width.remainder(hash) as usize) * CELL;
                let (present, count) = self.cells.pair(at);
                if count == 0 || present == print {
                    let count = count.saturating_add(times);
                    self.cells.set_pair(at, (print, count));
                    highest = highest.max(count);
                } else if !goes_on(times as usize) {
                    return None;
                } else {
                    let (other, own) = decay(count, times, draws, powers);
                    if own > 0 {
                        self.cells.set_pair(at, (print, own));
                        highest = highest.max(own);
                    } else if other != count {
                        self.cells.set_pair(at, (present, other));
                    }
                }
            }
        }
        Some((print, highest))
    }

    fn place_in_heap(&mut self, item: &[u8], print: u32, count: u32) -> Option<Box<[u8]>> {
        self.save_heap();
        if let Some(at) = self.find(item, print) {
            self.heap[at].count = count;
            self.sift_down(at);
            return None;
        }
        let entry = Entry { print, count, item: Some(item.into()) };
        self.items += entry.allocated();
        let expelled = std::mem::replace(&mut self.heap[0], entry);
        self.items -= expelled.allocated();
        self.sift_down(0);
        expelled.item
    }

    /// Moves an entry behind entries of lower counts, and once behind an equal count.
    fn sift_down(&mut self, mut at: usize) {
        let mut is_first = true;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(first) = self.heap.get(left) else { return };
            let is_right = self.heap.get(right).is_some_and(|other| first.count > other.count);
            let child = if is_right { right } else { left };
            let (below, own) = (self.heap[child].count, self.heap[at].count);
            if below > own || (below == own && !is_first) {
                return;
            }
            self.heap.swap(at, child);
            (at, is_first) = (child, false);
        }
    }

    /// Keeps the heap for the snapshot, before its first change.
    #[inline]
    fn save_heap(&mut self) {
        let bytes = self.heap_bytes();
        if let Some(snapshot) = &mut self.snapshot
            && snapshot.saved.is_none()
        {
            snapshot.saved = Some(self.heap.clone());
            snapshot.saved_bytes = bytes;
        }
    }

    /// A copy without a snapshot.
    pub fn duplicate(&self) -> Self {
        let (cells, heap) = (self.cells.duplicate(), self.heap.clone());
        TopK { cells, heap, snapshot: None, ..*self }
    }

    /// Shows all parts to `visit`, in order.
    pub fn each_part(&self, visit: &mut dyn FnMut(Part<'_>)) {
        self.cells.each_page(&mut |cells| visit(Part::Cells(cells)));
        visit(Part::Heap(self.heap.len()));
        visit(Part::Entries(&self.heap));
        visit(Part::Items(&self.heap));
    }

    /// Begins a snapshot of the present list.
    pub fn begin_snapshot(&mut self) {
        self.cells.begin_snapshot();
        self.snapshot = Some(Box::default());
    }

    /// Shows the next part of the snapshot to `visit`; false at the end.
    pub fn next_part(&mut self, visit: &mut dyn FnMut(Part<'_>)) -> bool {
        let Some(snapshot) = &mut self.snapshot else { return false };
        let heap = snapshot.saved.as_ref().unwrap_or(&self.heap);
        let some = |from: usize| &heap[from..heap.len().min(from + ENTRIES_AT_ONCE)];
        match snapshot.stage {
            Stage::Cells => {
                if !self.cells.next_page(&mut |cells| visit(Part::Cells(cells))) {
                    snapshot.stage = Stage::Heap(0);
                    visit(Part::Heap(heap.len()));
                }
            }
            Stage::Heap(from) => {
                visit(Part::Entries(some(from)));
                let next = from + ENTRIES_AT_ONCE;
                snapshot.stage =
                    if next < heap.len() { Stage::Heap(next) } else { Stage::Items(0) };
            }
            Stage::Items(from) if from < heap.len() => {
                visit(Part::Items(some(from)));
                snapshot.stage = Stage::Items(from + ENTRIES_AT_ONCE);
            }
            Stage::Items(_) => {
                self.snapshot = None;
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Shape = Shape { k: 3, width: 8, depth: 7, decay: 0.9 };

    fn push(out: &mut Vec<u8>, part: &Part<'_>) {
        match part {
            Part::Cells(cells) => out.extend_from_slice(cells),
            Part::Heap(len) => out.extend_from_slice(&len.to_le_bytes()),
            Part::Entries(entries) => entries.iter().for_each(|entry| {
                out.extend_from_slice(&entry.print.to_le_bytes());
                out.extend_from_slice(&entry.count.to_le_bytes());
            }),
            Part::Items(entries) => {
                entries
                    .iter()
                    .for_each(|entry| out.extend_from_slice(entry.item().unwrap_or(b"-")));
            }
        }
    }

    fn bytes_of(list: &TopK) -> Vec<u8> {
        let mut out = Vec::new();
        list.each_part(&mut |part| push(&mut out, &part));
        out
    }

    fn items(list: &TopK) -> Vec<&[u8]> {
        list.heap.iter().map(|entry| entry.item().unwrap_or(b"-")).collect()
    }

    #[test]
    fn places_of_the_heap_are_those_of_redisbloom() {
        let mut list = TopK::new(SMALL).unwrap();
        let add = |list: &mut TopK, item: &[u8]| list.add(item, 1, 1).map(|item| item.to_vec());
        assert!([b"x", b"y", b"z"].iter().all(|item| add(&mut list, *item).is_none()));
        assert_eq!(items(&list), [b"x", b"z", b"y"]);
        assert_eq!(add(&mut list, b"w"), Some(b"x".to_vec()));
        assert_eq!(add(&mut list, b"x"), Some(b"z".to_vec()));
        assert!(list.contains(b"w") && !list.contains(b"z"));
        assert_eq!((list.count(b"x"), list.count(b"z"), list.count(b"q")), (2, 1, 0));
    }

    #[test]
    fn the_most_frequent_items_are_found() {
        for decay in [0.9, 0.5, 1.0] {
            let mut list = TopK::new(Shape { k: 10, width: 200, depth: 5, decay }).unwrap();
            // Item n comes 4,000 / n times.
            let mut stream = Vec::new();
            (1..2_000u32).for_each(|n| stream.extend((0..4_000 / n).map(|i| (i * n, n))));
            stream.sort_unstable();
            for (i, (_, n)) in stream.iter().enumerate() {
                list.add(&n.to_le_bytes(), 1, i as u64);
            }
            let found = (1..=8u32).filter(|n| list.contains(&n.to_le_bytes())).count();
            assert!(found >= 7 || decay == 1.0, "{found} with {decay}");
        }
    }

    #[test]
    fn a_seed_decides_the_outcome() {
        let run = |seeds: u64| {
            let mut list = TopK::new(Shape { k: 4, width: 3, depth: 2, decay: 0.9 }).unwrap();
            for i in 0..500u32 {
                list.add(&(i % 23).to_le_bytes(), i % 7, u64::from(i) ^ seeds);
            }
            list
        };
        assert_eq!(bytes_of(&run(5)), bytes_of(&run(5)));
        assert_ne!(bytes_of(&run(5)), bytes_of(&run(6)));
        // Draws that logs repeat.
        let mut draws = Draws(7);
        assert_eq!([draws.next(), draws.next()].map(f64::to_bits), DRAWN);
        assert_eq!(Powers::with(0.9, |powers| powers.chance(300)).to_bits(), CHANCE);
    }

    const DRAWN: [u64; 2] = [0x3fd8_f2f8_7916_4c82, 0x3f91_30f3_5fd0_f180];
    const CHANCE: u64 = 0x3d15_193a_9734_b362;

    #[test]
    fn counters_and_chances_end() {
        let mut list = TopK::new(Shape { k: 1, width: 1, depth: 1, decay: 0.5 }).unwrap();
        for _ in 0..50_000 {
            list.add(b"a", INCREMENT_MAX, 0);
        }
        assert_eq!(list.count(b"a"), u32::MAX);
        // The chance to decrement such a counter is too low to be drawn.
        assert!(list.add(b"b", INCREMENT_MAX, 0).is_none());
        assert_eq!((list.count(b"a"), list.count(b"b")), (u32::MAX, 0));
        let shape = |k, width, depth, decay| Shape { k, width, depth, decay };
        for shape in [
            shape(0, 1, 1, 0.5),
            shape(u32::MAX, 1, 1, 0.5),
            shape(1, 0, 1, 0.5),
            shape(1, 1, 0, 0.5),
            shape(1, u32::MAX, u32::MAX, 0.5),
            shape(1, 1, 1, f64::NAN),
            shape(1, 1, 1, 1.5),
        ] {
            assert!(TopK::new(shape).is_none());
        }
    }

    #[test]
    fn parts_make_the_same_list_and_a_snapshot_has_it_as_it_was() {
        let mut list = TopK::new(Shape { k: 900, width: 3_000, depth: 3, decay: 0.9 }).unwrap();
        let item = |i: u32| format!("item {i}").into_bytes();
        for i in 0..2_000 {
            let item = item(i % 1_500);
            let (before, bound) = (list.allocated(), list.growth(1, item.len()));
            list.add(&item, 1, i.into());
            assert!(list.allocated().saturating_sub(before) <= bound, "{i}");
        }
        let mut cells = Vec::new();
        list.cells.each_page(&mut |page| cells.extend_from_slice(page));
        let heap =
            list.heap.iter().map(|entry| Entry::new(entry.item().unwrap_or_default(), entry.count));
        let copy = TopK::from_parts(list.shape, &cells, heap.collect()).unwrap();
        assert!(bytes_of(&copy) == bytes_of(&list) && copy.allocated() == list.allocated());
        assert!(TopK::from_parts(list.shape, &cells[1..], copy.heap.clone()).is_none());
        assert!(TopK::from_parts(list.shape, &cells, copy.heap[1..].to_vec()).is_none());
        let (before, mut taken, mut i) = (bytes_of(&list), Vec::new(), 0);
        list.begin_snapshot();
        while list.next_part(&mut |part| push(&mut taken, &part)) {
            for _ in 0..100 {
                i += 1;
                let item = item(i * 7 % 1_500);
                let (before, bound) = (list.allocated(), list.growth(1, item.len()));
                list.add(&item, 3, i.into());
                assert!(list.allocated().saturating_sub(before) <= bound, "{i}");
            }
        }
        assert!(taken == before && list.snapshot.is_none());
        let duplicate = list.duplicate();
        assert_eq!(duplicate.allocated(), list.allocated());
    }
}
