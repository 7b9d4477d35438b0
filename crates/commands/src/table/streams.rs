//! Streams.

use crate::bitset::bits;
use crate::keys::stream_keys;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `XADD`.
pub const XADD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))
        .notes("UPDATE rather than INSERT, since entries may be trimmed too")],
    tips: &["nondeterministic_output"],
    summary: "Appends an entry to a stream, which is made if it does not exist.",
    complexity: "O(1) to append; O(N) to trim, where N is the number of entries trimmed",
    history: &[
        ("6.2.0", "Options `NOMKSTREAM`, `MINID` and `LIMIT`."),
        ("7.0.0", "IDs of the form `<ms>-*`."),
        ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`."),
        ("8.6.0", "Options `IDMP` and `IDMPAUTO`."),
    ],
    arguments: &[
        Arg::key("key"),
        Arg::word("nomkstream", "NOMKSTREAM").since("6.2.0").opt(),
        REFERENCES.since("8.2.0"),
        Arg::one_of(
            "idmp",
            &[
                Arg::string("pid").token("IDMPAUTO"),
                Arg::block("idmp", &[Arg::string("pid"), Arg::string("iid")]).token("IDMP"),
            ],
        )
        .since("8.6.0")
        .opt(),
        Arg::block("trim", &[STRATEGY, OPERATOR, Arg::string("threshold"), LIMIT]).opt(),
        Arg::one_of("id-selector", &[Arg::word("auto-id", "*"), Arg::string("id")]),
        Arg::block("data", &[Arg::string("field"), Arg::string("value")]).many(),
    ],
    ..Meta::new("xadd", -5, Group::Stream, "5.0.0")
};

/// `XTRIM`.
pub const XTRIM: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    tips: &["nondeterministic_output"],
    summary: "Deletes the oldest entries of a stream.",
    complexity: "O(N) where N is the number of entries deleted, many of them at a time",
    history: &[
        ("6.2.0", "Options `MINID` and `LIMIT`."),
        ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`."),
    ],
    arguments: &[
        Arg::key("key"),
        Arg::block(
            "trim",
            &[STRATEGY, OPERATOR, Arg::string("threshold"), LIMIT, REFERENCES.since("8.2.0")],
        ),
    ],
    ..Meta::new("xtrim", -4, Group::Stream, "5.0.0")
};

/// `XDEL`.
pub const XDEL: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Deletes entries of a stream and returns how many there were.",
    complexity: "O(1) for each entry, however long the stream is",
    arguments: &[Arg::key("key"), Arg::string("id").many()],
    ..Meta::new("xdel", -3, Group::Stream, "5.0.0")
};

/// `XDELEX`.
pub const XDELEX: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    summary: "Deletes entries of a stream, minding what consumer groups still refer to.",
    complexity: "O(1) for each entry, however long the stream is",
    arguments: &[Arg::key("key"), REFERENCES, IDS],
    ..Meta::new("xdelex", -5, Group::Stream, "8.2.0")
};

/// `XLEN`.
pub const XLEN: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO))],
    summary: "Returns the number of entries in a stream.",
    arguments: &[Arg::key("key")],
    ..Meta::new("xlen", 2, Group::Stream, "5.0.0")
};

/// `XRANGE`.
pub const XRANGE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the entries of a stream in a range of IDs.",
    complexity: "O(N) where N is the number of entries returned",
    history: &[("6.2.0", "Exclusive ranges.")],
    arguments: &[Arg::key("key"), Arg::string("start"), Arg::string("end"), COUNT],
    ..Meta::new("xrange", -4, Group::Stream, "5.0.0")
};

/// `XREVRANGE`.
pub const XREVRANGE: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the entries of a stream in a range of IDs, the newest first.",
    complexity: "O(N) where N is the number of entries returned",
    history: &[("6.2.0", "Exclusive ranges.")],
    arguments: &[Arg::key("key"), Arg::string("end"), Arg::string("start"), COUNT],
    ..Meta::new("xrevrange", -4, Group::Stream, "5.0.0")
};

/// Of a whole reply.
const MAX_COUNT: Arg = Arg::integer("maxcount").token("MAXCOUNT").since("8.10.0").opt();
const MAX_SIZE: Arg = Arg::integer("maxsize").token("MAXSIZE").since("8.10.0").opt();

