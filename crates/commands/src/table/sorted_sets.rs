//! Sorted sets: single members, popping, drawing and walking. Ranges: `sorted_set_ranges.rs`; combining several
//! sets: `sorted_set_algebra.rs`.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `ZADD`.
pub const ZADD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Adds members to a sorted set, or changes their scores.",
    complexity: "O(log(N)) for each member, where N is the number of members of the sorted set",
    history: &[
        ("2.4.0", "Several members."),
        ("3.0.2", "Options `XX`, `NX`, `CH` and `INCR`."),
        ("6.2.0", "Options `GT` and `LT`."),
    ],
    arguments: &[
        Arg::key("key"),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
            .since("3.0.2")
            .opt(),
        Arg::one_of("comparison", &[Arg::word("gt", "GT"), Arg::word("lt", "LT")])
            .since("6.2.0")
            .opt(),
        Arg::word("change", "CH").since("3.0.2").opt(),
        Arg::word("increment", "INCR").since("3.0.2").opt(),
        Arg::block("data", &[Arg::double("score"), Arg::string("member")]).many(),
    ],
    ..Meta::new("zadd", -4, Group::SortedSet, "1.2.0")
};

/// `ZINCRBY`.
pub const ZINCRBY: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Adds to the score of a member of a sorted set.",
    complexity: "O(log(N)) where N is the number of members of the sorted set",
    arguments: &[Arg::key("key"), Arg::integer("increment"), Arg::string("member")],
    ..Meta::new("zincrby", 4, Group::SortedSet, "1.2.0")
};

/// `ZREM`.
pub const ZREM: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes members from a sorted set.",
    complexity: "O(M*log(N)) where N is the number of members of the sorted set and M the number removed",
    history: &[("2.4.0", "Several members.")],
    arguments: &[Arg::key("key"), Arg::string("member").many()],
    ..Meta::new("zrem", -3, Group::SortedSet, "1.2.0")
};

/// `ZCARD`.
pub const ZCARD: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns the number of members of a sorted set.",
    arguments: &[Arg::key("key")],
    ..Meta::new("zcard", 2, Group::SortedSet, "1.2.0")
};

/// `ZSCORE`.
pub const ZSCORE: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the score of a member of a sorted set.",
    arguments: &[Arg::key("key"), Arg::string("member")],
    ..Meta::new("zscore", 3, Group::SortedSet, "1.2.0")
};

/// `ZMSCORE`.
pub const ZMSCORE: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the scores of several members of a sorted set.",
    complexity: "O(N) where N is the number of members asked for",
    arguments: &[Arg::key("key"), Arg::string("member").many()],
    ..Meta::new("zmscore", -3, Group::SortedSet, "6.2.0")
};

/// `ZRANK`.
pub const ZRANK: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns how many members of a sorted set come before a member.",
    complexity: "O(log(N)) where N is the number of members of the sorted set",
    history: &[("7.2.0", "Option `WITHSCORE`.")],
    arguments: &[Arg::key("key"), Arg::string("member"), WITHSCORE],
    ..Meta::new("zrank", -3, Group::SortedSet, "2.0.0")
};

/// `ZREVRANK`.
pub const ZREVRANK: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns how many members of a sorted set come after a member.",
    complexity: "O(log(N)) where N is the number of members of the sorted set",
    history: &[("7.2.0", "Option `WITHSCORE`.")],
    arguments: &[Arg::key("key"), Arg::string("member"), WITHSCORE],
    ..Meta::new("zrevrank", -3, Group::SortedSet, "2.0.0")
};

/// `ZPOPMIN`.
pub const ZPOPMIN: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Removes and returns the members of a sorted set with the lowest scores.",
    complexity: "O(M*log(N)) where N is the number of members of the sorted set and M the number removed",
    arguments: &[Arg::key("key"), Arg::integer("count").opt()],
    ..Meta::new("zpopmin", -2, Group::SortedSet, "5.0.0")
};

