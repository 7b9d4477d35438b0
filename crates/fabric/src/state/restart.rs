//! Stops of all owners of slots: the members' former incarnations that end together, and the nodes
//! with which the slots continue, by the extents that nodes report when they join again.
//!
//! ```text
//! slots that the node owned, no owner of which is alive     else: nothing to wait for
//! their owners   have been removed, or ask to join again    else: wait
//! elect          each slot's owner, or the node to wait for
//! ```

use super::{Registered, State};
use crate::placement::{Range, expand};
use petrel_cluster::{Elected, Extents, Identity, Node, PastOwners, SLOTS, View, elect};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Extents of the data with which a node asks to join.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Reported {
    /// The node does not report them.
    #[default]
    Unreported,
    /// The data are not loaded yet.
    Loading,
    /// Encoded extents; none if the node has no data.
    Known(Vec<u8>),
}

impl Reported {
    /// Bytes behind the request to join, if there are any.
    pub fn attached(&self) -> Option<Option<&[u8]>> {
        match self {
            Reported::Unreported => None,
            Reported::Loading => Some(None),
            Reported::Known(extents) => Some(Some(extents)),
        }
    }

    /// From what followed a request to join.
    pub fn of_attached(attached: Option<Vec<u8>>) -> Self {
        attached.map_or(Reported::Loading, Reported::Known)
    }
}

/// A node's report.
pub(crate) struct Report {
    /// Random number of the session.
    pub boot: u64,
    /// None while the data are loaded.
    pub extents: Option<Extents>,
}

impl Report {
    /// Whether the node has data of a slot, or may have while it loads.
    fn may_have(&self, slot: u16) -> bool {
        self.extents.as_ref().is_none_or(|extents| extents.get(slot).is_some())
    }
}

/// Nodes with which slots without owners continue: ranges, each with the nodes in the order of
/// their extents. The slots wait for the first node, which claims them.
pub(crate) type Heirs = Vec<Range>;

/// The members that have stopped, and what follows for slots without owners.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Stop {
    /// Numbers and incarnations.
    pub stopped: Vec<(u16, u32)>,
    pub heirs: Heirs,
}

/// Answer to a node's request to join.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Plan {
    /// The node joins.
    Join,
    /// The node waits for these.
    Wait(BTreeSet<u16>),
    /// The node joins after this is agreed on.
    Elect(Stop),
}

/// A node with data that may count.
struct Returned<'a> {
    node: Node,
    extents: &'a Extents,
    /// For a member, the view that admitted it: it has kept only slots without owners in that view.
    admitted: Option<u64>,
}

impl State {
    /// Answers the request of a node to join. `is_alive` tells whether a member has renewed its
    /// lease of late, `by_two` whether two owners had changes before they were acknowledged.
    pub fn plan_restart(
        &self,
        uuid: u128,
        (reports, by_two): (&HashMap<u128, Report>, bool),
        is_alive: impl Fn(Identity) -> bool,
    ) -> Plan {
        let (Some(sparse), Some(own)) = (&self.sparse, self.nodes.get(&uuid)) else {
            return Plan::Join;
        };
        let (owners, lost) = (expand(&self.ranges), sparse.lost_slots());
        let is_dead = |number: u16| {
            !self
                .by_number(number)
                .is_some_and(|node| node.is_member && is_alive(node.info.identity()))
        };
        let report = reports.get(&uuid);
        let is_affected = |slot: u16| {
            let owners = owners[usize::from(slot)];
            // A stopped owner may have been removed already.
            let has_owned = owners.contains(&own.info.number)
                || report.is_some_and(|report| report.may_have(slot));
            let has_stopped = has_owned && owners.iter().all(|&of| is_dead(of));
            if owners.is_empty() { lost[usize::from(slot)].is_some() } else { has_stopped }
        };
        let affected: Vec<bool> = (0..SLOTS).map(is_affected).collect();
        let of_affected = owners.iter().zip(&affected).filter(|(_, affected)| **affected);
        let involved: BTreeSet<u16> =
            of_affected.flat_map(|(owners, _)| *owners).copied().collect();
        let has_returned = |node: &Registered| {
            reports.get(&node.info.uuid).is_some_and(|report| report.boot != node.boot)
        };
        let involved = involved.iter().filter_map(|&number| self.by_number(number));
        let (stopped, missing): (Vec<&Registered>, Vec<&Registered>) =
            involved.partition(|node| has_returned(node));
        if !missing.is_empty() {
            return Plan::Wait(missing.iter().map(|node| node.info.number).collect());
        }
        let (returned, loading) = self.returned(reports);
        let is_primary = |slot, node: Node| {
            let of = returned.iter().find(|of| of.node == node);
            let extent = of.and_then(|of| of.extents.get(slot));
            extent.is_some_and(|extent| extent.primary.node == node)
        };
        let mut stop = Stop::default();
        let mut waits = BTreeSet::new();
        for (slot, heirs) in self.heirs(&affected, &returned, by_two) {
            match heirs {
                // The primary's log may be the one that is loaded.
                Elected::Owner(nodes) if loading.is_empty() || is_primary(slot, nodes[0]) => {
                    add(&mut stop.heirs, slot, numbers(&nodes));
                }
                _ if !loading.is_empty() => waits.extend(&loading),
                Elected::Owner(_) | Elected::Unknown => {}
                Elected::Waits(node, others) => {
                    let nodes = std::iter::once(node).chain(others).collect::<Vec<_>>();
                    add(&mut stop.heirs, slot, numbers(&nodes));
                }
            }
        }
        stop.stopped =
            stopped.iter().map(|node| (node.info.number, node.info.incarnation)).collect();
        match () {
            () if !waits.is_empty() => Plan::Wait(waits),
            () if stop.stopped.is_empty() && sparse.has_heirs(&stop.heirs) => Plan::Join,
            () => Plan::Elect(stop),
        }
    }

