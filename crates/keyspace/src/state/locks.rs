//! Stripes held by a thread: locks and unlocks them through its thread slot.

use crate::state::stripe::{Stripe, StripeData};
use crate::state::tracking::{SideTables, Tracked};
use crate::structures::key_hash::KeyHash;
use petrel_lock::ThreadSlot;

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
/// otherwise, to hold nothing. The methods ending in `_unless` stop waiting once `give_up` returns
/// true: they return false then, and the thread may be outside the gate.
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
    pub fn lock(&mut self, stripes: &[Stripe], stripe: u32) {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        self.pass.lock(&stripes[stripe as usize].lock);
        self.held = HeldStripes::One(stripe);
    }

    /// Like `lock`, but stops waiting once `give_up` returns true.
    #[inline]
    pub fn lock_unless(
        &mut self,
        stripes: &[Stripe],
        stripe: u32,
        give_up: impl Fn() -> bool,
    ) -> bool {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        let locked = self.pass.lock_unless(&stripes[stripe as usize].lock, give_up);
        if locked {
            self.held = HeldStripes::One(stripe);
        }
        locked
    }

    /// Locks the stripes of many keys, all before the command runs.
    pub fn lock_many(&mut self, stripes: &[Stripe], hashes: impl Iterator<Item = KeyHash>) {
        self.choose(hashes);
        match self.many[..] {
            [] => {}
            [stripe] => self.lock(stripes, stripe),
            _ => {
                self.pass.lock_many(|i| &stripes[i].lock, &self.many);
                self.held = HeldStripes::Many;
            }
        }
    }

    /// Like `lock_many`, but stops waiting once `give_up` returns true.
    pub fn lock_many_unless(
        &mut self,
        stripes: &[Stripe],
        hashes: impl Iterator<Item = KeyHash>,
        give_up: impl Fn() -> bool,
    ) -> bool {
        self.choose(hashes);
        match self.many[..] {
            [] => true,
            [stripe] => self.lock_unless(stripes, stripe, give_up),
            _ => {
                let lock = |i: usize| &stripes[i].lock;
                let locked = self.pass.lock_many_unless(lock, &self.many, give_up);
                if locked {
                    self.held = HeldStripes::Many;
                }
                locked
            }
        }
    }

    fn choose(&mut self, hashes: impl Iterator<Item = KeyHash>) {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        self.many.clear();
        self.many.extend(hashes.map(KeyHash::stripe));
        self.many.sort_unstable();
        self.many.dedup();
    }

    /// Takes the exclusive lock: waits until every other thread has left, and keeps them out.
    pub fn lock_all(&mut self) {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        self.pass.exclusive();
        self.held = HeldStripes::All;
    }

    /// Like `lock_all`, but stops waiting once `give_up` returns true.
    pub fn lock_all_unless(&mut self, give_up: impl Fn() -> bool) -> bool {
        debug_assert_eq!(self.held, HeldStripes::Nothing);
        let locked = self.pass.exclusive_unless(give_up);
        if locked {
            self.held = HeldStripes::All;
        }
        locked
    }

    /// Locks the rest of the keyspace while the held stripes stay locked; false, with the same
    /// locks as before, if `give_up` returned true. The thread has the script token.
    pub fn lock_rest_unless(&mut self, stripes: &[Stripe], give_up: impl Fn() -> bool) -> bool {
        let lock = |i: usize| &stripes[i].lock;
        let locked = match self.held {
            HeldStripes::Nothing => self.pass.exclusive_holding_unless(lock, &[], give_up),
            HeldStripes::One(stripe) => {
                self.pass.exclusive_holding_unless(lock, &[stripe], give_up)
            }
            HeldStripes::Many => self.pass.exclusive_holding_unless(lock, &self.many, give_up),
            HeldStripes::All => return true,
        };
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
