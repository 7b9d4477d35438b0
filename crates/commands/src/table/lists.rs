//! Lists.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeyFlags, KeySpec, Meta};

/// `LPUSH`.
pub const LPUSH: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, INSERTING)],
    summary: "Puts elements in front of a list, creating it if need be.",
    complexity: "O(N) where N is the number of elements",
    history: &[("2.4.0", "Takes several elements.")],
    arguments: &[Arg::key("key"), Arg::string("element").many()],
    ..Meta::new("lpush", -3, Group::List, "1.0.0")
};

/// `RPUSH`.
pub const RPUSH: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, INSERTING)],
    summary: "Puts elements at the end of a list, creating it if need be.",
    complexity: "O(N) where N is the number of elements",
    history: &[("2.4.0", "Takes several elements.")],
    arguments: &[Arg::key("key"), Arg::string("element").many()],
    ..Meta::new("rpush", -3, Group::List, "1.0.0")
};

/// `LPUSHX`.
pub const LPUSHX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, INSERTING)],
    summary: "Puts elements in front of a list that exists.",
    complexity: "O(N) where N is the number of elements",
    history: &[("4.0.0", "Takes several elements.")],
    arguments: &[Arg::key("key"), Arg::string("element").many()],
    ..Meta::new("lpushx", -3, Group::List, "2.2.0")
};

/// `RPUSHX`.
pub const RPUSHX: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, INSERTING)],
    summary: "Puts elements at the end of a list that exists.",
    complexity: "O(N) where N is the number of elements",
    history: &[("4.0.0", "Takes several elements.")],
    arguments: &[Arg::key("key"), Arg::string("element").many()],
    ..Meta::new("rpushx", -3, Group::List, "2.2.0")
};

/// `LPOP`.
pub const LPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, TAKING)],
    summary: "Takes elements from the front of a list.",
    complexity: "O(N) where N is the number of elements taken",
    history: &[("6.2.0", "Argument `count`.")],
    arguments: &[Arg::key("key"), Arg::integer("count").since("6.2.0").opt()],
    ..Meta::new("lpop", -2, Group::List, "1.0.0")
};

/// `RPOP`.
pub const RPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, TAKING)],
    summary: "Takes elements from the end of a list.",
    complexity: "O(N) where N is the number of elements taken",
    history: &[("6.2.0", "Argument `count`.")],
    arguments: &[Arg::key("key"), Arg::integer("count").since("6.2.0").opt()],
    ..Meta::new("rpop", -2, Group::List, "1.0.0")
};

/// `LLEN`.
pub const LLEN: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns how many elements a list has.",
    arguments: &[Arg::key("key")],
    ..Meta::new("llen", 2, Group::List, "1.0.0")
};

/// `LRANGE`.
pub const LRANGE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns a run of a list's elements.",
    complexity: "O(S+N) where S is the distance from the nearer end in chunks and N the number of elements returned",
    arguments: &[Arg::key("key"), Arg::integer("start"), Arg::integer("stop")],
    ..Meta::new("lrange", 4, Group::List, "1.0.0")
};

/// `LINDEX`.
pub const LINDEX: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the element at a place of a list.",
    complexity: "O(S) where S is the distance from the nearer end in chunks",
    arguments: &[Arg::key("key"), Arg::integer("index")],
    ..Meta::new("lindex", 3, Group::List, "1.0.0")
};

/// `LSET`.
pub const LSET: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Replaces the element at a place of a list.",
    complexity: "O(S) where S is the distance from the nearer end in chunks",
    arguments: &[Arg::key("key"), Arg::integer("index"), Arg::string("element")],
    ..Meta::new("lset", 4, Group::List, "1.0.0")
};

/// `LINSERT`.
pub const LINSERT: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, INSERTING)],
    summary: "Puts an element beside the first one that equals a pivot.",
    complexity: "O(N) where N is the number of elements before the pivot",
    arguments: &[
        Arg::key("key"),
        Arg::one_of("where", &[Arg::word("before", "BEFORE"), Arg::word("after", "AFTER")]),
        Arg::string("pivot"),
        Arg::string("element"),
    ],
    ..Meta::new("linsert", 5, Group::List, "2.2.0")
};

/// `LREM`.
pub const LREM: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes elements that equal a given one.",
    complexity: "O(N) where N is the length of the list",
    arguments: &[Arg::key("key"), Arg::integer("count"), Arg::string("element")],
    ..Meta::new("lrem", 4, Group::List, "1.0.0")
};

/// `LTRIM`.
pub const LTRIM: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes all of a list but a run of its elements.",
    complexity: "O(N) where N is the number of elements removed",
    arguments: &[Arg::key("key"), Arg::integer("start"), Arg::integer("stop")],
    ..Meta::new("ltrim", 4, Group::List, "1.0.0")
};

/// `LPOS`.
pub const LPOS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Tells at which places of a list an element is.",
    complexity: "O(N) where N is the number of elements compared",
    arguments: &[
        Arg::key("key"),
        Arg::string("element"),
        Arg::integer("rank").token("RANK").opt(),
        Arg::integer("num-matches").token("COUNT").opt(),
        Arg::integer("len").token("MAXLEN").opt(),
    ],
    ..Meta::new("lpos", -3, Group::List, "6.0.6")
};

/// `LMOVE`.
pub const LMOVE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: LIST),
    keys: MOVING,
    summary: "Moves an element from an end of one list to an end of another, and returns it.",
    arguments: &[SOURCE, DESTINATION, WHERE_FROM, WHERE_TO],
    ..Meta::new("lmove", 5, Group::List, "6.2.0")
};

