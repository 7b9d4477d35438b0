//! `CLIENT` and its subcommands.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `CLIENT`.
pub const CLIENT: Meta = Meta {
    summary: "Inspects and controls client connections.",
    complexity: "Depends on subcommand.",
    ..Meta::new("client", -2, Group::Connection, "2.4.0")
};

/// `CLIENT CACHING`.
pub const CACHING: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Says whether to track the keys of the next command.",
    arguments: &[Arg::one_of("mode", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])],
    ..Meta::new("caching", 3, Group::Connection, "6.0.0")
};

/// `CLIENT CAPA`.
pub const CAPA: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Declares what the client is capable of.",
    arguments: &[Arg::string("capability").many()],
    ..Meta::new("capa", -3, Group::Connection, "8.0.0")
};

/// `CLIENT GETNAME`.
pub const GETNAME: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Returns the name of the connection.",
    ..Meta::new("getname", 2, Group::Connection, "2.6.9")
};

/// `CLIENT GETREDIR`.
pub const GETREDIR: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Returns the id of the client that gets this connection's tracking messages.",
    ..Meta::new("getredir", 2, Group::Connection, "6.0.0")
};

/// `CLIENT ID`.
pub const ID: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Returns the id of the connection.",
    ..Meta::new("id", 2, Group::Connection, "5.0.0")
};

/// `CLIENT IMPORT-SOURCE`.
pub const IMPORT_SOURCE: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Marks the connection as the source of an import.",
    arguments: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
    ..Meta::new("import-source", 3, Group::Connection, "8.1.0")
};

/// `CLIENT INFO`.
pub const INFO: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["nondeterministic_output"],
    summary: "Describes the connection.",
    ..Meta::new("info", 2, Group::Connection, "6.2.0")
};

/// `CLIENT KILL`.
pub const KILL: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Closes connections.",
    complexity: "O(N) where N is the number of connections",
    history: &[
        ("2.8.12", "Filters in pairs, `ID` among them."),
        ("3.2.0", "Type `master`."),
        ("5.0.0", "Type `replica`, the new name of `slave`."),
        ("6.2.0", "Filter `LADDR`."),
        ("7.4.0", "Filter `MAXAGE`."),
        ("8.0.0", "Type `primary`, another name of `master`."),
        ("8.1.0", "Several ids."),
        (
            "9.0.0",
            "Filters `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB` and `IP`, and those with `NOT-`.",
        ),
    ],
    arguments: &[Arg::one_of(
        "filter",
        &[
            Arg::string("old-format").shown("ip:port").deprecated("2.8.12"),
            Arg::one_of(
                "new-format",
                &[
                    Arg::integer("client-id").token("ID").since("2.8.12").opt().many(),
                    Arg::one_of(
                        "client-type",
                        &[
                            Arg::word("normal", "NORMAL"),
                            Arg::word("master", "MASTER").since("3.2.0"),
                            Arg::word("primary", "PRIMARY").since("8.0.0"),
                            Arg::word("slave", "SLAVE"),
                            Arg::word("replica", "REPLICA").since("5.0.0"),
                            Arg::word("pubsub", "PUBSUB"),
                        ],
                    )
                    .token("TYPE")
                    .since("2.8.12")
                    .opt(),
                    Arg::string("username").token("USER").opt(),
                    Arg::string("addr").token("ADDR").shown("ip:port").opt(),
                    Arg::string("laddr").token("LADDR").shown("ip:port").since("6.2.0").opt(),
                    SKIPME,
                    Arg::integer("maxage").token("MAXAGE").since("7.4.0").opt(),
                    Arg::string("name").token("NAME").since("9.0.0").opt(),
                    Arg::integer("idle").token("IDLE").since("9.0.0").opt(),
                    Arg::string("flags").token("FLAGS").since("9.0.0").opt(),
                    Arg::string("lib-name").token("LIB-NAME").since("9.0.0").opt(),
                    Arg::string("lib-ver").token("LIB-VER").since("9.0.0").opt(),
                    Arg::integer("db").token("DB").since("9.0.0").opt(),
                    Arg::string("ip").token("IP").since("9.0.0").opt(),
                    NOT_ID,
                    NOT_TYPE,
                    NOT_USER,
                    NOT_ADDR,
                    NOT_LADDR,
                    NOT_NAME,
                    NOT_FLAGS,
                    NOT_LIB_NAME,
                    NOT_LIB_VER,
                    NOT_DB,
                    NOT_IP,
                ],
            )
            .many(),
        ],
    )],
    help: &[
        ("KILL <ip:port>", "Close the connection from this address."),
        (
            "KILL <filter> <value> [<filter> <value> ...]",
            "Close the connections that meet every filter: ID, TYPE, USER, ADDR,\nLADDR, SKIPME (YES unless said), MAXAGE, NAME, IDLE, FLAGS, LIB-NAME,\nLIB-VER, DB, IP. All but SKIPME, MAXAGE and IDLE can begin with NOT-.",
        ),
    ],
    ..Meta::new("kill", -3, Group::Connection, "2.4.0")
};

