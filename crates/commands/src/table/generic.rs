//! Keys of any type, and databases as a whole of them.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `DEL`.
pub const DEL: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RM, DELETE))],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    summary: "Deletes keys.",
    complexity: "O(N) where N is the number of keys, plus O(M) for each value of M elements",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("del", -2, Group::Generic, "1.0.0")
};

/// `UNLINK`.
pub const UNLINK: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RM, DELETE))],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    summary: "Deletes keys and frees their memory in the background.",
    complexity: "O(N) where N is the number of keys; memory is freed apart from the command",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("unlink", -2, Group::Generic, "4.0.0")
};

/// `EXISTS`.
pub const EXISTS: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RO))],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    summary: "Counts those of the given keys that exist.",
    complexity: "O(N) where N is the number of keys",
    history: &[("3.0.3", "Several keys.")],
    arguments: &[Arg::key("key").many()],
    ..Meta::new("exists", -2, Group::Generic, "1.0.0")
};

/// `TYPE`.
pub const TYPE: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns the type of the value stored at a key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("type", 2, Group::Generic, "1.0.0")
};

/// `TTL`.
pub const TTL: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns the seconds left until a key expires.",
    history: &[("2.8.0", "Reply -2 for a key that does not exist.")],
    arguments: &[Arg::key("key")],
    ..Meta::new("ttl", 2, Group::Generic, "1.0.0")
};

/// `PTTL`.
pub const PTTL: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns the milliseconds left until a key expires.",
    history: &[("2.8.0", "Reply -2 for a key that does not exist.")],
    arguments: &[Arg::key("key")],
    ..Meta::new("pttl", 2, Group::Generic, "2.6.0")
};

/// `EXPIRE`.
pub const EXPIRE: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Lets a key expire after a number of seconds.",
    history: &[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")],
    arguments: &[Arg::key("key"), Arg::integer("seconds"), EXPIRE_CONDITION],
    ..Meta::new("expire", -3, Group::Generic, "1.0.0")
};

/// `PEXPIRE`.
pub const PEXPIRE: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Lets a key expire after a number of milliseconds.",
    history: &[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")],
    arguments: &[Arg::key("key"), Arg::integer("milliseconds"), EXPIRE_CONDITION],
    ..Meta::new("pexpire", -3, Group::Generic, "2.6.0")
};

/// `EXPIREAT`.
pub const EXPIREAT: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Lets a key expire at a Unix time in seconds.",
    history: &[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")],
    arguments: &[Arg::key("key"), Arg::unix_time("unix-time-seconds"), EXPIRE_CONDITION],
    ..Meta::new("expireat", -3, Group::Generic, "1.2.0")
};

/// `PEXPIREAT`.
pub const PEXPIREAT: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Lets a key expire at a Unix time in milliseconds.",
    history: &[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")],
    arguments: &[Arg::key("key"), Arg::unix_time("unix-time-milliseconds"), EXPIRE_CONDITION],
    ..Meta::new("pexpireat", -3, Group::Generic, "2.6.0")
};

/// `EXPIRETIME`.
pub const EXPIRETIME: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the Unix time in seconds at which a key expires.",
    arguments: &[Arg::key("key")],
    ..Meta::new("expiretime", 2, Group::Generic, "7.0.0")
};

/// `PEXPIRETIME`.
pub const PEXPIRETIME: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the Unix time in milliseconds at which a key expires.",
    arguments: &[Arg::key("key")],
    ..Meta::new("pexpiretime", 2, Group::Generic, "7.0.0")
};

/// `PERSIST`.
pub const PERSIST: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Removes the expiry of a key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("persist", 2, Group::Generic, "2.2.0")
};

/// `RENAME`.
pub const RENAME: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE)),
        KeySpec::at(2, bits!(KeyFlags: OW, UPDATE)),
    ],
    summary: "Renames a key, replacing the key of the new name.",
    arguments: &[Arg::key("key"), Arg::key("newkey").of_spec(1)],
    ..Meta::new("rename", 3, Group::Generic, "1.0.0")
};

/// `RENAMENX`.
pub const RENAMENX: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE)),
        KeySpec::at(2, bits!(KeyFlags: OW, INSERT)),
    ],
    summary: "Renames a key if no key has the new name.",
    history: &[("3.2.0", "Equal names are no error.")],
    arguments: &[Arg::key("key"), Arg::key("newkey").of_spec(1)],
    ..Meta::new("renamenx", 3, Group::Generic, "1.0.0")
};

/// `COPY`.
pub const COPY: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: RO, ACCESS)),
        KeySpec::at(2, bits!(KeyFlags: OW, UPDATE)),
    ],
    summary: "Copies the value of a key to another key.",
    complexity: "O(N) where N is the number of elements of the value; O(1) for strings",
    arguments: &[
        Arg::key("source"),
        Arg::key("destination").of_spec(1),
        Arg::integer("destination-db").token("DB").opt(),
        Arg::word("replace", "REPLACE").opt(),
    ],
    ..Meta::new("copy", -3, Group::Generic, "6.2.0")
};

/// `MOVE`.
pub const MOVE: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Moves a key to another database.",
    arguments: &[Arg::key("key"), Arg::integer("db")],
    ..Meta::new("move", 3, Group::Generic, "1.0.0")
};

/// `KEYS`.
pub const KEYS: Meta = Meta {
    flags: bits!(Flags: READONLY, TOUCHES_ARBITRARY_KEYS),
    stated_categories: bits!(Categories: KEYSPACE, DANGEROUS),
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    summary: "Lists the keys that match a pattern.",
    complexity: "O(N) where N is the number of keys in the database",
    arguments: &[Arg::pattern("pattern")],
    ..Meta::new("keys", 2, Group::Generic, "1.0.0")
};

/// `SCAN`.
pub const SCAN: Meta = Meta {
    flags: bits!(Flags: READONLY, TOUCHES_ARBITRARY_KEYS),
    stated_categories: bits!(Categories: KEYSPACE),
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    summary: "Walks the keys of the database, a part at a time.",
    complexity: "O(1) for each call; O(N) for a complete walk over N keys",
    history: &[("6.0.0", "Option `TYPE`.")],
    arguments: &[
        Arg::integer("cursor"),
        Arg::pattern("pattern").token("MATCH").opt(),
        Arg::integer("count").token("COUNT").opt(),
        Arg::string("type").token("TYPE").since("6.0.0").opt(),
    ],
    ..Meta::new("scan", -2, Group::Generic, "2.8.0")
};

/// `RANDOMKEY`.
pub const RANDOMKEY: Meta = Meta {
    flags: bits!(Flags: READONLY, TOUCHES_ARBITRARY_KEYS),
    stated_categories: bits!(Categories: KEYSPACE),
    tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
    summary: "Returns a key drawn at random.",
    ..Meta::new("randomkey", 1, Group::Generic, "1.0.0")
};

/// `TOUCH`.
pub const TOUCH: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RO))],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    summary: "Counts those of the given keys that exist and marks them as accessed.",
    complexity: "O(N) where N is the number of keys",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("touch", -2, Group::Generic, "3.2.1")
};

/// When to replace an expiry.
const EXPIRE_CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.since("7.0.0")
.opt();
