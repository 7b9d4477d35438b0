//! Which members hold which slots, as it changes from view to view.
//!
//! ```text
//! every member holds everything   homes: as `allocate` deals them out
//! few do                          homes      have the slot's data; the first is its primary
//!                                 wanted     the homes that `allocate` deals out
//!                                 incoming   wanted, no homes yet: they are being sent the data
//!                                 last       of slots whose homes are all gone: the last of them
//! ```
//!
//! With few homes a step goes as far as data allow. Homes that are members stay until all that are
//! wanted have the data; then the wanted ones take over, in one view, of which each has been a home
//! in the view before. A slot that has lost all its homes waits for the last of them, which has its
//! changes on disk, and begins anew once it is given up.

use petrel_cluster::{Member, Node, SLOTS, Slot, SlotMap, allocate};
use serde::{Deserialize, Serialize};

/// Neighbouring slots with the same nodes.
pub(crate) type Range = (u16, u16, Vec<u16>);

/// Which members hold which slots.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Placement {
    /// The primary first.
    pub homes: Vec<Range>,
    /// Nothing where every member holds everything.
    pub incoming: Vec<Range>,
    wanted: Vec<Range>,
    last: Vec<Range>,
}

impl Placement {
    /// One of which only the homes are known.
    pub fn of_homes(homes: Vec<Range>) -> Placement {
        Placement { homes, ..Placement::default() }
    }

    /// The next step where every one of these members holds everything.
    pub fn step_of_all(&mut self, members: &[Member]) {
        self.homes = ranges(&allocate(&slot_map(&self.homes), members, members.len()));
    }

    /// The next step where a slot has so many homes among these members. One without a weight keeps
    /// what it has until others have it.
    pub fn step(&mut self, members: &[Member], copies: usize) {
        let (homes, mut last) = (slot_map(&self.homes), by_slot(&self.last));
        let is_member = |node: &&Node| members.iter().any(|member| member.node == **node);
        let kept = |slot| homes.homes(slot).iter().filter(is_member).copied();
        let before = slot_map(&self.wanted);
        // Where a wanted home is gone, one that has the data is better than one that has not.
        let previous: Vec<Vec<Node>> = (0..SLOTS)
            .map(|slot| {
                let mut nodes: Vec<Node> = before.homes(slot).to_vec();
                nodes.retain(|node| is_member(&node));
                let others: Vec<Node> = kept(slot).filter(|node| !nodes.contains(node)).collect();
                nodes.extend(others);
                nodes
            })
            .collect();
        let previous = SlotMap::collect(|slot| &previous[usize::from(slot)]);
        let wanted = allocate(&previous, members, copies);
        let (mut next, mut incoming) = (nothing(), nothing());
        for slot in 0..SLOTS {
            let at = usize::from(slot);
            let (have, want) = (kept(slot).collect::<Vec<_>>(), wanted.homes(slot));
            if have.is_empty() && !homes.homes(slot).is_empty() {
                last[at] = homes.homes(slot).to_vec();
            }
            let missing = || want.iter().copied().filter(|node| !have.contains(node));
            match (have.is_empty(), last[at].is_empty()) {
                (true, true) => {
                    next[at] = want.first().copied().into_iter().collect();
                    incoming[at] = want.iter().skip(1).copied().collect();
                }
                (true, false) => {}
                (false, _) => {
                    last[at].clear();
                    let is_complete = !want.is_empty() && missing().next().is_none();
                    incoming[at] = missing().collect();
                    next[at] = if is_complete { want.to_vec() } else { have };
                }
            }
        }
        self.homes = ranges_of(&next);
        self.incoming = ranges_of(&incoming);
        self.wanted = ranges(&wanted);
        self.last = ranges_of(&last);
    }

    /// Makes a node a home of slots whose data it has been sent; of those for which `is_current`
    /// says so and that it is to become a home of. False if there are none.
    pub fn arrive(&mut self, node: Node, is_current: impl Fn(Slot) -> bool) -> bool {
        let (mut homes, mut incoming) = (by_slot(&self.homes), by_slot(&self.incoming));
        let mut is_changed = false;
        for slot in 0..SLOTS {
            let at = usize::from(slot);
            let place = incoming[at].iter().position(|other| *other == node);
            let Some(place) = place.filter(|_| is_current(slot)) else { continue };
            incoming[at].remove(place);
            homes[at].push(node);
            is_changed = true;
        }
        if is_changed {
            (self.homes, self.incoming) = (ranges_of(&homes), ranges_of(&incoming));
        }
        is_changed
    }

    /// Gives a node that is back with its data the slots whose last home it was; false if there
    /// are none.
    pub fn claim(&mut self, node: Node) -> bool {
        let mut is_changed = false;
        let (mut homes, mut last) = (by_slot(&self.homes), by_slot(&self.last));
        for (homes, last) in homes.iter_mut().zip(&mut last) {
            if last.contains(&node) {
                last.clear();
                *homes = vec![node];
                is_changed = true;
            }
        }
        (self.homes, self.last) = (ranges_of(&homes), ranges_of(&last));
        is_changed
    }

    /// Of a node that will never come back, the number belongs to another: no slot waits for it.
    pub fn forget(&mut self, node: Node) {
        let mut last = by_slot(&self.last);
        last.iter_mut().for_each(|last| last.retain(|other| *other != node));
        self.last = ranges_of(&last);
    }

    /// Whether slots wait for their last homes.
    pub fn waits_for_last(&self) -> bool {
        !self.last.is_empty()
    }

    /// The next step lets the slots that wait for their last homes begin anew.
    pub fn give_up_last(&mut self) {
        self.last.clear();
    }
}

/// The nodes of each slot.
pub(crate) fn slot_map(ranges: &[Range]) -> SlotMap {
    let nodes: Vec<Vec<Node>> =
        ranges.iter().map(|(_, _, nodes)| nodes.iter().copied().map(Node).collect()).collect();
    SlotMap::collect(|slot| {
        let at = ranges.partition_point(|(_, last, _)| *last < slot);
        match ranges.get(at) {
            Some((first, _, _)) if *first <= slot => &nodes[at],
            _ => &[],
        }
    })
}

fn ranges(slots: &SlotMap) -> Vec<Range> {
    let numbers = |nodes: &[Node]| nodes.iter().map(|node| node.0).collect();
    slots.ranges().iter().map(|range| (range.first, range.last, numbers(&range.homes))).collect()
}

fn nothing() -> Vec<Vec<Node>> {
    vec![Vec::new(); usize::from(SLOTS)]
}

fn by_slot(ranges: &[Range]) -> Vec<Vec<Node>> {
    let mut slots = nothing();
    for (first, last, nodes) in ranges {
        for slot in *first..=(*last).min(SLOTS - 1) {
            slots[usize::from(slot)] = nodes.iter().copied().map(Node).collect();
        }
    }
    slots
}

fn ranges_of(slots: &[Vec<Node>]) -> Vec<Range> {
    ranges(&SlotMap::collect(|slot| &slots[usize::from(slot)]))
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
