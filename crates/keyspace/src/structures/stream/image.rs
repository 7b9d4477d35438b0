//! Snapshot of a stream, taken in portions between which the stream changes.
//!
//! A portion is some chunks. The chunks present at the begin are numbered; before one of them is
//! changed or removed untaken, a copy is kept. Its groups follow the last chunk (`group/image.rs`).
//! The other properties of the stream are copied at the begin, and are taken when the stream itself
//! is no longer needed.
//!
//! ```text
//! chunks    | taken, or new at the front: none | next: a number, or `KEPT` | ... | new |
//! kept      old chunks, by number
//! ```

use crate::structures::image::ImageId;
use crate::structures::image::{ImageElement, TakeElement};
use crate::structures::stream::chunk::{Chunk, EntryRef};
use crate::structures::stream::id::StreamId;
use crate::structures::stream::{Groups, Stream};
use std::collections::{BTreeMap, VecDeque};

/// Chunks taken at once, of a few KiB each.
const CHUNKS_AT_ONCE: usize = 16;

/// Replaces the number of a chunk with a kept copy.
const KEPT: u32 = u32::MAX;

/// Progress of the snapshot.
#[derive(Debug)]
pub(super) struct Taking {
    id: ImageId,
    /// The first chunk not yet taken.
    next: usize,
    /// The numbers of this and the following chunks, as far as they were present at the begin.
    numbers: VecDeque<u32>,
    kept: BTreeMap<u32, Chunk>,
    /// The stream without entries and groups; none once this is the rest itself.
    rest: Option<Box<Stream>>,
    /// Whether the stream's properties, which follow the last chunk, were passed.
    is_told: bool,
    /// ID of the first entry.
    first: StreamId,
    /// Number of groups.
    groups: usize,
}

/// Entries of a stream saved together.
#[derive(Clone, Copy, Debug)]
pub struct StreamNode<'e>(&'e Chunk);

impl<'e> StreamNode<'e> {
    /// The entries, in order.
    pub fn entries(self) -> impl Iterator<Item = EntryRef<'e>> {
        self.0.entries()
    }
}

/// Called before each change of a chunk while a snapshot is being taken.
impl Taking {
    /// The number of a chunk not yet taken nor kept.
    fn number(&mut self, index: usize) -> Option<&mut u32> {
        self.numbers.get_mut(index.checked_sub(self.next)?)
    }

    fn before_change(&mut self, index: usize, chunk: &Chunk) {
        if let Some(number) = self.number(index).filter(|number| **number != KEPT) {
            let number = std::mem::replace(number, KEPT);
            self.kept.insert(number, chunk.clone());
        }
    }

    fn removed(&mut self, index: usize, chunk: Chunk) {
        if index < self.next {
            self.next -= 1;
        } else if let Some(number) = self.numbers.remove(index - self.next)
            && number != KEPT
        {
            self.kept.insert(number, chunk);
        }
    }
}

impl Stream {
    /// Begins a snapshot of the present state.
    pub(crate) fn begin_image(&mut self, id: ImageId) {
        let rest = Stream {
            chunks: VecDeque::new(),
            chunk_bytes: 0,
            groups: Groups::default(),
            producers: self.producers.clone(),
            taking: None,
            ..*self
        };
        self.groups.begin_image();
        self.taking = Some(Box::new(Taking {
            id,
            next: 0,
            // A chunk takes more than one byte of memory, so its number is below 2^32 - 1.
            numbers: (0..self.chunks.len() as u32).collect(),
            kept: BTreeMap::new(),
            rest: Some(Box::new(rest)),
            is_told: false,
            first: self.first_id(),
            groups: self.groups.len(),
        }));
    }

    /// The running snapshot, if any.
    pub(crate) fn image_id(&self) -> Option<ImageId> {
        self.taking.as_ref().map(|taking| taking.id)
    }

    /// Called before a chunk is changed.
    #[inline]
    pub(super) fn before_change(&mut self, index: usize) {
        if let Some(taking) = &mut self.taking
            && let Some(chunk) = self.chunks.get(index)
        {
            taking.before_change(index, chunk);
        }
    }

    /// Called with a removed chunk.
    #[inline]
    pub(super) fn drop_chunk(&mut self, index: usize, chunk: Chunk) {
        if let Some(taking) = &mut self.taking {
            taking.removed(index, chunk);
        }
    }

    /// Passes the next chunks of the snapshot, and then its groups, to `take` until it has enough;
    /// false at the end, after which [`Stream::take_rest`] returns the rest. Called on that rest,
    /// passes its properties and ends.
    pub(crate) fn continue_image(&mut self, take: &mut TakeElement<'_>) -> bool {
        let Some(taking) = &mut self.taking else { return false };
        if taking.rest.is_none() {
            self.taking = None;
            let _ = take(ImageElement::StreamRest(self));
            return false;
        }
        for _ in 0..CHUNKS_AT_ONCE {
            while taking.numbers.front() == Some(&KEPT) {
                taking.numbers.pop_front();
                taking.next += 1;
            }
            let kept = taking.kept.first_key_value().map_or(KEPT, |(&number, _)| number);
            let there = taking.numbers.front().copied().unwrap_or(KEPT);
            let taken = if kept < there {
                taking
                    .kept
                    .pop_first()
                    .map(|(_, chunk)| take(ImageElement::Node(StreamNode(&chunk))))
            } else if there < KEPT {
                taking.numbers.pop_front();
                taking.next += 1;
                let chunk = self.chunks.get(taking.next - 1);
                chunk.map(|chunk| take(ImageElement::Node(StreamNode(chunk))))
            } else {
                let is_told = std::mem::replace(&mut taking.is_told, true);
                if let Some(rest) = taking.rest.as_deref().filter(|_| !is_told) {
                    let _ = take(ImageElement::StreamState(rest, taking.first, taking.groups));
                }
                return self.groups.continue_image(take);
            };
            if taken.is_none_or(|taken| taken.is_break()) {
                return true;
            }
        }
        true
    }

    /// The rest of a snapshot after all chunks and groups were taken: a stream owned by the
    /// snapshot.
    pub(crate) fn take_rest(&mut self) -> Option<Stream> {
        let mut taking = self.taking.take()?;
        let mut rest = *taking.rest.take()?;
        // Freed together with the rest.
        rest.groups = self.groups.end_image();
        rest.taking = Some(taking);
        Some(rest)
    }
}
