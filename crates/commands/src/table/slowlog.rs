//! `SLOWLOG` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `SLOWLOG`.
pub const SLOWLOG: Meta = Meta {
    summary: "Reads and clears the log of slow commands.",
    complexity: "Depends on subcommand.",
    ..Meta::new("slowlog", -2, Group::Server, "2.2.12")
};

/// `SLOWLOG GET`.
pub const GET: Meta = Meta {
    flags: bits!(Flags: ADMIN, LOADING, STALE),
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    summary: "Returns the latest entries of the slow log.",
    complexity: "O(N) where N is the number of entries in the reply",
    history: &[("4.0.0", "Address and name of the client in the reply.")],
    arguments: &[Arg::integer("count").opt()],
    ..Meta::new("get", -2, Group::Server, "2.2.12")
};

/// `SLOWLOG LEN`.
pub const LEN: Meta = Meta {
    flags: bits!(Flags: ADMIN, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    summary: "Returns the number of entries in the slow log.",
    ..Meta::new("len", 2, Group::Server, "2.2.12")
};

/// `SLOWLOG RESET`.
pub const RESET: Meta = Meta {
    flags: bits!(Flags: ADMIN, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Empties the slow log.",
    complexity: "O(N) where N is the number of entries",
    ..Meta::new("reset", 2, Group::Server, "2.2.12")
};

/// `SLOWLOG HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "6.2.0")
};
