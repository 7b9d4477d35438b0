//! `CONFIG` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `CONFIG`.
pub const CONFIG: Meta = Meta {
    summary: "Reads and changes configuration parameters.",
    complexity: "Depends on subcommand.",
    ..Meta::new("config", -2, Group::Server, "2.0.0")
};

/// `CONFIG GET`.
pub const GET: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    summary: "Returns the values of configuration parameters.",
    complexity: "O(N) where N is the number of parameters",
    history: &[("7.0.0", "Several patterns.")],
    arguments: &[Arg::string("parameter").many()],
    ..Meta::new("get", -3, Group::Server, "2.0.0")
};

/// `CONFIG SET`.
pub const SET: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Changes configuration parameters at run time.",
    complexity: "O(N) where N is the number of parameters",
    history: &[("7.0.0", "Several parameters, set together or not at all.")],
    arguments: &[Arg::block("data", &[Arg::string("parameter"), Arg::string("value")]).many()],
    ..Meta::new("set", -4, Group::Server, "2.0.0")
};

/// `CONFIG REWRITE`.
pub const REWRITE: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Writes the configuration in effect to the configuration file.",
    ..Meta::new("rewrite", 2, Group::Server, "2.8.0")
};

/// `CONFIG RESETSTAT`.
pub const RESETSTAT: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Resets the statistics of the server.",
    ..Meta::new("resetstat", 2, Group::Server, "2.0.0")
};

/// `CONFIG HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "5.0.0")
};
