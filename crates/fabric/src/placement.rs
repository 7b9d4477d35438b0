//! Placement of slots with fewer owners than data members, from one view to the next.
//!
//! ```text
//! wanted     intended owners, as `allocate` assigns them to members that accept slots
//! incoming   importers: wanted, but without the data until they report them
//! owners     have the data; a surplus one is dropped once enough others have them
//! lost       slots without owners: the last owner may claim them for some time when it returns
//! ```
//!
//! A new primary was an owner in the previous view. A primary that is still a member remains an
//! owner in the view that appoints its successor. So reaching the wanted placement may take several
//! views.

use petrel_cluster::{Member, Node, SLOTS, SlotSet, allocate};
use serde::{Deserialize, Serialize};

/// First slot, last slot, and nodes with the primary first.
pub(crate) type Range = (u16, u16, Vec<u16>);

/// Replicated state of placement, besides the owners.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Sparse {
    pub incoming: Vec<Range>,
    wanted: Vec<Range>,
    lost: Vec<Lost>,
}

/// Adjacent slots without owners, lost in the same view with the same node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Lost {
    first: u16,
    last: u16,
    /// Last owner.
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
    /// Slots without owners since this view, or an earlier one, start empty.
    BeginAnew(u64),
}

/// Inputs for a new view.
pub(crate) struct Around<'a> {
    /// Epoch of the view.
    pub epoch: u64,
    /// All members.
    pub members: &'a [Member],
    pub copies: usize,
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
        let mut lost = self.lost_slots();
        let (mut owners, mut incoming) = (Vec::new(), Vec::new());
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
            let now = match alive.is_empty() {
                true => revive(&mut lost[slot], wanted, around, event),
                false => place(old, alive, wanted),
            };
            let mut lacking = wanted.to_vec();
            lacking.retain(|node| !now.is_empty() && !now.contains(node));
            owners.push(now);
            incoming.push(lacking);
        }
        self.lost = runs_of_lost(&lost);
        self.incoming = runs(&incoming);
        runs(&owners)
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

    fn lost_slots(&self) -> Vec<Option<(u16, u64)>> {
        let mut slots = vec![None; SLOTS.into()];
        for run in &self.lost {
            let slots = slots.iter_mut().take(usize::from(run.last) + 1);
            slots.skip(run.first.into()).for_each(|slot| *slot = Some((run.owner, run.epoch)));
        }
        slots
    }

    /// Whether this node was the last owner of slots without owners.
    pub fn may_claim(&self, number: u16) -> bool {
        self.lost.iter().any(|run| run.owner == number)
    }

    /// Forgets a node when its number is reused: slots that it owned last do not wait for it any
    /// more.
    pub fn forget(&mut self, number: u16) {
        self.lost.retain(|run| run.owner != number);
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

/// The new owner of a slot without owners: the last one if it has returned with the data. If it has
/// returned without them, or has not returned in time, the slot starts empty at another member.
fn revive(
    lost: &mut Option<(u16, u64)>,
    wanted: &[u16],
    around: &Around,
    event: Event,
) -> Vec<u16> {
    let Some((owner, epoch)) = *lost else { return wanted.first().copied().into_iter().collect() };
    let is_over = matches!(event, Event::BeginAnew(until) if epoch <= until);
    let heir = match event {
        Event::Claim(number) if number == owner => Some(owner),
        _ if is_over || around.takes_slots(owner) => wanted.first().copied(),
        _ => None,
    };
    if heir.is_some() {
        *lost = None;
    }
    heir.into_iter().collect()
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
