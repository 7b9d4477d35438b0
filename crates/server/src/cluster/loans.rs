//! Loans to transactions of several primaries, and a keyspace for their execution.

use petrel_cluster::{Collector, FROM_PEERS};
use petrel_commands::{Executor, Shared};
use petrel_keyspace::{Keyspace, Options, Others, SinkSource};
use petrel_persistence::effects::apply_groups;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Stripes of the keyspace for execution.
const STRIPES: usize = 64;

/// Threads that may execute commands which they have begun before a loan.
#[derive(Default)]
pub(super) struct Loans {
    /// Number of the last loan.
    pub last: u64,
    /// Number of the last loan without such threads.
    pub free: u64,
    pub others: VecDeque<(u64, Instant, Others)>,
}

/// A keyspace with the keys of one transaction at a time.
pub(super) struct Scratch {
    pub exec: Executor,
    pub changes: Collector,
}

impl Scratch {
    pub fn new(databases: u16, shared: Arc<Shared>) -> Self {
        let keyspace =
            Keyspace::new(&Options { databases, stripes: STRIPES, ..Options::default() });
        let changes = Collector::default();
        let mut handle = keyspace.attach();
        handle.set_sink(Some(changes.sink()));
        Scratch { exec: Executor::new(handle, shared), changes }
    }

    /// Replaces all keys by those on loan; false if these cannot be read.
    pub fn load(&mut self, lent: &[&[u8]]) -> bool {
        let ks = &mut self.exec.ks;
        ks.refresh_clock();
        ks.enter();
        ks.lock_all();
        drop(ks.clear(None));
        ks.unlock();
        let loaded = apply_groups(ks, lent, FROM_PEERS, &mut Vec::new());
        ks.exit();
        let _ = self.changes.take();
        loaded.is_ok()
    }
}
