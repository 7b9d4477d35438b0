//! Landmarks of a long list: how many items lie before every so many chunks. An item in the middle
//! is found from the landmark before it, where counting from an end would take a time in proportion
//! to the list's length.
//!
//! They are made when they are first wanted. What happens at the ends moves them together; what
//! happens in the middle, and is more than an item, unmakes them.

/// Chunks from one landmark to the next.
const STEP: usize = if cfg!(test) { 4 } else { 64 };

/// A list has landmarks from so many chunks on, and they are made anew when so many were added or
/// removed at the front.
pub const CHUNKS_MIN: usize = if cfg!(test) { 16 } else { 2048 };

/// Items that are so near to an end are found from there.
pub const NEAR: usize = if cfg!(test) { 8 } else { 4096 };

/// How many items lie before chunks, as both were numbered when the landmarks were made.
#[derive(Clone, Debug)]
pub struct Landmarks {
    /// Items before chunk `i * STEP`.
    before: Vec<i64>,
    /// Chunks that the front has gained since, or lost.
    chunks: i64,
    /// The same of items.
    items: i64,
    /// Landmarks that do not hold any more: their chunk was the first one once, which gains and
    /// loses items itself.
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

    /// The last landmark that the item at `index` does not precede: its chunk, and the items before
    /// that. None if the item is nearer to the front.
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

    /// The front has gained items and chunks, or lost them; false if the landmarks are of no more
    /// use.
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

    /// A chunk is added behind this many others, which have this many items.
    pub fn extend(&mut self, chunks: usize, items: usize) {
        if chunks as i64 - self.chunks == (self.before.len() * STEP) as i64 {
            self.before.push(items as i64 - self.items);
        }
    }

    /// There are so many chunks left.
    pub fn cut(&mut self, chunks: usize) {
        let left = usize::try_from(chunks as i64 - self.chunks).unwrap_or_default();
        self.before.truncate(left.div_ceil(STEP));
    }

    /// A chunk has gained an item.
    pub fn gain(&mut self, chunk: usize) {
        let first_behind = (chunk as i64 - self.chunks + STEP as i64).max(0) as usize / STEP;
        for before in self.before.iter_mut().skip(first_behind) {
            *before += 1;
        }
    }
}
