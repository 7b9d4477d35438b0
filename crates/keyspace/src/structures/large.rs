//! Large collections, which have an allocation of their own.

use super::custom::held::Custom;
use super::form::Form;
use super::hash::Hash;
use super::image::{ImageElement, ImageId, TakeElement};
use super::list::large::List;
use super::set::Set;
use super::sizes::LARGE_BYTES_MAX;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use crate::structures::bucket::Item as _;
use petrel_heap::Cache;

/// A large collection. The entry of its key points at it.
pub(crate) enum Large {
    /// A list.
    List(List),
    /// A stream.
    Stream(Stream),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A hash.
    Hash(Hash),
    /// A value of a value type.
    Custom(Custom),
}

const _: () = assert!(size_of::<Large>() <= LARGE_BYTES_MAX);

impl Large {
    /// Type of the collection.
    pub fn form(&self) -> Form {
        match self {
            Large::List(_) => Form::List,
            Large::Stream(_) => Form::Stream,
            Large::Set(_) => Form::Set,
            Large::SortedSet(_) => Form::SortedSet,
            Large::Hash(hash) => hash.form(),
            Large::Custom(_) => Form::Custom,
        }
    }

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        match self {
            Large::List(list) => list.encoding(),
            Large::Stream(_) => "stream",
            Large::Set(set) => set.encoding(),
            Large::SortedSet(set) => set.encoding(),
            Large::Hash(hash) => hash.encoding(),
            Large::Custom(custom) => custom.encoding(),
        }
    }

    /// Work to free it: the number of its elements, or of the blocks that hold several.
    pub fn len(&self) -> usize {
        match self {
            Large::List(list) => list.chunks(),
            Large::Stream(stream) => stream.pieces(),
            Large::Set(set) => set.len(),
            Large::SortedSet(set) => set.len(),
            Large::Hash(hash) => hash.len(),
            Large::Custom(custom) => custom.free_effort(),
        }
    }

    /// Bytes that it occupies, including itself; known without walking it.
    pub fn footprint(&self) -> usize {
        size_of::<Large>()
            + match self {
                Large::List(list) => list.footprint(),
                Large::Stream(stream) => stream.footprint() - size_of::<Stream>(),
                Large::Set(set) => set.footprint(),
                Large::SortedSet(set) => set.footprint(),
                Large::Hash(hash) => hash.footprint(),
                Large::Custom(custom) => custom.footprint(),
            }
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self, cache: &mut Cache) -> Box<Self> {
        Box::new(match self {
            Large::List(list) => Large::List(list.duplicate(cache)),
            Large::Stream(stream) => Large::Stream(stream.clone()),
            Large::Set(set) => Large::Set(set.duplicate(cache)),
            Large::SortedSet(set) => Large::SortedSet(set.duplicate(cache)),
            Large::Hash(hash) => Large::Hash(hash.duplicate(cache)),
            Large::Custom(custom) => Large::Custom(custom.duplicate()),
        })
    }

    /// Moves some blocks at marked addresses to fresh blocks (to leave sparse slabs), for about ten
    /// microseconds. Returns the next cursor, none at the end; 0 is the beginning. The footprint
    /// may change.
    pub fn relocate(
        &mut self,
        cursor: u64,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> Option<u64> {
        match self {
            Large::List(list) => list.relocate(cursor, is_marked, cache),
            // Nothing of it lies in slabs.
            Large::Stream(_) | Large::Custom(_) => None,
            Large::Set(set) => set.relocate(cursor, is_marked, cache),
            Large::SortedSet(set) => set.relocate(cursor, is_marked, cache),
            Large::Hash(hash) => hash.relocate(cursor, is_marked, cache),
        }
    }

    /// Frees it with all its elements.
    pub fn release(self, cache: &mut Cache) {
        match self {
            Large::List(list) => list.release(cache),
            Large::Stream(stream) => stream.release(cache),
            Large::Set(set) => set.release(cache),
            Large::SortedSet(set) => set.release(cache),
            Large::Hash(hash) => hash.release(cache),
            Large::Custom(custom) => drop(custom),
        }
    }
}

/// The structures themselves.
impl Large {
    #[inline]
    pub fn hash(&self) -> Option<&Hash> {
        if let Large::Hash(hash) = self { Some(hash) } else { None }
    }

    #[inline]
    pub fn hash_mut(&mut self) -> Option<&mut Hash> {
        if let Large::Hash(hash) = self { Some(hash) } else { None }
    }

    #[inline]
    pub fn set(&self) -> Option<&Set> {
        if let Large::Set(set) = self { Some(set) } else { None }
    }

    #[inline]
    pub fn set_mut(&mut self) -> Option<&mut Set> {
        if let Large::Set(set) = self { Some(set) } else { None }
    }
}

/// A snapshot of the elements.
impl Large {
    /// Begins a snapshot of its elements.
    pub fn begin_image(&mut self, id: ImageId) {
        match self {
            Large::List(list) => list.begin_image(id),
            Large::Set(set) => set.members.begin_image(id),
            Large::SortedSet(set) => set.members.begin_image(id),
            Large::Hash(hash) => hash.fields.begin_image(id),
            Large::Stream(stream) => stream.begin_image(id),
            Large::Custom(custom) => custom.begin_image(id),
        }
    }

    /// The running snapshot, if any.
    pub fn image_id(&self) -> Option<ImageId> {
        match self {
            Large::List(list) => list.image_id(),
            Large::Set(set) => set.members.image_id(),
            Large::SortedSet(set) => set.members.image_id(),
            Large::Hash(hash) => hash.fields.image_id(),
            Large::Stream(stream) => stream.image_id(),
            Large::Custom(custom) => custom.image_id(),
        }
    }

    /// The trailing part of the snapshot, after all elements were taken.
    pub fn take_rest(&mut self) -> Option<Box<Self>> {
        match self {
            Large::Stream(stream) => stream.take_rest().map(|rest| Box::new(Large::Stream(rest))),
            Large::Custom(custom) => custom.take_rest().map(|rest| Box::new(Large::Custom(rest))),
            _ => None,
        }
    }

    /// Passes elements of the snapshot to `take`; false at the end.
    pub fn continue_image(&mut self, cache: &mut Cache, take: &mut TakeElement<'_>) -> bool {
        use ImageElement::{Field, Item, Member, Scored};
        match self {
            Large::List(list) => list.continue_image(cache, &mut |text| take(Item(text))),
            Large::Set(set) => {
                set.members.continue_image(cache, &mut |element| take(Member(element.key())))
            }
            Large::SortedSet(set) => set
                .members
                .continue_image(cache, &mut |element| take(Scored(element.key(), element.score()))),
            Large::Hash(hash) => hash.fields.continue_image(cache, &mut |element| {
                take(Field(element.key(), element.value(), element.expiry()))
            }),
            Large::Stream(stream) => stream.continue_image(take),
            Large::Custom(custom) => custom.continue_image(take),
        }
    }
}
