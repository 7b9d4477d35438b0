//! Placement of slots with fewer owners than data members, from one view to the next.
//!
//! ```text
//! wanted     intended owners, as `allocate` assigns them to members that accept slots
//! incoming   importers: wanted, but without the data until they report them
//! owners     have the data; a surplus one is dropped once enough others have them
//! former     owners that have failed since the slot had all its owners: they may still have data
//! lost       slots without owners: they wait for the last owner, which claims them when it returns
//! ```
//!
//! A slot without owners starts empty by itself only if no former owner keeps data on disk. Else it
//! waits until the last owner returns with its data, or the operator gives it up
//! ([`Event::TakeOver`]): then it continues with the data of another former owner that has
//! returned, or without data.
//!
//! A new primary was an owner in the previous view. A primary that is still a member remains an
//! owner in the view that appoints its successor. So reaching the wanted placement may take several
//! views.

use petrel_cluster::{Member, Node, SLOTS, SlotSet, allocate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// First slot, last slot, and nodes with the primary first.
pub(crate) type Range = (u16, u16, Vec<u16>);

/// Replicated state of placement, besides the owners.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Sparse {
    pub incoming: Vec<Range>,
    wanted: Vec<Range>,
    lost: Vec<Lost>,
    /// Encoded apart, like the other fields that older versions do not know.
    #[serde(skip)]
    pub former: Vec<Range>,
    /// Members that have returned with data of slots that wait for another one.
    #[serde(skip)]
    pub with_data: BTreeSet<u16>,
}

/// Last owner of slots that it has returned without.
const NO_OWNER: u16 = u16::MAX;

/// Adjacent slots without owners, lost in the same view with the same node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Lost {
    first: u16,
    last: u16,
    /// Last owner, or [`NO_OWNER`].
    owner: u16,
    /// Epoch of the first view without it.
    epoch: u64,
}

/// Cause of a new view.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// Members have changed, or accept or give up slots.
    Members,
    /// Continuation of the previous view's changes.
    Rest,
    /// A member has imported these slots from their primaries.
    Arrived(u16, &'a SlotSet),
    /// A member has returned with the data of slots of which it was the last owner.
    Claim(u16),
    /// Slots without owners since this view, or an earlier one, start empty unless a former owner
    /// keeps data.
    BeginAnew(u64),
    /// The operator gives up the last owners of slots without owners since this view, or an
    /// earlier one.
    TakeOver(u64),
}

/// Inputs for a new view.
pub(crate) struct Around<'a> {
    /// Epoch of the view.
    pub epoch: u64,
    /// All members.
    pub members: &'a [Member],
    pub copies: usize,
    /// Nodes, present or former members, that keep data on disk.
    pub keepers: &'a BTreeSet<u16>,
}

/// Slots without owners that wait for the same node since the same view.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Waiting {
    /// Ranges, each by first and last slot.
    pub slots: Vec<(u16, u16)>,
    /// The last owner.
    pub owner: u16,
    /// Epoch of the first view without it.
    pub epoch: u64,
}

impl Around<'_> {
    fn is_member(&self, number: u16) -> bool {
        self.members.iter().any(|member| member.node.0 == number)
    }

    fn takes_slots(&self, number: u16) -> bool {
        self.members.iter().any(|member| member.node.0 == number && member.weight > 0)
    }
}

impl Sparse {
    /// State of slots with exactly the wanted owners.
    pub fn wanting(owners: Vec<Range>) -> Self {
        Sparse { wanted: owners, ..Sparse::default() }
    }

