//! Replication: `WAIT`, `WAITAOF`, `ROLE`, `REPLICAOF`, `FAILOVER`.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `WAIT`.
pub const WAIT: Meta = Meta {
    flags: bits!(Flags: BLOCKING),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    summary: "Waits until replicas have received the connection's writes.",
    arguments: &[Arg::integer("numreplicas"), Arg::integer("timeout")],
    ..Meta::new("wait", 3, Group::Generic, "3.0.0")
};

/// `WAITAOF`.
pub const WAITAOF: Meta = Meta {
    flags: bits!(Flags: BLOCKING),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    summary: "Waits until the connection's writes are in the append-only files of the server and of replicas.",
    arguments: &[Arg::integer("numlocal"), Arg::integer("numreplicas"), Arg::integer("timeout")],
    ..Meta::new("waitaof", 4, Group::Generic, "7.2.0")
};

/// `ROLE`.
pub const ROLE: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST),
    stated_categories: bits!(Categories: ADMIN, DANGEROUS),
    summary: "Says whether the server is a primary or a replica.",
    ..Meta::new("role", 1, Group::Server, "2.8.12")
};

/// `REPLICAOF`.
pub const REPLICAOF: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, STALE, NO_ASYNC_LOADING),
    summary: "Makes the server a replica of another, or a primary.",
    arguments: &[SOURCE],
    ..Meta::new("replicaof", 3, Group::Server, "5.0.0")
};

/// `SLAVEOF`.
pub const SLAVEOF: Meta = Meta {
    deprecated: Some(("5.0.0", "`REPLICAOF`")),
    summary: "Makes the server a replica of another, or a primary, by its old name.",
    ..Meta { name: "slaveof", since: "1.0.0", ..REPLICAOF }
};

/// `FAILOVER`.
pub const FAILOVER: Meta = Meta {
    flags: bits!(Flags: ADMIN, NOSCRIPT, STALE),
    summary: "Hands the role of the primary over to a replica.",
    arguments: &[
        Arg::block(
            "target",
            &[Arg::string("host"), Arg::integer("port"), Arg::word("force", "FORCE").opt()],
        )
        .token("TO")
        .opt(),
        Arg::word("abort", "ABORT").opt(),
        Arg::integer("milliseconds").token("TIMEOUT").opt(),
    ],
    ..Meta::new("failover", -1, Group::Server, "6.2.0")
};

/// What to replicate, or nothing.
const SOURCE: Arg = Arg::one_of(
    "args",
    &[
        Arg::block("host-port", &[Arg::string("host"), Arg::integer("port")]),
        Arg::block("no-one", &[Arg::word("no", "NO"), Arg::word("one", "ONE")]),
    ],
);
