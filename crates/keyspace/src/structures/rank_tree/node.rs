//! Nodes of the rank tree: blocks of the heap, and the arrays in them.

use crate::structures::block::Block;
use petrel_heap::Cache;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Maximum number of items of a leaf.
pub const LEAF_MAX: usize = 64;
/// Maximum number of children of an inner node.
pub const INNER_MAX: usize = 32;

/// Item of a tree: eight bytes that refer to a score, and to anything else that decides the order.
pub trait Scored: Copy {
    /// The score; never NaN, and unchanged while the item is in a tree.
    fn score(self) -> f64;
}

/// A short array that does not drop its items.
pub struct Slots<S, const MAX: usize> {
    len: u32,
    slots: [MaybeUninit<S>; MAX],
}

/// The items of a leaf, in order.
pub type Leaf<T> = Slots<T, LEAF_MAX>;
/// The children of an inner node, in order.
pub type Inner<T> = Slots<Child<T>, INNER_MAX>;

/// Summary of a child in an inner node, readable without the child.
pub struct Child<T> {
    /// Score of the first item.
    pub score: f64,
    /// First item below.
    pub first: T,
    /// Number of items below.
    pub count: usize,
    pub node: Node<T>,
}

/// The only pointer to a node: the low bit of the address distinguishes a leaf from an inner node.
/// With the bit set the [`Block`] points at the second byte of the node, and is only used without
/// it. Forgetting it leaks.
pub struct Node<T> {
    tagged: Block,
    _owns: PhantomData<Leaf<T>>,
}

/// A borrowed node.
pub enum NodeRef<'a, T> {
    Leaf(&'a Leaf<T>),
    Inner(&'a Inner<T>),
}

/// A mutably borrowed node.
pub enum NodeMut<'a, T> {
    Leaf(&'a mut Leaf<T>),
    Inner(&'a mut Inner<T>),
}

const INNER: usize = 1;

impl<T> Node<T> {
    pub fn leaf(cache: &mut Cache) -> Self {
        Node { tagged: Block::new(Leaf::<T>::empty(cache)), _owns: PhantomData }
    }

    pub fn inner(cache: &mut Cache) -> Self {
        let block = Inner::<T>::empty(cache);
        let tagged = Block::new(block.map_addr(|address| address | INNER));
        Node { tagged, _owns: PhantomData }
    }

    #[inline]
    pub fn kind(&self) -> NodeRef<'_, T> {
        let block = self.block();
        // SAFETY: the tag tells whether `leaf` or `inner` created it; the block lives until `free`
        // takes the node.
        unsafe {
            if self.is_inner() {
                NodeRef::Inner(block.cast().as_ref())
            } else {
                NodeRef::Leaf(block.cast().as_ref())
            }
        }
    }

    #[inline]
    pub fn kind_mut(&mut self) -> NodeMut<'_, T> {
        let block = self.block();
        // SAFETY: as above, and `self` is the only pointer.
        unsafe {
            if self.is_inner() {
                NodeMut::Inner(block.cast().as_mut())
            } else {
                NodeMut::Leaf(block.cast().as_mut())
            }
        }
    }

    /// Bytes of the node's block.
    pub fn size(&self) -> usize {
        if self.is_inner() { size_of::<Inner<T>>() } else { size_of::<Leaf<T>>() }
    }

    #[allow(dead_code)]
    /// Address of the node's block.
    pub fn address(&self) -> usize {
        self.block().addr().get()
    }

    #[allow(dead_code)]
    /// Moves the node to a fresh block.
    pub fn relocate(&mut self, cache: &mut Cache) {
        let size = self.size();
        let (old, new) = (self.block(), cache.alloc(size));
        // SAFETY: two distinct blocks of `size` bytes; the old one is freed once, and not used any
        // more.
        unsafe {
            ptr::copy_nonoverlapping(old.as_ptr(), new.as_ptr(), size);
            cache.free(old, size);
        }
        let tag = self.tagged.get().addr().get() & INNER;
        self.tagged = Block::new(new.map_addr(|address| address | tag));
    }

    /// Frees the block without dropping its items: they were moved out or need no drop.
    pub fn free(self, cache: &mut Cache) {
        // SAFETY: the block came from this heap with this size, and its only pointer is dropped
        // here.
        unsafe { cache.free(self.block(), self.size()) };
    }

    #[inline]
    fn is_inner(&self) -> bool {
        self.tagged.get().addr().get() & INNER != 0
    }

    #[inline]
    fn block(&self) -> NonNull<u8> {
        let block = self.tagged.as_ptr().map_addr(|address| address & !INNER);
        // SAFETY: without its tag the pointer is that of a block, so not null.
        unsafe { NonNull::new_unchecked(block) }
    }
}

impl<S, const MAX: usize> Slots<S, MAX> {
    /// A block with an empty array.
    fn empty(cache: &mut Cache) -> NonNull<u8> {
        const { assert!(align_of::<Self>() <= 8) };
        let block = cache.alloc(size_of::<Self>());
        // SAFETY: the block is fresh, large enough and aligned to 8; an array of length 0 has no
        // initialised slots.
        unsafe { (&raw mut (*block.cast::<Self>().as_ptr()).len).write(0) };
        block
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == MAX
    }

    #[inline]
    pub fn as_slice(&self) -> &[S] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), self.len()) }
    }

    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [S] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast(), self.len()) }
    }

    /// Inserts `slot` before the one at `at`. There is room.
    #[inline]
    pub fn insert(&mut self, at: usize, slot: S) {
        let len = self.len();
        assert!(at <= len && len < MAX);
        let base = self.slots.as_mut_ptr();
        // SAFETY: `at ..= len` lies inside the array by the assertion.
        unsafe { ptr::copy(base.add(at), base.add(at + 1), len - at) };
        self.slots[at].write(slot);
        self.len += 1;
    }

    pub fn push(&mut self, slot: S) {
        self.insert(self.len(), slot);
    }

    #[inline]
    pub fn remove(&mut self, at: usize) -> S {
        let len = self.len();
        assert!(at < len);
        let base = self.slots.as_mut_ptr();
        // SAFETY: `at` is initialised, and its bytes are overwritten or beyond the length
        // afterwards.
        unsafe {
            let slot = base.add(at).read().assume_init();
            ptr::copy(base.add(at + 1), base.add(at), len - at - 1);
            self.len -= 1;
            slot
        }
    }

    /// Discards `n` slots from `at` on.
    pub fn discard(&mut self, at: usize, n: usize) {
        let len = self.len();
        assert!(n <= len && at <= len - n);
        self.slots[at..len].rotate_left(n);
        self.len -= n as u32;
    }

    /// Moves the last `n` slots to the front of `right`. There is room.
    pub fn shift_right(&mut self, n: usize, right: &mut Self) {
        let (len, there) = (self.len(), right.len());
        assert!(n <= len && n <= MAX - there);
        right.slots[..there + n].rotate_right(n);
        right.slots[..n].swap_with_slice(&mut self.slots[len - n..len]);
        self.len -= n as u32;
        right.len += n as u32;
    }

    /// Moves the first `n` slots of `right` to the end. There is room.
    pub fn shift_left(&mut self, n: usize, right: &mut Self) {
        let (len, there) = (self.len(), right.len());
        assert!(n <= there && n <= MAX - len);
        self.slots[len..len + n].swap_with_slice(&mut right.slots[..n]);
        right.slots[..there].rotate_left(n);
        self.len += n as u32;
        right.len -= n as u32;
    }
}
