//! Transactions of several primaries: their reviews, and an adversary that kills their primaries
//! and moves slots on loan.

use super::World;
use super::commands::take_replies;
use crate::fault::Fault;
use crate::workload::GROUPS;
use petrel_cluster::SLOTS;
use petrel_cluster::mutation::Mutation;

impl World {
    /// Lets a node review its transactions of several primaries. In the end none may need that to
    /// get its slots.
    pub(super) fn review_chains(&mut self, with_clients: bool) {
        let Some(node) = self.any_awake() else { return };
        self.set_member_time(node);
        let member = &mut self.members[usize::from(node)];
        // It would end the deadlocks of that fault.
        let is_patient = self.plan.wrong == Some(Fault::Rule(Mutation::AnyOrder));
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
