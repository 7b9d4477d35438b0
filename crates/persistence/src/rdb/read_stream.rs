//! Reading streams.
//!
//! ```text
//! nodes, each: first ID (16 bytes, big-endian), listpack
//! entries, last ID                                         numbers; an ID is two
//! first ID, greatest deleted ID, entries ever added        from version 2 on
//! groups, each:
//!   name, last ID delivered
//!   entries read, all ones if unknown                      from version 2 on
//!   pending entries, each: ID (16 bytes), time delivered (8 bytes), deliveries
//!   consumers, each: name, time seen (8 bytes)
//!     time active (8 bytes, -1 if never)                   from version 3 on
//!     pending entries, each: ID (16 bytes)
//!   entries given back, each: ID (16 bytes)                from version 5 on
//! seconds and number of IDs to be remembered of producers  from version 4 on
//! producers, each: name
//!   entries, each: the producer's ID, ID
//! producers' IDs ever noted, entries sent again            from version 4 on
//! ```
//!
//! The listpack of a node begins with the master entry, and most entries share its fields:
//!
//! ```text
//! entries, deleted entries, fields, each field, 0
//! entry: flags, ms and seq less those of the node, [fields], [field,] value, ..., items of the entry
//! ```

use super::kind::stream_version;
use super::length::{read_count, read_number};
use super::listpack::{Listpack, ListpackItems};
use super::sink::{DURATION_S, IDS_MAX};
use super::text::read_blob;
use super::{
    Consumer, Error, Group, Item, Pending, Producers, Shape, Source, StreamId, StreamState,
    ValueSink,
};

/// The entry is deleted.
const DELETED: i64 = 1;
/// The entry has the fields of the node's first.
pub(super) const SAME_FIELDS: i64 = 2;

const ID_LEN: usize = 16;
/// Bytes of the shortest node: a string of an ID, and one more.
const NODE_MIN: usize = 1 + ID_LEN + 1;
/// Bytes of the shortest group: name, ID, and three numbers of what follows.
const GROUP_MIN: usize = 5;
/// Bytes of the shortest pending entry of a group.
const PENDING_MIN: usize = ID_LEN + 8 + 1;
/// Bytes of the shortest consumer.
const CONSUMER_MIN: usize = 1 + 8 + 1;
/// Bytes of the shortest producer: name, and number of entries.
const PRODUCER_MIN: usize = 2;
/// Bytes of the shortest entry of a producer: its ID for it, and ours.
const PRODUCED_MIN: usize = 3;

const NODE: Error = Error::Malformed("a node of a stream is broken");
const ORDER: Error = Error::Malformed("the IDs of a stream are not in order");
const PENDING: Error = Error::Malformed("pending entries of a stream contradict each other");

/// Reads the stream that a type byte announces.
pub(super) fn read<S: Source, K: ValueSink>(
    source: &mut S,
    type_byte: u8,
    sink: &mut K,
) -> Result<(), Error> {
    let version = stream_version(type_byte);
    let mut reader = Reader { source, sink, version, scratch: Vec::new() };
    let entries = reader.entries()?;
    let state = reader.state(&entries)?;
    for _ in 0..state.groups {
        reader.group(&state)?;
    }
    if version >= 4 {
        reader.producers()?;
    }
    Ok(())
}

struct Reader<'r, S, K> {
    source: &'r mut S,
    sink: &'r mut K,
    version: u8,
    scratch: Vec<u8>,
}

/// Summary of the nodes.
#[derive(Debug, Default)]
struct Entries {
    len: u64,
    first: StreamId,
    /// The last entry, whether deleted or not.
    last: Option<StreamId>,
}

/// Owned copy of a consumer, kept while the following data are read.
#[derive(Debug)]
struct OwnedConsumer {
    name: Vec<u8>,
    seen_ms: i64,
    active_ms: Option<i64>,
}

/// A pending entry that has no consumer yet.
#[derive(Debug)]
struct Delivered {
    id: StreamId,
    at_ms: i64,
    times: u64,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owner {
    Unknown,
    Nobody,
    Consumer(usize),
}

/// Computes the number of entries up to `last` for formats without a counter. Only known at both
/// ends of a stream from which none of the first entries was deleted.
fn read_before_counting(stream: &StreamState, last: StreamId) -> Option<u64> {
    match stream.len {
        0 => Some(0),
        len if last == stream.last => Some(len),
        _ if last > stream.last => None,
        _ if last < stream.first => Some(0),
        _ => (last == stream.first).then_some(1),
    }
}

impl<S: Source, K: ValueSink> Reader<'_, S, K> {
    fn entries(&mut self) -> Result<Entries, Error> {
        let nodes = read_count(self.source, NODE_MIN)?;
        self.sink.begin(Shape::Stream { nodes })?;
        let mut entries = Entries::default();
        for _ in 0..nodes {
            let key = read_blob(self.source, &mut self.scratch)?;
            let base = raw_id(key.try_into().map_err(|_| NODE)?);
            let node = Listpack::read(read_blob(self.source, &mut self.scratch)?, self.sink)?;
            self.sink.node()?;
            read_node(base, node, &mut entries, self.sink)?;
        }
        Ok(entries)
    }

