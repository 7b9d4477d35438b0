//! The cluster's commands: `CLUSTER` and its subcommands, `READONLY`, `READWRITE`, `ASKING`, `CLUSTERSCAN`.

use crate::bitset::bits;
use crate::spec::{Arg, Flags, Group, KeySpec, Meta};

/// `CLUSTER`.
pub const CLUSTER: Meta = Meta {
    summary: "Inspects and controls the cluster.",
    complexity: "Depends on subcommand.",
    ..Meta::new("cluster", -2, Group::Cluster, "3.0.0")
};

/// `ASKING`.
pub const ASKING: Meta = Meta {
    flags: bits!(Flags: FAST),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Announces that the next command follows an `-ASK` redirection.",
    ..Meta::new("asking", 1, Group::Cluster, "3.0.0")
};

/// `READONLY`.
pub const READONLY: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE, FAST),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Lets the connection read from a replica of the cluster.",
    ..Meta::new("readonly", 1, Group::Cluster, "3.0.0")
};

/// `READWRITE`.
pub const READWRITE: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE, FAST),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Ends what `READONLY` allows.",
    ..Meta::new("readwrite", 1, Group::Cluster, "3.0.0")
};

/// `CLUSTERSCAN`.
pub const CLUSTERSCAN: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: KEYSPACE),
    keys: &[KeySpec::at(1, bits!(KeyFlags: NOT_KEY))],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    summary: "Iterates over the keys of the whole cluster.",
    complexity: "O(1) for every call, O(N) for a complete iteration",
    arguments: &[
        Arg::string("cursor"),
        Arg::pattern("pattern").token("MATCH").opt(),
        Arg::integer("count").token("COUNT").opt(),
        Arg::string("type").token("TYPE").opt(),
        Arg::integer("slot").token("SLOT").opt(),
    ],
    ..Meta::new("clusterscan", -2, Group::Cluster, "9.1.0")
};

/// Reads what a node knows.
const READS: Flags = bits!(Flags: LOADING, STALE);
/// The same, for administrators.
const INSPECTS: Flags = bits!(Flags: ADMIN, LOADING, STALE);
/// Changes what a node is.
const CHANGES: Flags = bits!(Flags: ADMIN, STALE, NO_ASYNC_LOADING);

const NOTHING: &[&str] = &[];
const VARIES: &[&str] = &["nondeterministic_output"];

const SLOTS: &[Arg] = &[Arg::integer("slot").many()];
const RANGES: &[Arg] =
    &[Arg::block("range", &[Arg::integer("start-slot"), Arg::integer("end-slot")]).many()];
const NODE: &[Arg] = &[Arg::string("node-id")];

/// What of the subcommands differs, one line each.
const fn sub(
    name: &'static str,
    arity: i16,
    flags: Flags,
    tips: &'static [&'static str],
    since: &'static str,
    arguments: &'static [Arg],
    summary: &'static str,
) -> Meta {
    Meta { flags, tips, summary, arguments, ..Meta::new(name, arity, Group::Cluster, since) }
}

