//! The neutral form in which values pass between bytes and a keyspace.

use super::Error;
use petrel_keyspace::custom::{Chunk, CustomChange, Held, Loaded, TypeNumber, ValueType};

/// A string: of a list, a set, a hash, a stream, or a key's value.
///
/// Text that is the canonical form of an integer may come either way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Item<'a> {
    /// A string's bytes.
    Text(&'a [u8]),
    /// The integer represented by a string.
    Int(i64),
}

impl<'a> Item<'a> {
    /// The bytes; an integer is printed into `scratch`.
    pub fn bytes<'s>(self, scratch: &'s mut itoa::Buffer) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Item::Text(text) => text,
            Item::Int(n) => scratch.format(n).as_bytes(),
        }
    }
}

/// The ID of a stream's entry.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct StreamId {
    /// Unix time in milliseconds.
    pub ms: u64,
    /// Number within the millisecond.
    pub seq: u64,
}

/// Type of a value, with its size as far as it is known in advance.
///
/// Lengths are numbers of elements. A reader does not know the length of a list with nodes yet to
/// read, and passes none; a [`super::Writer`] needs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// `element` follows for each, from head to tail.
    List {
        /// Number of elements.
        len: Option<usize>,
    },
    /// `element` follows for each, in any order.
    Set {
        /// Number of members.
        len: usize,
    },
    /// `scored` follows for each, in any order.
    SortedSet {
        /// Number of members.
        len: usize,
    },
    /// `field` follows for each, in any order.
    Hash {
        /// Number of fields.
        len: usize,
    },
    /// `node` and `entry` follow, in order of IDs; then `state`; then for each group `group`, its
    /// `consumer`s, its `pending` entries and those `given_back`; if there were ever producers,
    /// `producers`, for each a `producer` with the entries that it `produced`, and at last
    /// `counters`.
    Stream {
        /// Nodes that the entries come in.
        nodes: usize,
    },
    /// A value of a value type, of which the head was written before: a `chunk` follows for each of
    /// its parts.
    Custom(TypeNumber),
}

/// A value of a value type.
#[derive(Debug)]
pub enum CustomItem<'a> {
    /// A value at a key.
    Held(Held<'a>),
    /// A value that was read.
    Loaded(Loaded),
}

impl CustomItem<'_> {
    /// The value.
    pub fn held(&self) -> Held<'_> {
        match self {
            CustomItem::Held(held) => *held,
            CustomItem::Loaded(loaded) => loaded.held(),
        }
    }
}

/// Metadata of a stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StreamState {
    /// Number of entries.
    pub len: u64,
    /// ID of the newest entry that ever was.
    pub last: StreamId,
    /// ID of the oldest entry that is; zero if there is none.
    pub first: StreamId,
    /// Greatest ID of those deleted.
    pub max_deleted: StreamId,
    /// Number of entries that ever were.
    pub added: u64,
    /// Number of groups that follow.
    pub groups: usize,
}

/// A consumer group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Group<'a> {
    /// Name of the group.
    pub name: &'a [u8],
    /// ID of the last entry that was delivered.
    pub last: StreamId,
    /// Number of entries read, where it is known.
    pub read: Option<u64>,
    /// Number of consumers that follow.
    pub consumers: usize,
    /// Number of pending entries that follow.
    pub pending: usize,
    /// Number of entries that were given back.
    pub given_back: usize,
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Consumer<'a> {
    /// Name of the consumer.
    pub name: &'a [u8],
    /// Time of its last attempt to do anything, in Unix milliseconds.
    pub seen_ms: i64,
    /// Time when it last read or claimed an entry, in Unix milliseconds; `None` if never.
    pub active_ms: Option<i64>,
}

/// An entry that was delivered and not acknowledged. Those of a group come in order of IDs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pending {
    /// The entry's ID; the entry may be deleted.
    pub id: StreamId,
    /// The consumer that has it, by the order in which the group's consumers came; none if it was
    /// given back (`XNACK`).
    pub owner: Option<usize>,
    /// Time of delivery, in Unix milliseconds.
    pub delivered_ms: i64,
    /// Number of deliveries.
    pub deliveries: u64,
}