    /// Reads the metadata of the stream.
    fn state(&mut self, entries: &Entries) -> Result<StreamState, Error> {
        let (stated, len) = (read_number(self.source)?, entries.len);
        if stated != len {
            self.sink.recounted("the length of a stream");
        }
        let mut last = self.id()?;
        if let Some(entry) = entries.last.filter(|&entry| entry > last) {
            self.sink.corrected("the last ID of a stream");
            last = entry;
        }
        let (mut max_deleted, mut added) = (StreamId::default(), len);
        if self.version >= 2 {
            // The first ID; it follows from the entries.
            self.id()?;
            max_deleted = self.id()?;
            added = read_number(self.source)?;
        }
        let groups = read_count(self.source, GROUP_MIN)?;
        let state = StreamState { len, last, first: entries.first, max_deleted, added, groups };
        self.sink.state(&state)?;
        Ok(state)
    }

    fn group(&mut self, stream: &StreamState) -> Result<(), Error> {
        let name = read_bytes(self.source, &mut self.scratch)?;
        let last = self.id()?;
        let read = match self.version {
            1 => read_before_counting(stream, last),
            _ => Some(read_number(self.source)?).filter(|&read| read != u64::MAX),
        };
        let mut pending = self.delivered()?;
        let consumers = self.consumers(&mut pending)?;
        let mut given_back = Vec::new();
        if self.version >= 5 {
            for _ in 0..read_count(self.source, ID_LEN)? {
                given_back.push(self.hand_to(Owner::Nobody, &mut pending)?);
            }
        }
        self.sink.group(&Group {
            name: &name,
            last,
            read,
            consumers: consumers.len(),
            pending: pending.len(),
            given_back: given_back.len(),
        })?;
        for OwnedConsumer { name, seen_ms, active_ms } in consumers {
            self.sink.consumer(&Consumer { name: &name, seen_ms, active_ms })?;
        }
        for delivered in &pending {
            let owner = match delivered.owner {
                Owner::Unknown => return Err(PENDING),
                Owner::Nobody => None,
                Owner::Consumer(at) => Some(at),
            };
            self.sink.pending(&Pending {
                id: delivered.id,
                owner,
                delivered_ms: delivered.at_ms,
                deliveries: delivered.times,
            })?;
        }
        given_back.into_iter().try_for_each(|id| self.sink.given_back(id))
    }

    /// Reads a group's pending entries, which are in order of IDs.
    fn delivered(&mut self) -> Result<Vec<Delivered>, Error> {
        let count = read_count(self.source, PENDING_MIN)?;
        let mut pending: Vec<Delivered> = Vec::with_capacity(count);
        for _ in 0..count {
            let delivered = Delivered {
                id: raw_id(self.source.array()?),
                at_ms: i64::from_le_bytes(self.source.array()?),
                times: read_number(self.source)?,
                owner: Owner::Unknown,
            };
            if pending.last().is_some_and(|before| before.id >= delivered.id) {
                return Err(ORDER);
            }
            pending.push(delivered);
        }
        Ok(pending)
    }

    /// Reads a group's consumers.
    fn consumers(&mut self, pending: &mut [Delivered]) -> Result<Vec<OwnedConsumer>, Error> {
        let count = read_count(self.source, CONSUMER_MIN)?;
        let mut consumers = Vec::new();
        for at in 0..count {
            let name = read_bytes(self.source, &mut self.scratch)?;
            let seen_ms = i64::from_le_bytes(self.source.array()?);
            let active_ms = match self.version {
                1 | 2 => Some(seen_ms),
                _ => Some(i64::from_le_bytes(self.source.array()?)).filter(|&at| at >= 0),
            };
            for _ in 0..read_count(self.source, ID_LEN)? {
                self.hand_to(Owner::Consumer(at), pending)?;
            }
            consumers.push(OwnedConsumer { name, seen_ms, active_ms });
        }
        Ok(consumers)
    }

    /// Reads the ID of a pending entry, which becomes its owner's.
    fn hand_to(&mut self, owner: Owner, pending: &mut [Delivered]) -> Result<StreamId, Error> {
        let id = raw_id(self.source.array()?);
        let at = pending.binary_search_by_key(&id, |delivered| delivered.id);
        let delivered = &mut pending[at.map_err(|_| PENDING)?];
        if delivered.owner != Owner::Unknown {
            return Err(PENDING);
        }
        delivered.owner = owner;
        Ok(id)
    }

