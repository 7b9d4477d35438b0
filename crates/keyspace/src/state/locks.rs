//! Stripes held by a thread: locks and unlocks them through its thread slot.

use crate::state::stripe::{Stripe, StripeData};
use crate::state::tracking::{SideTables, Tracked};
use crate::structures::key_hash::KeyHash;
use petrel_lock::{Patience, ThreadSlot};
use std::slice;

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

/// A thread's locks. Every locking method requires the thread to be in a batch and, unless stated
/// otherwise, to hold nothing. Methods that wait return false, with nothing more locked, once their
/// patience is over; the thread may be inactive then.
pub(crate) struct Locks {
    pass: ThreadSlot,
    held: HeldStripes,
    /// Stripes held before the exclusive lock, to be unlocked together with it.
    held_before: HeldStripes,
    /// Stripes of a multi-key lock, ascending; kept for its capacity.
    many: Vec<u32>,
}

impl Locks {
    /// Locks of a thread that holds nothing.
    pub fn new(pass: ThreadSlot) -> Self {
        let (held, held_before) = (HeldStripes::Nothing, HeldStripes::Nothing);
        Locks { pass, held, held_before, many: Vec::new() }
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
    pub fn lock_all(&mut self, patience: impl Patience) -> bool {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
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
            stripes[stripe as usize].lock.unlock();
            self.held = HeldStripes::Nothing;
        } else {
            self.unlock_others(stripes);
        }
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
