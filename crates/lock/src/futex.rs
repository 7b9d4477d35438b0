//! Primitives below the locks: a futex word, a mutex, and the raw mutex behind the script token.
//!
//! The features `shuttle` and `loom` replace all three by the scheduler's own, so that the models
//! run the code of this module's siblings unchanged. A modelled wait has no time limit: there, a
//! lost wake-up is a deadlock.

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(super) use native::{Futex, Mutex, RawMutex, SPINS, Wait};

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(super) use modelled::{Futex, Mutex, RawMutex, SPINS, Wait};

/// Reason that a wait on a [`Futex`] returned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Woken {
    /// A thread woke the word, its value was not the expected one, or the kernel returned early.
    Maybe,
    /// The time limit ran out.
    TimedOut,
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native {
    use super::Woken;
    use crate::patience::Patience;
    use parking_lot::lock_api::{RawMutex as _, RawMutexTimed as _};
    use std::ops::Deref;
    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    /// Wait after which the lock is left to a waiter.
    const LONG: Duration = Duration::from_micros(500);

    /// Number of checks of a word before sleeping, each after one pause (tens of nanoseconds).
    pub(in super::super) const SPINS: u32 = 40;

    pub(in super::super) type Mutex<T> = parking_lot::Mutex<T>;

    /// Time for which a thread has waited.
    pub(in super::super) struct Wait(Instant);

    impl Wait {
        pub fn begin() -> Self {
            Wait(Instant::now())
        }

        /// Whether it has waited for long.
        pub fn is_long(&mut self) -> bool {
            self.0.elapsed() >= LONG
        }
    }

    /// A word to sleep on (futex(2), private to the process).
    #[derive(Debug)]
    #[repr(transparent)]
    pub(in super::super) struct Futex(AtomicU32);

    impl Futex {
        pub const fn new(value: u32) -> Self {
            Futex(AtomicU32::new(value))
        }

        /// Sleeps if the word still has the value `expected`, until a wake-up or the limit.
        pub fn wait(&self, expected: u32, limit: Option<Duration>) -> Woken {
            let timeout = limit.map(|limit| libc::timespec {
                tv_sec: limit.as_secs() as libc::time_t,
                tv_nsec: libc::c_long::from(limit.subsec_nanos()),
            });
            let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word and the timeout are live for the whole call; the kernel only reads
            // them.
            let result = unsafe {
                libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, expected, timeout)
            };
            let timed_out = result < 0
                && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT);
            if timed_out { Woken::TimedOut } else { Woken::Maybe }
        }

        /// Wakes a sleeper; false if there is none.
        pub fn wake_one(&self) -> bool {
            self.wake(1) > 0
        }

        pub fn wake_all(&self) {
            self.wake(i32::MAX);
        }

        #[cold]
        fn wake(&self, threads: i32) -> libc::c_long {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the kernel uses the address as a key only and accesses nothing of ours.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, threads) }
        }
    }

    impl Deref for Futex {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.0
        }
    }

    /// A mutex without data. Eventually fair, so that a busy thread cannot starve the others.
    pub(in super::super) struct RawMutex(parking_lot::RawMutex);

    impl RawMutex {
        pub const fn new() -> Self {
            RawMutex(parking_lot::RawMutex::INIT)
        }

        pub fn try_lock(&self) -> bool {
            self.0.try_lock()
        }

        /// Waits for the mutex. Returns false if the patience is over.
        pub fn lock<P: Patience>(&self, patience: &P) -> bool {
            let Some(pause) = P::CHECK_EVERY else {
                self.0.lock();
                return true;
            };
            while !self.0.try_lock_for(pause) {
                if patience.is_over() {
                    return false;
                }
            }
            true
        }

        /// # Safety
        /// The caller holds the mutex.
        pub unsafe fn unlock(&self) {
            // SAFETY: the caller's promise.
            unsafe { self.0.unlock() }
        }
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod modelled {
    use super::Woken;
    use crate::patience::Patience;
    #[cfg(feature = "loom")]
    use loom::sync;
    #[cfg(not(feature = "loom"))]
    use shuttle::sync;
    use std::ops::Deref;
    use std::sync::PoisonError;
    use std::time::Duration;
    use sync::atomic::AtomicU32;

    pub(in super::super) const SPINS: u32 = 1;

    /// In the model, a thread has waited for long once it has slept.
    pub(in super::super) struct Wait {
        has_slept: bool,
    }

    impl Wait {
        pub fn begin() -> Self {
            Wait { has_slept: false }
        }

        pub fn is_long(&mut self) -> bool {
            std::mem::replace(&mut self.has_slept, true)
        }
    }

    pub(in super::super) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Mutex(sync::Mutex::new(value))
        }

        pub fn lock(&self) -> sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A futex as the kernel implements it: comparison and queueing are one step under the bucket's
    /// lock.
    pub(in super::super) struct Futex {
        word: AtomicU32,
        /// Number of sleepers that were not woken.
        bucket: Mutex<usize>,
        sleepers: sync::Condvar,
    }

    impl Futex {
        pub fn new(value: u32) -> Self {
            Futex {
                word: AtomicU32::new(value),
                bucket: Mutex::new(0),
                sleepers: sync::Condvar::new(),
            }
        }

        pub fn wait(&self, expected: u32, _limit: Option<Duration>) -> Woken {
            let mut bucket = self.bucket.lock();
            if self.word.load(sync::atomic::Ordering::Relaxed) == expected {
                *bucket += 1;
                drop(self.sleepers.wait(bucket).unwrap_or_else(PoisonError::into_inner));
            }
            Woken::Maybe
        }

        pub fn wake_one(&self) -> bool {
            let mut bucket = self.bucket.lock();
            let has_sleepers = *bucket > 0;
            *bucket = bucket.saturating_sub(1);
            self.sleepers.notify_one();
            has_sleepers
        }

        pub fn wake_all(&self) {
            let mut bucket = self.bucket.lock();
            *bucket = 0;
            self.sleepers.notify_all();
        }
    }

    impl Deref for Futex {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.word
        }
    }

    pub(in super::super) struct RawMutex {
        held: Mutex<bool>,
        free: sync::Condvar,
    }

    impl RawMutex {
        pub fn new() -> Self {
            RawMutex { held: Mutex::new(false), free: sync::Condvar::new() }
        }

        pub fn try_lock(&self) -> bool {
            !std::mem::replace(&mut *self.held.lock(), true)
        }

        /// In the model, the patience is checked whenever the thread would sleep.
        pub fn lock(&self, patience: &impl Patience) -> bool {
            let mut held = self.held.lock();
            while *held {
                if patience.is_over() {
                    return false;
                }
                held = self.free.wait(held).unwrap_or_else(PoisonError::into_inner);
            }
            *held = true;
            true
        }

        /// # Safety
        /// The caller holds the mutex.
        pub unsafe fn unlock(&self) {
            *self.held.lock() = false;
            self.free.notify_one();
        }
    }
}
