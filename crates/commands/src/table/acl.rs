//! `ACL` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Flags, Group, Meta};

/// Flags of what shows or changes users.
const OF_ADMINISTRATORS: Flags = bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE);

/// Flags of what anybody may ask.
const OF_ANYBODY: Flags = bits!(Flags: NOSCRIPT, LOADING, STALE);

/// `ACL`.
pub const ACL: Meta = Meta {
    summary: "Manages users and what they may do.",
    complexity: "Depends on subcommand.",
    ..Meta::new("acl", -2, Group::Server, "6.0.0")
};

/// `ACL CAT`.
pub const CAT: Meta = Meta {
    flags: OF_ANYBODY,
    summary: "Lists the categories of commands, or the commands of one.",
    arguments: &[Arg::string("category").opt()],
    help: &[(
        "CAT [<category>]",
        "List all commands that belong to <category>, or all command categories\nwhen no category is specified.",
    )],
    ..Meta::new("cat", -2, Group::Server, "6.0.0")
};

/// `ACL DELUSER`.
pub const DELUSER: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Removes users and closes their connections.",
    complexity: "O(N) where N is the number of connections",
    arguments: &[Arg::string("username").many()],
    help: &[("DELUSER <username> [<username> ...]", "Delete a list of users.")],
    ..Meta::new("deluser", -3, Group::Server, "6.0.0")
};

/// `ACL DRYRUN`.
pub const DRYRUN: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    summary: "Says whether a user may call a command, without calling it.",
    arguments: &[Arg::string("username"), Arg::string("command"), Arg::string("arg").opt().many()],
    help: &[(
        "DRYRUN <username> <command> [<arg> ...]",
        "Returns whether the user can execute the given command without executing the command.",
    )],
    ..Meta::new("dryrun", -4, Group::Server, "7.0.0")
};

/// `ACL GENPASS`.
pub const GENPASS: Meta = Meta {
    flags: OF_ANYBODY,
    summary: "Draws a password that nobody can guess.",
    arguments: &[Arg::integer("bits").opt()],
    help: &[(
        "GENPASS [<bits>]",
        "Generate a secure 256-bit user password. The optional `bits` argument can\nbe used to specify a different size.",
    )],
    ..Meta::new("genpass", -2, Group::Server, "6.0.0")
};

/// `ACL GETUSER`.
pub const GETUSER: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    summary: "Shows a user's rules.",
    complexity: "O(N) where N is the number of rules",
    history: &[
        ("6.2.0", "Patterns of channels."),
        ("7.0.0", "Selectors; patterns of keys and channels as rules."),
    ],
    arguments: &[Arg::string("username")],
    help: &[("GETUSER <username>", "Get the user's details.")],
    ..Meta::new("getuser", 3, Group::Server, "6.0.0")
};

/// `ACL HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "6.0.0")
};

/// `ACL LIST`.
pub const LIST: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    summary: "Shows all users as lines of a file.",
    complexity: "O(N) where N is the number of users",
    help: &[("LIST", "Show users details in config file format.")],
    ..Meta::new("list", 2, Group::Server, "6.0.0")
};

/// `ACL LOAD`.
pub const LOAD: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    summary: "Lets the users be those of the file.",
    complexity: "O(N) where N is the number of users",
    help: &[("LOAD", "Reload users from the ACL file.")],
    ..Meta::new("load", 2, Group::Server, "6.0.0")
};

/// `ACL LOG`.
pub const LOG: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    summary: "Shows what was refused lately, or forgets it.",
    complexity: "O(N) where N is the number of entries",
    history: &[("7.2.0", "Numbers and times of entries.")],
    arguments: &[
        Arg::one_of("operation", &[Arg::integer("count"), Arg::word("reset", "RESET")]).opt()
    ],
    help: &[("LOG [<count> | RESET]", "Show the ACL log entries.")],
    ..Meta::new("log", -2, Group::Server, "6.0.0")
};

/// `ACL SAVE`.
pub const SAVE: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Writes the users to the file.",
    complexity: "O(N) where N is the number of users",
    help: &[("SAVE", "Save the current config to the ACL file.")],
    ..Meta::new("save", 2, Group::Server, "6.0.0")
};

/// `ACL SETUSER`.
pub const SETUSER: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Makes a user or changes its rules.",
    complexity: "O(N) where N is the number of rules",
    history: &[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors and permissions of keys.")],
    arguments: &[Arg::string("username"), Arg::string("rule").opt().many()],
    help: &[(
        "SETUSER <username> <attribute> [<attribute> ...]",
        "Create or modify a user with the specified attributes.",
    )],
    ..Meta::new("setuser", -3, Group::Server, "6.0.0")
};

/// `ACL USERS`.
pub const USERS: Meta = Meta {
    flags: OF_ADMINISTRATORS,
    summary: "Lists the names of all users.",
    complexity: "O(N) where N is the number of users",
    help: &[("USERS", "List all the registered usernames.")],
    ..Meta::new("users", 2, Group::Server, "6.0.0")
};

/// `ACL WHOAMI`.
pub const WHOAMI: Meta = Meta {
    flags: OF_ANYBODY,
    summary: "Names the user of the connection.",
    help: &[("WHOAMI", "Return the current connection username.")],
    ..Meta::new("whoami", 2, Group::Server, "6.0.0")
};
