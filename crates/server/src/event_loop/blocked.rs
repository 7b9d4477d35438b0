//! Connections that wait for a key: what their worker does for them. Who is served when is decided
//! by the commands (`unblock.rs` there), on the thread that changed the key; here the answer
//! arrives, or the time is up.

mod answer;

use parking_lot::Mutex;
use petrel_commands::Blocked;
use std::collections::HashMap;
use std::sync::Arc;

/// Room for so many connections is kept when none waits any more.
const RETAINED_MAX: usize = 1024;

/// The waiting commands of one worker's connections.
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

    /// The waiting command of a connection.
    pub fn find(&self, id: u64) -> Option<Arc<Blocked>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// All of them, each with its connection's number.
    fn all(&self) -> Vec<(u64, Arc<Blocked>)> {
        self.by_id.lock().iter().map(|(&id, blocked)| (id, blocked.clone())).collect()
    }

    /// How many of them will not wait for ever.
    pub fn with_deadline(&self) -> usize {
        self.by_id.lock().values().filter(|blocked| blocked.deadline().is_some()).count()
    }
}
