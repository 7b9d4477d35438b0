//! Joining nodes, both new ones and new incarnations of dead ones: they receive a copy of another
//! node's data, and serve clients once it is loaded.

use super::{Member, World};
use crate::machine::Machine;
use crate::witness::Positions;
use petrel_cluster::{ClusterNode, Fetch, Identity, Node};

/// Maximum number of nodes, including dead ones.
const NODES_MAX: usize = 12;

/// A copy in transfer.
pub(super) struct Sent {
    pub bytes: Vec<u8>,
    /// Number of bytes sent.
    pub at: usize,
    /// Position of the copy in each slot's order.
    pub positions: Positions,
}

impl World {
    /// The living members that have their data.
    pub(super) fn with_data(&self) -> Vec<u16> {
        let alive = self.alive().into_iter();
        alive.filter(|&node| self.members[usize::from(node)].has_data).collect()
    }

    /// Adds a node: a new one, or a new incarnation of a dead one.
    pub(super) fn join(&mut self) {
        let is_free = |node: &usize| {
            let is_member = self.latest().member(Node(*node as u16)).is_some();
            let is_dying =
                self.dying.iter().any(|(identity, _)| usize::from(identity.node.0) == *node);
            !is_member && !is_dying
        };
        let free: Vec<usize> = (0..self.members.len()).filter(is_free).collect();
        let nodes_max = if self.plan.chains { NODES_MAX * 2 / 3 } else { NODES_MAX };
        let is_new = self.members.len() < nodes_max && (free.is_empty() || self.random.one_in(2));
        let (node, incarnation) = match (is_new, free.is_empty()) {
            (true, _) => (self.members.len(), 1),
            (false, true) => return,
            (false, false) => {
                let node = *self.random.pick(&free);
                (node, self.members[node].core.identity().incarnation + 1)
            }
        };
        let identity = Identity { node: Node(node as u16), incarnation };
        let mut members = self.latest().members.clone();
        members.push(identity);
        members.sort();
        match self.plan.copies {
            Some(_) => {
                let placings = self.placings();
                self.propose_owners(members, &placings);
            }
            None => {
                let primaries = self.primaries();
                self.propose(members, &primaries);
            }
        }
        self.outcome.joins += 1;
        let view = self.latest().clone();
        self.witness.borrow_mut().adopts(identity, view.clone());
        let mut machine = Machine::new(identity, self.random.bits(), self.witness.clone());
        machine.wrong = self.plan.wrong;
        machine.may_misfit = self.plan.deaths > 1;
        let mut limits = self.limits;
        if self.random.one_in(8) {
            limits.waiting = 20 << 10;
        }
        let core = ClusterNode::joining(identity, view, limits);
        let connections = (0..2).map(|_| Default::default()).collect();
        let skew_ms = self.random.below(60) as i64 - 30;
        // Where members hold only some slots it serves clients immediately.
        let has_data = self.plan.copies.is_some();
        if has_data {
            machine.join(core.sinks(), core.ownership(), false);
        }
        World::begin_log(self.plan.always, &core);
        let member = Member { has_data, ..Member::new(core, machine, connections, skew_ms) };
        match self.members.get_mut(node) {
            Some(former) => *former = member,
            None => self.members.push(member),
        }
        let node = node as u16;
        self.links.retain(|(from, to)| from != node && to != node);
        self.broken.retain(|&(a, b), _| a != node && b != node);
    }

    /// Connects members that know each other, unless their link has just broken.
    pub(super) fn connect_members(&mut self) {
        let alive = self.alive();
        for &a in &alive {
            for &b in alive.iter().filter(|&&b| b > a) {
                let (one, other) = (&self.members[usize::from(a)], &self.members[usize::from(b)]);
                let knows = |one: &Member, other: &Member| {
                    let identity = other.core.identity();
                    one.core.view().member(identity.node) == Some(identity)
                };
                let is_linked = self.links.contains((a, b));
                if !is_linked
                    && !self.broken.contains_key(&(a, b))
                    && knows(one, other)
                    && knows(other, one)
                {
                    self.connect(a, b);
                }
            }
        }
    }

    /// Advances the copies that a node receives and sends.
    pub(super) fn copy_some(&mut self) {
        let Some(node) = self.any_awake() else { return };
        self.set_member_time(node);
        let member = &mut self.members[usize::from(node)];
        if member.core.has_to_rejoin() && !member.has_data {
            self.outcome.failed_joins += 1;
            return self.kill(node);
        }
        match member.core.fetch() {
            Some(Fetch::Unasked) => {
                let sources = self.with_data();
                let source = *self.random.pick(&sources);
                self.members[usize::from(node)].core.fetch_from(Node(source));
            }
            Some(Fetch::Loads) if self.random.one_in(4) => self.load(node),
            _ => {}
        }
        self.begin_copies(node);
        self.advance_slots(node);
        self.send_copies(node);
    }

    fn load(&mut self, node: u16) {
        let member = &mut self.members[usize::from(node)];
        let identity = member.core.identity();
        let sent = self.copies.keys().find(|(to, _)| *to == identity).copied();
        let Some(sent) = sent.and_then(|sent| self.copies.remove(&sent)) else { return };
        member.machine.load_copy(sent.positions);
        member.machine.join(member.core.sinks(), member.core.ownership(), false);
        member.core.loaded(&mut member.machine);
        member.machine.report();
        (member.has_data, member.data_since) = (true, self.now);
        self.outcome.loaded += 1;
    }

    fn begin_copies(&mut self, node: u16) {
        let member = &mut self.members[usize::from(node)];
        for to in member.core.copies_wanted().to_vec() {
            if member.core.begin_copy(to) {
                let (bytes, positions) = member.machine.copy();
                self.copies.retain(|(other, _), _| *other != to);
                self.copies.insert((to, node), Sent { bytes, at: 0, positions });
            }
        }
    }

    fn send_copies(&mut self, node: u16) {
        let member = &mut self.members[usize::from(node)];
        for (&(to, _), sent) in self.copies.iter_mut().filter(|((_, from), _)| *from == node) {
            let is_sent = sent.at > sent.bytes.len();
            if is_sent || member.core.unsent_bytes(to.node) > 2000 {
                continue;
            }
            let left = sent.bytes.len() - sent.at;
            let len = left.min(1 + self.random.index(8000));
            let is_last = len == left;
            let part = &sent.bytes[sent.at..sent.at + len];
            match self.plan.copies {
                Some(_) => member.core.send_slots(to, part, is_last),
                None => member.core.send_copy(to, part, is_last),
            };
            // One beyond the end marks a complete transfer.
            sent.at += len + usize::from(is_last);
        }
    }
}
