//! Strings.

use crate::bitset::bits;
use crate::keys::{delex_key_flags, set_key_flags};
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `GET`.
pub const GET: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the string stored at a key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("get", 2, Group::String, "1.0.0")
};

/// `SET`.
pub const SET: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))
        .narrowed_by(set_key_flags)
        .notes("RW and ACCESS with `GET` or a comparison; else OW")],
    summary: "Stores a string at a key, whatever the key held before.",
    history: &[
        ("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
        ("6.0.0", "Option `KEEPTTL`."),
        ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
        ("7.0.0", "`NX` and `GET` may be combined."),
        ("8.4.0", "Options `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`."),
    ],
    arguments: &[
        Arg::key("key"),
        Arg::string("value"),
        Arg::one_of(
            "condition",
            &[
                Arg::word("nx", "NX"),
                Arg::word("xx", "XX"),
                Arg::string("ifeq-value").token("IFEQ").since("8.4.0"),
                Arg::string("ifne-value").token("IFNE").since("8.4.0"),
                Arg::string("ifdeq-digest").token("IFDEQ").since("8.4.0"),
                Arg::string("ifdne-digest").token("IFDNE").since("8.4.0"),
            ],
        )
        .since("2.6.12")
        .opt(),
        Arg::word("get", "GET").since("6.2.0").opt(),
        Arg::one_of(
            "expiration",
            &[
                Arg::integer("seconds").token("EX").since("2.6.12"),
                Arg::integer("milliseconds").token("PX").since("2.6.12"),
                Arg::unix_time("unix-time-seconds").token("EXAT").since("6.2.0"),
                Arg::unix_time("unix-time-milliseconds").token("PXAT").since("6.2.0"),
                Arg::word("keepttl", "KEEPTTL").since("6.0.0"),
            ],
        )
        .opt(),
    ],
    ..Meta::new("set", -3, Group::String, "1.0.0")
};

/// `SETNX`.
pub const SETNX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: OW, INSERT))],
    summary: "Stores a string at a key that does not exist.",
    deprecated: Some(("2.6.12", "`SET` with `NX`")),
    arguments: &[Arg::key("key"), Arg::string("value")],
    ..Meta::new("setnx", 3, Group::String, "1.0.0")
};

/// `SETEX`.
pub const SETEX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: OW, UPDATE))],
    summary: "Stores a string at a key together with an expiry in seconds.",
    deprecated: Some(("2.6.12", "`SET` with `EX`")),
    arguments: &[Arg::key("key"), Arg::integer("seconds"), Arg::string("value")],
    ..Meta::new("setex", 4, Group::String, "2.0.0")
};

/// `PSETEX`.
pub const PSETEX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: OW, UPDATE))],
    summary: "Stores a string at a key together with an expiry in milliseconds.",
    deprecated: Some(("2.6.12", "`SET` with `PX`")),
    arguments: &[Arg::key("key"), Arg::integer("milliseconds"), Arg::string("value")],
    ..Meta::new("psetex", 4, Group::String, "2.6.0")
};

/// `GETEX`.
pub const GETEX: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))
        .notes("RW because the expiry may change")],
    summary: "Returns the string stored at a key and changes the key's expiry.",
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
    ],
    ..Meta::new("getex", -2, Group::String, "6.2.0")
};

/// `GETDEL`.
pub const GETDEL: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Returns the string stored at a key and deletes the key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("getdel", 2, Group::String, "6.2.0")
};

/// `GETSET`.
pub const GETSET: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Stores a string at a key and returns the string it replaces.",
    deprecated: Some(("6.2.0", "`SET` with `GET`")),
    arguments: &[Arg::key("key"), Arg::string("value")],
    ..Meta::new("getset", 3, Group::String, "1.0.0")
};

/// `MGET`.
pub const MGET: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["request_policy:multi_shard"],
    summary: "Returns the strings stored at several keys.",
    complexity: "O(N) where N is the number of keys",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("mget", -2, Group::String, "1.0.0")
};

/// `MSET`.
pub const MSET: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::range(1, -1, 2, bits!(KeyFlags: OW, UPDATE))],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    summary: "Stores strings at several keys at once.",
    complexity: "O(N) where N is the number of keys",
    arguments: &[Arg::block("data", &[Arg::key("key"), Arg::string("value")]).many()],
    ..Meta::new("mset", -3, Group::String, "1.0.1")
};

/// `MSETNX`.
pub const MSETNX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::range(1, -1, 2, bits!(KeyFlags: OW, INSERT))],
    summary: "Stores strings at several keys if none of them exists.",
    complexity: "O(N) where N is the number of keys",
    arguments: &[Arg::block("data", &[Arg::key("key"), Arg::string("value")]).many()],
    ..Meta::new("msetnx", -3, Group::String, "1.0.1")
};

/// `MSETEX`.
pub const MSETEX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, MOVABLEKEYS),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::counted(1, 2, bits!(KeyFlags: OW, UPDATE))],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    summary: "Stores strings at several keys at once, with one condition and one expiry for all.",
    complexity: "O(N) where N is the number of keys",
    arguments: &[
        Arg::integer("numkeys"),
        Arg::block("data", &[Arg::key("key"), Arg::string("value")]).many(),
        CONDITION_NX_XX,
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
    ],
    ..Meta::new("msetex", -4, Group::String, "8.4.0")
};

