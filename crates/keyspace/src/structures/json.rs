//! JSON documents: what a long one is at its key, what a change of one is, and its part of a
//! snapshot. Short ones are packed into their entry.

use super::image::{ImageElement, ImageId, TakeElement};
use petrel_json::{Change, Edit, Value};
use std::sync::Arc;

/// Bytes that freeing takes about as long for as for an element of a collection.
const PAGE_BYTES: usize = 4096;

/// Of what a tape grows by, this part is left for the next time.
const SPARE_PART: usize = 16;

/// A document that has an allocation of its own.
pub(crate) struct Json {
    /// Shared with the image that is being taken, which keeps it as it was.
    tape: Arc<Vec<u8>>,
    /// An image that has yet to get the document as it was.
    taking: Option<Box<(ImageId, Arc<Vec<u8>>)>>,
    /// It is what an image has yet to get, and at no key.
    is_rest: bool,
}

impl Json {
    /// Of a tape.
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

    /// Makes a change, which was made out for this tape.
    pub fn edit(&mut self, edit: &Edit) {
        let grown = usize::try_from(edit.grows_by()).unwrap_or(0);
        // An image that has a part in it makes this a copy.
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

    /// Bytes behind the collection itself: the tape and what counts references to it.
    pub fn footprint(&self) -> usize {
        /// Two counts of references, and a vector.
        const HEAD: usize = 16 + size_of::<Vec<u8>>();
        HEAD + allocated(self.tape.capacity())
    }

    pub fn pages(&self) -> usize {
        self.tape.len() / PAGE_BYTES
    }

    /// Begins an image of what there is, which is shared until it changes.
    pub fn begin_image(&mut self, id: ImageId) {
        self.taking = Some(Box::new((id, self.tape.clone())));
    }

    pub fn image_id(&self) -> Option<ImageId> {
        self.taking.as_ref().map(|taking| taking.0)
    }

    /// Gives `take` the document, if it is what [`Json::take_rest`] has made: that takes long, and
    /// then no stripe is held. It is always the end.
    pub fn continue_image(&mut self, take: &mut TakeElement<'_>) -> bool {
        if self.is_rest {
            let _ = take(ImageElement::Document(Value::new(&self.tape)));
        }
        false
    }

    /// The document as it is in the image, to be handed out apart from the key.
    pub fn take_rest(&mut self) -> Option<Self> {
        let (_, tape) = *self.taking.take()?;
        Some(Json { tape, taking: None, is_rest: true })
    }
}

/// Bytes that the general allocator gives for so many: it has four size classes per doubling.
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
    /// The key holds this document from now on; its expiry is kept. A missing key is made.
    Put {
        /// The document's tape (`petrel_json::tape`).
        tape: &'a [u8],
    },
    /// Something changed at a place of the document.
    At(Change<'a>),
}
