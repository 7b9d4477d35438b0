//! Scans of the keys: `SCAN`, `KEYS`, `RANDOMKEY`.
//!
//! A cursor is a position in the order of hashes, so it stays valid after any table has grown or
//! shrunk, and needs no state: every key present from the first to the last call is seen exactly
//! once.

use crate::handle::Handle;
use crate::state::effect::Removal;
use crate::structures::bucket::{Item, SLOTS};
use crate::structures::entry::Entry;
use crate::structures::key_hash::Key;
use crate::structures::view::View;
use crate::structures::walk::first_position;
use crate::structures::walk::homed;
use petrel_lock::{Forever, Patience};
use std::cell::OnceCell;
use std::time::{Duration, Instant};

/// Time that upkeep waits for a stripe.
const SOON: Duration = Duration::from_millis(2);

/// Position of a scan: the stripe in the high 32 bits, the position inside it in the low; 0 is both
/// the beginning and the end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cursor(u64);

impl Cursor {
    /// Cursor from a number sent by a client.
    pub fn from_number(number: u64) -> Self {
        Cursor(number)
    }

    /// The number for the client; 0 at the end of the scan.
    pub fn number(self) -> u64 {
        self.0
    }

    fn new(stripe: u32, position: u32) -> Self {
        Cursor(u64::from(stripe) << 32 | u64::from(position))
    }

    fn stripe(self) -> u64 {
        self.0 >> 32
    }

    fn position(self) -> u32 {
        self.0 as u32
    }
}

