//! The hash table inside a large collection: segments of at most 3,584 elements, found by the first
//! bits of the hash.
//!
//! A segment that is full is split in two by the next bit, so that growing never takes longer than
//! moving 3,584 elements (extendible hashing: Fagin, Nievergelt, Pippenger, Strong 1979). Segments
//! are the tables of the keyspace; as there, the order of buckets is the order of hashes, which
//! makes a `SCAN` cursor a place in that order.
//!
//! The bucket array of a full segment is the largest block of the heap, so arrays of all sizes come
//! from slabs, which empty as the segments of a dict outgrow a size, all at about the same time.
//!
//! ```text
//! directory   [ 0 | 0 | 1 | 2 ]      first `depth` bits of the hash
//!               └─┬─┘   │   │
//! segments      depth 1  2   2       each a table over the bits that follow its own depth
//! ```

mod image;

use crate::structures::bucket::{Item, SLOTS};
use crate::structures::element::Element;
use crate::structures::key_hash::{KeyHash, KeyHasher};
use crate::structures::table::{Position, Retired, Table, capacity};
use crate::structures::walk::{first_position, homed};
use image::Taking;
use petrel_heap::prefetch;
use petrel_heap::{BLOCK_BYTES_MAX, Cache};
use std::ops::Range;

/// Bucket counts through which a segment grows: by half at first, and by a quarter at the sizes
/// that hold most of a dict's memory; there, arrays fill the heap's blocks. Two halves of a full
/// segment have 326 each, and grow twice before they are split.
const STEPS: [usize; 17] =
    [1, 2, 3, 5, 8, 12, 18, 28, 43, 71, 107, 169, 210, 263, 326, 419, BLOCK_BYTES_MAX / 64];
/// Maximum number of elements of a segment: as many as its largest table holds.
const SEGMENT_MAX: usize = capacity(STEPS[STEPS.len() - 1]);
/// The directory has at most 2^16 places; then segments grow instead of being split.
const DEPTH_MAX: u32 = 16;
/// Buckets checked by one step of a relocation: about ten microseconds.
const BUCKETS_PER_MOVE: usize = 64;
/// Buckets ahead of a full walk that have their elements prefetched.
const BUCKETS_AHEAD: usize = 2;
/// Elements prefetched ahead while a segment is split.
const SPLIT_AHEAD: usize = 16;
/// Rejected draws before a random choice falls back to a walk.
const RANDOM_TRIES: usize = 256;

/// A set of elements with distinct keys.
pub(crate) struct Dict {
    hasher: KeyHasher,
    /// Bits of hash that index the directory.
    depth: u32,
    /// Segment by the first `depth` bits of the hash.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    len: usize,
    /// Bytes of elements and bucket arrays.
    bytes: usize,
    /// Buckets of the largest segment.
    buckets_max: usize,
    /// Stamp of new elements.
    stamp: u8,
    /// Present only while a snapshot takes the elements in portions.
    taking: Option<Box<Taking>>,
}

struct Segment {
    /// Number of first hash bits common to all elements.
    depth: u32,
    table: Table<Element>,
}

/// Position of an element, valid until the dict changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictPosition {
    segment: u32,
    position: Position,
}

impl Dict {
    /// An empty dict with a hasher of its own, seeded from `hasher`: dicts are often filled from
    /// each other in hash order, which would crowd the buckets if they shared a hasher.
    pub fn new(hasher: &KeyHasher) -> Self {
        Dict {
            hasher: hasher.reseeded(),
            depth: 0,
            directory: vec![0],
            segments: vec![Segment { depth: 0, table: Table::default() }],
            len: 0,
            bytes: 0,
            buckets_max: 0,
            stamp: 0,
            taking: None,
        }
    }

    /// The hasher of the elements' keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes outside this struct: elements, bucket arrays, directory.
    pub fn footprint(&self) -> usize {
        self.bytes
            + self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment>()
    }

