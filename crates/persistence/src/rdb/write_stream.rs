//! Writing streams. The layout is drawn in `read_stream`.

use super::length::write_number;
use super::listpack::{self, FRAME, TAIL};
use super::lzf::Compressor;
use super::read_stream::SAME_FIELDS;
use super::sink::{DURATION_S, IDS_MAX};
use super::text::write_bytes;
use super::{Consumer, Error, Form, Group, Item, Pending, Producers, StreamId, StreamState};

const SHAPE: Error = Error::Refused("the stream is not what was announced");

/// Denotes an unknown number of read entries.
const READ_UNKNOWN: u64 = u64::MAX;

/// The state of writing a stream.
#[derive(Debug, Default)]
pub(super) struct StreamWriter {
    version: u8,
    /// Nodes that were announced and have yet to begin.
    nodes: usize,
    node: Option<Node>,
    /// Kept for its capacity.
    listpack: Vec<u8>,
    /// Groups that were announced and have yet to begin.
    groups: usize,
    group: Option<OpenGroup>,
    producers: ProducersLeft,
}

/// Node with entries still to come.
#[derive(Debug, Default)]
struct Node {
    /// ID of the first entry.
    base: Option<StreamId>,
    /// The fields of the first entry, as items of a listpack, and their number.
    shared: Vec<u8>,
    shared_len: usize,
    /// Fields of the current entry; kept for its capacity.
    names: Vec<u8>,
    /// The entries, as items of a listpack.
    body: Vec<u8>,
    items: usize,
    entries: usize,
}

/// Group with its pending entries written; its other data are written after them.
#[derive(Debug)]
struct OpenGroup {
    consumers_left: usize,
    pending_left: usize,
    given_back_left: usize,
    consumers: Vec<OpenConsumer>,
    given_back: Ids,
}

impl OpenGroup {
    /// Number of items of the group still to come.
    fn left(&self) -> usize {
        self.consumers_left + self.pending_left + self.given_back_left
    }
}

#[derive(Debug)]
struct OpenConsumer {
    name: Vec<u8>,
    seen_ms: i64,
    active_ms: Option<i64>,
    pending: Ids,
}

/// Many IDs, of which none is copied as they become more: that would be done while others wait for
/// the stream.
#[derive(Debug, Default)]
struct Ids(Vec<Vec<StreamId>>);

impl Ids {
    /// IDs that lie together.
    const RUN: usize = 4096;

    fn push(&mut self, id: StreamId) {
        match self.0.last_mut().filter(|run| run.len() < Self::RUN) {
            Some(run) => run.push(id),
            None => self.0.push(vec![id]),
        }
    }

    /// Writes their number, and each.
    fn write(&self, out: &mut Vec<u8>) {
        write_number(out, self.0.iter().map(Vec::len).sum::<usize>() as u64);
        self.0.iter().flatten().for_each(|&id| write_raw_id(out, id));
    }
}

/// Producers' data still to come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum ProducersLeft {
    /// All of it, or there are none.
    #[default]
    All,
    /// Number of producers, and of entries of the current one.
    Some { producers: usize, entries: usize },
    /// Nothing.
    Nothing,
}

impl StreamWriter {
    /// Writes a stream after its number of nodes.
    pub(super) fn new(nodes: usize, form: Form) -> Self {
        let version = form.stream_version().unwrap_or_default();
        StreamWriter { version, nodes, ..Self::default() }
    }

    pub(super) fn node(
        &mut self,
        out: &mut Vec<u8>,
        compressor: Option<&mut Compressor>,
    ) -> Result<(), Error> {
        self.end_node(out, compressor)?;
        take_one(&mut self.nodes)?;
        self.node = Some(Node::default());
        Ok(())
    }

