//! A hash table: open addressing over cache-line buckets. Each stripe has one per database, and
//! each segment of a [`crate::dict::Dict`] is one.
//!
//! * A key's home bucket is `position * buckets >> 32`: the order of buckets is the order of hashes
//!   for any number of buckets. This lets `SCAN` resume after the table has grown or shrunk, and
//!   lets the table grow by half instead of doubling.
//! * An entry with a full home bucket lies in one of the next buckets; a search ends at the first
//!   bucket that is not full. A slot stores how far it was displaced, so that removal can close the
//!   gap without reading other entries.
//! * A table that is filled and emptied repeatedly leaves a tombstone instead of closing the gap
//!   ([`Table::vacate`]), which reads nothing of the next bucket. Searches pass it; additions
//!   reuse it.
//! * Growing moves every entry at once, with the entries prefetched: a stripe holds one of
//!   thousands of the keys, so this takes microseconds. The replaced array is retired, not freed,
//!   because another worker may be peeking at it.

use crate::structures::bucket::{Bucket, DISPLACEMENT_MAX, Item, Line, SLOTS, Slot};
use crate::structures::key_hash::KeyHash;
use petrel_heap::prefetch;
use petrel_heap::{BLOCK_BYTES_MAX, Cache, alignment, usable};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Maximum number of items in `buckets` buckets: the table grows beyond seven eighths.
pub(crate) const fn capacity(buckets: usize) -> usize {
    buckets * (SLOTS - 1)
}

/// Maximum number of buckets: the count shares a word with the address.
const BUCKETS_MAX: usize = (1 << COUNT_BITS) - 1;
const COUNT_BITS: u32 = 22;

/// Number of buckets that a search passes, in a table with tombstones, before the table is rebuilt.
const SEARCH_MAX: usize = 16;

/// Entries prefetched ahead while a table is rebuilt.
const REBUILD_AHEAD: usize = 16;

/// Position of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub bucket: usize,
    pub slot: usize,
}

/// A replaced bucket array; freed once no thread can be peeking at it.
pub(crate) struct Retired {
    address: usize,
    layout: Layout,
}

impl Retired {
    /// Frees the array.
    ///
    /// # Safety
    /// No thread reads the array any more.
    pub unsafe fn free(self, cache: &mut Cache) {
        let (base, layout) =
            (std::ptr::with_exposed_provenance_mut::<u8>(self.address), self.layout);
        // SAFETY: by the contract no thread uses the array. It was allocated by `Buckets::new` with
        // the same layout; the word before a padded array holds the address of its block.
        unsafe {
            if is_aligned(layout) {
                cache.free(NonNull::new_unchecked(base), layout.size());
            } else if is_block(layout) {
                let block = base.sub(base.cast::<usize>().sub(1).read());
                cache.free(NonNull::new_unchecked(block), block_size(layout));
            } else {
                dealloc(base, layout);
            }
        }
    }
}

/// A table. The lock of its stripe guards everything but the word of its [`Array`] and `flagged`,
/// which a [peek](crate::state::stripe::Stripe::peek) reads.
pub(crate) struct Table<I: Item> {
    pub array: Array<I::Line>,
    len: u32,
    /// Number of items with a set [flag](Item::flag).
    pub flagged: AtomicU32,
    /// Bytes of the entries, so that a flush need not read them.
    bytes: u64,
    items: PhantomData<I>,
}

/// Reference to a table's bucket array: address and length in one word, so that a peek without the
/// stripe's lock sees a matching pair.
#[repr(transparent)]
pub(crate) struct Array<L> {
    word: AtomicU64,
    lines: PhantomData<fn() -> L>,
}

impl<I: Item> Default for Table<I> {
    fn default() -> Self {
        Table {
            array: Array::default(),
            len: 0,
            flagged: AtomicU32::new(0),
            bytes: 0,
            items: PhantomData,
        }
    }
}

impl<I: Item> Table<I> {
    /// An empty table of `buckets` buckets.
    pub fn with_buckets(buckets: usize, cache: &mut Cache) -> Self {
        let table = Table::default();
        table.publish(Buckets::new(buckets.min(BUCKETS_MAX), cache));
        table
    }

