//! Active expiry: removes expired keys that no client reads, in small steps taken periodically by
//! every worker.
//!
//! The stripes form one ring for all threads; each thread claims the next stripe when it has
//! finished its own. Slots tell which entries have an expiry, so keys without one are never read. A
//! step checks a fixed number of keys, and continues within its budget while many of them turn out
//! to be expired.

use crate::handle::Handle;
use crate::state::effect::Removal;
use crate::state::upkeep::SweepPlace;
use crate::structures::bucket::Item;
use crate::structures::entry::Entry;
use petrel_heap::prefetch;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Number of keys with an expiry after which a step tests whether to continue.
const QUOTA: usize = 1000;
/// A step continues past its quota if one in this many keys of the latest quota was expired.
const WORTHWHILE_SHARE: usize = 10;
/// Limits under one hold of a stripe's lock, about ten microseconds: buckets checked, and keys and
/// fields removed.
const BUCKETS_PER_HOLD: usize = 64;
const EXPIRED_PER_HOLD: usize = 64;
/// Distance in buckets at which keys with an expiry are prefetched.
const BUCKETS_AHEAD: usize = 3;

/// Result of a step.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    /// Number of keys with an expiry that were checked.
    pub looked_at: usize,
    /// Number of keys removed.
    pub expired: usize,
}

impl Handle {
    /// Removes expired keys for about `budget` at most; returns early if few are expired. The
    /// thread is in a batch and holds nothing.
    pub fn expire_step(&mut self, budget: Duration) -> Swept {
        let mut swept = Swept::default();
        if self.holds_expired() || !self.any_volatile() {
            return swept;
        }
        let start = Instant::now();
        let mut stripes_left = self.ks.stripes.len();
        let mut quota = Swept::default();
        loop {
            let place = match self.upkeep.sweep_place.take() {
                Some(place) => place,
                None if stripes_left == 0 => break,
                None => {
                    stripes_left -= 1;
                    self.claim_stripe()
                }
            };
            let sweep = |handle: &mut Self| handle.expire_buckets(place, &mut quota);
            self.upkeep.sweep_place = self.with_stripe_soon(place.stripe, sweep).flatten();
            if quota.looked_at >= QUOTA {
                let worthwhile = quota.expired * WORTHWHILE_SHARE >= quota.looked_at;
                swept.add(&mut quota);
                if !worthwhile {
                    break;
                }
            }
            if start.elapsed() >= budget || self.should_yield() {
                break;
            }
        }
        swept.add(&mut quota);
        swept
    }

    /// Whether any database has keys, or fields, with an expiry.
    fn any_volatile(&mut self) -> bool {
        let threads = self.upkeep.threads.get(&self.ks);
        (0..usize::from(self.ks.databases)).any(|db| {
            let dbs = threads.iter().map(|thread| &thread.dbs[db]);
            dbs.map(|db| db.volatile.get() + db.expiring.get()).sum::<i64>() > 0
        })
    }

    /// Whether fields of a hash may have expired.
    fn has_expired_fields(&self, entry: Entry) -> bool {
        entry.elements_expire() && entry.earliest_field_expiry() <= self.now_ms
    }

    fn claim_stripe(&self) -> SweepPlace {
        let turn = self.ks.sweep_at.fetch_add(1, Relaxed);
        SweepPlace { stripe: (turn % self.ks.stripes.len()) as u32, db: 0, bucket: 0 }
    }

    /// Works on a claimed stripe, which is held; returns the next position if the lock should be
    /// released before it continues.
    fn expire_buckets(&mut self, mut place: SweepPlace, swept: &mut Swept) -> Option<SweepPlace> {
        let (mut looked, mut removed, mut ahead) = (0, 0, place.bucket);
        while place.db < self.ks.databases {
            let table = self.stripe_at(place.stripe).table(place.db);
            let Some(table) =
                table.filter(|table| table.flagged() > 0 && place.bucket < table.buckets())
            else {
                place = SweepPlace { db: place.db + 1, bucket: 0, ..place };
                ahead = 0;
                continue;
            };
            if looked == BUCKETS_PER_HOLD || removed == EXPIRED_PER_HOLD {
                return Some(place);
            }
            while ahead < table.buckets().min(place.bucket + BUCKETS_AHEAD) {
                let bucket = table.bucket(ahead);
                let slots = bucket.used().map(|i| bucket.slot(i)).filter(|slot| slot.flag());
                slots.for_each(|slot| prefetch(slot.address()));
                ahead += 1;
            }
            let bucket = table.bucket(place.bucket);
            let volatile = bucket.used().map(|i| bucket.slot(i)).filter(|slot| slot.flag());
            let mut seen = 0;
            let expired = volatile
                .inspect(|_| seen += 1)
                .map(|slot| slot.item::<Entry>())
                .filter(|entry| self.is_expired(*entry) || self.has_expired_fields(*entry))
                .find(|entry| !self.is_elsewhere(entry.key()));
            swept.looked_at += seen;
            let Some(entry) = expired else {
                place.bucket += 1;
                looked += 1;
                continue;
            };
            // Removal may move other entries into this bucket, so it is checked again.
            let key = self.key_of(entry);
            if let Some((position, entry)) = self.find(place.db, key) {
                if self.is_expired(entry) {
                    self.remove_at(place.db, key, position, entry, Removal::Expired);
                    self.counters.expired_active.add(1);
                    removed += 1;
                } else {
                    let budget = EXPIRED_PER_HOLD - removed;
                    let fields = self.expire_fields(place.db, key, (position, entry), budget);
                    self.counters.expired_fields_active.add(fields as i64);
                    removed += fields.max(1);
                }
            }
            swept.expired += 1;
        }
        None
    }
}

impl Swept {
    /// Adds the counts of `other`, and resets them.
    fn add(&mut self, other: &mut Swept) {
        self.looked_at += other.looked_at;
        self.expired += other.expired;
        *other = Swept::default();
    }
}
