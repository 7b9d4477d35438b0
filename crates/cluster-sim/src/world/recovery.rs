//! Recovery from a death: the adversary kills the next member once the data of the last one are
//! whole again, also while members have yet to adopt a view.

use super::World;
use crate::witness::Positions;
use crate::workload::{GROUPS, group_begin};
use petrel_cluster::{Node, View};

/// Recovery from a death.
#[derive(Default)]
pub(super) struct Recovery {
    /// Changes that clients were shown until all members had adopted the view without the dead one
    /// and were reconciled, by slot, unless all owners have applied them.
    owed: Option<Positions>,
}

/// Time for which a doomed member goes on.
const DOOM_MS: u64 = 60;

/// A member that dies soon; some others hear nothing of it until then.
pub(super) struct Doomed {
    node: u16,
    /// A member that dies with it, once all members are reconciled.
    with: Option<u16>,
    at: u64,
    /// End of that time.
    until: u64,
}

impl World {
    /// Lets a member die, at once or soon.
    pub(super) fn let_die(&mut self) {
        let death = match self.has_views_to_adopt() {
            // Most rules about deaths are about these moments.
            true => 1 + self.rates.death / 8,
            false => self.rates.death,
        };
        let is_reconciled = self.doomed.is_some() && self.is_reconciled();
        let now = self.now;
        let is_due = |doomed: &mut Doomed| {
            doomed.at <= now && (doomed.with.is_none() || is_reconciled || doomed.until <= now)
        };
        if let Some(doomed) = self.doomed.take_if(is_due) {
            self.workload.focus = None;
            self.kill_if_possible(doomed.node, doomed.with);
        } else if self.plan.chains && self.doomed.is_none() && self.let_primary_die() {
            // That is all.
        } else if self.doomed.is_none() && self.random.one_in(death) {
            let node = *self.random.pick(&self.alive());
            if self.plan.deaths > 1 && self.random.one_in(2) {
                self.doom_pair();
            } else if self.random.one_in(2) {
                self.kill_if_possible(node, None);
            } else {
                self.doom(node);
            }
        }
    }

    /// Decides that a member dies soon, and that some others hear nothing of it until then.
    pub(super) fn doom(&mut self, node: u16) {
        // In larger clusters records of several lanes take longer.
        let more = if self.plan.chains { 4 * self.links.len() as u64 } else { 0 };
        let doom_ms = DOOM_MS + more;
        let until = self.now + 4 * doom_ms;
        for to in 0..self.members.len() as u16 {
            if self.random.one_in(2)
                && let Some(direction) = self.links.get_mut(&(node, to))
            {
                direction.pipe.stall(until);
            }
        }
        let at = self.now + self.random.below(doom_ms);
        self.doomed = Some(Doomed { node, with: None, at, until });
    }

    /// Decides that a primary dies soon together with one of two backups. The other one hears
    /// nothing of it until then, so it lacks changes that are safe; members that do not own the
    /// slots may keep later ones.
    fn doom_pair(&mut self) {
        let group = self.random.below(GROUPS.into()) as u16;
        let owners = self.latest().slots.owners(group_begin(group));
        let &[primary, first, second] = owners else { return };
        let swapped = self.random.one_in(2);
        let (with, heir) = if swapped { (second, first) } else { (first, second) };
        let until = self.now + 4 * DOOM_MS;
        if let Some(direction) = self.links.get_mut(&(primary.0, heir.0)) {
            direction.pipe.stall(until);
        }
        self.workload.focus = Some(group);
        let at = self.now + self.random.below(2 * DOOM_MS);
        self.doomed = Some(Doomed { node: primary.0, with: Some(with.0), at, until });
    }

    fn kill_if_possible(&mut self, node: u16, with: Option<u16>) {
        let may_be = self.with_data().len() > 2 && self.may_lose_another();
        if !may_be || !self.alive().contains(&node) || !self.may_lose(node) {
            return;
        }
        if self.random.one_in(2) {
            self.send_half_of_a_commit(node);
        }
        let other = self.other_to_lose(node, with);
        self.kill(node);
        if let Some(other) = other {
            self.kill(other);
            // Changes that only these two have acknowledged may be lost.
            self.members.iter_mut().for_each(|member| member.written.clear());
        }
    }

    /// Whether some member has yet to adopt a view.
    pub(super) fn has_views_to_adopt(&self) -> bool {
        self.oldest_epoch() < self.latest().epoch
    }

    /// Epoch of the oldest view that is the last one of a member.
    fn oldest_epoch(&self) -> u64 {
        let alive = self.members.iter().filter(|member| member.is_alive);
        let epochs = alive.map(|member| member.core.view().epoch);
        epochs.min().unwrap_or(self.latest().epoch)
    }

    /// The views in which members are, or will be.
    pub(super) fn views_in_force(&self) -> &[View] {
        &self.views[self.oldest_epoch() as usize - 1..]
    }

    /// Whether another member may die now. Where nodes join deaths are frequent: if two members die
    /// at once, records that only those two have are lost, although the second may have ordered
    /// later ones that survive (docs/internals/cluster-views.md).
    pub(super) fn may_lose_another(&mut self) -> bool {
        self.advance_recovery();
        !self.plan.joins && self.plan.copies.is_none() || self.recovery.is_none()
    }

    /// A member that dies together with another one, where two die at once: `with` if it is given.
    /// Every slot has a third owner, and all changes of former primaries were applied.
    fn other_to_lose(&mut self, node: u16, with: Option<u16>) -> Option<u16> {
        let may_be = self.plan.deaths > 1 && self.with_data().len() > 3 && self.is_reconciled();
        if !may_be {
            return None;
        }
        let alive = self.alive();
        let other = match with.filter(|with| alive.contains(with)) {
            Some(with) => with,
            None => *self.random.pick(&alive),
        };
        let slots = (0..GROUPS).map(group_begin);
        let owners = slots.map(|slot| self.latest().slots.owners(slot));
        let is_elsewhere = |owners: &[Node]| owners.iter().any(|of| ![node, other].contains(&of.0));
        (other != node && owners.into_iter().all(is_elsewhere)).then_some(other)
    }

    fn advance_recovery(&mut self) {
        let Some(recovery) = &self.recovery else { return };
        let owed = match &recovery.owed {
            Some(owed) => owed.clone(),
            None if self.is_reconciled() => self.witness.borrow().shown(),
            None => return,
        };
        // Changes after that have been acknowledged by an owner that is alive.
        let has_all = |node: &Node, slot: u16, at: u64| {
            let member = &self.members[usize::from(node.0)];
            member.is_alive && (!member.has_data || member.machine.position(slot) >= at)
        };
        let is_owed = |(slot, at): &(u16, u64)| {
            !self.latest().slots.owners(*slot).iter().all(|node| has_all(node, *slot, *at))
        };
        let owed: Positions = owed.into_iter().filter(is_owed).collect();
        self.recovery = (!owed.is_empty()).then_some(Recovery { owed: Some(owed) });
    }

    /// Whether all members have adopted the last view, and have everything of former primaries.
    fn is_reconciled(&self) -> bool {
        let epoch = self.latest().epoch;
        let is_reconciled = |member: &super::Member| {
            !member.is_alive || member.core.view().epoch == epoch && member.core.is_reconciled()
        };
        self.dying.is_empty() && self.members.iter().all(is_reconciled)
    }
}
