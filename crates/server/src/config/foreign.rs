//! Parameters of Redis and Valkey that decide nothing here, so that their files and tools work.
//!
//! There are two classes, distinguished by the group. Parameters of **absent features**: one that
//! enables the feature takes only the value that does not (`Only`, with the reason); one that
//! configures it takes any valid value, shows it again and has no effect. A value that only Redis
//! or only Valkey fixes at start may be set to itself. Parameters of features that **Petrel
//! implements differently**: any valid value is accepted, shown again and has no effect.

use super::params::{Config, I32_MAX, MEMORY, parameters};
use super::table::{Group, Mutability::*, Param};
use super::types::{Fixed, Text, Word};
use super::value::{Rule::*, Value};

const NO_PINNING: &str = "this version of Petrel does not pin its threads to processors";
const NO_HISTOGRAMS: &str = "this version of Petrel keeps no histograms of the sizes of keys";
const NO_MARK: &str = "this version of Petrel does not mark its sockets";
const NO_MPTCP: &str = "this version of Petrel listens on TCP and Unix sockets only";
const NO_SEED: &str = "the seed of the hash function is drawn at start";
const NO_DEPRECATED: &str = "scripts have the functions of Redis 7 and later only";
const NO_COLLATION: &str = "strings are compared byte by byte";

