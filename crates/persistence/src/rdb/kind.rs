//! Type bytes, and the forms in which values are written.

use petrel_keyspace::Type;
use petrel_keyspace::custom::{RdbForm, TypeNumber, type_of_number, type_of_type_byte};

/// Type bytes, in the order in which they came into use.
pub(super) mod type_byte {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET_ASCII: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const MODULE_1: u8 = 6;
    pub const MODULE_2: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_ZIPLISTS: u8 = 14;
    pub const STREAM_1: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_LISTPACKS: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
    /// Valkey's. In files and payloads of Redis's versions the number means
    /// [`HASH_EXPIRING_EARLY`].
    pub const HASH_EXPIRING_VALKEY: u8 = 22;
    /// A listpack of fields, values and expiries, of the release candidates of Redis 7.4.
    pub const HASH_EXPIRING_LISTPACK_EARLY: u8 = 23;
    pub const HASH_EXPIRING: u8 = 24;
    pub const HASH_EXPIRING_LISTPACK: u8 = 25;
    pub const STREAM_4: u8 = 26;
    pub const STREAM_5: u8 = 27;
    /// A compact hash: field names, then a listpack of a number and the values.
    pub const HASH_COMPACT_LISTPACK: u8 = 29;
    /// The listpack alone; the number is that of the field names, a record of the file.
    pub const HASH_COMPACT_LISTPACK_REF: u8 = 30;
    /// A compact hash: field names, then the values.
    pub const HASH_COMPACT: u8 = 31;
    /// The number of the field names, then the values.
    pub const HASH_COMPACT_REF: u8 = 32;
    /// Meaning of 22 in Redis's versions: fields with expiries, of the release candidates of Redis
    /// 7.4. No server writes this number.
    pub const HASH_EXPIRING_EARLY: u8 = 0xf2;
    /// A number that no type has.
    pub const UNKNOWN: u8 = 0xf1;
}

/// The type byte by which a value of a file or payload of this version is read.
#[inline]
pub(super) fn type_byte_in(version: u16, type_byte: u8) -> u8 {
    match type_byte {
        type_byte::HASH_EXPIRING_VALKEY if version < *VALKEY_VERSIONS.start() => {
            type_byte::HASH_EXPIRING_EARLY
        }
        type_byte::HASH_EXPIRING_EARLY => type_byte::UNKNOWN,
        _ => type_byte,
    }
}

/// The version of the form of a stream: 1 to 5.
pub(super) fn stream_version(type_byte: u8) -> u8 {
    match type_byte {
        type_byte::STREAM_1 => 1,
        type_byte::STREAM_2 => 2,
        type_byte::STREAM_3 => 3,
        type_byte::STREAM_4 => 4,
        _ => 5,
    }
}

/// The type byte of strings.
pub const STRING: u8 = type_byte::STRING;

/// The type of the value that a type byte announces; none if that is not known here.
pub fn type_of(type_byte: u8) -> Option<Type> {
    use type_byte::*;
    Some(match type_byte {
        STRING => Type::String,
        LIST | LIST_ZIPLIST | LIST_ZIPLISTS | LIST_LISTPACKS => Type::List,
        SET | SET_INTSET | SET_LISTPACK => Type::Set,
        SORTED_SET | SORTED_SET_ASCII | SORTED_SET_ZIPLIST | SORTED_SET_LISTPACK => Type::SortedSet,
        HASH | HASH_ZIPMAP | HASH_ZIPLIST | HASH_LISTPACK => Type::Hash,
        HASH_EXPIRING | HASH_EXPIRING_LISTPACK | HASH_EXPIRING_VALKEY => Type::Hash,
        HASH_EXPIRING_EARLY | HASH_EXPIRING_LISTPACK_EARLY => Type::Hash,
        HASH_COMPACT | HASH_COMPACT_LISTPACK => Type::Hash,
        HASH_COMPACT_REF | HASH_COMPACT_LISTPACK_REF => Type::Hash,
        STREAM_1 | STREAM_2 | STREAM_3 | STREAM_4 | STREAM_5 => Type::Stream,
        // The value of a module says itself which it is.
        other => Type::Custom(type_of_type_byte(other)?.number),
    })
}

