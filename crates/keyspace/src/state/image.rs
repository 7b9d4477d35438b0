//! State of the running snapshot, shared by all threads (`upkeep/image.rs`).

use crate::state::cleared::Cleared;
use crate::state::portions::Portions;
use crate::state::usage::Usage;
use crate::structures::image::ImageId;
use crate::structures::view::View;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A key as of the snapshot's begin. Its stripe is held, so the sink copies the data it needs.
pub struct ImageKey<'k> {
    /// Database of the key at the snapshot's begin.
    pub db: u16,
    /// The value, except for elements taken in portions.
    pub view: View<'k>,
    /// Usage of the key for eviction.
    pub usage: Usage,
    /// Whether the thread holds one stripe only, so that a short wait delays few clients.
    pub may_wait: bool,
    /// The remaining elements, to be taken with [`crate::Handle::continue_portions`]; none if all
    /// are in the view.
    pub portions: Option<Arc<Portions>>,
}

/// Receives keys that threads hand over before they change them. Keys found by the walk go to its
/// caller instead.
pub trait ImageSink: Send + Sync {
    /// Receives a key from a thread with `now_ms` on its clock.
    fn key(&self, key: ImageKey<'_>, now_ms: i64);
}

/// Takes a key found by the walk; breaks once it has taken enough for one hold of the stripe.
pub type TakeKey<'t> = dyn FnMut(ImageKey<'_>) -> ControlFlow<()> + 't;

/// State of the running snapshot, if any.
#[derive(Default)]
pub(crate) struct ImageCell {
    sink: RwLock<Option<Arc<dyn ImageSink>>>,
    /// Database number of each database at the snapshot's begin. Changes under the exclusive lock
    /// only.
    pub(crate) origin: RwLock<Vec<u16>>,
    /// Number of `SWAPDB` calls.
    pub(crate) swaps: AtomicU32,
    /// Tables of flushed databases, with their database numbers at the snapshot's begin.
    cleared: Mutex<Vec<(u16, Cleared)>>,
    /// Collections not yet taken completely.
    portions: Mutex<Vec<Arc<Portions>>>,
    /// Number of collections begun so far.
    ids: AtomicU64,
}

impl ImageCell {
    pub(crate) fn set(&self, sink: Option<Arc<dyn ImageSink>>) {
        *self.sink.write().unwrap_or_else(PoisonError::into_inner) = sink;
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn ImageSink>> {
        self.sink.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn origin(&self, db: u16) -> u16 {
        let origin = self.origin.read().unwrap_or_else(PoisonError::into_inner);
        origin.get(usize::from(db)).copied().unwrap_or(db)
    }

    pub(crate) fn portions(&self) -> MutexGuard<'_, Vec<Arc<Portions>>> {
        self.portions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An ID for the snapshot of another collection.
    pub(crate) fn next_id(&self) -> ImageId {
        ImageId(self.ids.fetch_add(1, Relaxed))
    }

    /// The collection with this ID, if it is being taken in portions.
    pub(crate) fn portions_of(&self, id: ImageId) -> Option<Arc<Portions>> {
        self.portions().iter().find(|portions| portions.id() == id).cloned()
    }

    /// Removes a collection that was taken completely.
    pub(crate) fn forget(&self, portions: &Arc<Portions>) {
        self.portions().retain(|other| !Arc::ptr_eq(other, portions));
    }

    pub(crate) fn cleared(&self) -> MutexGuard<'_, Vec<(u16, Cleared)>> {
        self.cleared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
