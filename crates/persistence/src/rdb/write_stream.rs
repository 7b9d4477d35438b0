//! Writing streams. The layout is drawn in `read_stream`.

use super::length::write_number;
use super::listpack::{self, FRAME, TAIL};
use super::lzf::Compressor;
use super::read_stream::SAME_FIELDS;
use super::text::write_bytes;
use super::{Consumer, Error, Form, Group, Item, Pending, StreamId, StreamState};

const SHAPE: Error = Error::Refused("the stream is not what was announced");

/// What stands for a number of entries read that is not known.
const READ_UNKNOWN: u64 = u64::MAX;

/// The state of writing a stream.
#[derive(Debug, Default)]
pub(super) struct StreamWriter {
    form: Option<Form>,
    /// Nodes that were announced and have yet to begin.
    nodes: usize,
    groups: usize,
    node: Option<Node>,
    /// Kept for its capacity.
    listpack: Vec<u8>,
    group: Option<OpenGroup>,
}

/// A node whose entries are coming.
#[derive(Debug, Default)]
struct Node {
    /// ID of the first entry.
    base: Option<StreamId>,
    /// The fields of the first entry, as items of a listpack, and their number.
    shared: Vec<u8>,
    shared_len: usize,
    /// The fields of the entry in hand; kept for its capacity.
    names: Vec<u8>,
    /// The entries, as items of a listpack.
    body: Vec<u8>,
    items: usize,
    entries: usize,
}

/// A group whose pending entries are written; its consumers stand behind them.
#[derive(Debug)]
struct OpenGroup {
    consumers_left: usize,
    pending_left: usize,
    consumers: Vec<OpenConsumer>,
}

#[derive(Debug)]
struct OpenConsumer {
    name: Vec<u8>,
    seen_ms: i64,
    active_ms: Option<i64>,
    pending: Vec<StreamId>,
}

impl StreamWriter {
    pub(super) fn begin(&mut self, nodes: usize, form: Form) -> Result<(), Error> {
        self.nodes = nodes;
        self.form = Some(form);
        Ok(())
    }

    pub(super) fn node(
        &mut self,
        out: &mut Vec<u8>,
        compressor: Option<&mut Compressor>,
    ) -> Result<(), Error> {
        self.end_node(out, compressor)?;
        self.nodes = self.nodes.checked_sub(1).ok_or(SHAPE)?;
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
        if self.version() >= 2 {
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
        self.groups = self.groups.checked_sub(1).ok_or(SHAPE)?;
        write_bytes(out, group.name, None);
        write_id(out, group.last);
        if self.version() >= 2 {
            write_number(out, group.read.unwrap_or(READ_UNKNOWN));
        }
        write_number(out, group.pending as u64);
        self.group = Some(OpenGroup {
            consumers_left: group.consumers,
            pending_left: group.pending,
            consumers: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn consumer(&mut self, consumer: &Consumer<'_>) -> Result<(), Error> {
        let group = self.group.as_mut().ok_or(SHAPE)?;
        group.consumers_left = group.consumers_left.checked_sub(1).ok_or(SHAPE)?;
        group.consumers.push(OpenConsumer {
            name: consumer.name.to_vec(),
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
            pending: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn pending(&mut self, out: &mut Vec<u8>, pending: &Pending) -> Result<(), Error> {
        let group = self.group.as_mut().ok_or(SHAPE)?;
        group.pending_left = group.pending_left.checked_sub(1).ok_or(SHAPE)?;
        let owner = pending.owner.and_then(|owner| group.consumers.get_mut(owner));
        owner.ok_or(SHAPE)?.pending.push(pending.id);
        write_raw_id(out, pending.id);
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        write_number(out, pending.deliveries);
        Ok(())
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.end_group(out)?;
        if self.groups == 0 && self.nodes == 0 && self.node.is_none() { Ok(()) } else { Err(SHAPE) }
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

    fn end_group(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(group) = self.group.take() else { return Ok(()) };
        if group.consumers_left > 0 || group.pending_left > 0 {
            return Err(SHAPE);
        }
        write_number(out, group.consumers.len() as u64);
        for consumer in &group.consumers {
            write_bytes(out, &consumer.name, None);
            out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
            if self.version() >= 3 {
                out.extend_from_slice(&consumer.active_ms.unwrap_or(-1).to_le_bytes());
            }
            write_number(out, consumer.pending.len() as u64);
            for &id in &consumer.pending {
                write_raw_id(out, id);
            }
        }
        Ok(())
    }

    fn version(&self) -> u8 {
        match self.form {
            Some(Form::Stream1) => 1,
            Some(Form::Stream2) => 2,
            _ => 3,
        }
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

fn write_id(out: &mut Vec<u8>, id: StreamId) {
    write_number(out, id.ms);
    write_number(out, id.seq);
}

fn write_raw_id(out: &mut Vec<u8>, id: StreamId) {
    out.extend_from_slice(&id.ms.to_be_bytes());
    out.extend_from_slice(&id.seq.to_be_bytes());
}
