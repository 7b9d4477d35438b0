//! Streams: entries of fields and values in the order of their IDs, and the consumer groups that
//! read them.
//!
//! Entries lie in chunks ([`chunk`]), with the same boundaries as the nodes of Redis, because
//! approximate trimming removes whole ones. A chunk costs two bytes for an entry with the same
//! field names as its predecessors, and one for each value.

pub(crate) mod change;
pub(crate) mod chunk;
mod distance;
pub(crate) mod group;
pub(crate) mod id;
mod image;
mod nominal;
mod producers;
mod radix;
mod range;
#[cfg(test)]
mod tests;
pub(crate) mod trim;

pub use change::StreamChange;
pub use chunk::{EntryRef, Fields, NodeLimits};
pub use group::{
    Consumer, ConsumerHead, ConsumerId, Group, GroupHead, Groups, Pending, PendingHead,
};
pub use id::{IdText, StreamId};
pub use image::StreamNode;
pub use producers::Producers;
pub use range::{Range, RevRange};
pub use trim::{References, Trim, TrimTo, Trimmed};

use chunk::Chunk;
use petrel_heap::Cache;
use std::collections::VecDeque;

/// Chunks or pending entries that are freed between two breaths.
const PIECES_PER_BREATH: u32 = 32;

/// A stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// Chunks, none of them empty, in ascending order of IDs.
    chunks: VecDeque<Chunk>,
    len: u64,
    last_id: StreamId,
    max_deleted: StreamId,
    added: u64,
    /// Bytes of the chunks' allocations.
    chunk_bytes: usize,
    groups: Groups,
    producers: Option<Box<Producers>>,
    /// A running snapshot, taken in portions.
    taking: Option<Box<image::Taking>>,
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        // Allocations of copies have no room to spare.
        let chunks = self.chunks.clone();
        let chunk_bytes = chunks.iter().map(Chunk::capacity).sum();
        let (groups, producers) = (self.groups.clone(), self.producers.clone());
        Stream { chunks, chunk_bytes, groups, producers, taking: None, ..*self }
    }
}

impl Stream {
    /// An empty stream.
    pub fn new() -> Self {
        Stream::default()
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are no entries; there may be groups.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The greatest ID that an entry ever had, or that was set.
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The greatest ID of an entry that was deleted one by one (not trimmed).
    pub fn max_deleted(&self) -> StreamId {
        self.max_deleted
    }

    /// Number of entries ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// ID of the first entry; `0-0` if there is none.
    pub fn first_id(&self) -> StreamId {
        let first = self.chunks.front().and_then(|chunk| chunk.entries().next_id());
        first.unwrap_or_default()
    }

    /// ID of the last entry; `0-0` if there is none.
    pub fn last_entry_id(&self) -> StreamId {
        self.chunks.back().map_or(StreamId::MIN, Chunk::last)
    }

    /// Pieces of memory that it takes to free it, about.
    pub(crate) fn pieces(&self) -> usize {
        self.chunks.len() + self.groups.footprint() / group::PENDING_BYTES
    }

    /// Frees the stream piece by piece.
    pub fn release(mut self, cache: &mut Cache) {
        let mut pieces = 0u32;
        let mut breathe = || {
            pieces += 1;
            if pieces.is_multiple_of(PIECES_PER_BREATH) {
                cache.breathe();
            }
        };
        for chunk in self.chunks.drain(..) {
            drop(chunk);
            breathe();
        }
        self.groups.release(&mut breathe);
    }

    /// All entries, chunk by chunk.
    pub fn by_node(&self) -> impl ExactSizeIterator<Item = impl Iterator<Item = EntryRef<'_>>> {
        self.chunks.iter().map(Chunk::entries)
    }

    /// Number of chunks: nodes of Redis.
    pub fn nodes(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of memory, all of them.
    pub fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.chunk_bytes
            + self.groups.footprint()
            + self.producers.as_ref().map_or(0, |producers| producers.footprint())
    }

    /// Appends an entry; `fields` are names and values in turn. False, with nothing changed, if the
    /// ID is not above [`Stream::last_id`].
    #[inline]
    pub fn append(&mut self, id: StreamId, fields: &[&[u8]], limits: NodeLimits) -> bool {
        if id <= self.last_id {
            return false;
        }
        self.append_chunked(id, fields, limits);
        self.last_id = id;
        self.added += 1;
        self.len += 1;
        true
    }