    /// Whether one more item would make the table grow.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= capacity(self.buckets())
    }

    /// A table of the same shape, with the copies that `copy` makes of the items.
    pub fn duplicate(&self, cache: &mut Cache, copy: impl Fn(I, &mut Cache) -> I) -> Self {
        let (from, to) = (self.array(), Buckets::<I::Line>::new(self.buckets(), cache));
        for (i, (from, to)) in from.as_slice().iter().zip(to.as_slice()).enumerate() {
            if let Some(ahead) = self.array().as_slice().get(i + REBUILD_AHEAD / SLOTS) {
                let ahead = ahead.bucket();
                ahead.used().for_each(|slot| prefetch(ahead.slot(slot).address()));
            }
            for slot in from.bucket().used() {
                let old = from.bucket().slot(slot);
                let new = copy(old.item(), cache);
                let tag = from.bucket().tag(slot);
                to.bucket().set(slot, tag, Slot::new(new, old.displacement()));
                to.set_word(slot, from.word(slot));
            }
        }
        let mut table = Table::default();
        (table.len, table.bytes) = (self.len, self.bytes);
        table.flagged = AtomicU32::new(self.flagged() as u32);
        table.publish(to);
        table
    }

    /// Keys in the table, including expired ones.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Number of items with a set [flag](Item::flag): in a keyspace's tables, keys with a TTL.
    pub fn flagged(&self) -> usize {
        self.flagged.load(Relaxed) as usize
    }

    /// Updates the number of flagged items. Only the holder of the lock writes it.
    #[inline]
    fn count_flagged(&mut self, old: bool, new: bool) {
        let flagged = self.flagged.load(Relaxed) + u32::from(new) - u32::from(old);
        self.flagged.store(flagged, Relaxed);
    }

    /// Bytes of the entries.
    pub fn weight(&self) -> u64 {
        self.bytes
    }

    /// Adds to the bytes of the entries.
    #[inline]
    pub fn weigh(&mut self, bytes: i64) {
        self.bytes = self.bytes.wrapping_add_signed(bytes);
    }

    /// Bytes of the bucket array in the heap.
    pub fn footprint(&self) -> usize {
        Self::footprint_of(self.buckets())
    }

    fn footprint_of(buckets: usize) -> usize {
        match buckets {
            0 => 0,
            _ => block_bytes(Buckets::<I::Line>::layout(buckets)),
        }
    }

    /// Bytes that the bucket array takes more than one of `before` buckets.
    #[inline]
    pub fn growth(&self, before: usize) -> i64 {
        match self.buckets() {
            after if after == before => 0,
            after => Self::footprint_of(after) as i64 - Self::footprint_of(before) as i64,
        }
    }

    /// Number of buckets.
    pub fn buckets(&self) -> usize {
        self.array().len()
    }

    /// Bucket `i`.
    #[inline]
    pub fn bucket(&self, i: usize) -> &Bucket {
        self.array().as_slice()[i].bucket()
    }

    /// The word beside an item.
    #[inline]
    pub fn word(&self, at: Position) -> Word<I> {
        self.array().as_slice()[at.bucket].word(at.slot)
    }

    /// Whether an item has the mark, which stays while it, or another with its key, is in the
    /// table.
    #[inline]
    pub fn is_marked(&self, at: Position) -> bool {
        self.array().as_slice()[at.bucket].bucket().is_marked(at.slot)
    }

    /// Marks an item.
    pub fn mark(&mut self, at: Position) {
        self.bucket(at.bucket).mark(at.slot);
    }

    /// Removes the mark of an item; true if it had one.
    #[inline]
    pub fn take_mark(&mut self, at: Position) -> bool {
        self.bucket(at.bucket).take_mark(at.slot)
    }

    /// Sets the word beside an item.
    #[inline]
    pub fn set_word(&mut self, at: Position, word: Word<I>) {
        self.array().as_slice()[at.bucket].set_word(at.slot, word);
    }

    /// Finds the entry of `key`.
    #[inline]
    pub fn find(&self, hash: KeyHash, key: &[u8]) -> Option<(Position, I)> {
        let array = self.array();
        let buckets = array.as_slice();
        if buckets.is_empty() {
            return None;
        }
        let mut at = array.home(hash);
        for _ in 0..buckets.len() {
            let bucket = buckets[at].bucket();
            for slot in bucket.matches(hash.tag()) {
                let entry: I = bucket.slot(slot).item();
                if entry.key() == key {
                    return Some((Position { bucket: at, slot }, entry));
                }
            }
            if bucket.ends_search() {
                return None;
            }
            at = array.next(at);
        }
        None
    }

    /// The item in a slot that is in use.
    pub fn item_at(&self, at: Position) -> I {
        self.bucket(at.bucket).slot(at.slot).item()
    }

    /// Finds the entry at `address` with this hash, without reading any entry.
    #[inline]
    pub fn find_address(&self, hash: KeyHash, address: usize) -> Option<Position> {
        let array = self.array();
        let buckets = array.as_slice();
        let mut at = if buckets.is_empty() { 0 } else { array.home(hash) };
        for _ in 0..buckets.len() {
            let bucket = buckets[at].bucket();
            let mut slots = bucket.matches(hash.tag());
            if let Some(slot) = slots.find(|slot| bucket.slot(*slot).address() == address) {
                return Some(Position { bucket: at, slot });
            }
            if bucket.ends_search() {
                return None;
            }
            at = array.next(at);
        }
        None
    }

    /// Adds an entry with an absent key. Returns the array replaced by growing, if any.
    pub fn insert(
        &mut self,
        hash: KeyHash,
        entry: I,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        let retired = if self.is_full() { self.grow(cache, rehash) } else { None };
        self.put(hash, entry, Word::<I>::default());
        retired
    }

    /// Like [`Table::insert`], for a table with words beside its items, some of which may have been
    /// [vacated](Self::vacate).
    pub fn add(
        &mut self,
        hash: KeyHash,
        item: I,
        word: Word<I>,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        let retired = if self.is_full() {
            self.grow(cache, rehash)
        } else if self.searches_far(hash) {
            // If the table is at most half full, mostly tombstones extend the row of buckets that a
            // search passes.
            match self.len() * 2 > capacity(self.buckets()) {
                true => self.grow(cache, rehash),
                false => self.rebuild(self.buckets(), cache, rehash),
            }
        } else {
            None
        };
        self.put(hash, item, word);
        retired
    }

    fn grow(&mut self, cache: &mut Cache, rehash: impl Fn(&[u8]) -> KeyHash) -> Option<Retired> {
        let grown = (self.buckets() + self.buckets().div_ceil(2)).max(1);
        self.rebuild(grown, cache, rehash)
    }

    fn put(&mut self, hash: KeyHash, item: I, word: Word<I>) {
        self.array().place(hash, hash.tag(), Slot::new(item, 0), word);
        self.len += 1;
        self.count_flagged(false, item.flag());
    }

    /// Whether a search for an absent key passes too many buckets.
    fn searches_far(&self, hash: KeyHash) -> bool {
        let array = self.array();
        let mut at = array.home(hash);
        for _ in 0..SEARCH_MAX.min(array.len()) {
            if array.as_slice()[at].bucket().ends_search() {
                return false;
            }
            at = array.next(at);
        }
        true
    }

    /// Makes room for `len` entries in total. Returns the replaced array, if any.
    pub fn reserve(
        &mut self,
        len: usize,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        let wanted = len.div_ceil(SLOTS - 1).min(BUCKETS_MAX);
        if wanted <= self.buckets() { None } else { self.rebuild(wanted, cache, rehash) }
    }

    /// Replaces the entry at `at` with another one of the same key.
    #[inline]
    pub fn replace(&mut self, at: Position, entry: I) {
        let array = self.array();
        let bucket = array.as_slice()[at.bucket].bucket();
        let old = bucket.slot(at.slot);
        self.count_flagged(old.flag(), entry.flag());
        bucket.replace(at.slot, Slot::new(entry, old.displacement()));
    }

    /// Removes an entry, which the caller frees. Returns the array replaced by shrinking, if any.
    pub fn remove(
        &mut self,
        at: Position,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        self.take_out(at, &rehash);
        self.shrink(2, 5, cache, rehash)
    }

    /// Takes out the item at `address`, with this hash, and leaves a gap: items are added to such a
    /// table with [`Table::add`] only. Returns the word beside it.
    #[inline]
    pub fn vacate(&mut self, hash: KeyHash, address: usize) -> Option<Word<I>> {
        let at = self.find_address(hash, address)?;
        let line = &self.array().as_slice()[at.bucket];
        let word = line.word(at.slot);
        let flag = line.bucket().slot(at.slot).flag();
        self.count_flagged(flag, false);
        self.len -= 1;
        line.bucket().vacate(at.slot);
        Some(word)
    }

    /// Shrinks if less than an eighth is in use, for a table that is likely to grow again. Returns
    /// the replaced array.
    #[inline]
    pub fn shrink_late(
        &mut self,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        self.shrink(1, 8, cache, rehash)
    }

    fn take_out(&mut self, at: Position, rehash: &impl Fn(&[u8]) -> KeyHash) {
        let array = self.array();
        let bucket = array.as_slice()[at.bucket].bucket();
        let flag = bucket.slot(at.slot).flag();
        let was_full = bucket.is_full();
        bucket.clear(at.slot);
        if was_full {
            array.close_gap(at, &|slot| rehash(slot.item::<I>().key()));
        }
        self.len -= 1;
        self.count_flagged(flag, false);
    }

    /// Shrinks if less than this share is in use.
    #[inline]
    fn shrink(
        &mut self,
        part: usize,
        of: usize,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        let buckets = self.buckets();
        if self.len == 0 || (buckets > 4 && self.len() < capacity(buckets) * part / of) {
            return self.shrink_to_fit(cache, rehash);
        }
        None
    }

    #[inline(never)]
    fn shrink_to_fit(
        &mut self,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        self.rebuild(self.len().div_ceil(SLOTS - 2), cache, rehash)
    }

    /// Empties the table, passing each entry to `each`. Returns the array.
    pub fn drain(&mut self, mut each: impl FnMut(I)) -> Option<Retired> {
        let array = self.array();
        for line in array.as_slice() {
            for slot in line.bucket().used() {
                each(line.bucket().slot(slot).item());
            }
        }
        self.len = 0;
        self.flagged.store(0, Relaxed);
        self.bytes = 0;
        self.publish(Buckets::NONE);
        array.retired()
    }

    #[inline]
    fn array(&self) -> Buckets<I::Line> {
        self.array.load()
    }

    /// Address of the bucket array, if there is one.
    pub fn array_address(&self) -> Option<*const u8> {
        let array = self.array();
        (array.len() > 0).then(|| array.base().cast_const().cast())
    }

    /// Moves the bucket array to a fresh block (to leave a sparse slab). Returns the old one.
    pub fn relocate_array(&mut self, cache: &mut Cache) -> Option<Retired> {
        let old = self.array();
        let new = Buckets::<I::Line>::new(old.len(), cache);
        for (from, to) in old.as_slice().iter().zip(new.as_slice()) {
            to.bucket().copy(from.bucket());
            (0..SLOTS).for_each(|slot| to.set_word(slot, from.word(slot)));
        }
        self.publish(new);
        old.retired()
    }

    /// Publishes an array with all its content to peeking threads.
    fn publish(&self, array: Buckets<I::Line>) {
        self.array.word.store(array.word, Release);
    }

    fn rebuild(
        &mut self,
        buckets: usize,
        cache: &mut Cache,
        rehash: impl Fn(&[u8]) -> KeyHash,
    ) -> Option<Retired> {
        let old = self.array();
        let new = Buckets::new(buckets.min(BUCKETS_MAX), cache);
        let mut pending = Vec::with_capacity(self.len());
        for line in old.as_slice() {
            let bucket = line.bucket();
            let all = bucket.used();
            pending.extend(all.map(|slot| (bucket.slot(slot), bucket.tag(slot), line.word(slot))));
        }
        for (i, &(slot, tag, word)) in pending.iter().enumerate() {
            if let Some((ahead, ..)) = pending.get(i + REBUILD_AHEAD) {
                prefetch(ahead.address());
            }
            new.place(rehash(slot.item::<I>().key()), tag, slot, word);
        }
        self.publish(new);
        old.retired()
    }
}