    /// The owners in the next view, from those in the previous one.
    pub fn next(&mut self, before: &[Range], around: &Around, event: Event) -> Vec<Range> {
        let old = expand(before);
        if matches!(event, Event::Members) {
            self.deal(&old, around);
        }
        let wanted = expand(&self.wanted);
        let known = expand(&self.former);
        let mut lost = self.lost_slots();
        let (mut owners, mut incoming, mut former) = (Vec::new(), Vec::new(), Vec::new());
        self.with_data.retain(|&number| around.is_member(number));
        for slot in 0..usize::from(SLOTS) {
            let (old, wanted) = (old[slot], wanted[slot]);
            let mut alive: Vec<u16> = old.to_vec();
            alive.retain(|&owner| around.is_member(owner));
            if let (Some(&owner), true) = (old.first(), alive.is_empty()) {
                lost[slot] = Some((owner, around.epoch));
            }
            if let Event::Arrived(number, slots) = event
                && slots.contains(slot as u16)
                && !alive.is_empty()
                && !alive.contains(&number)
            {
                alive.push(number);
            }
            let mut were: Vec<u16> = old.to_vec();
            were.retain(|&owner| !around.is_member(owner));
            were.extend(known[slot].iter().filter(|owner| !old.contains(owner)));
            let now = match alive.is_empty() {
                true => self.revive(&mut lost[slot], &were, wanted, around, event),
                false => place(old, alive, wanted),
            };
            if !now.is_empty() {
                // Keys of slots with owners are removed from members that are none.
                were.retain(|&owner| !around.is_member(owner));
            }
            if !now.is_empty() && now.len() >= wanted.len() {
                were.clear();
            }
            former.push(were);
            let mut lacking = wanted.to_vec();
            lacking.retain(|node| !now.is_empty() && !now.contains(node));
            owners.push(now);
            incoming.push(lacking);
        }
        (self.lost, self.former) = (runs_of_lost(&lost), runs(&former));
        self.incoming = runs(&incoming);
        runs(&owners)
    }

    /// The new owner of a slot without owners: the last one if it has returned with the data. If
    /// the operator has given that up, another former owner that has returned with data, else any.
    fn revive(
        &self,
        lost: &mut Option<(u16, u64)>,
        former: &[u16],
        wanted: &[u16],
        around: &Around,
        event: Event,
    ) -> Vec<u16> {
        let first = wanted.first().copied();
        let Some((owner, epoch)) = *lost else { return first.into_iter().collect() };
        let may_return = may_have_data(owner, former, around.keepers);
        let heir = match event {
            Event::Claim(number) if number == owner => Some(owner),
            Event::TakeOver(until) if epoch <= until => {
                let has_returned = |node: &&u16| self.with_data.contains(node);
                former.iter().find(has_returned).copied().or(first)
            }
            Event::BeginAnew(until) if epoch <= until && !may_return => first,
            _ if around.takes_slots(owner) && !may_return => first,
            _ => None,
        };
        if heir.is_some() {
            *lost = None;
        }
        heir.into_iter().collect()
    }

    /// Assigns the wanted owners with few changes: earlier assignments are kept, and owners with
    /// the data are preferred to members without.
    fn deal(&mut self, owners: &[&[u16]], around: &Around) {
        let wanted = expand(&self.wanted);
        let kept: Vec<Vec<Node>> = (wanted.iter().zip(owners))
            .map(|(wanted, owners)| {
                let others = owners.iter().filter(|owner| !wanted.contains(owner));
                let nodes = wanted.iter().chain(others);
                nodes.filter(|node| around.takes_slots(**node)).copied().map(Node).collect()
            })
            .collect();
        let kept = petrel_cluster::SlotMap::collect(|slot| &kept[usize::from(slot)]);
        let dealt = allocate(&kept, around.members, around.copies);
        let numbers = |owners: &[Node]| owners.iter().map(|node| node.0).collect();
        let ranges = dealt.ranges().iter();
        self.wanted =
            ranges.map(|range| (range.first, range.last, numbers(&range.owners))).collect();
    }