    /// The nodes that have reported extents, and the nodes that are loading their data.
    fn returned<'a>(
        &self,
        reports: &'a HashMap<u128, Report>,
    ) -> (Vec<Returned<'a>>, BTreeSet<u16>) {
        let (mut returned, mut loading) = (Vec::new(), BTreeSet::new());
        for node in self.nodes.values() {
            let Some(report) = reports.get(&node.info.uuid) else { continue };
            let is_member = node.is_member && node.boot == report.boot;
            let Some(extents) = &report.extents else {
                loading.extend((!is_member).then_some(node.info.number));
                continue;
            };
            let admitted = is_member.then_some(node.admitted);
            returned.push(Returned { node: Node(node.info.number), extents, admitted });
        }
        (returned, loading)
    }

    /// Elects the owners of affected slots.
    fn heirs(
        &self,
        affected: &[bool],
        returned: &[Returned<'_>],
        by_two: bool,
    ) -> Vec<(u16, Elected)> {
        let lost = self.sparse.as_ref().map(|sparse| sparse.lost_slots()).unwrap_or_default();
        let steps = self.history.iter().filter_map(|past| self.step(past.epoch));
        let views: Vec<Arc<View>> = steps.map(|step| step.view).collect();
        let affected = (0..SLOTS).filter(|slot| affected[usize::from(*slot)]);
        let mut heirs = Vec::new();
        for slot in affected {
            let since = lost.get(usize::from(slot)).copied().flatten().map(|(_, epoch)| epoch);
            let counts = |of: &&Returned<'_>| {
                of.admitted.is_none_or(|admitted| since.is_some_and(|since| since <= admitted))
            };
            let counted: Vec<(Node, &Extents)> =
                returned.iter().filter(counts).map(|of| (of.node, of.extents)).collect();
            let past = |view: &Arc<View>| {
                let owners = view.slots.owners(slot).iter();
                let owners = owners.filter_map(|&node| view.member(node)).collect();
                PastOwners { epoch: view.epoch, owners }
            };
            let views: Vec<PastOwners> = views.iter().map(past).collect();
            heirs.push((slot, elect(slot, &counted, &views, by_two)));
        }
        heirs
    }

    /// Ends incarnations of members that have stopped, in one view, and has slots without owners
    /// continue with the elected nodes.
    pub(super) fn elect(&mut self, stop: &Stop) {
        if self.sparse.is_none() {
            return;
        }
        let mut has_stopped = false;
        for &(number, incarnation) in &stop.stopped {
            if let Some(node) = self.member_mut(number, incarnation) {
                (node.is_member, has_stopped) = (false, true);
            }
        }
        if has_stopped {
            self.next_view();
        }
        let admitted: HashMap<u16, u64> =
            self.members().map(|node| (node.info.number, node.admitted)).collect();
        let Some(sparse) = &mut self.sparse else { return };
        let lost = sparse.lost_slots();
        let heirs = sparse.set_heirs(&stop.heirs);
        // A member that was admitted before the slots lost their owners has not kept their data.
        let has_kept = |number: &u16| {
            admitted.get(number).is_some_and(|&admitted| {
                let of = stop.heirs.iter().filter(|(_, _, nodes)| nodes.first() == Some(number));
                let mut slots = of.flat_map(|&(first, last, _)| first..=last);
                slots.all(|slot| lost[usize::from(slot)].is_none_or(|(_, at)| at <= admitted))
            })
        };
        let here: Vec<u16> = heirs.into_iter().filter(has_kept).collect();
        sparse.with_data.extend(&here);
        for number in here {
            self.next_views(crate::placement::Event::Claim(number));
        }
    }
}

fn numbers(nodes: &[Node]) -> Vec<u16> {
    nodes.iter().map(|node| node.0).collect()
}

fn add(heirs: &mut Heirs, slot: u16, nodes: Vec<u16>) {
    match heirs.last_mut() {
        Some((_, last, same)) if *last + 1 == slot && *same == nodes => *last = slot,
        _ => heirs.push((slot, slot, nodes)),
    }
}