/// `APPEND`.
pub const APPEND: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, INSERT))],
    summary: "Appends to the string stored at a key.",
    complexity: "O(N) where N is the length of the new string; O(1) amortized for short values",
    arguments: &[Arg::key("key"), Arg::string("value")],
    ..Meta::new("append", 3, Group::String, "2.0.0")
};

/// `STRLEN`.
pub const STRLEN: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns the length of the string stored at a key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("strlen", 2, Group::String, "2.2.0")
};

/// `GETRANGE`.
pub const GETRANGE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns a part of the string stored at a key.",
    complexity: "O(N) where N is the length of the reply",
    arguments: &[Arg::key("key"), Arg::integer("start"), Arg::integer("end")],
    ..Meta::new("getrange", 4, Group::String, "2.4.0")
};

/// `SUBSTR`.
pub const SUBSTR: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns a part of the string stored at a key.",
    complexity: "O(N) where N is the length of the reply",
    deprecated: Some(("2.0.0", "`GETRANGE`")),
    arguments: &[Arg::key("key"), Arg::integer("start"), Arg::integer("end")],
    ..Meta::new("substr", 4, Group::String, "1.0.0")
};

/// `SETRANGE`.
pub const SETRANGE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Overwrites a part of the string stored at a key, padding with zero bytes.",
    complexity: "O(M) where M is the length of the value; O(N) where the string has to grow to N bytes",
    arguments: &[Arg::key("key"), Arg::integer("offset"), Arg::string("value")],
    ..Meta::new("setrange", 4, Group::String, "2.2.0")
};

/// `INCR`.
pub const INCR: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Adds one to the integer stored at a key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("incr", 2, Group::String, "1.0.0")
};

/// `INCRBY`.
pub const INCRBY: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Adds to the integer stored at a key.",
    arguments: &[Arg::key("key"), Arg::integer("increment")],
    ..Meta::new("incrby", 3, Group::String, "1.0.0")
};

/// `INCRBYFLOAT`.
pub const INCRBYFLOAT: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Adds to the floating-point number stored at a key.",
    arguments: &[Arg::key("key"), Arg::double("increment")],
    ..Meta::new("incrbyfloat", 3, Group::String, "2.6.0")
};

/// `INCREX`.
pub const INCREX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Adds to the number stored at a key within bounds and sets the key's expiry.",
    arguments: &[
        Arg::key("key"),
        Arg::one_of(
            "increment",
            &[Arg::double("float").token("BYFLOAT"), Arg::integer("integer").token("BYINT")],
        )
        .opt(),
        Arg::word("saturate", "SATURATE").opt(),
        Arg::string("lowerbound").token("LBOUND").opt(),
        Arg::string("upperbound").token("UBOUND").opt(),
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
        Arg::word("enx", "ENX").opt(),
    ],
    ..Meta::new("increx", -2, Group::String, "8.8.0")
};

/// `DECR`.
pub const DECR: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Subtracts one from the integer stored at a key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("decr", 2, Group::String, "1.0.0")
};

/// `DECRBY`.
pub const DECRBY: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Subtracts from the integer stored at a key.",
    arguments: &[Arg::key("key"), Arg::integer("decrement")],
    ..Meta::new("decrby", 3, Group::String, "1.0.0")
};

/// `LCS`.
pub const LCS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::range(1, 1, 1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Finds the longest common subsequence of two strings.",
    complexity: "O(N*M) where N and M are the lengths of the two strings",
    arguments: &[
        Arg::key("key1"),
        Arg::key("key2"),
        Arg::word("len", "LEN").opt(),
        Arg::word("idx", "IDX").opt(),
        Arg::integer("min-match-len").token("MINMATCHLEN").opt(),
        Arg::word("withmatchlen", "WITHMATCHLEN").opt(),
    ],
    ..Meta::new("lcs", -3, Group::String, "7.0.0")
};

/// `DELEX`.
pub const DELEX: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE)).narrowed_by(delex_key_flags)],
    summary: "Deletes a key if its string, or the digest of it, compares as demanded.",
    complexity: "O(1) without a digest; O(N) with one, where N is the length of the string",
    arguments: &[
        Arg::key("key"),
        Arg::one_of(
            "condition",
            &[
                Arg::string("ifeq-value").token("IFEQ"),
                Arg::string("ifne-value").token("IFNE"),
                Arg::string("ifdeq-digest").token("IFDEQ"),
                Arg::string("ifdne-digest").token("IFDNE"),
            ],
        )
        .opt(),
    ],
    ..Meta::new("delex", -2, Group::String, "8.4.0")
};

/// `DELIFEQ`.
pub const DELIFEQ: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RM, ACCESS, DELETE))],
    summary: "Deletes a key if it holds the given string.",
    arguments: &[Arg::key("key"), Arg::string("value")],
    ..Meta::new("delifeq", 3, Group::String, "9.0.0")
};

/// `DIGEST`.
pub const DIGEST: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: STRING),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the digest of the string stored at a key, in hexadecimal.",
    complexity: "O(N) where N is the length of the string",
    arguments: &[Arg::key("key")],
    ..Meta::new("digest", 2, Group::String, "8.4.0")
};

/// Existing or not.
const CONDITION_NX_XX: Arg =
    Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).opt();
