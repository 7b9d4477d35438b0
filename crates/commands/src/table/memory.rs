//! `MEMORY` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `MEMORY`.
pub const MEMORY: Meta = Meta {
    summary: "Reports on memory use.",
    complexity: "Depends on subcommand.",
    ..Meta::new("memory", -2, Group::Server, "4.0.0")
};

/// `MEMORY USAGE`.
pub const USAGE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO))],
    summary: "Estimates the bytes that a key and its value take.",
    complexity: "O(N) where N is the number of samples",
    arguments: &[Arg::key("key"), Arg::integer("count").token("SAMPLES").opt()],
    ..Meta::new("usage", -3, Group::Server, "4.0.0")
};

/// `MEMORY STATS`.
pub const STATS: Meta = Meta {
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    summary: "Returns a breakdown of the memory in use.",
    ..Meta::new("stats", 2, Group::Server, "4.0.0")
};

/// `MEMORY DOCTOR`.
pub const DOCTOR: Meta = Meta {
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    summary: "Reports on problems with memory.",
    ..Meta::new("doctor", 2, Group::Server, "4.0.0")
};

/// `MEMORY PURGE`.
pub const PURGE: Meta = Meta {
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    summary: "Asks the allocator to return free memory to the system.",
    complexity: "Depends on the memory in use; may be slow",
    ..Meta::new("purge", 2, Group::Server, "4.0.0")
};

/// `MEMORY MALLOC-STATS`.
pub const MALLOC_STATS: Meta = Meta {
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    summary: "Returns the statistics of the allocator.",
    complexity: "Depends on the memory in use; may be slow",
    ..Meta::new("malloc-stats", 2, Group::Server, "4.0.0")
};

/// `MEMORY HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Server, "4.0.0")
};
