//! A list of any length: a ring of chunks.

use crate::structures::list::End;
use crate::structures::list::chunk::{CHUNK_ROOM, Chunk};
use crate::structures::list::encoding::{LISTPACK_FRAME, listpack_entry_len, listpack_len_of};
use crate::structures::list::image::Taking;
use crate::structures::list::landmarks::{CHUNKS_MIN, Landmarks, NEAR};
use crate::structures::list::run::{Element, Elements, Run};
use petrel_heap::Cache;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::OnceLock;

/// A list of at least this many chunks gets full-sized chunks at its ends, which need not move to
/// grow.
const WHOLE_CHUNKS_FROM: usize = 8;
/// Adjacent chunks are merged if their total size is at most this, in bytes.
const MERGE_BELOW: usize = CHUNK_ROOM / 2;

/// Chunks checked by one step of a relocation.
const CHUNKS_PER_MOVE: usize = 64;

/// A list of any length, in chunks of packed items.
///
/// Released with [`List::release`]: blocks are freed into a cache.
#[derive(Debug, Default)]
pub struct List {
    chunks: VecDeque<Chunk>,
    len: usize,
    /// Bytes of all chunks' blocks.
    blocks: usize,
    /// Length of the listpack in which Redis would hold the items, while it is tracked.
    listpack: Option<usize>,
    /// Whether `OBJECT ENCODING` answers `quicklist`.
    is_quicklist: bool,
    /// Built for a long list on first use. They take a byte per 8 chunks, which are not accounted
    /// because a read builds them.
    landmarks: OnceLock<Box<Landmarks>>,
    /// Present only while a snapshot takes the elements in portions.
    pub(super) taking: Option<Box<Taking>>,
}

/// A position in a list: the chunk's number and the item's in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct ListPosition {
    chunk: usize,
    item: usize,
}

impl List {
    /// An empty list.
    pub fn new() -> Self {
        let mut list = List::default();
        list.listpack = Some(LISTPACK_FRAME);
        list
    }

    /// The list of a run's elements.
    pub fn from_run(cache: &mut Cache, run: Run<'_>) -> Self {
        let (mut list, mut text) = (List::new(), Vec::new());
        for element in run.elements(0) {
            text.clear();
            element.append_to(&mut text);
            list.push(cache, End::Back, &text);
        }
        list
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether `OBJECT ENCODING` answers `quicklist`, and not `listpack`.
    #[inline]
    pub fn is_quicklist(&self) -> bool {
        self.is_quicklist
    }

    /// Sets the answer of `OBJECT ENCODING`.
    #[inline]
    pub fn set_quicklist(&mut self, is_quicklist: bool) {
        self.is_quicklist = is_quicklist;
    }

    /// `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        if self.is_quicklist { "quicklist" } else { "listpack" }
    }

    /// Bytes outside the list's own fields: of blocks as the heap rounds them, and of the ring.
    #[inline]
    pub fn footprint(&self) -> usize {
        self.blocks + self.chunks.capacity() * size_of::<Chunk>()
    }

    /// Appends an element at an end.
    #[inline]
    pub fn push(&mut self, cache: &mut Cache, end: End, text: &[u8]) {
        if self.taking.is_some() {
            self.before_push(end);
        }
        if let Some(listpack) = &mut self.listpack {
            *listpack += listpack_entry_len(text);
        }
        self.push_uncounted(cache, end, text);
    }

