//! Slots that few nodes hold: their homes move, those that are to become some are sent the data,
//! and what a node that has died was a home of falls to the others.

use super::join::Sent;
use super::{Member, World};
use crate::machine::DbKey;
use crate::workload::{GROUPS, group_begin};
use petrel_cluster::{Identity, Node, Route, SLOTS, SlotMap, View, slot_of};

/// The homes of a group of slots, the primary first, and the nodes that are to become some.
#[derive(Clone, Debug)]
pub(super) struct Placing {
    homes: Vec<Node>,
    incoming: Vec<Node>,
}

/// A primary with the nodes of the next numbers.
pub(super) fn beside(primary: Node, copies: usize, count: u16) -> Placing {
    let next = (0..copies as u16).map(|i| Node((primary.0 + i) % count));
    Placing { homes: next.collect(), incoming: Vec::new() }
}

/// A view with these homes of groups.
pub(super) fn view(epoch: u64, members: Vec<Identity>, placings: &[Placing]) -> View {
    let of = |slot: u16| &placings[usize::from(slot / (SLOTS / GROUPS))];
    let slots = SlotMap::collect(|slot| &of(slot).homes);
    let incoming = Some(SlotMap::collect(|slot| &of(slot).incoming));
    View { epoch, members, slots, incoming }
}

impl World {
    pub(super) fn placings(&self) -> Vec<Placing> {
        let view = self.latest();
        let of = |slot: u16| Placing {
            homes: view.slots.homes(slot).to_vec(),
            incoming: view.incoming(slot).to_vec(),
        };
        (0..GROUPS).map(group_begin).map(of).collect()
    }

    pub(super) fn propose_homes(&mut self, members: Vec<Identity>, placings: &[Placing]) {
        let epoch = self.latest().epoch + 1;
        self.views.push(view(epoch, members, placings));
        self.outcome.views += 1;
    }

    /// Whether every slot has another home than this node.
    pub(super) fn may_lose(&self, node: u16) -> bool {
        let is_elsewhere = |placing: &Placing| placing.homes.iter().any(|home| home.0 != node);
        self.plan.copies.is_none() || self.placings().iter().all(is_elsewhere)
    }

    /// Some groups get another primary among their homes, or another home.
    pub(super) fn move_homes(&mut self, copies: usize) {
        let members = self.latest().members.clone();
        let nodes: Vec<Node> = members.iter().map(|member| member.node).collect();
        let mut placings = self.placings();
        for _ in 0..1 + self.random.index(3) {
            let group = self.random.index(placings.len());
            let Placing { homes, incoming } = &mut placings[group];
            let other = *self.random.pick(&nodes);
            match self.random.below(8) {
                0..3 if homes.len() > 1 => {
                    let at = 1 + self.random.index(homes.len() - 1);
                    homes.swap(0, at);
                }
                3 => incoming.truncate(incoming.len().saturating_sub(1)),
                4 if homes.len() > copies => drop(homes.pop()),
                _ if incoming.len() < 2
                    && !homes.contains(&other)
                    && !incoming.contains(&other) =>
                {
                    incoming.push(other);
                }
                _ => {}
            }
        }
        self.propose_homes(members, &placings);
    }

    /// Nodes that have got the data of slots become homes of them, in place of others if there are
    /// enough, though none at once as their primary: who was a home before knows what the one
    /// before has numbered. Slots that lack homes are given to more nodes.
    pub(super) fn appoint_arrived(&mut self) {
        let Some(copies) = self.plan.copies else { return };
        let Some(node) = self.any_awake() else { return };
        let core = &self.members[usize::from(node)].core;
        let (seen, identity) = (core.view().epoch, core.identity());
        let latest = self.latest();
        let is_due = |slot| {
            let (homes, incoming) = (latest.slots.homes(slot), latest.incoming(slot));
            incoming.contains(&identity.node) || homes.len() + incoming.len() < copies
        };
        if !(0..GROUPS).map(group_begin).any(is_due) {
            return;
        }
        let members = latest.members.clone();
        let mut placings = self.placings();
        let mut has_changed = false;
        for group in 0..GROUPS {
            let slot = group_begin(group);
            let placing = &mut placings[usize::from(group)];
            // It has them from the primary that there is, without an interruption since.
            let primary = self.latest().primary(slot);
            let has_stayed = self.views[seen as usize - 1..].iter().all(|view| {
                view.member(identity.node) == Some(identity)
                    && view.incoming(slot).contains(&identity.node)
                    && view.primary(slot) == primary
            });
            if has_stayed && self.has_arrived(node, group) {
                placing.incoming.retain(|incoming| *incoming != identity.node);
                placing.homes.push(identity.node);
                if placing.homes.len() > copies && placing.homes.len() > 2 {
                    let at = 1 + self.random.index(placing.homes.len() - 2);
                    placing.homes.remove(at);
                }
                has_changed = true;
            } else if placing.homes.len() + placing.incoming.len() < copies {
                let nodes = members.iter().map(|member| member.node);
                let free: Vec<Node> = nodes
                    .filter(|node| {
                        !placing.homes.contains(node) && !placing.incoming.contains(node)
                    })
                    .collect();
                if !free.is_empty() {
                    placing.incoming.push(*self.random.pick(&free));
                    has_changed = true;
                }
            }
        }
        if has_changed {
            self.propose_homes(members, &placings);
        }
    }

