//! The figures of all threads, as one thread reads them: without a lock as long as no thread comes
//! or goes.

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
    /// The threads' figures. A thread that left a moment ago may be counted twice or not at all,
    /// once.
    pub fn get(&mut self, keyspace: &Keyspace) -> &[Arc<Counters>] {
        let version = keyspace.threads_version();
        if self.version != Some(version) {
            self.threads = keyspace.threads();
            self.version = Some(version);
        }
        &self.threads
    }
}
