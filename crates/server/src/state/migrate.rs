//! Migrations of keys to other servers (`migrate.rs`): their arguments, and the queue of their
//! thread.

use crate::client::Client;
use parking_lot::Mutex;
use petrel_commands::Offloaded;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Bytes of serialised keys after which no more are serialised at a time.
pub(crate) const BYTES_AT_ONCE: usize = 16 << 20;

/// Target's reply to a command: success, or its error.
pub(crate) type Taken = Result<(), Vec<u8>>;

/// Arguments of a migration.
pub struct Migration {
    /// The target's name or address.
    pub host: String,
    /// The target's port.
    pub port: u16,
    /// The database there.
    pub db: i64,
    /// Timeout of each wait for the target.
    pub timeout: Duration,
    /// Leave the keys here as well.
    pub copy: bool,
    /// Replace keys there.
    pub replace: bool,
    /// Credentials for the target.
    pub credentials: Option<Credentials>,
    /// The keys; absent ones are skipped.
    pub keys: Vec<Box<[u8]>>,
    /// The database here.
    pub from_db: u16,
    /// The client that waits for it.
    pub client: Arc<Client>,
}

/// The arguments of `AUTH`.
#[derive(Clone)]
pub struct Credentials(pub(crate) Vec<Box<[u8]>>);

impl Credentials {
    /// A password for the default user.
    pub fn password(password: &[u8]) -> Self {
        Credentials(vec![password.into()])
    }

    /// A user's name and password.
    pub fn user(name: &[u8], password: &[u8]) -> Self {
        Credentials(vec![name.into(), password.into()])
    }
}

/// A migration, and the call that asked for it.
pub(crate) type Task = (Migration, Offloaded);

/// The server's side of the thread.
#[derive(Default)]
pub struct Migrator {
    /// Channel to the migrating thread, once there is one.
    pub(crate) queue: Mutex<Option<mpsc::Sender<Task>>>,
    pub(crate) cached: Arc<AtomicUsize>,
}

impl Migrator {
    /// Connections to targets that are kept.
    pub fn cached(&self) -> usize {
        self.cached.load(Relaxed)
    }
}
