//! JSON documents: the value of a long one, its changes, and its part of a snapshot. Short ones are
//! packed into their entry.

use super::image::{ImageElement, ImageId, TakeElement};
use petrel_json::{Change, Edit, Value};
use std::sync::Arc;

/// Bytes that take about as long to free as an element of a collection.
const PAGE_BYTES: usize = 4096;

/// Growth reserves 1 in this many bytes of the tape as spare capacity.
const SPARE_PART: usize = 16;

/// A document in an allocation of its own.
pub(crate) struct Json {
    /// Shared with the running snapshot, which keeps the old state.
    tape: Arc<Vec<u8>>,
    /// A running snapshot that has not yet taken the document.
    taking: Option<Box<(ImageId, Arc<Vec<u8>>)>>,
    /// Whether this is the old document of a snapshot, at no key.
    is_rest: bool,
}

impl Json {
    /// Creates a document from its encoded tape.
    pub fn new(mut tape: Vec<u8>) -> Self {
        tape.shrink_to_fit();
        Json { tape: Arc::new(tape), taking: None, is_rest: false }
    }

    #[inline]
    pub fn tape(&self) -> &[u8] {
        &self.tape
    }

    pub fn duplicate(&self) -> Self {
        Json::new(self.tape.to_vec())
    }

    /// Applies an edit computed for this tape.
    pub fn edit(&mut self, edit: &Edit) {
        let grown = usize::try_from(edit.grows_by()).unwrap_or(0);
        // Copies the tape if a snapshot shares it.
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

    /// Replaces the document.
    pub fn replace(&mut self, tape: &[u8]) {
        self.tape = Arc::new(tape.to_vec());
    }

    /// Bytes outside the collection itself: the tape and its reference counts.
    pub fn footprint(&self) -> usize {
        /// Two reference counts, and a vector.
        const HEAD: usize = 16 + size_of::<Vec<u8>>();
        HEAD + allocated(self.tape.capacity())
    }

    pub fn pages(&self) -> usize {
        self.tape.len() / PAGE_BYTES
    }

    /// Begins a snapshot of the present document, which is shared until it changes.
    pub fn begin_image(&mut self, id: ImageId) {
        self.taking = Some(Box::new((id, self.tape.clone())));
    }

    pub fn image_id(&self) -> Option<ImageId> {
        self.taking.as_ref().map(|taking| taking.0)
    }

    /// Passes the document to `take`, if this is the result of [`Json::take_rest`]: that takes
    /// long, so no stripe is held then. Always the end.
    pub fn continue_image(&mut self, take: &mut TakeElement<'_>) -> bool {
        if self.is_rest {
            let _ = take(ImageElement::Document(Value::new(&self.tape)));
        }
        false
    }

    /// The snapshot's document, to be taken separately from the key.
    pub fn take_rest(&mut self) -> Option<Self> {
        let (_, tape) = *self.taking.take()?;
        Some(Json { tape, taking: None, is_rest: true })
    }
}

/// Bytes that the general allocator takes for `len` bytes: it has four size classes per doubling.
fn allocated(len: usize) -> usize {
    match len {
        ..64 => len.next_multiple_of(16),
        64..crate::BLOB_MIN => len.next_multiple_of(1 << ((len - 1).ilog2() - 2)),
        _ => crate::blob_bytes(len),
    }
}

/// A change of a JSON document.
#[derive(Clone, Copy, Debug)]
pub enum JsonChange<'a> {
    /// The key gets this document; its expiry is kept. Creates an absent key.
    Put {
        /// The document's tape (`petrel_json::tape`).
        tape: &'a [u8],
    },
    /// A change at a path of the document.
    At(Change<'a>),
}
