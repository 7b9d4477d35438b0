//! All users by name.

use super::DEFAULT_USER;
use super::log::AclLog;
use super::password::Hash;
use super::permissions::Permissions;
use super::rules::RuleError;
use super::user::User;
use crate::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of users.
const USERS_MAX: usize = 65_536;

/// Users of the server, with the log and the counts of denials.
pub struct Users {
    default: Arc<User>,
    /// Whether the default user lacks some permission.
    restricts_default: AtomicBool,
    /// Whether connections are the default user without logging in.
    is_open: AtomicBool,
    /// `acl-pubsub-default` is `allchannels`.
    all_channels: AtomicBool,
    by_name: Mutex<BTreeMap<Box<[u8]>, Arc<User>>>,
    /// Recent denials.
    pub log: AclLog,
    /// Numbers of denials, by [`super::DenialKind`].
    pub(super) refused: [AtomicU64; 5],
}

/// Users affected by loading all users from a file.
pub struct Change {
    /// Removed users. Their connections are closed.
    pub removed: Vec<Arc<User>>,
    /// Users with possibly fewer permissions than before.
    pub changed: Vec<Arc<User>>,
}

/// Error of a change of a user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SetError {
    /// The rule at this position is invalid.
    Rule(usize, RuleError),
    /// The name is empty or contains blanks.
    Name,
    /// The number of users is at its maximum.
    TooMany,
}

impl Users {
    /// Only the default user, with full permissions and without a password.
    pub fn new<H>(registry: &Registry<H>) -> Self {
        let everything = Permissions::everything(registry);
        let default = Arc::new(User::new(DEFAULT_USER, everything, registry));
        Users {
            by_name: Mutex::new(BTreeMap::from([(DEFAULT_USER.into(), default.clone())])),
            default,
            restricts_default: AtomicBool::new(false),
            is_open: AtomicBool::new(true),
            all_channels: AtomicBool::new(false),
            log: AclLog::default(),
            refused: Default::default(),
        }
    }

    /// The internal user of the server, with full permissions. No client can log in as it.
    pub fn nobody_above<H>(registry: &Registry<H>) -> Arc<User> {
        Arc::new(User::new(b"", Permissions::everything(registry), registry))
    }

    /// The user of new connections.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Whether the default user lacks some permission.
    #[inline]
    pub(crate) fn restrict_default(&self) -> bool {
        self.restricts_default.load(Acquire)
    }

    /// Whether connections are the default user without logging in.
    #[inline]
    pub fn are_open(&self) -> bool {
        self.is_open.load(Acquire)
    }

    /// Sets whether new users may use all channels (`acl-pubsub-default`).
    pub fn set_channels_default(&self, all: bool) {
        self.all_channels.store(all, Relaxed);
    }

