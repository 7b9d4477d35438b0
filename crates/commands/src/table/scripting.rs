//! Scripts.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

const HOW_USED: &str = "What a script does to its keys cannot be known: the most is assumed.";
const ANY_USE: KeySpec = KeySpec::counted(2, 1, bits!(KeyFlags: RW, ACCESS, UPDATE));
const READ_USE: KeySpec = KeySpec::counted(2, 1, bits!(KeyFlags: RO, ACCESS));
pub(super) const COUNT: Arg = Arg::integer("numkeys");
pub(super) const KEYS: Arg = Arg::key("key").opt().many();
pub(super) const ARGS: Arg = Arg::string("arg").opt().many();

/// `EVAL`.
pub const EVAL: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, STALE, SKIP_MONITOR, MAY_REPLICATE, MOVABLEKEYS, NO_MANDATORY_KEYS, SCRIPT_RUNNER),
    stated_categories: bits!(Categories: SCRIPTING),
    keys: &[ANY_USE.notes(HOW_USED)],
    summary: "Runs a script.",
    complexity: "Depends on the script.",
    arguments: &[Arg::string("script"), COUNT, KEYS, ARGS],
    ..Meta::new("eval", -3, Group::Scripting, "2.6.0")
};

/// `EVALSHA`.
pub const EVALSHA: Meta = Meta {
    keys: &[ANY_USE],
    summary: "Runs a script that the server knows by its sum.",
    arguments: &[Arg::string("sha1"), COUNT, KEYS, ARGS],
    ..Meta { name: "evalsha", ..EVAL }
};

/// `EVAL_RO`.
pub const EVAL_RO: Meta = Meta {
    flags: bits!(Flags: READONLY, NOSCRIPT, STALE, SKIP_MONITOR, MOVABLEKEYS, NO_MANDATORY_KEYS, SCRIPT_RUNNER),
    keys: &[READ_USE.notes(HOW_USED)],
    summary: "Runs a script that only reads.",
    ..Meta { name: "eval_ro", since: "7.0.0", ..EVAL }
};

/// `EVALSHA_RO`.
pub const EVALSHA_RO: Meta = Meta {
    keys: &[READ_USE],
    summary: "Runs a script that only reads and that the server knows by its sum.",
    arguments: EVALSHA.arguments,
    ..Meta { name: "evalsha_ro", ..EVAL_RO }
};

/// `SCRIPT`.
pub const SCRIPT: Meta = Meta {
    summary: "Manages the scripts that the server knows.",
    complexity: "Depends on subcommand.",
    ..Meta::new("script", -2, Group::Scripting, "2.6.0")
};

/// `SCRIPT DEBUG`.
pub const DEBUG: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    summary: "Chooses how the scripts that follow are debugged.",
    arguments: &[Arg::one_of(
        "mode",
        &[Arg::word("yes", "YES"), Arg::word("sync", "SYNC"), Arg::word("no", "NO")],
    )],
    ..Meta::new("debug", 3, Group::Scripting, "3.2.0")
};

/// `SCRIPT EXISTS`.
pub const EXISTS: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
    summary: "Tells which scripts the server knows.",
    complexity: "O(N) where N is the number of sums",
    arguments: &[Arg::string("sha1").many()],
    ..Meta::new("exists", -3, Group::Scripting, "2.6.0")
};

/// `SCRIPT FLUSH`.
pub const FLUSH: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Forgets every script.",
    complexity: "O(N) where N is the number of scripts",
    history: &[("6.2.0", "Modes `ASYNC` and `SYNC`.")],
    arguments: &[FLUSH_MODE],
    ..Meta::new("flush", -2, Group::Scripting, "2.6.0")
};

/// `SCRIPT HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: SCRIPTING),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Scripting, "5.0.0")
};

/// `SCRIPT KILL`.
pub const KILL: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, ALLOW_BUSY),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    summary: "Ends the script that is running, unless it has written.",
    ..Meta::new("kill", 2, Group::Scripting, "2.6.0")
};

/// `SCRIPT LOAD`.
pub const LOAD: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, STALE),
    stated_categories: bits!(Categories: SCRIPTING),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Makes a script known to the server, and returns its sum.",
    complexity: "O(N) where N is the length of the script",
    arguments: &[Arg::string("script")],
    ..Meta::new("load", 3, Group::Scripting, "2.6.0")
};

/// `SCRIPT SHOW`.
pub const SHOW: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, STALE),
    stated_categories: bits!(Categories: SCRIPTING),
    summary: "Returns the text of a script by its sum.",
    arguments: &[Arg::string("sha1")],
    ..Meta::new("show", 3, Group::Scripting, "8.0.0")
};

/// How what is removed is freed.
pub(super) const FLUSH_MODE: Arg =
    Arg::one_of("flush-type", &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")])
        .opt()
        .since("6.2.0");
