//! `HOTKEYS` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `HOTKEYS`.
pub const HOTKEYS: Meta = Meta {
    summary: "Finds the keys that cost most.",
    complexity: "Depends on subcommand.",
    ..Meta::new("hotkeys", -2, Group::Server, "8.6.0")
};

/// `HOTKEYS START`.
pub const START: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT),
    tips: &["request_policy:special"],
    summary: "Begins to collect what keys cost.",
    arguments: &[
        Arg::block(
            "metrics",
            &[Arg::integer("count"), Arg::word("cpu", "CPU").opt(), Arg::word("net", "NET").opt()],
        )
        .token("METRICS"),
        Arg::integer("k").token("COUNT").opt(),
        Arg::integer("seconds").token("DURATION").opt(),
        Arg::integer("ratio").token("SAMPLE").opt(),
        Arg::block("slots", &[Arg::integer("count"), Arg::integer("slot").many()])
            .token("SLOTS")
            .opt(),
    ],
    ..Meta::new("start", -2, Group::Server, "8.6.0")
};

/// `HOTKEYS STOP`.
pub const STOP: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT),
    tips: &["request_policy:special"],
    summary: "Ends the collection, and keeps what was collected.",
    ..Meta::new("stop", 2, Group::Server, "8.6.0")
};

/// `HOTKEYS GET`.
pub const GET: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT),
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    summary: "Returns the keys that cost most.",
    complexity: "O(K) where K is the number of keys returned",
    ..Meta::new("get", 2, Group::Server, "8.6.0")
};

/// `HOTKEYS RESET`.
pub const RESET: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT),
    tips: &["request_policy:special"],
    summary: "Forgets what was collected.",
    ..Meta::new("reset", 2, Group::Server, "8.6.0")
};

/// `HOTKEYS HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "8.6.1")
};
