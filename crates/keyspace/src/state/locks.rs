//! Stripes held by a thread: locks and unlocks them through its thread slot.

use crate::state::stripe::{Stripe, StripeData};
use crate::state::tracking::{SideTables, Tracked};
use crate::structures::key_hash::KeyHash;
use petrel_lock::{Patience, ThreadSlot, Waiters};
use std::slice;
use std::time::{Duration, Instant};

/// Maximum time for which threads that wait for a kept stripe are not woken.
const KEPT_MAX: Duration =
    if cfg!(test) { Duration::from_secs(1) } else { Duration::from_micros(100) };

/// Stripes held by a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HeldStripes {
    Nothing,
    One(u32),
    /// The stripes in [`Locks::many`].
    Many,
    /// Every stripe, by the exclusive lock.
    All,
}

/// State of a stripe between two commands of a thread while other threads sleep until it is free.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// Locked.
    Locked,
    /// Free, with one of these threads to be woken.
    Owed(Waiters),
}

/// A thread's locks. Every locking method requires the thread to be in a batch and, unless stated
/// otherwise, to hold nothing. Methods that wait return false, with nothing more locked, once their
/// patience is over; the thread may be inactive then.
pub(crate) struct Locks {
    pass: ThreadSlot,
    held: HeldStripes,
    /// Stripes held before the exclusive lock, to be unlocked together with it.
    held_before: HeldStripes,
    /// Stripe that other threads wait for, and the next commands of the batch may need.
    kept: Option<(u32, Kept)>,
    /// Whether stripes are kept.
    keeps: bool,
    /// Time at which threads began to wait for the kept stripe.
    kept_since: Option<Instant>,
    /// Stripes of a multi-key lock, ascending; kept for its capacity.
    many: Vec<u32>,
}

impl Locks {
    /// Locks of a thread that holds nothing.
    pub fn new(pass: ThreadSlot) -> Self {
        let (held, held_before) = (HeldStripes::Nothing, HeldStripes::Nothing);
        Locks {
            pass,
            held,
            held_before,
            kept: None,
            keeps: false,
            kept_since: None,
            many: Vec::new(),
        }
    }

    /// The thread's slot at the gate.
    #[inline]
    pub fn pass(&self) -> &ThreadSlot {
        &self.pass
    }

    /// The stripes held now.
    #[inline]
    pub fn held(&self) -> HeldStripes {
        self.held
    }

    /// The held stripes in case of [`HeldStripes::Many`], ascending.
    pub fn many(&self) -> &[u32] {
        &self.many
    }

    /// Whether anything is held.
    #[inline]
    pub fn holds_any(&self) -> bool {
        self.held != HeldStripes::Nothing
    }

    /// Whether a stripe is held.
    #[inline]
    pub fn holds(&self, stripe: u32) -> bool {
        match self.held {
            HeldStripes::Nothing => false,
            HeldStripes::One(held) => held == stripe,
            HeldStripes::Many => self.many.binary_search(&stripe).is_ok(),
            HeldStripes::All => true,
        }
    }

