//! `SORT` and `SORT_RO`.

use crate::bitset::bits;
use crate::sort::destination;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `SORT`. In a transaction it takes the whole keyspace, for the keys that patterns may name.
pub const SORT: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, MOVABLEKEYS, TOUCHES_ARBITRARY_KEYS),
    stated_categories: bits!(Categories: SET, SORTEDSET, LIST, DANGEROUS),
    keys: &[
        KEY,
        PATTERNS,
        KeySpec::unknown(bits!(KeyFlags: OW, UPDATE))
            .notes("STORE, which may stand anywhere among the options")
            .located_by(destination),
    ],
    summary: "Sorts the elements of a list, a set or a sorted set; may store them at a key.",
    complexity: "O(N + M log M) where N is the number of elements and M of those returned; O(N) if nothing is sorted",
    arguments: &[
        Arg::key("key"),
        BY,
        LIMIT,
        GET,
        ORDER,
        ALPHA,
        Arg::key("destination").token("STORE").of_spec(2).opt(),
    ],
    ..Meta::new("sort", -2, Group::Generic, "1.0.0")
};

/// `SORT_RO`.
pub const SORT_RO: Meta = Meta {
    flags: bits!(Flags: READONLY, MOVABLEKEYS, TOUCHES_ARBITRARY_KEYS),
    stated_categories: bits!(Categories: SET, SORTEDSET, LIST, DANGEROUS),
    keys: &[KEY, PATTERNS],
    summary: "Sorts the elements of a list, a set or a sorted set.",
    complexity: "O(N + M log M) where N is the number of elements and M of those returned; O(N) if nothing is sorted",
    arguments: &[Arg::key("key"), BY, LIMIT, GET, ORDER, ALPHA],
    ..Meta::new("sort_ro", -2, Group::Generic, "7.0.0")
};

const KEY: KeySpec = KeySpec::at(1, bits!(KeyFlags: RO, ACCESS));
const PATTERNS: KeySpec = KeySpec::unknown(bits!(KeyFlags: RO, ACCESS))
    .notes("BY and GET, whose keys follow from the elements that are sorted");

const BY: Arg = Arg::pattern("by-pattern").shown("pattern").token("BY").of_spec(1).opt();
const LIMIT: Arg =
    Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").opt();
const GET: Arg =
    Arg::pattern("get-pattern").shown("pattern").token("GET").of_spec(1).opt().many_tokens();
const ORDER: Arg =
    Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).opt();
const ALPHA: Arg = Arg::word("sorting", "ALPHA").opt();
