//! Libraries of functions.

use super::scripting::{ARGS, COUNT, EVAL, EVAL_RO, FLUSH_MODE, KEYS};
use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

const CHANGES: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

/// `FCALL`.
pub const FCALL: Meta = Meta {
    summary: "Calls a function.",
    complexity: "Depends on the function.",
    arguments: &[Arg::string("function"), COUNT, KEYS, ARGS],
    ..Meta { name: "fcall", since: "7.0.0", ..EVAL }
};

/// `FCALL_RO`.
pub const FCALL_RO: Meta = Meta {
    summary: "Calls a function that only reads.",
    complexity: "Depends on the function.",
    arguments: FCALL.arguments,
    ..Meta { name: "fcall_ro", ..EVAL_RO }
};

/// `FUNCTION`.
pub const FUNCTION: Meta = Meta {
    summary: "Manages libraries of functions.",
    complexity: "Depends on subcommand.",
    ..Meta::new("function", -2, Group::Scripting, "7.0.0")
};

/// `FUNCTION DELETE`.
pub const DELETE: Meta = Meta {
    flags: bits!(Flags: WRITE, NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: CHANGES,
    summary: "Deletes a library with its functions.",
    arguments: &[Arg::string("library-name")],
    ..Meta::new("delete", 3, Group::Scripting, "7.0.0")
};

/// `FUNCTION DUMP`.
pub const DUMP: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    summary: "Returns all libraries as bytes.",
    complexity: "O(N) where N is the number of functions",
    ..Meta::new("dump", 2, Group::Scripting, "7.0.0")
};

/// `FUNCTION FLUSH`.
pub const FLUSH: Meta = Meta {
    flags: bits!(Flags: WRITE, NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: CHANGES,
    summary: "Deletes all libraries.",
    complexity: "O(N) where N is the number of functions",
    arguments: &[FLUSH_MODE],
    ..Meta::new("flush", -2, Group::Scripting, "7.0.0")
};

/// `FUNCTION HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: SCRIPTING),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Scripting, "7.0.0")
};

/// `FUNCTION KILL`.
pub const KILL: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, ALLOW_BUSY),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    summary: "Ends the function that is running, unless it has written.",
    ..Meta::new("kill", 2, Group::Scripting, "7.0.0")
};

/// `FUNCTION LIST`.
pub const LIST: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: &["nondeterministic_output_order"],
    summary: "Lists libraries with their functions.",
    complexity: "O(N) where N is the number of functions",
    arguments: &[
        Arg::string("library-name-pattern").token("LIBRARYNAME").opt(),
        Arg::word("withcode", "WITHCODE").opt(),
    ],
    ..Meta::new("list", -2, Group::Scripting, "7.0.0")
};

/// `FUNCTION LOAD`.
pub const LOAD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: CHANGES,
    summary: "Creates a library.",
    complexity: "O(1), apart from compiling",
    arguments: &[Arg::word("replace", "REPLACE").opt(), Arg::string("function-code")],
    ..Meta::new("load", -3, Group::Scripting, "7.0.0")
};

/// `FUNCTION RESTORE`.
pub const RESTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: CHANGES,
    summary: "Restores libraries from bytes.",
    complexity: "O(N) where N is the number of functions in the payload",
    arguments: &[
        Arg::string("serialized-value"),
        Arg::one_of(
            "policy",
            &[
                Arg::word("flush", "FLUSH"),
                Arg::word("append", "APPEND"),
                Arg::word("replace", "REPLACE"),
            ],
        )
        .opt(),
    ],
    ..Meta::new("restore", -3, Group::Scripting, "7.0.0")
};

/// `FUNCTION STATS`.
pub const STATS: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, ALLOW_BUSY),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    summary: "Tells which function is running, and how many there are.",
    ..Meta::new("stats", 2, Group::Scripting, "7.0.0")
};