    pub(super) fn entry(&mut self, id: StreamId, fields: &[Item<'_>]) -> Result<(), Error> {
        self.node.as_mut().ok_or(SHAPE)?.push(id, fields);
        Ok(())
    }

    pub(super) fn state(
        &mut self,
        out: &mut Vec<u8>,
        compressor: Option<&mut Compressor>,
        state: &StreamState,
    ) -> Result<(), Error> {
        self.end_node(out, compressor)?;
        if self.nodes > 0 {
            return Err(SHAPE);
        }
        write_number(out, state.len);
        write_id(out, state.last);
        if self.version >= 2 {
            write_id(out, state.first);
            write_id(out, state.max_deleted);
            write_number(out, state.added);
        }
        write_number(out, state.groups as u64);
        self.groups = state.groups;
        Ok(())
    }

    pub(super) fn group(&mut self, out: &mut Vec<u8>, group: &Group<'_>) -> Result<(), Error> {
        self.end_group(out)?;
        take_one(&mut self.groups)?;
        write_bytes(out, group.name, None);
        write_id(out, group.last);
        if self.version >= 2 {
            write_number(out, group.read.unwrap_or(READ_UNKNOWN));
        }
        write_number(out, group.pending as u64);
        self.group = Some(OpenGroup {
            consumers_left: group.consumers,
            pending_left: group.pending,
            given_back_left: group.given_back,
            consumers: Vec::new(),
            given_back: Ids::default(),
        });
        Ok(())
    }

    pub(super) fn consumer(&mut self, consumer: &Consumer<'_>) -> Result<(), Error> {
        let group = self.group.as_mut().ok_or(SHAPE)?;
        take_one(&mut group.consumers_left)?;
        group.consumers.push(OpenConsumer {
            name: consumer.name.to_vec(),
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
            pending: Ids::default(),
        });
        Ok(())
    }

    pub(super) fn pending(&mut self, out: &mut Vec<u8>, pending: &Pending) -> Result<(), Error> {
        let group = self.group.as_mut().ok_or(SHAPE)?;
        take_one(&mut group.pending_left)?;
        if let Some(owner) = pending.owner {
            group.consumers.get_mut(owner).ok_or(SHAPE)?.pending.push(pending.id);
        }
        write_raw_id(out, pending.id);
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        write_number(out, pending.deliveries);
        Ok(())
    }

    pub(super) fn given_back(&mut self, id: StreamId) -> Result<(), Error> {
        let group = self.group.as_mut().ok_or(SHAPE)?;
        take_one(&mut group.given_back_left)?;
        group.given_back.push(id);
        Ok(())
    }

    pub(super) fn producers(
        &mut self,
        out: &mut Vec<u8>,
        producers: &Producers,
    ) -> Result<(), Error> {
        self.end_group(out)?;
        if self.producers != ProducersLeft::All || self.version < 4 {
            return Err(SHAPE);
        }
        write_number(out, producers.duration_s);
        write_number(out, producers.ids_max);
        write_number(out, producers.len as u64);
        self.producers = ProducersLeft::Some { producers: producers.len, entries: 0 };
        Ok(())
    }

    pub(super) fn producer(
        &mut self,
        out: &mut Vec<u8>,
        name: &[u8],
        entries: usize,
    ) -> Result<(), Error> {
        let ProducersLeft::Some { producers, entries: 0 } = self.producers else {
            return Err(SHAPE);
        };
        let producers = producers.checked_sub(1).ok_or(SHAPE)?;
        self.producers = ProducersLeft::Some { producers, entries };
        write_bytes(out, name, None);
        write_number(out, entries as u64);
        Ok(())
    }

    pub(super) fn produced(
        &mut self,
        out: &mut Vec<u8>,
        id: &[u8],
        entry: StreamId,
    ) -> Result<(), Error> {
        let ProducersLeft::Some { entries, .. } = &mut self.producers else { return Err(SHAPE) };
        take_one(entries)?;
        write_bytes(out, id, None);
        write_id(out, entry);
        Ok(())
    }

    pub(super) fn counters(
        &mut self,
        out: &mut Vec<u8>,
        added: u64,
        duplicates: u64,
    ) -> Result<(), Error> {
        if self.producers != (ProducersLeft::Some { producers: 0, entries: 0 }) {
            return Err(SHAPE);
        }
        write_number(out, added);
        write_number(out, duplicates);
        self.producers = ProducersLeft::Nothing;
        Ok(())
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.end_group(out)?;
        if self.version >= 4 && self.producers == ProducersLeft::All {
            let none = Producers { duration_s: DURATION_S, ids_max: IDS_MAX, len: 0 };
            self.producers(out, &none)?;
            self.counters(out, 0, 0)?;
        }
        let producers_left = matches!(self.producers, ProducersLeft::Some { .. });
        if self.nodes + self.groups > 0 || self.node.is_some() || producers_left {
            return Err(SHAPE);
        }
        Ok(())
    }

    fn end_node(
        &mut self,
        out: &mut Vec<u8>,
        compressor: Option<&mut Compressor>,
    ) -> Result<(), Error> {
        let Some(node) = self.node.take() else { return Ok(()) };
        let base = node.base.ok_or(SHAPE)?;
        self.listpack.clear();
        node.pack(&mut self.listpack)?;
        let mut key = Vec::with_capacity(size_of::<StreamId>());
        write_raw_id(&mut key, base);
        write_bytes(out, &key, None);
        write_bytes(out, &self.listpack, compressor);
        Ok(())
    }

    /// Ends the current group if it is complete.
    pub(super) fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let is_complete = self.group.as_ref().is_some_and(|group| group.left() == 0);
        if is_complete { self.end_group(out) } else { Ok(()) }
    }

