//! The side table of a stripe: its tracked keys, each with the IDs of its readers.
//!
//! The table is like the keyspace's. A change touches two neighboring cache lines of it, which are
//! prefetched for a pipeline. The name of a key in database 0 is not stored here but read from its
//! entry, which a mutator of the key has read anyway. So every entry that moves or is removed is
//! reported to this table.

use crate::state::tracking::names::{Name, Names};
use crate::state::tracking::readers::ReaderId;
use crate::state::tracking::{TRACKED, TRACKED_BY_NAME};
use crate::structures::block::Block;
use crate::structures::bucket::{Annotated, Item};
use crate::structures::entry::Entry;
use crate::structures::key_hash::Key;
use crate::structures::key_hash::{KeyHash, KeyHasher};
use crate::structures::table::{Array, Position, Retired, Table};
use petrel_heap::Cache;
use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Flag in the word of a key with several readers; the rest is the index of their group.
const GROUP: u64 = 1 << 63;

/// Bytes of a tracked key beside its name: its slot and its word, at a load of three quarters.
const SLOT_BYTES: usize = 22;

/// Bytes of a group of readers, and of each of them.
const GROUP_BYTES: usize = 32;
const ITEM_BYTES: usize = 8;

/// Location of a tracked key's name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    /// In its entry in database 0.
    Entry(Entry),
    /// In a record of its own.
    Own(Name),
}

impl Named {
    /// Bytes of a record, if there is one.
    fn footprint(self) -> usize {
        match self {
            Named::Entry(_) => 0,
            Named::Own(name) => name.footprint(),
        }
    }
}

impl Item for Named {
    type Line = Annotated;

    #[inline]
    unsafe fn from_slot(block: Block, is_own: bool) -> Self {
        // SAFETY: by the contract the block is a record or an entry, as the flag tells.
        unsafe {
            match is_own {
                true => Named::Own(Name::of(block)),
                false => Named::Entry(Entry::from_slot(block, false)),
            }
        }
    }

    #[inline]
    fn address(self) -> usize {
        match self {
            Named::Entry(entry) => entry.address(),
            Named::Own(name) => name.address(),
        }
    }

    #[inline]
    fn key<'a>(self) -> &'a [u8] {
        match self {
            Named::Entry(entry) => entry.key(),
            Named::Own(name) => name.key(),
        }
    }

    fn flag(self) -> bool {
        matches!(self, Named::Own(_))
    }
}

/// The readers of one key; at least one. Most keys have few.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Readers {
    /// A single reader.
    One(ReaderId),
    /// Several, in the order of their IDs.
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

    /// The readers that satisfy `keep`, if there are any.
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

/// Change of the table's counters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Growth {
    pub keys: i64,
    pub items: i64,
    pub bytes: i64,
}

impl Growth {
    /// Memory taken by a key with `readers` readers and a name of `name` bytes.
    #[inline]
    pub fn of(name: usize, readers: usize) -> Self {
        let group = if readers > 1 { GROUP_BYTES + ITEM_BYTES * readers } else { 0 };
        let bytes = (name + SLOT_BYTES + group) as i64;
        Growth { keys: 1, items: readers as i64, bytes }
    }

