//! Blocked clients of a worker. The commands crate decides the order in which they are served
//! (`unblock.rs`), on the thread that changed the key; this module delivers the reply and handles
//! timeouts.

use parking_lot::Mutex;
use petrel_commands::Blocked;
use std::collections::HashMap;
use std::sync::Arc;

/// Capacity to keep when no client is blocked any more.
const RETAINED_MAX: usize = 1024;

/// Blocked commands of one worker's connections.
#[derive(Default)]
pub struct BlockedClients {
    /// By the connection's number.
    by_id: Mutex<HashMap<u64, Arc<Blocked>>>,
}

impl BlockedClients {
    /// A connection begins to wait.
    pub fn add(&self, id: u64, blocked: Arc<Blocked>) {
        self.by_id.lock().insert(id, blocked);
    }

    /// The connection has its answer, or is gone.
    pub fn remove(&self, id: u64) -> Option<Arc<Blocked>> {
        let mut by_id = self.by_id.lock();
        let removed = by_id.remove(&id);
        if by_id.is_empty() && by_id.capacity() > RETAINED_MAX {
            *by_id = HashMap::new();
        }
        removed
    }

    /// The connection's blocked command.
    pub fn find(&self, id: u64) -> Option<Arc<Blocked>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// All of them, each with its connection's number.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<Blocked>)> {
        self.by_id.lock().iter().map(|(&id, blocked)| (id, blocked.clone())).collect()
    }

    /// Number of blocked commands with a timeout.
    pub fn with_deadline(&self) -> usize {
        self.by_id.lock().values().filter(|blocked| blocked.deadline().is_some()).count()
    }
}
