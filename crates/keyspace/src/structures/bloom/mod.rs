//! Bloom filters: the structure at a key, and its part of a snapshot. The filter itself is that of
//! the crate `sketch`.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub mod change;
pub(crate) mod rdb;

use super::custom::{Chunk, CustomValue, ModuleWriter, TakeChunk};
use petrel_sketch::bloom::{Bloom, Part};

/// Parts of a snapshot that are handed out at once.
const PARTS_AT_ONCE: usize = 16;

/// A Bloom filter at a key.
#[derive(Debug)]
pub struct Filter(Bloom);

impl Filter {
    /// Creates the value of a filter.
    pub fn new(bloom: Bloom) -> Self {
        Filter(bloom)
    }

    /// The filter.
    #[inline]
    pub fn bloom(&self) -> &Bloom {
        &self.0
    }
}

impl CustomValue for Filter {
    fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.0.allocated()
    }

    fn free_effort(&self) -> usize {
        self.0.blocks()
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Filter(self.0.duplicate()))
    }

    /// Keeps a snapshot that shares what does not change.
    fn begin_snapshot(&mut self) {
        self.0.begin_snapshot();
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        for _ in 0..PARTS_AT_ONCE {
            let mut is_enough = false;
            let goes_on = self.0.next_part(&mut |part| is_enough = take(&Piece(part)).is_break());
            if !goes_on || is_enough {
                return goes_on;
            }
        }
        true
    }
}

/// A part of a filter in a snapshot.
#[derive(Debug)]
struct Piece<'a>(Part<'a>);

impl Chunk for Piece<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        rdb::write_part(&self.0, out);
    }
}
