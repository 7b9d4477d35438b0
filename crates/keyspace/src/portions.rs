//! Large collections that an image hands out in portions, so that nobody waits for more than one.
//!
//! A collection that has yet to be handed out, by the walk or because it is about to be changed, is
//! only *begun*: the image learns its key and how many elements it has, and from then on the
//! collection itself keeps apart what is the image's (`dict/image.rs`, `types/list/image.rs`).
//! Whoever writes the image asks for a portion at a time, under a hold of the stripe in which the
//! collection is at that moment:
//!
//! | what happens | what that does |
//! |---|---|
//! | the key is renamed, its database changes its place | [`Portions`] knows where it is now |
//! | the collection is removed, by whatever | it is not freed but becomes the image's own, which frees it at the end |
//! | it is copied | the copy is no part of the image |
//! | it is a stream whose entries and groups were handed out | the rest, which was copied, is the image's own |
//!
//! Between the removal and the moment at which it is the image's, both of which the same thread
//! sees to, it is in neither place; the image asks again.

use crate::bucket::Item as _;
use crate::entry::{Entry, Kind};
use crate::handle::Handle;
use crate::types::Large;
use crate::types::stream::{GroupHead, PendingHead, Stream, StreamId, StreamNode};
use petrel_heap::Cache;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Smaller collections are handed out whole.
const WHOLE_MAX: usize = 64 * 1024;

/// A large collection that is handed out in portions: [`Handle::continue_portions`].
#[derive(Debug)]
pub struct Portions {
    place: Mutex<Place>,
}

/// Where the collection is.
enum Place {
    /// At a key.
    Key { db: u16, key: Box<[u8]> },
    /// Nowhere else any more.
    Own(Box<Large>),
    /// All of it was handed out.
    Done,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Place::Key { .. } => "Key",
            Place::Own(_) => "Own",
            Place::Done => "Done",
        })
    }
}

