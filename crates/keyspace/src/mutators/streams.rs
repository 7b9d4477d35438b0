//! Changes of streams in the keyspace, each with its effect.

use crate::handle::Handle;
use crate::state::effect::Effect;
use crate::structures::entry::Entry;
use crate::structures::form::{Type, WrongType};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::stream::StreamChange;
use crate::structures::stream::chunk::NodeLimits;
use crate::structures::stream::group::{ConsumerId, Pending};
use crate::structures::stream::id::StreamId;
use crate::structures::stream::trim::{References, Trim, Trimmed};
use crate::structures::stream::{Group, Stream};
use crate::structures::view::View;
use std::ops::Deref;

/// The stream at a key, to be changed.
pub struct StreamMut<'h> {
    handle: &'h mut Handle,
    db: u16,
    key: Key<'h>,
    stream: &'h mut Stream,
    /// Size of the stream at the last accounting, in bytes.
    weight: usize,
}

impl Handle {
    /// The stream at a key, to be changed; none if the key does not exist. Counts as a use of the
    /// key.
    ///
    /// # Errors
    /// If the key holds another type.
    pub fn stream_mut<'h>(
        &'h mut self,
        db: u16,
        key: Key<'h>,
    ) -> Result<Option<StreamMut<'h>>, WrongType> {
        self.open_stream(db, key, false)
    }

    /// Like [`Handle::stream_mut`], but creates an empty stream if the key does not exist and
    /// `create` is set. The caller then makes a change, because the creation itself is not recorded
    /// for logs and replicas.
    ///
    /// # Errors
    /// If the key holds another type.
    pub fn open_stream<'h>(
        &'h mut self,
        db: u16,
        key: Key<'h>,
        create: bool,
    ) -> Result<Option<StreamMut<'h>>, WrongType> {
        let entry = match self.find_type(db, key, Type::Stream)? {
            Some((_, entry)) => entry,
            None if create => self.insert_large(db, key, Large::Stream(Stream::new())),
            None => return Ok(None),
        };
        let Some(Large::Stream(stream)) = entry.large_mut() else { return Err(WrongType) };
        let weight = stream.footprint();
        Ok(Some(StreamMut { handle: self, db, key, stream, weight }))
    }

    /// Replaces a key's value with a stream, without an expiry.
    pub fn stream_store(&mut self, db: u16, key: Key<'_>, stream: Stream) {
        let access = self.initial_access(key.hash);
        let large = Box::new(Large::Stream(stream));
        let entry = Entry::large_collection(&mut self.cache, key.bytes, large, None, access);
        self.put_entry(db, key, entry);
        let value = View::new(entry);
        self.record(db, key, &Effect::Store { key: key.bytes, value, expiry: None });
    }

    /// Applies a change described by an effect.
    ///
    /// # Errors
    /// If the change does not fit the stream.
    pub(crate) fn apply_stream(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: StreamChange<'_>,
    ) -> Result<(), &'static str> {
        let creates = matches!(
            change,
            StreamChange::Add { .. } | StreamChange::Set { .. } | StreamChange::Group { .. }
        );
        let mut stream = self.open_stream(db, key, creates)?.ok_or("there is no such key")?;
        stream.apply(change)
    }
}

impl Deref for StreamMut<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        self.stream
    }
}

impl Drop for StreamMut<'_> {
    fn drop(&mut self) {
        let grown = self.stream.footprint() as i64 - self.weight as i64;
        if grown != 0 {
            self.handle.reweigh(self.db, self.key, grown);
        }
    }
}

