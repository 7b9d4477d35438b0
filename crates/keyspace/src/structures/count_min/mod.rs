//! Count-min sketches: the structure at a key, and its part of a snapshot. The sketch itself is
//! that of the crate `sketch`.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub mod change;
pub(crate) mod rdb;

use super::custom::{Chunk, CustomValue, ModuleWriter, TakeChunk};
use petrel_sketch::count_min::CountMin;

/// Pages of a snapshot that are handed out at once.
const PAGES_AT_ONCE: usize = 16;

/// A count-min sketch at a key.
#[derive(Debug)]
pub struct Sketch(CountMin);

impl Sketch {
    /// Creates the value of a sketch.
    pub fn new(sketch: CountMin) -> Self {
        Sketch(sketch)
    }

    /// The sketch.
    #[inline]
    pub fn sketch(&self) -> &CountMin {
        &self.0
    }
}

impl CustomValue for Sketch {
    fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.0.allocated()
    }

    fn free_effort(&self) -> usize {
        self.0.blocks()
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Sketch(self.0.duplicate()))
    }

    /// Keeps a snapshot that shares what does not change.
    fn begin_snapshot(&mut self) {
        self.0.begin_snapshot();
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        for _ in 0..PAGES_AT_ONCE {
            let mut is_enough = false;
            let goes_on = self.0.next_page(&mut |page| is_enough = take(&Page(page)).is_break());
            if !goes_on || is_enough {
                return goes_on;
            }
        }
        true
    }
}

/// Some counters of a sketch.
#[derive(Debug)]
struct Page<'a>(&'a [u8]);

impl Chunk for Page<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        out.text_bytes(self.0);
    }
}