    /// Finds an element.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Element> {
        Some(self.find(key)?.1)
    }

    /// Finds an element and its position.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<(DictPosition, Element)> {
        self.find_hashed(key, self.hasher.hash(key))
    }

    /// Like [`Dict::find`], for a known hash, from [`Dict::hasher`].
    #[inline]
    pub fn find_hashed(&self, key: &[u8], hash: KeyHash) -> Option<(DictPosition, Element)> {
        let segment = self.segment_of(hash);
        let table = &self.segments[segment as usize].table;
        let hash = hash.at_depth(self.segments[segment as usize].depth);
        let (position, element) = table.find(hash, key)?;
        Some((DictPosition { segment, position }, element))
    }

    /// Adds an element with an absent key.
    pub fn insert(&mut self, element: Element, cache: &mut Cache) {
        self.insert_hashed(element, self.hasher.hash(element.key()), cache);
    }

    /// Like [`Dict::insert`], for a known hash, from [`Dict::hasher`].
    pub fn insert_hashed(&mut self, element: Element, hash: KeyHash, cache: &mut Cache) {
        let mut segment = self.segment_of(hash) as usize;
        while self.segments[segment].table.len() >= SEGMENT_MAX
            && self.segments[segment].depth < DEPTH_MAX
        {
            self.split(segment, cache);
            segment = self.segment_of(hash) as usize;
        }
        self.bytes += element.footprint();
        self.len += 1;
        element.set_stamp(self.stamp);
        self.insert_into(segment, element, hash, cache);
    }

    /// Removes an element from the dict; the caller releases it.
    pub fn remove(&mut self, place: DictPosition, cache: &mut Cache) -> Element {
        self.before_change(
            self.segments[place.segment as usize].table.item_at(place.position),
            cache,
        );
        let Segment { depth, table } = &mut self.segments[place.segment as usize];
        let (hasher, depth) = (&self.hasher, *depth);
        let element: Element = table.item_at(place.position);
        let before = table.footprint();
        let retired = table.remove(place.position, cache, |key| hasher.hash(key).at_depth(depth));
        self.bytes = self.bytes + table.footprint() - before - element.footprint();
        self.len -= 1;
        if retired.is_some() {
            let buckets = self.segments.iter().map(|segment| segment.table.buckets());
            self.buckets_max = buckets.max().unwrap_or(0);
        }
        discard(retired, cache);
        element
    }

    /// Replaces an element with another one of the same key; the caller releases the old one and
    /// has called [`Dict::before_change`].
    pub fn replace(&mut self, place: DictPosition, element: Element) -> Element {
        let table = &mut self.segments[place.segment as usize].table;
        let old: Element = table.item_at(place.position);
        element.set_stamp(self.stamp);
        table.replace(place.position, element);
        self.bytes = self.bytes + element.footprint() - old.footprint();
        old
    }

    /// Every element, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = Element> + '_ {
        self.segments.iter().flat_map(|segment| {
            let buckets = segment.table.buckets();
            (0..buckets).flat_map(move |i| {
                if i + BUCKETS_AHEAD < buckets {
                    let ahead = segment.table.bucket(i + BUCKETS_AHEAD);
                    ahead.used().for_each(|slot| prefetch(ahead.slot(slot).address()));
                }
                let bucket = segment.table.bucket(i);
                bucket.used().map(move |slot| bucket.slot(slot).item::<Element>())
            })
        })
    }

    /// Passes the elements from the cursor on to `each`, at least `count` of them unless fewer are
    /// left; returns the next cursor, 0 at the end. Elements present from the first to the last
    /// call are seen at least once.
    ///
    /// A cursor holds the first 16 bits of the position in the order of hashes, and the next 32
    /// above them.
    pub fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(Element)) -> u64 {
        let (mut prefix, mut position) = ((cursor >> 32) as u32 & 0xffff, cursor as u32);
        let mut seen = 0;
        loop {
            let Segment { depth, table } = self.segment_at_prefix(prefix);
            let span = 1 << (DEPTH_MAX - depth);
            // The position is not the beginning of the segment: the segments were split since.
            if prefix % span != 0 {
                position = 0;
                prefix -= prefix % span;
            }
            let next = scan_table(
                table,
                position,
                count.saturating_sub(seen).max(1),
                &|element| self.hasher.hash(element.key()).at_depth(*depth).position(),
                &mut |element| {
                    seen += 1;
                    each(element);
                },
            );
            match next {
                Some(next) => return u64::from(prefix) << 32 | u64::from(next),
                None => {
                    prefix += span;
                    position = 0;
                }
            }
            if prefix >= 1 << DEPTH_MAX {
                return 0;
            }
            if seen >= count {
                return u64::from(prefix) << 32;
            }
        }
    }

    /// An element drawn at random, each with the same probability; none if the dict is empty.
    pub fn random(&self, random: &mut impl FnMut() -> u64) -> Option<Element> {
        if self.len == 0 {
            return None;
        }
        for _ in 0..RANDOM_TRIES {
            if let Some(element) = self.draw(random()) {
                return Some(element);
            }
        }
        // In a nearly empty dict rejection takes long: the n-th element is equally fair.
        self.iter().nth((random() % self.len as u64) as usize)
    }

    /// Moves blocks at marked addresses to fresh blocks (to leave sparse slabs), a few buckets at a
    /// time: elements, which `moved` gets before the old block is freed, and bucket arrays. Returns
    /// the next cursor, none at the end; 0 is the beginning.
    pub fn relocate(
        &mut self,
        cursor: u64,
        is_marked: &dyn Fn(usize) -> bool,
        moved: &mut dyn FnMut(Element, Element),
        cache: &mut Cache,
    ) -> Option<u64> {
        let (segment, first) = ((cursor >> 32) as usize, cursor as u32 as usize);
        let table = &mut self.segments.get_mut(segment)?.table;
        if first == 0 && table.array_address().is_some_and(|address| is_marked(address.addr())) {
            let retired = table.relocate_array(cache);
            discard(retired, cache);
        }
        let last = (first + BUCKETS_PER_MOVE).min(table.buckets());
        for bucket in first..last {
            for slot in table.bucket(bucket).used() {
                if is_marked(table.bucket(bucket).slot(slot).address()) {
                    let at = Position { bucket, slot };
                    let old: Element = table.item_at(at);
                    let new = old.duplicate(cache);
                    table.replace(at, new);
                    moved(old, new);
                    old.release(cache);
                }
            }
        }
        Some(if last < table.buckets() {
            (segment as u64) << 32 | last as u64
        } else {
            (segment as u64 + 1) << 32
        })
    }

    /// A copy with all elements in blocks of their own.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        let mut copy = |segment: &Segment| {
            let table = segment.table.duplicate(cache, |element, cache| {
                let copy = element.duplicate(cache);
                copy.set_stamp(self.stamp);
                copy
            });
            Segment { depth: segment.depth, table }
        };
        Dict {
            hasher: self.hasher.clone(),
            directory: self.directory.clone(),
            segments: self.segments.iter().map(&mut copy).collect(),
            taking: None,
            ..*self
        }
    }

    /// Takes out the elements that satisfy `is_taken`, called once for each; the caller releases
    /// them.
    pub fn extract(
        &mut self,
        is_taken: &mut dyn FnMut(Element) -> bool,
        cache: &mut Cache,
    ) -> Vec<Element> {
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        self.buckets_max = 0;
        for Segment { depth, table } in &mut self.segments {
            let (hasher, depth) = (&self.hasher, *depth);
            self.bytes -= table.footprint();
            let retired = table.drain(|element| {
                if is_taken(element) { taken.push(element) } else { kept.push(element) }
            });
            discard(retired, cache);
            if !kept.is_empty() {
                *table = with_room(kept.len(), cache);
            }
            for element in kept.drain(..) {
                let hash = hasher.hash(element.key()).at_depth(depth);
                let retired = table.insert(hash, element, cache, |_| hash);
                discard(retired, cache);
            }
            self.bytes += table.footprint();
            self.buckets_max = self.buckets_max.max(table.buckets());
        }
        self.len -= taken.len();
        self.bytes -= taken.iter().map(|element| element.footprint()).sum::<usize>();
        taken.iter().for_each(|element| self.before_change(*element, cache));
        taken
    }

    /// Frees every element.
    pub fn release(mut self, cache: &mut Cache) {
        self.end_image(cache);
        for segment in &mut self.segments {
            let retired = segment.table.drain(|element| element.release(cache));
            discard(retired, cache);
        }
    }

    /// The element of a random slot. Every slot of every segment is equally likely, including empty
    /// ones and, for segments smaller than the largest, nonexistent ones.
    fn draw(&self, draw: u64) -> Option<Element> {
        let prefix = (draw >> 48) as u32;
        let Segment { depth, table } = self.segment_at_prefix(prefix);
        // A segment with several places in the directory must count as one; the smallest span is
        // one place.
        let span = 1 << (DEPTH_MAX - depth);
        let unit = 1 << (DEPTH_MAX - self.depth);
        if prefix % span >= unit {
            return None;
        }
        let at = ((draw & 0xffff_ffff) * self.buckets_max as u64) >> 32;
        let slot = (draw >> 32) as usize % SLOTS;
        let at = at as usize;
        if at >= table.buckets() || table.bucket(at).tag(slot) == 0 {
            return None;
        }
        Some(table.bucket(at).slot(slot).item())
    }

    #[inline]
    fn segment_of(&self, hash: KeyHash) -> u32 {
        self.directory[hash.at_depth(self.depth).stripe() as usize]
    }

    fn segment_at_prefix(&self, prefix: u32) -> &Segment {
        &self.segments[self.directory[(prefix >> (DEPTH_MAX - self.depth)) as usize] as usize]
    }

    fn insert_into(&mut self, at: usize, element: Element, hash: KeyHash, cache: &mut Cache) {
        if self.segments[at].table.is_full() {
            self.grow(at, cache);
        }
        let Segment { depth, table } = &mut self.segments[at];
        let (hasher, depth) = (&self.hasher, *depth);
        let rehash = |key: &[u8]| hasher.hash(key).at_depth(depth);
        let retired = table.insert(hash.at_depth(depth), element, cache, rehash);
        discard(retired, cache);
    }

    /// Enlarges the table of a segment: to the next step, or by half if segments are no longer
    /// split.
    #[cold]
    fn grow(&mut self, at: usize, cache: &mut Cache) {
        let Segment { depth, table } = &mut self.segments[at];
        let (hasher, depth) = (&self.hasher, *depth);
        let before = table.footprint();
        let step = STEPS.iter().copied().find(|&step| step > table.buckets());
        let room = capacity(step.unwrap_or(table.buckets() / 2 * 3));
        let retired = table.reserve(room, cache, |key| hasher.hash(key).at_depth(depth));
        self.bytes = self.bytes + table.footprint() - before;
        self.buckets_max = self.buckets_max.max(table.buckets());
        discard(retired, cache);
    }

    /// Splits a full segment by the first of the next bits in which its elements' hashes differ.
    #[cold]
    fn split(&mut self, at: usize, cache: &mut Cache) {
        let mut full = std::mem::take(&mut self.segments[at].table);
        self.bytes -= full.footprint();
        let mut elements = Vec::with_capacity(full.len());
        let retired = full.drain(|element| elements.push(element));
        discard(retired, cache);
        let mut hashes = Vec::with_capacity(elements.len());
        for (i, element) in elements.iter().enumerate() {
            if let Some(ahead) = elements.get(i + SPLIT_AHEAD) {
                prefetch(ahead.address());
            }
            hashes.push(self.hasher.hash(element.key()));
        }
        loop {
            let other = self.segments.len();
            let depth = self.divide(at, hashes[0], other);
            let in_upper = |hash: &&KeyHash| hash.at_depth(depth).stripe() % 2 == 1;
            let in_other = hashes.iter().filter(in_upper).count();
            self.segments.push(Segment { depth, table: Table::default() });
            let is_even = in_other > 0 && in_other < hashes.len();
            if is_even || depth == DEPTH_MAX {
                let sizes = [(at, hashes.len() - in_other), (other, in_other)];
                for (segment, len) in sizes.into_iter().filter(|&(_, len)| len > 0) {
                    let table = with_room(len, cache);
                    self.bytes += table.footprint();
                    self.buckets_max = self.buckets_max.max(table.buckets());
                    self.segments[segment].table = table;
                }
                break;
            }
            if in_other > 0 {
                // All are in the upper half, which takes over the segment's number.
                self.exchange(at, other, hashes[0]);
            }
        }
        for (element, hash) in elements.into_iter().zip(hashes) {
            let segment = self.segment_of(hash) as usize;
            self.insert_into(segment, element, hash, cache);
        }
    }

    /// Transfers the upper half of a segment's directory places, one of which belongs to `hash`, to
    /// a segment `other`; returns the depth of both.
    fn divide(&mut self, at: usize, hash: KeyHash, other: usize) -> u32 {
        let depth = self.segments[at].depth + 1;
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&segment| [segment; 2]).collect();
            self.depth = depth;
        }
        self.segments[at].depth = depth;
        let (_, upper) = self.places(hash, depth);
        self.directory[upper].fill(other as u32);
        depth
    }

    /// Swaps the numbers of the two halves of a split segment.
    fn exchange(&mut self, lower: usize, upper: usize, hash: KeyHash) {
        let (first, second) = self.places(hash, self.segments[lower].depth);
        self.directory[first].fill(upper as u32);
        self.directory[second].fill(lower as u32);
    }

    /// The directory places of the two halves of the segment of `hash`, which are adjacent.
    fn places(&self, hash: KeyHash, depth: u32) -> (Range<usize>, Range<usize>) {
        let half = 1 << (self.depth - depth);
        let first = (hash.at_depth(depth).stripe() as usize & !1) * half;
        (first..first + half, first + half..first + 2 * half)
    }
}