impl<L> Default for Array<L> {
    fn default() -> Self {
        Array { word: AtomicU64::new(0), lines: PhantomData }
    }
}

impl<L: Line> Array<L> {
    #[inline]
    fn load(&self) -> Buckets<L> {
        Buckets::of_word(self.word.load(Acquire))
    }

    /// Number of buckets.
    pub fn buckets(&self) -> usize {
        self.load().len()
    }

    /// Address of the cache line of the bucket that is home to a position, for a prefetch.
    #[inline]
    pub fn home(&self, position: u32) -> Option<*const Bucket> {
        let array = self.load();
        let home = || array.base().wrapping_add(array.home_of(position));
        // A line begins with its bucket.
        (array.len() > 0).then(|| home().cast_const().cast())
    }

    /// The bucket that is home to a position.
    ///
    /// # Safety
    /// Retired arrays are not freed while the reference lives.
    #[inline]
    pub unsafe fn bucket_of<'a>(&self, position: u32) -> Option<&'a Bucket> {
        // SAFETY: the array is alive by the contract, and all its fields are atomic.
        self.home(position).map(|bucket| unsafe { &*bucket })
    }
}

impl<I: Item> Drop for Table<I> {
    fn drop(&mut self) {
        debug_assert!(self.array().len() == 0, "a table is drained before it is dropped");
    }
}

