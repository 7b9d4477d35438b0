//! Sets.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `SADD`.
pub const SADD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, INSERT))],
    summary: "Adds members to a set, which is made if it does not exist.",
    complexity: "O(N) where N is the number of members",
    history: &[("2.4.0", "Several members.")],
    arguments: &[Arg::key("key"), Arg::string("member").many()],
    ..Meta::new("sadd", -3, Group::Set, "1.0.0")
};

/// `SREM`.
pub const SREM: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes members from a set, and the set with its last member.",
    complexity: "O(N) where N is the number of members",
    history: &[("2.4.0", "Several members.")],
    arguments: &[Arg::key("key"), Arg::string("member").many()],
    ..Meta::new("srem", -3, Group::Set, "1.0.0")
};

/// `SMEMBERS`.
pub const SMEMBERS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output_order"],
    summary: "Returns every member of a set.",
    complexity: "O(N) where N is the size of the set",
    arguments: &[Arg::key("key")],
    ..Meta::new("smembers", 2, Group::Set, "1.0.0")
};

/// `SISMEMBER`.
pub const SISMEMBER: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Tells whether a set has a member.",
    arguments: &[Arg::key("key"), Arg::string("member")],
    ..Meta::new("sismember", 3, Group::Set, "1.0.0")
};

/// `SMISMEMBER`.
pub const SMISMEMBER: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Tells of several members whether a set has them.",
    complexity: "O(N) where N is the number of members",
    arguments: &[Arg::key("key"), Arg::string("member").many()],
    ..Meta::new("smismember", -3, Group::Set, "6.2.0")
};

/// `SCARD`.
pub const SCARD: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns how many members a set has.",
    arguments: &[Arg::key("key")],
    ..Meta::new("scard", 2, Group::Set, "1.0.0")
};

/// `SPOP`.
pub const SPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    tips: &["nondeterministic_output"],
    summary: "Removes members drawn at random from a set and returns them.",
    complexity: "O(1); O(N) where N is the count",
    history: &[("3.2.0", "Argument `count`.")],
    arguments: &[Arg::key("key"), Arg::integer("count").since("3.2.0").opt()],
    ..Meta::new("spop", -2, Group::Set, "1.0.0")
};

/// `SRANDMEMBER`.
pub const SRANDMEMBER: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns members drawn at random from a set.",
    complexity: "O(1); O(N) where N is the magnitude of the count",
    history: &[("2.6.0", "Argument `count`.")],
    arguments: &[Arg::key("key"), Arg::integer("count").since("2.6.0").opt()],
    ..Meta::new("srandmember", -2, Group::Set, "1.0.0")
};

/// `SMOVE`.
pub const SMOVE: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: SET),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE)),
        KeySpec::at(2, bits!(KeyFlags: RW, INSERT)),
    ],
    summary: "Moves a member from one set to another.",
    arguments: &[Arg::key("source"), Arg::key("destination").of_spec(1), Arg::string("member")],
    ..Meta::new("smove", 4, Group::Set, "1.0.0")
};

/// `SINTER`.
pub const SINTER: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output_order"],
    summary: "Returns the members that all the given sets share.",
    complexity: "O(N*M) at worst, where N is the size of the smallest of M sets",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("sinter", -2, Group::Set, "1.0.0")
};

/// `SINTERSTORE`.
pub const SINTERSTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: SET),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: OW, UPDATE)),
        KeySpec::range(2, -1, 1, bits!(KeyFlags: RO, ACCESS)),
    ],
    summary: "Stores the members that all the given sets share at a key.",
    complexity: "O(N*M) at worst, where N is the size of the smallest of M sets",
    arguments: &[Arg::key("destination"), Arg::key("key").of_spec(1).many()],
    ..Meta::new("sinterstore", -3, Group::Set, "1.0.0")
};

/// `SINTERCARD`.
pub const SINTERCARD: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::counted(1, 1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Counts the members that all the given sets share.",
    complexity: "O(N*M) at worst, where N is the size of the smallest of M sets",
    arguments: &[
        Arg::integer("numkeys"),
        Arg::key("key").many(),
        Arg::integer("limit").token("LIMIT").opt(),
    ],
    ..Meta::new("sintercard", -3, Group::Set, "7.0.0")
};

/// `SUNION`.
pub const SUNION: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output_order"],
    summary: "Returns the members that any of the given sets has.",
    complexity: "O(N) where N is the size of all sets together",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("sunion", -2, Group::Set, "1.0.0")
};

/// `SUNIONSTORE`.
pub const SUNIONSTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: SET),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: OW, UPDATE)),
        KeySpec::range(2, -1, 1, bits!(KeyFlags: RO, ACCESS)),
    ],
    summary: "Stores the members that any of the given sets has at a key.",
    complexity: "O(N) where N is the size of all sets together",
    arguments: &[Arg::key("destination"), Arg::key("key").of_spec(1).many()],
    ..Meta::new("sunionstore", -3, Group::Set, "1.0.0")
};

/// `SUNIONCARD`.
pub const SUNIONCARD: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::counted(1, 1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Counts the members that any of the given sets has.",
    complexity: "O(N) where N is the size of all sets together",
    arguments: &[
        Arg::integer("numkeys"),
        Arg::key("key").many(),
        Arg::word("approx", "APPROX").opt(),
        Arg::integer("limit").token("LIMIT").opt(),
    ],
    ..Meta::new("sunioncard", -3, Group::Set, "8.10.0")
};

/// `SDIFF`.
pub const SDIFF: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output_order"],
    summary: "Returns the members of the first set that no other given set has.",
    complexity: "O(N) where N is the size of all sets together",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("sdiff", -2, Group::Set, "1.0.0")
};

/// `SDIFFSTORE`.
pub const SDIFFSTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: SET),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: OW, UPDATE)),
        KeySpec::range(2, -1, 1, bits!(KeyFlags: RO, ACCESS)),
    ],
    summary: "Stores the members of the first set that no other given set has at a key.",
    complexity: "O(N) where N is the size of all sets together",
    arguments: &[Arg::key("destination"), Arg::key("key").of_spec(1).many()],
    ..Meta::new("sdiffstore", -3, Group::Set, "1.0.0")
};

/// `SDIFFCARD`.
pub const SDIFFCARD: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::counted(1, 1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Counts the members of the first set that no other given set has.",
    complexity: "O(N) where N is the size of all sets together",
    arguments: &[
        Arg::integer("numkeys"),
        Arg::key("key").many(),
        Arg::integer("limit").token("LIMIT").opt(),
    ],
    ..Meta::new("sdiffcard", -3, Group::Set, "8.10.0")
};

/// `SSCAN`.
pub const SSCAN: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Walks the members of a set, a few per call.",
    complexity: "O(1) per call, O(N) for a whole walk, where N is the size of the set",
    arguments: &[
        Arg::key("key"),
        Arg::integer("cursor"),
        Arg::pattern("pattern").token("MATCH").opt(),
        Arg::integer("count").token("COUNT").opt(),
    ],
    ..Meta::new("sscan", -3, Group::Set, "2.8.0")
};