    /// The user of this name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.by_name().get(name).cloned()
    }

    /// All users in the order of their names.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.by_name().values().cloned().collect()
    }

    /// The user with this name, if it is enabled and accepts the password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let hash = Hash::of(password);
        self.find(name).filter(|user| user.permissions().accept(&hash))
    }

    /// Permissions of a new user.
    pub fn draft<H>(&self, registry: &Registry<H>) -> Permissions {
        Permissions::new(registry, self.all_channels.load(Relaxed))
    }

    /// Applies rules to a user, and creates it first if it does not exist. Returns the user.
    ///
    /// # Errors
    /// Returns an error if the name or a rule is invalid; nothing is changed then.
    pub fn set<H, R: AsRef<[u8]>>(
        &self,
        registry: &Registry<H>,
        name: &[u8],
        rules: &[R],
    ) -> Result<Arc<User>, SetError> {
        let mut by_name = self.by_name();
        let known = by_name.get(name).cloned();
        if known.is_none() {
            check_name(name)?;
            if by_name.len() >= USERS_MAX {
                return Err(SetError::TooMany);
            }
        }
        let mut permissions = match &known {
            Some(user) => Permissions::clone(&user.permissions()),
            None => self.draft(registry),
        };
        self.apply(registry, &mut permissions, rules)?;
        let user = match known {
            Some(user) => {
                self.replace(&user, permissions, registry);
                user
            }
            None => {
                let user = Arc::new(User::new(name, permissions, registry));
                by_name.insert(name.into(), user.clone());
                user
            }
        };
        Ok(user)
    }

    /// Applies rules to permissions.
    ///
    /// # Errors
    /// Returns the invalid rule's position and error. The rules before it have been applied.
    pub fn apply<H, R: AsRef<[u8]>>(
        &self,
        registry: &Registry<H>,
        permissions: &mut Permissions,
        rules: &[R],
    ) -> Result<(), SetError> {
        let all_channels = self.all_channels.load(Relaxed);
        for (i, rule) in rules.iter().enumerate() {
            let applied = permissions.apply(registry, rule.as_ref(), all_channels);
            applied.map_err(|error| SetError::Rule(i, error))?;
        }
        Ok(())
    }

    /// Removes a user, except the default user. Connections of the user lose all permissions.
    pub fn remove<H>(&self, registry: &Registry<H>, name: &[u8]) -> Option<Arc<User>> {
        if name == DEFAULT_USER {
            return None;
        }
        let user = self.by_name().remove(name)?;
        user.set(Permissions::new(registry, false), registry);
        Some(user)
    }

    /// Replaces all users. Creates a default user if there is none among the new ones.
    ///
    /// # Errors
    /// Returns an error for an invalid name or too many users; nothing is changed then.
    pub fn replace_all<H>(
        &self,
        registry: &Registry<H>,
        mut users: BTreeMap<Vec<u8>, Permissions>,
    ) -> Result<Change, SetError> {
        if users.len() > USERS_MAX {
            return Err(SetError::TooMany);
        }
        users.keys().try_for_each(|name| check_name(name))?;
        users.entry(DEFAULT_USER.to_vec()).or_insert_with(|| Permissions::everything(registry));
        let mut by_name = self.by_name();
        let mut change = Change { removed: Vec::new(), changed: Vec::new() };
        by_name.retain(|name, user| {
            let stays = users.contains_key(&**name);
            if !stays {
                user.set(Permissions::new(registry, false), registry);
                change.removed.push(user.clone());
            }
            stays
        });
        for (name, permissions) in users {
            match by_name.get(&*name).cloned() {
                Some(user) => {
                    self.replace(&user, permissions, registry);
                    change.changed.push(user);
                }
                None => {
                    let user = Arc::new(User::new(&name, permissions, registry));
                    by_name.insert(name.into(), user);
                }
            }
        }
        Ok(change)
    }

    /// Makes this the only password of the default user, or requires none if it is empty
    /// (`requirepass`).
    pub fn set_default_password<H>(&self, registry: &Registry<H>, password: &[u8]) {
        let _changing = self.by_name();
        let mut permissions = Permissions::clone(&self.default.permissions());
        permissions.set_password(password);
        self.replace(&self.default, permissions, registry);
    }

    /// Numbers of denials: logins, commands, keys, channels, databases.
    pub fn refused(&self) -> [u64; 5] {
        self.refused.each_ref().map(|count| count.load(Relaxed))
    }

    /// Resets the numbers of denials (`CONFIG RESETSTAT`).
    pub fn reset_refused(&self) {
        self.refused.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Replaces a user's permissions. The names are locked, so changes are sequential.
    fn replace<H>(&self, user: &Arc<User>, permissions: Permissions, registry: &Registry<H>) {
        if !Arc::ptr_eq(user, &self.default) {
            return user.set(permissions, registry);
        }
        let is_open = permissions.are_enabled() && permissions.need_no_password();
        if !permissions.are_everything(registry) {
            self.restricts_default.store(true, Release);
        }
        user.set(permissions, registry);
        self.restricts_default.store(!user.may_do_everything(), Release);
        self.is_open.store(is_open, Release);
    }

    fn by_name(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, Arc<User>>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks a user name. ACL files separate names and rules by blanks.
fn check_name(name: &[u8]) -> Result<(), SetError> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | 0);
    if name.is_empty() || name.iter().any(is_blank) { Err(SetError::Name) } else { Ok(()) }
}
