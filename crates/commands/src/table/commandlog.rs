//! `COMMANDLOG` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `COMMANDLOG`.
pub const COMMANDLOG: Meta = Meta {
    summary: "Reads and clears the logs of costly commands.",
    complexity: "Depends on subcommand.",
    ..Meta::new("commandlog", -2, Group::Server, "8.1.0")
};

/// `COMMANDLOG GET`.
pub const GET: Meta = Meta {
    flags: bits!(Flags: ADMIN, LOADING, STALE),
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    summary: "Returns the latest entries of a log.",
    complexity: "O(N) where N is the number of entries in the reply",
    arguments: &[Arg::integer("count"), LOG],
    ..Meta::new("get", 4, Group::Server, "8.1.0")
};

/// `COMMANDLOG LEN`.
pub const LEN: Meta = Meta {
    flags: bits!(Flags: ADMIN, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    summary: "Returns the number of entries in a log.",
    arguments: &[LOG],
    ..Meta::new("len", 3, Group::Server, "8.1.0")
};

/// `COMMANDLOG RESET`.
pub const RESET: Meta = Meta {
    flags: bits!(Flags: ADMIN, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Empties a log.",
    complexity: "O(N) where N is the number of entries",
    arguments: &[LOG],
    ..Meta::new("reset", 3, Group::Server, "8.1.0")
};

/// `COMMANDLOG HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "8.1.0")
};

/// Which log.
const LOG: Arg = Arg::one_of(
    "type",
    &[
        Arg::word("slow", "SLOW"),
        Arg::word("large-request", "LARGE-REQUEST"),
        Arg::word("large-reply", "LARGE-REPLY"),
    ],
);
