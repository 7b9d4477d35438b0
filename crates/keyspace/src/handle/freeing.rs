//! Frees memory replaced or removed by mutators, once no thread can be using it.

use super::Handle;
use crate::state::deferred::DeferredFree;
use crate::state::garbage::GARBAGE_LEN_MIN;
use crate::structures::entry::Entry;
use crate::structures::large::Large;
use crate::structures::table::Retired;
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};

impl Handle {
    /// Frees an entry once no stripe is held.
    #[inline]
    pub(crate) fn free_later(&mut self, entry: Entry) {
        let is_block = entry.is_one_block();
        let free = if is_block { DeferredFree::Block } else { DeferredFree::Entry };
        self.deferred.push(free(entry));
    }

    /// Frees the block of an entry once no stripe is held. The value has moved to another entry.
    pub(crate) fn free_block_later(&mut self, entry: Entry) {
        self.deferred.push(DeferredFree::Block(entry));
    }

    /// Frees a part cut off a value once no stripe is held.
    pub(crate) fn free_part_later(&mut self, part: Large) {
        self.deferred.push(DeferredFree::Part(Box::new(part)));
    }

    /// Frees a replaced bucket array once every thread has left the batch it is in.
    #[cold]
    pub(crate) fn retire(&mut self, array: Retired) {
        // Pairs with the fence in `ThreadSlot::enter`: a thread not yet visible here as in a batch
        // sees the new array.
        fence(SeqCst);
        let own = &self.counters;
        let threads = self.ks.threads().into_iter();
        let others = threads.filter(|thread| !Arc::ptr_eq(thread, own));
        if self.deferred.retire(array, others) {
            self.free_retired();
        }
    }

    /// Frees the bucket arrays that no thread can be peeking at any more. Called periodically; the
    /// thread's own lookups never outlive a call of the keyspace.
    pub fn free_retired(&mut self) {
        self.deferred.free_retired(&mut self.cache);
    }

    fn free_entry(&mut self, entry: Entry) {
        match entry.large() {
            Some(large) if large.len() >= GARBAGE_LEN_MIN || large.image_id().is_some() => {
                if let Some(large) = entry.take_large(&mut self.cache) {
                    self.free_large(large);
                }
            }
            _ => entry.release(&mut self.cache),
        }
    }

    /// Frees a large collection, or leaves it to the collector, or to a snapshot that has not taken
    /// all of it.
    #[cold]
    pub(crate) fn free_large(&mut self, large: Box<Large>) {
        if let Some(portions) = large.image_id().and_then(|id| self.ks.image.portions_of(id)) {
            return portions.own(large);
        }
        let is_garbage = large.len() >= GARBAGE_LEN_MIN;
        let large = if is_garbage { self.ks.garbage.take(large) } else { Some(large) };
        if let Some(large) = large {
            large.release(&mut self.cache);
        }
    }

    /// Frees everything that was deferred until no stripe is held.
    #[inline(never)]
    pub(super) fn free_deferred(&mut self) {
        while let Some(free) = self.deferred.pop() {
            match free {
                DeferredFree::Entry(entry) => self.free_entry(entry),
                DeferredFree::Block(entry) => entry.release_block(&mut self.cache),
                DeferredFree::Part(large) => self.free_large(large),
            }
        }
    }
}
