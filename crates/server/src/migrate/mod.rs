//! Moving keys to other servers, on a thread of its own: no worker waits for another server.
//!
//! ```text
//! worker        checks the arguments and hands the migration over; the connection waits
//! this thread   for some keys at a time:
//!                 their stripes locked    serialise, and note that the keys are watched
//!                 nothing locked          RESTORE to the target, read its replies
//!                 their stripes locked    removed, if the target has them and they are as they were sent;
//!                                         if they have changed since, they are sent again with REPLACE
//!               the answer goes to the worker
//! ```
//!
//! So a key is removed only after the target has confirmed that it has exactly this value: a client
//! that writes to it meanwhile writes to the key here, and the change is sent too. A key removed
//! here in between is removed there. If anything fails, the key stays here; as in Redis, the target
//! may then have it too.
//!
//! The gate is asked before keys are read or removed: a pause, as of `FAILOVER`, holds a migration
//! back, and on a server that has become a replica it ends with the error of a write there.
//!
//! One migration follows the other, so what waits is bounded by the number of connections.
//! Connections to targets are kept for some seconds (`target.rs`).

mod run;
mod source;
mod target;

use crate::client::Client;
use parking_lot::Mutex;
use petrel_commands::Offloaded;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Bytes of serialised keys after which no more are serialised at a time.
const BYTES_AT_ONCE: usize = 16 << 20;

/// Target's reply to a command: success, or its error.
type Taken = Result<(), Vec<u8>>;

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
pub struct Credentials(Vec<Box<[u8]>>);

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
type Task = (Migration, Offloaded);

/// The server's side of the thread.
#[derive(Default)]
pub struct Migrator {
    /// Channel to the migrating thread, once there is one.
    queue: Mutex<Option<mpsc::Sender<Task>>>,
    cached: Arc<AtomicUsize>,
}

impl Migrator {
    /// Connections to targets that are kept.
    pub fn cached(&self) -> usize {
        self.cached.load(Relaxed)
    }
}
