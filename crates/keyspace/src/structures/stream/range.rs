//! Iterators over a stream's entries, in either direction.

use crate::structures::stream::Stream;
use crate::structures::stream::chunk::{Chunk, Entries, EntryRef};
use crate::structures::stream::id::StreamId;
use std::collections::vec_deque;

/// Entries in the order of their IDs.
#[derive(Clone, Debug)]
pub struct Range<'a> {
    entries: Option<Entries<'a>>,
    chunks: vec_deque::Iter<'a, Chunk>,
    end: StreamId,
}

impl<'a> Range<'a> {
    pub(super) fn new(stream: &'a Stream, start: StreamId, end: StreamId) -> Self {
        let first = stream.chunk_of(start).unwrap_or(0);
        let mut chunks = stream.chunks.range(first..);
        let mut entries = chunks.next().map(Chunk::entries);
        if let Some(entries) = &mut entries {
            entries.skip_below(start);
        }
        Range { entries, chunks, end }
    }

    /// Number of remaining entries; `max` if there are as many or more.
    pub(super) fn count_up_to(mut self, max: usize) -> usize {
        let mut count = 0;
        while let Some(entries) = &mut self.entries {
            while let Some(id) = entries.next_id() {
                if id > self.end || count >= max {
                    return count.min(max);
                }
                count += 1;
            }
            while let Some(chunk) = self.chunks.clone().next() {
                if chunk.last() > self.end || count >= max {
                    break;
                }
                count += chunk.live() as usize;
                self.chunks.next();
            }
            self.entries = self.chunks.next().map(Chunk::entries);
        }
        count.min(max)
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = EntryRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<EntryRef<'a>> {
        loop {
            if let Some(entry) = self.entries.as_mut()?.next() {
                if entry.id > self.end {
                    self.entries = None;
                    return None;
                }
                return Some(entry);
            }
            self.entries = self.chunks.next().map(Chunk::entries);
        }
    }
}

/// Entries in the reverse order of their IDs.
#[derive(Clone, Debug)]
pub struct RevRange<'a> {
    chunk: Option<&'a Chunk>,
    /// Remaining entries of `chunk`.
    places: Vec<(StreamId, u32)>,
    /// The chunks before it.
    chunks: vec_deque::Iter<'a, Chunk>,
    start: StreamId,
}

impl<'a> RevRange<'a> {
    pub(super) fn new(stream: &'a Stream, start: StreamId, end: StreamId) -> Self {
        let chunks = match stream.chunk_of(end) {
            Some(last) => stream.chunks.range(..=last),
            None => stream.chunks.range(..0),
        };
        let mut walk = RevRange { chunk: None, places: Vec::new(), chunks, start };
        walk.step_back();
        while walk.places.last().is_some_and(|place| place.0 > end) {
            walk.places.pop();
        }
        walk
    }

    fn step_back(&mut self) {
        self.chunk = self.chunks.next_back();
        if let Some(chunk) = self.chunk {
            chunk.places(&mut self.places);
        }
    }
}

impl<'a> Iterator for RevRange<'a> {
    type Item = EntryRef<'a>;

    fn next(&mut self) -> Option<EntryRef<'a>> {
        loop {
            let chunk = self.chunk?;
            if let Some(place) = self.places.pop() {
                if place.0 < self.start {
                    self.chunk = None;
                    return None;
                }
                return Some(chunk.entry_at(place));
            }
            self.step_back();
        }
    }
}