    /// For each slot without owners the node that it waits for, and the epoch of the first view
    /// without owners.
    pub fn lost_slots(&self) -> Vec<Option<(u16, u64)>> {
        let mut slots = vec![None; SLOTS.into()];
        for run in &self.lost {
            let slots = slots.iter_mut().take(usize::from(run.last) + 1);
            slots.skip(run.first.into()).for_each(|slot| *slot = Some((run.owner, run.epoch)));
        }
        slots
    }

    /// Lets slots without owners wait for the first node of each range, the others being former
    /// owners. Returns the first nodes.
    pub fn set_heirs(&mut self, heirs: &[Range]) -> BTreeSet<u16> {
        let mut lost = self.lost_slots();
        let mut former: Vec<Vec<u16>> = expand(&self.former).into_iter().map(Vec::from).collect();
        let mut first = BTreeSet::new();
        for (begin, end, nodes) in heirs {
            let Some((heir, others)) = nodes.split_first() else { continue };
            for slot in usize::from(*begin)..=usize::from(*end).min(lost.len() - 1) {
                let Some((owner, _)) = &mut lost[slot] else { continue };
                *owner = *heir;
                former[slot] = others.to_vec();
                first.insert(*heir);
            }
        }
        (self.lost, self.former) = (runs_of_lost(&lost), runs(&former));
        first
    }

    /// Whether [`Sparse::set_heirs`] would change nothing.
    pub fn has_heirs(&self, heirs: &[Range]) -> bool {
        let (lost, former) = (self.lost_slots(), expand(&self.former));
        heirs.iter().all(|(begin, end, nodes)| {
            (usize::from(*begin)..=usize::from(*end)).all(|slot| {
                let waits = lost[slot].map(|(owner, _)| owner);
                waits.is_none_or(|owner| {
                    nodes.first() == Some(&owner) && former[slot] == &nodes[1..]
                })
            })
        })
    }

    /// Records that a node accepts slots and has claimed none that wait for it: it has returned
    /// without their data. It may have data later, but not these.
    pub fn return_without_data(&mut self, number: u16) {
        if !self.may_claim(number) {
            return;
        }
        let mut former: Vec<Vec<u16>> = expand(&self.former).into_iter().map(Vec::from).collect();
        for run in self.lost.iter_mut().filter(|run| run.owner == number) {
            run.owner = NO_OWNER;
            for former in &mut former[usize::from(run.first)..=usize::from(run.last)] {
                former.retain(|node| *node != number);
                former.push(number);
            }
        }
        self.former = runs(&former);
    }

    /// Whether this node was the last owner of slots without owners.
    pub fn may_claim(&self, number: u16) -> bool {
        self.lost.iter().any(|run| run.owner == number)
    }

    /// Whether this node was an owner of slots that wait for another one, and may have their data.
    pub fn is_former_owner(&self, number: u16) -> bool {
        let lost = self.lost.iter().any(|lost| {
            let overlaps = |(first, last, nodes): &Range| {
                *first <= lost.last && lost.first <= *last && nodes.contains(&number)
            };
            self.former.iter().any(overlaps)
        });
        lost && !self.may_claim(number)
    }

    /// Whether slots without owners wait for this node or for its data: its number is not reused.
    pub fn awaits(&self, number: u16) -> bool {
        self.may_claim(number) || self.is_former_owner(number)
    }

    /// Forgets a node when its number is reused.
    pub fn forget(&mut self, number: u16) {
        self.former.iter_mut().for_each(|(_, _, nodes)| nodes.retain(|node| *node != number));
        self.former.retain(|(_, _, nodes)| !nodes.is_empty());
        self.with_data.remove(&number);
    }

