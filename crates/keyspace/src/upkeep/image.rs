//! Snapshots: every key as of one moment, taken while the keyspace changes.
//!
//! Each entry has a stamp of one bit. Beginning a snapshot flips the keyspace's own stamp under a
//! brief exclusive lock, so that all present entries have the old one: they are not yet taken. A
//! walk takes them, stripe by stripe; a mutator about to change or remove an entry with the old
//! stamp hands it over first. New entries get the new stamp and are not part of the snapshot. So
//! each key is taken exactly once, and only the keys being handed over are copied.
//!
//! A large collection is only begun, and its elements are taken in portions (`portions.rs`).
//!
//! A database flushed during the snapshot passes its tables to the snapshot, which walks them after
//! the stripes and frees them.

use crate::handle::Handle;
use crate::state::cleared::Cleared;
use crate::state::image::ImageKey;
use crate::state::image::ImageSink;
use crate::state::image::TakeKey;
use crate::structures::entry::Entry;
use crate::structures::stamp::Stamp;
use crate::structures::view::View;
use crate::structures::walk::walk_some;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// Buckets walked under one hold of a stripe.
const BUCKETS_PER_HOLD: usize = 16;

/// Position of the walk in a stripe.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ImagePlace {
    stripe: u32,
    db: u16,
    position: u32,
    /// [`ImageCell::swaps`] when the walk of the stripe began.
    swaps: u32,
}

impl ImagePlace {
    /// The beginning of a stripe: each must be walked, in any order and by any thread.
    pub fn stripe(stripe: u32) -> Self {
        ImagePlace { stripe, ..ImagePlace::default() }
    }
}

impl Handle {
    /// Begins a snapshot of the present state; false if one is running already. `at_moment` runs
    /// while no thread changes anything. The thread is in a batch and holds nothing, or everything.
    /// The caller must walk every stripe with [`Handle::continue_image`], then the flushed tables
    /// with [`Handle::continue_cleared`], and every collection with [`Handle::continue_portions`],
    /// until [`Handle::end_image`] returns true.
    pub fn begin_image(&mut self, sink: Arc<dyn ImageSink>, at_moment: impl FnOnce(&Self)) -> bool {
        let holds = self.holds_everything();
        if !holds {
            self.lock_all();
        }
        let stamp = Stamp::of(&self.ks.heap);
        let begins = !stamp.is_taking();
        if begins {
            let image = &self.ks.image;
            image.set(Some(sink));
            *image.origin.write().unwrap_or_else(PoisonError::into_inner) =
                (0..self.ks.databases).collect();
            stamp.turn_over();
            at_moment(self);
        }
        if !holds {
            self.unlock();
        }
        begins
    }

    /// Passes keys of a stripe not yet taken to `take`: those of a few buckets, under one hold.
    /// Returns the next position; none at the end of the stripe. The thread is in a batch and holds
    /// nothing, or everything.
    pub fn continue_image(
        &mut self,
        mut place: ImagePlace,
        take: &mut TakeKey<'_>,
    ) -> Option<ImagePlace> {
        let next = self.with_stripe(place.stripe, |handle| {
            // No databases are swapped while the stripe is held.
            let swaps = handle.ks.image.swaps.load(Relaxed);
            if swaps != place.swaps {
                // A swap may have moved keys of a database not yet walked to one already walked.
                place = ImagePlace { db: 0, position: 0, swaps, ..place };
            }
            handle.image_buckets(place, take)
        });
        if let Some(position) = next {
            return Some(ImagePlace { position, ..place });
        }
        let db = place.db + 1;
        (db < self.ks.databases).then_some(ImagePlace { db, position: 0, ..place })
    }

    /// Walks some buckets of a table; returns the next position, none at its end.
    fn image_buckets(&self, place: ImagePlace, take: &mut TakeKey<'_>) -> Option<u32> {
        let table = self.stripe_at(place.stripe).table(place.db)?;
        let (stamp, usages) = (Stamp::of(&self.ks.heap).now(), self.usages());
        let db = self.ks.image.origin(place.db);
        walk_some(table, place.position, BUCKETS_PER_HOLD, &mut |entry: Entry| {
            if entry.stamp() == stamp {
                return ControlFlow::Continue(());
            }
            entry.set_stamp(stamp);
            let (view, portions) = (View::new(entry), self.begin_portions(place.db, entry));
            take(ImageKey { db, view, usage: usages.of(view), may_wait: false, portions })
        })
    }

    /// Called before an entry is changed or removed.
    #[inline]
    pub(crate) fn before_change(&self, db: u16, entry: Entry) {
        if Stamp::of(&self.ks.heap).is_taking() {
            self.hand_out_first(db, entry);
        }
    }

    #[cold]
    fn hand_out_first(&self, db: u16, entry: Entry) {
        let now = Stamp::of(&self.ks.heap).now();
        if entry.stamp() != now
            && let Some(sink) = self.ks.image.get()
        {
            entry.set_stamp(now);
            let (view, portions) = (View::new(entry), self.begin_portions(db, entry));
            let (db, usage) = (self.ks.image.origin(db), self.usages().of(view));
            let may_wait = self.holds_one_stripe();
            sink.key(ImageKey { db, view, usage, may_wait, portions }, self.now_ms);
        }
    }

    /// Leaves the tables of a flushed database to the running snapshot, if any; returns them
    /// otherwise. Everything is held.
    pub(crate) fn keep_for_image(&self, db: u16, cleared: Cleared) -> Option<Cleared> {
        let image = &self.ks.image;
        let mut kept = image.cleared();
        // Checked under the lock, which the end of a snapshot takes too.
        if !Stamp::of(&self.ks.heap).is_taking() {
            return Some(cleared);
        }
        kept.push((image.origin(db), cleared));
        None
    }

    /// Passes the keys of a flushed table not yet taken to `take`, and frees the table; false if
    /// there is none. The thread holds nothing, and need not be in a batch.
    pub fn continue_cleared(&mut self, take: &mut TakeKey<'_>) -> bool {
        let next = self.ks.image.cleared().pop();
        let Some((db, mut cleared)) = next else { return false };
        let (stamp, usages) = (Stamp::of(&self.ks.heap).now(), self.usages());
        cleared.drain_one(&mut |entry| {
            if entry.stamp() != stamp {
                let view = View::new(entry);
                let (usage, may_wait) = (usages.of(view), false);
                let _ = take(ImageKey { db, view, usage, may_wait, portions: None });
            }
        });
        if !cleared.is_drained() {
            self.ks.image.cleared().push((db, cleared));
        }
        true
    }

    /// Called when two databases are swapped. Everything is held.
    pub(crate) fn swap_in_image(&self, a: u16, b: u16) {
        let image = &self.ks.image;
        if Stamp::of(&self.ks.heap).is_taking() {
            image.swaps.fetch_add(1, Relaxed);
            image.portions().iter().for_each(|portions| portions.swap(a, b));
            let mut origin = image.origin.write().unwrap_or_else(PoisonError::into_inner);
            origin.swap(a.into(), b.into());
        }
    }

    /// Ends the snapshot after a walk of every stripe; false if a flushed table or a part of a
    /// collection remains to be taken.
    pub fn end_image(&mut self) -> bool {
        let image = &self.ks.image;
        let cleared = image.cleared();
        if !cleared.is_empty() || !image.portions().is_empty() {
            return false;
        }
        let stamp = Stamp::of(&self.ks.heap);
        stamp.settle();
        image.set(None);
        true
    }
}
