//! Which node is to hold which slots: a pure function of the map as it is and of the members.
//!
//! ```text
//! keep        homes that are still members; the first of them is primary, so a backup replaces a primary that has left
//! primaries   slots without any are dealt out, then members above their quota give to those below it
//! backups     another zone where one has room, missing ones dealt out, then evened out in the same way
//! ```
//!
//! A slot moves only if its home has left, or has more than its quota. What moves is taken in whole
//! short ranges and from the ends of long ones, so that the map stays a list of few ranges.

use crate::slot::SLOTS;
use crate::slot_map::{Node, SlotMap};
use std::cmp::Reverse;

/// A node that may hold slots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Member {
    /// Its number.
    pub node: Node,
    /// How much of the slots it is to hold, beside the weights of others; 0 for nothing.
    pub weight: u32,
    /// What may fail as a whole: a slot's homes are in different zones where that is possible.
    pub zone: u32,
}

/// A node's backups of one primary are dealt out in parts of its quota, so that the slots of a
/// primary that fails fall to several nodes.
const BACKUP_PARTS: usize = 8;

/// The part of its quota that a member may hold beyond it so that homes are in different zones.
const ZONE_SLACK_PART: usize = 64;

/// Slots that are taken at once by nodes that have their quota already.
const EXCESS_CHUNK: usize = 64;

/// Gives each slot `copies` homes among `members`, or as many as there are with a weight; a map of
/// nothing if there are none. The first home is the primary. Members are all different.
///
/// Each has a part of the primaries, and of all homes, that goes by its weight, as far as no slot
/// has one node twice.
pub fn allocate(previous: &SlotMap, members: &[Member], copies: usize) -> SlotMap {
    let members: Vec<Member> = members.iter().copied().filter(|member| member.weight > 0).collect();
    if members.is_empty() || copies == 0 {
        return SlotMap::default();
    }
    let mut plan = Plan::new(previous, members, copies);
    plan.deal_primaries();
    plan.even_primaries();
    plan.improve_zones();
    plan.deal_backups();
    plan.even_backups();
    plan.finish()
}

/// A member by its place among the members.
type Place = usize;

/// Slots from one to another, the latter not included.
type Run = std::ops::Range<usize>;

struct Plan {
    members: Vec<Member>,
    copies: usize,
    /// The homes of each slot, the primary first.
    homes: Vec<Vec<Place>>,
    /// How many slots each member is primary of, and is to be.
    primaries: Vec<usize>,
    primary_quotas: Vec<usize>,
    /// How many slots each member holds, and is to hold.
    held: Vec<usize>,
    quotas: Vec<usize>,
}

impl Plan {
    fn new(previous: &SlotMap, members: Vec<Member>, copies: usize) -> Self {
        let copies = copies.min(members.len());
        let place = |node: &Node| members.iter().position(|member| member.node == *node);
        let mut homes = Vec::with_capacity(SLOTS.into());
        let (mut primaries, mut held) = (vec![0; members.len()], vec![0; members.len()]);
        for slot in 0..SLOTS {
            let kept = previous.homes(slot).iter().filter_map(place);
            let kept: Vec<Place> = kept.take(copies).collect();
            kept.first().into_iter().for_each(|&first| primaries[first] += 1);
            kept.iter().for_each(|&home| held[home] += 1);
            homes.push(kept);
        }
        let primary_quotas = quotas(&members, SLOTS.into());
        let quotas = quotas(&members, usize::from(SLOTS) * copies);
        Plan { members, copies, homes, primaries, primary_quotas, held, quotas }
    }

    fn finish(&self) -> SlotMap {
        let homes: Vec<Vec<Node>> = self.homes.iter().map(|homes| self.nodes(homes)).collect();
        SlotMap::collect(|slot| &homes[usize::from(slot)])
    }

    fn nodes(&self, homes: &[Place]) -> Vec<Node> {
        homes.iter().map(|&place| self.members[place].node).collect()
    }

    fn primary(&self, slot: usize) -> Option<Place> {
        self.homes[slot].first().copied()
    }

