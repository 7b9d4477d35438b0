//! The side table of a stripe: its tracked keys, each with the numbers of those who have read it.
//!
//! The table is like the keyspace's: a change of a key that nobody has read asks one cache line, which says so, and one of a
//! key that somebody has read asks one more, its name's. Both are prefetched for a pipeline.

use super::names::{Name, Names};
use super::readers::ReaderId;
use crate::bucket::Item;
use crate::handle::Key;
use crate::hash::KeyHasher;
use crate::heap::Cache;
use crate::table::{Position, Retired, Table};
use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The word of a key that several have read: this bit, and the place of their group.
const GROUP: u64 = 1 << 63;

/// Bytes that a key in the table takes beside its name: its slot in a bucket of which a quarter is free.
const SLOT_BYTES: usize = 11;

/// Bytes of a group of readers, and of each of them.
const GROUP_BYTES: usize = 32;
const ITEM_BYTES: usize = 8;

/// The readers of one key; at least one. Most keys have few.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Readers {
    /// One.
    One(ReaderId),
    /// Several, in the order of their numbers.
    Many(Vec<ReaderId>),
}

impl Readers {
    /// All of them.
    #[inline]
    pub fn as_slice(&self) -> &[ReaderId] {
        match self {
            Readers::One(reader) => std::slice::from_ref(reader),
            Readers::Many(group) => group,
        }
    }

    /// Those for whom `keep` holds, if there are any.
    pub fn retained(self, keep: impl Fn(ReaderId) -> bool) -> Option<Readers> {
        match self {
            Readers::One(reader) => keep(reader).then_some(Readers::One(reader)),
            Readers::Many(mut group) => {
                group.retain(|&reader| keep(reader));
                (!group.is_empty()).then_some(Readers::Many(group))
            }
        }
    }
}

/// By how much the figures of the table change.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Growth {
    pub keys: i64,
    pub items: i64,
    pub bytes: i64,
}

impl Growth {
    fn of(name: Name, readers: usize) -> Self {
        let group = if readers > 1 { GROUP_BYTES + ITEM_BYTES * readers } else { 0 };
        let bytes = (name.footprint() + SLOT_BYTES + group) as i64;
        Growth { keys: 1, items: readers as i64, bytes }
    }

