//! HyperLogLogs.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `PFADD`.
pub const PFADD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: HYPERLOGLOG),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, INSERT))],
    summary: "Makes a HyperLogLog take note of elements.",
    complexity: "O(1) per element",
    arguments: &[Arg::key("key"), Arg::string("element").opt().many()],
    ..Meta::new("pfadd", -2, Group::HyperLogLog, "2.8.9")
};

/// `PFCOUNT`.
pub const PFCOUNT: Meta = Meta {
    flags: bits!(Flags: READONLY, MAY_REPLICATE),
    stated_categories: bits!(Categories: HYPERLOGLOG),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RW, ACCESS))
        .notes("RW because the count is kept in the string")],
    summary: "Estimates how many different elements HyperLogLogs have taken note of together.",
    complexity: "O(1) for one key; O(N), with a large constant, for N keys",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("pfcount", -2, Group::HyperLogLog, "2.8.9")
};

/// `PFMERGE`.
pub const PFMERGE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: HYPERLOGLOG),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, INSERT)),
        KeySpec::range(2, -1, 1, bits!(KeyFlags: RO, ACCESS)),
    ],
    summary: "Makes a HyperLogLog take note of all elements that others have.",
    complexity: "O(N), with a large constant, for N keys",
    arguments: &[Arg::key("destkey"), Arg::key("sourcekey").of_spec(1).opt().many()],
    ..Meta::new("pfmerge", -2, Group::HyperLogLog, "2.8.9")
};

/// `PFDEBUG`.
pub const PFDEBUG: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, ADMIN),
    stated_categories: bits!(Categories: HYPERLOGLOG),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RW, ACCESS))],
    summary: "Shows the inside of a HyperLogLog.",
    complexity: "O(1); the number of registers is fixed",
    system: true,
    arguments: &[Arg::string("subcommand"), Arg::key("key")],
    ..Meta::new("pfdebug", 3, Group::HyperLogLog, "2.8.9")
};

/// `PFSELFTEST`.
pub const PFSELFTEST: Meta = Meta {
    flags: bits!(Flags: ADMIN),
    stated_categories: bits!(Categories: HYPERLOGLOG),
    summary: "Checks registers and estimates of HyperLogLogs against what they should be.",
    complexity: "O(1); the number of elements is fixed",
    system: true,
    ..Meta::new("pfselftest", 1, Group::HyperLogLog, "2.8.9")
};
