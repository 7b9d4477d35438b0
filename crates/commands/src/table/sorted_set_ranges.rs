//! Ranges of sorted sets: by rank, by score and by member.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `ZRANGE`.
pub const ZRANGE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns a range of a sorted set.",
    complexity: RANGE_COMPLEXITY,
    history: &[("6.2.0", "Options `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")],
    arguments: &[
        Arg::key("key"),
        Arg::string("start"),
        Arg::string("stop"),
        SORT_BY.since("6.2.0"),
        Arg::word("rev", "REV").since("6.2.0").opt(),
        LIMIT.since("6.2.0"),
        WITHSCORES,
    ],
    ..Meta::new("zrange", -4, Group::SortedSet, "1.2.0")
};

/// `ZRANGESTORE`.
pub const ZRANGESTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: OW, UPDATE)),
        KeySpec::at(2, bits!(KeyFlags: RO, ACCESS)),
    ],
    summary: "Stores a range of a sorted set at a key.",
    complexity: "O(log(N)+M) where N is the number of members of the sorted set and M the number stored",
    arguments: &[
        Arg::key("dst"),
        Arg::key("src").of_spec(1),
        Arg::string("min"),
        Arg::string("max"),
        SORT_BY,
        Arg::word("rev", "REV").opt(),
        LIMIT,
    ],
    ..Meta::new("zrangestore", -5, Group::SortedSet, "6.2.0")
};

/// `ZREVRANGE`.
pub const ZREVRANGE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns a range of a sorted set by rank, from the highest score down.",
    complexity: RANGE_COMPLEXITY,
    deprecated: Some(("6.2.0", "`ZRANGE` with `REV`")),
    arguments: &[Arg::key("key"), Arg::integer("start"), Arg::integer("stop"), WITHSCORES],
    ..Meta::new("zrevrange", -4, Group::SortedSet, "1.2.0")
};

/// `ZRANGEBYSCORE`.
pub const ZRANGEBYSCORE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the members of a sorted set with scores within bounds.",
    complexity: RANGE_COMPLEXITY,
    history: &[("2.0.0", "Option `WITHSCORES`.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with `BYSCORE`")),
    arguments: &[
        Arg::key("key"),
        Arg::double("min"),
        Arg::double("max"),
        WITHSCORES.since("2.0.0"),
        LIMIT,
    ],
    ..Meta::new("zrangebyscore", -4, Group::SortedSet, "1.0.5")
};

/// `ZREVRANGEBYSCORE`.
pub const ZREVRANGEBYSCORE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the members of a sorted set with scores within bounds, from the highest score down.",
    complexity: RANGE_COMPLEXITY,
    history: &[("2.1.6", "Bounds may be exclusive.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with `REV` and `BYSCORE`")),
    arguments: &[Arg::key("key"), Arg::double("max"), Arg::double("min"), WITHSCORES, LIMIT],
    ..Meta::new("zrevrangebyscore", -4, Group::SortedSet, "2.2.0")
};

/// `ZRANGEBYLEX`.
pub const ZRANGEBYLEX: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the members of a sorted set of equal scores that lie within bounds.",
    complexity: RANGE_COMPLEXITY,
    deprecated: Some(("6.2.0", "`ZRANGE` with `BYLEX`")),
    arguments: &[Arg::key("key"), Arg::string("min"), Arg::string("max"), LIMIT],
    ..Meta::new("zrangebylex", -4, Group::SortedSet, "2.8.9")
};

/// `ZREVRANGEBYLEX`.
pub const ZREVRANGEBYLEX: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the members of a sorted set of equal scores that lie within bounds, in descending order.",
    complexity: RANGE_COMPLEXITY,
    deprecated: Some(("6.2.0", "`ZRANGE` with `REV` and `BYLEX`")),
    arguments: &[Arg::key("key"), Arg::string("max"), Arg::string("min"), LIMIT],
    ..Meta::new("zrevrangebylex", -4, Group::SortedSet, "2.8.9")
};

/// `ZCOUNT`.
pub const ZCOUNT: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Counts the members of a sorted set with scores within bounds.",
    complexity: COUNT_COMPLEXITY,
    arguments: &[Arg::key("key"), Arg::double("min"), Arg::double("max")],
    ..Meta::new("zcount", 4, Group::SortedSet, "2.0.0")
};

/// `ZLEXCOUNT`.
pub const ZLEXCOUNT: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Counts the members of a sorted set of equal scores that lie within bounds.",
    complexity: COUNT_COMPLEXITY,
    arguments: &[Arg::key("key"), Arg::string("min"), Arg::string("max")],
    ..Meta::new("zlexcount", 4, Group::SortedSet, "2.8.9")
};

/// `ZREMRANGEBYRANK`.
pub const ZREMRANGEBYRANK: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes the members of a sorted set within a range of ranks.",
    complexity: REMOVE_COMPLEXITY,
    arguments: &[Arg::key("key"), Arg::integer("start"), Arg::integer("stop")],
    ..Meta::new("zremrangebyrank", 4, Group::SortedSet, "2.0.0")
};

/// `ZREMRANGEBYSCORE`.
pub const ZREMRANGEBYSCORE: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes the members of a sorted set with scores within bounds.",
    complexity: REMOVE_COMPLEXITY,
    arguments: &[Arg::key("key"), Arg::double("min"), Arg::double("max")],
    ..Meta::new("zremrangebyscore", 4, Group::SortedSet, "1.2.0")
};

/// `ZREMRANGEBYLEX`.
pub const ZREMRANGEBYLEX: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes the members of a sorted set of equal scores that lie within bounds.",
    complexity: REMOVE_COMPLEXITY,
    arguments: &[Arg::key("key"), Arg::string("min"), Arg::string("max")],
    ..Meta::new("zremrangebylex", 4, Group::SortedSet, "2.8.9")
};

const RANGE_COMPLEXITY: &str =
    "O(log(N)+M) where N is the number of members of the sorted set and M the number returned";

const COUNT_COMPLEXITY: &str = "O(log(N)) where N is the number of members of the sorted set";

const REMOVE_COMPLEXITY: &str =
    "O(log(N)+M) where N is the number of members of the sorted set and M the number removed";

/// What the bounds of a range are, other than ranks.
const SORT_BY: Arg =
    Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")]).opt();

/// Which part of a range is wanted.
const LIMIT: Arg =
    Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").opt();

/// Scores beside the members.
const WITHSCORES: Arg = Arg::word("withscores", "WITHSCORES").opt();
