//! The parameters of replication: names and values of Redis and Valkey.

use super::params::{Config, I32_MAX, parameters};
use super::table::{Group, Mutability::*, Param};
use super::types::{Text, Word};
use super::value::{Invalid, Rule, Rule::*, Secret, Value};

parameters! {
/// Parameters of replication.
ReplicationConfig, REPLICATION, |config| config.replication;

Replication {
    replicaof: PrimaryAddress = "replicaof" aka "slaveof", List("host port"), "", AtStart,
        "Server to be a replica of; REPLICAOF changes it while the server runs";
    masterauth: Secret = "masterauth" aka "primaryauth", Password, "", Runtime,
        "Password that a replica gives its primary";
    masteruser: Text = "masteruser" aka "primaryuser", AnyText, "", Runtime,
        "User name that a replica gives its primary; empty is the default user";
    repl_timeout: i64 = "repl-timeout", Number { min: 1, max: I32_MAX }, "60", Runtime,
        "Seconds of silence after which a replication link is closed";
    tls_replication: bool = "tls-replication", YesNo, "no", Runtime,
        "Connect to the primary over TLS, with tls-client-cert-file (or tls-cert-file) and the authorities of tls-ca-cert-file";
    replica_announce_ip: Text = "replica-announce-ip" aka "slave-announce-ip", AnyText, "", Runtime,
        "Address that a replica announces, if the one that it connects from cannot be reached";
    replica_announce_port: u16 = "replica-announce-port" aka "slave-announce-port",
        Number { min: 0, max: 65535 }, "0", Runtime, "Port that a replica announces; 0 is the one it listens on";
    replica_announced: bool = "replica-announced", YesNo, "yes", Runtime,
        "Whether sentinels name this replica to clients";
    replica_read_only: bool = "replica-read-only" aka "slave-read-only", YesNo, "yes", Runtime,
        "Refuse writes of a replica's clients";
    replica_serve_stale_data: bool = "replica-serve-stale-data" aka "slave-serve-stale-data", YesNo, "yes", Runtime,
        "Answer clients while the link to the primary is down";
    replica_priority: i64 = "replica-priority" aka "slave-priority", Number { min: 0, max: I32_MAX }, "100", Runtime,
        "Rank in a sentinel's choice of a new primary, the lowest first; 0 is never chosen";
    replica_lazy_flush: bool = "replica-lazy-flush" aka "slave-lazy-flush", YesNo, "yes", Runtime,
        "Free the data that a new copy replaces in the background";
    replica_ignore_maxmemory: bool = "replica-ignore-maxmemory" aka "slave-ignore-maxmemory", YesNo, "yes", Runtime,
        "Leave eviction to the primary; with no, a replica evicts by its own limit, and may hold less than the primary";
    repl_diskless_load: Word = "repl-diskless-load",
        OneOf(&["disabled", "on-empty-db", "swapdb", "flushdb", "flush-before-load"]), "disabled", Runtime,
        "How a replica loads a copy: disabled and swapdb receive it into an unnamed file and check it before it replaces the data (with swapdb, INFO shows async_loading meanwhile); on-empty-db loads it from the socket if there are no keys; flushdb and flush-before-load remove all keys first and load from the socket";
    propagation_error_behavior: Word = "propagation-error-behavior",
        OneOf(&["ignore", "panic", "panic-on-replicas"]), "ignore", Runtime,
        "Reaction of a replica to a failing command of its primary: ignore logs it, panic and panic-on-replicas stop the server";
    repl_backlog_size: u64 = "repl-backlog-size", Memory { min: 1, max: u64::MAX }, "1mb", Runtime,
        "Bytes of the stream kept for replicas that reconnect; at least 16 KiB";
    repl_backlog_ttl: i64 = "repl-backlog-ttl", Number { min: 0, max: i64::MAX }, "3600", Runtime,
        "Seconds without a replica after which a primary frees the backlog; 0 never";
    repl_diskless_sync: bool = "repl-diskless-sync", YesNo, "yes", Runtime,
        "Send copies to replicas while they are made; with no, through an unnamed temporary file";
    repl_diskless_sync_delay: i64 = "repl-diskless-sync-delay", Number { min: 0, max: I32_MAX }, "5", Runtime,
        "Seconds from a replica's request until its copy begins, so that other replicas can share it";
    repl_diskless_sync_max_replicas: i64 = "repl-diskless-sync-max-replicas", Number { min: 0, max: I32_MAX }, "0", Runtime,
        "Number of waiting replicas at which a copy begins without that delay; 0 is no limit";
    repl_effects: bool = "repl-effects", YesNo, "yes", Runtime,
        "Send effects instead of commands if all replicas are Petrels; with no, always commands";
    repl_ping_replica_period: i64 = "repl-ping-replica-period" aka "repl-ping-slave-period",
        Number { min: 1, max: I32_MAX }, "10", Runtime, "Seconds between PINGs in the stream";
    repl_disable_tcp_nodelay: bool = "repl-disable-tcp-nodelay", YesNo, "no", Runtime,
        "Let the kernel batch small packets to replicas, which saves bandwidth and delays changes by up to 40 ms";
    min_replicas_to_write: i64 = "min-replicas-to-write" aka "min-slaves-to-write", Number { min: 0, max: I32_MAX }, "0", Runtime,
        "Number of online replicas, in a cluster of other owners of its hash slots, required for writes; 0 requires none";
    min_replicas_max_lag: i64 = "min-replicas-max-lag" aka "min-slaves-max-lag", Number { min: 0, max: I32_MAX }, "10", Runtime,
        "Seconds of silence after which a replica does not count as online, and an owner that lacks changes does not count; 0 disables min-replicas-to-write";
    shutdown_timeout: i64 = "shutdown-timeout", Number { min: 0, max: I32_MAX }, "10", Runtime,
        "Maximum number of seconds for which a shutdown waits for replicas to acknowledge all writes, and for scripts that have written; 0 does not wait";
}
}

/// The server that this one follows: name or address, and port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PrimaryAddress(Option<(String, u16)>);

impl PrimaryAddress {
    /// A server.
    pub fn new(host: String, port: u16) -> Self {
        PrimaryAddress(Some((host, port)))
    }

    /// None: the server is a primary itself.
    pub fn none() -> Self {
        PrimaryAddress(None)
    }

    /// Name or address, and port, if there is one.
    pub fn get(&self) -> Option<(&str, u16)> {
        self.0.as_ref().map(|(host, port)| (&host[..], *port))
    }
}

impl Value for PrimaryAddress {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        match args {
            [] => Ok(Self::none()),
            [one] if one.is_empty() => Ok(Self::none()),
            [no, one] if no.eq_ignore_ascii_case(b"no") && one.eq_ignore_ascii_case(b"one") => {
                Ok(Self::none())
            }
            [host, port] => {
                let host = std::str::from_utf8(host).ok().filter(|host| !host.is_empty());
                let host = host.ok_or(Invalid::new("the host is no name or address"))?;
                let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                let port = port.filter(|&port| port > 0);
                let port: u16 = port.ok_or(Invalid::new("Invalid master port"))?;
                Ok(Self::new(host.into(), port))
            }
            _ => Err(Invalid::new("a host and a port are expected, or 'no one'")),
        }
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        match &self.0 {
            Some((host, port)) => vec![host.clone().into_bytes(), port.to_string().into_bytes()],
            None => vec![Vec::new()],
        }
    }
}
