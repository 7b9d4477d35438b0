//! Interests of clients in changes that other members make.

use petrel_cluster::{Identity, NodeSet, View};
use std::sync::Arc;

/// Interests of clients here, as other members know them.
#[derive(Default)]
pub(in crate::cluster) struct Interests {
    /// Classes of keyspace events.
    pub events: u32,
    /// Prefixes, in order.
    pub prefixes: Vec<Arc<[u8]>>,
    /// Version of the trackers that these are of.
    pub version: u64,
    /// Members that know them.
    pub informed: NodeSet,
    /// The other members of the view.
    pub others: NodeSet,
    /// The primaries among them.
    pub primaries: NodeSet,
    /// Members that know interests when that was last noted.
    pub knowing: NodeSet,
}

impl Interests {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events == 0 && self.prefixes.is_empty()
    }

    /// Takes over the members of a view that follows one with `former` members.
    pub fn note_view(&mut self, me: Identity, former: &[Identity], view: &View) {
        let is_gone = |member: &&Identity| view.member(member.node) != Some(**member);
        let gone: NodeSet = former.iter().filter(is_gone).map(|member| member.node).collect();
        self.informed.0 &= !gone.0;
        let members = view.members.iter().map(|member| member.node);
        self.others = members.collect::<NodeSet>().without(me.node);
        let primaries = view.slots.ranges().iter().filter_map(|range| range.owners.first());
        self.primaries = primaries.copied().collect::<NodeSet>().without(me.node);
    }
}
