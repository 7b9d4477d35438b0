//! Plain model of a value: built by a reader, and fed to a writer.

use petrel_keyspace::custom::ValueType;
use petrel_persistence::rdb::{
    Consumer, CustomItem, Dialect, Error, Form, Group, Item, Leniency, Pending, Producers, Shape,
    StreamFacts, StreamId, StreamState, ValueSink, Writer, open, read_value, seal,
};
use std::collections::{BTreeMap, BTreeSet};

pub type Bytes = Vec<u8>;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    String(Bytes),
    List(Vec<Bytes>),
    Set(BTreeSet<Bytes>),
    SortedSet(BTreeMap<Bytes, f64>),
    Hash(BTreeMap<Bytes, (Bytes, Option<i64>)>),
    Stream(Stream),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    pub entries: BTreeMap<StreamId, Vec<Bytes>>,
    pub last: StreamId,
    pub max_deleted: StreamId,
    pub added: u64,
    pub groups: Vec<GroupState>,
    pub producers: Option<ProducersState>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProducersState {
    pub duration_s: u64,
    pub ids_max: u64,
    pub producers: Vec<(Bytes, Vec<(Bytes, StreamId)>)>,
    pub counters: (u64, u64),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupState {
    pub name: Bytes,
    pub last: StreamId,
    pub read: Option<u64>,
    pub consumers: Vec<(Bytes, i64, Option<i64>)>,
    pub pending: Vec<Pending>,
    pub given_back: Vec<StreamId>,
}

pub fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

/// Integers are fed as such where the text is one, as a keyspace does.
fn item(text: &[u8]) -> Item<'_> {
    let number = str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    match number {
        Some(n) if n.to_string().as_bytes() == text => Item::Int(n),
        _ => Item::Text(text),
    }
}

fn owned(item: Item<'_>) -> Bytes {
    item.bytes(&mut itoa::Buffer::new()).to_vec()
}

impl Value {
    pub fn form(&self, dialect: Dialect) -> Form {
        match self {
            Value::String(_) => Form::String,
            Value::List(_) => Form::List,
            Value::Set(_) => Form::Set,
            Value::SortedSet(_) => Form::SortedSet,
            Value::Hash(fields) => {
                Form::hash(fields.values().filter_map(|(_, at)| *at).min(), dialect)
            }
            Value::Stream(stream) => Form::stream(stream.facts()),
        }
    }

    /// The payload of `DUMP`.
    pub fn dump(&self, dialect: Dialect, compress: bool) -> Vec<u8> {
        let form = self.form(dialect);
        let mut out = vec![form.type_byte()];
        let mut writer = Writer::new(&mut out, form, compress);
        self.feed(&mut writer).unwrap();
        writer.finish().unwrap();
        seal(&mut out, 0, form);
        out
    }

    pub fn feed(&self, sink: &mut impl ValueSink) -> Result<(), Error> {
        match self {
            Value::String(text) => sink.string(item(text)),
            Value::List(elements) => {
                sink.begin(Shape::List { len: Some(elements.len()) })?;
                elements.iter().try_for_each(|element| sink.element(item(element)))
            }
            Value::Set(members) => {
                sink.begin(Shape::Set { len: members.len() })?;
                members.iter().try_for_each(|member| sink.element(item(member)))
            }
            Value::SortedSet(members) => {
                sink.begin(Shape::SortedSet { len: members.len() })?;
                members.iter().try_for_each(|(member, &score)| sink.scored(item(member), score))
            }
            Value::Hash(fields) => {
                sink.begin(Shape::Hash { len: fields.len() })?;
                fields
                    .iter()
                    .try_for_each(|(field, (value, at))| sink.field(item(field), item(value), *at))
            }
            Value::Stream(stream) => stream.feed(sink),
        }
    }

