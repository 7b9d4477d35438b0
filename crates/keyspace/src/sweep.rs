//! Periodic work, in small steps that any thread takes when it has time: removing keys whose time has passed, and
//! moving entries out of sparse slabs.

use crate::effect::Removal;
use crate::handle::Handle;
use std::sync::atomic::Ordering::Relaxed;

/// Keys removed at most under one hold of a stripe's lock.
const EXPIRED_PER_HOLD: usize = 64;

/// Result of a step.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    /// Keys with an expiry that were looked at.
    pub looked_at: usize,
    /// Of these, keys that were removed.
    pub expired: usize,
}

impl Handle {
    /// Removes expired keys from the next `stripes` stripes in turn; all threads share one round. The thread is in a
    /// batch and holds nothing.
    pub fn expire_step(&mut self, stripes: usize) -> Swept {
        let total = self.ks.stripes.len();
        let first = self.ks.sweep_at.fetch_add(stripes, Relaxed);
        let mut swept = Swept::default();
        for i in 0..stripes.min(total) {
            let stripe = ((first + i) % total) as u32;
            for db in 0..self.ks.databases {
                if self.ks.db_may_expire(db) {
                    self.expire_stripe(db, stripe, &mut swept);
                }
            }
        }
        swept
    }

    fn expire_stripe(&mut self, db: u16, stripe: u32, swept: &mut Swept) {
        let mut bucket = 0;
        loop {
            let next =
                self.with_stripe(stripe, |handle| handle.expire_buckets(db, stripe, bucket, swept));
            match next {
                Some(at) => bucket = at,
                None => return,
            }
        }
    }

    /// Returns the bucket to go on with after the lock was released once.
    fn expire_buckets(
        &mut self,
        db: u16,
        stripe: u32,
        first: usize,
        swept: &mut Swept,
    ) -> Option<usize> {
        let mut removed = 0;
        let mut at = first;
        loop {
            let table = self.stripe_at(stripe).table(db)?;
            if at >= table.buckets() || table.volatile() == 0 {
                return None;
            }
            let bucket = table.bucket(at);
            let mut found = None;
            for slot in bucket.used().map(|i| bucket.slot(i)).filter(|slot| slot.is_volatile()) {
                swept.looked_at += 1;
                if self.is_expired(slot.entry()) {
                    found = Some(slot.entry());
                    break;
                }
            }
            let Some(entry) = found else {
                at += 1;
                continue;
            };
            // Removal may move other entries into this bucket, so it is looked at again.
            let key = self.key_of(entry);
            if let Some((position, entry)) = self.find(db, key) {
                self.remove_at(db, key, position, entry, Removal::Expired);
            }
            swept.expired += 1;
            removed += 1;
            if removed == EXPIRED_PER_HOLD {
                return Some(at);
            }
        }
    }
}