/// `XREAD`.
pub const XREAD: Meta = Meta {
    flags: bits!(Flags: READONLY, BLOCKING, MOVABLEKEYS),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::after_keyword("STREAMS", 1, 2, bits!(KeyFlags: RO, ACCESS))
        .located_by(stream_keys)],
    summary: "Returns the entries of streams that are newer than given IDs, or waits for some.",
    complexity: "O(N) where N is the number of entries returned",
    history: &[("8.10.0", "Options `MAXCOUNT` and `MAXSIZE`.")],
    arguments: &[
        COUNT,
        MAX_COUNT,
        MAX_SIZE,
        Arg::integer("milliseconds").token("BLOCK").opt(),
        STREAMS,
    ],
    ..Meta::new("xread", -4, Group::Stream, "5.0.0")
};

/// `XREADGROUP`.
pub const XREADGROUP: Meta = Meta {
    flags: bits!(Flags: WRITE, BLOCKING, MOVABLEKEYS),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::after_keyword("STREAMS", 4, 2, bits!(KeyFlags: RO, ACCESS))
        .located_by(stream_keys)],
    summary: "Returns new entries of streams to a consumer of a group, or those it has pending.",
    complexity: "O(N) for each stream, where N is the number of entries returned; of consumers that wait for an \
                 entry, each costs the XADD that adds it O(N)",
    history: &[("8.4.0", "Option `CLAIM`."), ("8.10.0", "Options `MAXCOUNT` and `MAXSIZE`.")],
    arguments: &[
        Arg::block("group-block", &[Arg::string("group"), Arg::string("consumer")]).token("GROUP"),
        COUNT,
        MAX_COUNT,
        MAX_SIZE,
        Arg::integer("milliseconds").token("BLOCK").opt(),
        Arg::integer("min-idle-time").token("CLAIM").since("8.4.0").opt(),
        Arg::word("noack", "NOACK").opt(),
        STREAMS,
    ],
    ..Meta::new("xreadgroup", -7, Group::Stream, "5.0.0")
};

/// `XSETID`.
pub const XSETID: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets the last ID of a stream and its counters; servers use it among themselves.",
    history: &[("7.0.0", "Options `ENTRIESADDED` and `MAXDELETEDID`.")],
    arguments: &[
        Arg::key("key"),
        Arg::string("last-id"),
        Arg::integer("entries-added").token("ENTRIESADDED").since("7.0.0").opt(),
        Arg::string("max-deleted-id").token("MAXDELETEDID").since("7.0.0").opt(),
    ],
    ..Meta::new("xsetid", -3, Group::Stream, "5.0.0")
};

/// `XCFGSET`.
pub const XCFGSET: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets for how long, and of how many entries, a stream remembers the producers' own IDs.",
    arguments: &[
        Arg::key("key"),
        Arg::integer("idmp-duration").token("IDMP-DURATION").opt(),
        Arg::integer("idmp-maxsize").token("IDMP-MAXSIZE").opt(),
    ],
    ..Meta::new("xcfgset", -2, Group::Stream, "8.6.0")
};

/// `XIDMPRECORD`.
pub const XIDMPRECORD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Notes which producer added an entry under which ID; servers use it among themselves.",
    arguments: &[Arg::key("key"), Arg::string("pid"), Arg::string("iid"), Arg::string("stream-id")],
    ..Meta::new("xidmprecord", 5, Group::Stream, "8.6.2")
};

/// `XACK`.
pub const XACK: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Acknowledges entries that are pending in a consumer group.",
    complexity: "O(1) for each ID",
    arguments: &[Arg::key("key"), Arg::string("group"), Arg::string("id").many()],
    ..Meta::new("xack", -4, Group::Stream, "5.0.0")
};

/// `XACKDEL`.
pub const XACKDEL: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE, DELETE))],
    summary: "Acknowledges entries that are pending in a consumer group and deletes them from the stream.",
    complexity: "O(1) for each ID",
    arguments: &[Arg::key("key"), Arg::string("group"), REFERENCES, IDS],
    ..Meta::new("xackdel", -6, Group::Stream, "8.2.0")
};

