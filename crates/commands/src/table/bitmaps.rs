//! Bitmaps.

use crate::bitset::bits;
use crate::keys::bitfield_key_flags;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `SETBIT`.
pub const SETBIT: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: BITMAP),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))],
    summary: "Writes one bit of a string, which grows with zeros to reach it.",
    arguments: &[Arg::key("key"), Arg::integer("offset"), Arg::integer("value")],
    ..Meta::new("setbit", 4, Group::Bitmap, "2.2.0")
};

/// `GETBIT`.
pub const GETBIT: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: BITMAP),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Reads one bit of a string; 0 beyond its end.",
    arguments: &[Arg::key("key"), Arg::integer("offset")],
    ..Meta::new("getbit", 3, Group::Bitmap, "2.2.0")
};

/// `BITCOUNT`.
pub const BITCOUNT: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: BITMAP),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Counts the bits of a string, or of a part of it, that are 1.",
    complexity: "O(N) where N is the length of the part",
    history: &[("7.0.0", "Units `BYTE` and `BIT`.")],
    arguments: &[
        Arg::key("key"),
        Arg::block("range", &[Arg::integer("start"), Arg::integer("end"), UNIT]).opt(),
    ],
    ..Meta::new("bitcount", -2, Group::Bitmap, "2.6.0")
};

/// `BITPOS`.
pub const BITPOS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: BITMAP),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Finds the first 1 or the first 0 among the bits of a string or of a part of it.",
    complexity: "O(N) where N is the length of the part",
    history: &[("7.0.0", "Units `BYTE` and `BIT`.")],
    arguments: &[
        Arg::key("key"),
        Arg::integer("bit"),
        Arg::block(
            "range",
            &[
                Arg::integer("start"),
                Arg::block("end-unit-block", &[Arg::integer("end"), UNIT]).opt(),
            ],
        )
        .opt(),
    ],
    ..Meta::new("bitpos", -3, Group::Bitmap, "2.8.7")
};

/// `BITOP`.
pub const BITOP: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: BITMAP),
    keys: &[
        KeySpec::at(2, bits!(KeyFlags: OW, UPDATE)),
        KeySpec::range(3, -1, 1, bits!(KeyFlags: RO, ACCESS)),
    ],
    summary: "Combines strings bit by bit and stores the result.",
    complexity: "O(N) where N is the length of all the strings together",
    history: &[("8.2.0", "Operations `DIFF`, `DIFF1`, `ANDOR` and `ONE`.")],
    arguments: &[
        Arg::one_of(
            "operation",
            &[
                Arg::word("and", "AND"),
                Arg::word("or", "OR"),
                Arg::word("xor", "XOR"),
                Arg::word("not", "NOT"),
                Arg::word("diff", "DIFF").since("8.2.0"),
                Arg::word("diff1", "DIFF1").since("8.2.0"),
                Arg::word("andor", "ANDOR").since("8.2.0"),
                Arg::word("one", "ONE").since("8.2.0"),
            ],
        ),
        Arg::key("destkey"),
        Arg::key("key").of_spec(1).many(),
    ],
    ..Meta::new("bitop", -4, Group::Bitmap, "2.6.0")
};

/// `BITFIELD`.
pub const BITFIELD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: BITMAP),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, ACCESS, UPDATE))
        .narrowed_by(bitfield_key_flags)
        .notes("RO with nothing but `GET`")],
    summary: "Reads, writes and adds to integers of any width at any bit of a string.",
    complexity: "O(1) per integer",
    arguments: &[
        Arg::key("key"),
        Arg::one_of(
            "operation",
            &[
                Arg::block("get-block", FIELD).token("GET"),
                Arg::block(
                    "write",
                    &[
                        Arg::one_of(
                            "overflow-block",
                            &[
                                Arg::word("wrap", "WRAP"),
                                Arg::word("sat", "SAT"),
                                Arg::word("fail", "FAIL"),
                            ],
                        )
                        .token("OVERFLOW")
                        .opt(),
                        Arg::one_of(
                            "write-operation",
                            &[
                                Arg::block("set-block", &[ENCODING, OFFSET, Arg::integer("value")])
                                    .token("SET"),
                                Arg::block(
                                    "incrby-block",
                                    &[ENCODING, OFFSET, Arg::integer("increment")],
                                )
                                .token("INCRBY"),
                            ],
                        ),
                    ],
                ),
            ],
        )
        .many()
        .opt(),
    ],
    ..Meta::new("bitfield", -2, Group::Bitmap, "3.2.0")
};

/// `BITFIELD_RO`.
pub const BITFIELD_RO: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: BITMAP),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Reads integers of any width at any bit of a string.",
    complexity: "O(1) per integer",
    arguments: &[Arg::key("key"), Arg::block("get-block", FIELD).token("GET").many_tokens().opt()],
    ..Meta::new("bitfield_ro", -2, Group::Bitmap, "6.0.0")
};

const ENCODING: Arg = Arg::string("encoding");
const OFFSET: Arg = Arg::integer("offset");
const FIELD: &[Arg] = &[ENCODING, OFFSET];

const UNIT: Arg =
    Arg::one_of("unit", &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")]).since("7.0.0").opt();
