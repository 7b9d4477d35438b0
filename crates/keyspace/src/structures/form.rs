//! The types of values, and the forms in which collections are held.

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
    /// Distinct strings, each with a vector and attributes.
    VectorSet,
    /// A JSON document.
    Json,
}

impl Type {
    /// All of them.
    pub const ALL: [Type; 8] = [
        Type::String,
        Type::List,
        Type::Set,
        Type::SortedSet,
        Type::Hash,
        Type::Stream,
        Type::VectorSet,
        Type::Json,
    ];

    /// The name that `TYPE` answers.
    pub const fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
            Type::VectorSet => "vectorset",
            // As the module that Redis comes with calls it.
            Type::Json => "ReJSON-RL",
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
    /// The tape of a JSON document (`petrel_json::tape`).
    Json = 7,
    /// Never packed. An entry says so with the bits of [`Form::Intset`], which is never large.
    VectorSet = 8,
}

impl Form {
    /// The bits that an entry keeps of a large collection.
    #[inline]
    pub fn large_bits(self) -> u8 {
        match self {
            Form::VectorSet => Form::Intset as u8,
            form => form as u8,
        }
    }

    /// Form from an entry's bits for a large collection.
    #[inline]
    pub fn from_large_bits(bits: u8) -> Self {
        match Form::from_bits(bits) {
            Form::Intset => Form::VectorSet,
            form => form,
        }
    }

    /// From the bits that an entry keeps.
    #[inline]
    pub fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Form::List,
            1 => Form::Set,
            2 => Form::Intset,
            3 => Form::SortedSet,
            4 => Form::Hash,
            6 => Form::ExpiringHash,
            7 => Form::Json,
            _ => Form::Stream,
        }
    }

    /// The type.
    #[inline]
    pub fn type_of(self) -> Type {
        match self {
            Form::List => Type::List,
            Form::Set | Form::Intset => Type::Set,
            Form::SortedSet => Type::SortedSet,
            Form::Hash | Form::ExpiringHash => Type::Hash,
            Form::Stream => Type::Stream,
            Form::VectorSet => Type::VectorSet,
            Form::Json => Type::Json,
        }
    }

    /// `OBJECT ENCODING` of packed items, within the thresholds or `beyond` them.
    pub fn encoding(self, beyond: bool) -> &'static str {
        match (self, beyond) {
            (Form::Stream, _) => "stream",
            (Form::VectorSet | Form::Json, _) => "raw",
            (Form::Intset, false) => "intset",
            (Form::ExpiringHash, false) => "listpackex",
            (_, false) => "listpack",
            (Form::List, true) => "quicklist",
            (Form::Set | Form::Intset | Form::Hash | Form::ExpiringHash, true) => "hashtable",
            (Form::SortedSet, true) => "skiplist",
        }
    }
}
