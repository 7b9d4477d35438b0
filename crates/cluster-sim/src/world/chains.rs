//! Transactions of several primaries: their reviews, and an adversary that kills their primaries
//! and moves slots on loan.

use super::World;
use super::commands::take_replies;
use crate::fault::Fault;
use crate::workload::GROUPS;
use petrel_cluster::mutation::Mutation;
use petrel_cluster::{ClusterNode, Node, SLOTS};

/// Number of loans and decisions after one of which the primary dies, on average and where it may.
const STRIKES: u64 = 8;

/// Number of slots on loan at a node, and of its decisions.
pub(super) fn progress(core: &ClusterNode) -> (usize, u64) {
    if core.has_chains() { (core.lent_slots().len(), core.decided()) } else { (0, 0) }
}

/// Whether a node has lent slots or decided since.
pub(super) fn has_advanced(before: (usize, u64), now: (usize, u64)) -> bool {
    now.0 > before.0 || now.1 > before.1
}

impl World {
    /// Lets a node review its transactions of several primaries. In the end none may need that to
    /// get its slots.
    pub(super) fn review_chains(&mut self, with_clients: bool) {
        let Some(node) = self.any_awake() else { return };
        self.set_member_time(node);
        let member = &mut self.members[usize::from(node)];
        // It would end the deadlocks of the first, and the loans of the second fault.
        const LEFT_ALONE: [Mutation; 2] = [Mutation::AnyOrder, Mutation::RefuseAlone];
        let is_patient =
            matches!(self.plan.wrong, Some(Fault::Rule(wrong)) if LEFT_ALONE.contains(&wrong));
        if with_clients && !is_patient && self.random.one_in(4) {
            member.core.review_chains(&mut member.machine);
        }
        member.core.review_decisions(&mut member.machine);
        member.machine.report();
        take_replies(member, &self.witness, &mut self.outcome);
    }

    /// Lets a member die that awaits parts of a transaction of several primaries, or lends to one:
    /// perhaps only one other member hears its last records. False if there is none.
    pub(super) fn let_primary_die(&mut self) -> bool {
        if !self.random.one_in(1 + self.rates.death / 64) {
            return false;
        }
        let is_part = |node: &u16| {
            let core = &self.members[usize::from(*node)].core;
            core.awaits_parts() || !core.lent_slots().is_empty()
        };
        let some: Vec<u16> = self.alive().into_iter().filter(is_part).collect();
        if some.is_empty() || self.with_data().len() < 3 || !self.may_lose_another() {
            return false;
        }
        let node = *self.random.pick(&some);
        if !self.may_lose(node) {
            return false;
        }
        self.send_to_one(node);
        self.kill(node);
        true
    }

    /// Lets a primary die that has just lent slots or decided. One other member receives that, but
    /// not of its last changes. That is the executor of a loan, or the origin of a decision.
    pub(super) fn strike(&mut self, node: u16) {
        let core = &self.members[usize::from(node)].core;
        let (is_risky, heir) = (core.lends_unsafe(), core.heir());
        if !is_risky && !self.random.one_in(STRIKES)
            || self.with_data().len() < 3
            || !self.may_lose_another()
            || !self.may_lose(node)
        {
            return;
        }
        let links = self.links.iter().map(|(link, _)| link).filter(|(from, _)| *from == node);
        let links: Vec<(u16, u16)> = links.collect();
        if links.is_empty() {
            return;
        }
        let heir = heir.map(|heir| (node, heir.0)).filter(|link| links.contains(link));
        let (_, to) = heir.unwrap_or(*self.random.pick(&links));
        let core = &mut self.members[usize::from(node)].core;
        core.begin_with(Node(to), 0);
        self.send_some(node, to, 1);
        if self.random.one_in(2) {
            self.links.retain(|link| link == (node, to) || link.0 != node);
        }
        self.kill(node);
    }

    /// Checks that no member is asked again before it has the question.
    pub(super) fn check_questions(&mut self) {
        let Some(node) = self.any_awake() else { return };
        if self.members[usize::from(node)].core.repeats_questions() {
            let text = format!("node {node} asks a member that lags again and again");
            self.witness.borrow_mut().violation(text);
        }
    }

    /// Moves a slot that is on loan.
    pub(super) fn move_lent(&mut self) {
        let lends = |node: &u16| {
            let slots = self.members[usize::from(*node)].core.lent_slots();
            slots.first().map(|slot| slot / (SLOTS / GROUPS))
        };
        let groups: Vec<u16> = self.alive().iter().filter_map(lends).collect();
        if groups.is_empty() || self.has_views_to_adopt() {
            return;
        }
        let group = *self.random.pick(&groups);
        let members = self.latest().members.clone();
        if self.plan.copies.is_some() {
            let mut placings = self.placings();
            if placings[usize::from(group)].take_turns() {
                self.propose_owners(members, &placings);
            }
            return;
        }
        let holders = self.holders(&members);
        let mut primaries = self.primaries();
        primaries[usize::from(group)] = *self.random.pick(&holders);
        self.propose(members, &primaries);
    }
}
