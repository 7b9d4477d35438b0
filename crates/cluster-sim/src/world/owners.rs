//! Slots with fewer owners than members: owners change, importers receive the data, and owners that
//! have died are replaced.

use super::join::Sent;
use super::{Member, World};
use crate::names::DbKey;
use crate::workload::{GROUPS, group_begin};
use petrel_cluster::{Identity, Node, Route, SLOTS, SlotMap, View, slot_of};

/// Owners of a group of slots, the primary first, and its importers.
#[derive(Clone, Debug)]
pub(super) struct Placing {
    owners: Vec<Node>,
    incoming: Vec<Node>,
}

impl Placing {
    /// Makes the second owner the primary; false if there is none.
    pub(super) fn take_turns(&mut self) -> bool {
        let may_be = self.owners.len() > 1;
        if may_be {
            self.owners.swap(0, 1);
        }
        may_be
    }
}

/// Places a group on its primary and the nodes of the next numbers.
pub(super) fn beside(primary: Node, copies: usize, count: u16) -> Placing {
    let next = (0..copies as u16).map(|i| Node((primary.0 + i) % count));
    Placing { owners: next.collect(), incoming: Vec::new() }
}

/// Builds a view from the placements of all groups.
pub(super) fn view(epoch: u64, members: Vec<Identity>, placings: &[Placing]) -> View {
    let of = |slot: u16| &placings[usize::from(slot / (SLOTS / GROUPS))];
    let slots = SlotMap::collect(|slot| &of(slot).owners);
    let incoming = Some(SlotMap::collect(|slot| &of(slot).incoming));
    View { epoch, members, slots, incoming }
}

impl World {
    pub(super) fn placings(&self) -> Vec<Placing> {
        let view = self.latest();
        let of = |slot: u16| Placing {
            owners: view.slots.owners(slot).to_vec(),
            incoming: view.incoming(slot).to_vec(),
        };
        (0..GROUPS).map(group_begin).map(of).collect()
    }

    pub(super) fn propose_owners(&mut self, members: Vec<Identity>, placings: &[Placing]) {
        let epoch = self.latest().epoch + 1;
        self.views.push(view(epoch, members, placings));
        self.outcome.views += 1;
    }

    /// Whether every slot has an owner besides this node.
    pub(super) fn may_lose(&self, node: u16) -> bool {
        // Also in the views that some member has yet to leave.
        let is_elsewhere = |slot: u16| {
            let owners = self.views_in_force().iter().map(|view| view.slots.owners(slot));
            owners.into_iter().all(|owners| owners.iter().any(|owner| owner.0 != node))
        };
        let alone = &self.members[usize::from(node)].alone;
        let others = || self.alive().into_iter().filter(|&other| other != node);
        let has_arrived = |(&slot, &at): (&u16, &u64)| {
            let view = self.latest();
            others().any(|other| {
                view.slots.owners(slot).contains(&Node(other))
                    && self.members[usize::from(other)].machine.position(slot) >= at
            })
        };
        // A client may have seen those changes, or a transaction that has other parts elsewhere.
        let counts_alone = self.plan.acknowledge > 1 || self.plan.chains;
        self.plan.copies.is_none()
            || (0..GROUPS).map(group_begin).all(is_elsewhere)
                && (!counts_alone || alone.iter().all(has_arrived))
    }

    /// Gives some groups another primary among their owners, or another importer.
    pub(super) fn move_owners(&mut self, copies: usize) {
        let members = self.latest().members.clone();
        let nodes: Vec<Node> = members.iter().map(|member| member.node).collect();
        let mut placings = self.placings();
        for _ in 0..1 + self.random.index(3) {
            let group = self.random.index(placings.len());
            let Placing { owners, incoming } = &mut placings[group];
            let other = *self.random.pick(&nodes);
            match self.random.below(8) {
                0..3 if owners.len() > 1 => {
                    let at = 1 + self.random.index(owners.len() - 1);
                    owners.swap(0, at);
                }
                3 => incoming.truncate(incoming.len().saturating_sub(1)),
                4 if owners.len() > copies => drop(owners.pop()),
                _ if incoming.len() < 2
                    && !owners.contains(&other)
                    && !incoming.contains(&other) =>
                {
                    incoming.push(other);
                }
                _ => {}
            }
        }
        self.propose_owners(members, &placings);
    }

