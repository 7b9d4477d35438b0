//! An element of a large collection: a heap block of exactly the size that the element needs.
//!
//! ```text
//!  0        1           2 or 5       + 0, 1 or 4   + 0 or 8
//! +--------+-----------+------------+-------------+---------+-----------+
//! | meta   | key_len   | [val_len]  | [word]      | key     | [value]   |
//! |        | u8 / u32  | u8 / u32   | i64 / f64   |         |           |
//! +--------+-----------+------------+-------------+---------+-----------+
//! ```
//!
//! The first byte tells which fields are present, and holds the element's stamp (`dict/image.rs`).
//!
//! A set member is a key alone; a hash field has a value, and an expiry as its word only if it
//! expires; a sorted set member has its score as its word. Only the block is aligned.

use crate::structures::block::Block;
use crate::structures::bucket::{Bucket, Item};
use petrel_heap::{Cache, usable};
use std::cell::Cell;
use std::ptr;

const WORD: u8 = 0b00001;
const EXPIRY: u8 = 0b00010;
const WIDE_KEY: u8 = 0b00100;
const VALUE: u8 = 0b01000;
const WIDE_VALUE: u8 = 0b10000;
/// The element's stamp, which tells whether a snapshot has taken the element (`dict/image.rs`).
pub(crate) const STAMP: u8 = 0b10_0000;

const NARROW_MAX: usize = u8::MAX as usize;

/// A pointer to a live element.
///
/// Invariant of every method: the calling thread holds the stripe of the collection's key (or no
/// other thread can reach the element), and borrows are not used after the element is replaced or
/// freed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Element(Block);

/// Properties that determine the size and layout of an element.
#[derive(Clone, Copy)]
struct Shape {
    meta: u8,
    key_len: usize,
    val_len: usize,
}

impl Shape {
    fn new(key: &[u8], value: Option<&[u8]>, word: u8) -> Self {
        let mut meta = word;
        if key.len() > NARROW_MAX {
            meta |= WIDE_KEY;
        }
        if let Some(value) = value {
            meta |= if value.len() > NARROW_MAX { VALUE | WIDE_VALUE } else { VALUE };
        }
        Shape { meta, key_len: key.len(), val_len: value.map_or(0, <[u8]>::len) }
    }

    fn val_len_at(self) -> usize {
        if self.meta & WIDE_KEY != 0 { 5 } else { 2 }
    }

    fn word_at(self) -> usize {
        self.val_len_at()
            + match self.meta & (VALUE | WIDE_VALUE) {
                0 => 0,
                VALUE => 1,
                _ => 4,
            }
    }

    fn key_at(self) -> usize {
        self.word_at() + if self.meta & WORD != 0 { 8 } else { 0 }
    }

    fn size(self) -> usize {
        self.key_at() + self.key_len + self.val_len
    }
}

impl Element {
    /// A member of a set.
    pub fn member(cache: &mut Cache, member: &[u8]) -> Self {
        Self::build(cache, Shape::new(member, None, 0), member, &[], 0)
    }

    /// A field of a hash; expiry in Unix milliseconds.
    pub fn field(cache: &mut Cache, field: &[u8], value: &[u8], expiry: Option<i64>) -> Self {
        let word = if expiry.is_some() { WORD | EXPIRY } else { 0 };
        let shape = Shape::new(field, Some(value), word);
        Self::build(cache, shape, field, value, expiry.unwrap_or(0) as u64)
    }

    /// A member of a sorted set.
    pub fn scored(cache: &mut Cache, member: &[u8], score: f64) -> Self {
        Self::build(cache, Shape::new(member, None, WORD), member, &[], score.to_bits())
    }