    /// Reads a `DUMP` payload.
    pub fn restore(payload: &[u8]) -> Result<Self, Error> {
        let (type_byte, mut source) = open(payload, Leniency::default())?;
        let mut sink = Builder::default();
        read_value(&mut source, type_byte, &mut sink)?;
        Ok(sink.value.expect("a value was fed"))
    }
}

impl Stream {
    pub fn facts(&self) -> StreamFacts {
        let consumers = || self.groups.iter().flat_map(|group| &group.consumers);
        StreamFacts {
            counts: self.added != self.entries.len() as u64
                || self.max_deleted != StreamId::default(),
            groups: !self.groups.is_empty(),
            activity: consumers().any(|&(_, seen, active)| active != Some(seen)),
            producers: self.producers.is_some(),
            given_back: self.groups.iter().any(|group| !group.given_back.is_empty()),
        }
    }

    fn feed(&self, sink: &mut impl ValueSink) -> Result<(), Error> {
        const PER_NODE: usize = 3;
        sink.begin(Shape::Stream { nodes: self.entries.len().div_ceil(PER_NODE) })?;
        for (i, (&id, fields)) in self.entries.iter().enumerate() {
            if i % PER_NODE == 0 {
                sink.node()?;
            }
            let fields: Vec<_> = fields.iter().map(|text| item(text)).collect();
            sink.entry(id, &fields)?;
        }
        sink.state(&StreamState {
            len: self.entries.len() as u64,
            last: self.last,
            first: self.entries.keys().next().copied().unwrap_or_default(),
            max_deleted: self.max_deleted,
            added: self.added,
            groups: self.groups.len(),
        })?;
        for group in &self.groups {
            sink.group(&Group {
                name: &group.name,
                last: group.last,
                read: group.read,
                consumers: group.consumers.len(),
                pending: group.pending.len(),
                given_back: group.given_back.len(),
            })?;
            for (name, seen_ms, active_ms) in &group.consumers {
                sink.consumer(&Consumer { name, seen_ms: *seen_ms, active_ms: *active_ms })?;
            }
            group.pending.iter().try_for_each(|pending| sink.pending(pending))?;
            group.given_back.iter().try_for_each(|&id| sink.given_back(id))?;
        }
        let Some(state) = &self.producers else { return Ok(()) };
        let (duration_s, ids_max) = (state.duration_s, state.ids_max);
        sink.producers(&Producers { duration_s, ids_max, len: state.producers.len() })?;
        for (name, entries) in &state.producers {
            sink.producer(name, entries.len())?;
            entries.iter().try_for_each(|(id, entry)| sink.produced(id, *entry))?;
        }
        sink.counters(state.counters.0, state.counters.1)
    }
}

/// Builds a model from the items fed to it.
#[derive(Debug, Default)]
pub struct Builder {
    pub value: Option<Value>,
}

const REFUSED: Error = Error::Refused("twice the same, or not what was announced");

impl Builder {
    fn stream(&mut self) -> Result<&mut Stream, Error> {
        match &mut self.value {
            Some(Value::Stream(stream)) => Ok(stream),
            _ => Err(REFUSED),
        }
    }

    fn state_of_producers(&mut self) -> Result<&mut ProducersState, Error> {
        self.stream()?.producers.as_mut().ok_or(REFUSED)
    }

    fn last_group(&mut self) -> Result<&mut GroupState, Error> {
        self.stream()?.groups.last_mut().ok_or(REFUSED)
    }
}

impl ValueSink for Builder {
    fn string(&mut self, value: Item<'_>) -> Result<(), Error> {
        self.value = Some(Value::String(owned(value)));
        Ok(())
    }

    fn begin(&mut self, shape: Shape) -> Result<(), Error> {
        self.value = Some(match shape {
            Shape::List { .. } => Value::List(Vec::new()),
            Shape::Set { .. } => Value::Set(BTreeSet::new()),
            Shape::SortedSet { .. } => Value::SortedSet(BTreeMap::new()),
            Shape::Hash { .. } => Value::Hash(BTreeMap::new()),
            Shape::Stream { .. } => Value::Stream(Stream::default()),
            Shape::Custom(_) => return Err(REFUSED),
        });
        Ok(())
    }

