//! Thread slot: a thread's registration with the keyspace's locks, and the locks that it holds.

use super::exclusive_lock::{ExclusiveLock, Others, SlotWord};
use super::patience::{Forever, Patience};
use super::stripe::StripeLock;
use std::cell::Cell;
use std::sync::Arc;

/// Registration of one thread with an [`ExclusiveLock`].
///
/// A thread enters once per batch of commands, locks the stripes of each command, unlocks them, and
/// leaves. The owner of the slot keeps track of the stripes that it holds, and unlocks them if a
/// command unwinds. There is no poisoned state.
///
/// Methods that wait return false once their [`Patience`] is over.
pub struct ThreadSlot {
    lock: Arc<ExclusiveLock>,
    slot: Arc<SlotWord>,
    token: Cell<Token>,
    exclusive: Cell<bool>,
}

/// Whether the slot holds the script token, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token {
    None,
    /// Until [`ThreadSlot::release_script_token`].
    Script,
    /// Until [`ThreadSlot::release_exclusive`].
    Exclusive,
}

/// Handle that tells whether the exclusive lock is claimed; see [`ThreadSlot::signal`].
pub struct Signal(Arc<SlotWord>);

impl Signal {
    /// Whether another thread claims, or owns, the whole keyspace.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.0.intent_pending()
    }
}

impl ThreadSlot {
    pub(super) fn new(lock: Arc<ExclusiveLock>, slot: Arc<SlotWord>) -> Self {
        ThreadSlot { lock, slot, token: Cell::new(Token::None), exclusive: Cell::new(false) }
    }

    /// Enters: becomes active, after any exclusive owner has finished. Does nothing if active
    /// already; stays inactive if the patience is over.
    #[inline]
    pub fn enter(&self, patience: impl Patience) -> bool {
        self.slot.enter(&patience)
    }

    /// Leaves: becomes inactive. The caller holds no stripe. Does nothing if inactive already.
    #[inline]
    pub fn exit(&self) {
        if self.slot.is_active() {
            self.slot.exit();
        }
    }

    /// A handle by which the owning thread can poll for exclusive claims where the slot is not
    /// accessible.
    pub fn signal(&self) -> Signal {
        Signal(self.slot.clone())
    }