    #[inline]
    pub fn minus(self, other: Growth) -> Self {
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
    keys: Table<Named>,
    names: Names,
    /// Present only once a key has had several readers.
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

    /// The flags of the stripe (`Stripe::tracked`).
    #[inline]
    pub fn bits(&self) -> u8 {
        match (self.keys.len(), self.keys.flagged()) {
            (0, _) => 0,
            (_, 0) => TRACKED,
            _ => TRACKED | TRACKED_BY_NAME,
        }
    }

    /// Adds a reader of a key, with its entry in database 0 if it has one. `is_listening` tells
    /// whether a reader still gets notifications.
    pub fn add(
        &mut self,
        key: Key<'_>,
        entry: Option<Entry>,
        reader: ReaderId,
        is_listening: impl Fn(ReaderId) -> bool,
        (cache, hasher): (&mut Cache, &KeyHasher),
    ) -> (Growth, Option<Retired>) {
        if let Some((at, _)) = self.keys.find(key.hash, key.bytes) {
            return (self.add_to(at, reader, is_listening), None);
        }
        let named = match entry {
            Some(entry) => Named::Entry(entry),
            None => self.name(key.bytes),
        };
        let rehash = |key: &[u8]| hasher.hash(key);
        let retired = self.keys.add(key.hash, named, reader.0, cache, rehash);
        (Growth::of(named.footprint(), 1), retired)
    }

    fn name(&mut self, key: &[u8]) -> Named {
        if self.names.is_full(key.len()) {
            self.close_holes();
        }
        Named::Own(self.names.add(key))
    }

    /// An entry of database 0 was moved to another block.
    pub fn entry_moved(&mut self, hash: KeyHash, old: Entry, new: Entry) {
        if let Some(at) = self.keys.find_address(hash, old.address()) {
            self.keys.replace(at, Named::Entry(new));
        }
    }

    /// Called before an entry is removed from database 0: stores its name in a record.
    pub fn entry_leaves(&mut self, hash: KeyHash, entry: Entry) -> Growth {
        let Some(at) = self.keys.find_address(hash, entry.address()) else {
            return Growth::default();
        };
        let own = self.name(entry.key());
        self.keys.replace(at, own);
        Growth { bytes: own.footprint() as i64, ..Growth::default() }
    }

    fn add_to(
        &mut self,
        at: Position,
        reader: ReaderId,
        is_listening: impl Fn(ReaderId) -> bool,
    ) -> Growth {
        let word = self.keys.word(at);
        if word & GROUP == 0 {
            let known = ReaderId(word);
            if known == reader {
                return Growth::default();
            }
            if !is_listening(known) {
                self.keys.set_word(at, reader.0);
                return Growth::default();
            }
            let mut group = vec![known, reader];
            group.sort_unstable();
            let groups = self.groups.get_or_insert_default();
            let place = groups.free.pop().unwrap_or_else(|| {
                groups.all.push(Vec::new());
                groups.all.len() - 1
            });
            groups.all[place] = group;
            self.keys.set_word(at, GROUP | place as u64);
            return Growth::of(0, 2).minus(Growth::of(0, 1));
        }
        let group = self.group(word);
        let before = group.len();
        let Err(mut place) = group.binary_search(&reader) else { return Growth::default() };
        if group.len() == group.capacity() {
            group.retain(|&known| is_listening(known));
            place = group.partition_point(|&known| known < reader);
        }
        group.insert(place, reader);
        Growth::of(0, group.len()).minus(Growth::of(0, before))
    }

    fn group(&mut self, word: u64) -> &mut Vec<ReaderId> {
        let groups = self.groups.as_mut().expect("a word names a group only once there are some");
        &mut groups.all[(word & !GROUP) as usize]
    }

    #[inline]
    fn readers_of(&mut self, word: u64) -> Readers {
        if word & GROUP == 0 {
            return Readers::One(ReaderId(word));
        }
        let group = std::mem::take(self.group(word));
        if let Some(groups) = &mut self.groups {
            groups.free.push((word & !GROUP) as usize);
        }
        Readers::Many(group)
    }

    /// Removes a key named by its entry, and returns its readers.
    #[inline]
    pub fn take_of_entry(&mut self, hash: KeyHash, entry: Entry) -> Option<Readers> {
        let word = self.keys.vacate(hash, entry.address())?;
        Some(self.readers_of(word))
    }

    /// Removes a key with its name in a record; returns its readers and the bytes of the name.
    pub fn take_by_name(&mut self, key: Key<'_>) -> Option<(Readers, usize)> {
        let (_, named) = self.keys.find(key.hash, key.bytes)?;
        let word = self.keys.vacate(key.hash, named.address())?;
        let footprint = named.footprint();
        if let Named::Own(name) = named
            && self.names.remove(name)
        {
            self.close_holes();
        }
        Some((self.readers_of(word), footprint))
    }

    /// Shrinks the table after removals.
    #[inline]
    pub fn shrink(&mut self, (cache, hasher): (&mut Cache, &KeyHasher)) -> Option<Retired> {
        if self.is_empty() {
            self.groups = None;
        }
        // Replacing the array reads the names.
        self.keys.shrink_late(cache, |key| hasher.hash(key))
    }

    /// Moves all names to memory without holes.
    #[cold]
    fn close_holes(&mut self) {
        let mut names = self.names.room_for_rest();
        for bucket in 0..self.keys.buckets() {
            for slot in self.keys.bucket(bucket).used() {
                let at = Position { bucket, slot };
                if let Named::Own(old) = self.keys.item_at(at) {
                    self.keys.replace(at, Named::Own(names.add(old.key())));
                }
            }
        }
        self.names = names;
    }

    /// The names of up to `count` keys, from any position in the table on.
    pub fn some_names(&self, count: usize, from: usize) -> Vec<Box<[u8]>> {
        let buckets = self.keys.buckets();
        let all = (0..buckets).map(|n| self.keys.bucket((from % buckets + n) % buckets));
        let names = all.flat_map(|bucket| bucket.used().map(|slot| bucket.slot(slot).item()));
        names.take(count).map(|named: Named| named.key().into()).collect()
    }

    /// Addresses of the entries that hold names.
    #[cfg(test)]
    pub fn entries(&self) -> Vec<usize> {
        let all = (0..self.keys.buckets()).map(|n| self.keys.bucket(n));
        let all = all.flat_map(|bucket| bucket.used().map(|slot| bucket.slot(slot).item()));
        all.filter(|named| matches!(named, Named::Entry(_))).map(Named::address).collect()
    }

    /// The most buckets that a search for something that is not there passes.
    #[cfg(test)]
    pub fn longest_search(&self) -> usize {
        let buckets = self.keys.buckets();
        let ends = |n: usize| self.keys.bucket(n % buckets).ends_search();
        let length = |from: usize| (from..from + buckets).take_while(|&n| !ends(n)).count();
        (0..buckets).map(length).max().unwrap_or(0)
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
    /// The table was taken out while no thread was in a batch, so that no thread can be peeking at
    /// it.
    pub unsafe fn free(mut self, cache: &mut Cache) {
        if let Some(array) = self.keys.drain(|_| ()) {
            // SAFETY: by the contract.
            unsafe { array.free(cache) };
        }
    }
}

/// The side tables of all stripes, each guarded by the lock of its stripe; none before the first
/// key is tracked.
#[derive(Default)]
pub(crate) struct SideTables {
    cells: OnceLock<Box<[Cell]>>,
    /// Number of tables that are not empty.
    used: AtomicUsize,
}

#[derive(Default)]
#[repr(align(64))]
struct Cell(UnsafeCell<Tracked>);

// A change reads a single cache line of its stripe's cell.
const _: () = assert!(size_of::<Cell>() == 64);

// SAFETY: a cell is reached only by the holder of its stripe's lock, or of all, or to peek through
// atomics.
unsafe impl Sync for Cell {}

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

    /// Creates the tables of `stripes` stripes, once.
    pub fn make(&self, stripes: usize) {
        self.cells.get_or_init(|| (0..stripes).map(|_| Cell::default()).collect());
    }

    /// The side table of a stripe, if there are any.
    ///
    /// # Safety
    /// The calling thread holds the stripe, or no other thread knows the tables, and no other
    /// reference from here is alive.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn of(&self, stripe: u32) -> Option<&mut Tracked> {
        let cell = &self.cells.get()?[stripe as usize];
        // SAFETY: by the contract.
        Some(unsafe { &mut *cell.0.get() })
    }

    /// The tracked keys of a stripe, for a peek without the lock.
    #[inline]
    pub(crate) fn peek(&self, stripe: u32) -> Option<&Array<Annotated>> {
        let cell = &self.cells.get()?[stripe as usize];
        // SAFETY: the reference is to a single atomic word inside the cell.
        Some(unsafe { &(*cell.0.get()).keys.array })
    }
}
