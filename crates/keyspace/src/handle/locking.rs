//! Locks and unlocks stripes and the whole keyspace.

use super::Handle;
use crate::state::locks::HeldStripes;
use crate::state::stripe::StripeData;
use crate::structures::key_hash::KeyHash;
use petrel_lock::{Forever, Others, Patience};

impl Handle {
    /// True while the thread holds any stripe.
    #[inline]
    pub fn holds_any(&self) -> bool {
        self.locks.holds_any()
    }

    /// True if the stripe of `hash` is held.
    #[inline]
    pub fn holds(&self, hash: KeyHash) -> bool {
        self.locks.holds(hash.stripe())
    }

    /// Called after stripes were locked: the keyspace may have got other sinks during the wait.
    #[inline]
    pub(crate) fn see_sinks(&mut self) {
        if self.ks.sinks.version() != self.observers.sinks_seen {
            self.renew_observers();
        }
    }

    #[inline]
    fn see_sinks_if(&mut self, locked: bool) -> bool {
        if locked {
            self.see_sinks();
        }
        locked
    }

    /// The other threads that may be within a command now: later commands see all writes that the
    /// caller has made so far.
    pub fn others_within(&self) -> Others {
        self.locks.pass().others_within()
    }

    /// Locks the stripe of one key. The thread is in a batch and holds nothing.
    #[inline]
    pub fn lock(&mut self, hash: KeyHash) {
        self.lock_stripe(hash.stripe(), Forever);
    }

    /// Like [`Handle::lock`], but returns false (nothing locked) once the patience is over: once
    /// `give_up`, a closure, returns true during the wait. The thread may then be
    /// [outside](Handle::is_outside).
    #[inline]
    pub fn lock_unless(&mut self, hash: KeyHash, give_up: impl Patience) -> bool {
        self.lock_stripe(hash.stripe(), give_up)
    }

    #[inline]
    pub(crate) fn lock_stripe(&mut self, stripe: u32, patience: impl Patience) -> bool {
        let locked = self.locks.lock(&self.ks.stripes, stripe, patience);
        self.see_sinks_if(locked)
    }

    /// Locks the stripes of many keys, all before the command runs. The thread holds nothing.
    pub fn lock_many(&mut self, hashes: impl Iterator<Item = KeyHash>) {
        self.lock_many_unless(hashes, Forever);
    }

    /// Like [`Handle::lock_many`], but gives up as [`Handle::lock_unless`] does.
    pub fn lock_many_unless(
        &mut self,
        hashes: impl Iterator<Item = KeyHash>,
        give_up: impl Patience,
    ) -> bool {
        let locked = self.locks.lock_many(&self.ks.stripes, hashes, give_up);
        self.see_sinks_if(locked)
    }

    /// Takes the exclusive lock: waits until every other thread has left, and keeps them out. The
    /// thread holds nothing.
    pub fn lock_all(&mut self) {
        self.lock_all_unless(Forever);
    }

    /// Like [`Handle::lock_all`], but gives up as [`Handle::lock_unless`] does.
    pub fn lock_all_unless(&mut self, give_up: impl Patience) -> bool {
        let locked = self.locks.lock_all(&self.ks.stripes, give_up);
        self.see_sinks_if(locked)
    }

    /// Takes the token that lets a thread lock the rest of the keyspace while it holds stripes; one
    /// thread has it at a time. The thread holds nothing; it keeps the token until
    /// [`Handle::release_token`]. Gives up as [`Handle::lock_unless`] does.
    pub fn take_token_unless(&mut self, give_up: impl Patience) -> bool {
        debug_assert!(!self.locks.holds_any());
        self.release_kept();
        self.locks.pass().script_token(give_up)
    }

    /// Like [`Handle::take_token_unless`], but does not wait, so that the thread may hold stripes.
    /// False if another thread has the token.
    pub fn try_take_token(&mut self) -> bool {
        self.locks.pass().try_script_token()
    }

    /// Gives the token of [`Handle::take_token_unless`] back, if the thread has it.
    pub fn release_token(&mut self) {
        self.locks.pass().release_script_token();
    }

    /// Locks the rest of the keyspace. The stripes already held stay locked throughout: other
    /// threads waiting for the rest back off. The thread has the token of
    /// [`Handle::take_token_unless`]. False, with the same locks as before, if `give_up` returned
    /// true during the wait.
    pub fn lock_rest_unless(&mut self, give_up: impl Patience) -> bool {
        let locked = self.locks.lock_rest(&self.ks.stripes, give_up);
        self.see_sinks_if(locked)
    }

