//! A block of memory, as a pointer.

use std::ptr::{self, NonNull};

/// A pointer to a block at a multiple of 8, or to a byte within its first 8 if the type with the
/// pointer keeps a tag in the low bits. That type also defines the permitted uses of the block, and
/// by which thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct Block(NonNull<u8>);

// SAFETY: a pointer alone gives no access to its target.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    #[inline]
    pub fn new(block: NonNull<u8>) -> Self {
        Block(block)
    }

    /// The block at an address.
    ///
    /// # Safety
    /// `address` was obtained from [`Block::address`].
    #[inline]
    pub unsafe fn at(address: usize) -> Self {
        debug_assert!(address != 0 && address.is_multiple_of(8));
        // SAFETY: by the contract the address is that of a block, so not null.
        Block(unsafe { NonNull::new_unchecked(ptr::with_exposed_provenance_mut(address)) })
    }

    /// The address without the tag, a multiple of 8.
    #[inline]
    pub fn address(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    #[inline]
    pub fn get(self) -> NonNull<u8> {
        self.0
    }

    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }
}