/// `XNACK`.
pub const XNACK: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Gives pending entries back to their consumer group, to be delivered again at once.",
    complexity: "O(1) for each ID",
    arguments: &[
        Arg::key("key"),
        Arg::string("group"),
        Arg::one_of(
            "mode",
            &[
                Arg::word("silent", "SILENT"),
                Arg::word("fail", "FAIL"),
                Arg::word("fatal", "FATAL"),
            ],
        ),
        IDS,
        Arg::integer("count").token("RETRYCOUNT").opt(),
        Arg::word("force", "FORCE").opt(),
    ],
    ..Meta::new("xnack", -7, Group::Stream, "8.8.0")
};

/// `XPENDING`.
pub const XPENDING: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Returns the entries that are pending in a consumer group, or a summary of them.",
    complexity: "O(N) where N is the number of entries returned, or with IDLE of those looked at; of a summary, the \
                 number of consumers",
    history: &[("6.2.0", "Option `IDLE` and exclusive ranges.")],
    arguments: &[
        Arg::key("key"),
        Arg::string("group"),
        Arg::block(
            "filters",
            &[
                Arg::integer("min-idle-time").token("IDLE").since("6.2.0").opt(),
                Arg::string("start"),
                Arg::string("end"),
                Arg::integer("count"),
                Arg::string("consumer").opt(),
            ],
        )
        .opt(),
    ],
    ..Meta::new("xpending", -3, Group::Stream, "5.0.0")
};

/// `XCLAIM`.
pub const XCLAIM: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    tips: &["nondeterministic_output"],
    summary: "Hands pending entries of a consumer group to another consumer, as if delivered to it.",
    complexity: "O(log N) for each ID, where N is the number of entries pending in the group",
    arguments: &[
        Arg::key("key"),
        Arg::string("group"),
        Arg::string("consumer"),
        Arg::string("min-idle-time"),
        Arg::string("id").many(),
        Arg::integer("ms").token("IDLE").opt(),
        Arg::unix_time("unix-time-milliseconds").token("TIME").opt(),
        Arg::integer("count").token("RETRYCOUNT").opt(),
        Arg::word("force", "FORCE").opt(),
        Arg::word("justid", "JUSTID").opt(),
        Arg::string("lastid").token("LASTID").opt(),
    ],
    ..Meta::new("xclaim", -6, Group::Stream, "5.0.0")
};

/// `XAUTOCLAIM`.
pub const XAUTOCLAIM: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, DELETE))],
    tips: &["nondeterministic_output"],
    summary: "Hands the entries of a consumer group that have been idle for long to another consumer.",
    complexity: "O(1) if COUNT is small",
    history: &[("7.0.0", "The IDs of deleted entries that the command dropped, in the reply.")],
    arguments: &[
        Arg::key("key"),
        Arg::string("group"),
        Arg::string("consumer"),
        Arg::string("min-idle-time"),
        Arg::string("start"),
        COUNT,
        Arg::word("justid", "JUSTID").opt(),
    ],
    ..Meta::new("xautoclaim", -6, Group::Stream, "6.2.0")
};

/// `XGROUP`.
pub const XGROUP: Meta = Meta {
    summary: "Makes, changes and removes consumer groups.",
    complexity: "Depends on subcommand.",
    ..Meta::new("xgroup", -2, Group::Stream, "5.0.0")
};

/// `XGROUP CREATE`.
pub const GROUP_CREATE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RW, INSERT))],
    summary: "Makes a consumer group.",
    history: &[("7.0.0", "Option `ENTRIESREAD`.")],
    arguments: &[
        Arg::key("key"),
        Arg::string("group"),
        GROUP_ID,
        Arg::word("mkstream", "MKSTREAM").opt(),
        ENTRIES_READ,
    ],
    ..Meta::new("create", -5, Group::Stream, "5.0.0")
};

/// `XGROUP SETID`.
pub const GROUP_SETID: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RW, UPDATE))],
    summary: "Sets the ID up to which a consumer group has had the entries delivered.",
    history: &[("7.0.0", "Option `ENTRIESREAD`.")],
    arguments: &[Arg::key("key"), Arg::string("group"), GROUP_ID, ENTRIES_READ],
    ..Meta::new("setid", -5, Group::Stream, "5.0.0")
};

/// `XGROUP DESTROY`.
pub const GROUP_DESTROY: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes a consumer group.",
    complexity: "O(N) where N is the number of entries pending in the group",
    arguments: &[Arg::key("key"), Arg::string("group")],
    ..Meta::new("destroy", 4, Group::Stream, "5.0.0")
};

