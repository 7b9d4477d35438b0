//! The server, but for its containers.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `DBSIZE`.
pub const DBSIZE: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    stated_categories: bits!(Categories: KEYSPACE),
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    summary: "Returns the number of keys in the database.",
    ..Meta::new("dbsize", 1, Group::Server, "1.0.0")
};

/// `FLUSHDB`.
pub const FLUSHDB: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: KEYSPACE, DANGEROUS),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    summary: "Deletes every key of the database.",
    complexity: "O(N) where N is the number of keys in the database",
    history: &[("4.0.0", "Mode `ASYNC`."), ("6.2.0", "Mode `SYNC`.")],
    arguments: &[FLUSH_MODE],
    ..Meta::new("flushdb", -1, Group::Server, "1.0.0")
};

/// `FLUSHALL`.
pub const FLUSHALL: Meta = Meta {
    flags: bits!(Flags: WRITE),
    stated_categories: bits!(Categories: KEYSPACE, DANGEROUS),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    summary: "Deletes every key of every database.",
    complexity: "O(N) where N is the number of keys in all databases",
    history: &[("4.0.0", "Mode `ASYNC`."), ("6.2.0", "Mode `SYNC`.")],
    arguments: &[FLUSH_MODE],
    ..Meta::new("flushall", -1, Group::Server, "1.0.0")
};

/// `SWAPDB`.
pub const SWAPDB: Meta = Meta {
    flags: bits!(Flags: WRITE, FAST),
    stated_categories: bits!(Categories: KEYSPACE, DANGEROUS),
    summary: "Exchanges two databases, for every client at once.",
    complexity: "O(N) where N is the number of clients that watch or wait for keys of the two databases",
    arguments: &[Arg::integer("index1"), Arg::integer("index2")],
    ..Meta::new("swapdb", 3, Group::Server, "4.0.0")
};

/// `INFO`.
pub const INFO: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: DANGEROUS),
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    summary: "Returns information and statistics about the server.",
    history: &[("7.0.0", "Several sections.")],
    arguments: &[Arg::string("section").opt().many()],
    ..Meta::new("info", -1, Group::Server, "1.0.0")
};

/// `TIME`.
pub const TIME: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE, FAST),
    tips: &["nondeterministic_output"],
    summary: "Returns the time of the server, in seconds and microseconds.",
    ..Meta::new("time", 1, Group::Server, "2.6.0")
};

/// `DEBUG`.
pub const DEBUG: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE, PROTECTED, TOUCHES_ARBITRARY_KEYS),
    summary: "Serves tests and debugging.",
    complexity: "Depends on subcommand.",
    system: true,
    help: &[
        ("CHANGE-REPL-ID", "Name the history of the data set anew."),
        (
            "CLIENT-ENFORCE-REPLY-LIST <0 | 1>",
            "Let any reply count as a large one where the output of who has not logged in is limited.",
        ),
        (
            "CONFIG-REWRITE-FORCE-ALL",
            "CONFIG REWRITE of every parameter, those with their defaults too.",
        ),
        ("DIGEST", "Answer a digest of the whole data set, in hexadecimal."),
        ("DIGEST-VALUE <key> [<key> ...]", "Answer a digest of the value of each key."),
        ("ERROR <message>", "Answer with this error."),
        ("HTSTATS <dbid> [full]", "Describe the tables that hold the keys of a database."),
        (
            "FORCE-TLS-WRITE-ERROR <0 | 1>",
            "Let what TLS connections are to be sent wait, as if their peers took nothing.",
        ),
        (
            "KEYSIZES-HIST-ASSERT <0 | 1>",
            "Accepted for test suites, without effect: INFO counts sizes when it is asked.",
        ),
        ("LISTPACK <key>", "Write to the server's log what a small collection takes."),
        ("LOG <message>", "Write the message to the server's log."),
        ("OBJECT <key>", "Describe the representation of a value."),
        ("PAUSE-CRON <0 | 1>", "Turn all background work off or on."),
        (
            "POPULATE <count> [<prefix>] [<size>]",
            "Create string keys `key:0`, `key:1`, ..., unless they exist.",
        ),
        ("PROTECT-CLIENT <id>", "Let the server close this connection no more."),
        (
            "PROTOCOL <type>",
            "Answer with a value of this type: STRING, INTEGER, DOUBLE, NULL, ARRAY,\nSET, MAP, ATTRIB, PUSH, VERBATIM, BIGNUM, TRUE, FALSE.",
        ),
        (
            "QUICKLIST-PACKED-THRESHOLD <size>",
            "Accepted for test suites, without effect: long elements always lie apart.",
        ),
        (
            "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
            "Save the data, and read every value again; with NOSAVE, load what was saved last.",
        ),
        (
            "REPLYBUFFER <PEAK-RESET-TIME <ms | NEVER | RESET> | RESIZING <0 | 1>>",
            "Accepted for test suites, without effect: connections own no reply buffer.",
        ),
        ("SET-ACTIVE-EXPIRE <0 | 1>", "Turn the background deletion of expired keys off or on."),
        (
            "SET-ALLOW-ACCESS-EXPIRED <0 | 1>",
            "Let time stand still for keys and fields, so that none expire.",
        ),
        (
            "SET-DISABLE-DENY-SCRIPTS <0 | 1>",
            "Let scripts call the commands too that are not meant for them, or not.",
        ),
        (
            "SET-SKIP-CHECKSUM-VALIDATION <0 | 1>",
            "Let RESTORE take payloads with any checksum, or not.",
        ),
        ("SLEEP <seconds>", "Let the server stand still for this long; decimals allowed."),
    ],
    ..Meta::new("debug", -2, Group::Server, "1.0.0")
};