/// Default time for which a producer's IDs are remembered, in seconds.
pub(super) const DURATION_S: u64 = 100;
/// Default number of IDs remembered for each producer.
pub(super) const IDS_MAX: u64 = 100;

/// IDs remembered of a stream's producers, so that an entry sent twice is added once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Producers {
    /// Seconds for which an ID is remembered.
    pub duration_s: u64,
    /// Number of IDs that are remembered of each producer.
    pub ids_max: u64,
    /// Number of producers of which an ID is remembered.
    pub len: usize,
}

/// Receives a value, item by item: one `string`, one `custom`, or `begin` and the items according
/// to its [`Shape`].
///
/// A sink returns [`Error::Refused`] for an item that it cannot hold (such as a duplicate member);
/// all earlier items are void then.
#[allow(unused_variables)]
pub trait ValueSink {
    /// A string.
    fn string(&mut self, value: Item<'_>) -> Result<(), Error>;

    /// A value with elements begins.
    fn begin(&mut self, shape: Shape) -> Result<(), Error>;

    /// The hash that begins is a compact one; `beyond`: its values are no listpack.
    fn compact(&mut self, beyond: bool) {}

    /// The next element of a list, or a member of a set.
    fn element(&mut self, element: Item<'_>) -> Result<(), Error>;

    /// A member of a sorted set; the score is a number.
    fn scored(&mut self, member: Item<'_>, score: f64) -> Result<(), Error>;

    /// A field of a hash, with its expiry in Unix milliseconds.
    fn field(&mut self, field: Item<'_>, value: Item<'_>, expiry: Option<i64>)
    -> Result<(), Error>;

    /// A whole value of a value type, without `begin`.
    fn custom(&mut self, of: &'static ValueType, value: CustomItem<'_>) -> Result<(), Error>;

    /// A change of the value, of a type that the writer of the value did not know.
    fn change(&mut self, of: TypeNumber, change: CustomChange<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Whether values of unknown modules are wanted, as
    /// [`UNKNOWN`](petrel_keyspace::custom::unknown::UNKNOWN); they are an error otherwise.
    fn keeps_unknown(&self) -> bool {
        false
    }

    /// The next part of a value of a value type.
    fn chunk(&mut self, chunk: &dyn Chunk) -> Result<(), Error> {
        Err(Error::Refused("a part of a value, which is not wanted"))
    }

    /// A number of the key's own, from which random choices in its value may start.
    fn seed(&self) -> u64 {
        0
    }

    /// The entries that follow are a node.
    fn node(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The next entry of a stream: fields and values by turns.
    fn entry(&mut self, id: StreamId, fields: &[Item<'_>]) -> Result<(), Error>;

    /// The stream's entries are complete.
    fn state(&mut self, state: &StreamState) -> Result<(), Error>;

    /// A group of the stream.
    fn group(&mut self, group: &Group<'_>) -> Result<(), Error>;

    /// A consumer of the last group.
    fn consumer(&mut self, consumer: &Consumer<'_>) -> Result<(), Error>;

    /// A pending entry of the last group.
    fn pending(&mut self, pending: &Pending) -> Result<(), Error>;

    /// A pending entry of the last group that was given back, in the order in which they were.
    fn given_back(&mut self, id: StreamId) -> Result<(), Error>;

    /// The stream has or had producers, or settings for them.
    fn producers(&mut self, producers: &Producers) -> Result<(), Error>;

    /// A producer of the stream, with the number of its entries that are remembered.
    fn producer(&mut self, name: &[u8], entries: usize) -> Result<(), Error>;

    /// An entry of the last producer, the oldest first, and the ID that the producer gave it.
    fn produced(&mut self, id: &[u8], entry: StreamId) -> Result<(), Error>;

    /// Reports a redundant count in the bytes that is wrong, and is not used.
    fn recounted(&mut self, what: &'static str) {}

    /// Reports another number in the bytes that contradicts the value, and is not used.
    fn corrected(&mut self, what: &'static str) {}

    /// Number of producers' IDs ever recorded, and of entries sent again.
    fn counters(&mut self, added: u64, duplicates: u64) -> Result<(), Error>;
}
