//! After users have changed: connections that are subscribed to what their users may not hear any
//! more are closed.
//!
//! ```text
//!  ACL SETUSER ── its own worker looks at its subscribers at once
//!             └── a review to every other worker ── each checks its own, and closes forbidden subscribers
//!                                                                                          │
//!                         the reply: once all of them have looked  ◀────────── the last ───┘
//! ```
//!
//! So after the reply no connection gets messages of channels that its user has lost.

mod run;

pub use run::reply_when_reviewed;

use crate::client::Client;
use petrel_commands::Offloaded;
use petrel_commands::acl::User;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Work shared by several workers.
#[derive(Debug)]
pub struct Review {
    users: Box<[Arc<User>]>,
    /// Workers that have not yet.
    left: AtomicUsize,
    asker: Option<Asker>,
}

/// The client that waits for it.
struct Asker {
    client: Arc<Client>,
    call: Offloaded,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asker({})", self.client.id)
    }
}