/// `SAVE`.
pub const SAVE: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, NO_ASYNC_LOADING, NO_MULTI),
    summary: "Saves the data to disk; nobody else is served meanwhile.",
    complexity: "O(N) where N is the number of keys",
    ..Meta::new("save", 1, Group::Server, "1.0.0")
};

/// `BGSAVE`.
pub const BGSAVE: Meta = Meta {
    // It shows one moment of all keys.
    flags: bits!(Flags: ADMIN, NOSCRIPT, NO_ASYNC_LOADING, TOUCHES_ARBITRARY_KEYS),
    summary: "Saves the data to disk while the server goes on.",
    complexity: "O(1); the saving itself is O(N) where N is the number of keys",
    history: &[("3.2.2", "Option `SCHEDULE`.")],
    arguments: &[Arg::one_of(
        "operation",
        &[
            Arg::word("schedule", "SCHEDULE").since("3.2.2"),
            Arg::word("cancel", "CANCEL").since("8.1.0"),
        ],
    )
    .opt()],
    ..Meta::new("bgsave", -1, Group::Server, "1.0.0")
};

/// `BGREWRITEAOF`.
pub const BGREWRITEAOF: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, NO_ASYNC_LOADING),
    stated_categories: bits!(Categories: ADMIN, DANGEROUS),
    summary: "Rewrites the log in the background, so that it is no longer than the data needs.",
    ..Meta::new("bgrewriteaof", 1, Group::Server, "1.0.0")
};

/// `LASTSAVE`.
pub const LASTSAVE: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE, FAST),
    stated_categories: bits!(Categories: ADMIN, DANGEROUS),
    tips: &["nondeterministic_output"],
    summary: "Returns the Unix time at which the data was last saved.",
    ..Meta::new("lastsave", 1, Group::Server, "1.0.0")
};

/// `SHUTDOWN`.
pub const SHUTDOWN: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE, NO_MULTI, ALLOW_BUSY),
    summary: "Saves the data as configured and stops the server.",
    complexity: "O(N) where N is the number of keys, when saving; otherwise O(1)",
    history: &[("7.0.0", "Options `NOW`, `FORCE` and `ABORT`.")],
    arguments: &[
        Arg::one_of("save-selector", &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")])
            .opt(),
        Arg::word("now", "NOW").since("7.0.0").opt(),
        Arg::word("force", "FORCE").since("7.0.0").opt(),
        Arg::word("abort", "ABORT").since("7.0.0").opt(),
    ],
    ..Meta::new("shutdown", -1, Group::Server, "1.0.0")
};

/// `MONITOR`.
pub const MONITOR: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    summary: "Sends the connection every command that the server executes.",
    complexity: "",
    ..Meta::new("monitor", 1, Group::Server, "1.0.0")
};

/// `LOLWUT`.
pub const LOLWUT: Meta = Meta {
    flags: bits!(Flags: READONLY, FAST),
    summary: "Draws a picture and names the version of the server.",
    complexity: "",
    arguments: &[Arg::integer("version").token("VERSION").opt()],
    ..Meta::new("lolwut", -1, Group::Server, "5.0.0")
};

/// Whether to wait for the memory to be free.
const FLUSH_MODE: Arg = Arg::one_of(
    "flush-type",
    &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
)
.opt();