/// `XGROUP CREATECONSUMER`.
pub const GROUP_CREATECONSUMER: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RW, INSERT))],
    summary: "Adds a consumer to a consumer group.",
    arguments: &[Arg::key("key"), Arg::string("group"), Arg::string("consumer")],
    ..Meta::new("createconsumer", 5, Group::Stream, "6.2.0")
};

/// `XGROUP DELCONSUMER`.
pub const GROUP_DELCONSUMER: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RW, DELETE))],
    summary: "Removes a consumer from a consumer group, with what it had pending.",
    arguments: &[Arg::key("key"), Arg::string("group"), Arg::string("consumer")],
    ..Meta::new("delconsumer", 5, Group::Stream, "5.0.0")
};

/// `XGROUP HELP`.
pub const GROUP_HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: STREAM),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Stream, "5.0.0")
};

/// `XINFO`.
pub const XINFO: Meta = Meta {
    summary: "Tells about streams, their consumer groups and consumers.",
    complexity: "Depends on subcommand.",
    ..Meta::new("xinfo", -2, Group::Stream, "5.0.0")
};

/// `XINFO STREAM`.
pub const INFO_STREAM: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO, ACCESS))],
    summary: "Tells about a stream.",
    history: &[
        ("6.0.0", "Option `FULL`."),
        (
            "7.0.0",
            "Fields `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`.",
        ),
        ("7.2.0", "Field `active-time`; `seen-time` means the last attempt."),
        (
            "8.6.0",
            "Fields `idmp-duration`, `idmp-maxsize`, `pids-tracked`, `iids-tracked`, `iids-added` and \
             `iids-duplicates`.",
        ),
        ("8.8.0", "Field `nacked-count` of groups, with `FULL`."),
    ],
    arguments: &[
        Arg::key("key"),
        Arg::block("full-block", &[Arg::word("full", "FULL"), COUNT]).opt(),
    ],
    ..Meta::new("stream", -3, Group::Stream, "5.0.0")
};

/// `XINFO GROUPS`.
pub const INFO_GROUPS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO, ACCESS))],
    summary: "Tells about the consumer groups of a stream.",
    history: &[("7.0.0", "Fields `entries-read` and `lag`.")],
    arguments: &[Arg::key("key")],
    ..Meta::new("groups", 3, Group::Stream, "5.0.0")
};

/// `XINFO CONSUMERS`.
pub const INFO_CONSUMERS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: STREAM),
    keys: &[KeySpec::at(2, bits!(KeyFlags: RO, ACCESS))],
    tips: &["nondeterministic_output"],
    summary: "Tells about the consumers of a consumer group.",
    history: &[("7.2.0", "Field `inactive`; `idle` means since the last attempt.")],
    arguments: &[Arg::key("key"), Arg::string("group")],
    ..Meta::new("consumers", 4, Group::Stream, "5.0.0")
};

/// `XINFO HELP`.
pub const INFO_HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: STREAM),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Stream, "5.0.0")
};

/// What becomes of a consumer group's references to entries that are deleted.
const REFERENCES: Arg = Arg::one_of(
    "condition",
    &[Arg::word("keepref", "KEEPREF"), Arg::word("delref", "DELREF"), Arg::word("acked", "ACKED")],
)
.opt();

const STRATEGY: Arg = Arg::one_of(
    "strategy",
    &[Arg::word("maxlen", "MAXLEN"), Arg::word("minid", "MINID").since("6.2.0")],
);

const OPERATOR: Arg =
    Arg::one_of("operator", &[Arg::word("equal", "="), Arg::word("approximately", "~")]).opt();

const LIMIT: Arg = Arg::integer("count").token("LIMIT").since("6.2.0").opt();

const COUNT: Arg = Arg::integer("count").token("COUNT").opt();

const IDS: Arg =
    Arg::block("ids", &[Arg::integer("numids"), Arg::string("id").many()]).token("IDS");

const STREAMS: Arg =
    Arg::block("streams", &[Arg::key("key").many(), Arg::string("id").many()]).token("STREAMS");

const GROUP_ID: Arg = Arg::one_of("id-selector", &[Arg::string("id"), Arg::word("new-id", "$")]);

const ENTRIES_READ: Arg =
    Arg::integer("entriesread").shown("entries-read").token("ENTRIESREAD").opt();
