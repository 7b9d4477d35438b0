//! t-digests: the structure at a key, and its part of a snapshot. The digest itself is that of the
//! crate `sketch`.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub mod change;
pub(crate) mod rdb;

use super::custom::{Chunk, CustomValue, ModuleWriter, TakeChunk};
use petrel_sketch::t_digest::TDigest;

/// Bytes of an allocation that is freed about as fast as any other.
const SLOT_BYTES: usize = 4096;

/// A t-digest at a key.
#[derive(Debug)]
pub struct Digest(TDigest);

impl Digest {
    /// Creates the value of a digest.
    pub fn new(digest: TDigest) -> Self {
        Digest(digest)
    }

    /// The digest.
    #[inline]
    pub fn digest(&self) -> &TDigest {
        &self.0
    }
}

impl CustomValue for Digest {
    fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.0.allocated()
    }

    fn free_effort(&self) -> usize {
        self.0.allocated() / SLOT_BYTES
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Digest(self.0.duplicate()))
    }

    /// Keeps a copy.
    fn begin_snapshot(&mut self) {
        self.0.begin_snapshot();
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        self.0.next_numbers(&mut |numbers| _ = take(&Numbers(numbers)))
    }
}

/// Means or weights of a digest in a snapshot.
#[derive(Debug)]
struct Numbers<'a>(&'a [f64]);

impl Chunk for Numbers<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        self.0.iter().for_each(|&number| out.double(number));
    }
}
