//! Placement of slots on nodes: a pure function of the present map and the members.
//!
//! ```text
//! keep        owners that are still members; the first of them becomes primary, so that a backup
//!             replaces a primary that has left
//! primaries   assign slots without owners, then move slots from members above quota to those below
//! backups     prefer another zone where one has room, assign missing ones, then balance likewise
//! ```
//!
//! A slot moves only if an owner has left or exceeds its quota. Whole short ranges and ends of long
//! ones are moved, so that the map remains a list of few ranges.

use crate::slot::SLOTS;
use crate::slot_map::{Node, SlotMap};
use std::cmp::Reverse;

/// Candidate for owning slots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Member {
    /// Node number.
    pub node: Node,
    /// Relative share of the slots; 0 for none.
    pub weight: u32,
    /// Failure domain: the owners of a slot are in different zones if possible.
    pub zone: u32,
}

/// A node's quota of backups is assigned in this many parts, so that the slots of a failed primary
/// are taken over by several nodes.
const BACKUP_PARTS: usize = 8;

/// A member may exceed its quota by this part of it to keep owners in different zones.
const ZONE_SLACK_PART: usize = 64;

/// Number of slots assigned at once to nodes that have reached their quota.
const EXCESS_CHUNK: usize = 64;

/// Assigns `copies` owners among `members` to each slot, or as many as have a weight; an empty map
/// if none has. The first owner is the primary. Members are distinct.
///
/// Each member's share of the primaries, and of all owners, is proportional to its weight, unless a
/// slot would get one node twice.
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

/// Index of a member in `Plan::members`.
type Place = usize;

/// Half-open range of slots.
type Run = std::ops::Range<usize>;

struct Plan {
    members: Vec<Member>,
    copies: usize,
    /// The owners of each slot, the primary first.
    owners: Vec<Vec<Place>>,
    /// Number of slots of which each member is primary, and its quota.
    primaries: Vec<usize>,
    primary_quotas: Vec<usize>,
    /// Number of slots that each member owns, and its quota.
    held: Vec<usize>,
    quotas: Vec<usize>,
}

impl Plan {
    fn new(previous: &SlotMap, members: Vec<Member>, copies: usize) -> Self {
        let copies = copies.min(members.len());
        let place = |node: &Node| members.iter().position(|member| member.node == *node);
        let mut owners = Vec::with_capacity(SLOTS.into());
        let (mut primaries, mut held) = (vec![0; members.len()], vec![0; members.len()]);
        for slot in 0..SLOTS {
            let kept = previous.owners(slot).iter().filter_map(place);
            let kept: Vec<Place> = kept.take(copies).collect();
            kept.first().into_iter().for_each(|&first| primaries[first] += 1);
            kept.iter().for_each(|&owner| held[owner] += 1);
            owners.push(kept);
        }
        let primary_quotas = quotas(&members, SLOTS.into());
        let quotas = quotas(&members, usize::from(SLOTS) * copies);
        Plan { members, copies, owners, primaries, primary_quotas, held, quotas }
    }

    fn finish(&self) -> SlotMap {
        let owners: Vec<Vec<Node>> = self.owners.iter().map(|owners| self.nodes(owners)).collect();
        SlotMap::collect(|slot| &owners[usize::from(slot)])
    }

    fn nodes(&self, owners: &[Place]) -> Vec<Node> {
        owners.iter().map(|&place| self.members[place].node).collect()
    }

    fn primary(&self, slot: usize) -> Option<Place> {
        self.owners[slot].first().copied()
    }

