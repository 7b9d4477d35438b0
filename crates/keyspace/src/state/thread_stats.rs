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
    /// The counters of all threads, each once: of a thread that has just ended its own, or the sum
    /// that it is part of.
    pub fn get(&mut self, keyspace: &Keyspace) -> &[Arc<Counters>] {
        let version = keyspace.threads_version();
        if self.version != Some(version) {
            self.threads = keyspace.threads();
            self.version = Some(version);
        }
        &self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Value};

    fn used(threads: &[Arc<Counters>]) -> i64 {
        threads.iter().map(|thread| thread.used.get()).sum()
    }

    #[test]
    fn a_list_from_before_a_thread_ended_adds_up() {
        let keyspace = Keyspace::new(&Options { databases: 2, stripes: 4, seed: 1 });
        let store = |key: &[u8]| {
            let mut handle = keyspace.attach();
            handle.store(1, key, Value::Bytes(&[b'v'; 100]), None).unwrap();
            handle
        };
        // The first has ended when the list is made, the second ends afterwards.
        drop(store(b"first"));
        let (second, third) = (store(b"second"), store(b"third"));
        let list = keyspace.threads();
        let before = used(&list);
        assert!(before > 300);
        drop(second);
        assert_eq!(used(&list), before);
        assert_eq!(used(&keyspace.threads()), before);
        drop(third);
        assert_eq!(used(&list), before);
        assert_eq!((keyspace.stats().used, keyspace.db_stats(1).keys), (before as u64, 3));
    }
}
