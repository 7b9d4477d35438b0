//! Hashes.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `HSET`.
pub const HSET: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets fields of a hash, which is made if it does not exist.",
    complexity: "O(N) where N is the number of fields",
    history: &[("4.0.0", "Several fields.")],
    arguments: &[Arg::key("key"), FIELDS_AND_VALUES],
    ..Meta::new("hset", -4, Group::Hash, "2.0.0")
};

/// `HSETNX`.
pub const HSETNX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, INSERT))],
    summary: "Sets a field of a hash if the hash does not have it.",
    arguments: &[Arg::key("key"), Arg::string("field"), Arg::string("value")],
    ..Meta::new("hsetnx", 4, Group::Hash, "2.0.0")
};

/// `HMSET`.
pub const HMSET: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets fields of a hash.",
    complexity: "O(N) where N is the number of fields",
    deprecated: Some(("4.0.0", "`HSET`")),
    arguments: &[Arg::key("key"), FIELDS_AND_VALUES],
    ..Meta::new("hmset", -4, Group::Hash, "2.0.0")
};

/// `HGET`.
pub const HGET: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the value of a field.",
    arguments: &[Arg::key("key"), Arg::string("field")],
    ..Meta::new("hget", 3, Group::Hash, "2.0.0")
};

/// `HMGET`.
pub const HMGET: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the values of several fields.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), Arg::string("field").many()],
    ..Meta::new("hmget", -3, Group::Hash, "2.0.0")
};

/// `HGETALL`.
pub const HGETALL: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output_order"],
    summary: "Returns every field of a hash with its value.",
    complexity: "O(N) where N is the size of the hash",
    arguments: &[Arg::key("key")],
    ..Meta::new("hgetall", 2, Group::Hash, "2.0.0")
};

/// `HDEL`.
pub const HDEL: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes fields from a hash, and the hash with its last field.",
    complexity: "O(N) where N is the number of fields",
    history: &[("2.4.0", "Several fields.")],
    arguments: &[Arg::key("key"), Arg::string("field").many()],
    ..Meta::new("hdel", -3, Group::Hash, "2.0.0")
};

/// `HEXISTS`.
pub const HEXISTS: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Tells whether a hash has a field.",
    arguments: &[Arg::key("key"), Arg::string("field")],
    ..Meta::new("hexists", 3, Group::Hash, "2.0.0")
};

/// `HLEN`.
pub const HLEN: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns how many fields a hash has.",
    arguments: &[Arg::key("key")],
    ..Meta::new("hlen", 2, Group::Hash, "2.0.0")
};

/// `HSTRLEN`.
pub const HSTRLEN: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns the length of a field's value.",
    arguments: &[Arg::key("key"), Arg::string("field")],
    ..Meta::new("hstrlen", 3, Group::Hash, "3.2.0")
};

/// `HKEYS`.
pub const HKEYS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output_order"],
    summary: "Returns every field of a hash.",
    complexity: "O(N) where N is the size of the hash",
    arguments: &[Arg::key("key")],
    ..Meta::new("hkeys", 2, Group::Hash, "2.0.0")
};

/// `HVALS`.
pub const HVALS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output_order"],
    summary: "Returns every value of a hash.",
    complexity: "O(N) where N is the size of the hash",
    arguments: &[Arg::key("key")],
    ..Meta::new("hvals", 2, Group::Hash, "2.0.0")
};

/// `HINCRBY`.
pub const HINCRBY: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Adds to the integer in a field.",
    arguments: &[Arg::key("key"), Arg::string("field"), Arg::integer("increment")],
    ..Meta::new("hincrby", 4, Group::Hash, "2.0.0")
};

/// `HINCRBYFLOAT`.
pub const HINCRBYFLOAT: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Adds to the floating-point number in a field.",
    arguments: &[Arg::key("key"), Arg::string("field"), Arg::double("increment")],
    ..Meta::new("hincrbyfloat", 4, Group::Hash, "2.6.0")
};

/// `HRANDFIELD`.
pub const HRANDFIELD: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns fields drawn at random from a hash.",
    complexity: "O(N) where N is the number of fields returned",
    arguments: &[
        Arg::key("key"),
        Arg::block(
            "options",
            &[Arg::integer("count"), Arg::word("withvalues", "WITHVALUES").opt()],
        )
        .opt(),
    ],
    ..Meta::new("hrandfield", -2, Group::Hash, "6.2.0")
};

/// `HSCAN`.
pub const HSCAN: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Walks the fields of a hash, a few per call.",
    complexity: "O(1) per call, O(N) for a whole walk, where N is the size of the hash",
    arguments: &[
        Arg::key("key"),
        Arg::integer("cursor"),
        Arg::pattern("pattern").token("MATCH").opt(),
        Arg::integer("count").token("COUNT").opt(),
        Arg::word("novalues", "NOVALUES").opt(),
    ],
    ..Meta::new("hscan", -3, Group::Hash, "2.8.0")
};

/// `HEXPIRE`.
pub const HEXPIRE: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Gives fields a time to live in seconds.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), Arg::integer("seconds"), CONDITION, FIELDS],
    ..Meta::new("hexpire", -6, Group::Hash, "7.4.0")
};

/// `HPEXPIRE`.
pub const HPEXPIRE: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Gives fields a time to live in milliseconds.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), Arg::integer("milliseconds"), CONDITION, FIELDS],
    ..Meta::new("hpexpire", -6, Group::Hash, "7.4.0")
};