    /// Runs of slots with the same `key`, which is not none.
    fn runs<K: PartialEq>(&self, key: impl Fn(usize) -> Option<K>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut last = None;
        for slot in 0..self.owners.len() {
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
        for mut run in self.runs(|slot| self.owners[slot].is_empty().then_some(())) {
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
                    self.owners[slot].push(taker);
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
                is_givers.then(|| self.owners[slot].contains(&taker))
            });
            for run in self.choose(
                runs,
                wanted,
                |slot| self.primary(slot) == Some(taker),
                |run| !self.owners[run.start].contains(&taker),
            ) {
                run.for_each(|slot| self.move_primary(slot, giver, taker));
            }
        }
    }

    /// Makes `taker` primary in place of `giver`. If it is a backup the two swap, so no data move.
    fn move_primary(&mut self, slot: usize, giver: Place, taker: Place) {
        let owners = &mut self.owners[slot];
        if let Some(at) = owners.iter().position(|&owner| owner == taker) {
            owners.swap(0, at);
        } else {
            owners[0] = taker;
            self.held[taker] += 1;
            if owners.len() < self.copies {
                owners.push(giver);
            } else {
                self.held[giver] -= 1;
            }
        }
        self.primaries[giver] -= 1;
        self.primaries[taker] += 1;
    }

    /// Takes `wanted` slots out of `runs`: cheapest first, then those adjacent to the taker's
    /// slots, then whole short runs, finally an end of the longest one.
    fn choose(
        &self,
        mut runs: Vec<Run>,
        mut wanted: usize,
        is_takers: impl Fn(usize) -> bool,
        cost: impl Fn(&Run) -> bool,
    ) -> Vec<Run> {
        let has = |slot: Option<usize>| {
            slot.is_some_and(|slot| slot < self.owners.len() && is_takers(slot))
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

    /// Replaces backups in the zone of another owner by nodes with room in a zone without owners of
    /// the slot.
    fn improve_zones(&mut self) {
        for slot in 0..self.owners.len() {
            for at in 1..self.owners[slot].len() {
                let (old, owners) = (self.owners[slot][at], &self.owners[slot]);
                if !self.shares_zone(old, owners) {
                    continue;
                }
                let fits = |place: &Place| {
                    self.has_room(*place)
                        && !owners.contains(place)
                        && !self.shares_zone(*place, owners)
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

    /// Tolerated excess over a member's quota to keep owners in different zones.
    fn slack(&self, place: Place) -> usize {
        self.quotas[place] / ZONE_SLACK_PART
    }

    fn has_room(&self, place: Place) -> bool {
        self.held[place] < self.quotas[place] + self.slack(place)
    }

    fn replace_backup(&mut self, slot: usize, old: Place, new: Place) {
        if let Some(owner) = self.owners[slot].iter_mut().skip(1).find(|owner| **owner == old) {
            *owner = new;
            self.held[old] -= 1;
            self.held[new] += 1;
        }
    }

    fn deal_backups(&mut self) {
        for _ in 1..self.copies {
            let lacking = self.runs(|slot| {
                let owners = &self.owners[slot];
                (owners.len() < self.copies).then(|| owners.clone())
            });
            for mut run in lacking {
                while !run.is_empty() {
                    let Some((taker, len)) = self.backup_for(run.clone()) else { return };
                    for slot in run.start..run.start + len {
                        self.owners[slot].push(taker);
                    }
                    self.held[taker] += len;
                    run.start += len;
                }
            }
        }
    }

    /// The best backup for the first slots of a run with the same owners, and how many it takes.
    fn backup_for(&self, run: Run) -> Option<(Place, usize)> {
        let owners = &self.owners[run.start];
        let candidates = (0..self.members.len()).filter(|place| !owners.contains(place));
        let taker = candidates.max_by_key(|&place| {
            let (lacks, is_apart) = (self.lacks(place), !self.shares_zone(place, owners));
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

    /// Moves backups from one member above quota to one below it, directly or through a third one.
    /// False if no such move exists.
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

    /// Runs of slots that `giver` backs up and may pass to `taker`.
    fn backup_runs(&self, giver: Place, taker: Place, keeps_zones: bool) -> Vec<Run> {
        self.runs(|slot| {
            let owners = &self.owners[slot];
            let gives =
                owners.iter().skip(1).any(|&owner| owner == giver) && !owners.contains(&taker);
            if !gives {
                return None;
            }
            let rest: Vec<Place> = owners.iter().copied().filter(|&owner| owner != giver).collect();
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
        let is_takers = |slot: usize| self.owners[slot].iter().skip(1).any(|&owner| owner == taker);
        let chosen = self.choose(runs, wanted, is_takers, |_| false);
        let moved = chosen.iter().map(Run::len).sum();
        chosen.into_iter().flatten().for_each(|slot| self.replace_backup(slot, giver, taker));
        moved
    }
}

/// Divides `total` among members by weight, at most all slots to each. The remainder goes to the
/// largest fractions, to the first members among equals.
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
