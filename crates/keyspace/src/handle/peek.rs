//! Reads tables without the locks of their stripes, to prefetch cache lines before they are needed.
//!
//! A replaced bucket array is freed once every thread has ended the batch it was in. Tables removed
//! by a flush are freed at once, because a flush holds the keyspace exclusively, with no other
//! thread inside. A thread that has given up waiting to enter is in a batch nevertheless, so a peek
//! requires that the thread is inside.

use crate::handle::Handle;
use crate::state::stripe::Stripe;
use crate::structures::bucket::Bucket;
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

impl<'h> Peeker<'h> {
    /// Asks for the cache line in which a lookup of `hash` will begin.
    #[inline]
    pub fn prefetch_bucket(self, db: u16, hash: KeyHash) {
        if db == 0 {
            self.prefetch_bucket_of(hash.stripe(), hash.position());
        }
    }

    /// Prefetches the entries that a lookup of `hash` will compare, `lines` cache lines from the
    /// beginning of each, and the readers of the key, if it is tracked.
    #[inline]
    pub fn prefetch_entry(self, db: u16, hash: KeyHash, lines: usize) {
        if db == 0
            && let Some(bucket) = self.bucket_of(hash.stripe(), hash.position())
        {
            for slot in bucket.matches(hash.tag()) {
                let address = bucket.slot(slot).address();
                (0..lines).for_each(|line| prefetch(address + line * 64));
                if bucket.is_marked(slot) {
                    self.prefetch_readers(hash);
                }
            }
        }
    }

    /// Prefetches the cache lines of a key's readers.
    #[inline]
    pub fn prefetch_readers(self, hash: KeyHash) {
        self.0.prefetch_readers(hash);
    }

    /// Asks for the bucket of database 0 that is home to a position of a stripe.
    #[inline]
    pub(crate) fn prefetch_bucket_of(self, stripe: u32, position: u32) {
        if let Some(bucket) = self.stripe(stripe).peek().home(position) {
            prefetch(bucket.addr());
        }
    }

    /// Asks for the first line of each entry in that bucket, or of each in a flagged slot.
    #[inline]
    pub(crate) fn prefetch_entries_of(self, stripe: u32, position: u32, flagged: bool) {
        let Some(bucket) = self.bucket_of(stripe, position) else { return };
        let slots = bucket.used().map(|i| bucket.slot(i));
        slots.filter(|slot| slot.flag() || !flagged).for_each(|slot| prefetch(slot.address()));
    }

    #[inline]
    fn bucket_of(self, stripe: u32, position: u32) -> Option<&'h Bucket> {
        // SAFETY: an array that was current in this batch is freed after the batch has ended, or
        // with the keyspace held exclusively, which it is not while this thread is inside.
        unsafe { self.stripe(stripe).peek().bucket_of(position) }
    }

    /// Whether the stripe has no key in database 0.
    pub(crate) fn is_vacant(self, stripe: u32) -> bool {
        self.stripe(stripe).peek().buckets() == 0
    }

    /// Whether the stripe has no entry in database 0 that expires, or has fields that do.
    pub(crate) fn has_none_expiring(self, stripe: u32) -> bool {
        self.stripe(stripe).peek_expiring() == 0
    }

    #[inline]
    fn stripe(&self, stripe: u32) -> &Stripe {
        &self.0.ks.stripes[stripe as usize]
    }
}
