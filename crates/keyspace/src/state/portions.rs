//! Location of a large collection while a snapshot takes it in portions.

use crate::structures::image::ImageId;
use crate::structures::large::Large;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A large collection that a snapshot takes in portions: [`crate::Handle::continue_portions`].
#[derive(Debug)]
pub struct Portions {
    id: ImageId,
    place: Mutex<Whereabouts>,
}

/// Location of the collection.
pub(crate) enum Whereabouts {
    /// Value of a key.
    Key { db: u16, key: Box<[u8]> },
    /// Owned by the snapshot.
    Own(Box<Large>),
    /// Completely taken.
    Done,
}

impl std::fmt::Debug for Whereabouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Whereabouts::Key { .. } => "Key",
            Whereabouts::Own(_) => "Own",
            Whereabouts::Done => "Done",
        })
    }
}

impl Portions {
    /// Locates the collection at a key. The key's stripe is held.
    pub(crate) fn new(id: ImageId, db: u16, key: &[u8]) -> Arc<Self> {
        Arc::new(Portions { id, place: Mutex::new(Whereabouts::Key { db, key: key.into() }) })
    }

    /// The ID of the collection's snapshot.
    pub(crate) fn id(&self) -> ImageId {
        self.id
    }

    pub(crate) fn place(&self) -> MutexGuard<'_, Whereabouts> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the collection was moved to another key. The stripes of both keys are held.
    pub(crate) fn moved(&self, db: u16, key: &[u8]) {
        *self.place() = Whereabouts::Key { db, key: key.into() };
    }

    /// Takes ownership of the collection: no key holds it any more.
    pub(crate) fn own(&self, large: Box<Large>) {
        *self.place() = Whereabouts::Own(large);
    }

    /// Updates the location after two databases were swapped.
    pub(crate) fn swap(&self, a: u16, b: u16) {
        if let Whereabouts::Key { db, .. } = &mut *self.place() {
            *db = match *db {
                db if db == a => b,
                db if db == b => a,
                db => db,
            };
        }
    }
}
