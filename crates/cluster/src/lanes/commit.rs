//! Commits of several slots, where members hold only some slots.
//!
//! ```text
//! lane of slot 1   ... 7 COMMIT (7, 9; changes of slots 1 and 18)    to all receivers of
//! lane of slot 18  ... 9 COMMIT_PART (7, 9; slot 18)                 slot 1 or slot 18
//! ```
//!
//! A receiver applies a commit once all its positions are next. So a member that has applied it, or
//! only knows all of it, can report it to the owners of each slot after the death of this node.
//! They can append it if they have the slot's previous change. Hence a member that does not own a
//! slot is sent the position in the slot's lane once another owner has that change.

use super::part::{self, Part, Positions};
use super::{Copied, LaneSink, Lanes, Served, SlotGroup, TAG, lane_of};
use crate::lane::{ForOrigin, Keep};
use crate::mutation::{Mutation, is_broken};
use crate::safe::Need;
use crate::slot::Slot;
use crate::slot_map::Node;
use crate::view::NodeSet;
use crate::wire::{Change, Changes, KeptHead, LANES, Parts, Record, Slots, Tags, put_record};
use petrel_keyspace::{Effect, Removal};
use std::cell::RefCell;

thread_local! {
    /// Slots of the keys of the command that this thread executes.
    static SLOTS_USED: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// Notes that the command which this thread executes reads or changes keys of these slots. Its
/// commit does not survive changes of them that it may have read.
pub fn note_slots(slots: &[Slot]) {
    SLOTS_USED.with_borrow_mut(|used| {
        used.clear();
        if slots.len() > 1 {
            used.extend_from_slice(slots);
        }
    });
}

/// Adds slots to those of [`note_slots`].
pub fn note_more_slots(slots: &[Slot]) {
    SLOTS_USED.with_borrow_mut(|used| {
        for slot in slots {
            if !used.contains(slot) {
                used.push(*slot);
            }
        }
    });
}

impl Lanes {
    /// Appends a commit of several slots: its changes, and the slots of its tags; or parts of a
    /// decision. The stripes of the keys are locked.
    pub(super) fn append_commit(
        &self,
        groups: &[SlotGroup],
        served: Tags<'_>,
        part: Option<&Part>,
        room: &mut Vec<u8>,
    ) -> Positions {
        let tag = TAG.get().filter(|_| part.is_none());
        let origin = tag.map(|tag| tag.origin.node);
        let to = self.receivers_of(groups.iter().map(|group| group.slot));
        let to = part.map_or(to, |part| NodeSet(to.0 | part.to.0));
        let decision = part.filter(|_| !is_broken(Mutation::PartAlone));
        let decision = decision.map_or(&[][..], |part| &part.decision);
        let is_kept = |group: &SlotGroup, node| {
            self.safe.owners(group.slot).contains(node) || self.is_keeper(group.slot, node)
        };
        let keeper = origin.filter(|&node| groups.iter().all(|group| is_kept(group, node)));
        let to = keeper.map_or(to, |node| to.with(node));
        let which = groups.iter().fold(0u16, |all, group| all | 1 << lane_of(group.slot));
        // Ascending, like every thread that locks several lanes.
        let lanes = (0..LANES).filter(|lane| which >> lane & 1 != 0);
        let mut locked: Vec<_> = lanes.map(|lane| (lane, self.lane(lane))).collect();
        let positions: Vec<(usize, u64)> =
            locked.iter().map(|(number, lane)| (*number, lane.seq() + 1)).collect();
        let mut places = Vec::new();
        let parts = Parts::of(&mut places, positions.iter().copied());
        let (mut changed, mut slots) = (Vec::new(), Vec::new());
        let changes = Changes::of(
            &mut changed,
            groups.iter().map(|of_slot| {
                let (slot, group) = (of_slot.slot, of_slot.group.bytes());
                let position = parts.in_lane(lane_of(slot)).unwrap_or(0);
                Change { slot, back: self.safe.distance(Need { slot, position }), group }
            }),
        );
        for (at, (number, lane)) in locked.iter_mut().enumerate() {
            let of_lane = groups.iter().map(|group| group.slot);
            let of_lane = of_lane.filter(|&slot| lane_of(slot) == *number);
            let record = match at {
                0 => Record::Commit { tag, served, decision, parts, changes },
                _ => Record::CommitPart { parts, slots: Slots::of(&mut slots, of_lane.clone()) },
            };
            room.clear();
            put_record(room, &record);
            let (needs, for_origin) = self.needs_of_commit(of_lane.clone(), keeper);
            let position = lane.push_change(Some(to), room, for_origin, needs);
            for slot in of_lane {
                let keeper = keeper.filter(|&node| !self.safe.owners(slot).contains(node));
                self.safe.record_change(slot, position, keeper);
            }
        }
        drop(locked);
        groups.iter().for_each(|group| self.invalidate(group, to));
        positions
    }

    /// The changes that have to be replicated before a position of a commit of these slots is sent
    /// to members that do not own them, and those for an origin that keeps the commit. The lane of
    /// the slots is locked.
    fn needs_of_commit(
        &self,
        slots: impl Iterator<Item = Slot> + Clone,
        keeper: Option<Node>,
    ) -> (Box<[Need]>, Option<ForOrigin>) {
        let needs = match is_broken(Mutation::CommitEarly) {
            true => Box::default(),
            false => slots.clone().filter_map(|slot| self.safe.unreplicated(slot)).collect(),
        };
        let for_origin = keeper.map(|to| {
            let foreign = slots.filter(|&slot| !self.safe.owners(slot).contains(to));
            let needs = foreign.filter_map(|slot| self.safe.need_of_others(slot, to));
            let kept = Some(Keep { head: KeptHead::default(), needs: needs.collect() });
            ForOrigin { to, short: None, kept }
        });
        (needs, for_origin)
    }

    /// Invalidates the copies of changed keys at members that are not sent the changes (`to`).
    fn invalidate(&self, of_slot: &SlotGroup, to: NodeSet) {
        let slot = of_slot.slot;
        for Copied { db, key, holders, is_removed } in &of_slot.copied {
            let name = || self.directory.name_of(*db, key);
            let invalidated = NodeSet(holders.0 & !to.0);
            if invalidated != NodeSet::default() {
                let invalidate = Record::Invalidate { db: *db, key };
                let needs = self.safe.needs_of(&[slot]);
                self.push_later(lane_of(slot), invalidated, &invalidate, needs);
                self.directory.remove(slot, name(), invalidated);
            }
            if *is_removed {
                self.directory.remove(slot, name(), *holders);
            }
        }
    }

    /// Lets commits of several slots be sent that wait until earlier changes have another owner.
    /// Needed if a member dies while others have yet to recover the changes of another one: these
    /// may need what waits behind such a commit, and the commit may need an owner that waits for
    /// them.
    pub(crate) fn release_commits(&self) {
        self.lanes.iter().for_each(|lane| lane.lock().release_commits());
    }
}

impl LaneSink {
    /// Adds slots that the command has perhaps read, if their last change has no second owner.
    fn add_read(&mut self, used: &[Slot]) {
        let changed = &self.slots[..self.slots_used];
        // The slots of an earlier command that has changed nothing are not meant.
        if is_broken(Mutation::ForgetReads) || !changed.iter().any(|of| used.contains(&of.slot)) {
            return;
        }
        let lanes = self.lanes.clone();
        for &slot in used {
            let lane = lanes.lane(lane_of(slot));
            let is_read = lanes.safe.unreplicated(slot).is_some();
            drop(lane);
            if is_read {
                self.group_of(slot);
            }
        }
    }

    /// Appends the changes, where members hold only some slots.
    pub(super) fn append_slots(&mut self, served: &[Served]) {
        let is_atomic = std::mem::take(&mut self.is_atomic);
        let part = part::take();
        for slot in part.iter().flat_map(|part| &part.slots) {
            self.group_of(*slot);
        }
        let is_atomic = is_atomic && part.is_none();
        if is_atomic {
            // The owners of a tag's slot know which commands were executed.
            let tags = TAG.get().into_iter().chain(served.iter().map(|served| served.tag));
            for tag in tags {
                self.group_of(tag.slot);
            }
        }
        SLOTS_USED.with_borrow_mut(|used| {
            if is_atomic && used.len() > 1 {
                self.add_read(used);
            }
            used.clear();
        });
        let (lanes, mut names) = (&self.lanes, Vec::new());
        let groups = &mut self.slots[..std::mem::take(&mut self.slots_used)];
        if let Some(part) = part {
            groups.sort_unstable_by_key(|group| group.slot);
            let served = Tags::default();
            let positions = lanes.append_commit(groups, served, Some(&part), &mut self.room);
            part::placed(positions);
        } else if is_atomic && groups.len() > 1 {
            groups.sort_unstable_by_key(|group| group.slot);
            let names = Tags::of(&mut names, served.iter().map(|served| served.tag));
            lanes.append_commit(groups, names, None, &mut self.room);
        } else {
            for of_slot in groups.iter() {
                let tags = served.iter().map(|served| served.tag);
                let names = Tags::of(&mut names, tags.filter(|tag| tag.slot == of_slot.slot));
                lanes.append_slot(of_slot, names, &mut self.room);
            }
        }
        for of_slot in groups {
            of_slot.group.clear();
            of_slot.copied.clear();
        }
    }
}

/// Whether an effect removes an expired or evicted key or field.
pub(super) fn is_upkeep(effect: &Effect<'_>) -> bool {
    match effect {
        Effect::Remove { why, .. } | Effect::FieldRemove { why, .. } => {
            matches!(why, Removal::Expired | Removal::Evicted)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlotMap;
    use crate::lanes::{LaneSource, tagged};
    use crate::slot::slot_of;
    use crate::view::{Identity, View};
    use crate::wire::Tag;
    use petrel_keyspace::{Handle, Keyspace, Options, Origin, SinkSource, Value};
    use std::sync::Arc;

    const ME: Identity = Identity { node: Node(0), incarnation: 1 };

    fn node(number: u16) -> Identity {
        Identity { node: Node(number), incarnation: 1 }
    }

    /// Lanes of a node that is primary of all slots, with node 1 or 2 as the backup of a slot, and
    /// a thread of it.
    fn lanes() -> (Arc<Lanes>, Handle) {
        let owners = [[Node(0), Node(1)], [Node(0), Node(2)]];
        let view = View {
            epoch: 1,
            members: (0..4).map(node).collect(),
            slots: SlotMap::collect(|slot| &owners[usize::from(slot % 2)]),
            incoming: Some(SlotMap::collect(|_| &[])),
        };
        let others = (1..4).map(Node).collect();
        let lanes = Lanes::new(ME, &view, others, (1 << 20, false));
        let keyspace = Keyspace::new(&Options { databases: 2, stripes: 8, seed: 1 });
        let mut handle = keyspace.attach();
        handle.set_sink(Some(LaneSource(lanes.clone()).sink()));
        (lanes, handle)
    }

    /// A key with a slot of this remainder by two, other than `but`.
    fn key(remainder: u16, but: &[Slot]) -> Vec<u8> {
        let mut names = (0..).map(|at: u32| at.to_string().into_bytes());
        let is_it = |key: &Vec<u8>| {
            let slot = slot_of(key);
            slot % 2 == remainder && but.iter().all(|other| lane_of(*other) != lane_of(slot))
        };
        names.find(is_it).unwrap()
    }

    fn set(handle: &mut Handle, keys: &[&[u8]]) {
        handle.enter();
        let hashes: Vec<_> = keys.iter().map(|key| handle.hash(key)).collect();
        handle.lock_many(hashes.into_iter());
        for bytes in keys {
            let key = handle.key(bytes);
            handle.put(0, key, Value::Int(1), None);
        }
        handle.unlock();
        handle.exit();
    }

    /// The records of a slot's lane.
    fn records(lanes: &Lanes, slot: Slot) -> Vec<Arc<[u8]>> {
        let tail = lanes.lane(lane_of(slot)).position(1).tail;
        tail.into_iter().map(|(_, record)| record).collect()
    }

    #[test]
    fn a_commit_of_several_slots_has_a_place_in_each_lane() {
        let (lanes, mut handle) = lanes();
        let even = key(0, &[]);
        let odd = key(1, &[slot_of(&even)]);
        let slots = [slot_of(&even), slot_of(&odd)];
        set(&mut handle, &[&even]);
        set(&mut handle, &[&even, &odd]);
        let first = if lane_of(slots[0]) < lane_of(slots[1]) { 0 } else { 1 };
        let record = records(&lanes, slots[first]).pop().unwrap();
        let Ok(Record::Commit { parts, changes, .. }) = Record::read(&record) else { panic!() };
        let mut expected = [(lane_of(slots[0]), 2), (lane_of(slots[1]), 1)];
        expected.sort_unstable();
        assert!(parts.iter().eq(expected));
        let backs: Vec<(Slot, u64)> =
            changes.iter().map(|change| (change.slot, change.back)).collect();
        assert!(backs.contains(&(slots[0], 1)) && backs.contains(&(slots[1], 0)), "{backs:?}");
        let record = records(&lanes, slots[1 - first]).pop().unwrap();
        assert!(matches!(Record::read(&record), Ok(Record::CommitPart { .. })));
        // What expires stands by itself.
        handle.enter();
        let hashes = [&even, &odd].map(|key| handle.hash(key));
        handle.lock_many(hashes.into_iter());
        for bytes in [&even, &odd] {
            let remove = Effect::Remove { key: bytes, why: Removal::Expired };
            handle.apply(0, &remove, Origin::LOCAL).unwrap();
        }
        handle.unlock();
        handle.exit();
        for slot in slots {
            let record = records(&lanes, slot).pop().unwrap();
            assert!(matches!(Record::read(&record), Ok(Record::Effects { .. })));
        }
    }

    #[test]
    fn the_owners_of_a_tags_slot_receive_the_commit() {
        let (lanes, mut handle) = lanes();
        let even = key(0, &[]);
        let odd = key(1, &[slot_of(&even)]);
        let tag = |slot| Tag { origin: node(3), slot, oseq: 1 };
        tagged(tag(slot_of(&odd)), None, || set(&mut handle, &[&odd]));
        let record = records(&lanes, slot_of(&odd)).pop().unwrap();
        assert!(matches!(Record::read(&record), Ok(Record::Effects { .. })));
        // The command names a key of the even slot, and changes the odd one.
        tagged(tag(slot_of(&even)), None, || set(&mut handle, &[&odd]));
        assert_eq!(records(&lanes, slot_of(&even)).len(), 1);
        // A command that reads a key depends on its last change, until another owner has that.
        note_slots(&[slot_of(&even), slot_of(&odd)]);
        set(&mut handle, &[&odd]);
        assert_eq!(records(&lanes, slot_of(&even)).len(), 2);
        let position = lanes.lane(lane_of(slot_of(&even))).seq();
        lanes.safe.acknowledge(lane_of(slot_of(&even)), Node(1), position);
        note_slots(&[slot_of(&even), slot_of(&odd)]);
        set(&mut handle, &[&odd]);
        assert_eq!(records(&lanes, slot_of(&even)).len(), 2);
    }
}
