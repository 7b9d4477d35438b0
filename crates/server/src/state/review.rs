//! After users have changed: connections that are subscribed to what their users may not hear any
//! more are closed.
//!
//! ```text
//!  ACL SETUSER ── its own worker looks at its subscribers at once
//!             └── a review to every other worker ── each closes its own forbidden subscribers
//!                                                                                 │
//!                         the reply: once all of them have looked  ◀─ the last ───┘
//! ```
//!
//! So after the reply no connection gets messages of channels that its user has lost.

use crate::client::Client;
use petrel_commands::Offloaded;
use petrel_commands::acl::User;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Work shared by several workers.
#[derive(Debug)]
pub struct Review {
    pub(crate) users: Box<[Arc<User>]>,
    /// Workers that have not yet.
    pub(crate) left: AtomicUsize,
    pub(crate) asker: Option<Asker>,
}

/// The client that waits for it.
pub(crate) struct Asker {
    pub(crate) client: Arc<Client>,
    pub(crate) call: Offloaded,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asker({})", self.client.id)
    }
}
