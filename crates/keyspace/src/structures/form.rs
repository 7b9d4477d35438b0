//! The types of values, and the forms in which collections are held.

use crate::structures::custom::TypeNumber;
use crate::structures::custom::types::{find, type_of_number};

/// What a key holds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Type {
    /// Bytes.
    String,
    /// A sequence of strings.
    List,
    /// Distinct strings.
    Set,
    /// Distinct strings, each with a score, in the order of scores.
    SortedSet,
    /// Fields with a string each.
    Hash,
    /// A log of entries with fields.
    Stream,
    /// A value of one of the value types.
    Custom(TypeNumber),
}

impl Type {
    /// Vector sets.
    pub const VECTOR_SET: Type = Type::Custom(TypeNumber::VECTOR_SET);
    /// JSON documents.
    pub const JSON: Type = Type::Custom(TypeNumber::JSON);
    /// Bloom filters.
    pub const BLOOM: Type = Type::Custom(TypeNumber::BLOOM);

    /// All but value types.
    const CORE: [Type; 6] =
        [Type::String, Type::List, Type::Set, Type::SortedSet, Type::Hash, Type::Stream];

    /// Whether a type has this name, in any case of letters.
    pub fn is_name(name: &[u8]) -> bool {
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        Type::CORE.iter().any(|of| is(of.name())) || find(|of| is(of.name)).is_some()
    }

    /// The name that `TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
            // No value is of a type that is not in the table.
            Type::Custom(number) => type_of_number(number).map_or("", |of| of.name),
        }
    }
}

/// The key holds another type than the operation requires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WrongType;

impl std::fmt::Display for WrongType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the key holds a value of another type")
    }
}

impl std::error::Error for WrongType {}

/// Layout of a packed collection, or type of a large one. Three bits of the entry's first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Form {
    /// Items in order.
    List = 0,
    /// Members in insertion order.
    Set = 1,
    /// Integers in ascending order, each as wide as the widest.
    Intset = 2,
    /// Members, each followed by its score, in the order of scores.
    SortedSet = 3,
    /// Fields, each followed by its value, in insertion order.
    Hash = 4,
    /// Never packed.
    Stream = 5,
    /// A hash with expiring fields. Packed: the earliest expiry, then fields, each followed by its
    /// value and its expiry.
    ExpiringHash = 6,
    /// The tape of a JSON document (`petrel_json::tape`). Never large: that is [`Form::Custom`].
    Json = 7,
    /// A value of a value type. An entry says so with the bits of a form that is never large, or
    /// never packed. Packed: the number of the type, then the value as the type encodes it.
    Custom = 8,
}

/// The bits of a large [`Form::Custom`].
const LARGE_CUSTOM: u8 = Form::Intset as u8;
/// The bits of a packed [`Form::Custom`].
const PACKED_CUSTOM: u8 = Form::Stream as u8;

impl Form {
    /// The bits that an entry keeps of a large collection.
    #[inline]
    pub fn large_bits(self) -> u8 {
        match self {
            Form::Custom => LARGE_CUSTOM,
            form => form as u8,
        }
    }

    /// Form from an entry's bits for a large collection.
    #[inline]
    pub fn from_large_bits(bits: u8) -> Self {
        match bits {
            LARGE_CUSTOM => Form::Custom,
            PACKED_CUSTOM => Form::Stream,
            bits => Form::from_packed_bits(bits),
        }
    }

    /// The bits that an entry keeps of packed items.
    #[inline]
    pub fn packed_bits(self) -> u8 {
        match self {
            Form::Custom => PACKED_CUSTOM,
            form => form as u8,
        }
    }

    /// From the bits that an entry keeps of packed items.
    #[inline]
    pub fn from_packed_bits(bits: u8) -> Self {
        match bits {
            0 => Form::List,
            1 => Form::Set,
            2 => Form::Intset,
            3 => Form::SortedSet,
            4 => Form::Hash,
            6 => Form::ExpiringHash,
            7 => Form::Json,
            _ => Form::Custom,
        }
    }

    /// Bytes of packed items before the value's own.
    #[inline]
    pub fn packed_head(self) -> usize {
        usize::from(self == Form::Custom)
    }

    /// `OBJECT ENCODING` of packed items, within the thresholds or `beyond` them.
    pub fn encoding(self, beyond: bool) -> &'static str {
        match (self, beyond) {
            (Form::Stream, _) => "stream",
            (Form::Custom | Form::Json, _) => "raw",
            (Form::Intset, false) => "intset",
            (Form::ExpiringHash, false) => "listpackex",
            (_, false) => "listpack",
            (Form::List, true) => "quicklist",
            (Form::Set | Form::Intset | Form::Hash | Form::ExpiringHash, true) => "hashtable",
            (Form::SortedSet, true) => "skiplist",
        }
    }
}