/// `CLIENT LIST`.
pub const LIST: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["nondeterministic_output"],
    summary: "Describes the open connections.",
    complexity: "O(N) where N is the number of connections",
    history: &[
        ("2.8.12", "Field `id`."),
        ("5.0.0", "Filter `TYPE`."),
        ("6.0.0", "Field `user`."),
        ("6.2.0", "Fields `argv-mem`, `tot-mem`, `laddr` and `redir`; filter `ID`."),
        ("7.0.0", "Fields `resp`, `multi-mem`, `rbs` and `rbp`."),
        ("7.0.3", "Field `ssub`."),
        ("8.1.0", "Filters `USER`, `ADDR`, `LADDR`, `SKIPME` and `MAXAGE`."),
        (
            "9.0.0",
            "Filters `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB` and `IP`, and those with `NOT-`.",
        ),
    ],
    arguments: &[
        Arg::one_of(
            "client-type",
            &[
                Arg::word("normal", "NORMAL"),
                Arg::word("master", "MASTER"),
                Arg::word("primary", "PRIMARY").since("8.0.0"),
                Arg::word("slave", "SLAVE"),
                Arg::word("replica", "REPLICA"),
                Arg::word("pubsub", "PUBSUB"),
            ],
        )
        .token("TYPE")
        .since("5.0.0")
        .opt(),
        Arg::integer("client-id").token("ID").since("6.2.0").opt().many(),
        Arg::string("username").token("USER").since("8.1.0").opt(),
        Arg::string("addr").token("ADDR").shown("ip:port").since("8.1.0").opt(),
        Arg::string("laddr").token("LADDR").shown("ip:port").since("8.1.0").opt(),
        SKIPME.since("8.1.0"),
        Arg::integer("maxage").token("MAXAGE").since("8.1.0").opt(),
        Arg::string("name").token("NAME").since("9.0.0").opt(),
        Arg::integer("idle").token("IDLE").since("9.0.0").opt(),
        Arg::string("flags").token("FLAGS").since("9.0.0").opt(),
        Arg::string("lib-name").token("LIB-NAME").since("9.0.0").opt(),
        Arg::string("lib-ver").token("LIB-VER").since("9.0.0").opt(),
        Arg::integer("db").token("DB").since("9.0.0").opt(),
        Arg::string("ip").token("IP").since("9.0.0").opt(),
        NOT_ID,
        NOT_TYPE,
        NOT_USER,
        NOT_ADDR,
        NOT_LADDR,
        NOT_NAME,
        NOT_FLAGS,
        NOT_LIB_NAME,
        NOT_LIB_VER,
        NOT_DB,
        NOT_IP,
    ],
    help: &[(
        "LIST [<filter> <value> ...]",
        "Describe the connections that meet every filter: those of KILL.",
    )],
    ..Meta::new("list", -2, Group::Connection, "2.4.0")
};

/// `CLIENT NO-EVICT`.
pub const NO_EVICT: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Exempts the connection from client eviction, or ends the exemption.",
    arguments: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
    ..Meta::new("no-evict", 3, Group::Connection, "7.0.0")
};

/// `CLIENT NO-TOUCH`.
pub const NO_TOUCH: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Says whether the connection's commands count as accesses to keys.",
    arguments: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
    ..Meta::new("no-touch", 3, Group::Connection, "7.2.0")
};

/// `CLIENT PAUSE`.
pub const PAUSE: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Holds the commands of clients back for a time.",
    history: &[("6.2.0", "Mode `WRITE`.")],
    arguments: &[
        Arg::integer("timeout"),
        Arg::one_of("mode", &[Arg::word("write", "WRITE"), Arg::word("all", "ALL")])
            .since("6.2.0")
            .opt(),
    ],
    ..Meta::new("pause", -3, Group::Connection, "3.0.0")
};

/// `CLIENT REPLY`.
pub const REPLY: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Turns the replies to this connection on or off.",
    arguments: &[Arg::one_of(
        "action",
        &[Arg::word("on", "ON"), Arg::word("off", "OFF"), Arg::word("skip", "SKIP")],
    )],
    ..Meta::new("reply", 3, Group::Connection, "3.2.0")
};

