//! An image: every key as it was at one moment, handed out while the keyspace goes on.
//!
//! Each entry has a stamp of one bit. Beginning an image turns the keyspace's own stamp over, with everything held for a moment, and so all
//! entries there are bear the old one: they have yet to be handed out. A walk does that, stripe by stripe; whoever is about to change
//! or remove an entry that still bears the old stamp hands it out first. Entries that are made meanwhile bear the
//! new stamp, and are no part of the image. So no key is handed out twice, none is left out, and nothing is copied but
//! what is being handed out.

use crate::access::View;
use crate::bucket::Item;
use crate::entry::Entry;
use crate::handle::Handle;
use crate::scan::{first_position, homed};
use crate::usage::Usage;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// The bit of an entry's length of the value that is its stamp.
pub(crate) const STAMP: u16 = 1 << 15;
/// An image is being taken: said beside the keyspace's stamp.
const TAKING: u16 = 1;

/// Buckets that are walked under one hold of a stripe.
const BUCKETS_PER_HOLD: usize = 16;

/// The stamp that new entries get, and whether an image is being taken.
#[derive(Debug, Default)]
pub(crate) struct Stamp(AtomicU16);

impl Stamp {
    /// The stamp of entries that are made now.
    #[inline]
    pub fn now(&self) -> u16 {
        self.0.load(Relaxed) & STAMP
    }

    #[inline]
    fn is_taking(&self) -> bool {
        self.0.load(Relaxed) & TAKING != 0
    }
}

/// Takes what an image hands out.
pub trait ImageSink: Send + Sync {
    /// A key of database `db` as it was at the image's moment. Its stripe is held: what is needed is copied. `now_ms` is the thread's
    /// clock.
    fn key(&self, db: u16, view: View<'_>, usage: Usage, now_ms: i64);

    /// Two databases change places: what comes from one from now on was in the other at the image's moment. Everything
    /// is held.
    fn swap(&self, a: u16, b: u16);

    /// Keys are removed without having been handed out, all of some database: there will be no image.
    fn cancel(&self);
}

/// The image that is being taken, if one is.
#[derive(Default)]
pub(crate) struct ImageCell {
    sink: RwLock<Option<Arc<dyn ImageSink>>>,
    /// How often databases have changed places.
    swaps: AtomicU32,
}

impl ImageCell {
    fn set(&self, sink: Option<Arc<dyn ImageSink>>) {
        *self.sink.write().unwrap_or_else(PoisonError::into_inner) = sink;
    }

    fn get(&self) -> Option<Arc<dyn ImageSink>> {
        self.sink.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Where the walk of an image goes on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ImagePlace {
    stripe: u32,
    db: u16,
    position: u32,
    /// [`ImageCell::swaps`] when the walk of the stripe began.
    swaps: u32,
}

impl Handle {
    /// Begins an image of this moment; false if one is being taken already. `at_moment` runs while nobody changes anything. The
    /// thread is in a batch and holds nothing, or everything; somebody must go on with [`Handle::continue_image`] until that says that it is done.
    pub fn begin_image(&mut self, sink: Arc<dyn ImageSink>, at_moment: impl FnOnce(&Self)) -> bool {
        let holds = self.holds_everything();
        if !holds {
            self.lock_all();
        }
        let stamp = self.ks.heap.stamp();
        let begins = !stamp.is_taking();
        if begins {
            self.ks.image.set(Some(sink));
            stamp.0.store((stamp.now() ^ STAMP) | TAKING, Relaxed);
            at_moment(self);
        }
        if !holds {
            self.unlock();
        }
        begins
    }

    /// Hands out some of the keys that have not been: those of a few buckets, under one hold of their stripe. Returns where to go
    /// on; at the end, when the image is complete, none. The thread is in a batch and holds nothing.
    pub fn continue_image(&mut self, mut place: ImagePlace) -> Option<ImagePlace> {
        if place.stripe as usize >= self.ks.stripes.len() {
            self.end_image();
            return None;
        }
        let next = self.with_stripe(place.stripe, |handle| {
            // While the stripe is held no database changes its place.
            let swaps = handle.ks.image.swaps.load(Relaxed);
            if swaps != place.swaps {
                // What was in a database yet to come may be in one that has been walked.
                place = ImagePlace { db: 0, position: 0, swaps, ..place };
            }
            handle.image_buckets(place)
        });
        match next {
            Some(position) => place.position = position,
            None if place.db + 1 < self.ks.databases => {
                place = ImagePlace { db: place.db + 1, position: 0, ..place };
            }
            None => place = ImagePlace { stripe: place.stripe + 1, db: 0, position: 0, ..place },
        }
        Some(place)
    }

    /// Walks some buckets of a table; returns the position to go on from, none at its end.
    fn image_buckets(&mut self, place: ImagePlace) -> Option<u32> {
        let sink = self.ks.image.get()?;
        let table = self.stripe_at(place.stripe).table(place.db)?;
        let buckets = table.buckets();
        let first = ((u64::from(place.position) * buckets as u64) >> 32) as usize;
        let end = buckets.min(first + BUCKETS_PER_HOLD);
        for home in first..end {
            for entry in homed(table, home, &|entry: Entry| self.hash(entry.key()).position()) {
                self.hand_out(place.db, entry, &*sink);
            }
        }
        (end < buckets).then(|| first_position(end, buckets))
    }

    fn hand_out(&self, db: u16, entry: Entry, sink: &dyn ImageSink) {
        let now = self.ks.heap.stamp().now();
        if entry.stamp() != now {
            entry.set_stamp(now);
            let view = View::new(entry);
            sink.key(db, view, self.usages().of(view), self.now_ms);
        }
    }

    /// To be called before an entry is changed or removed.
    #[inline]
    pub(crate) fn before_change(&self, db: u16, entry: Entry) {
        if self.ks.heap.stamp().is_taking() {
            self.hand_out_first(db, entry);
        }
    }

    #[cold]
    fn hand_out_first(&self, db: u16, entry: Entry) {
        if let Some(sink) = self.ks.image.get() {
            self.hand_out(db, entry, &*sink);
        }
    }

    /// To be called before all entries of a database are removed. Everything is held.
    pub(crate) fn before_clear(&self) {
        if self.ks.heap.stamp().is_taking()
            && let Some(sink) = self.ks.image.get()
        {
            sink.cancel();
        }
    }

    /// To be called when two databases change places. Everything is held.
    pub(crate) fn swap_in_image(&self, a: u16, b: u16) {
        if self.ks.heap.stamp().is_taking()
            && let Some(sink) = self.ks.image.get()
        {
            self.ks.image.swaps.fetch_add(1, Relaxed);
            sink.swap(a, b);
        }
    }

    fn end_image(&mut self) {
        let stamp = self.ks.heap.stamp();
        // Whoever sees it late finds that every entry bears the new stamp.
        stamp.0.store(stamp.now(), Relaxed);
        self.ks.image.set(None);
    }
}
