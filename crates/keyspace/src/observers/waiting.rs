//! Clients blocked until a key changes: adding and removing waiters, and trying them.

use crate::handle::Handle;
use crate::state::waiting::{Awaited, Queue, ReadyKey, Waiter};
use crate::structures::key_hash::Key;
use crate::structures::view::View;
use std::sync::atomic::Ordering::Relaxed;

impl Handle {
    /// Takes a place in the queue of blocked clients. It is taken under the locks of the awaited
    /// keys, so that each key serves its clients in this order.
    pub fn arrive(&self) -> u64 {
        self.ks.waits.arrivals.fetch_add(1, Relaxed) + 1
    }

    /// Adds a waiter to a key; [`Handle::leave`] removes it. The key's stripe is held.
    pub fn wait_for(
        &mut self,
        db: u16,
        key: Key<'_>,
        awaited: Awaited,
        arrival: u64,
        waiter: Waiter,
    ) {
        let interest = self.stripe(key.hash).interest.get_or_insert_default();
        interest.waiting.add(db, key.bytes, awaited, arrival, waiter, &self.ks.waits);
    }

    /// Ends a wait; the key's stripe is held. Does nothing if the wait has ended already.
    pub fn leave(&mut self, db: u16, key: Key<'_>, arrival: u64) {
        let slot = &mut self.stripe(key.hash).interest;
        let Some(interest) = slot else { return };
        interest.waiting.remove(db, key.bytes, arrival, &self.ks.waits);
        if interest.is_empty() {
            *slot = None;
        }
    }

    /// Whether this thread has made keys ready that still have untried waiters.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.observers.ready.is_empty()
    }

    /// Takes the next key that this thread made ready, in the order in which they became so.
    pub fn next_ready(&mut self) -> Option<ReadyKey> {
        self.observers.ready.pop_front()
    }

    /// Returns a key from [`Handle::next_ready`], which will be the next again.
    pub fn serve_later(&mut self, key: ReadyKey) {
        self.observers.ready.push_front(key);
    }

    /// Makes a key ready as if it had changed; its stripe is held.
    pub fn make_ready(&mut self, db: u16, key: Key<'_>) {
        let Some(interest) = &mut self.stripe(key.hash).interest else { return };
        if interest.waiting.make_ready(db, key.bytes, &self.ks.waits) {
            self.observers.ready.push_back(ReadyKey { db, key: key.bytes.into() });
        }
    }

    /// Whether a stripe that is held has a ready key, made ready by any thread.
    #[inline]
    pub fn holds_ready(&self) -> bool {
        if self.holds_everything() && self.nothing_ready() {
            return false;
        }
        self.any_held(|stripe| {
            stripe.interest.as_ref().is_some_and(|known| known.waiting.ready > 0)
        })
    }

    /// A ready key of a stripe that is held.
    pub fn held_ready(&self) -> Option<ReadyKey> {
        let mut found = None;
        self.any_held(|stripe| {
            let interest = stripe.interest.as_ref();
            found = interest.and_then(|interest| interest.waiting.first_ready());
            found.is_some()
        });
        found
    }

    /// Whether no key at all is ready.
    fn nothing_ready(&self) -> bool {
        self.ks.waits.ready.load(Relaxed) == 0
    }

    /// The next waiter to try for a ready key, with its arrival; none ends the round, and the key
    /// is no longer ready. The key's stripe is held. An expired key counts as absent but is not
    /// removed here, because that is not part of the change that made it ready: the next read,
    /// write or expiry cycle removes it.
    pub fn next_waiter(&mut self, db: u16, key: Key<'_>) -> Option<(u64, Waiter)> {
        self.stripe(key.hash).interest.as_ref()?;
        let found = self.find(db, key).filter(|&(_, entry)| !self.is_expired(entry));
        let found = found.map(|(_, entry)| View::new(entry));
        let waiting = &mut self.stripe(key.hash).interest.as_mut()?.waiting;
        let queue = waiting.queue(db, key.bytes).filter(|queue| queue.ready)?;
        let next = queue.next(found);
        if next.is_none() {
            queue.ready = false;
            waiting.count_ready(-1, &self.ks.waits);
        }
        next
    }

    /// Begins trying a waiter: until [`Handle::end_try`], changes of the key make nothing ready.
    pub fn begin_try(&mut self, db: u16, key: Key<'_>) {
        self.with_queue(db, key, |queue| queue.busy = true);
    }

    /// Ends trying the waiter of this arrival, which may have been removed meanwhile.
    pub fn end_try(&mut self, db: u16, key: Key<'_>, arrival: u64) {
        self.with_queue(db, key, |queue| {
            queue.busy = false;
            queue.tried = arrival;
        });
    }

    fn with_queue(&mut self, db: u16, key: Key<'_>, change: impl FnOnce(&mut Queue)) {
        let interest = self.stripe(key.hash).interest.as_mut();
        if let Some(queue) = interest.and_then(|interest| interest.waiting.queue(db, key.bytes)) {
            change(queue);
        }
    }
}