/// The subcommands of `CLUSTER`, of Redis and of Valkey.
pub static SUBCOMMANDS: [Meta; 35] = [
    sub("addslots", -3, CHANGES, NOTHING, "3.0.0", SLOTS, "Takes hash slots over."),
    sub("addslotsrange", -4, CHANGES, NOTHING, "7.0.0", RANGES, "Takes ranges of hash slots over."),
    sub("bumpepoch", 2, CHANGES, VARIES, "3.0.0", &[], "Advances the configuration epoch."),
    sub("cancelslotmigrations", 2, CHANGES, NOTHING, "9.0.0", &[], "Cancels all slot migrations."),
    sub(
        "count-failure-reports",
        3,
        INSPECTS,
        VARIES,
        "3.0.0",
        NODE,
        "Returns how many nodes say that a node has failed.",
    ),
    sub(
        "countkeysinslot",
        3,
        bits!(Flags: STALE),
        NOTHING,
        "3.0.0",
        &[Arg::integer("slot")],
        "Returns the number of keys in a hash slot.",
    ),
    sub("delslots", -3, CHANGES, NOTHING, "3.0.0", SLOTS, "Gives hash slots up."),
    sub("delslotsrange", -4, CHANGES, NOTHING, "7.0.0", RANGES, "Gives ranges of hash slots up."),
    sub(
        "failover",
        -2,
        CHANGES,
        NOTHING,
        "3.0.0",
        &[Arg::one_of(
            "options",
            &[Arg::word("force", "FORCE"), Arg::word("takeover", "TAKEOVER")],
        )
        .opt()],
        "Lets a replica take its primary's place.",
    ),
    Meta {
        stated_categories: bits!(Categories: KEYSPACE),
        ..sub(
            "flushslot",
            -3,
            bits!(Flags: WRITE, ADMIN, NO_ASYNC_LOADING),
            NOTHING,
            "9.0.0",
            &[
                Arg::integer("slot"),
                Arg::one_of(
                    "flush-type",
                    &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")],
                )
                .opt(),
            ],
            "Removes the keys of a hash slot.",
        )
    },
    sub("flushslots", 2, CHANGES, NOTHING, "3.0.0", &[], "Gives all hash slots up."),
    sub("forget", 3, CHANGES, NOTHING, "3.0.0", NODE, "Removes a node from the list of nodes."),
    sub(
        "getkeysinslot",
        4,
        bits!(Flags: STALE),
        VARIES,
        "3.0.0",
        &[Arg::integer("slot"), Arg::integer("count")],
        "Returns keys of a hash slot.",
    ),
    sub("getslotmigrations", 2, CHANGES, NOTHING, "9.0.0", &[], "Describes the slot migrations."),
    sub("help", 2, READS, NOTHING, "5.0.0", &[], "Lists the subcommands."),
    sub("info", 2, READS, VARIES, "3.0.0", &[], "Describes the state of the node."),
    sub(
        "keyslot",
        3,
        READS,
        NOTHING,
        "3.0.0",
        &[Arg::string("key")],
        "Returns the hash slot of a key.",
    ),
    sub("links", 2, READS, VARIES, "7.0.0", &[], "Describes the connections to other nodes."),
    sub(
        "meet",
        -4,
        CHANGES,
        NOTHING,
        "3.0.0",
        &[Arg::string("ip"), Arg::integer("port"), Arg::integer("cluster-bus-port").opt()],
        "Introduces another node.",
    ),
    sub(
        "migrateslots",
        -4,
        CHANGES,
        NOTHING,
        "9.0.0",
        &[Arg::block(
            "migration",
            &[
                Arg::integer("start-slot").token("SLOTSRANGE"),
                Arg::integer("end-slot"),
                Arg::string("node-id").token("NODE"),
            ],
        )
        .many()],
        "Moves hash slots to other nodes.",
    ),
    sub(
        "migration",
        -4,
        CHANGES,
        NOTHING,
        "8.4.0",
        &[Arg::one_of(
            "subcommand",
            &[
                Arg::block("import", &[Arg::integer("start-slot"), Arg::integer("end-slot")])
                    .token("IMPORT")
                    .many(),
                Arg::one_of(
                    "cancel",
                    &[Arg::string("task-id").token("ID"), Arg::word("all", "ALL")],
                )
                .token("CANCEL"),
                Arg::one_of(
                    "status",
                    &[Arg::string("task-id").token("ID").opt(), Arg::word("all", "ALL").opt()],
                )
                .token("STATUS"),
            ],
        )],
        "Moves hash slots to this node.",
    ),
    sub("myid", 2, READS, NOTHING, "3.0.0", &[], "Returns the node's id."),
    sub("myshardid", 2, READS, VARIES, "7.2.0", &[], "Returns the id of the node's shard."),
    sub("nodes", 2, READS, VARIES, "3.0.0", &[], "Describes the nodes of the cluster."),
    sub("replicas", 3, INSPECTS, VARIES, "5.0.0", NODE, "Describes the replicas of a primary."),
    sub("replicate", 3, CHANGES, NOTHING, "3.0.0", NODE, "Makes the node a replica of another."),
    sub(
        "reset",
        -2,
        bits!(Flags: ADMIN, NOSCRIPT, STALE),
        NOTHING,
        "3.0.0",
        &[Arg::one_of("reset-type", &[Arg::word("hard", "HARD"), Arg::word("soft", "SOFT")]).opt()],
        "Lets the node forget the cluster.",
    ),
    sub("saveconfig", 2, CHANGES, NOTHING, "3.0.0", &[], "Writes the cluster's configuration."),
    sub(
        "set-config-epoch",
        3,
        CHANGES,
        NOTHING,
        "3.0.0",
        &[Arg::integer("config-epoch")],
        "Sets the configuration epoch of a new node.",
    ),
    sub(
        "setslot",
        -4,
        CHANGES,
        NOTHING,
        "3.0.0",
        &[
            Arg::integer("slot"),
            Arg::one_of(
                "subcommand",
                &[
                    Arg::string("importing").token("IMPORTING").shown("node-id"),
                    Arg::string("migrating").token("MIGRATING").shown("node-id"),
                    Arg::string("node").token("NODE").shown("node-id"),
                    Arg::word("stable", "STABLE"),
                ],
            ),
        ],
        "Binds a hash slot to a node, or begins or ends its migration.",
    ),
    sub("shards", 2, READS, VARIES, "7.0.0", &[], "Describes the shards and their nodes."),
    Meta {
        deprecated: Some(("5.0.0", "`CLUSTER REPLICAS`")),
        ..sub("slaves", 3, INSPECTS, VARIES, "3.0.0", NODE, "Describes the replicas of a primary.")
    },
    sub(
        "slot-stats",
        -4,
        READS,
        &["nondeterministic_output", "request_policy:all_shards"],
        "8.0.0",
        &[Arg::one_of(
            "filter",
            &[
                Arg::block("slotsrange", &[Arg::integer("start-slot"), Arg::integer("end-slot")])
                    .token("SLOTSRANGE"),
                Arg::block(
                    "orderby",
                    &[
                        Arg::string("metric"),
                        Arg::integer("limit").token("LIMIT").opt(),
                        Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")])
                            .opt(),
                    ],
                )
                .token("ORDERBY"),
            ],
        )],
        "Returns figures of hash slots.",
    ),
    Meta {
        deprecated: Some(("7.0.0", "`CLUSTER SHARDS`")),
        ..sub("slots", 2, READS, VARIES, "3.0.0", &[], "Says which nodes have which hash slots.")
    },
    sub("syncslots", -3, CHANGES, VARIES, "8.4.0", &[], "Serves nodes that move hash slots."),
];