    fn build(cache: &mut Cache, shape: Shape, key: &[u8], value: &[u8], word: u64) -> Self {
        let element = Element(Block::new(cache.alloc(shape.size())));
        let base = element.base();
        // SAFETY: the block is fresh and `shape.size()` bytes long; all writes lie inside by the
        // definition of `Shape`.
        unsafe {
            base.write(shape.meta);
            element.write_len(1, shape.key_len, shape.meta & WIDE_KEY != 0);
            if shape.meta & VALUE != 0 {
                let wide = shape.meta & WIDE_VALUE != 0;
                element.write_len(shape.val_len_at(), shape.val_len, wide);
            }
            if shape.meta & WORD != 0 {
                base.add(shape.word_at()).cast::<u64>().write_unaligned(word);
            }
            let key_at = shape.key_at();
            ptr::copy_nonoverlapping(key.as_ptr(), base.add(key_at), key.len());
            ptr::copy_nonoverlapping(value.as_ptr(), base.add(key_at + key.len()), value.len());
        }
        element
    }

    /// A copy in a block of its own.
    pub fn duplicate(self, cache: &mut Cache) -> Self {
        let size = self.shape().size();
        let new = Element(Block::new(cache.alloc(size)));
        // SAFETY: two distinct blocks of at least `size` bytes.
        unsafe { ptr::copy_nonoverlapping(self.base(), new.base(), size) };
        new
    }

    /// Frees the block.
    pub fn release(self, cache: &mut Cache) {
        // SAFETY: the block came from this heap with this size, and its only pointer is dropped
        // here.
        unsafe { cache.free(self.0.get(), self.shape().size()) };
    }

    /// The value of a field, empty for other elements.
    pub fn value<'a>(self) -> &'a [u8] {
        self.texts().1
    }