    /// Runs of slots for which `key` is the same and is something.
    fn runs<K: PartialEq>(&self, key: impl Fn(usize) -> Option<K>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut last = None;
        for slot in 0..self.homes.len() {
            let this = key(slot);
            match runs.last_mut() {
                Some(run) if this.is_some() && this == last => run.end = slot + 1,
                _ if this.is_some() => runs.push(slot..slot + 1),
                _ => {}
            }
            last = this;
        }
        runs
    }

    fn deal_primaries(&mut self) {
        for mut run in self.runs(|slot| self.homes[slot].is_empty().then_some(())) {
            while !run.is_empty() {
                let lacks =
                    |place: Place| self.primary_quotas[place].saturating_sub(self.primaries[place]);
                let Some(taker) =
                    (0..self.members.len()).max_by_key(|&at| (lacks(at), Reverse(at)))
                else {
                    return;
                };
                let end = run.end.min(run.start + lacks(taker).max(1));
                for slot in run.start..end {
                    self.homes[slot].push(taker);
                }
                self.primaries[taker] += end - run.start;
                self.held[taker] += end - run.start;
                run.start = end;
            }
        }
    }

    fn even_primaries(&mut self) {
        loop {
            let places = 0..self.members.len();
            let lacks = |at: Place| self.primary_quotas[at].saturating_sub(self.primaries[at]);
            let exceeds = |at: Place| self.primaries[at].saturating_sub(self.primary_quotas[at]);
            let taker = places.clone().max_by_key(|&at| (lacks(at), Reverse(at)));
            let giver = places.max_by_key(|&at| (exceeds(at), Reverse(at)));
            let (Some(taker), Some(giver)) = (taker, giver) else { return };
            let wanted = lacks(taker).min(exceeds(giver));
            if wanted == 0 {
                return;
            }
            let runs = self.runs(|slot| {
                let is_givers = self.primary(slot) == Some(giver);
                is_givers.then(|| self.homes[slot].contains(&taker))
            });
            for run in self.choose(
                runs,
                wanted,
                |slot| self.primary(slot) == Some(taker),
                |run| !self.homes[run.start].contains(&taker),
            ) {
                run.for_each(|slot| self.move_primary(slot, giver, taker));
            }
        }
    }

    /// Lets `taker` be primary in place of `giver`: a backup changes places with it, so that no
    /// data moves.
    fn move_primary(&mut self, slot: usize, giver: Place, taker: Place) {
        let homes = &mut self.homes[slot];
        if let Some(at) = homes.iter().position(|&home| home == taker) {
            homes.swap(0, at);
        } else {
            homes[0] = taker;
            self.held[taker] += 1;
            if homes.len() < self.copies {
                homes.push(giver);
            } else {
                self.held[giver] -= 1;
            }
        }
        self.primaries[giver] -= 1;
        self.primaries[taker] += 1;
    }

    /// Takes `wanted` slots out of `runs`: first those that cost least, of these first those beside
    /// what the taker has, then short ones as a whole, at last an end of the longest.
    fn choose(
        &self,
        mut runs: Vec<Run>,
        mut wanted: usize,
        is_takers: impl Fn(usize) -> bool,
        cost: impl Fn(&Run) -> bool,
    ) -> Vec<Run> {
        let has = |slot: Option<usize>| {
            slot.is_some_and(|slot| slot < self.homes.len() && is_takers(slot))
        };
        let before = |run: &Run| has(run.start.checked_sub(1));
        let after = |run: &Run| has(Some(run.end));
        let mut chosen = Vec::new();
        while wanted > 0 && !runs.is_empty() {
            let rank = |run: &Run| {
                let fits = run.len() <= wanted;
                let is_beside = before(run) || after(run);
                let length = if fits { run.len() } else { usize::MAX - run.len() };
                (cost(run), !is_beside, !fits, length, run.start)
            };
            let best = (0..runs.len()).min_by_key(|&at| rank(&runs[at]));
            let Some(run) = best.map(|at| runs.swap_remove(at)) else { break };
            let len = run.len().min(wanted);
            wanted -= len;
            chosen.push(match before(&run) || !after(&run) && run.start != 0 {
                true => run.start..run.start + len,
                false => run.end - len..run.end,
            });
        }
        chosen
    }

