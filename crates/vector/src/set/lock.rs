//! Lock of a set: any number of readers, and one writer that first reads concurrently with them and
//! then upgrades to exclusive access.
//!
//! The feature `shuttle` replaces it by the scheduler's own, so that the model runs the code of
//! this module's siblings unchanged. There a reader that yields to others always releases the lock.

#[cfg(not(feature = "shuttle"))]
pub(super) use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard};

#[cfg(feature = "shuttle")]
pub(super) use modelled::{Mutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard};

/// Number of nodes processed before the lock is released; 1 in the model.
pub(super) const fn hold(nodes: usize) -> usize {
    if cfg!(feature = "shuttle") { 1 } else { nodes }
}

#[cfg(feature = "shuttle")]
mod modelled {
    use shuttle::sync;
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;

    #[derive(Debug, Default)]
    pub struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A writer holds the mutex throughout, and excludes readers only while it changes data.
    #[derive(Debug)]
    pub struct RwLock<T> {
        writer: Mutex<()>,
        inner: sync::RwLock<T>,
    }

    /// Guard of a reader; the inner guard is absent only within [`RwLockReadGuard::unlocked`].
    pub struct RwLockReadGuard<'a, T> {
        lock: &'a RwLock<T>,
        guard: Option<sync::RwLockReadGuard<'a, T>>,
    }

    /// Guard of a writer while it reads.
    pub struct RwLockUpgradableReadGuard<'a, T> {
        guard: RwLockReadGuard<'a, T>,
        writer: sync::MutexGuard<'a, ()>,
    }

    /// Guard of a writer with exclusive access.
    pub struct RwLockWriteGuard<'a, T> {
        guard: sync::RwLockWriteGuard<'a, T>,
        _writer: sync::MutexGuard<'a, ()>,
    }

    impl<T> RwLock<T> {
        pub fn new(inner: T) -> Self {
            RwLock { writer: Mutex::default(), inner: sync::RwLock::new(inner) }
        }

        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            RwLockReadGuard { lock: self, guard: Some(self.shared()) }
        }

        pub fn upgradable_read(&self) -> RwLockUpgradableReadGuard<'_, T> {
            let writer = self.writer.lock();
            RwLockUpgradableReadGuard { guard: self.read(), writer }
        }

        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.exclusive(self.writer.lock())
        }

        fn shared(&self) -> sync::RwLockReadGuard<'_, T> {
            self.inner.read().unwrap_or_else(PoisonError::into_inner)
        }

        fn exclusive<'a>(&'a self, writer: sync::MutexGuard<'a, ()>) -> RwLockWriteGuard<'a, T> {
            let guard = self.inner.write().unwrap_or_else(PoisonError::into_inner);
            RwLockWriteGuard { guard, _writer: writer }
        }
    }

    impl<T> RwLockReadGuard<'_, T> {
        pub fn unlocked<R>(this: &mut Self, meanwhile: impl FnOnce() -> R) -> R {
            this.guard = None;
            let result = meanwhile();
            this.guard = Some(this.lock.shared());
            result
        }
    }

    impl<'a, T> RwLockUpgradableReadGuard<'a, T> {
        pub fn upgrade(this: Self) -> RwLockWriteGuard<'a, T> {
            let lock = this.guard.lock;
            drop(this.guard);
            lock.exclusive(this.writer)
        }
    }

    impl<T> Deref for RwLockReadGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.guard
                .as_ref()
                .expect("a guard is taken out by `unlocked` only, which puts one back")
        }
    }

    impl<T> Deref for RwLockUpgradableReadGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> Deref for RwLockWriteGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> DerefMut for RwLockWriteGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }
}
