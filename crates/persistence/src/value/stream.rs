//! Streams of a keyspace: fed to a sink, and built from the items fed to one.

use super::build::TWICE;
use super::feed::item;
use crate::rdb::{self, Error, Form, Item, Producers, Shape, StreamFacts, StreamState, ValueSink};
use petrel_keyspace::TypeLimits;
use petrel_keyspace::types::stream::{
    ConsumerId, EntryRef, Group, GroupHead, NodeLimits, Pending, PendingHead,
    Producers as Remembered, Stream, StreamId,
};
use std::collections::{BTreeMap, BTreeSet};

/// The form in which a stream is written.
pub fn form(stream: &Stream) -> Form {
    let groups = || stream.groups().iter().map(|(_, group)| group);
    let mut consumers = groups().flat_map(Group::consumers);
    Form::stream(StreamFacts {
        counts: stream.added() != stream.len() || stream.max_deleted() != StreamId::MIN,
        groups: !stream.groups().is_empty(),
        activity: consumers.any(|consumer| consumer.active_ms() != Some(consumer.seen_ms())),
        producers: stream.producers().is_some_and(is_worth_telling),
        given_back: groups().any(|group| group.nacked_len() > 0),
    })
}

fn is_worth_telling(producers: &Remembered) -> bool {
    let figures = |of: &Remembered| {
        (of.duration_s(), of.ids_max(), of.added(), of.duplicates(), of.ids_len())
    };
    figures(producers) != figures(&Remembered::default())
}

/// Feeds a stream to a sink.
pub fn feed(stream: &Stream, sink: &mut impl ValueSink) -> Result<(), Error> {
    let nodes = stream.by_node();
    sink.begin(Shape::Stream { nodes: nodes.len() })?;
    for node in nodes {
        feed_node(node, sink)?;
    }
    feed_state(stream, stream.first_id(), stream.groups().len(), sink)?;
    for (name, group) in stream.groups().iter() {
        feed_group(name, group, sink)?;
    }
    feed_rest(stream, sink)
}

/// Feeds entries that are written together.
pub fn feed_node<'e>(
    entries: impl Iterator<Item = EntryRef<'e>>,
    sink: &mut impl ValueSink,
) -> Result<(), Error> {
    sink.node()?;
    let mut fields = Vec::new();
    for entry in entries {
        fields.clear();
        fields.extend(entry.fields.flat_map(|(name, value)| [item(name), item(value)]));
        sink.entry(id_of(entry.id), &fields)?;
    }
    Ok(())
}

/// Feeds what stands behind the entries of a stream, of which this is the first, and before its
/// groups.
pub fn feed_state(
    stream: &Stream,
    first: StreamId,
    groups: usize,
    sink: &mut impl ValueSink,
) -> Result<(), Error> {
    sink.state(&StreamState {
        len: stream.len(),
        last: id_of(stream.last_id()),
        first: id_of(first),
        max_deleted: id_of(stream.max_deleted()),
        added: stream.added(),
        groups,
    })
}

/// Feeds what stands behind the groups of a stream.
pub fn feed_rest(stream: &Stream, sink: &mut impl ValueSink) -> Result<(), Error> {
    match stream.producers() {
        Some(producers) if is_worth_telling(producers) => feed_producers(producers, sink),
        _ => Ok(()),
    }
}

/// Feeds a group without its pending entries.
pub fn feed_group_head(group: &GroupHead, sink: &mut impl ValueSink) -> Result<(), Error> {
    sink.group(&rdb::Group {
        name: group.name(),
        last: id_of(group.last_delivered()),
        read: group.entries_read(),
        consumers: group.consumers().len(),
        pending: group.pending_len(),
        given_back: group.nacked_len(),
    })?;
    group.consumers().iter().try_for_each(|consumer| {
        sink.consumer(&rdb::Consumer {
            name: &consumer.name,
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
        })
    })
}

/// Feeds a pending entry of the current group.
pub fn feed_pending(pending: PendingHead, sink: &mut impl ValueSink) -> Result<(), Error> {
    sink.pending(&rdb::Pending {
        id: id_of(pending.id),
        owner: pending.owner,
        delivered_ms: pending.delivered_ms,
        deliveries: pending.count,
    })
}

/// Feeds an entry of the current group that was given back.
pub fn feed_given_back(id: StreamId, sink: &mut impl ValueSink) -> Result<(), Error> {
    sink.given_back(id_of(id))
}

fn feed_group(name: &[u8], group: &Group, sink: &mut impl ValueSink) -> Result<(), Error> {
    let given_back = group.nacked_len();
    sink.group(&rdb::Group {
        name,
        last: id_of(group.last_delivered()),
        read: group.entries_read(),
        consumers: group.consumers_len(),
        pending: group.pending_len(),
        given_back,
    })?;
    let mut places = BTreeMap::new();
    for (place, consumer) in group.consumers().enumerate() {
        places.extend(group.consumer_id(consumer.name()).map(|id| (id, place)));
        sink.consumer(&rdb::Consumer {
            name: consumer.name(),
            seen_ms: consumer.seen_ms(),
            active_ms: consumer.active_ms(),
        })?;
    }
    for (id, pending) in group.pending_from(StreamId::MIN) {
        sink.pending(&rdb::Pending {
            id: id_of(id),
            owner: pending.owner.and_then(|owner| places.get(&owner).copied()),
            delivered_ms: pending.delivered_ms,
            deliveries: pending.count,
        })?;
    }
    let mut given_back = group.claimable(i64::MIN).take(given_back);
    given_back.try_for_each(|id| sink.given_back(id_of(id)))
}