/// Whether an array of this layout is in a block of the heap.
fn is_block(layout: Layout) -> bool {
    block_size(layout) <= BLOCK_BYTES_MAX
}

/// Bytes of an array of this layout: its block, rounded as the heap rounds, or an allocation of its
/// own.
fn block_bytes(layout: Layout) -> usize {
    if is_block(layout) { usable(block_size(layout)) } else { layout.size() }
}

/// Whether an array of this layout starts at its block's beginning: blocks of its size are aligned
/// to cache lines.
fn is_aligned(layout: Layout) -> bool {
    layout.size() <= BLOCK_BYTES_MAX && alignment(layout.size()) >= layout.align()
}

/// Bytes of a block for an array of this layout, with room for the alignment if blocks of its size
/// are not aligned.
fn block_size(layout: Layout) -> usize {
    layout.size() + if is_aligned(layout) { 0 } else { layout.align() }
}

/// Word kept beside each item.
pub(crate) type Word<I> = <<I as Item>::Line as Line>::Word;

/// Address (64-byte aligned) and length of a bucket array in one word.
struct Buckets<L> {
    word: u64,
    lines: PhantomData<fn() -> L>,
}

impl<L> Clone for Buckets<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Buckets<L> {}

impl<L: Line> Buckets<L> {
    const NONE: Self = Self::of_word(0);

