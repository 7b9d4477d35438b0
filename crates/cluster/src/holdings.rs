//! Which slots' data a node holds, where not every member holds all.
//!
//! ```text
//! Away      the node is no home of the slot, nor to become one: nothing of it is here but copies
//!           of keys that were read (`node/near.rs`)
//! Awaited   its data are on their way, or to be asked for (`node/transfer.rs`)
//! Held      everything of it is here, as far as the lane of its primary was applied
//! ```
//!
//! What is left of a slot that the node has lost is removed in steps. Before that is done, no
//! node is asked for the slot's data.

use crate::lanes::FROM_PEERS;
use crate::mutation::{Mutation, is_broken};
use crate::slot::{SLOTS, Slot, SlotSet, slot_of};
use crate::slot_map::common_runs;
use crate::view::{Identity, View};
use petrel_keyspace::{Cursor, Effect, Handle, Removal};
use std::ops::RangeInclusive;

/// What a node has of a slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Holding {
    Away,
    Awaited,
    Held,
}

/// The slots of a node.
pub(crate) struct Holdings {
    slots: Box<[Holding]>,
    /// Slots of which keys may be left that are to be removed.
    leftover: SlotSet,
    /// Whether there are any.
    has_leftover: bool,
    /// Slots of which there may be copies here.
    copied: SlotSet,
    /// Where the removal goes on.
    at: (u16, Cursor),
    /// How often slots have become held other than by a view.
    arrivals: u64,
}

impl Holdings {
    /// Those of a node that begins with a view. It has the data of the slots that it is a home of.
    pub fn new(view: &View, me: Identity) -> Self {
        let mut slots = vec![Holding::Away; SLOTS.into()].into_boxed_slice();
        for run in common_runs(view.maps()) {
            let first = *run.start();
            let holding = match view.slots.homes(first).contains(&me.node) {
                true => Holding::Held,
                false if view.incoming(first).contains(&me.node) => Holding::Awaited,
                false => Holding::Away,
            };
            slots[usize::from(first)..=usize::from(*run.end())].fill(holding);
        }
        let (leftover, copied, at) = Default::default();
        Holdings { slots, leftover, has_leftover: false, copied, at, arrivals: 0 }
    }

    /// Whether everything of the slot is here, and nothing else.
    pub fn holds(&self, slot: Slot) -> bool {
        self.slots[usize::from(slot)] == Holding::Held && !self.leftover.contains(slot)
    }

    /// Takes the next view over, which says something else of these runs. False if the node is
    /// named as a home of a slot whose data it has not got, though others have.
    pub fn adopt(
        &mut self,
        (before, view): (&View, &View),
        runs: &[RangeInclusive<Slot>],
        me: Identity,
    ) -> bool {
        let mut is_possible = true;
        for run in runs.iter().cloned() {
            let first = *run.start();
            let homes = view.slots.homes(first);
            let has_changed = before.primary(first) != view.primary(first);
            let is_home = homes.contains(&me.node);
            let is_incoming = view.incoming(first).contains(&me.node);
            let mut were = before.slots.homes(first).iter();
            let is_lost = were.all(|&node| before.member(node) != view.member(node));
            let begins_anew = is_lost && homes == [me.node];
            let next = |old| match (is_home, is_incoming) {
                (true, _) if old == Holding::Held || begins_anew => Holding::Held,
                (true, _) => Holding::Awaited,
                // Another primary's data may lack what was applied here, and hold what was not.
                (_, true) if old == Holding::Held && !has_changed => Holding::Held,
                (_, true) => Holding::Awaited,
                _ => Holding::Away,
            };
            is_possible &= self.adopt_run(run, (is_home, has_changed), next);
        }
        is_possible
    }

    /// The same of some slots, of which both views say the same.
    fn adopt_run(
        &mut self,
        run: RangeInclusive<Slot>,
        (is_home, has_changed): (bool, bool),
        next: impl Fn(Holding) -> Holding,
    ) -> bool {
        let mut is_possible = true;
        for slot in run {
            let old = self.slots[usize::from(slot)];
            let new = next(old);
            is_possible &= !is_home || new == Holding::Held;
            let is_left = match old {
                // Another primary sends no changes of what is here.
                Holding::Away => {
                    self.copied.contains(slot)
                        && (new != old || has_changed && !is_broken(Mutation::KeepCopies))
                }
                _ => old != new || new == Holding::Awaited && has_changed,
            };
            if is_left {
                self.leave(slot);
            }
            self.slots[usize::from(slot)] = new;
        }
        is_possible
    }

    /// What may be here of a slot is to be removed.
    fn leave(&mut self, slot: Slot) {
        self.leftover.insert(slot);
        self.has_leftover = true;
        self.copied.remove(slot);
        self.at = Default::default();
    }

    /// Data of slots were loaded, in vain.
    pub fn give_up(&mut self, slots: &SlotSet) {
        slots.iter().for_each(|slot| self.leave(slot));
    }

    /// Everything of these slots is here.
    pub fn arrive(&mut self, slots: &SlotSet) {
        self.arrivals += 1;
        slots.iter().for_each(|slot| self.slots[usize::from(slot)] = Holding::Held);
    }

    /// Changes whenever slots have become held other than by a view.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// What may be here of all slots that are not held is to be removed.
    pub fn leave_others(&mut self) {
        let others = (0..SLOTS).filter(|&slot| self.slots[usize::from(slot)] != Holding::Held);
        others.collect::<Vec<Slot>>().into_iter().for_each(|slot| self.leave(slot));
    }

    /// How many slots are held, and of how many the data are on their way.
    pub fn counts(&self) -> (usize, usize) {
        let count = |of| self.slots.iter().filter(|&&holding| holding == of).count();
        (count(Holding::Held), count(Holding::Awaited))
    }