    fn element(&mut self, element: Item<'_>) -> Result<(), Error> {
        let is_new = match self.value.as_mut() {
            Some(Value::List(elements)) => {
                elements.push(owned(element));
                true
            }
            Some(Value::Set(members)) => members.insert(owned(element)),
            _ => false,
        };
        if is_new { Ok(()) } else { Err(REFUSED) }
    }

    fn scored(&mut self, member: Item<'_>, score: f64) -> Result<(), Error> {
        match self.value.as_mut() {
            Some(Value::SortedSet(members)) => match members.insert(owned(member), score) {
                None => Ok(()),
                Some(_) => Err(REFUSED),
            },
            _ => Err(REFUSED),
        }
    }

    fn field(
        &mut self,
        field: Item<'_>,
        value: Item<'_>,
        expiry: Option<i64>,
    ) -> Result<(), Error> {
        match self.value.as_mut() {
            Some(Value::Hash(fields)) => {
                match fields.insert(owned(field), (owned(value), expiry)) {
                    None => Ok(()),
                    Some(_) => Err(REFUSED),
                }
            }
            _ => Err(REFUSED),
        }
    }

    fn custom(&mut self, _: &'static ValueType, _: CustomItem<'_>) -> Result<(), Error> {
        Err(REFUSED)
    }

    fn entry(&mut self, id: StreamId, fields: &[Item<'_>]) -> Result<(), Error> {
        let fields = fields.iter().map(|&field| owned(field)).collect();
        self.stream()?.entries.insert(id, fields);
        Ok(())
    }

    fn state(&mut self, state: &StreamState) -> Result<(), Error> {
        let stream = self.stream()?;
        assert_eq!(state.len, stream.entries.len() as u64);
        assert_eq!(state.first, stream.entries.keys().next().copied().unwrap_or_default());
        stream.last = state.last;
        stream.max_deleted = state.max_deleted;
        stream.added = state.added;
        Ok(())
    }

    fn group(&mut self, group: &Group<'_>) -> Result<(), Error> {
        let state = GroupState {
            name: group.name.to_vec(),
            last: group.last,
            read: group.read,
            ..GroupState::default()
        };
        self.stream()?.groups.push(state);
        Ok(())
    }

    fn consumer(&mut self, consumer: &Consumer<'_>) -> Result<(), Error> {
        let state = (consumer.name.to_vec(), consumer.seen_ms, consumer.active_ms);
        self.last_group()?.consumers.push(state);
        Ok(())
    }

    fn pending(&mut self, pending: &Pending) -> Result<(), Error> {
        self.last_group()?.pending.push(*pending);
        Ok(())
    }

    fn given_back(&mut self, id: StreamId) -> Result<(), Error> {
        self.last_group()?.given_back.push(id);
        Ok(())
    }

    fn producers(&mut self, producers: &Producers) -> Result<(), Error> {
        let Producers { duration_s, ids_max, .. } = *producers;
        self.stream()?.producers =
            Some(ProducersState { duration_s, ids_max, ..ProducersState::default() });
        Ok(())
    }

    fn producer(&mut self, name: &[u8], _: usize) -> Result<(), Error> {
        self.state_of_producers()?.producers.push((name.to_vec(), Vec::new()));
        Ok(())
    }

    fn produced(&mut self, id: &[u8], entry: StreamId) -> Result<(), Error> {
        let (_, entries) = self.state_of_producers()?.producers.last_mut().ok_or(REFUSED)?;
        entries.push((id.to_vec(), entry));
        Ok(())
    }

    fn counters(&mut self, added: u64, duplicates: u64) -> Result<(), Error> {
        self.state_of_producers()?.counters = (added, duplicates);
        Ok(())
    }
}