    const fn of_word(word: u64) -> Self {
        Buckets { word, lines: PhantomData }
    }

    /// An array of empty buckets, from the heap if its size classes suffice, so that it can be
    /// moved when its slab is sparse. If the heap does not align blocks of this size to cache
    /// lines, the array begins at the first line that leaves a word before it, which holds the
    /// address of the block.
    fn new(len: usize, cache: &mut Cache) -> Self {
        if len == 0 {
            return Buckets::NONE;
        }
        let layout = Self::layout(len);
        // SAFETY: a block of the heap is aligned as the array is, or has room for a word, the
        // padding to a line, and the array; an allocation of its own is aligned. Zeroed memory is a
        // valid array of empty buckets.
        let base = unsafe {
            let base = if is_aligned(layout) {
                cache.alloc(layout.size()).as_ptr()
            } else if is_block(layout) {
                let block = cache.alloc(block_size(layout)).as_ptr();
                let skip = size_of::<usize>();
                let base = block.add(skip + block.add(skip).align_offset(layout.align()));
                base.cast::<usize>().sub(1).write(base.offset_from_unsigned(block));
                base
            } else {
                alloc(layout)
            };
            if base.is_null() {
                handle_alloc_error(layout);
            }
            base.write_bytes(0, layout.size());
            base
        };
        let address = base.expose_provenance() as u64;
        assert!(address >> 48 == 0, "addresses are expected below 2^48");
        Buckets::of_word(address >> 6 << COUNT_BITS | len as u64)
    }

