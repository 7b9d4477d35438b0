//! The fields of `INFO` in Prometheus's text format: each by its name with the prefix `petrel_`;
//! counters per command, error, database and worker have labels.

use crate::commands::info::figures;
use crate::server::Server;
use petrel_commands::PeerFigures;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

/// Sections of `INFO` with only fields of the whole server.
const SECTIONS: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster"];

/// Names, or their prefixes, of counters; other fields are gauges.
const COUNTERS: [&str; 22] = [
    "total_",
    "expired_",
    "evicted_",
    "rejected_connections",
    "keyspace_hits",
    "keyspace_misses",
    "used_cpu_",
    "lazyfreed_",
    "acl_access_denied_",
    "client_query_buffer_limit_disconnections",
    "client_output_buffer_limit_disconnections",
    "eventloop_cycles",
    "sync_",
    "unexpected_error_replies",
    "dump_payload_sanitizations",
    "active_defrag_hits",
    "active_defrag_misses",
    "active_defrag_key_",
    "backup_total_",
    "cluster_commands_",
    "cluster_bytes_",
    "cluster_differences",
];

/// Names that begin as a counter's and are none.
const GAUGES: [&str; 4] = [
    "total_system_memory",
    "total_watched_keys",
    "total_blocking_keys",
    "total_active_defrag_time",
];

/// Upper bounds of the buckets of durations, in nanoseconds.
const BUCKETS_NS: [u64; 18] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// All metrics.
pub fn text(server: &Server) -> String {
    let mut page = Page(String::new());
    let report = figures(server, &SECTIONS);
    let value = |name: &str| {
        let mut lines = report.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
    };
    let labels = [
        ("version", value("petrel_version")),
        ("redis_version", value("redis_version")),
        ("run_id", value("run_id")),
        ("io_backend", value("io_backend")),
        ("maxmemory_policy", value("maxmemory_policy")),
    ];
    page.head("info", "gauge", "What runs.");
    page.sample("info", &labels, 1);
    for (name, figure) in report.lines().filter_map(|line| line.split_once(':')) {
        page.figure(name, figure.trim_end_matches('%'));
    }
    workers(server, &mut page);
    held(server, &mut page);
    peers(server, &mut page);
    commands(server, &mut page);
    page.head("errors_total", "counter", "Error replies by their code.");
    for (code, count) in server.commands.errors() {
        page.sample("errors_total", &[("error", &String::from_utf8_lossy(&code))], count);
    }
    keyspace(server, &mut page);
    page.0
}

fn workers(server: &Server, page: &mut Page) {
    type Read = fn(&crate::observation::traffic::Traffic) -> i64;
    const FIGURES: [(&str, &str, &str, Read); 6] = [
        ("worker_turns_total", "counter", "Turns of the event loop.", |t| {
            t.turns.load(Relaxed) as i64
        }),
        ("worker_reads_total", "counter", "Pieces of input.", |t| t.reads.load(Relaxed) as i64),
        ("worker_writes_total", "counter", "Pieces of output.", |t| t.writes.load(Relaxed) as i64),
        ("worker_received_bytes_total", "counter", "Bytes received.", |t| {
            t.received.load(Relaxed) as i64
        }),
        ("worker_sent_bytes_total", "counter", "Bytes sent.", |t| t.sent.load(Relaxed) as i64),
        ("worker_buffered_bytes", "gauge", "Bytes in its connections' buffers.", |t| {
            t.buffered.load(Relaxed)
        }),
    ];
    for (name, kind, help, read) in FIGURES {
        page.head(name, kind, help);
        for (index, traffic) in server.traffic().enumerate() {
            page.sample(name, &[("worker", &index.to_string())], read(traffic));
        }
    }
    page.head("worker_clients", "gauge", "Connections of the worker.");
    for (index, worker) in server.workers.iter().enumerate() {
        page.sample("worker_clients", &[("worker", &index.to_string())], worker.load.load(Relaxed));
    }
}

/// Slots, keys and copies held by this member of a cluster.
fn held(server: &Server, page: &mut Page) {
    let Some(cluster) = server.commands.cluster.get() else { return };
    let held = cluster.held();
    for (name, kind, help, value) in [
        ("cluster_slots_held", "gauge", "Hash slots with their data on this member.", held.slots),
        (
            "cluster_slots_coming",
            "gauge",
            "Hash slots with their data still arriving.",
            held.slots_coming,
        ),
        (
            "cluster_copies_taken_total",
            "counter",
            "Copies of other members' keys.",
            held.copies_taken,
        ),
        ("cluster_copies_read_total", "counter", "Commands that read copies.", held.copies_read),
        ("cluster_keys_shared", "gauge", "Keys with copies at other members.", held.keys_shared),
    ] {
        page.head(name, kind, help);
        page.sample(name, &[], value);
    }
}

