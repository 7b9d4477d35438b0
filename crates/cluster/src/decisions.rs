//! Decisions on transactions of several primaries, and the state of their parts.
//!
//! ```text
//! decision   executor, number, changes by slot: kept until each part is stable
//! part       a decision's changes of one slot; the slot's primary gives it a place in its lane
//! mark       by executor and slot: number of the last part in the slot's order. A slot has one
//!            part without a place at a time, since it stays on loan until then
//! ```

use crate::origin::LastExecuted;
use crate::slot::Slot;
use crate::view::Identity;
use crate::wire::positions::Executed;
use crate::wire::{Record, Tag, put_record};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Longest reply that members other than the origin keep, in bytes.
const REPLY_MAX: usize = 4096;

/// An attempt to execute a transaction of several primaries.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Attempt {
    pub tag: Tag,
    pub number: u64,
}

/// Executor of a decision, and its number among the executor's decisions.
pub(crate) type DecisionName = (Identity, u64);

/// Place of a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Unknown,
    /// A node's lane, and the position in it.
    At(Identity, usize, u64),
    /// All members have it.
    Everywhere,
}

/// A decision that this node keeps.
pub(crate) struct Kept {
    pub bytes: Arc<[u8]>,
    pub attempt: Attempt,
    /// Epoch of the executor's view.
    pub epoch: u64,
    pub parts: BTreeMap<Slot, Place>,
    /// Reviews that it has outlived.
    pub age: u32,
}

/// Decisions and marks of a node.
#[derive(Default)]
pub(crate) struct Decisions {
    /// Number of this node's last decision.
    last: u64,
    marks: LastExecuted,
    kept: BTreeMap<DecisionName, Kept>,
    names: BTreeMap<Attempt, DecisionName>,
    /// Slots with parts that have no place: their number.
    open: HashMap<Slot, u32>,
    /// Slots that began empty here, with the epoch.
    restarted: BTreeMap<Slot, u64>,
}

impl Decisions {
    /// The number of this node's next decision.
    pub fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The number of this node's last decision; 0 for none.
    pub fn last_number(&self) -> u64 {
        self.last
    }

    /// Keeps a decision, unless all its parts have their places and no client here waits for it
    /// (`is_awaited`). True if it is new.
    pub fn learn(&mut self, bytes: &[u8], is_awaited: impl Fn(Tag) -> bool) -> bool {
        let Ok(Record::Decision { executor, number, epoch, tag, attempt, changes, reply }) =
            Record::read(bytes)
        else {
            return false;
        };
        let name = (executor, number);
        if let Some(kept) = self.kept.get_mut(&name) {
            // The origin is sent the whole reply, perhaps after a part.
            if reply.is_some() && kept.bytes.len() < bytes.len() {
                kept.bytes = bytes.into();
                return true;
            }
            return false;
        }
        let is_open = |slot: Slot| self.marks.known(executor, slot) < number;
        if !changes.iter().any(|change| is_open(change.slot)) && !is_awaited(tag) {
            return false;
        }
        let mut parts = BTreeMap::new();
        for change in changes.iter() {
            let is_open = is_open(change.slot);
            if is_open {
                *self.open.entry(change.slot).or_default() += 1;
            }
            parts.insert(change.slot, Place::Unknown);
        }
        let attempt = Attempt { tag, number: attempt };
        self.names.insert(attempt, name);
        self.kept.insert(name, Kept { bytes: bytes.into(), attempt, epoch, parts, age: 0 });
        true
    }

    /// Whether a decision on an attempt is kept.
    pub fn of_attempt(&self, attempt: Attempt) -> Option<DecisionName> {
        self.names.get(&attempt).copied()
    }

    /// A kept decision.
    pub fn get(&self, name: DecisionName) -> Option<&Kept> {
        self.kept.get(&name)
    }