/// Versions of RDB up to this one are Redis's; this is that of Redis 8.10.
pub(super) const REDIS_VERSION_MAX: u16 = 15;
/// The version that compact hashes came with.
pub(crate) const COMPACT_VERSION: u16 = 15;
/// The versions that are Valkey's alone: those of Valkey 9.
pub(super) const VALKEY_VERSIONS: std::ops::RangeInclusive<u16> = 80..=80;

/// Dialect of records that Redis and Valkey write differently: hashes with expiring fields.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Dialect {
    /// Redis 7.4 and later.
    #[default]
    Redis,
    /// Valkey 9 and later.
    Valkey,
}

/// The form in which a value is written: always the oldest that loses nothing of it, so that the
/// widest range of servers loads it.
///
/// Lists, sets, sorted sets and hashes are written item by item, which every server reads and turns
/// into the encoding of its own thresholds.
///
/// | form | type byte | version | loaded by |
/// |---|---|---|---|
/// | `String`, `List`, `Set`, `Hash` | 0, 1, 2, 4 | 9 | all |
/// | `SortedSet` | 5 | 9 | Redis 4, all Valkey |
/// | `Stream1` | 15 | 9 | Redis 5, all Valkey |
/// | `Stream2` | 19 | 10 | Redis 7.0, all Valkey |
/// | `Stream3` | 21 | 11 | Redis 7.2, all Valkey |
/// | `Stream4` | 26 | 13 | Redis 8.6 |
/// | `Stream5` | 27 | 14 | Redis 8.8 |
/// | `HashExpiring` | 24 | 12 | Redis 7.4 |
/// | `HashExpiringValkey` | 22 | 80 | Valkey 9 |
/// | `HashCompact` | 29, 31 | 15 | Redis 8.10; a `Hash` for others |
/// | `Custom`: vector set | 7 | 12 | Redis 8.0 |
/// | `Custom`: JSON document | 7 | 9 | Redis 8.0, RedisJSON 2 |
/// | `Custom`: Bloom filter | 7 | 9 | Redis 8.0, RedisBloom 2.4 |
/// | `Custom`: count-min sketch | 7 | 9 | Redis 8.0, RedisBloom 2 |
/// | `Custom`: cuckoo filter | 7 | 9 | Redis 8.0, RedisBloom 2.2 |
/// | `Custom`: top-k list | 7 | 9 | Redis 8.0, RedisBloom 2 |
/// | `Custom`: t-digest | 7 | 9 | Redis 8.0, RedisBloom 2.4 |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// A string.
    String,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set, with binary scores.
    SortedSet,
    /// Hash without expiring fields.
    Hash,
    /// A hash with fields that expire, for Redis.
    HashExpiring {
        /// The earliest expiry, Unix time in milliseconds.
        earliest: i64,
    },
    /// A hash with fields that expire, for Valkey.
    HashExpiringValkey,
    /// A compact hash, for Redis.
    HashCompact {
        /// Beyond the thresholds of a listpack.
        beyond: bool,
    },
    /// A stream without the counts that [`StreamFacts`] names.
    Stream1,
    /// A stream without the times at which consumers were active.
    Stream2,
    /// A stream without producers.
    Stream3,
    /// A stream without entries that were given back.
    Stream4,
    /// A stream.
    Stream5,
    /// A value of a value type, in the form of modules or under a type byte of its own.
    Custom(TypeNumber),
}

/// Properties of a stream that determine its form.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StreamFacts {
    /// Entries were deleted or added in ways that the entries alone do not tell: the number ever
    /// added is not that of entries, or an ID is remembered as deleted.
    pub counts: bool,
    /// The stream has consumer groups.
    pub groups: bool,
    /// A consumer was active at another time than it was last seen.
    pub activity: bool,
    /// The stream has producers, or settings for them.
    pub producers: bool,
    /// A consumer has given an entry back.
    pub given_back: bool,
}

