//! Lock of one stripe: a word of four bytes beside the data that it guards.

use super::futex::{Futex, SPINS, Wait, Woken};
use super::patience::{Patience, WAIT_MAX};
use std::hint;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A thread owns the stripe.
const HELD: u32 = 0b001;
/// A thread may sleep on the word: the unlocking thread must wake one.
const WAITERS: u32 = 0b010;
/// The holder claims exclusiveness: waiters leave, and no thread falls asleep here.
const SIGNALLED: u32 = 0b100;
/// A thread has waited for long: the unlocking thread must leave the lock to a sleeper.
const STARVED: u32 = 0b1000;
/// Free, but reserved: a sleeper was woken to take it, others wait until it has.
const RESERVED: u32 = 0b1_0000;

/// Threads that waited for a lock when it was released.
#[derive(Clone, Copy, Debug)]
pub struct Waiters(u32);

impl Waiters {
    /// Whether a thread may sleep.
    #[inline]
    pub fn any(self) -> bool {
        self.0 & WAITERS != 0
    }

    /// Whether one of them has waited for long.
    pub fn are_starved(self) -> bool {
        self.0 & STARVED != 0
    }
}

/// Lock of one stripe, taken through an active [`ThreadSlot`](super::ThreadSlot).
///
/// Its type guards no data: code that accesses the stripe's data states why the lock is held. Place
/// it on the cache line of the data that every command touches first.
pub struct StripeLock(Futex);

impl StripeLock {
    /// Creates an unlocked lock.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    pub const fn new() -> Self {
        StripeLock(Futex::new(0))
    }

    /// Creates an unlocked lock.
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    pub fn new() -> Self {
        StripeLock(Futex::new(0))
    }

    /// Whether any thread holds the lock at this instant.
    pub fn is_held(&self) -> bool {
        self.0.load(Relaxed) & HELD != 0
    }

    /// Unlocks. The caller holds the lock.
    #[inline]
    pub fn unlock(&self) {
        let waiters = self.release();
        if waiters.any() {
            self.wake(waiters);
        }
    }

    /// Unlocks without a wake-up. The caller holds the lock. If there are [any](Waiters::any)
    /// waiters it has to [wake](Self::wake) one, soon, or to [take the lock back](Self::take_back).
    #[inline]
    pub fn release(&self) -> Waiters {
        // One atomic operation both frees the word and detects waiters, so there is no store-load
        // race to fence.
        Waiters(self.0.swap(0, Release))
    }

    /// Wakes a thread that waits; if one is starved, the lock is reserved for the woken thread.
    #[cold]
    pub fn wake(&self, waiters: Waiters) {
        // As a read-modify-write it continues the release sequence of the unlocking.
        let is_reserved =
            waiters.are_starved() && self.0.compare_exchange(0, RESERVED, Relaxed, Relaxed).is_ok();
        if !self.0.wake_one() && is_reserved && self.0.fetch_and(!RESERVED, Relaxed) & WAITERS != 0
        {
            // No thread slept, but one has seen the reservation since.
            self.0.wake_one();
        }
    }

    /// Takes the lock back after a [`Self::release`] that has found waiters, which go on sleeping.
    /// False if another thread has it, which may not know of them: one has to be woken.
    pub fn take_back(&self) -> bool {
        self.0.compare_exchange(0, HELD | WAITERS, Acquire, Relaxed).is_ok()
    }

    /// Acquire pairs with the Release of [`Self::unlock`]: the new holder sees the writes of the
    /// last one.
    #[inline]
    pub(super) fn try_acquire(&self) -> bool {
        self.0.compare_exchange(0, HELD, Acquire, Relaxed).is_ok()
    }

    /// Waits for the lock. Returns false if the caller must back off; then it does not hold the
    /// lock.
    ///
    /// `intent_pending` detects an intent in case the stripe's holder did not name it.
    #[cold]
    pub(super) fn acquire(
        &self,
        intent_pending: impl Fn() -> bool,
        patience: &impl Patience,
    ) -> bool {
        if self.spin() {
            return true;
        }
        let mut woken = Woken::Maybe;
        if let Some(reserved) = self.wait_reserved() {
            woken = reserved;
        }
        let mut wait = Wait::begin();
        loop {
            // Try before backing off, and leave WAITERS set: a wake-up meant for one sleeper may
            // have ended here, and the next unlock must pass it on. Keeping SIGNALLED (or, not
            // swap) is what stops a waiter that looked before the signal from falling asleep after
            // it.
            let starved = if wait.is_long() { STARVED } else { 0 };
            let mine = HELD | WAITERS | starved;
            let state = self.0.fetch_or(mine, Acquire);
            if state & HELD == 0 {
                if starved != 0 {
                    // Other starved threads set it again.
                    self.0.fetch_and(!STARVED, Relaxed);
                }
                return true;
            }
            // A caller that gives up leaves WAITERS set too: a wake-up that ended here is passed on
            // by the next unlock.
            let leaves = state & SIGNALLED != 0 || woken == Woken::TimedOut && intent_pending();
            if leaves || patience.is_over() {
                return false;
            }
            woken = self.0.wait(state | mine, Some(WAIT_MAX));
        }
    }

    /// Waits if the lock is reserved for a thread that has been woken. That thread, or another that
    /// precedes it, takes it, and wakes this one.
    fn wait_reserved(&self) -> Option<Woken> {
        let state = self.0.load(Relaxed);
        if state & (HELD | RESERVED) != RESERVED {
            return None;
        }
        let waiting = state | WAITERS;
        let is_still = self.0.compare_exchange(state, waiting, Relaxed, Relaxed).is_ok();
        is_still.then(|| self.0.wait(waiting, Some(WAIT_MAX)))
    }

    /// Makes all waiters for this lock back off. The intent must be set in every slot before.
    ///
    /// Release: a thread that sees SIGNALLED also sees the intent in its own slot, so it sleeps in
    /// `enter` instead of coming back. Wakes all regardless of WAITERS: an unlock clears the bit
    /// and wakes one sleeper, which sets it again for the others, but not before it runs.
    pub(super) fn signal(&self) {
        self.0.fetch_or(SIGNALLED, Release);
        self.0.wake_all();
    }

    /// Undoes [`Self::signal`]. No thread sleeps here: the signal woke all, and with SIGNALLED in
    /// the word none has fallen asleep since.
    pub(super) fn clear_signal(&self) {
        self.0.fetch_and(HELD, Relaxed);
    }

    fn spin(&self) -> bool {
        for _ in 0..SPINS {
            match self.0.load(Relaxed) {
                0 if self.try_acquire() => return true,
                0 | HELD => hint::spin_loop(),
                // Others sleep already, or the holder claims exclusiveness: no point in spinning.
                _ => return false,
            }
        }
        false
    }
}

impl Default for StripeLock {
    fn default() -> Self {
        Self::new()
    }
}
