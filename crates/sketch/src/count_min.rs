//! Count-min sketches: how often items came, never too low, from rows of counters. Each row counts
//! an item in a cell of its own, and the lowest of these counters is the estimate.

use crate::hash::murmur32;
use crate::pages::{LEN_MAX, Pages};

/// Rows of a sketch at most: an item's count needs a hash for each.
pub const DEPTH_MAX: u64 = 4096;

/// Bytes of a counter.
const CELL: usize = 4;

/// Counters that are read or written together.
const CELLS_AT_ONCE: usize = 1024;

/// A count-min sketch.
#[derive(Debug)]
pub struct CountMin {
    width: u32,
    depth: u32,
    /// Sum of all increments, wrapping.
    count: u64,
    cells: Pages,
}

/// Adds a number times its weight.
fn add(sum: &mut i64, number: i64, weight: i64) -> Result<(), Overflow> {
    let weighted = number.checked_mul(weight).ok_or(Overflow)?;
    *sum = sum.checked_add(weighted).ok_or(Overflow)?;
    Ok(())
}

/// The counters or the sum of a merge do not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Overflow;

impl CountMin {
    /// A sketch without items; none if it would have more than 4 GiB, or too many rows.
    pub fn new(width: u64, depth: u64) -> Option<Self> {
        let len = CountMin::bytes_of(width, depth)?;
        let (width, depth) = (u32::try_from(width).ok()?, u32::try_from(depth).ok()?);
        Some(CountMin { width, depth, count: 0, cells: Pages::new(len)? })
    }

    /// A sketch of these counters, row by row; none if they do not fit the dimensions.
    pub fn from_bytes(width: u64, depth: u64, count: u64, cells: &[u8]) -> Option<Self> {
        if CountMin::bytes_of(width, depth)? != cells.len() {
            return None;
        }
        let cells = Pages::from_bytes(cells)?;
        Some(CountMin { count, cells, ..CountMin::new(width, depth)? })
    }

    fn bytes_of(width: u64, depth: u64) -> Option<usize> {
        let cells = width.checked_mul(depth)?.checked_mul(CELL as u64)?;
        let is_sound = width > 0 && (1..=DEPTH_MAX).contains(&depth);
        usize::try_from(cells).ok().filter(|&len| is_sound && len <= LEN_MAX)
    }

    /// The dimensions for a relative error and the probability of a larger one.
    pub fn dimensions(error: f64, probability: f64) -> Option<(u64, u64)> {
        let width = (2.0 / error).ceil();
        // RedisBloom has the logarithms in 32 bits.
        let depth = (probability as f32).log10() / 0.5f32.log10();
        let fits = width < 1e18 && depth < 1e18;
        fits.then_some((width as u64, depth.ceil() as u64))
    }

    /// Counters of a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Sum of all increments, wrapping.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of all counters.
    pub fn bytes(&self) -> usize {
        self.cells.len()
    }

    /// Bytes occupied, without the sketch itself.
    pub fn allocated(&self) -> usize {
        self.cells.allocated()
    }

    /// Number of allocations, about.
    pub fn blocks(&self) -> usize {
        self.cells.blocks()
    }

    /// Upper bound of the growth of [`CountMin::allocated`] by counting this many items.
    pub fn growth(&self, items: usize) -> usize {
        self.cells.growth(items.saturating_mul(self.depth as usize))
    }

    /// The byte place of an item's counter in a row.
    #[inline]
    fn place(&self, item: &[u8], row: u32) -> usize {
        let column = murmur32(item, row) % self.width;
        (row as usize * self.width as usize + column as usize) * CELL
    }

    /// Upper bound of the number of times that an item was added.
    pub fn query(&self, item: &[u8]) -> u32 {
        let cells = (0..self.depth).map(|row| self.cells.number(self.place(item, row)));
        cells.min().unwrap_or(0)
    }

    /// Counts an item that came `times` times. Returns its count; at most `u32::MAX`, where
    /// counters stay.
    pub fn increment(&mut self, item: &[u8], times: u64) -> u32 {
        self.count = self.count.wrapping_add(times);
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let mut lowest = u32::MAX;
        for row in 0..self.depth {
            let place = self.place(item, row);
            let before = self.cells.number(place);
            let now = before.saturating_add(times);
            if now != before {
                self.cells.set_number(place, now);
            }
            lowest = lowest.min(now);
        }
        lowest
    }

