//! The table of every parameter: the one place where a parameter is added.
//!
//! Each row gives the field of [`Config`], its type, the name (and older names), what values it
//! takes, the default as an operator would write it, when it may change, and one line of help.
//! Command line, configuration file, `CONFIG`, `--help`, `petrel.conf` and the documentation all
//! follow from it. Parameters of Redis that decide nothing here stand in `foreign.rs`.

use petrel_commands::topology::EndpointType;
use std::path::PathBuf;

use super::cluster::{CLUSTER, ClusterConfig};
use super::foreign::{FOREIGN, Foreign};
use super::logging::*;
use super::notifications::Notifications;
use super::replication::{REPLICATION, ReplicationConfig};
use super::saving::{SavePoints, ShutdownFlags};
use super::search::{OnOom, OnTimeout};
use super::table::{Group, Mutability::*, Param};
use super::tls::{TLS, Tls};
use super::types::*;
use super::value::{Rule::*, Secret, Value};

const MB: u64 = 1 << 20;
pub(super) const I32_MAX: i64 = i32::MAX as i64;
const SIZE: super::value::Rule = Memory { min: 0, max: i64::MAX as u64 };
pub(super) const MEMORY: super::value::Rule = Memory { min: 0, max: u64::MAX };

/// Builds the struct of the values, its default and the table of the rows. `$this` is where the
/// struct lies in `Config`.
macro_rules! parameters {
    ($(#[$about:meta])* $settings:ident, $rows:ident, |$config:ident| $this:expr $(, with $part:ident: $part_ty:ty)*;
    $( $group:ident { $(
        $field:ident: $ty:ty = $name:literal $(aka $alias:literal)*, $rule:expr, $default:literal,
        $mutability:ident, $help:literal;
    )* } )*) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $settings {
            $( $(
                #[doc = concat!("`", $name, "`: ", $help, ".")]
                pub $field: $ty,
            )* )*
            $(
                #[doc = concat!("Those of ", stringify!($part_ty), ".")]
                pub $part: $part_ty,
            )*
        }

        impl Default for $settings {
            /// The defaults of the table; a test parses each of them.
            fn default() -> Self {
                Self {
                    $( $(
                        $field: <$ty as Value>::parse(&$rule, &Param::split_default($rule, $default))
                            .unwrap_or_else(|why| panic!(concat!("default of ", $name, ": {}"), why)),
                    )* )*
                    $( $part: <$part_ty>::default(), )*
                }
            }
        }

        pub(super) const $rows: &[Param] = &[ $( $( Param {
            name: $name,
            aliases: &[$( $alias ),*],
            group: Group::$group,
            rule: $rule,
            default: $default,
            mutability: $mutability,
            help: $help,
            update: |$config: &mut Config, args| $this.$field.update(&$rule, args),
            text: |$config: &Config| $this.$field.text(&$rule),
            arguments: |$config: &Config| $this.$field.arguments(&$rule),
            same: |a, b| {
                let of = |$config: &Config| $this.$field.clone();
                of(a) == of(b)
            },
        }, )* )* ];
    };
}
pub(super) use parameters;

/// Every parameter, in the order of the documentation.
pub static PARAMS: &[Param] = &joined::<
    { OWN.len() + TLS.len() + REPLICATION.len() + CLUSTER.len() + FOREIGN.len() },
>([OWN, TLS, REPLICATION, CLUSTER, FOREIGN]);

const fn joined<const ALL: usize>(tables: [&[Param]; 5]) -> [Param; ALL] {
    let mut all = [OWN[0]; ALL];
    let (mut table, mut row, mut i) = (0, 0, 0);
    while i < ALL {
        if row == tables[table].len() {
            (table, row) = (table + 1, 0);
            continue;
        }
        all[i] = tables[table][row];
        (row, i) = (row + 1, i + 1);
    }
    all
}

