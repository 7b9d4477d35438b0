//! Members that keep up: they have acknowledged all changes, or another one within some time.

use petrel_cluster::{Lanes, Node, NodeSet};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Acknowledgements of other members, as last seen.
#[derive(Default)]
pub struct Answering(BTreeMap<Node, Seen>);

struct Seen {
    /// Number of acknowledgements with a new position.
    count: u64,
    /// The last time at which there was another one, or nothing to acknowledge.
    at: Instant,
}

impl Answering {
    /// The linked members that keep up, with at most `lag_max` since that time.
    pub fn of(
        &mut self,
        lanes: &Lanes,
        linked: impl Iterator<Item = Node>,
        lag_max: Duration,
        now: Instant,
    ) -> NodeSet {
        let mut before = std::mem::take(&mut self.0);
        let mut answering = NodeSet::default();
        for node in linked {
            let count = lanes.acknowledgements(node);
            let mut seen = before.remove(&node).unwrap_or(Seen { count, at: now });
            let since = now.saturating_duration_since(seen.at);
            let is_new = seen.count != count;
            // The lag is counted under locks.
            if is_new || since > lag_max / 2 && lanes.lag_of(node) == 0 {
                seen = Seen { count, at: now };
            }
            if now.saturating_duration_since(seen.at) <= lag_max {
                answering = answering.with(node);
            }
            self.0.insert(node, seen);
        }
        answering
    }
}