    /// The array, to be freed; none if it was empty.
    fn retired(self) -> Option<Retired> {
        let address = self.base().addr();
        (self.len() > 0).then(|| Retired { address, layout: Self::layout(self.len()) })
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<L>(len).expect("at most 2^22 buckets of 64 or 128 bytes")
    }

    #[inline]
    fn len(self) -> usize {
        (self.word & ((1 << COUNT_BITS) - 1)) as usize
    }

    #[inline]
    fn base(self) -> *mut L {
        std::ptr::with_exposed_provenance_mut((self.word >> COUNT_BITS << 6) as usize)
    }

    #[inline]
    fn as_slice<'a>(self) -> &'a [L] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the word describes an array of `len` initialised buckets; it is freed only when
        // retired.
        unsafe { std::slice::from_raw_parts(self.base(), self.len()) }
    }

    #[inline]
    fn home(self, hash: KeyHash) -> usize {
        self.home_of(hash.position())
    }

    #[inline]
    fn home_of(self, position: u32) -> usize {
        ((u64::from(position) * self.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(self, at: usize) -> usize {
        if at + 1 == self.len() { 0 } else { at + 1 }
    }

    /// Puts a slot, with its tag and mark, into the first bucket from its home on that has room,
    /// which must exist.
    fn place(self, hash: KeyHash, tag: u16, slot: Slot, word: L::Word) {
        let buckets = self.as_slice();
        let mut at = self.home(hash);
        let mut displacement = 0;
        loop {
            if let Some(free) = buckets[at].bucket().vacancy() {
                buckets[at].bucket().set(free, tag, slot.displaced(displacement));
                buckets[at].set_word(free, word);
                return;
            }
            at = self.next(at);
            displacement += 1;
        }
    }

    /// Moves displaced entries back after a slot of a full bucket was cleared, so that searches
    /// still find them.
    fn close_gap(self, mut gap: Position, rehash: &impl Fn(Slot) -> KeyHash) {
        let buckets = self.as_slice();
        let mut distance = 1;
        let mut at = self.next(gap.bucket);
        while at != gap.bucket {
            let bucket = buckets[at].bucket();
            let was_full = bucket.is_full();
            let candidate = bucket.used().find_map(|slot| {
                let displacement = self.displacement(at, bucket.slot(slot), rehash);
                (displacement as usize >= distance).then_some((slot, displacement))
            });
            if let Some((slot, displacement)) = candidate {
                let moved = bucket.slot(slot);
                let nearer = moved.displaced(displacement - distance as u32);
                buckets[gap.bucket].bucket().set(gap.slot, bucket.tag(slot), nearer);
                buckets[gap.bucket].set_word(gap.slot, buckets[at].word(slot));
                bucket.clear(slot);
                gap = Position { bucket: at, slot };
                distance = 0;
            }
            if !was_full {
                return;
            }
            at = self.next(at);
            distance += 1;
        }
    }

    /// Exact displacement of a slot in bucket `at`.
    fn displacement(self, at: usize, slot: Slot, rehash: &impl Fn(Slot) -> KeyHash) -> u32 {
        if slot.displacement() < DISPLACEMENT_MAX {
            return slot.displacement();
        }
        let home = self.home(rehash(slot));
        ((at + self.len() - home) % self.len()) as u32
    }
}
