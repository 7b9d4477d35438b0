//! Where a large collection is of which a snapshot is being taken in portions.

use crate::structures::image::ImageId;
use crate::structures::large::Large;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A large collection that is handed out in portions: [`Handle::continue_portions`].
#[derive(Debug)]
pub struct Portions {
    id: ImageId,
    place: Mutex<Whereabouts>,
}

/// Where the collection is.
pub(crate) enum Whereabouts {
    /// At a key.
    Key { db: u16, key: Box<[u8]> },
    /// Nowhere else any more.
    Own(Box<Large>),
    /// All of it was handed out.
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
    /// Of the collection at a key, whose stripe is held.
    pub(crate) fn new(id: ImageId, db: u16, key: &[u8]) -> Arc<Self> {
        Arc::new(Portions { id, place: Mutex::new(Whereabouts::Key { db, key: key.into() }) })
    }

    /// The name under which the collection knows it.
    pub(crate) fn id(&self) -> ImageId {
        self.id
    }

    pub(crate) fn place(&self) -> MutexGuard<'_, Whereabouts> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection is at another key now, whose stripe is held as is that where it was.
    pub(crate) fn moved(&self, db: u16, key: &[u8]) {
        *self.place() = Whereabouts::Key { db, key: key.into() };
    }

    /// The collection is at no key any more, and nobody refers to it.
    pub(crate) fn own(&self, large: Box<Large>) {
        *self.place() = Whereabouts::Own(large);
    }

    /// Two databases change places.
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
