//! Recovery from a death: the adversary kills the next member once the data of the last one are
//! whole again, also while members have yet to adopt a view.

use super::World;
use crate::witness::Positions;
use petrel_cluster::{Node, View};

/// Recovery from a death.
#[derive(Default)]
pub(super) struct Recovery {
    /// Changes that clients were shown until all members had adopted the view without the dead one
    /// and were reconciled, by slot: those that some owner has not applied yet.
    owed: Option<Positions>,
}

impl World {
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
    /// later ones that survive (docs/internals/cluster-protocol.md).
    pub(super) fn may_lose_another(&mut self) -> bool {
        self.advance_recovery();
        !self.plan.joins && self.plan.copies.is_none() || self.recovery.is_none()
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