    fn end_group(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(group) = self.group.take() else { return Ok(()) };
        if group.left() > 0 {
            return Err(SHAPE);
        }
        write_number(out, group.consumers.len() as u64);
        for consumer in &group.consumers {
            write_bytes(out, &consumer.name, None);
            out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
            if self.version >= 3 {
                out.extend_from_slice(&consumer.active_ms.unwrap_or(-1).to_le_bytes());
            }
            consumer.pending.write(out);
        }
        match (self.version >= 5, group.given_back.0.is_empty()) {
            (true, _) => group.given_back.write(out),
            (false, true) => {}
            (false, false) => return Err(SHAPE),
        }
        Ok(())
    }
}

impl Node {
    fn push(&mut self, id: StreamId, fields: &[Item<'_>]) {
        self.names.clear();
        for &name in fields.iter().step_by(2) {
            listpack::push(&mut self.names, name);
        }
        if self.base.is_none() {
            self.shared.clone_from(&self.names);
            self.shared_len = fields.len() / 2;
        }
        let base = *self.base.get_or_insert(id);
        let same = self.names == self.shared;
        let number = |body: &mut Vec<u8>, n: i64| listpack::push(body, Item::Int(n));
        number(&mut self.body, if same { SAME_FIELDS } else { 0 });
        number(&mut self.body, id.ms.wrapping_sub(base.ms) as i64);
        number(&mut self.body, id.seq.wrapping_sub(base.seq) as i64);
        let items = if same {
            for &value in fields.iter().skip(1).step_by(2) {
                listpack::push(&mut self.body, value);
            }
            3 + fields.len() / 2
        } else {
            number(&mut self.body, fields.len() as i64 / 2);
            for &item in fields {
                listpack::push(&mut self.body, item);
            }
            4 + fields.len()
        };
        number(&mut self.body, items as i64);
        self.items += items + 1;
        self.entries += 1;
    }

    /// Appends the listpack.
    fn pack(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut head = Vec::new();
        for n in [self.entries, 0, self.shared_len] {
            listpack::push(&mut head, Item::Int(n as i64));
        }
        head.extend_from_slice(&self.shared);
        listpack::push(&mut head, Item::Int(0));
        let len = u32::try_from(FRAME + head.len() + self.body.len())
            .map_err(|_| Error::Refused("the entries of a node exceed 4 GiB"))?;
        out.extend_from_slice(&listpack::header(len, 4 + self.shared_len + self.items));
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.body);
        out.push(TAIL);
        Ok(())
    }
}

/// Counts an announced item.
fn take_one(left: &mut usize) -> Result<(), Error> {
    *left = left.checked_sub(1).ok_or(SHAPE)?;
    Ok(())
}

fn write_id(out: &mut Vec<u8>, id: StreamId) {
    write_number(out, id.ms);
    write_number(out, id.seq);
}

fn write_raw_id(out: &mut Vec<u8>, id: StreamId) {
    out.extend_from_slice(&id.ms.to_be_bytes());
    out.extend_from_slice(&id.seq.to_be_bytes());
}
