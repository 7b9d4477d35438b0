//! A thread's access to the keyspace: batches, stripe locks, and the work deferred until the locks
//! are released.

mod freeing;
mod locking;
pub(crate) mod peek;
pub(crate) mod transient;

use crate::state::counters::Counters;
use crate::state::deferred::DeferredFrees;
use crate::state::keyspace::Keyspace;
use crate::state::locks::Locks;
use crate::state::observers::Observers;
use crate::state::policy::AccessClock;
use crate::state::stripe::StripeData;
use crate::state::upkeep::Upkeep;
use crate::state::wall_clock::{WallClock, unix_ms};
use crate::structures::key_hash::{Key, KeyHash};
use petrel_heap::{Breather, Cache, prefetch};
use petrel_lock::{Forever, Patience, ThreadSlot};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
#[cfg(not(target_arch = "x86_64"))]
use std::sync::atomic::{Ordering::SeqCst, fence};

/// A thread's access to a [`Keyspace`]: its locks, the changes collected for observers, its part
/// of the upkeep, and the tools of its mutators.
///
/// Work happens in batches: [`Handle::enter`], then for each command lock, read and change, unlock,
/// and at last [`Handle::exit`]. Every read or change of a key requires that its stripe is held.
pub struct Handle {
    pub(crate) ks: Arc<Keyspace>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) locks: Locks,
    pub(crate) observers: Observers,
    pub(crate) upkeep: Upkeep,
    // Used by the mutators.
    pub(crate) cache: Cache,
    pub(crate) clock: AccessClock,
    pub(crate) now_ms: i64,
    wall_clock: WallClock,
    /// [`Handle::see_expired`].
    pub(crate) sees_expired: bool,
    /// Whether reads count as uses.
    pub(crate) touch: bool,
    /// Buffer of the mutators; empty between calls, kept for its capacity.
    pub(crate) scratch: Vec<u8>,
    /// A score of minus zero is stored as such in small sorted sets too.
    pub(crate) keeps_zero_sign: bool,
    pub(crate) deferred: DeferredFrees,
}

impl Keyspace {
    /// A handle for the calling thread, through which it reads and writes.
    pub fn attach(self: &Arc<Self>) -> Handle {
        let (pass, counters) = self.register();
        Handle::new(self.clone(), pass, counters)
    }
}

impl Handle {
    fn new(ks: Arc<Keyspace>, pass: ThreadSlot, counters: Arc<Counters>) -> Self {
        let mut handle = Handle {
            locks: Locks::new(pass),
            observers: Observers::default(),
            upkeep: Upkeep::new(Arc::as_ptr(&counters) as usize as u64),
            cache: ks.heap.cache(),
            clock: AccessClock::default(),
            now_ms: 0,
            wall_clock: WallClock::default(),
            sees_expired: false,
            touch: true,
            scratch: Vec::new(),
            keeps_zero_sign: false,
            deferred: DeferredFrees::default(),
            counters,
            ks,
        };
        handle.refresh_clock();
        handle
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &Arc<Keyspace> {
        &self.ks
    }

    /// Hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.ks.hasher.hash(key)
    }

