//! `LATENCY` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `LATENCY`.
pub const LATENCY: Meta = Meta {
    summary: "Reports on latency.",
    complexity: "Depends on subcommand.",
    ..Meta::new("latency", -2, Group::Server, "2.8.13")
};

/// `LATENCY DOCTOR`.
pub const DOCTOR: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    summary: "Reports on problems with latency.",
    ..Meta::new("doctor", 2, Group::Server, "2.8.13")
};

/// `LATENCY GRAPH`.
pub const GRAPH: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    summary: "Draws the recent latency of an event.",
    arguments: &[Arg::string("event")],
    ..Meta::new("graph", 3, Group::Server, "2.8.13")
};

/// `LATENCY HISTOGRAM`.
pub const HISTOGRAM: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    summary: "Returns the distribution of the latency of commands.",
    complexity: "O(N) where N is the number of commands in the reply",
    arguments: &[Arg::string("command").opt().many()],
    ..Meta::new("histogram", -2, Group::Server, "7.0.0")
};

/// `LATENCY HISTORY`.
pub const HISTORY: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    summary: "Returns the recent latency spikes of an event.",
    arguments: &[Arg::string("event")],
    ..Meta::new("history", 3, Group::Server, "2.8.13")
};

/// `LATENCY LATEST`.
pub const LATEST: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    summary: "Returns the latest latency spike of each event.",
    ..Meta::new("latest", 2, Group::Server, "2.8.13")
};

/// `LATENCY RESET`.
pub const RESET: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
    summary: "Forgets the latency spikes of events.",
    arguments: &[Arg::string("event").opt().many()],
    ..Meta::new("reset", -2, Group::Server, "2.8.13")
};

/// `LATENCY HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "2.8.13")
};
