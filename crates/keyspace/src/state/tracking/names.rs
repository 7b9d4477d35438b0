//! Names of tracked keys of one stripe that are not in database 0: consecutive records, each at a
//! multiple of eight.
//!
//! ```text
//!  0          4
//! +----------+--------------+
//! | len: u32 | name         |
//! +----------+--------------+
//! ```
//!
//! A removed record leaves a hole, which the next name of the same length reuses if all holes have
//! one length. When most of the memory is holes, the owner moves the rest to new memory.

use crate::structures::block::Block;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

const NAME_AT: usize = 4;

/// Size of a chunk in words: half of the present total, within these limits, but at least one
/// record.
const CHUNK_WORDS_MIN: usize = 64;
const CHUNK_WORDS_MAX: usize = 8192;

/// A record of a live name. The user holds the stripe and does not use borrows from the record
/// after its removal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Name(Block);

impl Name {
    /// Makes a name of a record's block.
    ///
    /// # Safety
    /// The block holds a record that was not removed.
    #[inline]
    pub unsafe fn of(block: Block) -> Self {
        Name(block)
    }

    /// Address of the record, a multiple of 8.
    #[inline]
    pub fn address(self) -> usize {
        self.0.address()
    }

    /// The name; valid until the record is removed.
    #[inline]
    pub fn key<'a>(self) -> &'a [u8] {
        // SAFETY: the record was written by `Names::add`; see the type for the lifetime.
        unsafe {
            let len = self.0.as_ptr().cast::<u32>().read() as usize;
            std::slice::from_raw_parts(self.0.as_ptr().add(NAME_AT), len)
        }
    }

    /// Bytes that the record takes.
    pub fn footprint(self) -> usize {
        words_of(self.key().len()) * 8
    }
}

/// The records. The fields changed by a removal are here: they share a cache line with the stripe's
/// table.
#[derive(Default)]
pub(super) struct Names {
    memory: Option<Box<Memory>>,
    /// The hole left last. Its first word is the address of the previous hole; all are of one
    /// length.
    hole: Option<Block>,
    /// Words of live records.
    live: usize,
    /// Words of all chunks, saturating.
    words: u32,
    hole_words: u32,
}

/// The chunks that hold the records.
#[derive(Default)]
struct Memory {
    /// The last chunk is being filled.
    chunks: Vec<Chunk>,
    /// Words of the last chunk in use.
    taken: usize,
}

impl Memory {
    /// Takes `words` unused words from the last chunk, if it has that many left.
    fn take(&mut self, words: usize) -> Option<NonNull<u8>> {
        let chunk = self.chunks.last().filter(|chunk| chunk.words - self.taken >= words)?;
        // SAFETY: the chunk has `words` free words after `taken`.
        let record = unsafe { chunk.base.get().cast::<u64>().add(self.taken) };
        self.taken += words;
        Some(record.cast())
    }
}

/// Uninitialised memory of `words` words, behind the pointer through which records are accessed.
struct Chunk {
    base: Block,
    words: usize,
}

impl Chunk {
    fn new(words: usize) -> Self {
        let mut memory = ManuallyDrop::new(Vec::<u64>::with_capacity(words));
        let words = memory.capacity();
        // A vector's pointer is never null.
        let base = NonNull::new(memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Chunk { base: Block::new(base.cast()), words }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: these are the parts of the vector that `new` created, which has no elements.
        drop(unsafe { Vec::<u64>::from_raw_parts(self.base.as_ptr().cast(), 0, self.words) });
    }
}

impl Names {
    /// Memory for records of `words` words in total.
    fn with_words(words: usize) -> Self {
        let mut names = Names::default();
        names.add_chunk(words);
        names
    }

    /// Whether the holes should be closed before another name of this length is added.
    #[inline]
    pub fn is_full(&self, len: usize) -> bool {
        let words = words_of(len);
        let is_sparse = self.live * 2 < self.words as usize;
        is_sparse && self.find_hole(words).is_none() && self.room() < words
    }

    /// Unused words of the last chunk.
    fn room(&self) -> usize {
        let memory = self.memory.as_ref();
        let last = memory.and_then(|memory| Some(memory.chunks.last()?.words - memory.taken));
        last.unwrap_or(0)
    }

    fn find_hole(&self, words: usize) -> Option<NonNull<u8>> {
        self.hole.filter(|_| self.hole_words as usize == words).map(Block::get)
    }

    fn add_chunk(&mut self, words: usize) {
        let chunk = Chunk::new(words);
        self.words = self.words.saturating_add(u32::try_from(chunk.words).unwrap_or(u32::MAX));
        let memory = self.memory.get_or_insert_default();
        memory.taken = 0;
        memory.chunks.push(chunk);
    }