/// `HEXPIREAT`.
pub const HEXPIREAT: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets the Unix time, in seconds, at which fields expire.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), Arg::unix_time("unix-time-seconds"), CONDITION, FIELDS],
    ..Meta::new("hexpireat", -6, Group::Hash, "7.4.0")
};

/// `HPEXPIREAT`.
pub const HPEXPIREAT: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets the Unix time, in milliseconds, at which fields expire.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), Arg::unix_time("unix-time-milliseconds"), CONDITION, FIELDS],
    ..Meta::new("hpexpireat", -6, Group::Hash, "7.4.0")
};

/// `HTTL`.
pub const HTTL: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns the time that fields have to live, in seconds.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), FIELDS],
    ..Meta::new("httl", -5, Group::Hash, "7.4.0")
};

/// `HPTTL`.
pub const HPTTL: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns the time that fields have to live, in milliseconds.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), FIELDS],
    ..Meta::new("hpttl", -5, Group::Hash, "7.4.0")
};

/// `HEXPIRETIME`.
pub const HEXPIRETIME: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the Unix time, in seconds, at which fields expire.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), FIELDS],
    ..Meta::new("hexpiretime", -5, Group::Hash, "7.4.0")
};

/// `HPEXPIRETIME`.
pub const HPEXPIRETIME: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the Unix time, in milliseconds, at which fields expire.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), FIELDS],
    ..Meta::new("hpexpiretime", -5, Group::Hash, "7.4.0")
};

/// `HPERSIST`.
pub const HPERSIST: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Makes fields persist that have a time to live.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), FIELDS],
    ..Meta::new("hpersist", -5, Group::Hash, "7.4.0")
};

/// `HGETDEL`.
pub const HGETDEL: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Returns the values of fields and removes the fields.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), FIELDS],
    ..Meta::new("hgetdel", -5, Group::Hash, "8.0.0")
};

/// `HGETEX`.
pub const HGETEX: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))
        .notes("RW because the expiry may change")],
    summary: "Returns the values of fields and changes their expiry.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[
        Arg::key("key"),
        Arg::one_of(
            "expiration",
            &[
                Arg::integer("seconds").token("EX"),
                Arg::integer("milliseconds").token("PX"),
                Arg::unix_time("unix-time-seconds").token("EXAT"),
                Arg::unix_time("unix-time-milliseconds").token("PXAT"),
                Arg::word("persist", "PERSIST"),
            ],
        )
        .opt(),
        FIELDS,
    ],
    ..Meta::new("hgetex", -5, Group::Hash, "8.0.0")
};

/// `HSETEX`.
pub const HSETEX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets fields of a hash together with their expiry.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[
        Arg::key("key"),
        Arg::one_of("condition", &[Arg::word("fnx", "FNX"), Arg::word("fxx", "FXX")]).opt(),
        Arg::one_of(
            "expiration",
            &[
                Arg::integer("seconds").token("EX"),
                Arg::integer("milliseconds").token("PX"),
                Arg::unix_time("unix-time-seconds").token("EXAT"),
                Arg::unix_time("unix-time-milliseconds").token("PXAT"),
                Arg::word("keepttl", "KEEPTTL"),
            ],
        )
        .opt(),
        Arg::block("fields", &[Arg::integer("numfields"), FIELDS_AND_VALUES]).token("FIELDS"),
    ],
    ..Meta::new("hsetex", -6, Group::Hash, "8.0.0")
};

/// The fields that a command names, preceded by their number.
const FIELDS: Arg =
    Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").many()]).token("FIELDS");

/// When an expiry is set.
const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.opt();

/// Fields with their values.
const FIELDS_AND_VALUES: Arg =
    Arg::block("data", &[Arg::string("field"), Arg::string("value")]).many();

/// `HIMPORT`.
pub const HIMPORT: Meta = Meta {
    stated_categories: bits!(Categories: HASH),
    summary: "Makes hashes of values alone, their fields having been named before.",
    complexity: "Depends on subcommand.",
    ..Meta::new("himport", -2, Group::Hash, "8.10.0")
};

/// `HIMPORT PREPARE`.
pub const HIMPORT_PREPARE: Meta = Meta {
    stated_categories: bits!(Categories: HASH),
    summary: "Names the fields of hashes that this connection is going to make.",
    complexity: "O(N*log(N)) where N is the number of fields",
    arguments: &[Arg::string("fieldset-name"), Arg::string("field").many()],
    ..Meta::new("prepare", -4, Group::Hash, "8.10.0")
};

/// `HIMPORT SET`.
pub const HIMPORT_SET: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: HASH),
    keys: &[KeySpec::at(2, bits!(KeyFlags: OW, UPDATE))],
    summary: "Makes a hash of values, one for each field of a fieldset.",
    complexity: "O(N) where N is the number of fields",
    arguments: &[Arg::key("key"), Arg::string("fieldset-name"), Arg::string("value").many()],
    ..Meta::new("set", -5, Group::Hash, "8.10.0")
};

/// `HIMPORT DISCARD`.
pub const HIMPORT_DISCARD: Meta = Meta {
    stated_categories: bits!(Categories: HASH),
    summary: "Forgets a fieldset of this connection.",
    arguments: &[Arg::string("fieldset-name")],
    ..Meta::new("discard", 3, Group::Hash, "8.10.0")
};

/// `HIMPORT DISCARDALL`.
pub const HIMPORT_DISCARDALL: Meta = Meta {
    stated_categories: bits!(Categories: HASH),
    summary: "Forgets all fieldsets of this connection.",
    complexity: "O(N) where N is the number of fieldsets",
    ..Meta::new("discardall", 2, Group::Hash, "8.10.0")
};
