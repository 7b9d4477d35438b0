//! t-digests: the structure at a key, and its part of a snapshot. The digest itself is that of the
//! crate `sketch`. One of a few nodes is packed into the key's entry.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub mod change;
pub(crate) mod rdb;

use super::custom::{Chunk, CustomValue, Held, Loaded, ModuleWriter, TakeChunk};
use super::sizes::LARGE_BYTES_MAX;
use petrel_sketch::t_digest::TDigest;
use petrel_sketch::t_digest::packed::packed_len;
use std::ops::Deref;

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

/// A digest at a key, to be read.
#[derive(Debug)]
pub enum DigestRef<'a> {
    /// The one that has an allocation of its own.
    Boxed(&'a TDigest),
    /// A copy of a packed one.
    Unpacked(TDigest),
}

impl<'a> DigestRef<'a> {
    /// Reads a value of this type.
    #[inline]
    pub fn of(held: Held<'a>) -> Option<Self> {
        match held {
            Held::Packed(packed) => Some(DigestRef::Unpacked(TDigest::unpack(packed))),
            held => held.get::<Digest>().map(|value| DigestRef::Boxed(value.digest())),
        }
    }

    /// Bytes of the value, without the key.
    pub fn memory_usage(&self) -> usize {
        match self {
            DigestRef::Boxed(digest) => size_of::<Digest>() + digest.allocated(),
            DigestRef::Unpacked(digest) => packed_len(digest.nodes().len()),
        }
    }

    /// Upper bound of the growth by adding this many numbers.
    pub fn growth(&self, numbers: usize) -> usize {
        let boxed = match self {
            DigestRef::Boxed(_) => 0,
            DigestRef::Unpacked(_) => LARGE_BYTES_MAX + size_of::<Digest>(),
        };
        boxed + self.deref().growth(numbers)
    }
}

impl Deref for DigestRef<'_> {
    type Target = TDigest;

    #[inline]
    fn deref(&self) -> &TDigest {
        match self {
            DigestRef::Boxed(digest) => digest,
            DigestRef::Unpacked(digest) => digest,
        }
    }
}

/// A digest for a key: packed if it has a few nodes.
pub fn loaded(digest: TDigest) -> Loaded {
    match digest.pack() {
        Some(packed) => Loaded::Packed(packed),
        None => Loaded::Boxed(Box::new(Digest::new(digest))),
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
