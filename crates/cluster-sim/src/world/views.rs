//! Views that the world agrees on, and the members that they need.

use super::{World, map};
use crate::workload::GROUPS;
use petrel_cluster::{Identity, Node, NodeSet, View};

impl World {
    pub(super) fn alive(&self) -> Vec<u16> {
        let members = self.members.iter().enumerate();
        members.filter(|(_, member)| member.is_alive).map(|(at, _)| at as u16).collect()
    }

    pub(super) fn latest(&self) -> &View {
        &self.views[self.views.len() - 1]
    }

    pub(super) fn primaries(&self) -> Vec<Node> {
        let view = self.latest();
        let begins = (0..GROUPS).map(crate::workload::group_begin);
        begins.map(|slot| view.slots.primary(slot).unwrap_or(Node(0))).collect()
    }

    pub(super) fn move_slots(&mut self) {
        let members = self.latest().members.clone();
        let holders = self.holders(&members);
        let mut primaries = self.primaries();
        for _ in 0..1 + self.random.index(3) {
            let group = self.random.index(primaries.len());
            primaries[group] = *self.random.pick(&holders);
        }
        self.propose(members, &primaries);
    }

    /// Members that may own slots.
    pub(super) fn holders(&self, members: &[Identity]) -> Vec<Node> {
        let nodes = members.iter().map(|member| member.node);
        nodes.filter(|node| self.members[usize::from(node.0)].has_data).collect()
    }

    pub(super) fn propose(&mut self, members: Vec<Identity>, primaries: &[Node]) {
        let epoch = self.latest().epoch + 1;
        let slots = map(&members, primaries);
        self.views.push(View { epoch, members, slots, incoming: None });
        self.outcome.views += 1;
    }

    /// Kills members that were cut off: they have to rejoin.
    pub(super) fn cut_laggards_off(&mut self) {
        for node in self.alive() {
            let core = &self.members[usize::from(node)].core;
            let cut_off = core.lanes().cut_off();
            if cut_off == NodeSet::default() {
                continue;
            }
            let lags = |&other: &u16| cut_off.contains(Node(other));
            if let Some(other) = self.alive().into_iter().find(lags)
                && self.may_lose(other)
            {
                self.kill(other);
            }
        }
    }
}