    fn producers(&mut self) -> Result<(), Error> {
        let (duration_s, ids_max) = (read_number(self.source)?, read_number(self.source)?);
        let len = read_count(self.source, PRODUCER_MIN)?;
        if len == 0 {
            let counters = (read_number(self.source)?, read_number(self.source)?);
            let default = (duration_s, ids_max, counters) == (DURATION_S, IDS_MAX, (0, 0));
            if default {
                return Ok(());
            }
            self.sink.producers(&Producers { duration_s, ids_max, len })?;
            return self.sink.counters(counters.0, counters.1);
        }
        self.sink.producers(&Producers { duration_s, ids_max, len })?;
        for _ in 0..len {
            let name = read_bytes(self.source, &mut self.scratch)?;
            let entries = read_count(self.source, PRODUCED_MIN)?;
            self.sink.producer(&name, entries)?;
            for _ in 0..entries {
                let id = read_bytes(self.source, &mut self.scratch)?;
                let entry = self.id()?;
                self.sink.produced(&id, entry)?;
            }
        }
        let (added, duplicates) = (read_number(self.source)?, read_number(self.source)?);
        self.sink.counters(added, duplicates)
    }

    fn id(&mut self) -> Result<StreamId, Error> {
        Ok(StreamId { ms: read_number(self.source)?, seq: read_number(self.source)? })
    }
}

/// The name of a group or consumer.
fn read_bytes<S: Source>(source: &mut S, scratch: &mut Vec<u8>) -> Result<Vec<u8>, Error> {
    let item = super::text::read_text(source, scratch)?;
    Ok(item.bytes(&mut itoa::Buffer::new()).to_vec())
}

fn raw_id(bytes: [u8; ID_LEN]) -> StreamId {
    let id = u128::from_be_bytes(bytes);
    StreamId { ms: (id >> 64) as u64, seq: id as u64 }
}

/// Reads the entries of one node.
fn read_node<K: ValueSink>(
    base: StreamId,
    node: Listpack<'_>,
    entries: &mut Entries,
    sink: &mut K,
) -> Result<(), Error> {
    let left = node.len();
    let mut items = Items { items: node.into_iter(), left };
    let (alive, deleted) = (items.int()?, items.int()?);
    let count = items.count()?;
    let shared: Vec<Item<'_>> = (0..count).map(|_| items.next()).collect::<Result<_, _>>()?;
    if items.int()? != 0 {
        return Err(NODE);
    }
    let (mut seen_alive, mut seen_deleted, mut are_measured) = (0, 0, true);
    let mut fields = Vec::new();
    while items.left > 0 {
        let before = items.left;
        let flags = items.int()?;
        let id = StreamId {
            ms: base.ms.wrapping_add_signed(items.int()?),
            seq: base.seq.wrapping_add_signed(items.int()?),
        };
        fields.clear();
        if flags & SAME_FIELDS != 0 {
            for &field in &shared {
                fields.extend([field, items.next()?]);
            }
        } else {
            for _ in 0..2 * items.count()? {
                fields.push(items.next()?);
            }
        }
        let taken = before - items.left;
        are_measured &= items.int()? == taken as i64;
        if fields.is_empty() {
            return Err(NODE);
        }
        if entries.last.is_some_and(|last| last >= id) {
            return Err(ORDER);
        }
        entries.last = Some(id);
        if flags & DELETED != 0 {
            seen_deleted += 1;
            continue;
        }
        if entries.len == 0 {
            entries.first = id;
        }
        entries.len += 1;
        seen_alive += 1;
        sink.entry(id, &fields)?;
    }
    if (seen_alive, seen_deleted) != (alive, deleted) {
        sink.recounted("the number of entries of a stream's node");
    }
    if !are_measured {
        sink.recounted("the number of items of a stream's entry");
    }
    Ok(())
}

/// The items of a node.
struct Items<'a> {
    items: ListpackItems<'a>,
    left: usize,
}

impl<'a> Items<'a> {
    fn next(&mut self) -> Result<Item<'a>, Error> {
        self.left = self.left.saturating_sub(1);
        self.items.next().ok_or(NODE)
    }

    fn int(&mut self) -> Result<i64, Error> {
        match self.next()? {
            Item::Int(n) => Ok(n),
            Item::Text(_) => Err(NODE),
        }
    }

    /// Reads a number of items, at most the number of items left.
    fn count(&mut self) -> Result<usize, Error> {
        let count = usize::try_from(self.int()?).ok();
        count.filter(|&count| count <= self.left).ok_or(NODE)
    }
}