    fn shares_zone(&self, place: Place, others: &[Place]) -> bool {
        let zone = self.members[place].zone;
        others.iter().any(|&other| other != place && self.members[other].zone == zone)
    }

    /// Where a backup is in the zone of another home, and a node of a zone that has none of the
    /// slot has room for it, that one replaces it.
    fn improve_zones(&mut self) {
        for slot in 0..self.homes.len() {
            for at in 1..self.homes[slot].len() {
                let (old, homes) = (self.homes[slot][at], &self.homes[slot]);
                if !self.shares_zone(old, homes) {
                    continue;
                }
                let fits = |place: &Place| {
                    self.has_room(*place)
                        && !homes.contains(place)
                        && !self.shares_zone(*place, homes)
                };
                let fitting = (0..self.members.len()).filter(fits);
                if let Some(new) = fitting.max_by_key(|&place| (self.lacks(place), Reverse(place)))
                {
                    self.replace_backup(slot, old, new);
                }
            }
        }
    }

    fn lacks(&self, place: Place) -> usize {
        self.quotas[place].saturating_sub(self.held[place])
    }

    fn exceeds(&self, place: Place) -> usize {
        self.held[place].saturating_sub(self.quotas[place])
    }

    /// How much more than its quota a member holds for the sake of different zones.
    fn slack(&self, place: Place) -> usize {
        self.quotas[place] / ZONE_SLACK_PART
    }

    fn has_room(&self, place: Place) -> bool {
        self.held[place] < self.quotas[place] + self.slack(place)
    }

    fn replace_backup(&mut self, slot: usize, old: Place, new: Place) {
        if let Some(home) = self.homes[slot].iter_mut().skip(1).find(|home| **home == old) {
            *home = new;
            self.held[old] -= 1;
            self.held[new] += 1;
        }
    }

    fn deal_backups(&mut self) {
        for _ in 1..self.copies {
            let lacking = self.runs(|slot| {
                let homes = &self.homes[slot];
                (homes.len() < self.copies).then(|| homes.clone())
            });
            for mut run in lacking {
                while !run.is_empty() {
                    let Some((taker, len)) = self.backup_for(run.clone()) else { return };
                    for slot in run.start..run.start + len {
                        self.homes[slot].push(taker);
                    }
                    self.held[taker] += len;
                    run.start += len;
                }
            }
        }
    }

    /// The best backup for the first slots of a run that have the same homes, and how many it
    /// takes.
    fn backup_for(&self, run: Run) -> Option<(Place, usize)> {
        let homes = &self.homes[run.start];
        let candidates = (0..self.members.len()).filter(|place| !homes.contains(place));
        let taker = candidates.max_by_key(|&place| {
            let (lacks, is_apart) = (self.lacks(place), !self.shares_zone(place, homes));
            (
                is_apart && self.has_room(place),
                lacks > 0,
                is_apart,
                lacks,
                Reverse(self.exceeds(place)),
                Reverse(place),
            )
        })?;
        let most = match self.lacks(taker) {
            0 => EXCESS_CHUNK,
            lacks => lacks.min(self.quotas[taker].div_ceil(BACKUP_PARTS)),
        };
        Some((taker, run.len().min(most)))
    }

    fn even_backups(&mut self) {
        while self.even_one_backup(true) || self.even_one_backup(false) {}
    }