/// State of the links to other members.
fn peers(server: &Server, page: &mut Page) {
    type Read = fn(&PeerFigures) -> u64;
    const FIGURES: [(&str, &str, &str, Read); 6] = [
        ("cluster_peer_linked", "gauge", "Whether the member is linked.", |peer| {
            peer.is_linked.into()
        }),
        ("cluster_peer_lag", "gauge", "Positions that the member has not applied.", |peer| {
            peer.lag
        }),
        ("cluster_peer_sent_bytes_total", "counter", "Bytes sent to the member.", |peer| peer.sent),
        (
            "cluster_peer_received_bytes_total",
            "counter",
            "Bytes received from the member.",
            |peer| peer.received,
        ),
        ("cluster_peer_forwarded_total", "counter", "Commands forwarded to the member.", |peer| {
            peer.forwarded
        }),
        (
            "cluster_peer_served_total",
            "counter",
            "Commands executed here for the member.",
            |peer| peer.served,
        ),
    ];
    let Some(cluster) = server.commands.cluster.get() else { return };
    let all = cluster.peers();
    for (name, kind, help, read) in FIGURES {
        page.head(name, kind, help);
        for peer in &all {
            page.sample(name, &[("peer", &peer.node)], read(peer));
        }
    }
}

fn commands(server: &Server, page: &mut Page) {
    let shared = &server.commands;
    let used: Vec<_> = (0..shared.registry.len() as u16)
        .map(|index| (index, shared.registry.full_name(index).to_string(), shared.command(index)))
        .filter(|(.., stats)| stats.calls + stats.rejected + stats.failed > 0)
        .collect();
    page.head("command_calls_total", "counter", "Executions.");
    for (_, name, stats) in &used {
        page.sample("command_calls_total", &[("command", name)], stats.calls);
    }
    page.head("command_usec_total", "counter", "Microseconds spent executing.");
    for (_, name, stats) in &used {
        page.sample("command_usec_total", &[("command", name)], stats.nanos / 1000);
    }
    page.head("command_errors_total", "counter", "Calls that were refused or failed.");
    for (_, name, stats) in &used {
        for (kind, count) in [("rejected", stats.rejected), ("failed", stats.failed)] {
            page.sample("command_errors_total", &[("command", name), ("kind", kind)], count);
        }
    }
    page.head(
        "command_duration_seconds",
        "histogram",
        "Durations of executions, while latency-tracking is on.",
    );
    for (index, name, stats) in &used {
        let durations = shared.durations(*index);
        let total = durations.total();
        if total == 0 {
            continue;
        }
        for bound in BUCKETS_NS {
            let le = (bound as f64 / 1e9).to_string();
            let labels = [("command", &name[..]), ("le", &le)];
            page.sample(
                "command_duration_seconds_bucket",
                &labels,
                durations.at_most(bound).min(total),
            );
        }
        let labels = [("command", &name[..]), ("le", "+Inf")];
        page.sample("command_duration_seconds_bucket", &labels, total);
        let labels = [("command", &name[..])];
        page.sample("command_duration_seconds_sum", &labels, stats.nanos as f64 / 1e9);
        page.sample("command_duration_seconds_count", &labels, total);
    }
}

fn keyspace(server: &Server, page: &mut Page) {
    let databases = 0..server.keyspace.databases();
    let used: Vec<_> = databases
        .map(|db| (db.to_string(), server.keyspace.db_stats(db)))
        .filter(|(db, stats)| stats.keys > 0 || db == "0")
        .collect();
    page.head("db_keys", "gauge", "Keys of a database.");
    used.iter().for_each(|(db, stats)| page.sample("db_keys", &[("db", db)], stats.keys));
    page.head("db_keys_expiring", "gauge", "Keys with a time to live.");
    used.iter()
        .for_each(|(db, stats)| page.sample("db_keys_expiring", &[("db", db)], stats.volatile));
}

/// The text being written. Writing to a string cannot fail.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP petrel_{name} {help}\n# TYPE petrel_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "petrel_{name}{{");
        for (i, (label, text)) in labels.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{comma}{label}=\"{text}\"");
        }
        let _ = writeln!(self.0, "}} {value}");
    }

    /// A line of `INFO`, if its value is a number.
    fn figure(&mut self, name: &str, value: &str) {
        let is_name =
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_name || !value.parse::<f64>().is_ok_and(f64::is_finite) || is_id(name) {
            return;
        }
        let is_counter = COUNTERS.iter().any(|counter| name.starts_with(counter));
        let is_counter = is_counter && !GAUGES.iter().any(|gauge| name.starts_with(gauge));
        let kind = if is_counter { "counter" } else { "gauge" };
        let _ = write!(self.0, "# TYPE petrel_{name} {kind}\npetrel_{name} {value}\n");
    }
}

/// Values that look like numbers by chance.
fn is_id(name: &str) -> bool {
    name.ends_with("_version")
        || name.contains("_git_")
        || name.ends_with("_id")
        || name.contains("replid")
}
