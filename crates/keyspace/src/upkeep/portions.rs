//! Large collections that a snapshot takes in portions, so that no client waits for more than one.
//!
//! A collection not yet taken is only *begun* when the walk reaches it or a mutator is about to
//! change it: the snapshot gets its key and number of elements, and from then on the collection
//! itself keeps the snapshot's elements apart (`dict/image.rs`, `list/image.rs`). The writer of the
//! snapshot takes one portion at a time, under a hold of the stripe in which the collection is
//! then:
//!
//! | event | consequence |
//! |---|---|
//! | the key is renamed, or its database swapped | [`Portions`] has the new key |
//! | the collection is removed | the snapshot owns it, and frees it at the end |
//! | it is copied | the copy is not part of the snapshot |
//! | it is a stream with all entries and groups taken | the snapshot owns a copy of the rest |
//!
//! Between the removal and the change of ownership, both by the same thread, the collection is in
//! neither place; the snapshot tries again.

use crate::handle::Handle;
use crate::state::portions::{Portions, Whereabouts};
use crate::structures::bucket::Item as _;
use crate::structures::entry::{Entry, Kind};
use crate::structures::image::TakeElement;
use crate::structures::large::Large;
use std::sync::Arc;

/// Smaller collections are taken as a whole.
const WHOLE_MAX: usize = 64 * 1024;

/// Bytes that a value of a value type occupies, data kept for a snapshot included. Other values do
/// not count such data.
fn custom_bytes(large: &Large) -> i64 {
    if let Large::Custom(custom) = large { custom.footprint() as i64 } else { 0 }
}

impl Handle {
    /// Begins to take a collection in portions; none if it is small enough to be taken as a whole.
    /// Its stripe is held.
    pub(crate) fn begin_portions(&self, db: u16, entry: Entry) -> Option<Arc<Portions>> {
        if entry.kind() != Kind::Large {
            return None;
        }
        let large = entry.large_mut().filter(|large| large.footprint() > WHOLE_MAX)?;
        let portions = Portions::new(self.ks.image.next_id(), db, entry.key());
        large.begin_image(portions.id());
        self.ks.image.portions().push(portions.clone());
        Some(portions)
    }

    /// Passes some elements of a collection to `take`, under one hold of its stripe; false at the
    /// end. The thread is in a batch and holds nothing.
    pub fn continue_portions(
        &mut self,
        portions: &Arc<Portions>,
        take: &mut TakeElement<'_>,
    ) -> bool {
        let mut place = portions.place();
        let (db, key) = match &*place {
            Whereabouts::Key { db, key } => (*db, key.clone()),
            Whereabouts::Own(_) => {
                let own = std::mem::replace(&mut *place, Whereabouts::Done);
                // No other thread takes it now, but a flush reads the place.
                drop(place);
                return self.continue_own(portions, own, take);
            }
            Whereabouts::Done => return false,
        };
        // A thread that holds stripes may wait for this lock, so it must not be held while waiting
        // for a stripe.
        drop(place);
        let key = self.key(&key);
        self.lock(key.hash);
        let large = self.find(db, key).and_then(|(_, entry)| entry.large_mut());
        let large = large.filter(|large| large.image_id() == Some(portions.id()));
        let is_away = large.is_none();
        let mut goes_on = true;
        if let Some(large) = large {
            let before = custom_bytes(large);
            if !large.continue_image(&mut self.cache, take) {
                let rest = large.take_rest();
                goes_on = rest.is_some();
                *portions.place() = rest.map_or(Whereabouts::Done, Whereabouts::Own);
                if !goes_on {
                    self.ks.image.forget(portions);
                }
            }
            // Data that a value kept for the snapshot are gone.
            let grown = custom_bytes(large) - before;
            if grown != 0 {
                self.reweigh(db, key, grown);
            }
        }
        self.unlock();
        if is_away {
            std::thread::yield_now();
        }
        goes_on
    }

    /// Continues with a collection owned by the snapshot.
    fn continue_own(
        &mut self,
        portions: &Arc<Portions>,
        own: Whereabouts,
        take: &mut TakeElement<'_>,
    ) -> bool {
        let Whereabouts::Own(mut large) = own else { return false };
        if large.continue_image(&mut self.cache, take) {
            *portions.place() = Whereabouts::Own(large);
            return true;
        }
        let rest = large.take_rest();
        let goes_on = rest.is_some();
        *portions.place() = rest.map_or(Whereabouts::Done, Whereabouts::Own);
        self.free_large(large);
        if !goes_on {
            self.ks.image.forget(portions);
        }
        goes_on
    }

    /// Called after a collection was moved to another key. Both stripes are held.
    #[inline]
    pub(crate) fn moved_in_image(&self, db: u16, entry: Entry) {
        if let Some(id) = entry.large().and_then(Large::image_id)
            && let Some(portions) = self.ks.image.portions_of(id)
        {
            portions.moved(db, entry.key());
        }
    }

    /// Takes the partly taken collections of a database out of a stripe before its table is
    /// removed. Everything is held.
    pub(crate) fn own_portions(&mut self, stripe: u32, db: u16) {
        let all = self.ks.image.portions().clone();
        for portions in all {
            let key = match &*portions.place() {
                Whereabouts::Key { db: at, key } if *at == db => key.clone(),
                _ => continue,
            };
            let key = self.key(&key);
            if key.hash.stripe() != stripe {
                continue;
            }
            if let Some((at, entry)) = self.find(db, key) {
                self.take_at(db, key, at, entry);
                if let Some(large) = entry.take_large(&mut self.cache) {
                    portions.own(large);
                }
            }
        }
    }
}
