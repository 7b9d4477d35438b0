//! Trimming: removal of the oldest entries.

use super::Stream;
use super::id::StreamId;

/// How far a stream is trimmed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trim {
    /// To this number of entries.
    Len(u64),
    /// To the entries with this ID or a greater one.
    Id(StreamId),
}

/// What a trim came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Trimmed {
    /// Entries removed.
    pub count: u64,
    /// All entries below this ID are gone.
    pub below: StreamId,
}

impl Stream {
    /// The entries that a trim removes: all below the ID that it tells, of which there are `count`.
    ///
    /// If `approximate`, whole nodes only, and at most so many entries (0: without limit).
    pub fn plan_trim(&self, trim: Trim, approximate: Option<u64>) -> Trimmed {
        let mut plan = Trimmed::default();
        for (index, chunk) in self.chunks.iter().enumerate() {
            if matches!(trim, Trim::Len(len) if self.len - plan.count <= len) {
                break;
            }
            let examined = plan.count + chunk.live();
            if approximate.is_some_and(|limit| limit != 0 && examined > limit) {
                break;
            }
            let whole = match trim {
                Trim::Len(len) => self.len - examined >= len,
                Trim::Id(id) => chunk.last() < id,
            };
            if !whole {
                if approximate.is_none() {
                    self.plan_part(index, trim, &mut plan);
                }
                break;
            }
            plan.count = examined;
            plan.below = chunk.last().next().unwrap_or(StreamId::MAX);
        }
        plan
    }

    /// Adds to the plan the entries of a chunk that is not trimmed whole.
    fn plan_part(&self, index: usize, trim: Trim, plan: &mut Trimmed) {
        let mut entries = self.chunks[index].entries();
        while let Some(id) = entries.next_id() {
            let kept = match trim {
                Trim::Len(len) => self.len - plan.count <= len,
                Trim::Id(bound) => id >= bound,
            };
            if kept {
                plan.below = id;
                return;
            }
            plan.count += 1;
        }
    }

    /// Removes all entries below `id`; says how many there were.
    pub fn trim_below(&mut self, id: StreamId) -> u64 {
        let before = self.len;
        while let Some(chunk) = self.chunks.front_mut() {
            if chunk.last() < id {
                self.len -= chunk.live();
                self.remove_chunk(0);
                continue;
            }
            let capacity = chunk.capacity();
            let mut entries = chunk.entries();
            let mut count = 0;
            while entries.next_id().is_some_and(|entry| entry < id) {
                count += 1;
            }
            if count > 0 {
                chunk.delete_first(count);
                self.chunk_bytes = self.chunk_bytes + chunk.capacity() - capacity;
                self.len -= count;
            }
            break;
        }
        before - self.len
    }
}
