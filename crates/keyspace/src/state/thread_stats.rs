//! Counters of all threads, as read by one thread: without a lock as long as the set of threads is
//! unchanged.

use crate::state::counters::Counters;
use crate::state::keyspace::Keyspace;
use std::sync::Arc;

/// A copy of the keyspace's list of threads, renewed when the list has changed.
#[derive(Default)]
pub(crate) struct ThreadStats {
    threads: Vec<Arc<Counters>>,
    version: Option<u64>,
}

impl ThreadStats {
    /// The counters of all threads. A thread that has just ended may be counted twice or not at
    /// all, once.
    pub fn get(&mut self, keyspace: &Keyspace) -> &[Arc<Counters>] {
        let version = keyspace.threads_version();
        if self.version != Some(version) {
            self.threads = keyspace.threads();
            self.version = Some(version);
        }
        &self.threads
    }
}
