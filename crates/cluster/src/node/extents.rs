//! Extents of this node's data, for its log and snapshots ([`Extents`]).

use super::Node;
use crate::extents::{Extent, Extents};
use crate::mutation::{Mutation, is_broken};
use crate::reconcile::FormerPrimary;
use crate::slot::{SLOTS, Slot, SlotSet};
use crate::slot_map::common_runs;
use crate::view::Identity;

/// Changes of the extents.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ExtentChanges {
    /// Extents of slots, so that the whole form is logged.
    pub has_terms: bool,
    /// Primaries with positions that have changed, and the lane if it is one.
    pub positions: Vec<(Identity, Option<usize>)>,
}

/// Extents, and the state from which they were computed.
#[derive(Default)]
pub(super) struct OwnExtents {
    extents: Extents,
    /// Epoch of this node's first view.
    first: u64,
    /// View, arrivals, and ends of former primaries and of epochs.
    computed: Option<(u64, u64, u32, u64)>,
}

impl OwnExtents {
    pub fn new(first: u64) -> Self {
        OwnExtents { first, ..OwnExtents::default() }
    }
}

impl Node {
    /// The extents of this node's data as of the last update.
    pub fn extents(&self) -> &Extents {
        &self.own_extents.extents
    }

    /// Sets the extents with which the node's data were loaded.
    pub fn set_extents(&mut self, extents: Extents) {
        self.own_extents = OwnExtents { extents, ..OwnExtents::new(self.own_extents.first) };
    }

    /// Updates the extents. In the log the changes follow those of the data: with
    /// `appendfsync always` nothing is acknowledged before them.
    pub fn update_extents(&mut self) -> ExtentChanges {
        let mut changes = ExtentChanges::default();
        let ended: u32 = self.former.iter().map(|former| 1 + former.ended().count_ones()).sum();
        let arrivals = self.arrivals() * 2 + u64::from(self.has_leftover());
        let members = self.view.members.iter();
        let epochs: u64 = members.map(|&member| self.epoch_of(member)).sum();
        let state = Some((self.view.epoch, arrivals, ended, epochs));
        if self.own_extents.computed != state {
            self.own_extents.computed = state;
            let before = &self.own_extents.extents;
            let after = self.collect_extents();
            let is_same = |slot| after.get(slot) == before.get(slot);
            changes.has_terms = !(0..SLOTS).all(is_same);
            self.own_extents.extents = after;
        }
        for (primary, lanes) in self.own_extents.extents.positions_mut() {
            let Some(inboxes) = self.inboxes.get(&primary) else { continue };
            let mut changed = None;
            for (lane, (position, inbox)) in lanes.iter_mut().zip(inboxes).enumerate() {
                let applied = inbox.applied().max(*position);
                if std::mem::replace(position, applied) != applied {
                    changed = Some(if changed.is_none() { Some(lane) } else { None });
                }
            }
            changes.positions.extend(changed.map(|lane| (primary, lane)));
        }
        changes
    }

    /// Epoch of the view up to which everything that a member has ordered was applied.
    fn epoch_of(&self, member: Identity) -> u64 {
        if member == self.identity || is_broken(Mutation::ExtendEarly) {
            return self.view.epoch;
        }
        let inboxes = self.inboxes.get(&member).map(Vec::as_slice).unwrap_or_default();
        let ended = inboxes.iter().map(|inbox| inbox.end_epoch).min().unwrap_or(0);
        ended.max(self.own_extents.first)
    }

    fn collect_extents(&self) -> Extents {
        let before = &self.own_extents.extents;
        let mut unsettled = SlotSet::default();
        if !is_broken(Mutation::ExtendEarly) {
            let held = |former: &FormerPrimary| former.slots_of(!former.ended());
            self.former.iter().for_each(|former| unsettled.unite(&held(former)));
        }
        let has_data = self.copies.fetch.is_none();
        let mut primaries = vec![None; SLOTS.into()];
        for run in common_runs([&self.view.slots]) {
            let primary = self.view.primary(*run.start());
            let primary = primary.map(|primary| (primary, self.epoch_of(primary)));
            primaries[usize::from(*run.start())..=usize::from(*run.end())].fill(primary);
        }
        let of = |slot: Slot| {
            let is_kept = self.holdings.as_ref().is_some_and(|holdings| holdings.keeps(slot));
            match (self.holds(slot) && has_data, primaries[usize::from(slot)]) {
                (true, Some((primary, epoch)))
                    if !unsettled.contains(slot) && epoch >= self.primaries.tenure(slot) =>
                {
                    Some(Extent { primary, epoch })
                }
                (true, _) => before.get(slot),
                (false, _) if is_kept => before.get(slot),
                (false, _) => None,
            }
        };
        Extents::collect(of, before.positions())
    }
}
