//! A thread's way into the keyspace, and what it holds there.

use super::gate::{Gate, Slot};
use super::stripe::{StripeLock, WAIT_MAX};
use std::cell::Cell;
use std::sync::Arc;

/// One thread's membership of a [`Gate`].
///
/// A thread enters once per batch of commands, locks the stripes of each command, unlocks them, and
/// leaves. The owner of the pass remembers which stripes it holds; should a command unwind, it
/// unlocks them as if the command had returned. There is no poisoned state.
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

/// See [`Pass::signal`].
pub struct Signal(Arc<Slot>);

impl Signal {
    /// Whether another thread wants, or has, the keyspace for itself.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.0.intent_pending()
    }
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

    /// The same, unless `give_up` comes to say so while it waits: false then, and it is outside.
    #[inline]
    pub fn enter_unless(&self, give_up: impl Fn() -> bool) -> bool {
        self.slot.enter_unless(&give_up)
    }

    /// Goes outside; the caller holds no stripe. Does nothing if outside already.
    #[inline]
    pub fn exit(&self) {
        if self.slot.is_active() {
            self.slot.exit();
        }
    }

    /// Says for the owner whether another thread wants the keyspace for itself: for where the pass
    /// itself is not at hand.
    pub fn signal(&self) -> Signal {
        Signal(self.slot.clone())
    }

    /// Whether this pass is inside.
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

    /// Whether there is anything to be done before the next command: leaving because another waits
    /// for it, or entering because this one is outside. The same load.
    #[inline]
    pub fn is_disturbed(&self) -> bool {
        self.slot.is_disturbed()
    }

    /// Locks one stripe. The caller is inside and holds no stripe.
    ///
    /// While it waits it may leave and enter again: what it read of the keyspace before the lock
    /// must be read again after it.
    #[inline]
    pub fn lock(&self, lock: &StripeLock) {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        if !lock.try_acquire() {
            self.lock_waiting(lock);
        }
    }

    /// The same, unless `give_up` comes to say so while it waits: false then; it holds nothing, and
    /// may be outside.
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

    /// Locks the stripes whose indices are given in strictly ascending order: all of them or, while
    /// it has to give way, none. The same conditions as for [`Self::lock`]; `locks` does not
    /// panic for these indices.
    pub fn lock_many<'a>(&self, locks: impl Fn(usize) -> &'a StripeLock, sorted: &[u32]) {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        debug_assert!(sorted.is_sorted_by(|a, b| a < b));
        self.lock_all_of(locks, sorted, || false);
    }

    /// The same, unless `give_up` comes to say so while it waits: false then; it holds nothing, and
    /// may be outside.
    pub fn lock_many_unless<'a>(
        &self,
        locks: impl Fn(usize) -> &'a StripeLock,
        sorted: &[u32],
        give_up: impl Fn() -> bool,
    ) -> bool {
        debug_assert!(self.is_inside() && !self.is_exclusive());
        debug_assert!(sorted.is_sorted_by(|a, b| a < b));
        self.lock_all_of(locks, sorted, give_up)
    }

    fn lock_all_of<'a>(
        &self,
        locks: impl Fn(usize) -> &'a StripeLock,
        sorted: &[u32],
        give_up: impl Fn() -> bool,
    ) -> bool {
        let lock_at = |position: usize| locks(sorted[position] as usize);
        let mut held = 0;
        while held < sorted.len() {
            let lock = lock_at(held);
            if lock.try_acquire() || lock.acquire(|| self.intent_pending(), &give_up) {
                held += 1;
            } else {
                (0..held).for_each(|position| lock_at(position).unlock());
                held = 0;
                if give_up() || !self.give_way_unless(&give_up) {
                    return false;
                }
            }
        }
        true
    }

    /// Takes the script token, the right to raise the intent: for scripts that may touch keys they
    /// did not declare. The caller holds no stripe, and is inside or outside; inside, it may
    /// leave and enter again, as in [`Self::lock`]. Does nothing if this pass has the token.
    pub fn script_token(&self) {
        self.take_token();
        self.token.set(Token::Script);
    }

    /// The same, unless `give_up` comes to say so while it waits: false then, and it may be
    /// outside.
    pub fn script_token_unless(&self, give_up: impl Fn() -> bool) -> bool {
        let taken = self.take_token_unless(&give_up);
        if taken {
            self.token.set(Token::Script);
        }
        taken
    }

    /// Takes the script token if it is free at once; the caller may hold stripes. True if this pass
    /// has it.
    pub fn try_script_token(&self) -> bool {
        if self.token.get() == Token::None && !self.gate.token().try_lock() {
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

    /// Whether this pass owns the whole keyspace, and so needs no stripe.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.get()
    }

    /// Waits till every other thread is outside and owns the keyspace until
    /// [`Self::release_exclusive`]. The caller holds no stripe; it stays inside or outside as
    /// it was. Does nothing if it is the owner already.
    pub fn exclusive(&self) {
        self.raise(|_| {});
    }

    /// The same, unless `give_up` comes to say so while it waits: false then, and it may be
    /// outside.
    pub fn exclusive_unless(&self, give_up: impl Fn() -> bool) -> bool {
        self.raise_unless(|_| {}, &give_up)
    }

    /// The same for a caller that has the script token and holds these stripes: a thread that waits
    /// for them gives way. They stay held, and may be unlocked during the ownership or after
    /// it.
    pub fn exclusive_holding<'a>(&self, locks: impl Fn(usize) -> &'a StripeLock, held: &[u32]) {
        debug_assert!(self.exclusive.get() || self.token.get() == Token::Script);
        self.raise(|act| held.iter().for_each(|&index| act(locks(index as usize))));
    }

    /// The same, unless `give_up` comes to say so while it waits: false then; it holds what it
    /// held, and is inside.
    pub fn exclusive_holding_unless<'a>(
        &self,
        locks: impl Fn(usize) -> &'a StripeLock,
        held: &[u32],
        give_up: impl Fn() -> bool,
    ) -> bool {
        debug_assert!(self.exclusive.get() || self.token.get() == Token::Script);
        let act_on_held =
            |act: fn(&StripeLock)| held.iter().for_each(|&index| act(locks(index as usize)));
        self.raise_unless(act_on_held, &give_up)
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

    /// While the intent is up no thread comes inside, and a thread that waits for a held stripe
    /// goes outside; so when this is given up the others go on from there.
    fn raise_unless(
        &self,
        for_each_held: impl Fn(fn(&StripeLock)),
        give_up: &dyn Fn() -> bool,
    ) -> bool {
        if self.exclusive.get() {
            return true;
        }
        if self.token.get() == Token::None {
            if !self.take_token_unless(give_up) {
                return false;
            }
            self.token.set(Token::Exclusive);
        }
        self.gate.raise(&self.slot);
        for_each_held(StripeLock::nudge);
        let drained = self.gate.drain_unless(&self.slot, give_up);
        for_each_held(StripeLock::calm);
        if drained {
            self.exclusive.set(true);
            return true;
        }
        self.gate.lower(&self.slot);
        if self.token.get() == Token::Exclusive {
            self.return_token();
        }
        false
    }

    #[cold]
    fn lock_waiting_unless(&self, lock: &StripeLock, give_up: impl Fn() -> bool) -> bool {
        loop {
            if lock.acquire(|| self.intent_pending(), &give_up) {
                return true;
            }
            if give_up() || !self.give_way_unless(&give_up) {
                return false;
            }
        }
    }

    #[cold]
    fn lock_waiting(&self, lock: &StripeLock) {
        while !lock.acquire(|| self.intent_pending(), || false) {
            self.give_way();
        }
    }

    /// Lets the raiser have the keyspace. This pass holds no stripe.
    #[cold]
    fn give_way(&self) {
        self.exit();
        self.enter();
    }

    /// The same, unless `give_up` comes to say so: false then, and this pass is outside.
    #[cold]
    fn give_way_unless(&self, give_up: &dyn Fn() -> bool) -> bool {
        self.exit();
        self.slot.enter_unless(give_up)
    }

    /// Sleeps outside, since the holder of the token may be waiting for all others to be there.
    /// Entering again is immediate: only the holder raises, and that is now this pass.
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

    fn take_token_unless(&self, give_up: &dyn Fn() -> bool) -> bool {
        if self.token.get() != Token::None || self.gate.token().try_lock() {
            return true;
        }
        let inside = self.is_inside();
        self.exit();
        let taken = self.gate.token().lock_unless(WAIT_MAX, give_up);
        if taken && inside {
            self.enter();
        }
        taken
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