    fn minus(self, other: Growth) -> Self {
        Growth {
            keys: self.keys - other.keys,
            items: self.items - other.items,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// The tracked keys of one stripe.
#[derive(Default)]
pub(crate) struct Tracked {
    keys: Table<Name>,
    names: Names,
    /// There only once a key had several readers.
    groups: Option<Box<Groups>>,
}

#[derive(Default)]
struct Groups {
    all: Vec<Vec<ReaderId>>,
    free: Vec<usize>,
}

impl Tracked {
    pub fn is_empty(&self) -> bool {
        self.keys.len() == 0
    }

    /// Adds a reader of a key. `is_listening` says who still is to be told.
    pub fn add(
        &mut self,
        key: Key<'_>,
        reader: ReaderId,
        is_listening: impl Fn(ReaderId) -> bool,
        (cache, hasher): (&mut Cache, &KeyHasher),
    ) -> (Growth, Option<Retired>) {
        if let Some((_, name)) = self.keys.find(key.hash, key.bytes) {
            return (self.add_to(name, reader, is_listening), None);
        }
        if self.names.is_full(key.bytes.len()) {
            self.close_holes();
        }
        let name = self.names.add(key.bytes, reader.0);
        let retired = self.keys.insert(key.hash, name, cache, |key| hasher.hash(key));
        (Growth::of(name, 1), retired)
    }

    fn add_to(
        &mut self,
        name: Name,
        reader: ReaderId,
        is_listening: impl Fn(ReaderId) -> bool,
    ) -> Growth {
        let word = name.word();
        if word & GROUP == 0 {
            let known = ReaderId(word);
            if known == reader {
                return Growth::default();
            }
            if !is_listening(known) {
                name.set_word(reader.0);
                return Growth::default();
            }
            let mut group = vec![known, reader];
            group.sort_unstable();
            let groups = self.groups.get_or_insert_default();
            let at = groups.free.pop().unwrap_or_else(|| {
                groups.all.push(Vec::new());
                groups.all.len() - 1
            });
            groups.all[at] = group;
            name.set_word(GROUP | at as u64);
            return Growth::of(name, 2).minus(Growth::of(name, 1));
        }
        let group = self.group(word);
        let before = group.len();
        let Err(mut at) = group.binary_search(&reader) else { return Growth::default() };
        if group.len() == group.capacity() {
            group.retain(|&known| is_listening(known));
            at = group.partition_point(|&known| known < reader);
        }
        group.insert(at, reader);
        Growth::of(name, group.len()).minus(Growth::of(name, before))
    }

    fn group(&mut self, word: u64) -> &mut Vec<ReaderId> {
        let groups = self.groups.as_mut().expect("a word names a group only once there are some");
        &mut groups.all[(word & !GROUP) as usize]
    }

    fn readers_of(&mut self, name: Name) -> Readers {
        let word = name.word();
        if word & GROUP == 0 {
            return Readers::One(ReaderId(word));
        }
        let group = std::mem::take(self.group(word));
        if let Some(groups) = &mut self.groups {
            groups.free.push((word & !GROUP) as usize);
        }
        Readers::Many(group)
    }

    /// Takes a key out, with its readers.
    #[inline]
    pub fn take(
        &mut self,
        key: Key<'_>,
        (cache, hasher): (&mut Cache, &KeyHasher),
    ) -> Option<(Readers, Growth, Option<Retired>)> {
        let (at, name) = self.keys.find(key.hash, key.bytes)?;
        let readers = self.readers_of(name);
        let growth = Growth::default().minus(Growth::of(name, readers.as_slice().len()));
        // The array may be replaced for it, which reads names.
        let retired = self.keys.remove_leaving_room(at, cache, |key| hasher.hash(key));
        if self.names.remove(name) {
            self.close_holes();
        }
        if self.is_empty() {
            self.groups = None;
        }
        Some((readers, growth, retired))
    }

    /// Moves all names to memory without holes.
    #[cold]
    fn close_holes(&mut self) {
        let mut names = self.names.room_for_rest();
        for bucket in 0..self.keys.buckets() {
            for slot in self.keys.bucket(bucket).used() {
                let at = Position { bucket, slot };
                let old = self.keys.item_at(at);
                self.keys.replace(at, names.add(old.key(), old.word()));
            }
        }
        self.names = names;
    }

    /// The names of up to so many keys, from anywhere in the table on.
    pub fn some_names(&self, count: usize, from: usize) -> Vec<Box<[u8]>> {
        let buckets = self.keys.buckets();
        let all = (0..buckets).map(|n| self.keys.bucket((from % buckets + n) % buckets));
        let names = all.flat_map(|bucket| bucket.used().map(|slot| bucket.slot(slot).item()));
        names.take(count).map(|name: Name| name.key().into()).collect()
    }

    /// Moves the bucket array, if `is_marked` points it out, and returns the old one.
    pub fn relocate(
        &mut self,
        is_marked: &impl Fn(*const u8) -> bool,
        cache: &mut Cache,
    ) -> Option<Retired> {
        match self.keys.array_address().is_some_and(is_marked) {
            true => self.keys.relocate_array(cache),
            false => None,
        }
    }

    /// Frees everything.
    ///
    /// # Safety
    /// The table was taken out while no thread was in a batch, so that nobody can be peeking at it.
    pub unsafe fn free(mut self, cache: &mut Cache) {
        if let Some(array) = self.keys.drain(|_| ()) {
            // SAFETY: by the contract.
            unsafe { array.free(cache) };
        }
    }
}

/// The side tables of all stripes, each guarded by the lock of its stripe; none before the first key is tracked.
#[derive(Default)]
pub(crate) struct SideTables {
    cells: OnceLock<Box<[Cell]>>,
    /// Those that are not empty.
    used: AtomicUsize,
}

#[derive(Default)]
#[repr(align(64))]
struct Cell(UnsafeCell<Tracked>);

// A change asks for one cache line of its stripe's cell, and all that it needs of it is there.
const _: () = assert!(size_of::<Cell>() == 64);

// SAFETY: a cell is reached only by the holder of its stripe's lock, or of all, or to peek through atomics.
unsafe impl Sync for Cell {}
// SAFETY: nothing in a cell belongs to one thread.
unsafe impl Send for Cell {}

impl SideTables {
    /// Whether some key is tracked.
    #[inline]
    pub fn any(&self) -> bool {
        self.used.load(Relaxed) != 0
    }

    /// A table has got its first key, or lost its last one.
    pub fn count_used(&self, is_used: bool) {
        if is_used {
            self.used.fetch_add(1, Relaxed);
        } else {
            self.used.fetch_sub(1, Relaxed);
        }
    }

    /// Makes them, for so many stripes.
    pub fn make(&self, stripes: usize) {
        self.cells.get_or_init(|| (0..stripes).map(|_| Cell::default()).collect());
    }

    /// The side table of a stripe, if there are any.
    ///
    /// # Safety
    /// The calling thread holds the stripe, or nobody else knows the tables, and no other reference from here is alive.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn of(&self, stripe: u32) -> Option<&mut Tracked> {
        let cell = &self.cells.get()?[stripe as usize];
        // SAFETY: by the contract.
        Some(unsafe { &mut *cell.0.get() })
    }

    /// The keys of a stripe, for a peek without the lock: only the table's atomic parts may be used.
    #[inline]
    pub(super) fn peek(&self, stripe: u32) -> Option<*const Table<Name>> {
        let cell = &self.cells.get()?[stripe as usize];
        // SAFETY: no reference is made; the field lies inside the cell.
        Some(unsafe { &raw const (*cell.0.get()).keys })
    }
}
