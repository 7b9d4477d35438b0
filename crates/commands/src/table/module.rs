//! `MODULE` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Flags, Group, Meta};

/// `MODULE`.
pub const MODULE: Meta = Meta {
    summary: "Lists and loads modules.",
    complexity: "Depends on subcommand.",
    ..Meta::new("module", -2, Group::Server, "4.0.0")
};

const LOADS: Flags = bits!(Flags: ADMIN, NOSCRIPT, NO_ASYNC_LOADING, PROTECTED);

/// `MODULE LIST`.
pub const LIST: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT),
    tips: &["nondeterministic_output_order"],
    summary: "Lists the modules that are loaded.",
    complexity: "O(N) where N is the number of modules",
    ..Meta::new("list", 2, Group::Server, "4.0.0")
};

/// `MODULE LOAD`.
pub const LOAD: Meta = Meta {
    flags: LOADS,
    summary: "Loads a module.",
    arguments: &[Arg::string("path"), Arg::string("arg").opt().many()],
    ..Meta::new("load", -3, Group::Server, "4.0.0")
};

/// `MODULE LOADEX`.
pub const LOADEX: Meta = Meta {
    flags: LOADS,
    summary: "Loads a module with parameters of its own.",
    arguments: &[
        Arg::string("path"),
        Arg::block("configs", &[Arg::string("name"), Arg::string("value")])
            .token("CONFIG")
            .opt()
            .many_tokens(),
        Arg::string("args").token("ARGS").opt().many(),
    ],
    ..Meta::new("loadex", -3, Group::Server, "7.0.0")
};

/// `MODULE UNLOAD`.
pub const UNLOAD: Meta = Meta {
    flags: LOADS,
    summary: "Unloads a module.",
    arguments: &[Arg::string("name")],
    ..Meta::new("unload", 3, Group::Server, "4.0.0")
};

/// `MODULE HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "5.0.0")
};