    /// Whether the slot is active.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.slot.is_active()
    }

    /// Whether another thread waits for this one to leave: one load of this thread's own line. A
    /// long batch polls it between commands and, if true, exits and enters.
    #[inline]
    pub fn intent_pending(&self) -> bool {
        self.slot.intent_pending()
    }

    /// Whether the thread has to act before its next command: leave because another thread waits
    /// for it, or enter because it is inactive. Also a single load.
    #[inline]
    pub fn is_disturbed(&self) -> bool {
        self.slot.is_disturbed()
    }

    /// Locks one stripe. The caller is active and holds no stripe. If the patience is over, nothing
    /// is locked, and the slot may be inactive.
    ///
    /// While waiting it may leave and enter again: anything read from the keyspace before the lock
    /// must be read again.
    #[inline]
    pub fn lock<P: Patience>(&self, lock: &StripeLock, patience: P) -> bool {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        lock.try_acquire() || self.lock_waiting(lock, &patience) || P::CHECK_EVERY.is_none()
    }

    /// Locks one stripe if it is free. The caller is active, and may hold other stripes.
    #[inline]
    pub fn try_lock(&self, lock: &StripeLock) -> bool {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        lock.try_acquire()
    }

    /// Locks the stripes with these indices, which are strictly ascending: all of them or, while it
    /// backs off, none. The conditions of [`Self::lock`] apply; `locks` does not panic for these
    /// indices.
    pub fn lock_many<'a>(
        &self,
        locks: impl Fn(usize) -> &'a StripeLock,
        sorted: &[u32],
        patience: impl Patience,
    ) -> bool {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        debug_assert!(sorted.is_sorted_by(|a, b| a < b));
        let lock_at = |position: usize| locks(sorted[position] as usize);
        let mut held = 0;
        while held < sorted.len() {
            let lock = lock_at(held);
            if lock.try_acquire() || lock.acquire(|| self.intent_pending(), &patience) {
                held += 1;
            } else {
                (0..held).for_each(|position| lock_at(position).unlock());
                held = 0;
                if patience.is_over() || !self.back_off(&patience) {
                    return false;
                }
            }
        }
        true
    }

    /// Takes the script token, the right to claim exclusiveness: for scripts that may use
    /// undeclared keys. The caller holds no stripe. If active, it may leave and enter again, as in
    /// [`Self::lock`]; if the patience is over it may be inactive. Does nothing if this slot has
    /// the token.
    pub fn script_token(&self, patience: impl Patience) -> bool {
        let taken = self.take_token(&patience);
        if taken {
            self.token.set(Token::Script);
        }
        taken
    }

    /// Takes the script token if it is free; the caller may hold stripes. True if this slot has it.
    pub fn try_script_token(&self) -> bool {
        if self.token.get() == Token::None && !self.lock.token().try_lock() {
            return false;
        }
        self.token.set(Token::Script);
        true
    }

    /// Returns the script token; during an exclusive ownership, at its end. Does nothing without
    /// the token.
    pub fn release_script_token(&self) {
        match self.token.get() {
            Token::Script if self.exclusive.get() => self.token.set(Token::Exclusive),
            Token::Script => self.return_token(),
            Token::None | Token::Exclusive => {}
        }
    }

    /// Whether this slot owns the whole keyspace, and so needs no stripe lock.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.get()
    }

    /// Waits until every other thread is inactive, and owns the keyspace until
    /// [`Self::release_exclusive`]. The caller holds no stripe; it stays active or inactive, but
    /// may be inactive if the patience is over. Does nothing if it is the owner already.
    pub fn exclusive(&self, patience: impl Patience) -> bool {
        self.claim(|_| {}, &patience)
    }

    /// Like [`Self::exclusive`], for a caller that has the script token and holds these stripes:
    /// threads that wait for them back off. The stripes stay locked, and may be unlocked during or
    /// after the ownership. If the patience is over, the slot stays active.
    pub fn exclusive_holding<'a>(
        &self,
        locks: impl Fn(usize) -> &'a StripeLock,
        held: &[u32],
        patience: impl Patience,
    ) -> bool {
        debug_assert!(self.exclusive.get() || self.token.get() == Token::Script);
        let act_on_held =
            |act: fn(&StripeLock)| held.iter().for_each(|&index| act(locks(index as usize)));
        self.claim(act_on_held, &patience)
    }

    /// Ends the ownership. Does nothing if this slot is not the owner.
    pub fn release_exclusive(&self) {
        if !self.exclusive.replace(false) {
            return;
        }
        self.lock.end_exclusive(&self.slot);
        // Only after that, so that there is never a second intent.
        if self.token.get() == Token::Exclusive {
            self.return_token();
        }
    }

    /// While the intent is set no thread becomes active, and threads that wait for a held stripe
    /// become inactive; so if the claim is given up, the others resume from there.
    fn claim(&self, for_each_held: impl Fn(fn(&StripeLock)), patience: &impl Patience) -> bool {
        if self.exclusive.get() {
            return true;
        }
        if self.token.get() == Token::None {
            if !self.take_token(patience) {
                return false;
            }
            self.token.set(Token::Exclusive);
        }
        self.lock.begin_exclusive(&self.slot);
        for_each_held(StripeLock::signal);
        let is_quiescent = self.lock.wait_quiescent(&self.slot, patience);
        for_each_held(StripeLock::clear_signal);
        if is_quiescent {
            self.exclusive.set(true);
            return true;
        }
        self.lock.end_exclusive(&self.slot);
        if self.token.get() == Token::Exclusive {
            self.return_token();
        }
        false
    }

    #[cold]
    fn lock_waiting(&self, lock: &StripeLock, patience: &impl Patience) -> bool {
        while !lock.acquire(|| self.intent_pending(), patience) {
            if patience.is_over() || !self.back_off(patience) {
                return false;
            }
        }
        true
    }

    /// Backs off: leaves so that the claimant can proceed, then enters again. The slot holds no
    /// stripe. Stays inactive if the patience is over.
    #[cold]
    fn back_off(&self, patience: &impl Patience) -> bool {
        self.slot.steps_aside();
        self.exit();
        let is_inside = self.slot.enter(patience);
        self.slot.steps_aside();
        is_inside
    }

    /// The other threads that may be within a command now, so that one that has not seen the
    /// caller's last writes can be waited for.
    pub fn others_within(&self) -> Others {
        self.lock.others_within(&self.slot)
    }

    /// Sleeps while inactive, since the holder of the token may wait for all others to become
    /// inactive. Entering again does not wait: only the holder of the token claims, and that is now
    /// this slot.
    fn take_token(&self, patience: &impl Patience) -> bool {
        if self.token.get() != Token::None || self.lock.token().try_lock() {
            return true;
        }
        let inside = self.is_inside();
        self.slot.steps_aside();
        self.exit();
        let taken = self.lock.token().lock(patience);
        if taken && inside {
            self.slot.enter(&Forever);
        }
        self.slot.steps_aside();
        taken
    }

    fn return_token(&self) {
        debug_assert_ne!(self.token.get(), Token::None);
        self.token.set(Token::None);
        // SAFETY: this slot has a token, so it has locked the mutex.
        unsafe { self.lock.token().unlock() };
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.release_exclusive();
        self.release_script_token();
        self.exit();
        self.lock.unregister(&self.slot);
    }
}
