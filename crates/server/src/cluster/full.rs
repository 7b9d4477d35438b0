//! Members that have reached `maxmemory`.

use super::agent::{Agent, COMPLAINT_PAUSE};
use petrel_cluster::NodeSet;
use petrel_keyspace::Policy;
use std::time::Instant;

/// Members without memory according to the last log line about them.
#[derive(Default)]
pub(super) struct ShownFull {
    members: NodeSet,
    at: Option<Instant>,
}

impl Agent {
    /// Checks whether this server has reached `maxmemory`, and logs which others have.
    pub(super) fn note_full(&mut self) {
        let keyspace = self.machine.exec.ks.keyspace();
        let is_full = keyspace.is_nearly_full(self.node.is_full());
        let evicts = keyspace.policy() != Policy::NoEviction;
        self.node.set_full(is_full, evicts);
        let (members, shown) = (self.node.full(), &mut self.shown_full);
        let is_due = || shown.at.is_none_or(|at| at.elapsed() >= COMPLAINT_PAUSE);
        if members != shown.members && (members == NodeSet::default() || is_due()) {
            *shown = ShownFull { members, at: Some(Instant::now()) };
            let numbers: Vec<String> = members.iter().map(|node| node.0.to_string()).collect();
            match &numbers[..] {
                [] => tracing::info!("cluster: all other members have memory for more data"),
                _ => tracing::warn!(
                    "cluster: members without memory ('maxmemory'): {}. Commands that add to their hash slots evict keys or are refused",
                    numbers.join(", ")
                ),
            }
        }
    }
}