/// An element of a collection as it was at the image's moment.
#[derive(Clone, Copy, Debug)]
pub enum ImageElement<'e> {
    /// Of a list, from the first to the last.
    Item(&'e [u8]),
    /// Of a set.
    Member(&'e [u8]),
    /// Of a sorted set.
    Scored(&'e [u8], f64),
    /// Of a hash: name, value, and expiry in Unix milliseconds, which may have passed.
    Field(&'e [u8], &'e [u8], Option<i64>),
    /// Of a stream: some of its entries, from the first to the last.
    Node(StreamNode<'e>),
    /// What the stream is, the ID of its first entry, and the number of its groups: behind its
    /// nodes.
    StreamState(&'e Stream, StreamId, usize),
    /// A group of a stream, by name.
    Group(&'e GroupHead),
    /// A pending entry of the group in hand, by ID.
    Pending(PendingHead),
    /// One of them that was given back, in the order in which they were: behind all of the group.
    GivenBack(StreamId),
    /// All else that the stream has: behind its groups.
    StreamRest(&'e Stream),
}

/// Takes elements; says when it has enough for one hold of the stripe.
pub type TakeElement<'t> = dyn FnMut(ImageElement<'_>) -> ControlFlow<()> + 't;

impl Portions {
    #[cfg(test)]
    pub(crate) fn of_nothing() -> Arc<Self> {
        Arc::new(Portions { place: Mutex::new(Place::Done) })
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection is at another key now, whose stripe is held as is that where it was.
    fn moved(&self, db: u16, key: &[u8]) {
        *self.place() = Place::Key { db, key: key.into() };
    }

    /// The collection is at no key any more, and nobody refers to it.
    pub(crate) fn own(&self, large: Box<Large>) {
        *self.place() = Place::Own(large);
    }

    /// Two databases change places.
    pub(crate) fn swap(&self, a: u16, b: u16) {
        if let Place::Key { db, .. } = &mut *self.place() {
            *db = match *db {
                db if db == a => b,
                db if db == b => a,
                db => db,
            };
        }
    }
}

impl Large {
    /// Begins an image of its elements.
    fn begin_image(&mut self, portions: &Arc<Portions>) {
        match self {
            Large::List(list) => list.begin_image(portions),
            Large::Set(set) => set.dict_mut().begin_image(portions),
            Large::SortedSet(set) => set.dict_mut().begin_image(portions),
            Large::Hash(hash) => hash.dict_mut().begin_image(portions),
            Large::Stream(stream) => stream.begin_image(portions),
        }
    }

    /// The image that is being taken of it, if one is.
    pub(crate) fn portions(&self) -> Option<&Arc<Portions>> {
        match self {
            Large::List(list) => list.portions(),
            Large::Set(set) => set.dict().portions(),
            Large::SortedSet(set) => set.dict().portions(),
            Large::Hash(hash) => hash.dict().portions(),
            Large::Stream(stream) => stream.portions(),
        }
    }

    /// What there is of the image beside its elements, when they were all handed out.
    fn take_rest(&mut self) -> Place {
        let rest = match self {
            Large::Stream(stream) => stream.take_rest(),
            _ => None,
        };
        rest.map_or(Place::Done, |rest| Place::Own(Box::new(Large::Stream(rest))))
    }

    /// Gives `take` some elements of the image; false at the end.
    fn continue_image(&mut self, cache: &mut Cache, take: &mut TakeElement<'_>) -> bool {
        use ImageElement::{Field, Item, Member, Scored};
        match self {
            Large::List(list) => list.continue_image(cache, &mut |text| take(Item(text))),
            Large::Set(set) => {
                set.dict_mut().continue_image(cache, &mut |element| take(Member(element.key())))
            }
            Large::SortedSet(set) => set
                .dict_mut()
                .continue_image(cache, &mut |element| take(Scored(element.key(), element.score()))),
            Large::Hash(hash) => hash.dict_mut().continue_image(cache, &mut |element| {
                take(Field(element.key(), element.value(), element.expiry()))
            }),
            Large::Stream(stream) => stream.continue_image(take),
        }
    }
}

impl Handle {
    /// Begins to hand out a collection that is large enough for that; none if it is to be handed
    /// out whole. Its stripe is held.
    pub(crate) fn begin_portions(&self, db: u16, entry: Entry) -> Option<Arc<Portions>> {
        if entry.kind() != Kind::Large {
            return None;
        }
        let large = entry.large_mut().filter(|large| large.footprint() > WHOLE_MAX)?;
        let place = Place::Key { db, key: entry.key().into() };
        let portions = Arc::new(Portions { place: Mutex::new(place) });
        large.begin_image(&portions);
        self.ks.image.portions().push(portions.clone());
        Some(portions)
    }

    /// Gives `take` some elements of a collection, under one hold of its stripe; false when all
    /// were. The thread is in a batch and holds nothing.
    pub fn continue_portions(
        &mut self,
        portions: &Arc<Portions>,
        take: &mut TakeElement<'_>,
    ) -> bool {
        let mut place = portions.place();
        let (db, key) = match &*place {
            Place::Key { db, key } => (*db, key.clone()),
            Place::Own(_) => {
                let own = std::mem::replace(&mut *place, Place::Done);
                // Nobody else comes for it, but whoever flushes looks at the place.
                drop(place);
                return self.continue_own(portions, own, take);
            }
            Place::Done => return false,
        };
        // A thread that holds stripes may wait for the place, and must not be waited for.
        drop(place);
        let key = self.key(&key);
        self.lock(key.hash);
        let large = self.find(db, key).and_then(|(_, entry)| entry.large_mut());
        let is_it =
            |large: &&mut Large| large.portions().is_some_and(|it| Arc::ptr_eq(it, portions));
        let large = large.filter(is_it);
        let is_away = large.is_none();
        let mut goes_on = true;
        if let Some(large) = large
            && !large.continue_image(&mut self.cache, take)
        {
            let rest = large.take_rest();
            goes_on = matches!(&rest, Place::Own(_));
            *portions.place() = rest;
            if !goes_on {
                self.ks.image.forget(portions);
            }
        }
        self.unlock();
        if is_away {
            std::thread::yield_now();
        }
        goes_on
    }

    /// Goes on with what is the image's own.
    fn continue_own(
        &mut self,
        portions: &Arc<Portions>,
        own: Place,
        take: &mut TakeElement<'_>,
    ) -> bool {
        let Place::Own(mut large) = own else { return false };
        if large.continue_image(&mut self.cache, take) {
            *portions.place() = Place::Own(large);
            return true;
        }
        let rest = large.take_rest();
        let goes_on = matches!(rest, Place::Own(_));
        *portions.place() = rest;
        self.free_large(large);
        if !goes_on {
            self.ks.image.forget(portions);
        }
        goes_on
    }

    /// To be called when a collection has come to another key. Both stripes are held.
    #[inline]
    pub(crate) fn moved_in_image(&self, db: u16, entry: Entry) {
        if let Some(portions) = entry.large().and_then(Large::portions) {
            portions.moved(db, entry.key());
        }
    }

    /// Takes what is being handed out in portions of a database out of a stripe, before its table
    /// is. Everything is held.
    pub(crate) fn own_portions(&mut self, stripe: u32, db: u16) {
        let all = self.ks.image.portions().clone();
        for portions in all {
            let key = match &*portions.place() {
                Place::Key { db: at, key } if *at == db => key.clone(),
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
