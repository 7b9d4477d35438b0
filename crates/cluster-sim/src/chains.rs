//! Checker of transactions of several primaries: each is executed once on the last state of its
//! slots, and has all its parts or none.

use crate::witness::COUNT;
use petrel_cluster::wire::Tag;
use std::collections::{BTreeMap, BTreeSet};

/// Execution of a transaction, in a scratch keyspace.
pub struct Execution {
    /// Changes by slot, and the positions that they have got in the slots' orders.
    parts: BTreeMap<u16, (Vec<u8>, Option<u64>)>,
    /// Positions of its slots on which it was executed.
    seen: Vec<(u16, u64)>,
    /// A change that it has seen was lost.
    is_dirty: bool,
    now_ms: i64,
}

/// Positions that an answered transaction has observed, and its time.
pub type Answered = (Vec<(u16, u64)>, i64);

/// All executions.
#[derive(Default)]
pub struct Chains {
    of_tags: BTreeMap<Tag, Vec<Execution>>,
    /// Slots and positions of parts.
    places: BTreeSet<(u16, u64)>,
    /// Executed and answered transactions, and parts.
    pub counts: [u64; 3],
}

impl Chains {
    /// Records an execution on these positions, with its changes.
    pub fn executed(
        &mut self,
        tag: Tag,
        seen: Vec<(u16, u64)>,
        changes: &[(u16, Vec<u8>)],
        now_ms: i64,
    ) {
        self.counts[0] += 1;
        let parts = changes.iter().map(|(slot, group)| (*slot, (group.clone(), None))).collect();
        let execution = Execution { parts, seen, is_dirty: false, now_ms };
        self.of_tags.entry(tag).or_default().push(execution);
    }

    /// Forgets executions of a transaction that have no part: they have died with their executor,
    /// and it is executed otherwise.
    pub fn replaced(&mut self, tag: Tag) {
        if let Some(executions) = self.of_tags.get_mut(&tag) {
            executions.retain(|one| one.parts.values().any(|(_, place)| place.is_some()));
            if executions.is_empty() {
                self.of_tags.remove(&tag);
            }
        }
    }

    /// Records that a part has got a position; returns a violation.
    pub fn placed(&mut self, tag: Tag, (slot, at): (u16, u64), group: &[u8]) -> Option<String> {
        self.counts[2] += 1;
        let executions = self.of_tags.entry(tag).or_default();
        let is_it =
            |execution: &Execution| execution.parts.get(&slot).is_some_and(|(of, _)| of == group);
        let Some(found) = executions.iter().rposition(is_it) else {
            return Some(format!("{tag:?} has a part in slot {slot} that was not executed"));
        };
        let has_other = |(at, execution): (usize, &Execution)| {
            at != found && execution.parts.values().any(|(_, place)| place.is_some())
        };
        if executions.iter().enumerate().any(has_other) {
            return Some(format!("{tag:?} was executed twice"));
        }
        let execution = &mut executions[found];
        let seen = execution.seen.iter().find(|(of, _)| *of == slot);
        let is_next = |(_, seen): &(u16, u64)| (seen & COUNT) + 1 == at & COUNT;
        if !execution.is_dirty && !seen.is_none_or(is_next) {
            let text =
                format!("the part of {tag:?} in slot {slot} is at {at}, not behind {seen:?}");
            return Some(text);
        }
        let part = execution.parts.get_mut(&slot)?;
        if part.1.is_some() {
            return Some(format!("{tag:?} has two parts in slot {slot}"));
        }
        part.1 = Some(at);
        self.places.insert((slot, at));
        None
    }

    /// The last position from `at` on that is reached by parts alone.
    pub fn parts_from(&self, slot: u16, mut at: u64) -> u64 {
        while self.places.contains(&(slot, at + 1)) {
            at += 1;
        }
        at
    }

    /// Forgets parts that are lost with a primary: they get other positions.
    pub fn cut(&mut self, slot: u16, is_kept: impl Fn(u64) -> bool) {
        self.places.retain(|(of, at)| *of != slot || is_kept(*at));
        for execution in self.of_tags.values_mut().flatten() {
            if let Some((_, place)) = execution.parts.get_mut(&slot) {
                *place = place.filter(|at| is_kept(*at));
            }
            let seen = execution.seen.iter();
            execution.is_dirty |= seen.clone().any(|(of, at)| *of == slot && !is_kept(*at));
        }
    }

    /// Forgets parts in a slot that begins empty.
    pub fn restarts(&mut self, slot: u16) {
        self.places.retain(|(of, _)| *of != slot);
        for execution in self.of_tags.values_mut().flatten() {
            execution.parts.remove(&slot);
            execution.seen.retain(|(of, _)| *of != slot);
        }
    }

    /// The positions that an answered transaction has observed, and its time. None if there is no
    /// such transaction; an error if it lacks parts.
    pub fn answered(&mut self, tag: Tag) -> Option<Result<Answered, String>> {
        let executions = self.of_tags.get(&tag)?;
        let is_it = |one: &&Execution| one.parts.values().any(|(_, place)| place.is_some());
        let execution = executions.iter().find(is_it).or(executions.last())?;
        self.counts[1] += 1;
        let mut seen: BTreeMap<u16, u64> = execution.seen.iter().copied().collect();
        for (slot, (_, place)) in &execution.parts {
            match place {
                Some(at) => drop(seen.insert(*slot, *at)),
                None => {
                    return Some(Err(format!(
                        "{tag:?} was answered without its part in slot {slot}"
                    )));
                }
            }
        }
        Some(Ok((seen.into_iter().collect(), execution.now_ms)))
    }

    /// Violations at rest.
    pub fn compare(&self) -> Vec<String> {
        let mut violations = Vec::new();
        for (tag, execution) in
            self.of_tags.iter().flat_map(|(tag, all)| all.iter().map(move |one| (tag, one)))
        {
            let places: Vec<_> =
                execution.parts.iter().map(|(slot, (_, place))| (*slot, *place)).collect();
            let count = places.iter().filter(|(_, place)| place.is_some()).count();
            if count != 0 && count != places.len() {
                violations.push(format!("{tag:?} has parts only in some slots: {places:?}"));
            }
            if count != 0 && execution.is_dirty {
                violations.push(format!("{tag:?} has seen changes that were lost"));
            }
        }
        violations.truncate(4);
        violations
    }
}
