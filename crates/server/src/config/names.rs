//! What a name that no parameter has was perhaps meant to be.

use super::params::PARAMS;
use super::table::Param;

/// A help for the operator who wrote an unknown name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hint {
    /// A name like it exists.
    DidYouMean(&'static str),
    /// Redis or Valkey have this parameter.
    OfRedis,
    /// Nothing is near.
    None,
}

/// What to say about `name`, which no parameter has.
pub(super) fn hint(name: &str) -> Hint {
    let name = name.to_ascii_lowercase();
    if OF_REDIS_ONLY.binary_search(&name.as_str()).is_ok() {
        return Hint::OfRedis;
    }
    let known = PARAMS.iter().flat_map(Param::names).chain(["include"]);
    let nearest = known.map(|known| (distance(&name, known), known)).min();
    match nearest {
        Some((edits, known)) if edits <= known.len().div_ceil(3).min(4) => Hint::DidYouMean(known),
        _ => Hint::None,
    }
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other
/// (optimal string alignment). Names past 64 bytes are as far as can be.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().max(b.len()) > 64 {
        return usize::MAX;
    }
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// Names of Redis and Valkey that this version does not have, sorted.
const OF_REDIS_ONLY: &[&str] = &[
    "acl-pubsub-default",
    "aclfile",
    "acllog-max-len",
    "active-defrag-cycle-max",
    "active-defrag-cycle-min",
    "active-defrag-cycle-us",
    "active-defrag-ignore-bytes",
    "active-defrag-max-scan-fields",
    "active-defrag-threshold-lower",
    "active-defrag-threshold-upper",
    "activerehashing",
    "always-show-logo",
    "aof-disable-auto-gc",
    "aof-load-truncated",
    "aof-rewrite-cpulist",
    "aof-rewrite-incremental-fsync",
    "aof-timestamp-enabled",
    "aof-use-rdb-preamble",
    "aof_rewrite_cpulist",
    "appenddirname",
    "appendfilename",
    "appendfsync",
    "auto-aof-rewrite-min-size",
    "auto-aof-rewrite-percentage",
    "availability-zone",
    "bgsave-cpulist",
    "bgsave_cpulist",
    "bind-source-addr",
    "bio-cpulist",
    "bio_cpulist",
    "busy-reply-threshold",
    "cluster-allow-pubsubshard-when-down",
    "cluster-allow-reads-when-down",
    "cluster-allow-replica-migration",
    "cluster-announce-bus-port",
    "cluster-announce-client-ipv4",
    "cluster-announce-client-ipv6",
    "cluster-announce-hostname",
    "cluster-announce-human-nodename",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-announce-tls-port",
    "cluster-blacklist-ttl",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-link-sendbuf-limit",
    "cluster-migration-barrier",
    "cluster-node-timeout",
    "cluster-port",
    "cluster-preferred-endpoint-type",
    "cluster-replica-no-failover",
    "cluster-replica-validity-factor",
    "cluster-require-full-coverage",
    "cluster-slave-no-failover",
    "cluster-slave-validity-factor",
    "cluster-slot-migration-log-max-len",
    "cluster-slot-stats-enabled",
    "commandlog-execution-slower-than",
    "commandlog-large-reply-max-len",
    "commandlog-large-request-max-len",
    "commandlog-reply-larger-than",
    "commandlog-request-larger-than",
    "commandlog-slow-execution-max-len",
    "crash-log-enabled",
    "crash-memcheck-enabled",
    "dbfilename",
    "disable-thp",
    "dual-channel-replication-enabled",
    "dynamic-hz",
    "enable-module-command",
    "events-per-io-thread",
    "extended-redis-compatibility",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "hash-max-ziplist-entries",
    "hash-max-ziplist-value",
    "hide-user-data-from-log",
    "hll-sparse-max-bytes",
    "ignore-warnings",
    "import-mode",
    "io-threads-always-active",
    "io-threads-do-reads",
    "jemalloc-bg-thread",
    "key-load-delay",
    "lazyexpire-nested-arbitrary-keys",
    "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire",
    "lazyfree-lazy-server-del",
    "lazyfree-lazy-user-del",
    "list-compress-depth",
    "list-max-listpack-size",
    "list-max-ziplist-size",
    "loadmodule",
    "loadmodule-ex",
    "locale-collate",
    "log-format",
    "log-timestamp-format",
    "lua-enable-deprecated-api",
    "lua-insecure-api",
    "lua-time-limit",
    "masterauth",
    "masteruser",
    "max-new-connections-per-cycle",
    "max-new-tls-connections-per-cycle",
    "maxmemory-eviction-tenacity",
    "min-io-threads-avoid-copy-reply",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "min-slaves-max-lag",
    "min-slaves-to-write",
    "no-appendfsync-on-rewrite",
    "notify-keyspace-events",
    "oom-score-adj",
    "oom-score-adj-values",
    "prefetch-batch-max-size",
    "primaryauth",
    "primaryuser",
    "propagation-error-behavior",
    "rdb-del-sync-files",
    "rdb-key-save-delay",
    "rdb-save-incremental-fsync",
    "rdbchecksum",
    "rdbcompression",
    "rdma-bind",
    "rdma-port",
    "rdma-rx-size",
    "rename-command",
    "repl-backlog-size",
    "repl-backlog-ttl",
    "repl-disable-tcp-nodelay",
    "repl-diskless-load",
    "repl-diskless-sync",
    "repl-diskless-sync-delay",
    "repl-diskless-sync-max-replicas",
    "repl-ping-replica-period",
    "repl-ping-slave-period",
    "repl-timeout",
    "replica-announce-ip",
    "replica-announce-port",
    "replica-announced",
    "replica-ignore-disk-write-errors",
    "replica-ignore-maxmemory",
    "replica-lazy-flush",
    "replica-priority",
    "replica-read-only",
    "replica-serve-stale-data",
    "replicaof",
    "sanitize-dump-payload",
    "sentinel",
    "server-cpulist",
    "server_cpulist",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "shutdown-on-sigint",
    "shutdown-on-sigterm",
    "shutdown-timeout",
    "slave-announce-ip",
    "slave-announce-port",
    "slave-ignore-maxmemory",
    "slave-lazy-flush",
    "slave-priority",
    "slave-read-only",
    "slave-serve-stale-data",
    "slaveof",
    "socket-mark-id",
    "stop-writes-on-bgsave-error",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tls-auth-clients",
    "tls-auth-clients-user",
    "tls-ca-cert-dir",
    "tls-ca-cert-file",
    "tls-cert-file",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-client-cert-file",
    "tls-client-key-file",
    "tls-client-key-file-pass",
    "tls-cluster",
    "tls-dh-params-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-port",
    "tls-prefer-server-ciphers",
    "tls-protocols",
    "tls-replication",
    "tls-session-cache-size",
    "tls-session-cache-timeout",
    "tls-session-caching",
    "tracking-table-max-keys",
    "unixsocketgroup",
    "user",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
    "zset-max-ziplist-entries",
    "zset-max-ziplist-value",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_find_their_parameter() {
        for (slip, meant) in [
            ("maxmemmory", "maxmemory"),
            ("prot", "port"),
            ("MAXMEMORY-POLCY", "maxmemory-policy"),
            ("thread", "threads"),
            ("requirepas", "requirepass"),
            ("inlcude", "include"),
            ("io-thread", "io-threads"),
            ("max-clients", "maxclients"),
        ] {
            assert_eq!(hint(slip), Hint::DidYouMean(meant), "{slip}");
        }
    }

    #[test]
    fn what_is_like_nothing_gets_no_suggestion() {
        for name in ["", "foo", "kubernetes", &"x".repeat(100_000)] {
            assert_eq!(hint(name), Hint::None, "{name}");
        }
    }

    #[test]
    fn what_only_redis_has_is_said_to_be_so() {
        assert_eq!(hint("appendfsync"), Hint::OfRedis);
        assert_eq!(hint("ReplicaOf"), Hint::OfRedis);
    }

    #[test]
    fn the_names_of_redis_are_sorted_and_not_ours() {
        assert!(OF_REDIS_ONLY.is_sorted());
        assert!(OF_REDIS_ONLY.iter().all(|name| Param::find(name.as_bytes()).is_none()));
    }
}