    /// The slots without owners, by the node that they wait for.
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut all: Vec<Waiting> = Vec::new();
        for &Lost { first, last, owner, epoch } in &self.lost {
            match all.iter_mut().find(|of| (of.owner, of.epoch) == (owner, epoch)) {
                Some(of) => of.slots.push((first, last)),
                None => all.push(Waiting { slots: vec![(first, last)], owner, epoch }),
            }
        }
        all
    }

    /// Number of slots without owners since this view or an earlier one that no node keeps data of.
    pub fn forsaken_until(&self, epoch: u64, keepers: &BTreeSet<u16>) -> usize {
        let (former, lost) = (expand(&self.former), self.lost_slots());
        let is_forsaken = |(lost, former): &(Option<(u16, u64)>, &[u16])| {
            lost.is_some_and(|(owner, since)| {
                since <= epoch && !may_have_data(owner, former, keepers)
            })
        };
        lost.into_iter().zip(former).filter(is_forsaken).count()
    }

    /// The last view in which slots lost all owners, and still wait for the last one.
    pub fn last_loss(&self) -> Option<u64> {
        self.lost.iter().map(|run| run.epoch).max()
    }

    /// Number of slots without owners that were lost in this view or an earlier one.
    pub fn lost_until(&self, epoch: u64) -> usize {
        let runs = self.lost.iter().filter(|run| run.epoch <= epoch);
        runs.map(|run| usize::from(run.last - run.first) + 1).sum()
    }
}

/// Whether a former owner of a slot without owners may return with data.
fn may_have_data(owner: u16, former: &[u16], keepers: &BTreeSet<u16>) -> bool {
    #[cfg(test)]
    if tests::RESETS_ALONE.get() {
        return false;
    }
    former.iter().chain([&owner]).any(|node| keepers.contains(node))
}

/// The owners of a slot of which some members have the data. `alive` are its former owners,
/// followed by at most one importer that has completed.
fn place(old: &[u16], mut alive: Vec<u16>, wanted: &[u16]) -> Vec<u16> {
    let Some(&first) = wanted.first() else { return alive };
    let primary = alive[0];
    if old.contains(&first) && wanted.iter().all(|node| alive.contains(node)) {
        let mut owners = wanted.to_vec();
        // Remains until its successor is appointed.
        if !wanted.contains(&primary) {
            owners.push(primary);
        }
        return owners;
    }
    while alive.len() > wanted.len() {
        let surplus = (1..alive.len()).rev().find(|&at| !wanted.contains(&alive[at]));
        let Some(at) = surplus else { break };
        alive.remove(at);
    }
    alive
}

/// The nodes of each slot.
pub(crate) fn expand(ranges: &[Range]) -> Vec<&[u16]> {
    let mut slots: Vec<&[u16]> = vec![&[]; SLOTS.into()];
    for (first, last, nodes) in ranges {
        let slots = slots.iter_mut().take(usize::from(*last) + 1);
        slots.skip((*first).into()).for_each(|slot| *slot = nodes);
    }
    slots
}

fn runs(slots: &[Vec<u16>]) -> Vec<Range> {
    let mut runs: Vec<Range> = Vec::new();
    for (slot, nodes) in (0..SLOTS).zip(slots) {
        match runs.last_mut() {
            Some((_, last, same)) if *last + 1 == slot && same == nodes => *last = slot,
            _ if nodes.is_empty() => {}
            _ => runs.push((slot, slot, nodes.clone())),
        }
    }
    runs
}

fn runs_of_lost(slots: &[Option<(u16, u64)>]) -> Vec<Lost> {
    let mut runs: Vec<Lost> = Vec::new();
    for (slot, lost) in (0..SLOTS).zip(slots) {
        let Some((owner, epoch)) = *lost else { continue };
        match runs.last_mut() {
            Some(run) if run.last + 1 == slot && (run.owner, run.epoch) == (owner, epoch) => {
                run.last = slot;
            }
            _ => runs.push(Lost { first: slot, last: slot, owner, epoch }),
        }
    }
    runs
}

#[cfg(test)]
pub(crate) mod tests {
    thread_local! {
        /// Breaks the rule that slots wait while a former owner keeps data: a test has to find
        /// that.
        pub(crate) static RESETS_ALONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
}
