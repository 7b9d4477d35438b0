//! Unions, intersections and differences of sorted sets.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `ZUNION`.
pub const ZUNION: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: SOURCES,
    summary: "Returns the union of several sorted sets.",
    complexity: UNION_COMPLEXITY,
    history: COUNT_ADDED,
    arguments: &[NUMKEYS, KEYS, WEIGHTS, AGGREGATE, WITHSCORES],
    ..Meta::new("zunion", -3, Group::SortedSet, "6.2.0")
};

/// `ZUNIONSTORE`.
pub const ZUNIONSTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: DESTINATION_AND_SOURCES,
    summary: "Stores the union of several sorted sets at a key.",
    complexity: UNION_COMPLEXITY,
    history: COUNT_ADDED,
    arguments: &[DESTINATION, NUMKEYS, KEYS.of_spec(1), WEIGHTS, AGGREGATE],
    ..Meta::new("zunionstore", -4, Group::SortedSet, "2.0.0")
};

/// `ZINTER`.
pub const ZINTER: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: SOURCES,
    summary: "Returns the intersection of several sorted sets.",
    complexity: INTERSECTION_COMPLEXITY,
    history: COUNT_ADDED,
    arguments: &[NUMKEYS, KEYS, WEIGHTS, AGGREGATE, WITHSCORES],
    ..Meta::new("zinter", -3, Group::SortedSet, "6.2.0")
};

/// `ZINTERSTORE`.
pub const ZINTERSTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: DESTINATION_AND_SOURCES,
    summary: "Stores the intersection of several sorted sets at a key.",
    complexity: INTERSECTION_COMPLEXITY,
    history: COUNT_ADDED,
    arguments: &[DESTINATION, NUMKEYS, KEYS.of_spec(1), WEIGHTS, AGGREGATE],
    ..Meta::new("zinterstore", -4, Group::SortedSet, "2.0.0")
};

/// `ZINTERCARD`.
pub const ZINTERCARD: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: SOURCES,
    summary: "Counts the members that several sorted sets have in common.",
    complexity: "O(N*K) at worst, where N is the number of members of the smallest sorted set and K the number of sorted sets",
    arguments: &[NUMKEYS, KEYS, Arg::integer("limit").token("LIMIT").opt()],
    ..Meta::new("zintercard", -3, Group::SortedSet, "7.0.0")
};

/// `ZDIFF`.
pub const ZDIFF: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: SOURCES,
    summary: "Returns the members of a sorted set that are in none of several others.",
    complexity: DIFFERENCE_COMPLEXITY,
    arguments: &[NUMKEYS, KEYS, WITHSCORES],
    ..Meta::new("zdiff", -3, Group::SortedSet, "6.2.0")
};

/// `ZDIFFSTORE`.
pub const ZDIFFSTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: DESTINATION_AND_SOURCES,
    summary: "Stores the members of a sorted set that are in none of several others at a key.",
    complexity: DIFFERENCE_COMPLEXITY,
    arguments: &[DESTINATION, NUMKEYS, KEYS.of_spec(1)],
    ..Meta::new("zdiffstore", -4, Group::SortedSet, "6.2.0")
};

const SOURCES: &[KeySpec] = &[KeySpec::counted(1, 1, bits!(KeyFlags: RO, ACCESS))];

const DESTINATION_AND_SOURCES: &[KeySpec] = &[
    KeySpec::at(1, bits!(KeyFlags: OW, UPDATE)),
    KeySpec::counted(2, 1, bits!(KeyFlags: RO, ACCESS)),
];

const UNION_COMPLEXITY: &str =
    "O(N)+O(M*log(M)) where N is the number of members of all sorted sets and M that of the result";

const INTERSECTION_COMPLEXITY: &str = "O(N*K)+O(M*log(M)) at worst, where N is the number of members of the smallest sorted set, K the number of sorted sets and M the number of members of the result";

const DIFFERENCE_COMPLEXITY: &str = "O(L + (N-K)log(N)) at worst, where L is the number of members of all sorted sets, N that of the first and K that of the result";

const COUNT_ADDED: &[(&str, &str)] = &[("8.8.0", "Aggregate `COUNT`.")];

const DESTINATION: Arg = Arg::key("destination");

const NUMKEYS: Arg = Arg::integer("numkeys");

const KEYS: Arg = Arg::key("key").many();

/// By what the scores of each source are multiplied.
const WEIGHTS: Arg = Arg::integer("weight").token("WEIGHTS").many().opt();

/// What becomes of a member's several scores.
const AGGREGATE: Arg = Arg::one_of(
    "aggregate",
    &[
        Arg::word("sum", "SUM"),
        Arg::word("min", "MIN"),
        Arg::word("max", "MAX"),
        Arg::word("count", "COUNT").since("8.8.0"),
    ],
)
.token("AGGREGATE")
.opt();

/// Scores beside the members.
const WITHSCORES: Arg = Arg::word("withscores", "WITHSCORES").opt();
