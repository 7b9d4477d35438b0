//! The lock of one stripe: a word of four bytes that lives beside the data it guards.

use super::futex::{Futex, SPINS, Woken};
use std::hint;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Someone owns the stripe.
const HELD: u32 = 0b001;
/// A thread may sleep on the word: the unlocking thread must wake one.
const WAITERS: u32 = 0b010;
/// The holder is raising the exclusive intent: waiters leave, and no thread falls asleep here.
const NUDGED: u32 = 0b100;

/// A waiter looks again after this long, should a raiser not have named this stripe.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(1);

/// The lock of one stripe, taken through a [`Pass`](super::Pass) that is inside the gate.
///
/// It guards no data by type: code that reaches the stripe's data states why the lock is held. It
/// belongs in the owner's stripe, on the cache line of the data that every command touches first.
pub struct StripeLock(Futex);

impl StripeLock {
    /// A free lock.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    pub const fn new() -> Self {
        StripeLock(Futex::new(0))
    }

    /// A free lock.
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    pub fn new() -> Self {
        StripeLock(Futex::new(0))
    }

    /// Whether anyone holds the lock at this instant.
    pub fn is_held(&self) -> bool {
        self.0.load(Relaxed) & HELD != 0
    }

    /// Unlocks. The caller holds the lock.
    #[inline]
    pub fn unlock(&self) {
        // One atomic step both frees the word and learns of the waiters: no store-load race to
        // fence.
        if self.0.swap(0, Release) & WAITERS != 0 {
            self.0.wake_one();
        }
    }

    /// Acquire pairs with the Release of [`Self::unlock`]: the new holder sees what the last one
    /// wrote.
    #[inline]
    pub(super) fn try_acquire(&self) -> bool {
        self.0.compare_exchange(0, HELD, Acquire, Relaxed).is_ok()
    }

    /// Waits for the lock. False: the caller must give way, and does not hold the lock.
    ///
    /// `intent_pending` says whether an intent is up, should the stripe's holder not have named it;
    /// `give_up`, whether the caller wants the lock no longer.
    #[cold]
    pub(super) fn acquire(
        &self,
        intent_pending: impl Fn() -> bool,
        give_up: impl Fn() -> bool,
    ) -> bool {
        if self.spin() {
            return true;
        }
        let mut woken = Woken::Maybe;
        loop {
            // Try before giving way, and leave WAITERS behind: a wake-up meant for one sleeper may
            // have ended here, and the next to unlock must pass it on. Keeping NUDGED
            // (or, not swap) is what stops a waiter that looked before the nudge from
            // falling asleep after it.
            let state = self.0.fetch_or(HELD | WAITERS, Acquire);
            if state & HELD == 0 {
                return true;
            }
            // Who gives up has left WAITERS behind too: a wake-up that ended here is passed on by
            // the next unlock.
            let leaves = state & NUDGED != 0 || woken == Woken::TimedOut && intent_pending();
            if leaves || give_up() {
                return false;
            }
            woken = self.0.wait(HELD | WAITERS, Some(WAIT_MAX));
        }
    }

    /// Sends all waiters for this lock away. The intent must be up in every slot before.
    ///
    /// Release: who sees NUDGED sees the intent in its own slot, hence sleeps at the gate instead
    /// of coming back. It wakes whatever WAITERS says: an unlock clears the bit and wakes one
    /// sleeper, which sets it again for the others, but not before it runs.
    pub(super) fn nudge(&self) {
        self.0.fetch_or(NUDGED, Release);
        self.0.wake_all();
    }

    /// Undoes [`Self::nudge`]. No thread sleeps here: the nudge woke all, and with NUDGED in the
    /// word none fell asleep since.
    pub(super) fn calm(&self) {
        self.0.fetch_and(HELD, Relaxed);
    }

    fn spin(&self) -> bool {
        for _ in 0..SPINS {
            match self.0.load(Relaxed) {
                0 if self.try_acquire() => return true,
                0 | HELD => hint::spin_loop(),
                // Others sleep already, or the holder is raising: no point in spinning.
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
