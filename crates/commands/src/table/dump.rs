//! `DUMP`, `RESTORE` and `MIGRATE`.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};
use std::ops::Range;

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

/// `MIGRATE`.
pub const MIGRATE: Meta = Meta {
    flags: bits!(Flags: WRITE, MOVABLEKEYS),
    stated_categories: bits!(Categories: KEYSPACE, DANGEROUS),
    keys: &[
        KeySpec::at(3, bits!(KeyFlags: RW, ACCESS, DELETE)).located_by(migrated_key),
        KeySpec::after_keyword("KEYS", -2, 0, bits!(KeyFlags: RW, ACCESS, DELETE, INCOMPLETE))
            .located_by(migrated_keys),
    ],
    tips: &["nondeterministic_output"],
    summary: "Moves keys to another server.",
    complexity: "As DUMP and DEL here, and RESTORE there, of each key; and the transfer of their values",
    history: &[
        ("3.0.0", "The `COPY` and `REPLACE` options."),
        ("3.0.6", "The `KEYS` option."),
        ("4.0.7", "The `AUTH` option."),
        ("6.0.0", "The `AUTH2` option."),
    ],
    arguments: &[
        Arg::string("host"),
        Arg::integer("port"),
        Arg::one_of("key-selector", &[Arg::key("key"), Arg::word("empty-string", "")]),
        Arg::integer("destination-db"),
        Arg::integer("timeout"),
        Arg::word("copy", "COPY").opt().since("3.0.0"),
        Arg::word("replace", "REPLACE").opt().since("3.0.0"),
        Arg::one_of(
            "authentication",
            &[
                Arg::string("auth").shown("password").token("AUTH").since("4.0.7"),
                Arg::block("auth2", &[Arg::string("username"), Arg::string("password")])
                    .token("AUTH2")
                    .since("6.0.0"),
            ],
        )
        .opt(),
        Arg::key("keys").shown("key").token("KEYS").of_spec(1).opt().many().since("3.0.6"),
    ],
    ..Meta::new("migrate", -6, Group::Generic, "2.6.0")
};

/// The place of the only key, unless the keys follow `KEYS`.
fn migrated_key(args: &[&[u8]]) -> Range<usize> {
    if args[3].is_empty() && keys_option(args).is_some() { 3..3 } else { 3..4 }
}

/// The places of the keys that follow `KEYS`.
fn migrated_keys(args: &[&[u8]]) -> Range<usize> {
    match keys_option(args) {
        Some(at) if args[3].is_empty() => at + 1..args.len(),
        _ => 0..0,
    }
}

/// The place of the option `KEYS`.
fn keys_option(args: &[&[u8]]) -> Option<usize> {
    let mut i = 6;
    while i < args.len() {
        let is = |name: &[u8]| args[i].eq_ignore_ascii_case(name);
        if is(b"KEYS") {
            return Some(i);
        }
        i += if is(b"AUTH2") {
            3
        } else if is(b"AUTH") {
            2
        } else {
            1
        };
    }
    None
}
