//! Trimming: removal of the oldest entries.

use crate::structures::stream::Stream;
use crate::structures::stream::chunk::Chunk;
use crate::structures::stream::id::StreamId;

/// Target of a trim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrimTo {
    /// Keep this number of entries.
    Len(u64),
    /// Keep the entries with this ID or a greater one.
    Id(StreamId),
}

/// Treatment of consumer groups' references to deleted entries.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum References {
    /// Keep the references.
    #[default]
    Keep,
    /// Delete the references together with the entry.
    Delete,
    /// Keep entries that not every group has acknowledged.
    Acked,
}

/// A trim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trim {
    /// Target of the trim.
    pub to: TrimTo,
    /// Whether whole nodes are enough; if [references](References) matter, the trim is exact
    /// anyway.
    pub approximate: bool,
    /// Maximum number of entries checked, in whole nodes; 0 for no limit.
    pub limit: u64,
    /// Treatment of references.
    pub references: References,
}

/// Result of a trim.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trimmed {
    /// Number of removed entries.
    pub count: u64,
    /// All entries up to this ID are removed; without [`References::Acked`].
    pub up_to: StreamId,
    /// The removed entries; with [`References::Acked`].
    pub entries: Vec<StreamId>,
}

impl Stream {
    /// The entries that a trim removes.
    pub fn plan_trim(&self, trim: &Trim) -> Trimmed {
        let mut plan = Trimmed::default();
        for chunk in &self.chunks {
            let len = self.len - plan.count;
            if matches!(trim.to, TrimTo::Len(to) if len <= to)
                || trim.limit != 0 && plan.count + chunk.live() > trim.limit
            {
                break;
            }
            let whole = match trim.to {
                TrimTo::Len(to) => len - chunk.live() >= to,
                // As in Redis, which includes the deleted entries.
                TrimTo::Id(to) => chunk.top() < to,
            };
            if whole && trim.references != References::Acked {
                plan.count += chunk.live();
                plan.up_to = chunk.last();
                continue;
            }
            if whole || !trim.approximate || trim.references != References::Keep {
                self.plan_part(chunk, trim, &mut plan);
            }
            if !whole {
                break;
            }
        }
        plan
    }

    /// Adds to the plan some entries of a chunk that is not removed as a whole.
    fn plan_part(&self, chunk: &Chunk, trim: &Trim, plan: &mut Trimmed) {
        let mut entries = chunk.entries();
        while let Some(id) = entries.next_id() {
            let stays = match trim.to {
                TrimTo::Len(to) => self.len - plan.count <= to,
                TrimTo::Id(to) => id >= to,
            };
            if stays {
                return;
            }
            if trim.references != References::Acked {
                plan.up_to = id;
                plan.count += 1;
            } else if self.groups.have_acknowledged(id) {
                plan.entries.push(id);
                plan.count += 1;
            }
        }
    }

    /// Removes all entries up to `id`; returns their number.
    pub(crate) fn trim_up_to(&mut self, id: StreamId) -> u64 {
        let before = self.len;
        while let Some(chunk) = self.chunks.front() {
            if chunk.last() <= id {
                self.len -= chunk.live();
                self.remove_chunk(0);
                continue;
            }
            if chunk.base() > id {
                break;
            }
            self.before_change(0);
            let Some(chunk) = self.chunks.front_mut() else { break };
            let capacity = chunk.capacity();
            let mut entries = chunk.entries();
            let mut count = 0;
            while entries.next_id().is_some_and(|entry| entry <= id) {
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
