//! [`Engine`]: a keyspace of the process, with its users and limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use petrel_client::{Error, ErrorKind, Result};
use petrel_commands::acl::DEFAULT_USER;
use petrel_commands::{CommandSpec, FAMILIES, Registry, Shared, server::memory};
use petrel_keyspace::{Keyspace, Options, Policy};
use petrel_table::commands as meta;

use crate::client::{Embedded, Login};
use crate::upkeep::Upkeep;

/// The part of `MEMORY` that needs no server.
static MEMORY: &[CommandSpec] = &[CommandSpec::container(
    &meta::MEMORY,
    &[CommandSpec::new(&meta::MEMORY_USAGE, memory::usage)],
)];

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Databases, at least 1.
    pub databases: u16,
    /// Bytes that keys and values may take; 0: any number. A small keyspace is made of fewer
    /// parts, which leaves more of the memory to keys and values.
    pub memory_max: u64,
    /// Eviction policy once the limit is reached.
    pub eviction: Policy,
}

/// A keyspace's options for a memory limit, if there is one.
fn stripes(memory_max: u64) -> Options {
    if memory_max > 0 { Options::for_bytes(memory_max) } else { Options::default() }
}

impl Default for EngineOptions {
    /// 16 databases, no limit.
    fn default() -> Self {
        Self { databases: 16, memory_max: 0, eviction: Policy::NoEviction }
    }
}

/// Statistics of the calls of one command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CommandStatistics {
    /// Calls that were executed.
    pub calls: u64,
    /// Nanoseconds that they took.
    pub nanoseconds: u64,
    /// Calls that were refused before they began: permissions, memory, number of arguments.
    pub rejected: u64,
    /// Calls that were answered with an error.
    pub failed: u64,
}

/// A keyspace in this process. It is cheap to clone; its data is freed when the last clone and the
/// last client are gone, and the threads that have used it have ended or used another engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// State shared by an engine's clones and clients.
pub(crate) struct Core {
    /// Tells engines apart in what threads keep.
    pub(crate) id: u64,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) upkeep: Upkeep,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("id", &self.core.id).finish_non_exhaustive()
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(EngineOptions::default())
    }
}

impl Engine {
    /// Creates an empty keyspace, and a thread that removes expired keys from it.
    pub fn new(options: EngineOptions) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let databases = options.databases;
        let keyspace = Keyspace::new(&Options { databases, ..stripes(options.memory_max) });
        keyspace.set_memory_limit(options.memory_max, options.eviction);
        let shared = Shared::new(Registry::new(&[FAMILIES, &[MEMORY]].concat()));
        let upkeep = Upkeep::begin(&keyspace, &shared);
        let id = IDS.fetch_add(1, Relaxed);
        Self { core: Arc::new(Core { id, keyspace, shared, upkeep }) }
    }

    /// A client that acts as the default user, in database 0. Once the default user has a password
    /// its commands are refused, as those of a connection that has not logged in.
    pub fn client(&self) -> Embedded {
        let login = match self.core.shared.users.are_open() {
            true => Login::Default,
            false => Login::Unauthenticated,
        };
        Embedded::new(self.core.clone(), login)
    }

    /// A client that acts as a user, in database 0.
    ///
    /// # Errors
    /// `WRONGPASS` if there is no such user, it is turned off, or has another password.
    pub fn client_as(&self, user: &str, password: &str) -> Result<Embedded> {
        let users = &self.core.shared.users;
        let user = users.authenticate(user.as_bytes(), password.as_bytes()).ok_or_else(|| {
            let text = "WRONGPASS invalid username-password pair or user is disabled.";
            let (code, message) = ("WRONGPASS".to_owned(), text.to_owned());
            Error::from(ErrorKind::Server { code, message })
        })?;
        let login = match user.name() == DEFAULT_USER {
            true => Login::Default,
            false => Login::User(user),
        };
        Ok(Embedded::new(self.core.clone(), login))
    }

    /// Changes a user by rules, and makes it if there is none: `["on", ">secret", "~cache:*",
    /// "+@read"]`, as `ACL SETUSER` takes them. It holds for the clients that there are, too.
    ///
    /// # Errors
    /// A name or a rule that makes no sense; nothing has changed then.
    pub fn set_user(&self, name: &str, rules: &[&str]) -> Result<()> {
        let shared = &self.core.shared;
        match shared.users.set(&shared.registry, name.as_bytes(), rules) {
            Ok(_) => Ok(()),
            Err(error) => {
                let text = match error {
                    petrel_commands::acl::SetError::Rule(at, error) => {
                        format!("rule {at} of a user: {}", error.text())
                    }
                    petrel_commands::acl::SetError::Name => "no name of a user".to_owned(),
                    petrel_commands::acl::SetError::TooMany => "too many users".to_owned(),
                };
                Err(ErrorKind::Configuration(text).into())
            }
        }
    }

    /// Sets the memory limit of keys and values in bytes (0: none), and the eviction policy.
    pub fn limit_memory(&self, bytes: u64, eviction: Policy) {
        self.core.keyspace.set_memory_limit(bytes, eviction);
    }

    /// Bytes that keys and values take.
    pub fn memory_used(&self) -> u64 {
        self.core.keyspace.stats().used
    }

    /// The calls of a command, `get` or `memory|usage`, by all threads; none if there is no such
    /// command.
    pub fn command_statistics(&self, name: &str) -> Option<CommandStatistics> {
        let shared = &self.core.shared;
        let command = shared.registry.find_full(name.to_ascii_lowercase().as_bytes())?;
        let stats = shared.command(command.index);
        Some(CommandStatistics {
            calls: stats.calls,
            nanoseconds: stats.nanos,
            rejected: stats.rejected,
            failed: stats.failed,
        })
    }
}