    /// Makes importers that have the data owners, perhaps in place of others. They become backups
    /// first: only an owner in the former view has everything that the former primary ordered.
    /// Groups that lack owners get more importers.
    pub(super) fn appoint_arrived(&mut self) {
        let Some(copies) = self.plan.copies else { return };
        let Some(node) = self.any_awake() else { return };
        let core = &self.members[usize::from(node)].core;
        let (seen, identity) = (core.view().epoch, core.identity());
        let latest = self.latest();
        let is_due = |slot| {
            let (owners, incoming) = (latest.slots.owners(slot), latest.incoming(slot));
            incoming.contains(&identity.node) || owners.len() + incoming.len() < copies
        };
        if !(0..GROUPS).map(group_begin).any(is_due) {
            return;
        }
        let members = latest.members.clone();
        let mut placings = self.placings();
        let (mut has_changed, mut replaced) = (false, None);
        for group in 0..GROUPS {
            let slot = group_begin(group);
            let placing = &mut placings[usize::from(group)];
            // The data are from the present primary, without an interruption since.
            let primary = self.latest().primary(slot);
            let has_stayed = self.views[seen as usize - 1..].iter().all(|view| {
                view.member(identity.node) == Some(identity)
                    && view.incoming(slot).contains(&identity.node)
                    && view.primary(slot) == primary
            });
            if has_stayed && self.has_arrived(node, group) {
                placing.incoming.retain(|incoming| *incoming != identity.node);
                placing.owners.push(identity.node);
                if placing.owners.len() > copies && placing.owners.len() > 2 {
                    let at = 1 + self.random.index(placing.owners.len() - 2);
                    placing.owners.remove(at);
                    replaced = Some(placing.owners[0]);
                }
                has_changed = true;
            } else if placing.owners.len() + placing.incoming.len() < copies {
                let nodes = members.iter().map(|member| member.node);
                let free: Vec<Node> = nodes
                    .filter(|node| {
                        !placing.owners.contains(node) && !placing.incoming.contains(node)
                    })
                    .collect();
                if !free.is_empty() {
                    placing.incoming.push(*self.random.pick(&free));
                    has_changed = true;
                }
            }
        }
        if has_changed {
            self.propose_owners(members, &placings);
        }
        if let Some(primary) = replaced
            && self.doomed.is_none()
            && self.random.one_in(8)
        {
            self.doom(primary.0);
        }
    }

    /// Whether a node has imported a group.
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

    /// Removes a dead node from the owners.
    pub(super) fn bury_owner(&mut self, identity: Identity, members: Vec<Identity>) {
        let mut placings = self.placings();
        for Placing { owners, incoming } in &mut placings {
            owners.retain(|owner| *owner != identity.node);
            incoming.retain(|incoming| *incoming != identity.node);
            if owners.is_empty() {
                // No node has the data: the group starts empty.
                let nodes: Vec<Node> = members.iter().map(|member| member.node).collect();
                owners.push(*self.random.pick(&nodes));
                incoming.clear();
            }
        }
        self.propose_owners(members, &placings);
    }

    /// Advances a node's imports, exports and removal of leftover keys.
    pub(super) fn advance_slots(&mut self, node: u16) {
        let count = 1 + self.random.index(40);
        let member = &mut self.members[usize::from(node)];
        if self.plan.copies.is_some() && member.core.has_to_rejoin() {
            let text = format!("node {node} owns slots without having their data");
            self.witness.borrow_mut().violation(text);
        }
        member.core.sweep(count, &mut member.machine);
        if self.random.one_in(4) {
            member.core.report_evicted(&mut member.machine);
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

    /// Whether every slot has all its owners, and no importers or leftover keys.
    pub(super) fn is_allotted(&self) -> bool {
        let Some(copies) = self.plan.copies else { return true };
        let most = copies.min(self.latest().members.len());
        let is_allotted =
            |placing: &Placing| placing.owners.len() >= most && placing.incoming.is_empty();
        let alive = self.members.iter().filter(|member| member.is_alive);
        self.placings().iter().all(is_allotted)
            && alive.into_iter().all(|member| !member.core.has_leftover())
    }
}
