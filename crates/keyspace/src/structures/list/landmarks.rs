//! Landmarks of a long list: the number of items before every `STEP`-th chunk. An item in the
//! middle is found from the landmark before it; counting from an end would take linear time.
//!
//! They are built on first use. Changes at the ends shift them together; changes in the middle of
//! more than one item discard them.

/// Chunks from one landmark to the next.
const STEP: usize = if cfg!(test) { 4 } else { 64 };

/// Minimum number of chunks for landmarks. They are rebuilt after this many chunks were added or
/// removed at the front.
pub const CHUNKS_MIN: usize = if cfg!(test) { 16 } else { 2048 };

/// Items this near to an end are found by counting from there.
pub const NEAR: usize = if cfg!(test) { 8 } else { 4096 };

/// Item counts before chunks, both numbered as of the building of the landmarks.
#[derive(Clone, Debug)]
pub struct Landmarks {
    /// Items before chunk `i * STEP`.
    before: Vec<i64>,
    /// Net number of chunks added at the front since.
    chunks: i64,
    /// Net number of items added at the front since.
    items: i64,
    /// Landmarks no longer valid: their chunk was the first one once, and gains or loses items
    /// itself.
    passed: usize,
}

impl Landmarks {
    /// The landmarks of chunks with this many items each.
    pub fn of(counts: impl Iterator<Item = usize>) -> Self {
        let (mut before, mut items) = (Vec::new(), 0);
        for (chunk, count) in counts.enumerate() {
            if chunk.is_multiple_of(STEP) {
                before.push(items);
            }
            items += count as i64;
        }
        Landmarks { before, chunks: 0, items: 0, passed: 1 }
    }

    /// The last landmark at or before the item at `index`: its chunk, and the number of items
    /// before that. None if the item is nearer to the front.
    pub fn ahead_of(&self, index: usize) -> Option<(usize, usize)> {
        let wanted = index as i64 - self.items;
        let at = self.before.partition_point(|&before| before <= wanted).checked_sub(1)?;
        if at < self.passed {
            return None;
        }
        let chunk = usize::try_from((at * STEP) as i64 + self.chunks).ok()?;
        let before = usize::try_from(self.before[at] + self.items).ok()?;
        Some((chunk, before))
    }

    /// Updates the landmarks after items and chunks were added or removed at the front; false if
    /// they must be discarded.
    #[inline]
    pub fn shift(&mut self, chunks: i64, items: i64) -> bool {
        self.chunks += chunks;
        self.items += items;
        if chunks < 0 && self.chunks <= 0 {
            let first = self.chunks.unsigned_abs() as usize;
            self.passed = self.passed.max(first / STEP + 1);
        }
        self.chunks.unsigned_abs() < CHUNKS_MIN as u64
    }

    /// A chunk is added after `chunks` others, which have `items` items.
    pub fn extend(&mut self, chunks: usize, items: usize) {
        if chunks as i64 - self.chunks == (self.before.len() * STEP) as i64 {
            self.before.push(items as i64 - self.items);
        }
    }

    /// Truncates to `chunks` chunks.
    pub fn cut(&mut self, chunks: usize) {
        let left = usize::try_from(chunks as i64 - self.chunks).unwrap_or_default();
        self.before.truncate(left.div_ceil(STEP));
    }

    /// Updates the landmarks after a chunk has gained an item.
    pub fn gain(&mut self, chunk: usize) {
        let first_behind = (chunk as i64 - self.chunks + STEP as i64).max(0) as usize / STEP;
        for before in self.before.iter_mut().skip(first_behind) {
            *before += 1;
        }
    }
}