    /// Data of a stripe. Its lock is held, and the caller keeps one reference at a time.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn data<'s>(&self, stripes: &'s [Stripe], stripe: u32) -> &'s mut StripeData {
        debug_assert!(self.holds(stripe), "stripe {stripe} is not held");
        // SAFETY: the stripe is held by this thread.
        unsafe { stripes[stripe as usize].data() }
    }

    /// The side table of a stripe. It is held, and the caller keeps one reference at a time.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn side_table<'s>(&self, tables: &'s SideTables, stripe: u32) -> Option<&'s mut Tracked> {
        debug_assert!(self.holds(stripe), "stripe {stripe} is not held");
        // SAFETY: the stripe is held by this thread.
        unsafe { tables.of(stripe) }
    }

    /// Locks one stripe.
    #[inline]
    pub fn lock(&mut self, stripes: &[Stripe], stripe: u32, patience: impl Patience) -> bool {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        if self.kept.is_some() && self.take_kept(stripes, stripe) {
            return true;
        }
        let locked = self.pass.lock(&stripes[stripe as usize].lock, patience);
        if locked {
            self.held = HeldStripes::One(stripe);
        }
        locked
    }

    /// Locks the stripes of many keys, all before the command runs.
    pub fn lock_many(
        &mut self,
        stripes: &[Stripe],
        hashes: impl Iterator<Item = KeyHash>,
        patience: impl Patience,
    ) -> bool {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        self.release_kept(stripes);
        self.many.clear();
        self.many.extend(hashes.map(KeyHash::stripe));
        self.many.sort_unstable();
        self.many.dedup();
        match self.many[..] {
            [] => true,
            [stripe] => self.lock(stripes, stripe, patience),
            _ => {
                let locked = self.pass.lock_many(|i| &stripes[i].lock, &self.many, patience);
                if locked {
                    self.held = HeldStripes::Many;
                }
                locked
            }
        }
    }

    /// Takes the exclusive lock: waits until every other thread has left, and keeps them out.
    pub fn lock_all(&mut self, stripes: &[Stripe], patience: impl Patience) -> bool {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        self.release_kept(stripes);
        let locked = self.pass.exclusive(patience);
        if locked {
            self.held = HeldStripes::All;
        }
        locked
    }

    /// Locks the rest of the keyspace while the held stripes stay locked. The thread has the script
    /// token.
    pub fn lock_rest(&mut self, stripes: &[Stripe], patience: impl Patience) -> bool {
        let held: &[u32] = match &self.held {
            HeldStripes::Nothing => &[],
            HeldStripes::One(stripe) => slice::from_ref(stripe),
            HeldStripes::Many => &self.many[..],
            HeldStripes::All => return true,
        };
        let locked = self.pass.exclusive_holding(|i| &stripes[i].lock, held, patience);
        if locked {
            self.held_before = self.held;
            self.held = HeldStripes::All;
        }
        locked
    }

    /// Unlocks everything that is held.
    #[inline(always)]
    pub fn unlock(&mut self, stripes: &[Stripe]) {
        if let HeldStripes::One(stripe) = self.held {
            self.held = HeldStripes::Nothing;
            let waiters = stripes[stripe as usize].lock.release();
            if waiters.any() {
                self.pass_on(stripes, stripe, waiters);
            }
        } else {
            self.unlock_others(stripes);
        }
    }

    /// Begins to keep stripes: one that others wait for may stay locked until the next command.
    #[inline]
    pub fn keep(&mut self) {
        self.keeps = true;
    }

    /// Ends [`Self::keep`]: a kept stripe is free, but a waiter may be woken only later.
    #[inline]
    pub fn keep_no_more(&mut self, stripes: &[Stripe]) {
        self.keeps = false;
        if let Some((stripe, kept)) = self.kept {
            self.unkeep(stripes, stripe, kept);
        }
    }

    /// Whether a stripe is kept, or a wake-up owed.
    #[cfg(test)]
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Unlocks a kept stripe, and wakes a thread that waits for it.
    #[inline]
    pub fn release_kept(&mut self, stripes: &[Stripe]) {
        if let Some((stripe, kept)) = self.kept {
            self.wake_waiter(stripes, stripe, kept);
        }
    }

    /// Keeps a stripe that was released with waiters, or wakes one.
    #[cold]
    fn pass_on(&mut self, stripes: &[Stripe], stripe: u32, waiters: Waiters) {
        let lock = &stripes[stripe as usize].lock;
        if self.keeps && !waiters.are_starved() && self.may_keep() && lock.take_back() {
            self.kept = Some((stripe, Kept::Locked));
        } else {
            self.wake_waiter(stripes, stripe, Kept::Owed(waiters));
        }
    }

    fn may_keep(&mut self) -> bool {
        self.kept_since.get_or_insert_with(Instant::now).elapsed() < KEPT_MAX
    }

    #[cold]
    fn unkeep(&mut self, stripes: &[Stripe], stripe: u32, kept: Kept) {
        let waiters = match kept {
            Kept::Locked => stripes[stripe as usize].lock.release(),
            Kept::Owed(waiters) => waiters,
        };
        let kept = Kept::Owed(waiters);
        if waiters.are_starved() || !self.may_keep() {
            self.wake_waiter(stripes, stripe, kept);
        } else {
            self.kept = Some((stripe, kept));
        }
    }

    #[cold]
    fn wake_waiter(&mut self, stripes: &[Stripe], stripe: u32, kept: Kept) {
        let lock = &stripes[stripe as usize].lock;
        match kept {
            Kept::Locked => lock.unlock(),
            Kept::Owed(waiters) => lock.wake(waiters),
        }
        self.kept = None;
        self.kept_since = None;
    }

    /// Holds this stripe if it is kept, and still free if it was unlocked. Else nothing is kept any
    /// more: a thread that is going to wait owes no wake-up.
    #[cold]
    fn take_kept(&mut self, stripes: &[Stripe], stripe: u32) -> bool {
        let is_taken = match self.kept {
            Some((kept, Kept::Locked)) if kept == stripe => {
                self.kept = None;
                true
            }
            Some((kept, Kept::Owed(_))) if kept == stripe => {
                self.may_keep() && self.pass.try_lock(&stripes[stripe as usize].lock)
            }
            _ => false,
        };
        match is_taken {
            true => self.held = HeldStripes::One(stripe),
            false => self.release_kept(stripes),
        }
        is_taken
    }

    #[inline(never)]
    fn unlock_others(&mut self, stripes: &[Stripe]) {
        self.unlock_stripes(stripes, self.held);
        if self.held == HeldStripes::All {
            self.unlock_stripes(stripes, self.held_before);
            self.held_before = HeldStripes::Nothing;
            self.pass.release_exclusive();
        }
        self.held = HeldStripes::Nothing;
    }

    fn unlock_stripes(&self, stripes: &[Stripe], held: HeldStripes) {
        match held {
            HeldStripes::Nothing | HeldStripes::All => {}
            HeldStripes::One(stripe) => stripes[stripe as usize].lock.unlock(),
            HeldStripes::Many => {
                self.many.iter().for_each(|&stripe| stripes[stripe as usize].lock.unlock());
            }
        }
    }
}