parameters! {
/// Parameters that decide nothing.
Foreign, FOREIGN, |config| config.foreign;

Absent {
    repl_mptcp: bool = "repl-mptcp", YesNo, "no", Kept, "Replicate over several paths";
    replica_full_sync_buffer_limit: u64 = "replica-full-sync-buffer-limit", MEMORY, "0", Runtime,
        "Bytes of changes that a replica keeps while it loads";
    replica_ignore_disk_write_errors: bool = "replica-ignore-disk-write-errors", YesNo, "no", Runtime,
        "Continue as a replica that cannot write to its disk";
    dual_channel_replication_enabled: bool = "dual-channel-replication-enabled", YesNo, "no", Runtime,
        "Send a replica its copy over a connection of its own";
    repl_rdb_channel: bool = "repl-rdb-channel", YesNo, "no", Runtime,
        "As dual-channel-replication-enabled, in Redis; not shown to patterns";
    bind_source_addr: Text = "bind-source-addr", AnyText, "", Runtime, "Address that outgoing connections come from";
}
RedisCluster {
    cluster_config_file: Text = "cluster-config-file", AnyText, "nodes.conf", AtStart, "File that a node keeps its view in";
    cluster_config_save_behavior: Word = "cluster-config-save-behavior", OneOf(&["sync", "best-effort"]), "sync", Runtime,
        "Whether a node must be able to write it";
    cluster_databases: i64 = "cluster-databases", Number { min: 1, max: I32_MAX }, "1", Kept, "Databases of a cluster";
    cluster_blacklist_ttl: i64 = "cluster-blacklist-ttl", Number { min: 0, max: i64::MAX }, "60", Runtime,
        "Seconds for which a forgotten node is not admitted";
    cluster_manual_failover_timeout: i64 = "cluster-manual-failover-timeout", Number { min: 1, max: I32_MAX }, "5000", Runtime,
        "Milliseconds that a manual failover may take";
    cluster_migration_barrier: i64 = "cluster-migration-barrier", Number { min: 0, max: I32_MAX }, "1", Runtime,
        "Number of replicas that a node keeps when others lack one";
    cluster_allow_replica_migration: bool = "cluster-allow-replica-migration", YesNo, "yes", Runtime,
        "Whether replicas go to nodes that lack one";
    cluster_replica_no_failover: bool = "cluster-replica-no-failover" aka "cluster-slave-no-failover", YesNo, "no", Runtime,
        "Never become a master by itself";
    cluster_replica_validity_factor: i64 = "cluster-replica-validity-factor" aka "cluster-slave-validity-factor",
        Number { min: 0, max: I32_MAX }, "10", Runtime, "How old a replica's data may be for a failover";
    cluster_require_full_coverage: bool = "cluster-require-full-coverage", YesNo, "yes", Runtime,
        "Refuse commands while a slot has no node";
    cluster_allow_reads_when_down: bool = "cluster-allow-reads-when-down", YesNo, "no", Runtime,
        "Answer reads while the cluster is down";
    cluster_allow_pubsubshard_when_down: bool = "cluster-allow-pubsubshard-when-down", YesNo, "yes", Runtime,
        "Pass on messages while the cluster is down";
    cluster_announce_client_ipv4: Text = "cluster-announce-client-ipv4", AnyText, "", Runtime,
        "IPv4 address announced to clients";
    cluster_announce_client_ipv6: Text = "cluster-announce-client-ipv6", AnyText, "", Runtime,
        "IPv6 address announced to clients";
    cluster_announce_client_port: u16 = "cluster-announce-client-port", Number { min: 0, max: 65535 }, "0", Runtime,
        "Port announced to clients";
    cluster_announce_client_tls_port: u16 = "cluster-announce-client-tls-port", Number { min: 0, max: 65535 }, "0", Runtime,
        "TLS port announced to clients";
    cluster_link_sendbuf_limit: u64 = "cluster-link-sendbuf-limit", MEMORY, "0", Runtime,
        "Unsent bytes that end a link of the bus";
    cluster_compatibility_sample_ratio: i64 = "cluster-compatibility-sample-ratio", Number { min: 0, max: 100 }, "0", Runtime,
        "Share of commands checked for compatibility with a cluster";
    cluster_slot_stats_enabled: Word = "cluster-slot-stats-enabled", OneOf(&["no", "yes", "cpu", "net", "mem"]), "no", Runtime,
        "Keep statistics of slots";
    cluster_slot_migration_log_max_len: i64 = "cluster-slot-migration-log-max-len", Number { min: 0, max: i64::MAX }, "1000", Runtime,
        "Number of slot migrations that are remembered";
    cluster_slot_migration_handoff_max_lag_bytes: u64 = "cluster-slot-migration-handoff-max-lag-bytes", MEMORY, "1mb", Runtime,
        "Maximum lag in bytes when a slot is handed over";
    cluster_slot_migration_write_pause_timeout: i64 = "cluster-slot-migration-write-pause-timeout",
        Number { min: 0, max: i64::MAX }, "10000", Runtime, "Milliseconds for which writes wait for a handover";
    slot_migration_max_failover_repl_bytes: i64 = "slot-migration-max-failover-repl-bytes",
        Number { min: -1, max: i64::MAX }, "0", Runtime, "Maximum lag in bytes when a migration is taken over";
}
Absent {
    enable_module_command: Word = "enable-module-command", OneOf(&["no", "yes", "local"]), "no", AtStart,
        "Clients that may use MODULE";
    vset_force_single_threaded_execution: bool = "vset-force-single-threaded-execution", YesNo, "no", Kept,
        "Search vector sets on one thread";
    key_memory_histograms: Fixed = "key-memory-histograms", Only(&["no"], NO_HISTOGRAMS), "no", Kept,
        "Keep histograms of the sizes of keys";
    server_cpulist: Fixed = "server-cpulist" aka "server_cpulist", Only(&[""], NO_PINNING), "", AtStart,
        "Processors of the workers";
    bio_cpulist: Fixed = "bio-cpulist" aka "bio_cpulist", Only(&[""], NO_PINNING), "", AtStart,
        "Processors of background threads";
    aof_rewrite_cpulist: Fixed = "aof-rewrite-cpulist" aka "aof_rewrite_cpulist", Only(&[""], NO_PINNING), "", AtStart,
        "Processors of a rewrite of the append-only file";
    bgsave_cpulist: Fixed = "bgsave-cpulist" aka "bgsave_cpulist", Only(&[""], NO_PINNING), "", AtStart,
        "Processors of a snapshot";
    socket_mark_id: Fixed = "socket-mark-id", Only(&["0"], NO_MARK), "0", AtStart, "Mark of the sockets";
    mptcp: Fixed = "mptcp", Only(&["no"], NO_MPTCP), "no", Kept, "Accept connections over several paths";
    rdma_bind: Fixed = "rdma-bind", Only(&[""], NO_MPTCP), "", Runtime, "Addresses for RDMA";
    rdma_port: Fixed = "rdma-port", Only(&["0"], NO_MPTCP), "0", Runtime, "Port for RDMA";
    rdma_rx_size: u64 = "rdma-rx-size", MEMORY, "1mb", Kept, "Receive buffer of RDMA";
    rdma_completion_vector: i64 = "rdma-completion-vector", Number { min: -1, max: 1024 }, "-1", Kept,
        "Interrupt vector of RDMA";
    hash_seed: Fixed = "hash-seed", Only(&[""], NO_SEED), "", Kept, "Seed of the hash function";
    lua_enable_deprecated_api: Fixed = "lua-enable-deprecated-api", Only(&["no"], NO_DEPRECATED), "no", AtStart,
        "Give scripts functions of Lua that Redis 7 dropped; not shown to patterns";
    locale_collate: Fixed = "locale-collate", Only(&["", "C", "POSIX"], NO_COLLATION), "", Runtime,
        "Locale in which SORT ALPHA compares";
}
Otherwise {
    array_slice_size: i64 = "array-slice-size", Number { min: 256, max: 65536 }, "4096", Runtime, "Indexes of a slice of an array";
    array_sparse_kmin: i64 = "array-sparse-kmin", Number { min: 0, max: 256 }, "5", Runtime, "When a slice becomes sparse";
    array_sparse_kmax: i64 = "array-sparse-kmax", Number { min: 0, max: 256 }, "10", Runtime, "When a sparse slice becomes dense";
    lazyexpire_nested_arbitrary_keys: bool = "lazyexpire-nested-arbitrary-keys", YesNo, "yes", Runtime,
        "Expired keys are absent for every command, also within scripts and transactions; not shown to patterns";
    lazyfree_lazy_eviction: bool = "lazyfree-lazy-eviction", YesNo, "yes", Runtime,
        "A large value that is evicted is freed in the background either way";
    lazyfree_lazy_expire: bool = "lazyfree-lazy-expire", YesNo, "yes", Runtime,
        "A large value that expires is freed in the background either way";
    lazyfree_lazy_server_del: bool = "lazyfree-lazy-server-del", YesNo, "yes", Runtime,
        "A large value that is replaced is freed in the background either way";
    lazyfree_lazy_user_del: bool = "lazyfree-lazy-user-del", YesNo, "yes", Runtime,
        "A large value is freed in the background by DEL as by UNLINK";
    active_defrag_ignore_bytes: u64 = "active-defrag-ignore-bytes", Memory { min: 1, max: u64::MAX }, "100mb", Runtime,
        "Compaction decides by itself which pages are worth moving";
    active_defrag_threshold_lower: i64 = "active-defrag-threshold-lower", Number { min: 0, max: 1000 }, "10", Runtime,
        "As active-defrag-ignore-bytes";
    active_defrag_threshold_upper: i64 = "active-defrag-threshold-upper", Number { min: 0, max: 1000 }, "100", Runtime,
        "As active-defrag-ignore-bytes";
    active_defrag_cycle_min: i64 = "active-defrag-cycle-min", Number { min: 1, max: 99 }, "1", Runtime,
        "Compaction takes its share of the rounds that hz sets";
    active_defrag_cycle_max: i64 = "active-defrag-cycle-max", Number { min: 1, max: 99 }, "25", Runtime,
        "As active-defrag-cycle-min";
    active_defrag_cycle_us: i64 = "active-defrag-cycle-us", Number { min: 0, max: 100_000 }, "500", Runtime,
        "As active-defrag-cycle-min";
    active_defrag_max_scan_fields: i64 = "active-defrag-max-scan-fields", Number { min: 1, max: i64::MAX }, "1000", Runtime,
        "As active-defrag-cycle-min";
    activerehashing: bool = "activerehashing", YesNo, "yes", Runtime,
        "Tables grow in parts small enough to need no background work";
    dynamic_hz: bool = "dynamic-hz", YesNo, "yes", Runtime, "Upkeep comes round as often as hz says, whatever the number of clients";
    disable_thp: bool = "disable-thp", YesNo, "yes", AtStart, "Huge pages are declined in any case";
    jemalloc_bg_thread: bool = "jemalloc-bg-thread", YesNo, "yes", Runtime, "The allocator is not jemalloc";
    io_threads: i64 = "io-threads", Number { min: 1, max: 256 }, "1", Runtime,
        "Workers read, execute and write for their connections; threads sets their number";
    io_threads_always_active: bool = "io-threads-always-active", YesNo, "no", Runtime,
        "As io-threads; not shown to patterns";
    io_threads_do_reads: bool = "io-threads-do-reads", YesNo, "no", Runtime,
        "As io-threads";
    prefetch_batch_max_size: i64 = "prefetch-batch-max-size", Number { min: 0, max: 128 }, "16", Runtime,
        "Data for up to 64 commands of a pipeline are prefetched at a time";
    lookahead: i64 = "lookahead", Number { min: 1, max: I32_MAX }, "16", Runtime, "As prefetch-batch-max-size";
    max_new_connections_per_cycle: i64 = "max-new-connections-per-cycle", Number { min: 1, max: 1000 }, "10", Runtime,
        "The first worker accepts all waiting connections";
    max_new_tls_connections_per_cycle: i64 = "max-new-tls-connections-per-cycle", Number { min: 1, max: 1000 }, "1", Runtime,
        "As max-new-connections-per-cycle; the worker that serves a connection does its handshake";
    tls_cluster: bool = "tls-cluster", YesNo, "no", Runtime, "There is no cluster bus";
    list_compress_depth: i64 = "list-compress-depth", Number { min: 0, max: I32_MAX }, "0", Runtime,
        "Lists are packed, but not compressed";
    sanitize_dump_payload: Word = "sanitize-dump-payload", OneOf(&["no", "yes", "clients"]), "no", Runtime,
        "Payloads of RESTORE are always checked in full";
    hide_user_data_from_log: bool = "hide-user-data-from-log", YesNo, "yes", Runtime, "Values are never logged; the name of a key is logged if a load finds it damaged";
    always_show_logo: bool = "always-show-logo", YesNo, "no", AtStart, "There is no logo";
    enable_debug_assert: bool = "enable-debug-assert", YesNo, "no", AtStart,
        "Assertions for tests are compiled in or not; not shown to patterns";
    min_io_threads_avoid_copy_reply: i64 = "min-io-threads-avoid-copy-reply", Number { min: 0, max: I32_MAX }, "7", Runtime,
        "Values of 16 KiB and more are sent without a copy, by any number of threads";
    min_string_size_avoid_copy_reply: i64 = "min-string-size-avoid-copy-reply", Number { min: 0, max: I32_MAX }, "16384", Runtime,
        "As min-io-threads-avoid-copy-reply";
    min_string_size_avoid_copy_reply_threaded: i64 = "min-string-size-avoid-copy-reply-threaded",
        Number { min: 0, max: I32_MAX }, "65536", Runtime, "As min-io-threads-avoid-copy-reply";
    crash_log_enabled: bool = "crash-log-enabled", YesNo, "yes", Runtime, "A panic is always logged with its place";
    crash_memcheck_enabled: bool = "crash-memcheck-enabled", YesNo, "yes", Runtime, "Memory is not tested after a panic";
    ignore_warnings: Text = "ignore-warnings", AnyText, "", Runtime, "Redis's warnings about the host are not logged";
    loading_process_events_interval_bytes: i64 = "loading-process-events-interval-bytes",
        Number { min: 1024, max: I32_MAX }, "524288", Runtime,
        "Connections are always served while data are loaded; not shown to patterns";
    rdb_del_sync_files: bool = "rdb-del-sync-files", YesNo, "no", Runtime,
        "A copy for a replica is never left on the disk: its file is unnamed";
    no_appendfsync_on_rewrite: bool = "no-appendfsync-on-rewrite", YesNo, "no", Runtime,
        "The log is synced by a thread of its own, rewriting or not";
    aof_use_rdb_preamble: bool = "aof-use-rdb-preamble", YesNo, "yes", Runtime,
        "A rewritten log always begins with a snapshot";
    aof_timestamp_enabled: bool = "aof-timestamp-enabled", YesNo, "no", Runtime,
        "Each file of the log has its creation time, and expiries are absolute times";
    aof_disable_auto_gc: bool = "aof-disable-auto-gc", YesNo, "no", Runtime,
        "Files of the log that were replaced are deleted";
}
}
