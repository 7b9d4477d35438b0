//! Reads tables without the locks of their stripes, to prefetch cache lines before they are needed.
//!
//! A replaced bucket array is freed once every thread has ended the batch it was in. Tables removed
//! by a flush are freed at once, because a flush holds the keyspace exclusively, with no other
//! thread inside. A thread that has given up waiting to enter is in a batch nevertheless, so a peek
//! requires that the thread is inside.

use crate::handle::Handle;
use crate::state::stripe::Stripe;
use crate::structures::key_hash::KeyHash;
use petrel_heap::prefetch;

/// Permission to read tables without their locks: its thread is inside, and stays inside as long as
/// this exists.
#[derive(Clone, Copy)]
pub struct Peeker<'h>(&'h Handle);

impl Handle {
    /// Permission to read tables without their locks; none if the thread is
    /// [outside](Handle::is_outside).
    #[inline]
    pub fn peeker(&self) -> Option<Peeker<'_>> {
        self.is_inside().then_some(Peeker(self))
    }
}

impl Peeker<'_> {
    /// Asks for the cache line in which a lookup of `hash` will begin.
    #[inline]
    pub fn prefetch_bucket(self, db: u16, hash: KeyHash) {
        if db == 0
            && let Some(bucket) = self.stripe(hash.stripe()).peek().home(hash)
        {
            prefetch(bucket.addr());
        }
    }

    /// Prefetches the entries that a lookup of `hash` will compare, `lines` cache lines from the
    /// beginning of each, and the readers of the key, if it is tracked.
    #[inline]
    pub fn prefetch_entry(self, db: u16, hash: KeyHash, lines: usize) {
        if db == 0 {
            let array = self.stripe(hash.stripe()).peek();
            // SAFETY: an array that was current in this batch is freed
            // after the batch has ended, or with the keyspace held exclusively, which
            // it is not while this thread is inside.
            unsafe {
                array.entries(hash, |address, is_tracked| {
                    (0..lines).for_each(|line| prefetch(address + line * 64));
                    if is_tracked {
                        self.prefetch_readers(hash);
                    }
                });
            }
        }
    }

    /// Prefetches the cache lines of a key's readers.
    #[inline]
    pub fn prefetch_readers(self, hash: KeyHash) {
        self.0.prefetch_readers(hash);
    }

    /// Whether the stripe has no key in database 0.
    pub(crate) fn is_vacant(self, stripe: u32) -> bool {
        self.stripe(stripe).peek().buckets() == 0
    }

    #[inline]
    fn stripe(&self, stripe: u32) -> &Stripe {
        &self.0.ks.stripes[stripe as usize]
    }
}
