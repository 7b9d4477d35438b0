//! A thread's way into the keyspace, and what it holds there.

use super::gate::{Gate, Slot};
use super::stripe::StripeLock;
use std::cell::Cell;
use std::sync::Arc;

/// One thread's membership of a [`Gate`].
///
/// A thread enters once per batch of commands, locks the stripes of each command, unlocks them, and leaves. The owner
/// of the pass remembers which stripes it holds; should a command unwind, it unlocks them as if the command had
/// returned. There is no poisoned state.
pub struct Pass {
    gate: Arc<Gate>,
    slot: Arc<Slot>,
    token: Cell<Token>,
    exclusive: Cell<bool>,
}

/// Whether the pass holds the script token, and what for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token {
    None,
    /// Until [`Pass::release_script_token`].
    Script,
    /// Until [`Pass::release_exclusive`].
    Exclusive,
}

impl Pass {
    pub(super) fn new(gate: Arc<Gate>, slot: Arc<Slot>) -> Self {
        Pass { gate, slot, token: Cell::new(Token::None), exclusive: Cell::new(false) }
    }

    /// Goes inside, after any exclusive owner has finished. Does nothing if inside already.
    #[inline]
    pub fn enter(&self) {
        self.slot.enter();
    }

    /// Goes outside; the caller holds no stripe. Does nothing if outside already.
    #[inline]
    pub fn exit(&self) {
        if self.slot.is_active() {
            self.slot.exit();
        }
    }

    /// Whether this pass is inside.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.slot.is_active()
    }

    /// Whether another thread waits for this one to leave: one load of this thread's own line. A long batch polls it
    /// between commands and, if true, exits and enters.
    #[inline]
    pub fn intent_pending(&self) -> bool {
        self.slot.intent_pending()
    }

    /// Locks one stripe. The caller is inside and holds no stripe.
    ///
    /// While it waits it may leave and enter again: what it read of the keyspace before the lock must be read
    /// again after it.
    #[inline]
    pub fn lock(&self, lock: &StripeLock) {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        if !lock.try_acquire() {
            self.lock_waiting(lock);
        }
    }

    /// The same, unless `give_up` comes to say so while it waits; then it holds nothing, and the answer is false.
    #[inline]
    pub fn lock_unless(&self, lock: &StripeLock, give_up: impl Fn() -> bool) -> bool {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        lock.try_acquire() || self.lock_waiting_unless(lock, give_up)
    }

    /// Locks one stripe if it is free at once. The caller is inside, and may hold other stripes.
    #[inline]
    pub fn try_lock(&self, lock: &StripeLock) -> bool {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        lock.try_acquire()
    }

    /// Locks the stripes whose indices are given in strictly ascending order: all of them or, while it has to give
    /// way, none. The same conditions as for [`Self::lock`]; `locks` does not panic for these indices.
    pub fn lock_many<'a>(&self, locks: impl Fn(usize) -> &'a StripeLock, sorted: &[u32]) {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        debug_assert!(sorted.is_sorted_by(|a, b| a < b));
        let lock_at = |position: usize| locks(sorted[position] as usize);
        let mut held = 0;
        while held < sorted.len() {
            let lock = lock_at(held);
            if lock.try_acquire() || lock.acquire(|| self.intent_pending()) {
                held += 1;
            } else {
                (0..held).for_each(|position| lock_at(position).unlock());
                held = 0;
                self.give_way();
            }
        }
    }

    /// Takes the script token, the right to raise the intent: for scripts that may touch keys they did not declare.
    /// The caller holds no stripe, and is inside or outside; inside, it may leave and enter again, as in
    /// [`Self::lock`]. Does nothing if this pass has the token.
    pub fn script_token(&self) {
        self.take_token();
        self.token.set(Token::Script);
    }

    /// Takes the script token if it is free at once; the caller may hold stripes. True if this pass has it.
    pub fn try_script_token(&self) -> bool {
        if self.token.get() == Token::None && !self.gate.token().try_lock() {
            return false;
        }
        self.token.set(Token::Script);
        true
    }

    /// Returns the script token; during an exclusive ownership, at its end. Does nothing without the token.
    pub fn release_script_token(&self) {
        match self.token.get() {
            Token::Script if self.exclusive.get() => self.token.set(Token::Exclusive),
            Token::Script => self.return_token(),
            Token::None | Token::Exclusive => {}
        }
    }

    /// Whether this pass owns the whole keyspace, and so needs no stripe.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.get()
    }

    /// Waits till every other thread is outside and owns the keyspace until [`Self::release_exclusive`]. The caller
    /// holds no stripe; it stays inside or outside as it was. Does nothing if it is the owner already.
    pub fn exclusive(&self) {
        self.raise(|_| {});
    }

    /// The same for a caller that has the script token and holds these stripes: who waits for them gives way. They
    /// stay held, and may be unlocked during the ownership or after it.
    pub fn exclusive_holding<'a>(&self, locks: impl Fn(usize) -> &'a StripeLock, held: &[u32]) {
        debug_assert!(self.exclusive.get() || self.token.get() == Token::Script);
        self.raise(|act| held.iter().for_each(|&index| act(locks(index as usize))));
    }

    /// Ends the ownership. Does nothing if this pass is not the owner.
    pub fn release_exclusive(&self) {
        if !self.exclusive.replace(false) {
            return;
        }
        self.gate.lower(&self.slot);
        // Only now, so that there is never a second intent beside this one.
        if self.token.get() == Token::Exclusive {
            self.return_token();
        }
    }

    fn raise(&self, for_each_held: impl Fn(fn(&StripeLock))) {
        if self.exclusive.get() {
            return;
        }
        if self.token.get() == Token::None {
            self.take_token();
            self.token.set(Token::Exclusive);
        }
        self.gate.raise(&self.slot);
        for_each_held(StripeLock::nudge);
        self.gate.drain(&self.slot);
        for_each_held(StripeLock::calm);
        self.exclusive.set(true);
    }

    #[cold]
    fn lock_waiting_unless(&self, lock: &StripeLock, give_up: impl Fn() -> bool) -> bool {
        loop {
            if lock.acquire(|| self.intent_pending() || give_up()) {
                return true;
            }
            if give_up() {
                return false;
            }
            self.give_way();
        }
    }

    #[cold]
    fn lock_waiting(&self, lock: &StripeLock) {
        while !lock.acquire(|| self.intent_pending()) {
            self.give_way();
        }
    }

    /// Lets the raiser have the keyspace. This pass holds no stripe.
    #[cold]
    fn give_way(&self) {
        self.exit();
        self.enter();
    }

    /// Sleeps outside, since the holder of the token may be waiting for all others to be there. Entering again
    /// is immediate: only the holder raises, and that is now this pass.
    fn take_token(&self) {
        if self.token.get() != Token::None || self.gate.token().try_lock() {
            return;
        }
        let inside = self.is_inside();
        self.exit();
        self.gate.token().lock();
        if inside {
            self.enter();
        }
    }

    fn return_token(&self) {
        debug_assert_ne!(self.token.get(), Token::None);
        self.token.set(Token::None);
        // SAFETY: this pass locked it, since it had a token.
        unsafe { self.gate.token().unlock() };
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.release_exclusive();
        self.release_script_token();
        self.exit();
        self.gate.unregister(&self.slot);
    }
}