    /// Lets one member that holds too much give backups to one that holds too little, or to one
    /// that can give others to that one. False if there are none that can.
    fn even_one_backup(&mut self, keeps_zones: bool) -> bool {
        let least = |place: Place| if keeps_zones { 0 } else { self.slack(place) };
        let mut givers: Vec<Place> =
            (0..self.members.len()).filter(|&place| self.exceeds(place) > least(place)).collect();
        let mut takers: Vec<Place> =
            (0..self.members.len()).filter(|&place| self.lacks(place) > 0).collect();
        givers.sort_by_key(|&place| Reverse(self.exceeds(place)));
        takers.sort_by_key(|&place| Reverse(self.lacks(place)));
        for &taker in &takers {
            for &giver in &givers {
                let wanted = self.lacks(taker).min(self.exceeds(giver));
                if self.move_backups(giver, taker, wanted, keeps_zones) > 0 {
                    return true;
                }
            }
        }
        for &taker in &takers {
            for &giver in &givers {
                let wanted = self.lacks(taker).min(self.exceeds(giver));
                for between in 0..self.members.len() {
                    let gives = self.backup_runs(between, taker, keeps_zones);
                    let most = gives.iter().map(Run::len).sum::<usize>().min(wanted);
                    if between == taker || between == giver || most == 0 {
                        continue;
                    }
                    let moved = self.move_backups(giver, between, most, keeps_zones);
                    if moved > 0 && self.move_backups(between, taker, moved, keeps_zones) > 0 {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Runs of slots of which `giver` is a backup and may give that to `taker`.
    fn backup_runs(&self, giver: Place, taker: Place, keeps_zones: bool) -> Vec<Run> {
        self.runs(|slot| {
            let homes = &self.homes[slot];
            let gives = homes.iter().skip(1).any(|&home| home == giver) && !homes.contains(&taker);
            if !gives {
                return None;
            }
            let rest: Vec<Place> = homes.iter().copied().filter(|&home| home != giver).collect();
            let worsens = self.shares_zone(taker, &rest) && !self.shares_zone(giver, &rest);
            (!keeps_zones || !worsens).then_some(())
        })
    }

    fn move_backups(
        &mut self,
        giver: Place,
        taker: Place,
        wanted: usize,
        keeps_zones: bool,
    ) -> usize {
        let runs = self.backup_runs(giver, taker, keeps_zones);
        let is_takers = |slot: usize| self.homes[slot].iter().skip(1).any(|&home| home == taker);
        let chosen = self.choose(runs, wanted, is_takers, |_| false);
        let moved = chosen.iter().map(Run::len).sum();
        chosen.into_iter().flatten().for_each(|slot| self.replace_backup(slot, giver, taker));
        moved
    }
}

/// Divides `total` among members by their weights, none getting more than all slots. What whole
/// numbers leave over goes to the largest fractions, the first members of equals.
fn quotas(members: &[Member], total: usize) -> Vec<usize> {
    let cap = usize::from(SLOTS);
    let mut quotas: Vec<Option<usize>> = vec![None; members.len()];
    loop {
        let open = || members.iter().zip(&quotas).filter(|(_, quota)| quota.is_none());
        let weights: u64 = open().map(|(member, _)| u64::from(member.weight)).sum();
        let left = total.saturating_sub(quotas.iter().flatten().sum()) as u64;
        let is_over = |member: &Member| left * u64::from(member.weight) > cap as u64 * weights;
        let over: Vec<usize> = (0..members.len())
            .filter(|&at| quotas[at].is_none() && is_over(&members[at]))
            .collect();
        if over.is_empty() {
            return round_up_largest(members, quotas, left, weights);
        }
        over.into_iter().for_each(|at| quotas[at] = Some(cap));
    }
}

fn round_up_largest(
    members: &[Member],
    quotas: Vec<Option<usize>>,
    left: u64,
    weights: u64,
) -> Vec<usize> {
    let share = |member: &Member| left * u64::from(member.weight);
    let is_open: Vec<bool> = quotas.iter().map(Option::is_none).collect();
    let mut quotas: Vec<usize> = quotas
        .into_iter()
        .zip(members)
        .map(|(quota, member)| quota.unwrap_or_else(|| (share(member) / weights.max(1)) as usize))
        .collect();
    let mut open: Vec<usize> = (0..members.len()).filter(|&at| is_open[at]).collect();
    let given: u64 = open.iter().map(|&at| quotas[at] as u64).sum();
    open.sort_by_key(|&at| (Reverse(share(&members[at]) % weights.max(1)), at));
    for &at in open.iter().take((left - given.min(left)) as usize) {
        quotas[at] += 1;
    }
    quotas
}

#[cfg(test)]
#[path = "allocate_tests.rs"]
mod tests;