    /// Whether a node has got the data of a group.
    fn has_arrived(&mut self, node: u16, group: u16) -> bool {
        let Member { core, arrived, .. } = &mut self.members[usize::from(node)];
        let name = (core.view().epoch, core.arrivals());
        if arrived.0 != name {
            let slots = core.arrived();
            let is_here = |group: &u16| {
                let first = group_begin(*group);
                (first..first + SLOTS / GROUPS).all(|slot| slots.contains(slot))
            };
            *arrived = (name, (0..GROUPS).filter(is_here).collect());
        }
        arrived.1.contains(&group)
    }

    /// A node that has died is a home no longer.
    pub(super) fn bury_home(&mut self, identity: Identity, members: Vec<Identity>) {
        let mut placings = self.placings();
        for Placing { homes, incoming } in &mut placings {
            homes.retain(|home| *home != identity.node);
            incoming.retain(|incoming| *incoming != identity.node);
            if homes.is_empty() {
                // No node has it any more: it begins anew.
                let nodes: Vec<Node> = members.iter().map(|member| member.node).collect();
                homes.push(*self.random.pick(&nodes));
                incoming.clear();
            }
        }
        self.propose_homes(members, &placings);
    }

    /// A node goes on with data of slots that it has got, with those that others have asked for,
    /// and with what is left of those that it has lost.
    pub(super) fn go_on_with_slots(&mut self, node: u16) {
        let count = 1 + self.random.index(40);
        let member = &mut self.members[usize::from(node)];
        if self.plan.copies.is_some() && member.core.has_to_rejoin() {
            let text = format!("node {node} is a home of slots that it was not sent");
            self.witness.borrow_mut().violation(text);
        }
        member.core.sweep(count, &mut member.machine);
        if self.random.one_in(4) {
            member.core.unshare_evicted(&mut member.machine);
        }
        if self.random.one_in(30) && self.plan.copies.is_some() {
            let keys = member.machine.keys().into_iter();
            let is_copy = |key: &DbKey| {
                let slots = [slot_of(&key.1)];
                member.core.route_read(&slots) != Route::Here && member.core.may_read_copies(&slots)
            };
            let copies: Vec<DbKey> = keys.filter(is_copy).collect();
            if !copies.is_empty() {
                member.machine.evict(self.random.pick(&copies));
            }
        }
        member.machine.report();
        if member.core.has_slots_to_load() && self.random.one_in(4) {
            member.machine.load_slots(member.core.sinks());
            member.core.slots_loaded(true, &mut member.machine);
            member.machine.report();
            self.outcome.loaded += 1;
        }
        for to in member.core.slots_wanted() {
            if let Some(slots) = member.core.begin_slots(to) {
                let bytes = member.machine.copy_slots(&slots);
                let positions = Default::default();
                self.copies.insert((to, node), Sent { bytes, at: 0, positions });
            }
        }
    }

    /// Whether every slot has its homes, and none is to become one.
    pub(super) fn is_allotted(&self) -> bool {
        let Some(copies) = self.plan.copies else { return true };
        let most = copies.min(self.latest().members.len());
        let is_allotted =
            |placing: &Placing| placing.homes.len() >= most && placing.incoming.is_empty();
        let alive = self.members.iter().filter(|member| member.is_alive);
        self.placings().iter().all(is_allotted)
            && alive.into_iter().all(|member| !member.core.has_leftover())
    }
}
