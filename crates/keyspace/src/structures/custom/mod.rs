//! Value types as units: a type of value beside strings and collections is one [`ValueType`], a
//! table of its properties and functions, and one [`CustomValue`], its structure.
//!
//! ```text
//! command ─┐            ┌─ Slot: put, change, splice, remove ──▶ the key
//!          ├─▶ change ──┤
//! effect ──┘            └─ Slot::record ──▶ Effect::Custom ──▶ log, replicas, cluster, events
//! snapshot, DUMP, RESTORE ◀──▶ ValueType::{head, body, load} ◀──▶ RdbForm
//! ```
//!
//! The log, replication, the cluster, snapshots, events and `DEBUG DIGEST` carry changes and values
//! by type number, and know no type. Strings and collections do not pass through here.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the traits and the table row |
//! | `types` | all types, by number, name and module |
//! | `held` | a value at a key, with the type it belongs to and its snapshot |
//! | `number` | numbers and byte strings as changes encode them |
//! | `unknown` | values of types that this build does not know |

pub(crate) mod held;
pub mod number;
pub(crate) mod types;
pub mod unknown;

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;

/// The number of a value type in effects and logs. A number is never used again for another type.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TypeNumber(pub u8);

impl TypeNumber {
    /// Types that this build does not know; no change has this number.
    pub const UNKNOWN: TypeNumber = TypeNumber(0);
    /// Vector sets.
    pub const VECTOR_SET: TypeNumber = TypeNumber(1);
    /// JSON documents.
    pub const JSON: TypeNumber = TypeNumber(2);
    /// Bloom filters.
    pub const BLOOM: TypeNumber = TypeNumber(3);
    /// Count-min sketches.
    pub const COUNT_MIN: TypeNumber = TypeNumber(4);
    /// Cuckoo filters.
    pub const CUCKOO: TypeNumber = TypeNumber(5);
    /// Top-k lists.
    pub const TOP_K: TypeNumber = TypeNumber(6);
    /// t-digests.
    pub const T_DIGEST: TypeNumber = TypeNumber(7);
    /// Arrays.
    pub const ARRAY: TypeNumber = TypeNumber(8);
    /// Suggestions.
    pub const SUGGESTIONS: TypeNumber = TypeNumber(9);
}

/// A change of a value, as effects carry it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CustomChange<'a> {
    /// The operation, by a number of the type's own.
    pub op: u8,
    /// Arguments, as the type encodes them; empty where only events are made of the change.
    pub body: &'a [u8],
}

/// The reason for which a change does not fit a value.
pub type Why = &'static str;

/// The reason for which a change is refused that the type cannot decode.
pub const MALFORMED_CHANGE: Why = "the change is malformed";

