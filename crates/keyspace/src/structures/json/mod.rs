//! JSON documents: the structure of a long one, and its part of a snapshot. Short ones are packed
//! into their entry.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub(crate) mod change;
pub(crate) mod rdb;

use super::custom::{Chunk, CustomValue, Held, Loaded, ModuleWriter, TakeChunk};
use super::sizes::{BLOB_MIN, PACKED_MAX, blob_bytes};
use petrel_json::{Edit, Value};
use std::sync::Arc;

/// Bytes that freeing takes about as long for as for an element of a collection.
const PAGE_BYTES: usize = 4096;

/// Fraction of a growing tape's length that is allocated ahead.
const SPARE_PART: usize = 16;

/// A document that has an allocation of its own.
pub(crate) struct Json {
    /// Shared with the snapshot that is being taken, which keeps it as it was.
    tape: Arc<Vec<u8>>,
    /// The document as it was, for a snapshot that has yet to get it.
    taking: Option<Arc<Vec<u8>>>,
    /// Whether it is the tail of a snapshot, and at no key.
    is_tail: bool,
}

impl Json {
    /// Creates a document from its encoded tape.
    pub fn new(mut tape: Vec<u8>) -> Self {
        tape.shrink_to_fit();
        Json { tape: Arc::new(tape), taking: None, is_tail: false }
    }

    #[inline]
    pub fn tape(&self) -> &[u8] {
        &self.tape
    }

    /// Makes a change, which was made out for this tape.
    pub fn edit(&mut self, edit: &Edit) {
        let grown = usize::try_from(edit.grows_by()).unwrap_or(0);
        // A snapshot that has a part in it makes this a copy.
        let tape = Arc::make_mut(&mut self.tape);
        if grown > tape.capacity() - tape.len() {
            let spare = (tape.len() + grown) / SPARE_PART;
            tape.reserve_exact(grown + spare);
        }
        edit.apply(tape);
        if tape.capacity() / 2 > tape.len() {
            tape.shrink_to_fit();
        }
    }

    /// Puts another document in its place.
    pub fn replace(&mut self, tape: &[u8]) {
        self.tape = Arc::new(tape.to_vec());
    }
}

impl CustomValue for Json {
    fn memory_usage(&self) -> usize {
        /// Two counts of references, and a vector.
        const HEAD: usize = 16 + size_of::<Vec<u8>>();
        size_of::<Self>() + HEAD + allocated(self.tape.capacity())
    }

    fn free_effort(&self) -> usize {
        self.tape.len() / PAGE_BYTES
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Json::new(self.tape.to_vec()))
    }

    fn begin_snapshot(&mut self) {
        self.taking = Some(self.tape.clone());
    }

    /// Hands out the document, if it is what [`Json::take_tail`] has made: that takes long, and
    /// then no stripe is held. It is always the end.
    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        if self.is_tail {
            let _ = take(&Text(Value::new(&self.tape)));
        }
        false
    }

    fn take_tail(&mut self) -> Option<Box<dyn CustomValue>> {
        let tape = self.taking.take()?;
        Some(Box::new(Json { tape, taking: None, is_tail: true }))
    }
}

/// A whole document, which is written as text.
#[derive(Debug)]
struct Text<'a>(Value<'a>);

impl Chunk for Text<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        rdb::write_text(self.0, out);
    }
}

/// Bytes of the block that the general allocator gives for `len`: it has four size classes per
/// doubling.
fn allocated(len: usize) -> usize {
    match len {
        ..64 => len.next_multiple_of(16),
        64..BLOB_MIN => len.next_multiple_of(1 << ((len - 1).ilog2() - 2)),
        _ => blob_bytes(len),
    }
}

/// The tape of a document at a key.
#[inline]
pub(crate) fn tape_of(held: Held<'_>) -> Option<&[u8]> {
    match held {
        Held::Packed(tape) => Some(tape),
        held => held.get().map(Json::tape),
    }
}

/// A document for a key: packed if it is short.
pub(crate) fn loaded(tape: Vec<u8>) -> Loaded {
    if tape.len() <= PACKED_MAX {
        Loaded::Packed(tape)
    } else {
        Loaded::Boxed(Box::new(Json::new(tape)))
    }
}