/// `LMOVEM`.
pub const LMOVEM: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: LIST),
    keys: MOVING,
    summary: "Moves elements from an end of one list to an end of another, and returns them.",
    complexity: "O(N) where N is the number of elements moved",
    arguments: &[SOURCE, DESTINATION, WHERE_FROM, WHERE_TO, HOW_MANY],
    ..Meta::new("lmovem", -5, Group::List, "8.10.0")
};

/// `RPOPLPUSH`.
pub const RPOPLPUSH: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: LIST),
    keys: MOVING,
    summary: "Moves the last element of one list to the front of another, and returns it.",
    deprecated: Some(("6.2.0", "`LMOVE` with `RIGHT` and `LEFT`")),
    arguments: &[SOURCE, DESTINATION],
    ..Meta::new("rpoplpush", 3, Group::List, "1.2.0")
};

/// `LMPOP`.
pub const LMPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, MOVABLEKEYS),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::counted(1, 1, TAKING)],
    summary: "Takes elements from an end of the first list that exists.",
    complexity: "O(N+M) where N is the number of keys and M the number of elements taken",
    arguments: &[Arg::integer("numkeys"), Arg::key("key").many(), WHERE, COUNT],
    ..Meta::new("lmpop", -4, Group::List, "7.0.0")
};

/// `BLPOP`.
pub const BLPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, BLOCKING),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::range(1, -2, 1, TAKING)],
    summary: "Takes the first element of the first list that exists, and waits for one if none does.",
    complexity: "O(N) where N is the number of keys",
    history: FRACTIONAL_TIMEOUT,
    arguments: &[Arg::key("key").many(), Arg::double("timeout")],
    ..Meta::new("blpop", -3, Group::List, "2.0.0")
};

/// `BRPOP`.
pub const BRPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, BLOCKING),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::range(1, -2, 1, TAKING)],
    summary: "Takes the last element of the first list that exists, and waits for one if none does.",
    complexity: "O(N) where N is the number of keys",
    history: FRACTIONAL_TIMEOUT,
    arguments: &[Arg::key("key").many(), Arg::double("timeout")],
    ..Meta::new("brpop", -3, Group::List, "2.0.0")
};

/// `BLMOVE`.
pub const BLMOVE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, BLOCKING),
    stated_categories: bits!(Categories: LIST),
    keys: MOVING,
    summary: "Moves an element from an end of one list to an end of another, and waits for one if there is none.",
    arguments: &[SOURCE, DESTINATION, WHERE_FROM, WHERE_TO, Arg::double("timeout")],
    ..Meta::new("blmove", 6, Group::List, "6.2.0")
};

/// `BLMOVEM`.
pub const BLMOVEM: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, BLOCKING),
    stated_categories: bits!(Categories: LIST),
    keys: MOVING,
    summary: "Moves elements from an end of one list to an end of another, and waits while there are too few.",
    complexity: "O(N) where N is the number of elements moved",
    arguments: &[SOURCE, DESTINATION, WHERE_FROM, WHERE_TO, Arg::double("timeout"), HOW_MANY],
    ..Meta::new("blmovem", -6, Group::List, "8.10.0")
};

/// `BRPOPLPUSH`.
pub const BRPOPLPUSH: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, BLOCKING),
    stated_categories: bits!(Categories: LIST),
    keys: MOVING,
    summary: "Moves the last element of one list to the front of another, and waits for one if there is none.",
    history: FRACTIONAL_TIMEOUT,
    deprecated: Some(("6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`")),
    arguments: &[SOURCE, DESTINATION, Arg::double("timeout")],
    ..Meta::new("brpoplpush", 4, Group::List, "2.2.0")
};

/// `BLMPOP`.
pub const BLMPOP: Meta = Meta {
    flags: bits!(Flags: WRITE, BLOCKING, MOVABLEKEYS),
    stated_categories: bits!(Categories: LIST),
    keys: &[KeySpec::counted(2, 1, TAKING)],
    summary: "Takes elements from an end of the first list that exists, and waits for one if none does.",
    complexity: "O(N+M) where N is the number of keys and M the number of elements taken",
    arguments: &[
        Arg::double("timeout"),
        Arg::integer("numkeys"),
        Arg::key("key").many(),
        WHERE,
        COUNT,
    ],
    ..Meta::new("blmpop", -5, Group::List, "7.0.0")
};

const INSERTING: KeyFlags = bits!(KeyFlags: RW, INSERT);
const TAKING: KeyFlags = bits!(KeyFlags: RW, ACCESS, DELETE);

/// The keys of what moves from one list to another.
const MOVING: &[KeySpec] = &[KeySpec::at(1, TAKING), KeySpec::at(2, INSERTING)];

const SOURCE: Arg = Arg::key("source");
const DESTINATION: Arg = Arg::key("destination").of_spec(1);
const ENDS: &[Arg] = &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")];
const WHERE: Arg = Arg::one_of("where", ENDS);
const WHERE_FROM: Arg = Arg::one_of("wherefrom", ENDS);
const WHERE_TO: Arg = Arg::one_of("whereto", ENDS);
const COUNT: Arg = Arg::integer("count").token("COUNT").opt();

/// How many elements move, and in which order they arrive.
const HOW_MANY: Arg = Arg::block(
    "how-many",
    &[
        Arg::one_of(
            "selector",
            &[Arg::integer("count").token("COUNT"), Arg::integer("exactly").token("EXACTLY")],
        ),
        Arg::one_of("ordering", &[Arg::word("obo", "OBO"), Arg::word("bulk", "BULK")]),
    ],
)
.opt();

const FRACTIONAL_TIMEOUT: &[(&str, &str)] = &[("6.0.0", "The timeout may have a fractional part.")];
