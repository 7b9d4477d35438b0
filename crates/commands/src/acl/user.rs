//! Users: a name and the current permissions.

use super::permissions::Permissions;
use crate::registry::Registry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, PoisonError, RwLock};

/// Origin of a session's permissions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// The default user.
    #[default]
    Default,
    /// The user in [`Extras::user`](crate::Extras::user).
    User,
    /// No user: not authenticated.
    Unauthenticated,
}

/// A user. Connections refer to it, so all of them see a change of its permissions at once.
pub struct User {
    name: Box<[u8]>,
    permissions: RwLock<Arc<Permissions>>,
    /// Incremented after every change.
    version: AtomicU64,
    everything: AtomicBool,
}

impl User {
    /// A user with these permissions.
    pub(super) fn new<H>(name: &[u8], permissions: Permissions, registry: &Registry<H>) -> Self {
        User {
            name: name.into(),
            everything: AtomicBool::new(permissions.are_everything(registry)),
            permissions: RwLock::new(Arc::new(permissions)),
            version: AtomicU64::new(0),
        }
    }

    /// Name of the user.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Current permissions.
    pub fn permissions(&self) -> Arc<Permissions> {
        self.permissions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Version of the permissions; changes whenever they change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Whether it has full permissions.
    #[inline]
    pub fn may_do_everything(&self) -> bool {
        self.everything.load(Acquire)
    }

    pub(super) fn set<H>(&self, permissions: Permissions, registry: &Registry<H>) {
        let everything = permissions.are_everything(registry);
        // During the change the user has full permissions only if both the old and the new ones are
        // full.
        if !everything {
            self.everything.store(false, Release);
        }
        *self.permissions.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(permissions);
        self.version.fetch_add(1, Release);
        self.everything.store(everything, Release);
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({})", self.name.escape_ascii())
    }
}

/// Permissions cached by a thread, with their version.
pub(crate) struct Seen {
    pub(super) user: Arc<User>,
    pub(super) version: u64,
    pub(super) permissions: Arc<Permissions>,
}