    /// The key, followed by the value.
    #[inline(always)]
    fn texts<'a>(self) -> (&'a [u8], &'a [u8]) {
        let shape = self.shape();
        // SAFETY: both lie from `key_at` on, initialised and so long; see the type's invariant for
        // the lifetime.
        unsafe {
            let key = self.base().add(shape.key_at());
            let value = key.add(shape.key_len);
            (
                std::slice::from_raw_parts(key, shape.key_len),
                std::slice::from_raw_parts(value, shape.val_len),
            )
        }
    }

    /// Overwrites the value of a field in place if the new one fits the same block; false if not.
    pub fn overwrite(self, value: &[u8]) -> bool {
        let shape = self.shape();
        let fitting = Shape::new(self.key(), Some(value), shape.meta & (WORD | EXPIRY));
        if fitting.meta != shape.meta || usable(fitting.size()) != usable(shape.size()) {
            return false;
        }
        // SAFETY: the layout before the value is the same, and the new size fits the block.
        unsafe {
            self.write_len(shape.val_len_at(), value.len(), shape.meta & WIDE_VALUE != 0);
            let at = self.base().add(shape.key_at() + shape.key_len);
            ptr::copy_nonoverlapping(value.as_ptr(), at, value.len());
        }
        true
    }

    /// Expiry of a field as Unix time in milliseconds.
    pub fn expiry(self) -> Option<i64> {
        self.has_expiry().then(|| self.word() as i64)
    }

    /// Changes the expiry of a field that has one.
    pub fn set_expiry(self, at: i64) {
        debug_assert!(self.has_expiry());
        self.set_word(at as u64);
    }

    /// Score of a member of a sorted set.
    #[inline]
    pub fn score(self) -> f64 {
        f64::from_bits(self.word())
    }

    /// Changes the score.
    pub fn set_score(self, score: f64) {
        self.set_word(score.to_bits());
    }

    /// The stamp.
    #[inline]
    pub fn stamp(self) -> u8 {
        self.meta().get() & STAMP
    }

    /// Sets the element's stamp.
    #[inline]
    pub fn set_stamp(self, stamp: u8) {
        self.meta().set(self.meta().get() & !STAMP | stamp);
    }

    /// Bytes of the element's block, rounded as the heap rounds.
    pub fn footprint(self) -> usize {
        usable(self.shape().size())
    }

    #[inline]
    fn has_expiry(self) -> bool {
        self.meta().get() & EXPIRY != 0
    }

    /// The first byte.
    #[inline]
    fn meta<'a>(self) -> &'a Cell<u8> {
        // SAFETY: every block begins with it, initialised; see the type's invariant for the
        // lifetime.
        unsafe { self.0.get().cast().as_ref() }
    }

    #[inline]
    fn word(self) -> u64 {
        let shape = self.shape();
        debug_assert!(shape.meta & WORD != 0);
        // SAFETY: the word exists when the flag is set.
        unsafe { self.base().add(shape.word_at()).cast::<u64>().read_unaligned() }
    }

    fn set_word(self, word: u64) {
        let shape = self.shape();
        debug_assert!(shape.meta & WORD != 0);
        // SAFETY: as above.
        unsafe { self.base().add(shape.word_at()).cast::<u64>().write_unaligned(word) };
    }

    #[inline]
    fn shape(self) -> Shape {
        let meta = self.meta().get() & !STAMP;
        let len = |at: usize, wide: bool| -> usize {
            let at = self.base().wrapping_add(at);
            // SAFETY: `build` wrote a length of that width if the first byte says so.
            unsafe {
                if wide { at.cast::<u32>().read_unaligned() as usize } else { at.read().into() }
            }
        };
        let mut shape = Shape { meta, key_len: len(1, meta & WIDE_KEY != 0), val_len: 0 };
        if meta & VALUE != 0 {
            shape.val_len = len(shape.val_len_at(), meta & WIDE_VALUE != 0);
        }
        shape
    }

    /// # Safety
    /// There is room for a length of that width at `at`, and `len` fits it.
    unsafe fn write_len(self, at: usize, len: usize, wide: bool) {
        // SAFETY: by the contract.
        unsafe {
            let at = self.base().add(at);
            if wide { at.cast::<u32>().write_unaligned(len as u32) } else { at.write(len as u8) }
        }
    }

    fn base(self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Item for Element {
    type Line = Bucket;

    #[inline]
    unsafe fn from_slot(block: Block, _: bool) -> Self {
        Element(block)
    }

    #[inline]
    fn address(self) -> usize {
        self.0.address()
    }

    #[inline]
    fn key<'a>(self) -> &'a [u8] {
        self.texts().0
    }

    #[inline]
    fn flag(self) -> bool {
        self.has_expiry()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_heap::Heap;

    #[test]
    fn every_shape_reads_back() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        for key_len in [0, 1, 14, 255, 256, 70_000] {
            let key = vec![b'k'; key_len];
            let member = Element::member(&mut cache, &key);
            assert_eq!((member.key(), member.value()), (&key[..], &[][..]));
            let scored = Element::scored(&mut cache, &key, -0.5);
            scored.set_score(scored.score() * 2.0);
            assert_eq!((scored.key(), scored.score()), (&key[..], -1.0));
            assert!(!scored.has_expiry());
            for val_len in [0, 1, 255, 256, 5_000] {
                let value = vec![b'v'; val_len];
                for expiry in [None, Some(77)] {
                    let field = Element::field(&mut cache, &key, &value, expiry);
                    let copy = field.duplicate(&mut cache);
                    field.release(&mut cache);
                    assert_eq!((copy.key(), copy.value()), (&key[..], &value[..]));
                    assert_eq!(copy.expiry(), expiry);
                    copy.release(&mut cache);
                }
            }
            member.release(&mut cache);
            scored.release(&mut cache);
        }
    }

    #[test]
    fn small_members_waste_nothing() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let member = Element::member(&mut cache, b"member:0000001");
        assert_eq!(member.footprint(), 16);
        let scored = Element::scored(&mut cache, b"member:0000001", 1.0);
        assert_eq!(scored.footprint(), 24);
        member.release(&mut cache);
        scored.release(&mut cache);
    }

    #[test]
    fn values_are_overwritten_only_within_their_block() {
        let heap = Heap::new();
        let mut cache = heap.cache();
        let field = Element::field(&mut cache, b"f", b"12345678", Some(5));
        assert!(field.overwrite(b"abcdef"));
        assert_eq!((field.value(), field.expiry()), (&b"abcdef"[..], Some(5)));
        assert!(!field.overwrite(&[0; 64]));
        assert_eq!(field.value(), b"abcdef");
        field.release(&mut cache);
    }
}
