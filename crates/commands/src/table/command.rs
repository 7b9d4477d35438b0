//! `COMMAND` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `COMMAND`.
pub const COMMAND: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["nondeterministic_output_order"],
    summary: "Describes every command.",
    complexity: "O(N) where N is the number of commands",
    help: &[("(no subcommand)", "Describe every command.")],
    ..Meta::new("command", -1, Group::Server, "2.8.13")
};

/// `COMMAND COUNT`.
pub const COUNT: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Returns the number of commands.",
    ..Meta::new("count", 2, Group::Server, "2.8.13")
};

/// `COMMAND DOCS`.
pub const DOCS: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["nondeterministic_output_order"],
    summary: "Returns the documentation of commands.",
    complexity: "O(N) where N is the number of commands looked up",
    arguments: &[Arg::string("command-name").opt().many()],
    ..Meta::new("docs", -2, Group::Server, "7.0.0")
};

/// `COMMAND GETKEYS`.
pub const GETKEYS: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Finds the keys in a complete command.",
    complexity: "O(N) where N is the number of arguments",
    arguments: &[Arg::string("command"), Arg::string("arg").opt().many()],
    ..Meta::new("getkeys", -3, Group::Server, "2.8.13")
};

/// `COMMAND GETKEYSANDFLAGS`.
pub const GETKEYSANDFLAGS: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Finds the keys in a complete command, and what it does to them.",
    complexity: "O(N) where N is the number of arguments",
    arguments: &[Arg::string("command"), Arg::string("arg").opt().many()],
    ..Meta::new("getkeysandflags", -3, Group::Server, "7.0.0")
};

/// `COMMAND INFO`.
pub const INFO: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["nondeterministic_output_order"],
    summary: "Describes the commands named, or every command.",
    complexity: "O(N) where N is the number of commands looked up",
    history: &[("7.0.0", "Without arguments, every command.")],
    arguments: &[Arg::string("command-name").opt().many()],
    ..Meta::new("info", -2, Group::Server, "2.8.13")
};

/// `COMMAND LIST`.
pub const LIST: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["nondeterministic_output_order"],
    summary: "Lists the names of commands.",
    complexity: "O(N) where N is the number of commands",
    arguments: &[Arg::one_of(
        "filterby",
        &[
            Arg::string("module-name").token("MODULE"),
            Arg::string("category").token("ACLCAT"),
            Arg::pattern("pattern").token("PATTERN"),
        ],
    )
    .token("FILTERBY")
    .opt()],
    ..Meta::new("list", -2, Group::Server, "7.0.0")
};

/// `COMMAND HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "5.0.0")
};