/// An empty table for `len` elements without growing, with an eighth to spare if the segment may be
/// that large.
fn with_room(len: usize, cache: &mut Cache) -> Table<Element> {
    let room = (len + len / 8).min(SEGMENT_MAX).max(len);
    let step = STEPS.iter().copied().find(|&step| capacity(step) >= room);
    Table::with_buckets(step.unwrap_or(room.div_ceil(capacity(1))), cache)
}

/// Frees a replaced bucket array. No thread peeks into a collection without its stripe's lock.
fn discard(retired: Option<Retired>, cache: &mut Cache) {
    if let Some(array) = retired {
        // SAFETY: only the holder of the stripe reaches the array.
        unsafe { array.free(cache) };
    }
}

/// Walks the buckets of one table from a position on; returns the next position if `count` elements
/// were seen before the end.
fn scan_table(
    table: &Table<Element>,
    position: u32,
    count: usize,
    position_of: &dyn Fn(Element) -> u32,
    each: &mut dyn FnMut(Element),
) -> Option<u32> {
    let buckets = table.buckets();
    if buckets == 0 {
        return None;
    }
    let mut seen = 0;
    let first = ((u64::from(position) * buckets as u64) >> 32) as usize;
    for home in first..buckets {
        for element in homed(table, home, position_of) {
            if position_of(element) >= position {
                each(element);
                seen += 1;
            }
        }
        if seen >= count && home + 1 < buckets {
            return Some(first_position(home + 1, buckets));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_heap::Heap;
    use std::collections::HashSet;

    fn name(n: usize) -> Vec<u8> {
        format!("member:{n}").into_bytes()
    }

    fn filled(len: usize, cache: &mut Cache) -> Dict {
        let mut dict = Dict::new(&KeyHasher::new(7, 12));
        for n in 0..len {
            let element = Element::member(cache, &name(n));
            dict.insert(element, cache);
        }
        dict
    }

    #[test]
    fn finds_what_was_inserted_through_growth_and_removal() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let len = 40_000;
        let mut dict = filled(len, &mut cache);
        assert_eq!(dict.len(), len);
        assert!(dict.segments.iter().all(|segment| segment.table.len() <= SEGMENT_MAX));
        assert!((0..len).all(|n| dict.get(&name(n)).is_some_and(|e| e.key() == name(n))));
        assert!(dict.get(b"stranger").is_none());
        for n in (0..len).filter(|n| n % 10 != 3) {
            let (place, _) = dict.find(&name(n)).expect("inserted above");
            dict.remove(place, &mut cache).release(&mut cache);
        }
        assert_eq!(dict.len(), len / 10);
        check(&dict, (0..len).filter(|n| n % 10 == 3));
        let copy = dict.duplicate(&mut cache);
        check(&copy, (0..len).filter(|n| n % 10 == 3));
        dict.release(&mut cache);
        copy.release(&mut cache);
    }

    /// All elements are found, and the counters match them.
    fn check(dict: &Dict, names: impl Iterator<Item = usize>) {
        let found = names.filter(|&n| dict.get(&name(n)).is_some_and(|e| e.key() == name(n)));
        assert_eq!((found.count(), dict.iter().count()), (dict.len(), dict.len()));
        let elements: usize = dict.iter().map(Element::footprint).sum();
        let arrays: usize = dict.segments.iter().map(|segment| segment.table.footprint()).sum();
        assert_eq!(dict.bytes, elements + arrays);
        assert!(dict.segments.iter().all(|segment| segment.table.len() <= SEGMENT_MAX));
    }

    #[test]
    fn elements_may_come_in_the_order_of_their_hashes() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let dict = filled(30_000, &mut cache);
        let mut elements: Vec<Element> = dict.iter().collect();
        for _ in 0..2 {
            let mut other = Dict::new(&dict.hasher);
            other.hasher = dict.hasher.clone();
            for element in &elements {
                let element = element.duplicate(&mut cache);
                other.insert(element, &mut cache);
            }
            check(&other, 0..30_000);
            other.release(&mut cache);
            elements.reverse();
        }
        dict.release(&mut cache);
    }

    #[test]
    fn what_is_left_of_an_extraction_keeps_its_place_in_a_scan() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let mut dict = filled(20_000, &mut cache);
        let mut seen = HashSet::new();
        let mut cursor = 0;
        let mut parity = false;
        loop {
            cursor = dict.scan(cursor, 3_000, |element| {
                seen.insert(element.key().to_vec());
            });
            if cursor == 0 {
                break;
            }
            let mut is_taken = |_| {
                parity = !parity;
                parity
            };
            let taken = dict.extract(&mut is_taken, &mut cache);
            taken.into_iter().for_each(|element| element.release(&mut cache));
            check(&dict, 0..20_000);
        }
        assert!(dict.len() < 10_000 && dict.iter().all(|element| seen.contains(element.key())));
        let all = dict.extract(&mut |_| true, &mut cache);
        assert_eq!((dict.len(), dict.iter().count(), dict.buckets_max), (0, 0, 0));
        all.into_iter().for_each(|element| element.release(&mut cache));
        let element = Element::member(&mut cache, b"new");
        dict.insert(element, &mut cache);
        assert!(dict.get(b"new").is_some());
        dict.release(&mut cache);
    }

    #[test]
    fn a_scan_sees_what_stays_though_segments_split_under_it() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let mut dict = filled(3_000, &mut cache);
        let mut seen = HashSet::new();
        let (mut cursor, mut next) = (0, 3_000);
        loop {
            cursor = dict.scan(cursor, 100, |element| {
                seen.insert(element.key().to_vec());
            });
            if cursor == 0 {
                break;
            }
            // Four splits' worth, then rest: a walk ends only if it is faster than the growth.
            if next < 20_000 {
                for n in next..next + 1_000 {
                    let element = Element::member(&mut cache, &name(n));
                    dict.insert(element, &mut cache);
                }
                next += 1_000;
            }
        }
        assert!(dict.segments.len() > 4, "{}", dict.segments.len());
        assert!((0..3_000).all(|n| seen.contains(&name(n))));
        dict.release(&mut cache);
    }

    #[test]
    fn a_scan_of_a_dict_at_rest_shows_each_element_once() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let dict = filled(20_000, &mut cache);
        let (mut seen, mut cursor, mut calls) = (Vec::new(), 0, 0);
        loop {
            cursor = dict.scan(cursor, 50, |element| seen.push(element.key().to_vec()));
            calls += 1;
            if cursor == 0 {
                break;
            }
        }
        assert!((200..=400).contains(&calls), "{calls}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 20_000);
        dict.release(&mut cache);
    }

    #[test]
    fn random_draws_are_even() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        // Just past a split, so that segments differ most.
        let dict = filled(5_000, &mut cache);
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let draws = 500_000;
        let mut counts = std::collections::HashMap::new();
        for _ in 0..draws {
            let element = dict.random(&mut random).expect("not empty");
            *counts.entry(element.key()).or_insert(0u64) += 1;
        }
        let expected = draws as f64 / 5_000.0;
        let chi: f64 = dict
            .iter()
            .map(|e| (counts.get(e.key()).map_or(0.0, |&n| n as f64) - expected).powi(2) / expected)
            .sum();
        // 4,999 degrees of freedom: mean 4,999, standard deviation 100.
        assert!((4_500.0..5_500.0).contains(&chi), "{chi}");
        dict.release(&mut cache);
    }
}