/// A value type: one row of the table.
#[derive(Debug)]
pub struct ValueType {
    /// Number in effects.
    pub number: TypeNumber,
    /// The name that `TYPE` answers.
    pub name: &'static str,
    /// Properties for commands and events of keys of any type.
    pub shown: Shown,
    /// The form in RDB files and `DUMP`.
    pub form: RdbForm,
    /// The version of RDB that knows such values; 9 at least.
    pub rdb_version: u16,
    /// Writes what comes before the parts of a value.
    pub head: fn(Held<'_>, &mut dyn ModuleWriter),
    /// Writes all parts of a value.
    pub body: fn(Held<'_>, &mut dyn ModuleWriter),
    /// Reads a value that was written under a module number; under a type byte it is 0.
    pub load: fn(&mut dyn ModuleReader, u64) -> Result<Loaded, LoadError>,
    /// Makes a change that an effect carries, and records it.
    pub apply: fn(&mut dyn Slot, CustomChange<'_>) -> Result<(), Why>,
    /// The keyspace event of an operation, if it has one; [`Shown::events`] is its class.
    pub event: fn(u8) -> Option<&'static str>,
    /// Writes a change of a key as the commands that make it on a Redis replica. None if Redis has
    /// no such type: its replicas are sent neither values nor changes then.
    pub commands: Option<WriteCommands>,
    /// Adds a value to the digest of `DEBUG DIGEST`.
    pub digest: fn(Held<'_>, &mut dyn ValueDigest),
    /// Estimates the effort of a copy of a value, in units of about ten nanoseconds.
    pub copy_effort: fn(Held<'_>) -> usize,
    /// The line of `INFO keysizes` and the length of a value; none if there is no such line.
    pub sizes: Option<(&'static str, LengthOf)>,
}

/// Properties of a value type for commands and events of keys of any type.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// `OBJECT ENCODING`.
    pub encoding: &'static str,
    /// Class of its events.
    pub events: EventClass,
}

impl Shown {
    /// A type that is a module's in Redis.
    pub const MODULE: Shown = Shown { encoding: "raw", events: EventClass::Module };
}

/// Class of a value type's events in `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EventClass {
    /// `d`: types that are modules' in Redis.
    Module,
    /// `a`: arrays.
    Array,
}

/// Writes a change of a key as commands.
pub type WriteCommands = fn(&[u8], CustomChange<'_>, &mut dyn CommandWriter);

/// Returns the length of a value.
pub type LengthOf = fn(Held<'_>) -> usize;

/// The form of a type's values in RDB files.
#[derive(Clone, Copy, Debug)]
pub enum RdbForm {
    /// A value of a module: parts that name their sort, so that any reader can skip them.
    Module {
        /// The module numbers (nine letters and a version) of which values are read.
        numbers: &'static [u64],
        /// The module number under which a value is written.
        of: fn(Held<'_>) -> u64,
    },
    /// A type byte of its own, as types of the server's core have it: parts without sorts.
    TypeByte(u8),
}

impl RdbForm {
    /// Whether values are read of this module number.
    pub fn is_of_module(&self, module: u64) -> bool {
        matches!(self, RdbForm::Module { numbers, .. } if numbers.contains(&module))
    }

    /// Whether two types would read the same values.
    fn clashes(&self, other: &RdbForm) -> bool {
        match (self, other) {
            (RdbForm::TypeByte(own), RdbForm::TypeByte(other)) => own == other,
            (RdbForm::Module { numbers, .. }, other) => {
                numbers.iter().any(|&module| other.is_of_module(module))
            }
            _ => false,
        }
    }
}

/// The structure of a value that has an allocation of its own.
pub trait CustomValue: Any + Send {
    /// Bytes that it occupies, itself included, without walking it. It is asked before and after
    /// each change and each chunk of a snapshot; the beginning of a snapshot does not change it.
    fn memory_usage(&self) -> usize;

    /// The effort of freeing it: about the number of its allocations.
    fn free_effort(&self) -> usize;

    /// A copy that shares nothing that changes.
    fn duplicate(&self) -> Box<dyn CustomValue>;

    /// Keeps the value as it is now for a snapshot, while it may change.
    fn begin_snapshot(&mut self);

    /// Hands out some parts of the snapshot, for some ten microseconds; false at the end. Parts
    /// come in the order in which [`ValueType::body`] writes them.
    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool;

    /// The rest of the snapshot after its chunks, to be handed out apart from the key and by
    /// [`CustomValue::next_chunk`]: what takes long, under no lock.
    fn take_tail(&mut self) -> Option<Box<dyn CustomValue>> {
        None
    }
}

/// Takes a part of a snapshot; says when it has enough for one hold of the stripe.
pub type TakeChunk<'t> = dyn FnMut(&dyn Chunk) -> ControlFlow<()> + 't;

/// A part of a value in a snapshot.
pub trait Chunk: fmt::Debug {
    /// Writes it.
    fn write(&self, out: &mut dyn ModuleWriter);
}

/// A value where it lies.
#[derive(Clone, Copy)]
pub enum Held<'a> {
    /// Bytes in the key's entry: only of types that pack short values.
    Packed(&'a [u8]),
    /// An allocation of its own.
    Boxed(&'a dyn CustomValue),
}

impl<'a> Held<'a> {
    /// The structure; none if the value is packed or another type's.
    #[inline]
    pub fn get<T: CustomValue>(self) -> Option<&'a T> {
        match self {
            Held::Packed(_) => None,
            Held::Boxed(value) => (value as &dyn Any).downcast_ref(),
        }
    }
}

impl fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Held::Packed(_) => "Packed",
            Held::Boxed(_) => "Boxed",
        })
    }
}

/// A value that is at no key yet.
pub enum Loaded {
    /// Bytes for the key's entry, at most [`PACKED_MAX`](crate::custom::PACKED_MAX).
    Packed(Vec<u8>),
    /// A structure.
    Boxed(Box<dyn CustomValue>),
}

impl Loaded {
    /// The value.
    pub fn held(&self) -> Held<'_> {
        match self {
            Loaded::Packed(bytes) => Held::Packed(bytes),
            Loaded::Boxed(value) => Held::Boxed(&**value),
        }
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held().fmt(f)
    }
}

/// A key during a change: it holds a value of the type or nothing. Its stripe is held.
pub trait Slot {
    /// The value.
    fn held(&self) -> Option<Held<'_>>;

    /// A number of the key's own, from which random choices may start.
    fn seed(&self) -> u64;

    /// Puts a structure at the key, which keeps its expiry.
    fn put_boxed(&mut self, value: Box<dyn CustomValue>);

    /// Puts a packed value at the key, which keeps its expiry.
    fn put_packed(&mut self, bytes: &[u8]);

    /// Changes the structure in place; nothing happens to a packed value or a missing one.
    fn change(&mut self, change: &mut dyn FnMut(&mut dyn CustomValue));

    /// Replaces `remove` bytes of a packed value from `at` on with `insert`, after `overwrite` has
    /// changed other bytes in place. The result has at most
    /// [`PACKED_MAX`](crate::custom::PACKED_MAX) bytes.
    fn splice(
        &mut self,
        at: usize,
        remove: usize,
        insert: &[u8],
        overwrite: &mut dyn FnMut(&mut [u8]),
    );

    /// Records that a change was made. `encode` appends its body, and is called if anything
    /// carries it.
    fn record(&mut self, op: u8, encode: &mut dyn FnMut(&mut Vec<u8>));

    /// Removes the key after its value has become empty, and records that.
    fn remove_emptied(&mut self);
}

/// Writes the parts of a value in its [`RdbForm`].
pub trait ModuleWriter {
    /// An unsigned number.
    fn unsigned(&mut self, n: u64);
    /// A signed number.
    fn signed(&mut self, n: i64);
    /// A double.
    fn double(&mut self, n: f64);
    /// Eight bytes, little-endian; under a type byte only, where no sort precedes them.
    fn eight_bytes(&mut self, n: u64) {
        self.double(f64::from_bits(n));
    }
    /// A string.
    fn text(&mut self, bytes: &[u8]);
    /// The beginning of a string of `len` bytes that is too long for a single chunk;
    /// [`ModuleWriter::text_bytes`] then writes the bytes.
    fn begin_text(&mut self, len: usize);
    /// Bytes of the string that was begun.
    fn text_bytes(&mut self, bytes: &[u8]);
    /// Parts of a module's value that are encoded already, each with its sort.
    fn encoded(&mut self, parts: &[u8]);
}

/// Reads the parts that a [`ModuleWriter`] wrote. Input may be forged: a number of parts to come is
/// no reason to allocate for them.
pub trait ModuleReader {
    /// An unsigned number.
    fn unsigned(&mut self) -> Result<u64, LoadError>;
    /// A signed number.
    fn signed(&mut self) -> Result<i64, LoadError>;
    /// A double.
    fn double(&mut self) -> Result<f64, LoadError>;
    /// Eight bytes, little-endian; under a type byte only.
    fn eight_bytes(&mut self) -> Result<u64, LoadError> {
        self.double().map(f64::to_bits)
    }
    /// A string, until the next part is read.
    fn text(&mut self) -> Result<&[u8], LoadError>;
    /// Upper bound of the bytes that are left.
    fn left(&self) -> usize;
    /// [`Slot::seed`] of the key.
    fn seed(&self) -> u64;
}

/// The reason for which a value cannot be loaded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LoadError {
    /// The bytes end before the value does.
    Truncated,
    /// The bytes contradict themselves or the format.
    Malformed(&'static str),
    /// A form of the type that is not supported.
    Unsupported(&'static str),
    /// The value cannot exist.
    Refused(&'static str),
}

/// Takes the commands that a change is for a Redis replica.
pub trait CommandWriter {
    /// A command.
    fn command(&mut self, name: &'static str, args: &[&[u8]]);
}

/// Takes the parts of a value for its digest.
pub trait ValueDigest {
    /// Adds a part, in order.
    fn ordered(&mut self, part: &[u8]);
    /// Adds parts that belong together; the order of such groups does not matter.
    fn unordered(&mut self, parts: &[&[u8]]);
}
