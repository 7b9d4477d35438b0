//! `OBJECT` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `OBJECT`.
pub const OBJECT: Meta = Meta {
    summary: "Inspects how values are stored.",
    complexity: "Depends on subcommand.",
    ..Meta::new("object", -2, Group::Generic, "2.2.3")
};

/// `OBJECT ENCODING`.
pub const ENCODING: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO))],
    tips: &["nondeterministic_output"],
    summary: "Returns the name of the representation in which a value is stored.",
    arguments: &[Arg::key("key")],
    ..Meta::new("encoding", 3, Group::Generic, "2.2.3")
};

/// `OBJECT FREQ`.
pub const FREQ: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO))],
    tips: &["nondeterministic_output"],
    summary: "Returns the access frequency of a key, on a logarithmic scale.",
    arguments: &[Arg::key("key")],
    ..Meta::new("freq", 3, Group::Generic, "4.0.0")
};

/// `OBJECT IDLETIME`.
pub const IDLETIME: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO))],
    tips: &["nondeterministic_output"],
    summary: "Returns the seconds since a key was last accessed.",
    arguments: &[Arg::key("key")],
    ..Meta::new("idletime", 3, Group::Generic, "2.2.3")
};

/// `OBJECT REFCOUNT`.
pub const REFCOUNT: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO))],
    tips: &["nondeterministic_output"],
    summary: "Returns the number of references to the value of a key.",
    arguments: &[Arg::key("key")],
    ..Meta::new("refcount", 3, Group::Generic, "2.2.3")
};

/// `OBJECT HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: KEYSPACE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Generic, "6.2.0")
};
