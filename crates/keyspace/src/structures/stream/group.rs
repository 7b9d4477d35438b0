//! Consumer groups: the last delivered ID of each, and its pending entries.

mod image;

pub use image::{ConsumerHead, GroupHead, PendingHead};

use crate::structures::stream::id::StreamId;
use image::{Apart, GroupsImage, PendingImage};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a pending entry in the group's map and its consumer's set.
pub(super) const PENDING_BYTES: usize = 104;
/// Bytes of an entry given back, in the group's map and the queue.
const NACKED_BYTES: usize = 120;
/// Bytes of a pending entry in the order of delivery.
const TIMED_BYTES: usize = 48;
/// Bytes of a map's node per entry, in addition to key and value.
const MAP_BYTES: usize = 16;

/// The groups of a stream, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: BTreeMap<Box<[u8]>, Group>,
    bytes: usize,
    /// A running snapshot, taken in portions.
    image: Apart<GroupsImage>,
}

impl Groups {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True if there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Bytes of memory outside the struct itself.
    pub fn footprint(&self) -> usize {
        self.bytes
    }

    /// Frees the groups one by one: `breathe` is called after each.
    pub fn release(self, breathe: &mut dyn FnMut()) {
        for (_, group) in self.groups {
            group.pending.into_iter().for_each(|_| breathe());
            group.nacked.into_iter().for_each(|_| breathe());
            group.by_time.into_iter().flatten().for_each(|_| breathe());
            let consumers = group.consumers.into_iter().flatten();
            consumers.flat_map(|consumer| consumer.pending).for_each(|_| breathe());
        }
    }

    /// The group of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// All groups, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// Creates a group, or sets its position; true if it is new.
    pub fn put(&mut self, name: &[u8], last_delivered: StreamId, read: Option<u64>) -> bool {
        if let Some(group) = self.groups.get_mut(name) {
            group.last_delivered = last_delivered;
            group.entries_read = read;
            return false;
        }
        let group = Group { last_delivered, entries_read: read, ..Group::default() };
        self.bytes += group_bytes(name);
        self.groups.insert(name.into(), group);
        true
    }

    /// Removes a group with its pending entries; false if it does not exist.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(group) = self.groups.remove(name) else { return false };
        self.bytes -= group_bytes(name) + group.bytes;
        self.removed(name, group);
        true
    }

    /// Changes a group; none if it does not exist.
    pub fn change<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Group) -> R) -> Option<R> {
        let group = self.groups.get_mut(name)?;
        let before = group.bytes;
        let result = change(group);
        self.bytes = self.bytes + group.bytes - before;
        Some(result)
    }

    /// Whether the entry was delivered to every group and acknowledged.
    pub fn have_acknowledged(&self, id: StreamId) -> bool {
        self.groups
            .values()
            .all(|group| group.last_delivered >= id && !group.pending.contains_key(&id))
    }
}

fn group_bytes(name: &[u8]) -> usize {
    name.len() + size_of::<(Box<[u8]>, Group)>() + MAP_BYTES
}

/// ID of a consumer of a group, valid as long as the consumer exists.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ConsumerId(u32);

/// A consumer group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    last_delivered: StreamId,
    entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Slot>,
    names: BTreeMap<Box<[u8]>, ConsumerId>,
    /// Consumers by the numbers of their IDs; numbers of removed consumers are reused.
    consumers: Vec<Option<Consumer>>,
    /// Entries given back by their consumers, the oldest first.
    nacked: BTreeMap<u64, StreamId>,
    /// Number of the next entry given back.
    next_nack: u64,
    /// Pending entries by the time of delivery; built on first use.
    by_time: Option<BTreeSet<(i64, StreamId)>>,
    /// Bytes of all the above.
    bytes: usize,
    /// A running snapshot, taken in portions.
    image: Apart<PendingImage>,
}

/// A consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Box<[u8]>,
    seen_ms: i64,
    active_ms: Option<i64>,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// Consumer name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Time of its last attempt to get entries, in Unix milliseconds.
    pub fn seen_ms(&self) -> i64 {
        self.seen_ms
    }

    /// Time at which it last got entries.
    pub fn active_ms(&self) -> Option<i64> {
        self.active_ms
    }

    /// IDs of its pending entries, from `start` on.
    pub fn pending(&self, start: StreamId) -> impl DoubleEndedIterator<Item = StreamId> {
        self.pending.range(start..).copied()
    }

    /// Number of its pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

/// A pending entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pending {
    /// The owning consumer; none after the entry was given back.
    pub owner: Option<ConsumerId>,
    /// Time of the last delivery, in Unix milliseconds; 0 if it was given back.
    pub delivered_ms: i64,
    /// Number of deliveries.
    pub count: u64,
}

/// A pending entry as stored: one that was given back stores its number in the queue in place of a
/// time.
#[derive(Clone, Copy, Debug)]
struct Slot {
    owner: u32,
    delivered_ms: i64,
    count: u64,
}

/// Owner of entries given back.
const NOBODY: u32 = u32::MAX;

impl Slot {
    fn pending(self) -> Pending {
        if self.owner == NOBODY {
            Pending { owner: None, delivered_ms: 0, count: self.count }
        } else {
            let owner = Some(ConsumerId(self.owner));
            Pending { owner, delivered_ms: self.delivered_ms, count: self.count }
        }
    }
}

impl Group {
    /// The greatest ID delivered to a consumer, or set by a command.
    pub fn last_delivered(&self) -> StreamId {
        self.last_delivered
    }

    /// Number of entries of the stream up to that one, if known.
    pub fn entries_read(&self) -> Option<u64> {
        self.entries_read
    }