/// `CLIENT SETINFO`.
pub const SETINFO: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Records the name or version of the client library.",
    arguments: &[Arg::one_of(
        "attr",
        &[Arg::string("libname").token("LIB-NAME"), Arg::string("libver").token("LIB-VER")],
    )],
    ..Meta::new("setinfo", 4, Group::Connection, "7.2.0")
};

/// `CLIENT SETNAME`.
pub const SETNAME: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    summary: "Gives the connection a name.",
    arguments: &[Arg::string("connection-name")],
    ..Meta::new("setname", 3, Group::Connection, "2.6.9")
};

/// `CLIENT TRACKING`.
pub const TRACKING: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Controls the tracking of keys for client-side caching.",
    complexity: "O(1); O(N) with N prefixes",
    arguments: &[
        Arg::one_of("status", &[Arg::word("on", "ON"), Arg::word("off", "OFF")]),
        Arg::integer("client-id").token("REDIRECT").opt(),
        Arg::string("prefix").token("PREFIX").opt().many_tokens(),
        Arg::word("bcast", "BCAST").opt(),
        Arg::word("optin", "OPTIN").opt(),
        Arg::word("optout", "OPTOUT").opt(),
        Arg::word("noloop", "NOLOOP").opt(),
    ],
    ..Meta::new("tracking", -3, Group::Connection, "6.0.0")
};

/// `CLIENT TRACKINGINFO`.
pub const TRACKINGINFO: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Describes the state of key tracking for the connection.",
    ..Meta::new("trackinginfo", 2, Group::Connection, "6.2.0")
};

/// `CLIENT UNBLOCK`.
pub const UNBLOCK: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE, TOUCHES_ARBITRARY_KEYS),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Releases a client from a blocking command.",
    complexity: "O(log N) where N is the number of connections",
    arguments: &[
        Arg::integer("client-id"),
        Arg::one_of(
            "unblock-type",
            &[Arg::word("timeout", "TIMEOUT"), Arg::word("error", "ERROR")],
        )
        .opt(),
    ],
    ..Meta::new("unblock", -3, Group::Connection, "5.0.0")
};

/// `CLIENT UNPAUSE`.
pub const UNPAUSE: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Ends the pause of clients.",
    complexity: "O(N) where N is the number of paused clients",
    ..Meta::new("unpause", 2, Group::Connection, "6.2.0")
};

/// `CLIENT HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::Connection, "5.0.0")
};

/// Whether the caller's own connection is left out.
const SKIPME: Arg =
    Arg::one_of("skipme", &[Arg::word("yes", "YES"), Arg::word("no", "NO")]).token("SKIPME").opt();

/// The types by which clients are told apart.
const TYPES: &[Arg] = &[
    Arg::word("normal", "NORMAL"),
    Arg::word("master", "MASTER"),
    Arg::word("primary", "PRIMARY").since("8.0.0"),
    Arg::word("slave", "SLAVE"),
    Arg::word("replica", "REPLICA"),
    Arg::word("pubsub", "PUBSUB"),
];

const NOT_ID: Arg = Arg::integer("not-client-id").token("NOT-ID").since("9.0.0").opt().many();
const NOT_TYPE: Arg = Arg::one_of("not-client-type", TYPES).token("NOT-TYPE").since("9.0.0").opt();
const NOT_USER: Arg = Arg::string("not-username").token("NOT-USER").since("9.0.0").opt();
const NOT_ADDR: Arg =
    Arg::string("not-addr").token("NOT-ADDR").shown("ip:port").since("9.0.0").opt();
const NOT_LADDR: Arg =
    Arg::string("not-laddr").token("NOT-LADDR").shown("ip:port").since("9.0.0").opt();
const NOT_NAME: Arg = Arg::string("not-name").token("NOT-NAME").since("9.0.0").opt();
const NOT_FLAGS: Arg = Arg::string("not-flags").token("NOT-FLAGS").since("9.0.0").opt();
const NOT_LIB_NAME: Arg = Arg::string("not-lib-name").token("NOT-LIB-NAME").since("9.0.0").opt();
const NOT_LIB_VER: Arg = Arg::string("not-lib-ver").token("NOT-LIB-VER").since("9.0.0").opt();
const NOT_DB: Arg = Arg::integer("not-db").token("NOT-DB").since("9.0.0").opt();
const NOT_IP: Arg = Arg::string("not-ip").token("NOT-IP").since("9.0.0").opt();
