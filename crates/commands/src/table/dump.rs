//! `DUMP` and `RESTORE`.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `DUMP`.
pub const DUMP: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns the serialised form of the value stored at a key.",
    complexity: "O(N) where N is the number of bytes of the value",
    arguments: &[Arg::key("key")],
    ..Meta::new("dump", 2, Group::Generic, "2.6.0")
};

/// `RESTORE`.
pub const RESTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: KEYSPACE, DANGEROUS),
    keys: &[KeySpec::at(1, bits!(KeyFlags: OW, UPDATE))],
    summary: "Creates a key from the serialised form of a value.",
    complexity: "O(N) where N is the number of bytes of the value; O(N log N) for sorted sets",
    history: &[
        ("3.0.0", "The `REPLACE` option."),
        ("5.0.0", "The `ABSTTL` option."),
        ("5.0.0", "The `IDLETIME` and `FREQ` options."),
    ],
    arguments: &[
        Arg::key("key"),
        Arg::integer("ttl"),
        Arg::string("serialized-value"),
        Arg::word("replace", "REPLACE").opt().since("3.0.0"),
        Arg::word("absttl", "ABSTTL").opt().since("5.0.0"),
        Arg::integer("seconds").token("IDLETIME").opt().since("5.0.0"),
        Arg::integer("frequency").token("FREQ").opt().since("5.0.0"),
    ],
    ..Meta::new("restore", -4, Group::Generic, "2.6.0")
};
