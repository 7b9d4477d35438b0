//! Readers and their IDs. The side tables hold IDs only, so that a change of a key read by another
//! thread's client writes no memory that both threads write.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// ID of a reader: a place, and a count of the readers that have used the place. Below 2^63.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ReaderId(pub(super) u64);

impl ReaderId {
    /// Place of the reader, unique among the present ones. Places are dense.
    #[inline]
    pub fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A client that is notified when keys that it has read change.
pub struct Reader {
    id: ReaderId,
    listening: AtomicBool,
    owner: Box<dyn Any + Send + Sync>,
}

impl Reader {
    /// The connection or other object that it belongs to.
    pub fn owner(&self) -> &dyn Any {
        &*self.owner
    }

    /// ID of the reader.
    pub fn id(&self) -> ReaderId {
        self.id
    }

    /// Whether it gets notifications.
    pub fn is_listening(&self) -> bool {
        self.listening.load(Relaxed)
    }

    /// Turns notifications on or off. A reader without them keeps its place in the table.
    pub fn listen(&self, listening: bool) {
        self.listening.store(listening, Relaxed);
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Reader");
        debug.field("id", &self.id).field("listening", &self.is_listening());
        debug.finish_non_exhaustive()
    }
}

/// All readers of a keyspace.
#[derive(Default)]
pub(crate) struct Registry(RwLock<Places>);

#[derive(Default)]
struct Places {
    all: Vec<ReaderSlot>,
    free: Vec<usize>,
}

#[derive(Default)]
struct ReaderSlot {
    /// Number of earlier readers in this place.
    before: u32,
    reader: Option<Arc<Reader>>,
}

impl Registry {
    pub fn add(&self, owner: impl Any + Send + Sync) -> Arc<Reader> {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let free = places.free.pop();
        let at = free.unwrap_or_else(|| {
            places.all.push(ReaderSlot::default());
            places.all.len() - 1
        });
        let place = &mut places.all[at];
        let id = ReaderId(u64::from(place.before & 0x7fff_ffff) << 32 | at as u64);
        let (listening, owner) = (AtomicBool::new(true), Box::new(owner));
        let reader = Arc::new(Reader { id, listening, owner });
        place.reader = Some(reader.clone());
        reader
    }

    pub fn remove(&self, id: ReaderId) {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = places.all.get_mut(id.place()) else { return };
        if place.reader.take_if(|reader| reader.id == id).is_some() {
            place.before = place.before.wrapping_add(1);
            places.free.push(id.place());
        }
    }

    pub fn view(&self) -> ReadersView<'_> {
        ReadersView(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A locked view of the present readers. None is added or removed while it exists, so hold it
/// briefly.
pub struct ReadersView<'a>(RwLockReadGuard<'a, Places>);

impl ReadersView<'_> {
    /// The reader with this ID, if it is present and gets notifications.
    #[inline]
    pub fn listening(&self, id: ReaderId) -> Option<&Arc<Reader>> {
        let reader = self.0.all.get(id.place())?.reader.as_ref()?;
        (reader.id == id && reader.is_listening()).then_some(reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_place_of_another_is_not_the_other() {
        let registry = Registry::default();
        let (a, b) = (registry.add("a"), registry.add("b"));
        registry.remove(a.id());
        registry.remove(a.id());
        let c = registry.add("c");
        assert_eq!((c.id().place(), c.id() == a.id()), (a.id().place(), false));
        registry.remove(a.id());
        let view = registry.view();
        let owner =
            |reader: &Arc<Reader>| view.listening(reader.id()).map(|r| r.owner().is::<&str>());
        assert_eq!([owner(&a), owner(&b), owner(&c)], [None, Some(true), Some(true)]);
        b.listen(false);
        assert_eq!(owner(&b), None);
    }
}
