//! Checks the logs for a stop of all members: at any time the slots would continue with logs that
//! have every change of which a reply has shown the effect. Nothing stops; the run goes on.
//!
//! With [`Plan::always`](super::Plan::always) a member's log has its data and their extents before
//! anything is sent or answered. Else logs are
//! synced now and then, and no slot may lose more than its primary's log has lost.

use super::World;
use crate::witness::{COUNT, Positions};
use crate::workload::used_slots;
use petrel_cluster::{ClusterNode, Elected, Extents, Node, NodeSet, PastOwners, View, elect};
use std::collections::BTreeMap;

/// Mean number of steps between two looks at the logs.
const LOOK_EVERY: u64 = 40;

/// Contents of a member's log.
#[derive(Default)]
pub(super) struct Log {
    extents: Extents,
    /// Number of changes of each slot.
    positions: BTreeMap<u16, u64>,
}

impl World {
    /// Whether logs are looked at: clients see only changes that two members have.
    fn has_logs(&self) -> bool {
        self.plan.acknowledge > 1 && self.plan.deaths < 2 && !self.plan.chains
    }

    /// Lets no origin of a new member's commands keep their changes alone, if logs are synced.
    pub(super) fn begin_log(always: bool, core: &ClusterNode) {
        if always {
            core.lanes().set_keepers(NodeSet::default(), NodeSet(u64::MAX));
        }
    }

    /// Writes the log of a member before others depend on its data.
    pub(super) fn write_log(&mut self, node: u16) {
        if !self.has_logs() || !self.plan.always && !self.stops.one_in(8) {
            return;
        }
        let member = &mut self.members[usize::from(node)];
        member.core.update_extents();
        if member.has_data {
            let machine = &member.machine;
            let positions = used_slots().map(|slot| (slot, machine.position(slot))).collect();
            member.log = Log { extents: member.core.extents().clone(), positions };
        }
    }

    /// Now and then compares the logs with what clients were shown.
    pub(super) fn look_at_logs(&mut self) {
        if !self.has_logs() || !self.stops.one_in(LOOK_EVERY) {
            return;
        }
        let is_quiet = self.recovery.is_none() && self.dying.is_empty() && self.doomed.is_none();
        let lost = self.stops.index(self.members.len()) as u16;
        let may_miss = is_quiet && self.plan.always && self.stops.one_in(2);
        let shown = self.witness.borrow().shown();
        let may_miss = may_miss && self.may_lose(lost) && self.is_elsewhere(lost, &shown);
        let missing = may_miss.then_some(lost);
        let mut returned: Vec<u16> = self.alive();
        let is_late = self.stops.one_in(2);
        // Members that return later have no part in the election.
        returned.retain(|node| Some(*node) != missing && !(is_late && self.stops.one_in(2)));
        // In any order.
        let first = self.stops.index(returned.len().max(1));
        returned.rotate_left(first);
        for slot in used_slots() {
            let shown = shown.get(&slot).map_or(0, |at| at & COUNT);
            if let Err(text) = self.check_logs(slot, &returned, shown) {
                let text = format!("after a stop of all but {missing:?}, slot {slot} {text}");
                self.witness.borrow_mut().violation(text);
            }
        }
        self.outcome.stops += 1;
    }

    /// Whether other owners have all changes that clients were shown: the second member that had
    /// one may have died.
    fn is_elsewhere(&self, node: u16, shown: &Positions) -> bool {
        let view = self.latest();
        shown.iter().all(|(&slot, at)| {
            let mut others = view.slots.owners(slot).iter().filter(|owner| owner.0 != node);
            others.any(|owner| {
                let member = &self.members[usize::from(owner.0)];
                member.is_alive && member.machine.position(slot) >= at & COUNT
            })
        })
    }

    /// Whether nothing has ever died, and all owners of a slot have logged its extent.
    fn are_logged(&self, slot: u16, returned: &[u16]) -> bool {
        let mut owners = self.views.iter().flat_map(|view| view.slots.owners(slot));
        let is_logged = |owner: &Node| {
            let log = &self.members[usize::from(owner.0)].log;
            returned.contains(&owner.0) && log.extents.get(slot).is_some()
        };
        self.outcome.deaths == 0 && owners.all(is_logged)
    }

    fn check_logs(&self, slot: u16, returned: &[u16], shown: u64) -> Result<(), String> {
        let log = |node: u16| &self.members[usize::from(node)].log;
        let candidates: Vec<(Node, &Extents)> =
            returned.iter().map(|&node| (Node(node), &log(node).extents)).collect();
        let owners_in = |view: &View| {
            let owners = view.slots.owners(slot).iter();
            let owners = owners.filter_map(|&node| view.member(node)).collect();
            PastOwners { epoch: view.epoch, owners }
        };
        let past: Vec<PastOwners> = self.views.iter().map(owners_in).collect();
        let at = |node: u16| log(node).positions.get(&slot).copied().unwrap_or(0);
        match elect(slot, &candidates, &past, true) {
            Elected::Unknown => Ok(()),
            Elected::Waits(node, _) if self.are_logged(slot, returned) => {
                Err(format!("waits for node {}, though all are there", node.0))
            }
            Elected::Waits(..) => Ok(()),
            Elected::Owner(nodes) => {
                let here = at(nodes[0].0);
                let of_primary = candidates.iter().find(|(node, extents)| {
                    extents.get(slot).is_some_and(|extent| extent.primary.node == *node)
                        && *node == nodes[0]
                });
                let needed = match self.plan.always {
                    true => shown,
                    false => of_primary.map_or(0, |(node, _)| at(node.0)).min(shown),
                };
                if here >= needed {
                    return Ok(());
                }
                let all: Vec<(u16, u64)> = returned.iter().map(|&node| (node, at(node))).collect();
                let extent =
                    |&(node, of): &(Node, &Extents)| (node.0, of.get(slot), of.position(slot));
                let extents: Vec<_> = candidates.iter().map(extent).collect();
                let last = &past[past.len().saturating_sub(4)..];
                Err(format!(
                    "continues at {here} with node {}, but {needed} was shown: {all:?} {extents:?} {last:?}",
                    nodes[0].0
                ))
            }
        }
    }
}