impl Form {
    /// Form of a hash; `earliest` is the expiry of its first field to expire, if any.
    pub fn hash(earliest: Option<i64>, dialect: Dialect) -> Self {
        match (earliest, dialect) {
            (None, _) => Form::Hash,
            (Some(earliest), Dialect::Redis) => Form::HashExpiring { earliest },
            (Some(_), Dialect::Valkey) => Form::HashExpiringValkey,
        }
    }

    /// The form of a stream.
    pub fn stream(facts: StreamFacts) -> Self {
        match facts {
            StreamFacts { given_back: true, .. } => Form::Stream5,
            StreamFacts { producers: true, .. } => Form::Stream4,
            StreamFacts { activity: true, .. } => Form::Stream3,
            StreamFacts { counts: false, groups: false, .. } => Form::Stream1,
            _ => Form::Stream2,
        }
    }

    /// The form for files of versions up to this one: a compact hash is an ordinary one; parts of a
    /// stream that these versions do not know are left out. Of anything else nothing can be, so the
    /// form may be [newer](Form::version) nevertheless.
    pub fn within(self, version_max: u16) -> Self {
        if matches!(self, Form::HashCompact { .. }) && version_max < COMPACT_VERSION {
            return Form::Hash;
        }
        // Entries that were given back cannot be in the list of pending ones, each of which has a
        // consumer.
        let older = [Form::Stream4, Form::Stream3, Form::Stream2, Form::Stream1];
        let index = older.iter().position(|&form| form == self);
        let mut all = older[index.unwrap_or(older.len())..].iter();
        all.find(|form| form.version() <= version_max).copied().unwrap_or(self)
    }

    /// Whether it consists of parts that name their sorts, and an end.
    pub(super) fn is_of_module(self) -> bool {
        matches!(self, Form::Custom(_)) && self.type_byte() == type_byte::MODULE_2
    }

    pub(super) fn is_stream(self) -> bool {
        self.stream_version().is_some()
    }

    /// Version of the stream format, if it is one.
    pub(super) fn stream_version(self) -> Option<u8> {
        match self {
            Form::Stream1 => Some(1),
            Form::Stream2 => Some(2),
            Form::Stream3 => Some(3),
            Form::Stream4 => Some(4),
            Form::Stream5 => Some(5),
            _ => None,
        }
    }

    /// The byte that says how to read the value.
    pub fn type_byte(self) -> u8 {
        match self {
            Form::String => type_byte::STRING,
            Form::List => type_byte::LIST,
            Form::Set => type_byte::SET,
            Form::SortedSet => type_byte::SORTED_SET,
            Form::Hash => type_byte::HASH,
            Form::HashExpiring { .. } => type_byte::HASH_EXPIRING,
            Form::HashExpiringValkey => type_byte::HASH_EXPIRING_VALKEY,
            Form::HashCompact { beyond: false } => type_byte::HASH_COMPACT_LISTPACK,
            Form::HashCompact { beyond: true } => type_byte::HASH_COMPACT,
            Form::Stream1 => type_byte::STREAM_1,
            Form::Stream2 => type_byte::STREAM_2,
            Form::Stream3 => type_byte::STREAM_3,
            Form::Stream4 => type_byte::STREAM_4,
            Form::Stream5 => type_byte::STREAM_5,
            Form::Custom(number) => match type_of_number(number).map(|of| of.form) {
                Some(RdbForm::TypeByte(byte)) => byte,
                _ => type_byte::MODULE_2,
            },
        }
    }

    /// The version of RDB that knows the form; 9, that of Redis 5 and 6, at least.
    pub fn version(self) -> u16 {
        match self {
            Form::Stream2 => 10,
            Form::Stream3 => 11,
            Form::HashExpiring { .. } => 12,
            Form::Stream4 => 13,
            Form::Stream5 => 14,
            Form::HashCompact { .. } => COMPACT_VERSION,
            Form::HashExpiringValkey => *VALKEY_VERSIONS.start(),
            Form::Custom(number) => type_of_number(number).map_or(9, |of| of.rdb_version),
            _ => 9,
        }
    }
}