    #[inline]
    fn push_uncounted(&mut self, cache: &mut Cache, end: End, text: &[u8]) {
        self.len += 1;
        if end == End::Front {
            self.shift_landmarks(0, 1);
        }
        let chunk = match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        };
        if let Some(chunk) = chunk {
            let before = chunk.footprint();
            let pushed = chunk.push(cache, end, text);
            if !pushed {
                chunk.fit(cache);
            }
            self.blocks = self.blocks - before + chunk.footprint();
            if pushed {
                return;
            }
        }
        self.push_chunk(cache, end, text);
    }

    #[inline(never)]
    fn push_chunk(&mut self, cache: &mut Cache, end: End, text: &[u8]) {
        let is_small = text.len() <= CHUNK_ROOM / 8;
        let room = match self.chunks.len() {
            WHOLE_CHUNKS_FROM.. if is_small => CHUNK_ROOM,
            1.. if is_small => CHUNK_ROOM / 8,
            _ => 0,
        };
        let chunk = Chunk::with_element(cache, end, room, text);
        self.blocks += chunk.footprint();
        match end {
            End::Front => {
                self.shift_landmarks(1, 0);
                self.chunks.push_front(chunk);
            }
            End::Back => {
                if let Some(landmarks) = self.landmarks.get_mut() {
                    landmarks.extend(self.chunks.len(), self.len - 1);
                }
                self.chunks.push_back(chunk);
            }
        }
    }

    #[inline]
    fn shift_landmarks(&mut self, chunks: i64, items: i64) {
        if let Some(landmarks) = self.landmarks.get_mut()
            && !landmarks.shift(chunks, items)
        {
            self.landmarks.take();
        }
    }

    /// Passes the item at an end to `take` and removes it.
    #[inline]
    pub fn pop<T>(
        &mut self,
        cache: &mut Cache,
        end: End,
        take: impl FnOnce(Element<'_>) -> T,
    ) -> Option<T> {
        if self.taking.is_some() {
            self.before_pop(end);
        }
        let chunk = match end {
            End::Front => self.chunks.front_mut()?,
            End::Back => self.chunks.back_mut()?,
        };
        let listpack = &mut self.listpack;
        let taken = chunk.pop(end, |element| {
            if let Some(listpack) = listpack {
                *listpack -= listpack_len_of(&element);
            }
            take(element)
        });
        self.len -= 1;
        let is_emptied = chunk.count() == 0;
        if end == End::Front {
            self.shift_landmarks(-i64::from(is_emptied), -1);
        }
        if is_emptied {
            let emptied = match end {
                End::Front => self.chunks.pop_front(),
                End::Back => self.chunks.pop_back(),
            };
            self.blocks -= emptied.as_ref().map_or(0, Chunk::footprint);
            if let Some(landmarks) = self.landmarks.get_mut() {
                landmarks.cut(self.chunks.len());
            }
            if let Some(chunk) = emptied {
                chunk.release(cache);
            }
            self.shrink_ring();
        }
        Some(taken)
    }

    /// The item at `index`.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        self.iter_from(index).next()
    }

    /// Iterates forwards from `index`.
    pub fn iter_from(&self, index: usize) -> Iter<'_> {
        if index >= self.len {
            return Iter { list: self, next_chunk: self.chunks.len(), elements: Elements::NONE };
        }
        let place = self.place(index);
        let elements = self.chunks[place.chunk].run().elements(place.item);
        Iter { list: self, next_chunk: place.chunk + 1, elements }
    }

    /// Iterates backwards from `index`.
    pub fn iter_back_from(&self, index: usize) -> BackIter<'_> {
        let mut walk = BackIter { list: self, chunks: 0, run: Run::EMPTY, offsets: Vec::new() };
        if let Some(last) = self.len.checked_sub(1) {
            let place = self.place(index.min(last));
            walk.chunks = place.chunk;
            walk.enter(place.item + 1);
        }
        walk
    }

    /// Replaces the element at `index`, which exists.
    pub fn set(&mut self, cache: &mut Cache, index: usize, text: &[u8]) {
        if self.taking.is_some() {
            self.before_set(index);
        }
        let place = self.place(index);
        let chunk = &mut self.chunks[place.chunk];
        if let Some(listpack) = &mut self.listpack {
            let run = chunk.run();
            *listpack -= listpack_len_of(&run.at(run.offset(place.item)));
            *listpack += listpack_entry_len(text);
        }
        let before = chunk.footprint();
        let fits = chunk.put(cache, place.item..place.item + 1, text);
        self.blocks = self.blocks - before + chunk.footprint();
        if !fits {
            self.detach(cache, place.chunk, place.item..place.item + 1);
            self.len -= 1;
            self.insert_uncounted(cache, index, text);
        }
    }

    /// Inserts an element before the one at `index`, or at the end.
    pub fn insert(&mut self, cache: &mut Cache, index: usize, text: &[u8]) {
        if self.taking.is_some() {
            self.before_insert(index, cache);
        }
        if let Some(listpack) = &mut self.listpack {
            *listpack += listpack_entry_len(text);
        }
        self.insert_uncounted(cache, index, text);
    }

    fn insert_uncounted(&mut self, cache: &mut Cache, index: usize, text: &[u8]) {
        if index == 0 || index >= self.len {
            let end = if index == 0 { End::Front } else { End::Back };
            return self.push_uncounted(cache, end, text);
        }
        let place = self.place(index);
        self.len += 1;
        if place.item == 0 && self.try_push(cache, place.chunk - 1, End::Back, text) {
            return self.note_gain(place.chunk - 1);
        }
        let chunk = &mut self.chunks[place.chunk];
        let before = chunk.footprint();
        let fits = chunk.put(cache, place.item..place.item, text);
        self.blocks = self.blocks - before + chunk.footprint();
        if fits {
            return self.note_gain(place.chunk);
        }
        self.landmarks.take();
        let behind = if place.item == 0 {
            place.chunk
        } else {
            self.split(cache, place);
            place.chunk + 1
        };
        let pushed = self.try_push(cache, behind - 1, End::Back, text)
            || self.try_push(cache, behind, End::Front, text);
        if !pushed {
            let chunk = Chunk::with_element(cache, End::Back, 0, text);
            self.blocks += chunk.footprint();
            self.chunks.insert(behind, chunk);
        }
    }

    fn note_gain(&mut self, chunk: usize) {
        if let Some(landmarks) = self.landmarks.get_mut() {
            landmarks.gain(chunk);
        }
    }

    /// Pushes at an end of a chunk, if it has room.
    fn try_push(&mut self, cache: &mut Cache, chunk: usize, end: End, text: &[u8]) -> bool {
        let chunk = &mut self.chunks[chunk];
        let before = chunk.footprint();
        let pushed = chunk.push(cache, end, text);
        self.blocks = self.blocks - before + chunk.footprint();
        pushed
    }

    /// Splits a chunk before an item that is not its first.
    fn split(&mut self, cache: &mut Cache, place: ListPosition) {
        let chunk = &mut self.chunks[place.chunk];
        self.blocks -= chunk.footprint();
        let behind = chunk.split(cache, place.item);
        chunk.fit(cache);
        self.blocks += chunk.footprint() + behind.footprint();
        self.chunks.insert(place.chunk + 1, behind);
    }

    /// Removes the items of `range`, which exist. Whole chunks are not freed but returned as a
    /// list, so that the caller can free them outside of the locks.
    pub fn remove_range(&mut self, cache: &mut Cache, range: Range<usize>) -> List {
        let mut removed = List::default();
        if range.is_empty() {
            return removed;
        }
        if self.taking.is_some() {
            self.before_remove(range.clone(), cache);
        }
        if self.listpack.is_some() {
            let elements = self.iter_from(range.start).take(range.len());
            let bytes: usize = elements.map(|element| listpack_len_of(&element)).sum();
            self.listpack = self.listpack.map(|listpack| listpack - bytes);
        }
        let first = self.place(range.start);
        self.landmarks.take();
        self.len -= range.len();
        let mut left = range.len();
        let mut at = first.chunk;
        if first.item > 0 {
            let held = self.chunks[at].count();
            let upto = held.min(first.item + left);
            self.detach(cache, at, first.item..upto);
            left -= upto - first.item;
            at += 1;
        }
        let mut whole = at;
        while whole < self.chunks.len() && left >= self.chunks[whole].count() {
            left -= self.chunks[whole].count();
            whole += 1;
        }
        for chunk in self.chunks.drain(at..whole) {
            self.blocks -= chunk.footprint();
            removed.blocks += chunk.footprint();
            removed.len += chunk.count();
            removed.chunks.push_back(chunk);
        }
        if left > 0 {
            self.detach(cache, at, 0..left);
        }
        self.tidy(cache, at.saturating_sub(1)..at + 2);
        removed
    }

    /// Removes items of one chunk, and the chunk if it is emptied; the caller updates the list's
    /// length.
    fn detach(&mut self, cache: &mut Cache, number: usize, items: Range<usize>) {
        self.landmarks.take();
        if items.len() < self.chunks[number].count() {
            return self.chunks[number].remove(items);
        }
        if let Some(chunk) = self.chunks.remove(number) {
            self.blocks -= chunk.footprint();
            chunk.release(cache);
        }
    }

    /// Removes at most `limit` items equal to a given one, beginning at an end; returns the number
    /// removed. `removed` gets the index of each at the time of its removal.
    pub fn remove_equal(
        &mut self,
        cache: &mut Cache,
        text: &[u8],
        from: End,
        limit: usize,
        mut removed: impl FnMut(usize),
    ) -> usize {
        if self.taking.is_some() {
            self.freeze(cache);
        }
        let (chunks, entry) = (self.chunks.len(), listpack_entry_len(text));
        let (mut count, mut matches) = (0, Vec::new());
        // `before`: items before the present chunk. `touched`: chunks from the first to the last
        // that lost an item.
        let mut before = if from == End::Front { 0 } else { self.len };
        let mut touched = chunks..0;
        for step in 0..chunks {
            if count == limit {
                break;
            }
            let number = if from == End::Front { step } else { chunks - 1 - step };
            let held = self.chunks[number].count();
            cache.breathe();
            matches.clear();
            self.chunks[number].run().find(text, |at| {
                matches.push(at);
                true
            });
            match from {
                End::Front => matches.truncate(limit - count),
                End::Back => {
                    before -= held;
                    matches.drain(..matches.len().saturating_sub(limit - count));
                }
            }
            if !matches.is_empty() {
                touched = touched.start.min(number)..touched.end.max(number + 1);
                match from {
                    // The removals are reported one after the other: each shifts the following
                    // indexes.
                    End::Front => {
                        (matches.iter().enumerate())
                            .for_each(|(gone, at)| removed(before + at - gone));
                    }
                    End::Back => matches.iter().rev().for_each(|at| removed(before + at)),
                }
                count += matches.len();
                self.listpack = self.listpack.map(|listpack| listpack - entry * matches.len());
                self.forget(cache, number, &matches);
            }
            if from == End::Front {
                before += held - matches.len();
            }
        }
        self.tidy(cache, touched.start.saturating_sub(1)..touched.end + 1);
        count
    }

    /// Removes the items with these numbers, in ascending order, from a chunk. An emptied chunk
    /// stays until [`List::tidy`].
    fn forget(&mut self, cache: &mut Cache, number: usize, items: &[usize]) {
        self.landmarks.take();
        let chunk = &mut self.chunks[number];
        self.len -= items.len();
        if items.len() == chunk.count() {
            self.blocks -= chunk.footprint();
            return chunk.take().release(cache);
        }
        for &item in items.iter().rev() {
            chunk.remove(item..item + 1);
        }
    }

    /// Removes empty chunks from the ring, merges nearly empty ones and shrinks half-empty ones, in
    /// one pass over `range`, which may reach beyond the ring.
    fn tidy(&mut self, cache: &mut Cache, range: Range<usize>) {
        let end = range.end.min(self.chunks.len());
        let mut kept = range.start;
        for number in range.start..end {
            let mut chunk = self.chunks[number].take();
            if chunk.count() == 0 {
                continue;
            }
            self.blocks -= chunk.footprint();
            if chunk.run().bytes.len() <= MERGE_BELOW {
                chunk.fit(cache);
            }
            if let Some(before) = kept.checked_sub(1).filter(|_| kept > range.start) {
                let before = &mut self.chunks[before];
                let footprint = before.footprint();
                if before.run().bytes.len() + chunk.run().bytes.len() <= MERGE_BELOW
                    && before.absorb(cache, &chunk)
                {
                    self.blocks = self.blocks - footprint + before.footprint();
                    chunk.release(cache);
                    continue;
                }
            }
            self.blocks += chunk.footprint();
            self.chunks[kept] = chunk;
            kept += 1;
        }
        if kept < end {
            self.chunks.drain(kept..end);
            self.shrink_ring();
        }
    }

    /// Calls `found` with the index of every element equal to a given one, among the first or last
    /// `most`, from an end on, and `pace` with the number of elements that are compared next, until
    /// one of them returns false.
    pub fn find(
        &self,
        text: &[u8],
        from: End,
        most: usize,
        mut found: impl FnMut(usize) -> bool,
        pace: &mut dyn FnMut(usize) -> bool,
    ) {
        let mut matches = Vec::new();
        let mut passed = 0;
        for step in 0..self.chunks.len() {
            let number = match from {
                End::Front => step,
                End::Back => self.chunks.len() - 1 - step,
            };
            let count = self.chunks[number].count();
            if !pace(count) {
                return;
            }
            matches.clear();
            self.chunks[number].run().find(text, |at| {
                matches.push(at);
                true
            });
            let goes_on = match from {
                End::Front => matches.iter().all(|at| passed + at < most && found(passed + at)),
                End::Back => matches.iter().rev().all(|at| {
                    let behind = passed + count - 1 - at;
                    behind < most && found(self.len - 1 - behind)
                }),
            };
            passed += count;
            if !goes_on || passed >= most {
                return;
            }
        }
    }

    /// The length in bytes of the listpack in which Redis would hold the items; counted on first
    /// use, and kept up to date from then on.
    pub fn listpack(&mut self) -> usize {
        if let Some(listpack) = self.listpack {
            return listpack;
        }
        let entries: usize = self.iter_from(0).map(|element| listpack_len_of(&element)).sum();
        let listpack = entries + LISTPACK_FRAME;
        self.listpack = Some(listpack);
        listpack
    }

    /// Stops counting for [`List::listpack`].
    pub fn forget_listpack(&mut self) {
        self.listpack = None;
    }

    /// The items, if they take at most `most` bytes and are in one chunk.
    pub fn small(&self, most: usize) -> Option<Run<'_>> {
        if self.chunks.len() != 1 {
            return None;
        }
        let run = self.chunks[0].run();
        (run.bytes.len() <= most).then_some(run)
    }

    /// A copy in blocks of its own.
    pub fn duplicate(&self, cache: &mut Cache) -> Self {
        let chunks: VecDeque<Chunk> =
            self.chunks.iter().map(|chunk| chunk.duplicate(cache)).collect();
        let blocks = chunks.iter().map(Chunk::footprint).sum();
        List { chunks, blocks, landmarks: OnceLock::new(), taking: None, ..*self }
    }

    /// Moves chunks to fresh blocks: [`super::super::Large::relocate`].
    pub fn relocate(
        &mut self,
        cursor: u64,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> Option<u64> {
        let first = cursor as usize;
        let last = first.saturating_add(CHUNKS_PER_MOVE).min(self.chunks.len());
        for chunk in self.chunks.range_mut(first.min(last)..last) {
            if is_marked(chunk.address()) {
                let old = std::mem::replace(chunk, chunk.duplicate(cache));
                self.blocks = self.blocks + chunk.footprint() - old.footprint();
                old.release(cache);
            }
        }
        (last < self.chunks.len()).then_some(last as u64)
    }

    /// Frees the list.
    pub fn release(mut self, cache: &mut Cache) {
        self.end_image(cache);
        for chunk in self.chunks.drain(..) {
            chunk.release(cache);
        }
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Position of the item at `index`, which exists.
    fn place(&self, index: usize) -> ListPosition {
        let is_near = index.min(self.len - index) < NEAR;
        if is_near || self.chunks.len() < CHUNKS_MIN {
            return self.place_from_end(index);
        }
        let counts = || Box::new(Landmarks::of(self.chunks.iter().map(Chunk::count)));
        let Some((first, before)) = self.landmarks.get_or_init(counts).ahead_of(index) else {
            return self.place_from_end(index);
        };
        let mut left = index - before;
        for (chunk, held) in self.chunks.range(first..).map(Chunk::count).enumerate() {
            if left < held {
                return ListPosition { chunk: first + chunk, item: left };
            }
            left -= held;
        }
        unreachable!("a landmark says how many items precede a chunk, and the item exists")
    }

    /// Like `place`, counting from the nearer end.
    fn place_from_end(&self, index: usize) -> ListPosition {
        let (front, back) = self.chunks.as_slices();
        if index <= self.len / 2 {
            let (chunk, item) = match forwards(front, index) {
                Ok(found) => found,
                Err(left) => {
                    let (chunk, item) = forwards(back, left).unwrap_or_default();
                    (front.len() + chunk, item)
                }
            };
            return ListPosition { chunk, item };
        }
        // Finds the item as the first of the last `behind` ones.
        let behind = self.len - index;
        let (chunk, item) = match backwards(back, behind) {
            Ok((chunk, item)) => (front.len() + chunk, item),
            Err(left) => backwards(front, left).unwrap_or_default(),
        };
        ListPosition { chunk, item }
    }

    /// Shrinks the ring if much of it is unused.
    fn shrink_ring(&mut self) {
        let capacity = self.chunks.capacity();
        if capacity > 16 && capacity > self.chunks.len() * 4 {
            self.chunks.shrink_to(capacity / 2);
        }
    }
}

#[cfg(test)]
impl List {
    /// Bytes of all chunks' blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Asserts that the counters match the chunks.
    pub fn check(&self) {
        assert_eq!(self.len, self.chunks.iter().map(Chunk::count).sum::<usize>());
        assert_eq!(self.blocks, self.chunks.iter().map(Chunk::footprint).sum::<usize>());
        for index in 0..self.len {
            assert_eq!(self.place(index), self.place_from_end(index));
        }
        for chunk in &self.chunks {
            assert_eq!(chunk.count(), chunk.run().elements(0).count());
            assert!(chunk.count() > 0);
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let is_released = self.chunks.is_empty() || std::thread::panicking();
        debug_assert!(is_released, "a list is released, not dropped");
    }
}

/// Number of chunk counts summed at a time.
const STEP: usize = 32;

/// The chunk of the item preceded by `index` others, and the item's number in it; else the rest of
/// `index`.
fn forwards(chunks: &[Chunk], mut index: usize) -> Result<(usize, usize), usize> {
    for (step, group) in chunks.chunks(STEP).enumerate() {
        let count: usize = group.iter().map(Chunk::count).sum();
        if index >= count {
            index -= count;
            continue;
        }
        for (at, chunk) in group.iter().enumerate() {
            if index < chunk.count() {
                return Ok((step * STEP + at, index));
            }
            index -= chunk.count();
        }
    }
    Err(index)
}

/// The chunk of the first of the last `behind` items, and the item's number in it; else the number
/// of items left.
fn backwards(chunks: &[Chunk], mut behind: usize) -> Result<(usize, usize), usize> {
    let mut end = chunks.len();
    for group in chunks.rchunks(STEP) {
        let count: usize = group.iter().map(Chunk::count).sum();
        if behind <= count {
            for chunk in group.iter().rev() {
                end -= 1;
                if behind <= chunk.count() {
                    return Ok((end, chunk.count() - behind));
                }
                behind -= chunk.count();
            }
        }
        behind -= count;
        end -= group.len();
    }
    Err(behind)
}

/// Walks a list forwards.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    list: &'a List,
    next_chunk: usize,
    elements: Elements<'a>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        loop {
            if let Some(element) = self.elements.next() {
                return Some(element);
            }
            self.elements = self.list.chunks.get(self.next_chunk)?.run().elements(0);
            self.next_chunk += 1;
        }
    }
}

/// Walks a list backwards.
#[derive(Clone, Debug)]
pub struct BackIter<'a> {
    list: &'a List,
    /// Chunks before the one that is walked through.
    chunks: usize,
    run: Run<'a>,
    /// Offsets of the remaining items.
    offsets: Vec<u32>,
}

impl BackIter<'_> {
    /// Enters the chunk behind the first `self.chunks`, with its first `count` items remaining.
    fn enter(&mut self, count: usize) {
        self.run = self.list.chunks[self.chunks].run();
        self.offsets = self.run.offsets(count);
    }
}

impl<'a> Iterator for BackIter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.offsets.is_empty() {
            self.chunks = self.chunks.checked_sub(1)?;
            self.enter(self.list.chunks[self.chunks].count());
        }
        let at = self.offsets.pop()?;
        Some(self.run.at(at as usize))
    }
}