    /// Adds a name.
    pub fn add(&mut self, name: &[u8]) -> Name {
        let words = words_of(name.len());
        let record = match self.find_hole(words) {
            Some(hole) => {
                // SAFETY: a hole has at least a word, at a multiple of eight, and `remove` wrote
                // the address into it.
                let before = unsafe { hole.cast::<usize>().read() };
                self.hole = NonNull::new(ptr::with_exposed_provenance_mut(before)).map(Block::new);
                hole
            }
            None => self.take_words(words),
        };
        self.live += words;
        // SAFETY: the record has at least the words that this name needs: its parts are written
        // inside, the length at a multiple of four.
        unsafe {
            record.cast::<u32>().write(name.len() as u32);
            ptr::copy_nonoverlapping(name.as_ptr(), record.add(NAME_AT).as_ptr(), name.len());
        }
        Name(Block::new(record))
    }

    /// Takes unused memory.
    fn take_words(&mut self, words: usize) -> NonNull<u8> {
        if let Some(record) = self.memory.as_mut().and_then(|memory| memory.take(words)) {
            return record;
        }
        let half = self.words as usize / 2;
        self.add_chunk(half.clamp(CHUNK_WORDS_MIN, CHUNK_WORDS_MAX).max(words));
        let memory = self.memory.as_mut();
        memory.and_then(|memory| memory.take(words)).expect("a chunk with room was added")
    }

    /// Removes a name. True if nearly all of the memory is holes now.
    #[inline]
    pub fn remove(&mut self, name: Name) -> bool {
        let words = words_of(name.key().len());
        self.live -= words;
        if self.hole.is_none() || self.hole_words as usize == words {
            let before = self.hole.map_or(0, Block::address);
            // SAFETY: a record takes at least a word, at a multiple of eight, and no thread reads
            // this one as a name any more.
            unsafe { name.0.get().cast::<usize>().write(before) };
            // A name's length fits 32 bits, so the number of its words does too.
            (self.hole, self.hole_words) = (Some(name.0), words as u32);
        }
        let all = self.words as usize;
        all > CHUNK_WORDS_MIN && self.live * 8 < all
    }

    /// Memory with room for the live names.
    pub fn room_for_rest(&self) -> Names {
        if self.live == 0 { Names::default() } else { Names::with_words(self.live) }
    }
}

/// Words of a record with a name of `len` bytes.
#[inline]
fn words_of(len: usize) -> usize {
    (NAME_AT + len).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_lengths_read_back_and_holes_are_noticed() {
        let mut names = Names::default();
        let text = |n: usize| vec![n as u8; n * 7 % 300];
        let all: Vec<Name> = (0..1000).map(|n| names.add(&text(n))).collect();
        let large = names.add(&vec![b'x'; 4 << 20]);
        for (n, name) in all.iter().enumerate() {
            // SAFETY: no record was removed.
            let same = unsafe { Name::of(Block::at(name.address())) };
            assert_eq!((name.key(), same), (&text(n)[..], *name));
            assert!(name.address() % 8 == 0);
        }
        assert!(names.remove(large), "most of it was the large one");
        assert!(all.iter().enumerate().all(|(n, name)| name.key() == text(n)));
        let mut rest = names.room_for_rest();
        let moved: Vec<Name> = all.iter().map(|old| rest.add(old.key())).collect();
        assert_eq!((rest.memory.as_ref().unwrap().chunks.len(), rest.live), (1, names.live));
        assert!(moved.iter().zip(&all).all(|(new, old)| new.key() == old.key() && new != old));
        let is_most = moved[..500].iter().map(|&name| rest.remove(name));
        assert!(!is_most.reduce(|a, b| a | b).unwrap());
        assert!(moved[500..].iter().any(|&name| rest.remove(name)));
    }

    #[test]
    fn holes_are_taken_by_names_of_their_length() {
        let mut names = Names::default();
        let text = |n: usize, round: usize| format!("key:{round:04}{n:08}").into_bytes();
        let all: Vec<Name> = (0..100).map(|n| names.add(&text(n, 0))).collect();
        let words = names.words;
        for round in 1..10 {
            all[10..].iter().for_each(|&name| _ = names.remove(name));
            let again: Vec<Name> = (10..100).map(|n| names.add(&text(n, round))).collect();
            assert_eq!((names.words, names.live), (words, 100 * words_of(16)));
            assert!(again.iter().zip(10..).all(|(name, n)| name.key() == text(n, round)));
            assert!(again.iter().rev().eq(&all[10..]) || again.iter().eq(&all[10..]));
        }
        assert!(all[..10].iter().zip(0..).all(|(name, n)| name.key() == text(n, 0)));
        // Of another length: none of them fits.
        all.iter().for_each(|&name| _ = names.remove(name));
        assert!(names.is_full(10_000) && !names.is_full(16));
    }
}