impl Handle {
    /// Passes the keys from the cursor on to `each`, whole buckets at a time, until `count` were
    /// passed or none is left. Returns the next cursor. Expired keys are skipped.
    ///
    /// Stripes are locked one after another unless the thread holds the keyspace already.
    pub fn scan(
        &mut self,
        db: u16,
        cursor: Cursor,
        count: usize,
        each: impl FnMut(View<'_>),
    ) -> Cursor {
        self.scan_removing(db, cursor, count, &|_| true, each)
    }

    /// Like [`Handle::scan`], but removes expired keys only if they are `removable`.
    pub fn scan_removing(
        &mut self,
        db: u16,
        cursor: Cursor,
        count: usize,
        removable: &dyn Fn(&View<'_>) -> bool,
        each: impl FnMut(View<'_>),
    ) -> Cursor {
        self.scan_unless(db, cursor, count, removable, each, Forever).unwrap_or_default()
    }

    /// Like [`Handle::scan_removing`], but returns none once `give_up` returns true during the wait
    /// for a stripe.
    pub fn scan_unless(
        &mut self,
        db: u16,
        cursor: Cursor,
        count: usize,
        removable: &dyn Fn(&View<'_>) -> bool,
        mut each: impl FnMut(View<'_>),
        give_up: impl Patience + Copy,
    ) -> Option<Cursor> {
        let stripes = self.ks.stripes.len() as u64;
        let mut position = cursor.position();
        let mut seen = 0;
        let mut stripe = cursor.stripe();
        while stripe < stripes {
            if db == 0 && self.is_vacant(stripe as u32) {
                position = 0;
                stripe += 1;
                continue;
            }
            let next = self.with_stripe_unless(stripe as u32, give_up, |handle| {
                let (from, count) = ((db, stripe as u32, position), count - seen);
                handle.scan_stripe(from, count, removable, &mut |view| {
                    seen += 1;
                    each(view);
                })
            })?;
            if let Some(position) = next {
                return Some(Cursor::new(stripe as u32, position));
            }
            position = 0;
            stripe += 1;
            if seen >= count {
                break;
            }
        }
        Some(if stripe >= stripes { Cursor::default() } else { Cursor::new(stripe as u32, 0) })
    }

    /// Total number of slots in the tables of a database.
    pub fn table_slots(&mut self, db: u16) -> usize {
        let stripes = 0..self.ks.stripes.len() as u32;
        let slots = stripes.map(|stripe| {
            let buckets = |handle: &mut Self| {
                handle.stripe_at(stripe).table(db).map_or(0, |table| table.buckets())
            };
            self.with_stripe(stripe, buckets) * SLOTS
        });
        slots.sum()
    }

    /// A key drawn at random, or none if the database is empty. While expired keys are
    /// [kept](crate::Keyspace::hold_until), a database with only such keys yields one of them.
    pub fn random_key(&mut self, db: u16, random: &mut impl FnMut() -> u64) -> Option<Vec<u8>> {
        let stripes = self.ks.stripes.len() as u64;
        for _ in 0..RANDOM_TRIES {
            let stripe = (random() % stripes) as u32;
            // Stripes held for long are skipped.
            let draw = |handle: &mut Self| handle.random_in_held(db, stripe, false, random);
            if let Some(key) = self.with_stripe_soon(stripe, draw).flatten() {
                return Some(key);
            }
        }
        if self.is_outside() {
            self.enter_again();
        }
        let first = random() % stripes;
        let mut in_turn = (0..stripes).map(|i| ((first + i) % stripes) as u32);
        let first_alive = |handle: &mut Self, stripe: u32| {
            let mut found = None;
            let mut each = |view: View<'_>| found = Some(view.key().to_vec());
            handle.scan_stripe((db, stripe, 0), 1, &|_| true, &mut each);
            found
        };
        let mut soon = |stripe: u32| {
            self.with_stripe_soon(stripe, |handle| first_alive(handle, stripe)).flatten()
        };
        let mut alive = in_turn.clone().find_map(&mut soon);
        if self.is_outside() {
            self.enter_again();
        }
        if alive.is_none() {
            let mut surely =
                |stripe: u32| self.with_stripe(stripe, |handle| first_alive(handle, stripe));
            alive = in_turn.clone().find_map(&mut surely);
        }
        if alive.is_some() || !self.holds_expired() {
            return alive;
        }
        in_turn.find_map(|stripe| self.random_in_stripe(db, stripe, true, random))
    }

    /// True if the stripe has no key in database 0. Reads without the lock, so that an almost empty
    /// keyspace is scanned in one call. False also if the thread is outside.
    pub(crate) fn is_vacant(&self, stripe: u32) -> bool {
        self.peeker().is_some_and(|peeker| peeker.is_vacant(stripe))
    }

    /// Runs `work` with the stripe held, locking it if necessary.
    pub(crate) fn with_stripe<T>(&mut self, stripe: u32, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.holds_any() {
            return work(self);
        }
        self.lock_stripe(stripe, Forever);
        let result = work(self);
        self.unlock();
        result
    }

    /// Like `with_stripe`, but returns none once `give_up` returns true during the wait.
    fn with_stripe_unless<T>(
        &mut self,
        stripe: u32,
        give_up: impl Patience,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let locks = !self.holds_any();
        if locks && !self.lock_stripe(stripe, give_up) {
            return None;
        }
        let result = work(self);
        if locks {
            self.unlock();
        }
        Some(result)
    }

    /// Like [`Handle::with_stripe`], for upkeep: returns none if the stripe is not free within
    /// `SOON`, because a script may hold its stripes for long. The thread may then be
    /// [outside](Handle::is_outside).
    pub(crate) fn with_stripe_soon<T>(
        &mut self,
        stripe: u32,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        // The clock is read only if the stripe is not free at once.
        let since = OnceCell::new();
        let too_long = || since.get_or_init(Instant::now).elapsed() >= SOON;
        if !self.holds_any() && self.is_outside() {
            return None;
        }
        self.with_stripe_unless(stripe, too_long, work)
    }

    /// Walks the buckets of one stripe; returns the next position if `count` keys were seen before
    /// the end. Some of the expired keys found are removed.
    fn scan_stripe(
        &mut self,
        from: (u16, u32, u32),
        count: usize,
        removable: &dyn Fn(&View<'_>) -> bool,
        each: &mut dyn FnMut(View<'_>),
    ) -> Option<u32> {
        let mut expired = Vec::new();
        let next = self.walk_stripe(from, count, each, &mut expired);
        for entry in expired {
            let (db, key) = (from.0, self.key_of(entry));
            if !removable(&View::new(entry)) || self.holds_expired_key(key.bytes) {
                continue;
            }
            if let Some((at, entry)) = self.find(db, key) {
                self.remove_at(db, key, at, entry, Removal::Expired);
            }
        }
        next
    }

    pub(crate) fn walk_stripe(
        &self,
        (db, stripe, position): (u16, u32, u32),
        count: usize,
        each: &mut dyn FnMut(View<'_>),
        expired: &mut Vec<Entry>,
    ) -> Option<u32> {
        let table = self.stripe_at(stripe).table(db)?;
        let buckets = table.buckets();
        if buckets == 0 {
            return None;
        }
        let mut seen = 0;
        let first = ((u64::from(position) * buckets as u64) >> 32) as usize;
        for home in first..buckets {
            for entry in homed(table, home, &|entry| self.hash(entry.key()).position()) {
                let hash = self.hash(entry.key());
                if hash.position() < position {
                    continue;
                }
                if !self.is_expired(entry) {
                    each(View::new(entry));
                    seen += 1;
                } else if expired.len() < EXPIRED_PER_HOLD {
                    expired.push(entry);
                }
            }
            if seen >= count && home + 1 < buckets {
                return Some(first_position(home + 1, buckets));
            }
        }
        None
    }

    fn random_in_stripe(
        &mut self,
        db: u16,
        stripe: u32,
        expired_too: bool,
        random: &mut impl FnMut() -> u64,
    ) -> Option<Vec<u8>> {
        self.with_stripe(stripe, |handle| handle.random_in_held(db, stripe, expired_too, random))
    }

    /// Scans a stripe that is held.
    fn random_in_held(
        &mut self,
        db: u16,
        stripe: u32,
        expired_too: bool,
        random: &mut impl FnMut() -> u64,
    ) -> Option<Vec<u8>> {
        let table = self.stripe_at(stripe).table(db)?;
        if table.len() == 0 {
            return None;
        }
        // Rejection keeps every key of the stripe equally likely.
        for _ in 0..RANDOM_TRIES {
            let draw = random();
            let bucket =
                table.bucket(((draw as u32 as u64 * table.buckets() as u64) >> 32) as usize);
            let slot = (draw >> 32) as usize % SLOTS;
            if bucket.tag(slot) != 0 {
                let entry = bucket.slot(slot).item::<Entry>();
                if expired_too || !self.is_expired(entry) {
                    return Some(entry.key().to_vec());
                }
            }
        }
        None
    }

    /// Key of an entry, for calls of mutators.
    pub(crate) fn key_of(&self, entry: Entry) -> Key<'static> {
        self.key(entry.key())
    }
}

/// Random draws before a random choice falls back to a walk.
const RANDOM_TRIES: usize = 64;
/// Maximum number of expired keys removed by one walk of a stripe.
const EXPIRED_PER_HOLD: usize = 64;
