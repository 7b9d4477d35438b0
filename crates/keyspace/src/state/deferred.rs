//! Deferred frees of a thread: entries after the unlock, replaced bucket arrays once no other
//! thread can be peeking at them.

use crate::state::counters::Counters;
use crate::structures::entry::Entry;
use crate::structures::large::Large;
use crate::structures::table::Retired;
use petrel_heap::Cache;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// Number of replaced bucket arrays at which a thread tries to free them.
const RETIRED_MAX: usize = 32;

/// Deferred frees of a thread.
#[derive(Default)]
pub(crate) struct DeferredFrees {
    /// Memory to be freed once no stripe is held.
    frees: Vec<DeferredFree>,
    retired: Vec<Retirement>,
}

/// Memory to be freed.
pub(crate) enum DeferredFree {
    /// An entry with its value.
    Entry(Entry),
    /// The block of an entry after its value was moved to another entry, or with an inline value.
    Block(Entry),
    /// A part of a value.
    Part(Box<Large>),
}

struct Retirement {
    array: Retired,
    /// The batch of each thread at the time of the retirement.
    batches: Vec<(Arc<Counters>, u64)>,
}

impl DeferredFrees {
    /// Adds a deferred free.
    #[inline]
    pub fn push(&mut self, free: DeferredFree) {
        self.frees.push(free);
    }

    /// Whether anything is to be freed once no stripe is held.
    #[inline]
    pub fn is_due(&self) -> bool {
        !self.frees.is_empty()
    }

    /// Takes the next memory to be freed.
    pub fn pop(&mut self) -> Option<DeferredFree> {
        self.frees.pop()
    }

    /// Whether there are retired bucket arrays.
    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Adds a bucket array that the threads of `threads` in a batch may peek at. True if it is time
    /// to free some arrays.
    pub fn retire(&mut self, array: Retired, threads: impl Iterator<Item = Arc<Counters>>) -> bool {
        let batches = threads
            .map(|thread| {
                let batch = thread.batch.load(Acquire);
                (thread, batch)
            })
            .filter(|(_, batch)| batch % 2 == 1)
            .collect();
        self.retired.push(Retirement { array, batches });
        self.retired.len() >= RETIRED_MAX
    }

    /// Frees the bucket arrays that no thread can be peeking at any more.
    pub fn free_retired(&mut self, cache: &mut Cache) {
        for mut retirement in mem::take(&mut self.retired) {
            retirement.batches.retain(|(thread, batch)| thread.batch.load(Acquire) == *batch);
            if retirement.batches.is_empty() {
                // SAFETY: every thread that was in a batch when the array was replaced has ended
                // it, and batches begun since find the new array.
                unsafe { retirement.array.free(cache) };
            } else {
                self.retired.push(retirement);
            }
        }
    }
}