    /// Unlocks every stripe, then frees the values replaced under the locks.
    #[inline(always)]
    pub fn unlock(&mut self) {
        if self.observers.bits != 0 {
            return self.unlock_observed();
        }
        self.locks.unlock(&self.ks.stripes);
        if self.deferred.is_due() {
            self.free_deferred();
        }
    }

    /// Like [`Handle::unlock`], with changes to commit: those of documents are copied under the
    /// locks, and applied to their indexes after the unlock.
    #[inline(never)]
    fn unlock_observed(&mut self) {
        self.commit();
        let has_documents = self.copy_documents();
        self.locks.unlock(&self.ks.stripes);
        if has_documents {
            self.apply_documents();
        }
        if self.deferred.is_due() {
            self.free_deferred();
        }
    }

    /// Begins to keep stripes: one for which other threads wait may stay locked from one command of
    /// a batch to the next. So they are woken once, not after each command.
    #[inline]
    pub fn keep(&mut self) {
        self.locks.keep();
    }

    /// Ends [`Handle::keep`]: no stripe is locked between commands. A thread that waits may be
    /// woken only later, at the end of the batch at the latest.
    #[inline]
    pub fn keep_no_more(&mut self) {
        self.locks.keep_no_more(&self.ks.stripes);
    }

    /// Unlocks a [kept](Handle::keep) stripe, and wakes a thread that waits for it: before the
    /// thread waits for anything itself.
    #[inline]
    pub fn release_kept(&mut self) {
        self.locks.release_kept(&self.ks.stripes);
    }

    /// Whether a stripe is [kept](Handle::keep), or a thread that waits for it still to be woken.
    #[cfg(test)]
    fn is_kept(&self) -> bool {
        self.locks.is_kept()
    }

    /// Whether exactly one stripe is held.
    pub(crate) fn holds_one_stripe(&self) -> bool {
        matches!(self.locks.held(), HeldStripes::One(_))
    }

    /// Whether every stripe is held.
    #[inline]
    pub fn holds_everything(&self) -> bool {
        self.locks.held() == HeldStripes::All
    }

    /// Whether `test` is true for any stripe that is held.
    #[inline]
    pub(crate) fn any_held(&self, mut test: impl FnMut(&StripeData) -> bool) -> bool {
        match self.locks.held() {
            HeldStripes::Nothing => false,
            HeldStripes::One(stripe) => test(self.stripe_at(stripe)),
            HeldStripes::Many => {
                self.locks.many().iter().any(|&stripe| test(self.stripe_at(stripe)))
            }
            HeldStripes::All => {
                (0..self.ks.stripes.len()).any(|stripe| test(self.stripe_at(stripe as u32)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Keyspace, Options};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    #[test]
    fn a_stripe_that_others_wait_for_is_kept_within_a_batch_only() {
        let ks = Keyspace::new(&Options { stripes: 4, ..Options::default() });
        let mut own = ks.attach();
        let hash = own.hash(b"key");
        let mut hashes = (0..).map(|n: u32| own.hash(&n.to_le_bytes()));
        let other = hashes.find(|other| other.stripe() != hash.stripe()).unwrap();
        let (ends, is_held) = (AtomicBool::new(false), AtomicBool::new(false));
        let hold = || {
            assert!(!is_held.swap(true, Relaxed));
            thread::yield_now();
            assert!(is_held.swap(false, Relaxed));
        };
        thread::scope(|scope| {
            for takes_all in [false, false, true] {
                let (ks, ends, hold) = (&ks, &ends, &hold);
                scope.spawn(move || {
                    let mut waiter = ks.attach();
                    while !ends.load(Relaxed) {
                        waiter.enter();
                        match takes_all {
                            false => waiter.lock(hash),
                            true => waiter.lock_all(),
                        }
                        hold();
                        waiter.unlock();
                        waiter.exit();
                        thread::yield_now();
                    }
                });
            }
            let (mut locked, mut owed, mut given_up) = (0, 0, 0);
            while locked == 0 || owed == 0 || given_up == 0 {
                own.enter();
                own.keep();
                for _ in 0..16 {
                    own.lock(hash);
                    hold();
                    own.unlock();
                    locked += usize::from(own.is_kept());
                }
                if own.is_kept() && given_up == 0 {
                    own.lock(other);
                    assert!(!own.is_kept(), "a stripe is kept beside another");
                    own.unlock();
                    given_up += 1;
                }
                own.keep_no_more();
                owed += usize::from(own.is_kept());
                own.exit();
                assert!(!own.is_kept(), "a stripe is kept beyond the batch");
            }
            ends.store(true, Relaxed);
        });
    }
}