    /// Number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Number of pending entries that were given back.
    pub fn nacked_len(&self) -> usize {
        self.nacked.len()
    }

    /// A pending entry.
    pub fn pending(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(&id).map(|slot| slot.pending())
    }

    /// The pending entries from `start` on, by ID.
    pub fn pending_from(
        &self,
        start: StreamId,
    ) -> impl DoubleEndedIterator<Item = (StreamId, Pending)> {
        self.pending.range(start..).map(|(&id, slot)| (id, slot.pending()))
    }

    /// Prepares [`Group::claimable`]: maintains the order by delivery time from now on.
    pub fn order_by_time(&mut self) {
        if self.by_time.is_none() {
            let owned = self.pending.iter().filter(|(_, slot)| slot.owner != NOBODY);
            let by_time: BTreeSet<_> = owned.map(|(&id, slot)| (slot.delivered_ms, id)).collect();
            self.bytes += by_time.len() * TIMED_BYTES;
            self.by_time = Some(by_time);
        }
    }

    /// The pending entries delivered at `until_ms` or before: first the ones given back in their
    /// order, then the others by the time of delivery, once that [order is
    /// kept](Group::order_by_time).
    pub fn claimable(&self, until_ms: i64) -> impl Iterator<Item = StreamId> {
        let owned = self.by_time.iter().flatten().take_while(move |(at, _)| *at <= until_ms);
        self.nacked.values().copied().chain(owned.map(|&(_, id)| id))
    }

    /// All consumers, by name.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.names.values().filter_map(|&id| self.consumer(id))
    }

    /// Number of consumers.
    pub fn consumers_len(&self) -> usize {
        self.names.len()
    }

    /// The consumer of this name.
    pub fn consumer_id(&self, name: &[u8]) -> Option<ConsumerId> {
        self.names.get(name).copied()
    }

    /// A consumer; none if it was removed.
    pub fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(id.0 as usize)?.as_ref()
    }

    /// Finds or creates a consumer, and updates its seen and active times.
    pub fn put_consumer(
        &mut self,
        name: &[u8],
        seen_ms: i64,
        active_ms: Option<i64>,
    ) -> ConsumerId {
        if let Some(id) = self.consumer_id(name) {
            if let Some(consumer) = self.consumer_mut(id) {
                consumer.seen_ms = seen_ms;
                consumer.active_ms = active_ms.or(consumer.active_ms);
            }
            return id;
        }
        let free = self.consumers.iter().position(Option::is_none);
        let at = free.unwrap_or(self.consumers.len());
        let pending = BTreeSet::new();
        let consumer = Some(Consumer { name: name.into(), seen_ms, active_ms, pending });
        match self.consumers.get_mut(at) {
            Some(slot) => *slot = consumer,
            None => self.consumers.push(consumer),
        }
        let id = ConsumerId(at as u32);
        self.bytes += consumer_bytes(name);
        self.names.insert(name.into(), id);
        id
    }

    /// Removes a consumer with its pending entries, and returns their number; none if there is no
    /// such consumer.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let id = self.names.remove(name)?;
        let consumer = self.consumers.get_mut(id.0 as usize)?.take()?;
        self.bytes -= consumer_bytes(name);
        for &entry in &consumer.pending {
            self.before_change(entry);
            if let Some(slot) = self.pending.remove(&entry) {
                self.unlink(entry, slot);
            }
        }
        Some(consumer.pending.len())
    }

    /// Makes an entry pending, or updates a pending one. Without an owner it goes to the end of the
    /// ones given back.
    pub fn put_pending(&mut self, id: StreamId, pending: Pending) {
        self.before_change(id);
        self.remove_pending(id);
        let slot = match pending.owner {
            Some(ConsumerId(owner)) => {
                Slot { owner, delivered_ms: pending.delivered_ms, count: pending.count }
            }
            None => {
                let number = self.next_nack as i64;
                Slot { owner: NOBODY, delivered_ms: number, count: pending.count }
            }
        };
        self.link(id, slot);
        self.pending.insert(id, slot);
    }

    /// Acknowledges an entry; false if it was not pending.
    pub fn remove_pending(&mut self, id: StreamId) -> bool {
        self.before_change(id);
        let Some(slot) = self.pending.remove(&id) else { return false };
        self.unlink(id, slot);
        true
    }

    fn link(&mut self, id: StreamId, slot: Slot) {
        if slot.owner == NOBODY {
            self.nacked.insert(self.next_nack, id);
            self.next_nack += 1;
            self.bytes += NACKED_BYTES;
            return;
        }
        if let Some(consumer) = self.consumer_mut(ConsumerId(slot.owner)) {
            consumer.pending.insert(id);
        }
        self.bytes += PENDING_BYTES;
        if let Some(by_time) = &mut self.by_time {
            by_time.insert((slot.delivered_ms, id));
            self.bytes += TIMED_BYTES;
        }
    }

    fn unlink(&mut self, id: StreamId, slot: Slot) {
        if slot.owner == NOBODY {
            self.nacked.remove(&(slot.delivered_ms as u64));
            self.bytes -= NACKED_BYTES;
            return;
        }
        if let Some(consumer) = self.consumer_mut(ConsumerId(slot.owner)) {
            consumer.pending.remove(&id);
        }
        self.bytes -= PENDING_BYTES;
        if let Some(by_time) = &mut self.by_time {
            by_time.remove(&(slot.delivered_ms, id));
            self.bytes -= TIMED_BYTES;
        }
    }

    fn consumer_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.consumers.get_mut(id.0 as usize)?.as_mut()
    }
}

fn consumer_bytes(name: &[u8]) -> usize {
    2 * name.len() + size_of::<Consumer>() + size_of::<(Box<[u8]>, ConsumerId)>() + MAP_BYTES
}