    fn append_chunked(&mut self, id: StreamId, fields: &[&[u8]], limits: NodeLimits) {
        self.before_change(self.chunks.len().wrapping_sub(1));
        if let Some(chunk) = self.chunks.back_mut() {
            let before = chunk.capacity();
            let appended = chunk.append(id, fields, limits);
            if !appended {
                chunk.seal();
            }
            self.chunk_bytes = self.chunk_bytes + chunk.capacity() - before;
            if appended {
                return;
            }
        }
        let chunk = Chunk::new(id, fields);
        self.chunk_bytes += chunk.capacity();
        if self.chunks.capacity() == self.chunks.len() {
            self.chunks.reserve_exact((self.chunks.len() / 4).max(1));
        }
        self.chunks.push_back(chunk);
    }

    /// The ID that `XADD` generates at this time: greater than every other; none if there is no
    /// greater one.
    pub fn next_id(&self, now_ms: u64) -> Option<StreamId> {
        if now_ms > self.last_id.ms { Some(StreamId::new(now_ms, 0)) } else { self.last_id.next() }
    }

    /// Deletes the entry with this ID, if it exists.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let deleted = self.trim_one(id);
        if deleted {
            self.max_deleted = self.max_deleted.max(id);
        }
        deleted
    }

    /// Removes a trimmed entry. Unlike a deletion, it does not raise the greatest deleted ID.
    pub(crate) fn trim_one(&mut self, id: StreamId) -> bool {
        let Some(index) = self.chunk_of(id) else { return false };
        self.before_change(index);
        let chunk = &mut self.chunks[index];
        let before = chunk.capacity();
        if !chunk.delete(id) {
            return false;
        }
        self.chunk_bytes = self.chunk_bytes + chunk.capacity() - before;
        if chunk.live() == 0 {
            self.remove_chunk(index);
        }
        self.len -= 1;
        true
    }

    /// Whether an entry with this ID exists.
    pub fn contains(&self, id: StreamId) -> bool {
        self.get(id).is_some()
    }

    /// The entry with this ID.
    pub fn get(&self, id: StreamId) -> Option<EntryRef<'_>> {
        let mut entries = self.chunks[self.chunk_of(id)?].entries();
        entries.skip_below(id);
        entries.next().filter(|entry| entry.id == id)
    }

    /// Sets what `XSETID` sets; its arguments were checked.
    pub fn set_ids(&mut self, last_id: StreamId, added: u64, max_deleted: StreamId) {
        self.last_id = last_id;
        self.added = added;
        self.max_deleted = max_deleted;
    }

    /// The entries with IDs from `start` to `end`, both included.
    pub fn range(&self, start: StreamId, end: StreamId) -> Range<'_> {
        Range::new(self, start, end)
    }

    /// Like [`Stream::range`], in descending order.
    pub fn rev_range(&self, start: StreamId, end: StreamId) -> RevRange<'_> {
        RevRange::new(self, start, end)
    }

    /// Number of entries from `start` to `end`; `max` if there are as many or more.
    pub fn count(&self, start: StreamId, end: StreamId, max: usize) -> usize {
        Range::new(self, start, end).count_up_to(max)
    }

    /// The consumer groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The consumer groups, to be changed.
    pub fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    /// IDs of idempotent producers; none if there never was one.
    pub fn producers(&self) -> Option<&Producers> {
        self.producers.as_deref()
    }

    /// IDs of idempotent producers, to be changed.
    pub fn producers_mut(&mut self) -> &mut Producers {
        self.producers.get_or_insert_default()
    }

    /// The chunk that an entry of this ID is in, if it exists.
    fn chunk_of(&self, id: StreamId) -> Option<usize> {
        self.chunks.partition_point(|chunk| chunk.base() <= id).checked_sub(1)
    }

    fn remove_chunk(&mut self, index: usize) {
        if let Some(chunk) = self.chunks.remove(index) {
            self.chunk_bytes -= chunk.capacity();
            self.drop_chunk(index, chunk);
        }
        if self.chunks.capacity() > 4 * self.chunks.len() + 8 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }
}