/// `ZPOPMAX`.
pub const ZPOPMAX: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Removes and returns the members of a sorted set with the highest scores.",
    complexity: "O(M*log(N)) where N is the number of members of the sorted set and M the number removed",
    arguments: &[Arg::key("key"), Arg::integer("count").opt()],
    ..Meta::new("zpopmax", -2, Group::SortedSet, "5.0.0")
};

/// `ZMPOP`.
pub const ZMPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::counted(1, 1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Removes and returns members from the ends of the first sorted set that has any.",
    complexity: "O(K) + O(M*log(N)) where K is the number of keys, N the number of members of the sorted set and M the number removed",
    arguments: &[Arg::integer("numkeys"), Arg::key("key").many(), WHERE, COUNT],
    ..Meta::new("zmpop", -4, Group::SortedSet, "7.0.0")
};

/// `BZPOPMIN`.
pub const BZPOPMIN: Meta = Meta {
    flags: bits!(Flags: WRITE, BLOCKING, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::range(1, -2, 1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Removes and returns the member with the lowest score of the first sorted set that has any; waits for one if none has.",
    complexity: "O(log(N)) where N is the number of members of the sorted set",
    history: &[("6.0.0", "A timeout may have decimals.")],
    arguments: &[Arg::key("key").many(), Arg::double("timeout")],
    ..Meta::new("bzpopmin", -3, Group::SortedSet, "5.0.0")
};

/// `BZPOPMAX`.
pub const BZPOPMAX: Meta = Meta {
    flags: bits!(Flags: WRITE, BLOCKING, FAST),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::range(1, -2, 1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Removes and returns the member with the highest score of the first sorted set that has any; waits for one if none has.",
    complexity: "O(log(N)) where N is the number of members of the sorted set",
    history: &[("6.0.0", "A timeout may have decimals.")],
    arguments: &[Arg::key("key").many(), Arg::double("timeout")],
    ..Meta::new("bzpopmax", -3, Group::SortedSet, "5.0.0")
};

/// `BZMPOP`.
pub const BZMPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, BLOCKING, MOVABLEKEYS),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::counted(2, 1, bits!(KeyFlags: RW, ACCESS, DELETE))],
    summary: "Removes and returns members from the ends of the first sorted set that has any; waits for one if none has.",
    complexity: "O(K) + O(M*log(N)) where K is the number of keys, N the number of members of the sorted set and M the number removed",
    arguments: &[
        Arg::double("timeout"),
        Arg::integer("numkeys"),
        Arg::key("key").many(),
        WHERE,
        COUNT,
    ],
    ..Meta::new("bzmpop", -5, Group::SortedSet, "7.0.0")
};

/// `ZRANDMEMBER`.
pub const ZRANDMEMBER: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns members of a sorted set drawn at random.",
    complexity: "O(N) where N is the number of members returned",
    arguments: &[
        Arg::key("key"),
        Arg::block(
            "options",
            &[Arg::integer("count"), Arg::word("withscores", "WITHSCORES").opt()],
        )
        .opt(),
    ],
    ..Meta::new("zrandmember", -2, Group::SortedSet, "6.2.0")
};

/// `ZSCAN`.
pub const ZSCAN: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: SORTEDSET),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Walks the members of a sorted set and their scores, a part at a time.",
    complexity: "O(1) for each call; O(N) for a complete walk over N members",
    history: &[("8.0.0", "Option `NOSCORES`.")],
    arguments: &[
        Arg::key("key"),
        Arg::integer("cursor"),
        Arg::pattern("pattern").token("MATCH").opt(),
        Arg::integer("count").token("COUNT").opt(),
        Arg::word("noscores", "NOSCORES").opt(),
    ],
    ..Meta::new("zscan", -3, Group::SortedSet, "2.8.0")
};

/// The score beside the rank.
const WITHSCORE: Arg = Arg::word("withscore", "WITHSCORE").since("7.2.0").opt();

/// From which end members are removed.
const WHERE: Arg = Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]);

/// How many members are removed.
const COUNT: Arg = Arg::integer("count").token("COUNT").opt();