    /// A key with its hash.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.hash(bytes) }
    }

    /// Whether reads count as use of a key for the eviction policy (`CLIENT NO-TOUCH` turns it
    /// off).
    pub fn set_touch(&mut self, touch: bool) {
        self.touch = touch;
    }

    /// The thread's clock, Unix time in milliseconds, as of the last [`Handle::refresh_clock`].
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Reads the clock, unless it is [stopped](Keyspace::stop_clock): once per turn is enough.
    pub fn refresh_clock(&mut self) {
        self.set_clock(self.unix_ms());
    }

    /// Like [`Handle::refresh_clock`], but does its work once per millisecond: for callers without
    /// turns.
    #[inline]
    pub fn refresh_clock_if_due(&mut self) {
        let now = match self.ks.clock_stands_at.load(Relaxed) {
            0 => self.wall_clock.changed(),
            stands_at => {
                self.wall_clock.forget();
                Some(stands_at)
            }
        };
        if let Some(now) = now
            && now != self.now_ms
        {
            self.renew_clock(now);
        }
    }

    fn unix_ms(&self) -> i64 {
        match self.ks.clock_stands_at.load(Relaxed) {
            0 => unix_ms(),
            stands_at => stands_at,
        }
    }

    /// Sets the thread's clock (recovery and tests).
    pub fn set_clock(&mut self, now_ms: i64) {
        // The next call without a turn sets it to the time again.
        self.wall_clock.forget();
        self.renew_clock(now_ms);
    }

    fn renew_clock(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.clock.update(&self.ks.policy, now_ms);
        self.refresh_byte_clock();
    }

    /// Disables expiry for this thread until it reads the clock again: for replayed changes.
    pub fn ignore_expiry(&mut self) {
        self.wall_clock.forget();
        self.now_ms = 0;
    }

    /// From now on mutators call `breather` now and then during large changes. It must not use this
    /// handle.
    pub fn breathe_with(&mut self, breather: Breather) {
        self.cache.breathe_with(breather);
    }

    /// Ends [`Handle::breathe_with`].
    pub fn breathe_no_more(&mut self) {
        self.cache.breathe_no_more();
    }

    /// Begins a batch: waits while another thread owns the keyspace exclusively.
    #[inline]
    pub fn enter(&mut self) {
        self.enter_unless(Forever);
    }

    /// Like [`Handle::enter`], but stops waiting once `give_up` returns true: false then. The batch
    /// has begun, but the thread is outside: it must end the batch and begin another before it
    /// locks anything.
    #[inline]
    pub fn enter_unless(&mut self, give_up: impl Patience) -> bool {
        let batch = &self.counters.batch;
        batch.store(batch.load(Relaxed).wrapping_add(1), Relaxed);
        // Orders the store above before every peek of the batch; on x86-64 the exchange in
        // `ThreadSlot::enter` does so.
        #[cfg(not(target_arch = "x86_64"))]
        fence(SeqCst);
        self.locks.pass().enter(give_up)
    }

    /// Ends a batch.
    #[inline]
    pub fn exit(&mut self) {
        debug_assert!(!self.locks.holds_any());
        self.release_kept();
        self.locks.pass().exit();
        let batch = &self.counters.batch;
        batch.store(batch.load(Relaxed).wrapping_add(1), Release);
        if let Some(sink) = &mut self.observers.sink {
            sink.hand_over();
        }
    }

    /// True if another thread waits for the keyspace, or this one is outside: the caller should end
    /// the batch and begin another.
    #[inline]
    pub fn should_yield(&self) -> bool {
        self.locks.pass().is_disturbed()
    }

    /// A signal that tells, without the handle, whether another thread waits for the keyspace.
    pub fn signal(&self) -> crate::Signal {
        self.locks.pass().signal()
    }

    /// Whether the thread is in a batch, and inside the gate.
    pub fn is_inside(&self) -> bool {
        self.locks.pass().is_inside()
    }

    /// True if the thread is outside the gate, because it gave up waiting.
    pub fn is_outside(&self) -> bool {
        !self.locks.pass().is_inside()
    }

    /// Enters the gate during a batch, after a failed [`Handle::enter_unless`].
    pub(crate) fn enter_again(&self) {
        self.locks.pass().enter(Forever);
    }

    /// Prefetches the cache line of the stripe of `hash`, and that of its side table.
    #[inline]
    pub fn prefetch_stripe(&self, hash: KeyHash) {
        prefetch((&raw const self.ks.stripes[hash.stripe() as usize]).addr());
        self.prefetch_side_table(hash);
    }

    /// Data guarded by the lock of a stripe.
    #[inline]
    pub(crate) fn stripe(&self, hash: KeyHash) -> &mut StripeData {
        self.stripe_at(hash.stripe())
    }

    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn stripe_at(&self, stripe: u32) -> &mut StripeData {
        self.locks.data(&self.ks.stripes, stripe)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.unlock();
        if self.locks.pass().is_inside() {
            self.exit();
        }
        while self.deferred.has_retired() {
            self.free_retired();
            std::thread::yield_now();
        }
        self.leave_indexes();
        self.ks.detach(&self.counters);
    }
}