fn feed_producers(producers: &Remembered, sink: &mut impl ValueSink) -> Result<(), Error> {
    let mut by_producer: BTreeMap<&[u8], Vec<(&[u8], StreamId)>> = BTreeMap::new();
    for (entry, producer, id) in producers.iter() {
        by_producer.entry(producer).or_default().push((id, entry));
    }
    sink.producers(&Producers {
        duration_s: producers.duration_s().into(),
        ids_max: producers.ids_max().into(),
        len: by_producer.len(),
    })?;
    for (name, entries) in by_producer {
        sink.producer(name, entries.len())?;
        entries.into_iter().try_for_each(|(id, entry)| sink.produced(id, id_of(entry)))?;
    }
    sink.counters(producers.added(), producers.duplicates())
}

fn id_of(id: StreamId) -> rdb::StreamId {
    rdb::StreamId { ms: id.ms, seq: id.seq }
}

fn own_id(id: rdb::StreamId) -> StreamId {
    StreamId::new(id.ms, id.seq)
}

const OUT_OF_PLACE: Error = Error::Refused("a part of a stream out of its place");

/// Makes a stream.
pub struct StreamBuilder {
    stream: Stream,
    limits: NodeLimits,
    /// The current group and its consumers.
    group: Vec<u8>,
    consumers: Vec<ConsumerId>,
    /// The current producer.
    producer: Vec<u8>,
    /// Entries that have a producer.
    produced: BTreeSet<StreamId>,
}

impl StreamBuilder {
    /// Creates a builder with these limits for the size of nodes.
    pub fn new(limits: &TypeLimits) -> Self {
        StreamBuilder {
            stream: Stream::new(),
            limits: NodeLimits::new(
                limits.stream_node_max_bytes(),
                limits.stream_node_max_entries(),
            ),
            group: Vec::new(),
            consumers: Vec::new(),
            producer: Vec::new(),
            produced: BTreeSet::new(),
        }
    }

    /// The stream, which is complete.
    pub fn finish(self) -> Stream {
        self.stream
    }

    pub fn entry(&mut self, id: rdb::StreamId, fields: &[Item<'_>]) -> Result<(), Error> {
        let mut scratch = vec![itoa::Buffer::new(); fields.len()];
        let texts: Vec<&[u8]> =
            fields.iter().zip(&mut scratch).map(|(field, scratch)| field.bytes(scratch)).collect();
        // IDs begin at 0-1.
        if self.stream.append(own_id(id), &texts, self.limits) { Ok(()) } else { Err(OUT_OF_PLACE) }
    }

    pub fn state(&mut self, state: &StreamState) -> Result<(), Error> {
        self.stream.set_ids(own_id(state.last), state.added, own_id(state.max_deleted));
        Ok(())
    }

    pub fn group(&mut self, group: &rdb::Group<'_>) -> Result<(), Error> {
        let last = own_id(group.last);
        if !self.stream.groups_mut().put(group.name, last, group.read) {
            return Err(TWICE);
        }
        self.group = group.name.to_vec();
        self.consumers.clear();
        Ok(())
    }

    pub fn consumer(&mut self, consumer: &rdb::Consumer<'_>) -> Result<(), Error> {
        let id = self.change_group(|group| match group.consumer_id(consumer.name) {
            Some(_) => Err(TWICE),
            None => Ok(group.put_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)),
        })??;
        self.consumers.push(id);
        Ok(())
    }

    pub fn pending(&mut self, pending: &rdb::Pending) -> Result<(), Error> {
        let owner = match pending.owner {
            Some(owner) => Some(*self.consumers.get(owner).ok_or(OUT_OF_PLACE)?),
            None => None,
        };
        let (delivered_ms, count) = (pending.delivered_ms, pending.deliveries);
        let state = Pending { owner, delivered_ms, count };
        self.change_group(|group| group.put_pending(own_id(pending.id), state))
    }

    /// Adds a pending entry that was given back, after earlier ones.
    pub fn given_back(&mut self, id: rdb::StreamId) -> Result<(), Error> {
        let id = own_id(id);
        self.change_group(|group| match group.pending(id) {
            Some(pending @ Pending { owner: None, .. }) => {
                group.put_pending(id, pending);
                Ok(())
            }
            _ => Err(OUT_OF_PLACE),
        })?
    }

    pub fn producers(&mut self, producers: &Producers) -> Result<(), Error> {
        let figure = |n: u64| u32::try_from(n).map_err(|_| OUT_OF_PLACE);
        let (duration_s, ids_max) = (figure(producers.duration_s)?, figure(producers.ids_max)?);
        self.stream.producers_mut().configure(duration_s, ids_max);
        Ok(())
    }

    pub fn producer(&mut self, name: &[u8]) {
        self.producer = name.to_vec();
    }

    pub fn produced(&mut self, id: &[u8], entry: rdb::StreamId) -> Result<(), Error> {
        let entry = own_id(entry);
        let producers = self.stream.producers_mut();
        if producers.entry(&self.producer, id).is_some() || !self.produced.insert(entry) {
            return Err(TWICE);
        }
        producers.remember(&self.producer, id, entry);
        Ok(())
    }

    pub fn counters(&mut self, added: u64, duplicates: u64) {
        self.stream.producers_mut().set_counters(added, duplicates);
    }

    fn change_group<R>(&mut self, change: impl FnOnce(&mut Group) -> R) -> Result<R, Error> {
        self.stream.groups_mut().change(&self.group, change).ok_or(OUT_OF_PLACE)
    }
}