parameters! {
/// Every parameter with its present value.
Config, OWN, |config| config, with tls: Tls, with replication: ReplicationConfig,
    with cluster: ClusterConfig, with foreign: Foreign;

Network {
    bind: BindAddresses = "bind", List("addresses"), "* -::*", Runtime,
        "Addresses to listen on, `*` for all; an address with a leading `-` is skipped if this host does not have it";
    port: u16 = "port", Number { min: 0, max: 65535 }, "6379", Runtime,
        "TCP port to listen on; 0 turns TCP off";
    http_port: u16 = "http-port", Number { min: 0, max: 65535 }, "0", Kept,
        "TCP port of /metrics (Prometheus), /health and /ready (docs/monitoring.md), without authentication, and of the web console, /console/; 0 turns it off";
    http_bind: BindAddresses = "http-bind", List("addresses"), "127.0.0.1 -::1", Kept,
        "Addresses of http-port, in the format of bind";
    http_tls: bool = "http-tls", YesNo, "no", Kept,
        "Serve http-port over TLS with tls-cert-file; without TLS the console answers only this machine";
    unixsocket: Option<PathBuf> = "unixsocket", SocketPath, "", AtStart,
        "Path of a Unix socket to listen on, in addition to TCP";
    unixsocketperm: u32 = "unixsocketperm", Octal { max: 0o777 }, "0", AtStart,
        "Mode of the Unix socket in octal; 0 leaves it to the umask";
    unixsocketgroup: Text = "unixsocketgroup", AnyText, "", Kept,
        "Name of the Unix socket's group; empty leaves the server's own group";
    tcp_backlog: u32 = "tcp-backlog", Number { min: 0, max: I32_MAX }, "511", AtStart,
        "Length of the queue of connections not yet accepted; the kernel limits it to net.core.somaxconn";
    tcp_keepalive: u32 = "tcp-keepalive", Number { min: 0, max: I32_MAX }, "300", Runtime,
        "Seconds of silence before a TCP connection is probed; 0 never probes";
    timeout: u32 = "timeout", Number { min: 0, max: I32_MAX }, "0", Runtime,
        "Seconds after which an idle client is closed; 0 never closes";
    protected_mode: bool = "protected-mode", YesNo, "yes", Runtime,
        "Refuse clients from other hosts while no password is set";
}
Security {
    requirepass: Secret = "requirepass", Password, "", Runtime,
        "Password that clients give with AUTH; empty requires none";
    aclfile: Option<PathBuf> = "aclfile", Path, "", AtStart,
        "File of users, read by ACL LOAD and written by ACL SAVE; without it, users are defined by lines `user name rule ...`";
    acl_pubsub_default: Word = "acl-pubsub-default", OneOf(&["allchannels", "resetchannels"]), "resetchannels", Runtime,
        "Whether a new user may use all channels or none";
    acllog_max_len: u64 = "acllog-max-len", Number { min: 0, max: i64::MAX }, "128", Runtime,
        "Number of entries that ACL LOG keeps";
    enable_protected_configs: Permission = "enable-protected-configs",
        OneOf(Permission::NAMES), "no", AtStart,
        "Clients that may change protected parameters with CONFIG SET";
    enable_debug_command: Permission = "enable-debug-command",
        OneOf(Permission::NAMES), "no", AtStart,
        "Clients that may use DEBUG; local means a Unix socket or the loopback address";
}
Threads {
    threads: u32 = "threads", Number { min: 0, max: 1024 }, "0", Runtime,
        "Number of worker threads, each serving its share of the connections; 0 uses all cores available to the process; connections go to at most as many threads as there are cores; a change applies from the next start on";
    io_backend: IoBackend = "io-backend", OneOf(IoBackend::NAMES), "auto", Kept,
        "Interface through which workers use sockets; auto is io_uring if the kernel allows it";
    direct_descriptors: Auto = "direct-descriptors", OneOf(Auto::NAMES), "auto", Kept,
        "Register connections with io_uring instead of using file descriptors, so that the limit of open files does not apply; io_uring only";
    stripes: u32 = "stripes", PowerOfTwo { max: 1 << 16 }, "0", Kept,
        "Number of independently locked parts of the keyspace, a power of two; 0 derives it from the number of threads";
}
Clients {
    maxclients: u32 = "maxclients", Number { min: 1, max: u32::MAX as i64 }, "10000", Runtime,
        "Maximum number of connected clients; more are refused";
    maxmemory_clients: ClientMemory = "maxmemory-clients", MemoryOrPercent, "0", Runtime,
        "Memory of all clients together, in bytes or percent of maxmemory, above which the largest are closed; 0 is no limit";
    client_output_buffer_limit: OutputBufferLimits = "client-output-buffer-limit",
        List("class hard soft seconds"),
        "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60", Runtime,
        "Per class of clients: unsent bytes above which a client is closed at once (hard), or after the given seconds (soft); 0 is no limit";
    client_query_buffer_limit: u64 = "client-query-buffer-limit",
        Memory { min: MB, max: i64::MAX as u64 }, "1gb", Runtime,
        "Maximum size of an incomplete request";
    notify_keyspace_events: Notifications = "notify-keyspace-events", EventLetters, "", Runtime,
        "Letters of the keyspace events to publish, and of the channels to use";
    proto_max_bulk_len: u64 = "proto-max-bulk-len",
        Memory { min: MB, max: i64::MAX as u64 }, "512mb", Runtime,
        "Maximum size of an argument, and so of a string";
}
Keyspace {
    busy_reply_threshold: i64 = "busy-reply-threshold" aka "lua-time-limit", Number { min: 0, max: i64::MAX }, "5000", Runtime,
        "Milliseconds after which a script or a transaction is slow: other clients get BUSY errors, and it may be killed; 0 never";
    script_memory_limit: u64 = "script-memory-limit", Memory { min: 1 << 20, max: u64::MAX }, "512mb", Kept,
        "Memory limit of each thread's scripts, and of its functions";
    availability_zone: Text = "availability-zone", AnyText, "", Runtime,
        "Availability zone of the server, shown by HELLO and INFO in Valkey's dialect";
    dialect: DialectChoice = "dialect", OneOf(DialectChoice::NAMES), "auto", Kept,
        "Dialect of error texts and INFO where Redis and Valkey differ; auto: valkey if the program is named valkey-server, redis otherwise";
    extended_redis_compatibility: bool = "extended-redis-compatibility", YesNo, "no", Runtime,
        "In Valkey's dialect, report Redis as the server's name in HELLO, INFO and LOLWUT";
    databases: u32 = "databases", Number { min: 1, max: 65535 }, "16", AtStart,
        "Number of databases";
    import_mode: bool = "import-mode", YesNo, "no", Runtime,
        "Keep expired keys and evict nothing, for an import from a server that sends its own deletions; CLIENT IMPORT-SOURCE ON lets the importing client see expired keys";
    maxmemory: u64 = "maxmemory", MEMORY, "0", Runtime,
        "Bytes of data, connections and their buffers at which maxmemory-policy applies; 0 is no limit";
    maxmemory_policy: MaxmemoryPolicy = "maxmemory-policy",
        OneOf(MaxmemoryPolicy::NAMES), "noeviction", Runtime,
        "Keys to evict at maxmemory: any key, keys with an expiry, or none (writes are refused)";
    maxmemory_samples: u32 = "maxmemory-samples", Number { min: 1, max: 64 }, "5", Runtime,
        "Number of keys compared for each eviction by a sampled policy; more is more exact and slower";
    lfu_log_factor: u32 = "lfu-log-factor", Number { min: 0, max: I32_MAX }, "10", Runtime,
        "Factor by which the probability of raising an LFU counter falls as it grows";
    lfu_decay_time: u32 = "lfu-decay-time", Number { min: 0, max: I32_MAX }, "1", Runtime,
        "Minutes without use after which an LFU counter is lowered; 0 never";
    active_expire_effort: u32 = "active-expire-effort", Number { min: 1, max: 10 }, "1", Runtime,
        "Effort to find expired keys that are not read: 1 least, 10 most";
    maxmemory_eviction_tenacity: u32 = "maxmemory-eviction-tenacity", Number { min: 0, max: 100 }, "10", Runtime,
        "Time for which a command may evict before it is executed: 50 microseconds per unit up to 10, then 15 % more per unit; 100 is no limit";
    lazyfree_lazy_user_flush: bool = "lazyfree-lazy-user-flush", YesNo, "yes", Runtime,
        "FLUSHDB and FLUSHALL without SYNC free memory in the background";
    activedefrag: bool = "activedefrag", YesNo, "yes", Runtime,
        "Compact the heap, so that free memory within pages returns to the system";
}
Types {
    hash_max_listpack_entries: i64 = "hash-max-listpack-entries" aka "hash-max-ziplist-entries",
        Number { min: 0, max: i64::MAX }, "512", Runtime,
        "Number of fields up to which OBJECT ENCODING of a hash is listpack";
    hash_max_listpack_value: i64 = "hash-max-listpack-value" aka "hash-max-ziplist-value",
        SIZE, "64", Runtime, "Length of a field or a value up to which it is listpack";
    hash_min_template_entries: i64 = "hash-min-template-entries",
        Number { min: 0, max: i64::MAX }, "0", Runtime,
        "Number of fields from which a hash that is written shares the names of its fields with others that have the same; 0 never";
    hash_max_template_entries: i64 = "hash-max-template-entries",
        Number { min: 0, max: i64::MAX }, "0", Runtime,
        "Number of fields up to which it does; 0 without a limit, but compact hashes have at most 128 fields";
    hash_rdb_load_min_template_entries: i64 = "hash-rdb-load-min-template-entries",
        Number { min: 0, max: i64::MAX }, "0", Runtime,
        "Number of fields from which hashes share the names of their fields when an RDB file without such hashes is loaded; 0 never";
    hash_rdb_load_max_template_entries: i64 = "hash-rdb-load-max-template-entries",
        Number { min: 0, max: i64::MAX }, "0", Runtime, "Number of fields up to which they do; 0 without a limit";
    hash_rdb_load_template_disassembly_threshold: i64 = "hash-rdb-load-template-disassembly-threshold",
        Number { min: 0, max: i64::MAX }, "0", Runtime,
        "Hashes with the same fields that a load must bring for them to stay compact; 0 any number";
    list_max_listpack_size: i64 = "list-max-listpack-size" aka "list-max-ziplist-size",
        Number { min: i32::MIN as i64, max: I32_MAX }, "-2", Runtime,
        "Number of elements up to which OBJECT ENCODING of a list is listpack; -1 to -5 are 4 to 64 KiB instead";
    set_max_intset_entries: i64 = "set-max-intset-entries", Number { min: 0, max: i64::MAX }, "512", Runtime,
        "Number of members up to which OBJECT ENCODING of a set of integers is intset";
    set_max_listpack_entries: i64 = "set-max-listpack-entries", Number { min: 0, max: i64::MAX }, "128", Runtime,
        "Number of members up to which OBJECT ENCODING of a set is listpack";
    set_max_listpack_value: i64 = "set-max-listpack-value", Number { min: 0, max: i64::MAX }, "64", Runtime,
        "Length of a member up to which it is listpack";
    zset_max_listpack_entries: i64 = "zset-max-listpack-entries" aka "zset-max-ziplist-entries",
        Number { min: 0, max: i64::MAX }, "128", Runtime,
        "Number of members up to which OBJECT ENCODING of a sorted set is listpack";
    zset_max_listpack_value: i64 = "zset-max-listpack-value" aka "zset-max-ziplist-value",
        SIZE, "64", Runtime, "Length of a member up to which it is listpack";
    stream_node_max_bytes: i64 = "stream-node-max-bytes", SIZE, "4096", Runtime,
        "Maximum size of a stream's node in bytes; 0 is no limit";
    stream_node_max_entries: i64 = "stream-node-max-entries", Number { min: 0, max: i64::MAX }, "100", Runtime,
        "Maximum number of entries in a stream's node; 0 is no limit";
    stream_idmp_duration: i64 = "stream-idmp-duration", Number { min: 1, max: 86400 }, "100", Runtime,
        "Seconds for which a new stream remembers the ids of producers' messages";
    stream_idmp_maxsize: i64 = "stream-idmp-maxsize", Number { min: 1, max: 10000 }, "100", Runtime,
        "Number of ids that a new stream remembers for each producer";
    hll_sparse_max_bytes: i64 = "hll-sparse-max-bytes", SIZE, "3000", Runtime,
        "Size in bytes up to which a HyperLogLog has the sparse encoding";
    bf_error_rate: Share = "bf-error-rate", Fraction, "0.01", Runtime,
        "Rate of false positives of a Bloom filter that a command makes without stating it; above 0.25 it is 0.25";
    bf_initial_size: u64 = "bf-initial-size", Number { min: 1, max: 1 << 30 }, "100", Runtime,
        "Number of items for which such a filter is made";
    bf_expansion_factor: u32 = "bf-expansion-factor", Number { min: 0, max: 32768 }, "2", Runtime,
        "Factor by which each link of such a filter is larger than the one before; 0 makes filters that do not grow";
    cf_bucket_size: u16 = "cf-bucket-size", Number { min: 1, max: 255 }, "2", Runtime,
        "Fingerprints of a bucket of a cuckoo filter that a command makes without stating it";
    cf_initial_size: u64 = "cf-initial-size", Number { min: 2, max: 1 << 30 }, "1024", Runtime,
        "Number of items for which such a filter is made; at least two buckets";
    cf_max_iterations: u16 = "cf-max-iterations", Number { min: 1, max: 65535 }, "20", Runtime,
        "Fingerprints that an item may move before such a filter counts as full";
    cf_expansion_factor: u16 = "cf-expansion-factor", Number { min: 0, max: 32768 }, "1", Runtime,
        "Factor by which each sub-filter of such a filter is larger than the one before; 0 makes filters that do not grow";
    cf_max_expansions: u32 = "cf-max-expansions", Number { min: 1, max: 65536 }, "32", Runtime,
        "Maximum number of sub-filters of a cuckoo filter";
    search_timeout: u64 = "search-timeout", Number { min: 0, max: I32_MAX }, "500", Runtime,
        "Milliseconds after which a query ends; 0 is no limit";
    search_on_timeout: OnTimeout = "search-on-timeout", OneOf(OnTimeout::NAMES), "return", Runtime,
        "Whether a query whose time is over returns what it has found, or fails";
    search_on_oom: OnOom = "search-on-oom", OneOf(OnOom::NAMES), "return", Runtime,
        "What FT.AGGREGATE does when memory exceeds maxmemory: go on, return what it has computed, or fail";
    search_default_dialect: u32 = "search-default-dialect", Number { min: 1, max: 4 }, "1", Runtime,
        "Dialect of queries that state none";
    search_max_search_results: i64 = "search-max-search-results", Number { min: -1, max: 1_000_000 }, "1000000", Runtime,
        "Maximum number of results of FT.SEARCH; -1 for the most";
    search_max_aggregate_results: i64 = "search-max-aggregate-results", Number { min: -1, max: i64::MAX }, "-1", Runtime,
        "Maximum number of results of a page of FT.AGGREGATE; -1 is no limit";
    search_cursor_max_idle: u64 = "search-cursor-max-idle", Number { min: 1, max: i64::MAX }, "300000", Runtime,
        "Milliseconds after which an unread cursor is closed, at most";
    search_index_cursor_limit: u64 = "search-index-cursor-limit", Number { min: 0, max: I32_MAX }, "128", Runtime,
        "Maximum number of cursors of an index";
    tracking_table_max_keys: u64 = "tracking-table-max-keys", Number { min: 0, max: i64::MAX }, "1000000", Runtime,
        "Number of keys tracked for client-side caching; tracked keys beyond it are invalidated; 0 is no limit";
    rdb_version_check: VersionCheck = "rdb-version-check", OneOf(VersionCheck::NAMES), "strict", Runtime,
        "Whether RESTORE accepts payloads with an unknown RDB version";
    dump_dialect: DialectChoice = "dump-dialect", OneOf(DialectChoice::NAMES), "auto", Runtime,
        "Format in which DUMP and snapshots write hashes with expiring fields: that of Redis 7.4 and later, or that of Valkey 9 and later; auto follows dialect";
}
Observability {
    loglevel: LogLevel = "loglevel", OneOf(LogLevel::NAMES), "notice", Runtime,
        "Lowest level of logged messages";
    logfile: Option<PathBuf> = "logfile", Path, "", AtStart,
        "File to log to; empty logs to standard output";
    log_format: LogFormat = "log-format", OneOf(LogFormat::NAMES), "legacy", Runtime,
        "Format of log lines: that of Redis, logfmt, or a JSON object per line";
    log_timestamp_format: LogTimestamp = "log-timestamp-format", OneOf(LogTimestamp::NAMES), "legacy", Runtime,
        "Format of timestamps in the log: that of Redis (in JSON RFC 3339, with the zone), ISO 8601, or Unix time in milliseconds";
    syslog_enabled: bool = "syslog-enabled", YesNo, "no", AtStart, "Log to syslog too";
    syslog_ident: Text = "syslog-ident", AnyText, "petrel", AtStart, "Name in syslog";
    syslog_facility: SyslogFacility = "syslog-facility", OneOf(SyslogFacility::NAMES), "local0", AtStart,
        "Facility of syslog";
    slowlog_log_slower_than: i64 = "slowlog-log-slower-than" aka "commandlog-execution-slower-than",
        Number { min: -1, max: i64::MAX }, "10000", Runtime,
        "Microseconds from which a command enters the slow log; 0 records all, -1 none";
    slowlog_max_len: u64 = "slowlog-max-len" aka "commandlog-slow-execution-max-len", Number { min: 0, max: i64::MAX }, "128", Runtime,
        "Number of entries that the slow log keeps";
    commandlog_request_larger_than: i64 = "commandlog-request-larger-than", Number { min: -1, max: i64::MAX }, "1048576", Runtime,
        "Size in bytes from which a command enters the log of large requests; -1 records none";
    commandlog_large_request_max_len: u64 = "commandlog-large-request-max-len", Number { min: 0, max: i64::MAX }, "128", Runtime,
        "Number of entries that the log of large requests keeps";
    commandlog_reply_larger_than: i64 = "commandlog-reply-larger-than", Number { min: -1, max: i64::MAX }, "1048576", Runtime,
        "Size in bytes of a reply from which a command enters the log of large replies; -1 records none";
    commandlog_large_reply_max_len: u64 = "commandlog-large-reply-max-len", Number { min: 0, max: i64::MAX }, "128", Runtime,
        "Number of entries that the log of large replies keeps";
    slowlog_entry_max_argc: u32 = "slowlog-entry-max-argc", Number { min: 2, max: I32_MAX }, "32", Runtime,
        "Number of arguments that an entry of the slow log shows";
    slowlog_entry_max_string_len: u64 = "slowlog-entry-max-string-len", Number { min: 1, max: i64::MAX }, "128", Runtime,
        "Number of bytes of an argument that it shows";
    latency_monitor_threshold: u64 = "latency-monitor-threshold",
        Number { min: 0, max: i64::MAX }, "0", Runtime,
        "Milliseconds from which LATENCY records an event; 0 records none";
    latency_tracking: bool = "latency-tracking", YesNo, "yes", Runtime,
        "Keep a histogram of the latency of each command";
    latency_tracking_info_percentiles: Percentiles = "latency-tracking-info-percentiles",
        List("percentiles"), "50 99 99.9", Runtime,
        "Percentiles that INFO latencystats shows for each command";
}
Snapshot {
    dbfilename: PathBuf = "dbfilename", FileName, "dump.rdb", Protected,
        "Snapshot file in the working directory, loaded at start if it exists";
    save: SavePoints = "save", Points, "3600 1 300 100 60 10000", Runtime,
        "Pairs of seconds and changes: save in the background when this time has passed since the last save with at least this number of changes; empty never saves automatically";
    stop_writes_on_bgsave_error: bool = "stop-writes-on-bgsave-error", YesNo, "yes", Runtime,
        "Refuse writes after a background save has failed, if there are save points";
    rdbcompression: bool = "rdbcompression", YesNo, "yes", Runtime,
        "Compress long strings";
    rdbchecksum: bool = "rdbchecksum", YesNo, "yes", AtStart,
        "Write a checksum at the end of the file, and verify it when loading";
    rdb_version: Word = "rdb-version", OneOf(&["auto", "9", "10", "11", "12", "13", "14", "15"]), "auto", Runtime,
        "Highest RDB version of a snapshot, for servers that know no higher one (9: Redis 6; 10: Redis 7.0; 11: Redis 7.2, Valkey 7.2 and 8); parts of streams that the version cannot express, and functions before 10, are left out; expiring fields need 12, compact hashes are ordinary ones below 15. auto: the lowest version that loses nothing";
    rdb_key_save_delay: i64 = "rdb-key-save-delay", Number { min: i32::MIN as i64, max: I32_MAX }, "0", Runtime,
        "Microseconds that BGSAVE waits for each key, for tests; not shown to patterns";
    key_load_delay: i64 = "key-load-delay", Number { min: i32::MIN as i64, max: I32_MAX }, "0", Runtime,
        "Microseconds that a thread loading a snapshot waits for each key, for tests; not shown to patterns";
    rdb_save_incremental_fsync: bool = "rdb-save-incremental-fsync", YesNo, "yes", Runtime,
        "Sync a snapshot after every few megabytes instead of once at the end";
}
Log {
    appendonly: bool = "appendonly", YesNo, "no", Runtime,
        "Keep a log of all changes, which is loaded at start";
    appendfsync: Word = "appendfsync", OneOf(&["everysec", "always", "no"]), "everysec", Runtime,
        "Policy of syncing the log: once a second, before each reply to a write, or left to the system";
    appenddirname: Text = "appenddirname", AnyText, "appendonlydir", AtStart,
        "Directory of the log, in the working directory";
    appendfilename: Text = "appendfilename", AnyText, "appendonly.aof", AtStart,
        "Prefix of the names of the log's files";
    auto_aof_rewrite_percentage: i64 = "auto-aof-rewrite-percentage", Number { min: 0, max: I32_MAX }, "100", Runtime,
        "Growth of the log, in percent, after which it is rewritten; 0 never rewrites automatically; the minimum pause after a rewrite is four times its duration, and at least a minute, unless the growth is ten times this value";
    auto_aof_rewrite_min_size: u64 = "auto-aof-rewrite-min-size", MEMORY, "64mb", Runtime,
        "Minimum size of the log for an automatic rewrite";
    aof_rewrite_incremental_fsync: bool = "aof-rewrite-incremental-fsync", YesNo, "yes", Runtime,
        "Like rdb-save-incremental-fsync, for the base of a rewritten log";
    aof_load_truncated: bool = "aof-load-truncated", YesNo, "yes", Runtime,
        "Start from a log with an incomplete last write";
    aof_load_corrupt_tail_max_size: i64 = "aof-load-corrupt-tail-max-size", Number { min: 0, max: i64::MAX }, "0", Runtime,
        "Maximum number of invalid bytes at the end of an append-only file of Redis or Valkey that are dropped at start";
}
Backup {
    backupdirname: PathBuf = "backupdirname", DirectoryName, "backupdir", AtStart,
        "Directory of BACKUP, in the working directory";
    backup_sealed_ttl: i64 = "backup-sealed-ttl", Number { min: 0, max: I32_MAX }, "0", Runtime,
        "Seconds after which the files of a sealed backup are removed; 0 keeps them until BACKUP CLEANUP";
    preload_file: PreloadFile = "preload-file", Preload, "", AtStart,
        "File to start from instead of the log and the snapshot: rdb:/PATH of a snapshot, or aof:/PATH of a manifest, such as that of a backup";
    backup_store: Text = "backup-store", AnyText, "", Kept,
        "Object store for backups: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY; credentials are taken from the environment";
    backup_snapshots: bool = "backup-snapshots", YesNo, "yes", Runtime,
        "Upload each saved snapshot, if there is a store";
    backup_log_interval: u32 = "backup-log-interval", Number { min: 0, max: I32_MAX }, "60", Runtime,
        "Seconds after which the log continues in a new file and the old one is uploaded, if there is a log and a store; 0 uploads no log";
    backup_keep: u64 = "backup-keep", Number { min: 0, max: i64::MAX }, "0", Runtime,
        "Number of newest snapshots, and of newest logs, to keep in the store; 0 keeps all";
    backup_shutdown_timeout: u32 = "backup-shutdown-timeout", Number { min: 0, max: I32_MAX }, "10", Runtime,
        "Seconds for which a shutdown waits for the upload of saved data";
    restore_from: Text = "restore-from", AnyText, "", Kept,
        "Backup to start from if there is no data yet: the address of a store for its newest backup, or ADDRESS@NAME";
}
Process {
    dir: PathBuf = "dir", Directory, "./", Protected,
        "Working directory, the base of relative paths";
    daemonize: bool = "daemonize", YesNo, "no", AtStart,
        "Leave the terminal and run in the background";
    supervised: Supervised = "supervised", OneOf(Supervised::NAMES), "no", AtStart,
        "Supervisor to notify when the server is ready; auto detects it from the environment";
    pidfile: Option<PathBuf> = "pidfile", Path, "", AtStart,
        "File with the process id while the server runs";
    oom_score_adj: OomAdjustment = "oom-score-adj", OneOf(OomAdjustment::NAMES), "no", Runtime,
        "Adjust the score by which the kernel chooses a process to kill when memory runs out; yes is relative to the score at start";
    oom_score_adj_values: OomScores = "oom-score-adj-values", List("three scores"), "0 200 800", Runtime,
        "Scores; only the first is used: the others are for replicas and child processes";
    set_proc_title: bool = "set-proc-title", YesNo, "yes", AtStart,
        "Show the server's address in process listings";
    proc_title_template: ProcTitleTemplate = "proc-title-template",
        Template, "{title} {listen-addr} {server-mode}", Runtime,
        "Title in process listings; also knows {port} {tls-port} {unixsocket} {config-file}";
    shutdown_on_sigint: ShutdownFlags = "shutdown-on-sigint", Flags, "default", Runtime,
        "Options of a shutdown by SIGINT; default saves if there are save points, and continues running if that fails";
    shutdown_on_sigterm: ShutdownFlags = "shutdown-on-sigterm", Flags, "default", Runtime,
        "Options of a shutdown by SIGTERM";
    hz: u32 = "hz", Clamped { min: 1, max: 500 }, "10", Runtime,
        "Rounds of background work per second; each takes at most a fiftieth of the time between two";
}
}

impl Config {
    /// Type of the addresses that clients of Redis Cluster get.
    pub fn endpoint_type(&self) -> EndpointType {
        match &self.cluster.preferred_endpoint_type {
            kind if kind.is("hostname") => EndpointType::Hostname,
            kind if kind.is("unknown-endpoint") => EndpointType::Unknown,
            _ => EndpointType::Ip,
        }
    }

    /// Number of worker threads: `threads`, or by default the number of processors available to the
    /// process (considering CPU affinity and cgroup quota).
    pub fn worker_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads as usize,
        }
    }
}