    /// Whether keys of a slot may be here as copies, though not all of them.
    pub fn takes_copies(&self, slot: Slot) -> bool {
        self.slots[usize::from(slot)] == Holding::Away && !self.leftover.contains(slot)
    }

    /// A copy of a key of a slot was taken.
    pub fn note_copy(&mut self, slot: Slot) {
        self.copied.insert(slot);
    }

    /// Slots whose data may be asked for.
    pub fn awaited(&self) -> impl Iterator<Item = Slot> {
        let slots = (0..SLOTS).zip(&self.slots);
        let awaited = slots.filter(|(_, holding)| **holding == Holding::Awaited);
        awaited.map(|(slot, _)| slot).filter(|&slot| !self.leftover.contains(slot))
    }

    /// Whether something is left that is to be removed.
    pub fn has_leftover(&self) -> bool {
        self.has_leftover
    }

    /// Looks through about `count` keys for what is left of slots that the node has lost. False
    /// once nothing is left. The thread is in no batch.
    pub fn sweep(&mut self, handle: &mut Handle, count: usize) -> bool {
        let databases = handle.keyspace().databases();
        if !self.has_leftover {
            return false;
        }
        let (db, cursor) = self.at;
        let leftover = &self.leftover;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        handle.enter();
        // Nothing expires meanwhile: those keys are to be removed as well.
        let next = handle.on_behalf(FROM_PEERS, |handle| {
            handle.scan_removing(db, cursor, count, &|_| false, |entry| {
                let key = entry.key();
                if leftover.contains(slot_of(key)) {
                    keys.push(key.to_vec());
                }
            })
        });
        for key in &keys {
            handle.lock(handle.hash(key));
            let remove = Effect::Remove { key, why: Removal::Deleted };
            // A key that has gone meanwhile is none of those that are left.
            let _ = handle.apply(db, &remove, FROM_PEERS);
            handle.unlock();
        }
        handle.exit();
        self.at = match next == Cursor::default() {
            true => (db + 1, Cursor::default()),
            false => (db, next),
        };
        if self.at.0 >= databases {
            self.leftover = SlotSet::default();
            self.has_leftover = false;
            self.at = Default::default();
            self.arrivals += 1;
        }
        self.has_leftover
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_map::{Node, SlotMap};
    use petrel_keyspace::{Keyspace, Options};

    fn view(epoch: u64, members: &[u16], homes: &[u16], incoming: &[u16]) -> View {
        let nodes = |nodes: &[u16]| nodes.iter().copied().map(Node).collect::<Vec<Node>>();
        let (homes, incoming) = (nodes(homes), nodes(incoming));
        let identity = |node: &u16| Identity { node: Node(*node), incarnation: 1 };
        View {
            epoch,
            members: members.iter().map(identity).collect(),
            slots: SlotMap::collect(|_| &homes),
            incoming: Some(SlotMap::collect(|_| &incoming)),
        }
    }

    const ME: Identity = Identity { node: Node(2), incarnation: 1 };
    const ALL: [u16; 3] = [0, 1, 2];

    fn adopt(holdings: &mut Holdings, before: &View, after: &View) -> bool {
        holdings.adopt((before, after), &before.differences(after), ME)
    }

    #[test]
    fn a_home_was_sent_the_data_before() {
        let (away, sent) = (view(1, &ALL, &[0, 1], &[]), view(2, &ALL, &[0, 1], &[2]));
        let (home, moved) = (view(3, &ALL, &[0, 2], &[]), view(3, &ALL, &[1, 0], &[2]));
        let mut holdings = Holdings::new(&away, ME);
        assert!(adopt(&mut holdings, &away, &sent) && holdings.awaited().count() == 16_384);
        assert!(!holdings.holds(0));
        holdings.arrive(&holdings.awaited().collect());
        assert!(adopt(&mut holdings, &sent, &home) && holdings.holds(0));
        // One that was not refuses the view.
        let mut holdings = Holdings::new(&sent, ME);
        assert!(!adopt(&mut holdings, &sent, &home));
        // What another primary has sent is not enough.
        let mut holdings = Holdings::new(&sent, ME);
        holdings.arrive(&holdings.awaited().collect());
        assert!(adopt(&mut holdings, &sent, &moved) && !holdings.holds(0));
        assert_eq!((holdings.awaited().count(), holdings.has_leftover()), (0, true));
    }

    #[test]
    fn what_no_member_has_begins_anew() {
        let (before, after) = (view(1, &ALL, &[0, 1], &[]), view(2, &[2], &[2], &[]));
        let mut holdings = Holdings::new(&before, ME);
        assert!(adopt(&mut holdings, &before, &after) && holdings.holds(7));
        let after = view(2, &[1, 2], &[2], &[]);
        let mut holdings = Holdings::new(&before, ME);
        assert!(!adopt(&mut holdings, &before, &after));
    }

    #[test]
    fn what_is_left_is_removed() {
        let keyspace = Keyspace::new(&Options { databases: 2, stripes: 8, seed: 1 });
        let mut handle = keyspace.attach();
        let (home, away) = (view(1, &ALL, &[0, 2], &[]), view(2, &ALL, &[0, 1], &[]));
        let mut holdings = Holdings::new(&home, ME);
        for at in 0..100 {
            let key = format!("key:{at}");
            assert!(
                handle
                    .store(at % 2, key.as_bytes(), petrel_keyspace::Value::Bytes(b"value"), None)
                    .is_ok()
            );
        }
        assert!(!holdings.sweep(&mut handle, 10));
        assert!(adopt(&mut holdings, &home, &away) && holdings.has_leftover());
        while holdings.sweep(&mut handle, 10) {}
        assert_eq!((handle.flush(0), handle.flush(1)), (0, 0));
    }
}