    /// The sum of sketches of the same dimensions, each times its weight. `goes_on` is shown the
    /// bytes that are read.
    ///
    /// # Errors
    /// If a counter or the sum of increments does not fit, 64 bits do not hold it on the way, or
    /// `goes_on` returns false.
    pub fn merged(
        (width, depth): (u32, u32),
        sources: &[(&CountMin, i64)],
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<CountMin, Overflow> {
        let mut merged = CountMin::new(width.into(), depth.into()).ok_or(Overflow)?;
        let mut count = 0;
        for (sketch, weight) in sources {
            add(&mut count, sketch.count.cast_signed(), *weight)?;
        }
        merged.count = u64::try_from(count).map_err(|_| Overflow)?;
        let (mut sums, mut bytes) = (vec![0i64; CELLS_AT_ONCE], Vec::new());
        for from in (0..merged.bytes()).step_by(CELL * CELLS_AT_ONCE) {
            sums.fill(0);
            for (sketch, weight) in sources {
                if !goes_on(CELL * CELLS_AT_ONCE) {
                    return Err(Overflow);
                }
                bytes.clear();
                sketch.cells.read(from, CELL * CELLS_AT_ONCE, &mut bytes);
                for (sum, cell) in sums.iter_mut().zip(bytes.as_chunks::<CELL>().0) {
                    add(sum, u32::from_le_bytes(*cell).into(), *weight)?;
                }
            }
            bytes.clear();
            for sum in &sums {
                let cell = u32::try_from(*sum).map_err(|_| Overflow)?;
                bytes.extend_from_slice(&cell.to_le_bytes());
            }
            bytes.truncate(merged.bytes() - from);
            merged.cells.write(from, &bytes);
        }
        Ok(merged)
    }

    /// A copy without a snapshot.
    pub fn duplicate(&self) -> Self {
        CountMin { cells: self.cells.duplicate(), ..*self }
    }

    /// Shows all counters to `visit`, page by page.
    pub fn each_page(&self, visit: &mut dyn FnMut(&[u8])) {
        self.cells.each_page(visit);
    }

    /// Begins a snapshot of the present counters.
    pub fn begin_snapshot(&mut self) {
        self.cells.begin_snapshot();
    }

    /// Shows the next page of the snapshot to `visit`; false if there was none, which ends it.
    pub fn next_page(&mut self, visit: &mut dyn FnMut(&[u8])) -> bool {
        self.cells.next_page(visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(sketch: &CountMin) -> Vec<u8> {
        let mut out = Vec::new();
        sketch.each_page(&mut |page| out.extend_from_slice(page));
        out
    }

    #[test]
    fn counters_are_those_of_redisbloom() {
        let mut sketch = CountMin::new(4, 2).unwrap();
        let counts = [("a", 1), ("b", 300), ("c", 70_000)];
        for (item, times) in counts {
            assert_eq!(u64::from(sketch.increment(item.as_bytes(), times)), times);
        }
        assert_eq!(sketch.count(), 70_301);
        // As RedisBloom 8.8 dumps them.
        let cells: Vec<u32> =
            bytes(&sketch).as_chunks().0.iter().map(|cell| u32::from_le_bytes(*cell)).collect();
        assert_eq!(cells, [300, 70000, 1, 0, 70001, 300, 0, 0]);
        let copy = CountMin::from_bytes(4, 2, 70_301, &bytes(&sketch)).unwrap();
        assert_eq!((bytes(&copy), copy.query(b"b")), (bytes(&sketch), 300));
        assert!(CountMin::from_bytes(4, 3, 0, &bytes(&sketch)).is_none());
    }

    #[test]
    fn counts_are_never_too_low_and_seldom_much_too_high() {
        let (width, depth) = CountMin::dimensions(0.001, 0.01).unwrap();
        assert_eq!((width, depth), (2000, 7));
        let mut sketch = CountMin::new(width, depth).unwrap();
        for i in 0..10_000u32 {
            sketch.increment(&i.to_le_bytes(), u64::from(i % 10));
        }
        let allowed = (sketch.count() as f64 * 0.001) as u32;
        let mut wrong = 0;
        for i in 0..10_000u32 {
            let estimate = sketch.query(&i.to_le_bytes());
            assert!(estimate >= i % 10);
            wrong += u32::from(estimate > i % 10 + allowed);
        }
        assert!(wrong < 100, "{wrong}");
    }

    #[test]
    fn counters_end_at_their_maximum() {
        let mut sketch = CountMin::new(1, 1).unwrap();
        assert_eq!(sketch.increment(b"a", u64::from(u32::MAX) - 1), u32::MAX - 1);
        assert_eq!(sketch.increment(b"a", 1 << 62), u32::MAX);
        assert_eq!(
            (sketch.query(b"b"), sketch.count()),
            (u32::MAX, (1 << 62) + u64::from(u32::MAX) - 1)
        );
    }

    #[test]
    fn merges_add_weighted_counters() {
        let mut sketches = [(); 2].map(|()| CountMin::new(3000, 3).unwrap());
        sketches[0].increment(b"a", 5);
        sketches[1].increment(b"a", 2);
        sketches[1].increment(b"b", 7);
        let [x, y] = &sketches;
        let merged = CountMin::merged((3000, 3), &[(x, 3), (y, -2)], &mut |_| true);
        // 7 times -2.
        assert_eq!(merged.err(), Some(Overflow));
        let merged =
            CountMin::merged((3000, 3), &[(x, 3), (y, 2), (y, -1)], &mut |_| true).unwrap();
        assert_eq!([b"a", b"b"].map(|item| merged.query(item)), [17, 7]);
        assert_eq!(merged.count(), 24);
        assert!(CountMin::merged((3000, 3), &[(x, i64::MAX)], &mut |_| true).is_err());
        // The sum fits, but not on the way to it.
        let weights = [(x, i64::MAX / 5), (x, 1), (x, 1 - i64::MAX / 5)];
        assert!(CountMin::merged((3000, 3), &weights, &mut |_| true).is_err());
        assert!(merged.allocated() < 60_000, "{}", merged.allocated());
    }

    #[test]
    fn dimensions_are_bounded() {
        for (width, depth) in
            [(0, 1), (1, 0), (1 << 62, 4), (1 << 62, 8), (u64::MAX, u64::MAX), (1, 5000)]
        {
            assert!(CountMin::new(width, depth).is_none());
        }
        assert_eq!(CountMin::new(1 << 30, 1).map(|sketch| sketch.bytes()), None);
        assert_eq!(CountMin::new(1_000_000_000, 1).unwrap().allocated(), 0);
        assert!(CountMin::dimensions(1e-300, 0.5).is_none());
        assert_eq!(CountMin::dimensions(0.5, 1e-30), Some((4, 100)));
    }
}