    /// All kept decisions.
    pub fn iter(&self) -> impl Iterator<Item = (&DecisionName, &Kept)> {
        self.kept.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&DecisionName, &mut Kept)> {
        self.kept.iter_mut()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether a slot lacks a part of a decision that is kept.
    pub fn is_open(&self, slot: Slot) -> bool {
        !self.open.is_empty() && self.open.contains_key(&slot)
    }

    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the part of a decision is in a slot's order, as far as known here.
    pub fn has_part(&self, (executor, number): DecisionName, slot: Slot) -> bool {
        self.marks.known(executor, slot) >= number
    }

    /// Records that a part is in its slot's order.
    pub fn mark(&mut self, (executor, number): DecisionName, slot: Slot) {
        let before = self.marks.known(executor, slot);
        if number <= before {
            return;
        }
        self.marks.record(executor, slot, number);
        let of_executor = self.kept.range((executor, before + 1)..=(executor, number));
        for _ in of_executor.filter(|(_, kept)| kept.parts.contains_key(&slot)) {
            if let Some(count) = self.open.get_mut(&slot) {
                *count -= 1;
                if *count == 0 {
                    self.open.remove(&slot);
                }
            }
        }
    }

    /// Records the place of a part.
    pub fn put_place(&mut self, name: DecisionName, slot: Slot, place: Place) {
        let part = self.kept.get_mut(&name).and_then(|kept| kept.parts.get_mut(&slot));
        part.into_iter().for_each(|part| *part = place);
    }

    /// Decisions with parts in slots that satisfy `is_mine` and lack them, in order, with these
    /// slots.
    pub fn missing(&self, is_mine: impl Fn(Slot) -> bool) -> Vec<(DecisionName, Vec<Slot>)> {
        let missing = |(name, kept): (&DecisionName, &Kept)| {
            let slots = kept.parts.keys().copied();
            let slots: Vec<Slot> =
                slots.filter(|&slot| !self.has_part(*name, slot) && is_mine(slot)).collect();
            (!slots.is_empty()).then_some((*name, slots))
        };
        self.kept.iter().filter_map(missing).collect()
    }

    /// Forgets a decision.
    pub fn forget(&mut self, name: DecisionName) {
        let Some(kept) = self.kept.remove(&name) else { return };
        self.names.remove(&kept.attempt);
        for slot in kept.parts.into_keys().filter(|&slot| self.marks.known(name.0, slot) < name.1) {
            if let Some(count) = self.open.get_mut(&slot) {
                *count -= 1;
                if *count == 0 {
                    self.open.remove(&slot);
                }
            }
        }
    }

    /// Records that a slot begins empty here: parts of earlier decisions have no effects.
    pub fn restart(&mut self, slot: Slot, epoch: u64) {
        self.restarted.insert(slot, epoch);
    }

    /// Whether a decision was made before the slot began empty here.
    pub fn is_void(&self, epoch: u64, slot: Slot) -> bool {
        self.restarted.get(&slot).is_some_and(|began| epoch < *began)
    }

    /// The marks that satisfy `is_of`, sorted.
    pub fn marks(&self, is_of: impl Fn(Identity, Slot) -> bool) -> Vec<Executed> {
        self.marks.sorted(is_of)
    }

    /// Takes over marks that came with data.
    pub fn add_marks(&mut self, marks: &[Executed]) {
        marks.iter().for_each(|&(executor, slot, number)| self.mark((executor, number), slot));
    }
}

/// The name of a decision, and its attempt.
pub(crate) fn name_of(decision: &[u8]) -> Option<(DecisionName, Attempt)> {
    let Ok(Record::Decision { executor, number, tag, attempt, .. }) = Record::read(decision) else {
        return None;
    };
    Some(((executor, number), Attempt { tag, number: attempt }))
}

/// A decision without its reply, if that is long.
pub(crate) fn without_reply(decision: &[u8]) -> Option<Vec<u8>> {
    let Ok(Record::Decision { executor, number, epoch, tag, attempt, changes, reply }) =
        Record::read(decision)
    else {
        return None;
    };
    let is_long = reply.is_some_and(|reply| reply.len() > REPLY_MAX);
    is_long.then(|| {
        let mut bytes = Vec::new();
        let reply = None;
        let short = Record::Decision { executor, number, epoch, tag, attempt, changes, reply };
        put_record(&mut bytes, &short);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_map::Node;
    use crate::wire::{Change, Changes};

    const EXECUTOR: Identity = Identity { node: Node(2), incarnation: 1 };

    fn decision(number: u64, slots: &[Slot], reply: &[u8]) -> Vec<u8> {
        let (mut room, mut bytes) = (Vec::new(), Vec::new());
        let change = |&slot: &Slot| Change { slot, back: 0, group: b"" };
        let changes = Changes::of(&mut room, slots.iter().map(change));
        let tag = Tag { origin: EXECUTOR, slot: slots[0], oseq: number };
        let (executor, epoch, attempt, reply) = (EXECUTOR, 1, 1, Some(reply));
        let record = Record::Decision { executor, number, epoch, tag, attempt, changes, reply };
        put_record(&mut bytes, &record);
        bytes
    }

    #[test]
    fn a_slot_is_open_until_each_part_is_in_its_order() {
        let mut decisions = Decisions::default();
        let learn = |decisions: &mut Decisions, number, slots: &[Slot]| {
            decisions.learn(&decision(number, slots, b"+OK\r\n"), |_| false)
        };
        decisions.restart(3, 2);
        assert!(decisions.is_void(1, 3) && !decisions.is_void(2, 3) && !decisions.is_void(1, 5));
        assert!(learn(&mut decisions, 1, &[3, 5]) && !learn(&mut decisions, 1, &[3, 5]));
        assert!(decisions.is_open(3) && decisions.is_open(5) && !decisions.is_open(4));
        assert_eq!(decisions.missing(|slot| slot == 5), [((EXECUTOR, 1), vec![5])]);
        decisions.mark((EXECUTOR, 1), 5);
        assert!(decisions.is_open(3) && !decisions.is_open(5));
        decisions.mark((EXECUTOR, 1), 3);
        decisions.forget((EXECUTOR, 1));
        assert!(decisions.is_empty() && !decisions.has_open());
        // A decision with all its places is not learned again.
        assert!(!learn(&mut decisions, 1, &[3, 5]) && learn(&mut decisions, 2, &[3]));
        decisions.forget((EXECUTOR, 2));
        assert!(!decisions.has_open());
    }

    #[test]
    fn a_long_reply_is_for_the_origin_alone() {
        assert!(without_reply(&decision(1, &[3], b"+OK\r\n")).is_none());
        let whole = decision(1, &[3], &[b'x'; REPLY_MAX + 1]);
        let short = without_reply(&whole).unwrap();
        let mut decisions = Decisions::default();
        let learned = [&short, &whole, &short].map(|bytes| decisions.learn(bytes, |_| false));
        assert_eq!(learned, [true, true, false]);
        let kept = decisions.get((EXECUTOR, 1)).unwrap();
        assert_eq!(*kept.bytes, whole[..]);
    }
}