impl StreamMut<'_> {
    /// The thread's clock, Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.handle.now_ms()
    }

    /// Calls the heap's breather ([`petrel_heap::Cache::breathe`]), between the changes of a
    /// command that makes many.
    pub fn breathe(&mut self) {
        self.handle.cache.breathe();
    }

    fn record(&mut self, change: StreamChange<'_>) {
        let effect = Effect::Stream { key: self.key.bytes, change };
        self.handle.record(self.db, self.key, &effect);
    }

    /// Records a change that is part of another.
    fn tell(&mut self, change: StreamChange<'_>) {
        let effect = Effect::Stream { key: self.key.bytes, change };
        self.handle.tell(self.db, self.key, &effect);
    }

    /// Appends an entry; `fields` are names and values in turn. False, with nothing changed, if the
    /// ID is not above the last.
    #[inline]
    pub fn add(&mut self, id: StreamId, fields: &[&[u8]]) -> bool {
        let limits = self.handle.keyspace().limits();
        let limits =
            NodeLimits::new(limits.stream_node_max_bytes(), limits.stream_node_max_entries());
        let added = self.stream.append(id, fields, limits);
        if added {
            self.record(StreamChange::Add { id, fields });
        }
        added
    }

    /// Deletes an entry regardless of references to it; false if there is none with this ID.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let deleted = self.stream.delete(id);
        if deleted {
            self.record(StreamChange::Delete { id });
        }
        deleted
    }

    /// Trims; returns the number of entries removed.
    pub fn trim(&mut self, trim: &Trim) -> u64 {
        let Trimmed { count, up_to, entries } = self.stream.plan_trim(trim);
        if count == 0 {
            return 0;
        }
        if trim.references == References::Delete && !self.stream.groups().is_empty() {
            let mut gone = Vec::with_capacity(count as usize);
            gone.extend(self.stream.range(StreamId::MIN, up_to).map(|entry| entry.id));
            self.remove_references(&gone);
        }
        if trim.references == References::Acked {
            for &id in &entries {
                self.trim_one(id);
            }
        } else {
            self.trim_up_to(up_to);
        }
        count
    }

    fn trim_up_to(&mut self, id: StreamId) {
        if self.stream.trim_up_to(id) > 0 {
            self.record(StreamChange::TrimUpTo { id });
        }
    }

    fn trim_one(&mut self, id: StreamId) {
        if self.stream.trim_one(id) {
            self.record(StreamChange::TrimOne { id });
        }
    }

    /// Removes the pending state of entries in every group.
    pub fn remove_references(&mut self, ids: &[StreamId]) {
        let names: Vec<Box<[u8]>> =
            self.stream.groups().iter().map(|(name, _)| name.into()).collect();
        for &id in ids {
            for group in &names {
                self.remove_pending(group, id);
            }
        }
    }

    /// Sets the stream's last ID and counters, as `XSETID` does. Also records the creation of a new
    /// stream.
    pub fn set(&mut self, last_id: StreamId, added: u64, max_deleted: StreamId) {
        self.stream.set_ids(last_id, added, max_deleted);
        self.record(StreamChange::Set { last_id, added, max_deleted });
    }

    /// Creates a group, or sets its position; true if it is new.
    pub fn put_group(&mut self, group: &[u8], last_delivered: StreamId, read: Option<u64>) -> bool {
        let is_new = self.stream.groups_mut().put(group, last_delivered, read);
        self.record(StreamChange::Group { group, last_delivered, read, is_new });
        is_new
    }

    /// Removes a group; false if it does not exist.
    pub fn remove_group(&mut self, group: &[u8]) -> bool {
        let removed = self.stream.groups_mut().remove(group);
        if removed {
            self.record(StreamChange::GroupRemove { group });
        }
        removed
    }

    /// Finds or creates a consumer of an existing group, and updates its seen time; none if there
    /// is no such group.
    ///
    /// The update of an existing consumer is not recorded for sinks: it has no effect before it
    /// gets entries.
    pub fn see_consumer(&mut self, group: &[u8], consumer: &[u8]) -> Option<ConsumerId> {
        let now = self.now_ms();
        let is_new = self.stream.groups().get(group)?.consumer_id(consumer).is_none();
        let id = self
            .stream
            .groups_mut()
            .change(group, |group| group.put_consumer(consumer, now, None))?;
        if is_new {
            self.record(StreamChange::Consumer { group, consumer, seen_ms: now, active_ms: None });
        }
        Some(id)
    }

    /// Updates the active time of a consumer that got entries.
    pub fn mark_active(&mut self, group: &[u8], consumer: &[u8]) {
        let now = self.now_ms();
        let groups = self.stream.groups_mut();
        groups.change(group, |group| group.put_consumer(consumer, now, Some(now)));
        let active_ms = Some(now);
        self.tell(StreamChange::Consumer { group, consumer, seen_ms: now, active_ms });
    }

    /// Removes a consumer; returns its number of pending entries, or none if there is no such
    /// consumer.
    pub fn remove_consumer(&mut self, group: &[u8], consumer: &[u8]) -> Option<usize> {
        let groups = self.stream.groups_mut();
        let removed = groups.change(group, |group| group.remove_consumer(consumer))??;
        self.record(StreamChange::ConsumerRemove { group, consumer });
        Some(removed)
    }

    /// Makes an entry pending with a consumer of the group (none: given back), or updates its
    /// state.
    pub fn put_pending(&mut self, group: &[u8], id: StreamId, pending: Pending) {
        self.handle.count_change();
        self.deliver(group, id, pending);
    }

    /// Adds a pending entry as part of a delivery, which counts as one change however many entries
    /// it has.
    pub fn deliver(&mut self, group: &[u8], id: StreamId, pending: Pending) {
        self.handle.cache.breathe();
        let groups = self.stream.groups_mut();
        let put = groups.change(group, |group| group.put_pending(id, pending));
        if put.is_none() || !self.handle.is_observed(self.key) {
            return;
        }
        let name = pending
            .owner
            .and_then(|owner| self.stream.groups().get(group)?.consumer(owner))
            .map(|consumer| consumer.name().to_vec());
        let Pending { delivered_ms, count, .. } = pending;
        let consumer = name.as_deref();
        self.tell(StreamChange::Pending { group, id, consumer, delivered_ms, count });
    }

    /// Acknowledges an entry in a group; false if it was not pending.
    pub fn remove_pending(&mut self, group: &[u8], id: StreamId) -> bool {
        let groups = self.stream.groups_mut();
        let removed = groups.change(group, |group| group.remove_pending(id)).unwrap_or(false);
        if removed {
            self.record(StreamChange::PendingRemove { group, id });
        }
        removed
    }

    /// Orders the pending entries of a group by delivery time from now on: [`Group::claimable`].
    pub fn order_by_time(&mut self, group: &[u8]) {
        self.stream.groups_mut().change(group, Group::order_by_time);
    }

    /// Drops the expired IDs of producers. Sinks need not record it: replicas expire them
    /// themselves.
    pub fn forget_producers(&mut self) {
        let now = self.now_ms().max(0) as u64;
        if self.stream.producers().is_some() {
            self.stream.producers_mut().forget_until(now);
        }
    }

    /// The entry to which a producer gave this ID, if it is retained; counts it as a duplicate.
    pub fn duplicate_of(&mut self, producer: &[u8], own_id: &[u8]) -> Option<StreamId> {
        self.stream.producers()?;
        self.forget_producers();
        let producers = self.stream.producers_mut();
        let entry = producers.entry(producer, own_id)?;
        producers.count_duplicate();
        Some(entry)
    }

    /// Adds a producer's ID for an entry.
    pub fn remember_producer(&mut self, producer: &[u8], own_id: &[u8], id: StreamId) {
        self.stream.producers_mut().remember(producer, own_id, id);
        self.record(StreamChange::Produced { producer, own_id, id });
    }

    /// Sets the retention time, and the number of IDs retained per producer.
    pub fn configure_producers(&mut self, duration_s: u32, ids_max: u32) {
        self.stream.producers_mut().configure(duration_s, ids_max);
        self.record(StreamChange::Producers { duration_s, ids_max });
    }

    fn apply(&mut self, change: StreamChange<'_>) -> Result<(), &'static str> {
        const NO_GROUP: &str = "the stream has no such group or consumer";
        match change {
            StreamChange::Add { id, fields } => {
                self.add(id, fields).then_some(()).ok_or("the entry's ID is not above the last")?;
            }
            StreamChange::Delete { id } => {
                self.delete(id);
            }
            StreamChange::TrimOne { id } => self.trim_one(id),
            StreamChange::TrimUpTo { id } => self.trim_up_to(id),
            StreamChange::Set { last_id, added, max_deleted } => {
                self.set(last_id, added, max_deleted);
            }
            StreamChange::Group { group, last_delivered, read, .. } => {
                self.put_group(group, last_delivered, read);
            }
            StreamChange::GroupRemove { group } => {
                self.remove_group(group);
            }
            StreamChange::Consumer { group, consumer, seen_ms, active_ms } => {
                let groups = self.stream.groups_mut();
                groups
                    .change(group, |group| group.put_consumer(consumer, seen_ms, active_ms))
                    .ok_or(NO_GROUP)?;
                self.record(change);
            }
            StreamChange::ConsumerRemove { group, consumer } => {
                self.remove_consumer(group, consumer);
            }
            StreamChange::Pending { group, id, consumer, delivered_ms, count } => {
                let of_group = self.stream.groups().get(group).ok_or(NO_GROUP)?;
                let owner = consumer.map(|name| of_group.consumer_id(name).ok_or(NO_GROUP));
                let owner = owner.transpose()?;
                self.put_pending(group, id, Pending { owner, delivered_ms, count });
            }
            StreamChange::PendingRemove { group, id } => {
                self.remove_pending(group, id);
            }
            StreamChange::Produced { producer, own_id, id } => {
                self.remember_producer(producer, own_id, id);
            }
            StreamChange::Producers { duration_s, ids_max } => {
                self.configure_producers(duration_s, ids_max);
            }
        }
        Ok(())
    }
}
