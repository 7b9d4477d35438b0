//! Slots with fewer homes than there are data members: from one view to the next.
//!
//! ```text
//! wanted     who is to hold a slot, as `allocate` deals it out among those that hold slots
//! incoming   wanted, but without the data: sent them by the primary until it has said so
//! homes      have the data; one is dropped once as many as are wanted have them without it
//! lost       slots whose last home has gone: it may claim them when it comes back, for a while
//! ```
//!
//! A primary was a home in the view before, and one that is a member still stays a home in the
//! view that appoints its successor. So what is wanted may take some views more.

use petrel_cluster::{Member, Node, SLOTS, SlotSet, allocate};
use serde::{Deserialize, Serialize};

/// Neighbouring slots with the same nodes, the primary first.
pub(crate) type Range = (u16, u16, Vec<u16>);

/// What is agreed on of slots beside their homes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Sparse {
    pub incoming: Vec<Range>,
    wanted: Vec<Range>,
    lost: Vec<Lost>,
}

/// Neighbouring slots without a home, since the same view and for the same loss.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Lost {
    first: u16,
    last: u16,
    /// Their last home.
    home: u16,
    /// The first view without it.
    epoch: u64,
}

/// What makes another view.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// Members have come or gone, or take or give up slots.
    Members,
    /// What the view before has left for this one.
    Rest,
    /// A member has got the data of these slots from the primaries that they have.
    Arrived(u16, &'a SlotSet),
    /// A member has come back with the data of the slots of which it was the last home.
    Claim(u16),
    /// Slots that have been without a home since this view, or one before it, begin anew.
    BeginAnew(u64),
}

/// Who there is when a view is made.
pub(crate) struct Around<'a> {
    /// The number of the view.
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
    /// That of slots whose homes are those that are wanted.
    pub fn wanting(homes: Vec<Range>) -> Self {
        Sparse { wanted: homes, ..Sparse::default() }
    }

    /// The homes in the next view, from those in the one before.
    pub fn next(&mut self, before: &[Range], around: &Around, event: Event) -> Vec<Range> {
        let old = expand(before);
        if matches!(event, Event::Members) {
            self.deal(&old, around);
        }
        let wanted = expand(&self.wanted);
        let mut lost = self.lost_slots();
        let (mut homes, mut incoming) = (Vec::new(), Vec::new());
        for slot in 0..usize::from(SLOTS) {
            let (old, wanted) = (old[slot], wanted[slot]);
            let mut alive: Vec<u16> = old.to_vec();
            alive.retain(|&home| around.is_member(home));
            if let (Some(&home), true) = (old.first(), alive.is_empty()) {
                lost[slot] = Some((home, around.epoch));
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
            homes.push(now);
            incoming.push(lacking);
        }
        self.lost = runs_of_lost(&lost);
        self.incoming = runs(&incoming);
        runs(&homes)
    }

    /// Deals out who is to hold what, with as little change as possible: what was wanted stays, and
    /// homes that have the data are better than members that have not.
    fn deal(&mut self, homes: &[&[u16]], around: &Around) {
        let wanted = expand(&self.wanted);
        let kept: Vec<Vec<Node>> = (wanted.iter().zip(homes))
            .map(|(wanted, homes)| {
                let others = homes.iter().filter(|home| !wanted.contains(home));
                let nodes = wanted.iter().chain(others);
                nodes.filter(|node| around.takes_slots(**node)).copied().map(Node).collect()
            })
            .collect();
        let kept = petrel_cluster::SlotMap::collect(|slot| &kept[usize::from(slot)]);
        let dealt = allocate(&kept, around.members, around.copies);
        let numbers = |homes: &[Node]| homes.iter().map(|node| node.0).collect();
        let ranges = dealt.ranges().iter();
        self.wanted =
            ranges.map(|range| (range.first, range.last, numbers(&range.homes))).collect();
    }

    fn lost_slots(&self) -> Vec<Option<(u16, u64)>> {
        let mut slots = vec![None; SLOTS.into()];
        for run in &self.lost {
            let slots = slots.iter_mut().take(usize::from(run.last) + 1);
            slots.skip(run.first.into()).for_each(|slot| *slot = Some((run.home, run.epoch)));
        }
        slots
    }

    /// Whether this node was the last home of slots that have none.
    pub fn may_claim(&self, number: u16) -> bool {
        self.lost.iter().any(|run| run.home == number)
    }

    /// The number belongs to another node from now on: slots of which it was the last home wait
    /// for it no longer.
    pub fn forget(&mut self, number: u16) {
        self.lost.retain(|run| run.home != number);
    }

    /// The last view that has left slots without a home for which their last home is waited.
    pub fn last_loss(&self) -> Option<u64> {
        self.lost.iter().map(|run| run.epoch).max()
    }

    /// How many slots lost in this view or one before have no home.
    pub fn lost_until(&self, epoch: u64) -> usize {
        let runs = self.lost.iter().filter(|run| run.epoch <= epoch);
        runs.map(|run| usize::from(run.last - run.first) + 1).sum()
    }
}

/// The home of a slot that has none: its last one if that has come back with the data. If it has
/// come back without them, or was waited for in vain, the slot begins anew.
fn revive(
    lost: &mut Option<(u16, u64)>,
    wanted: &[u16],
    around: &Around,
    event: Event,
) -> Vec<u16> {
    let Some((home, epoch)) = *lost else { return wanted.first().copied().into_iter().collect() };
    let is_over = matches!(event, Event::BeginAnew(until) if epoch <= until);
    let heir = match event {
        Event::Claim(number) if number == home => Some(home),
        _ if is_over || around.takes_slots(home) => wanted.first().copied(),
        _ => None,
    };
    if heir.is_some() {
        *lost = None;
    }
    heir.into_iter().collect()
}

/// The homes of a slot of which some members have the data; `alive` are those that were homes, and
/// behind them one that has become able to be one.
fn place(old: &[u16], mut alive: Vec<u16>, wanted: &[u16]) -> Vec<u16> {
    let Some(&first) = wanted.first() else { return alive };
    let primary = alive[0];
    if old.contains(&first) && wanted.iter().all(|node| alive.contains(node)) {
        let mut homes = wanted.to_vec();
        // It stays until its successor is appointed.
        if !wanted.contains(&primary) {
            homes.push(primary);
        }
        return homes;
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
        let Some((home, epoch)) = *lost else { continue };
        match runs.last_mut() {
            Some(run) if run.last + 1 == slot && (run.home, run.epoch) == (home, epoch) => {
                run.last = slot;
            }
            _ => runs.push(Lost { first: slot, last: slot, home, epoch }),
        }
    }
    runs
}
