//! The fields of `INFO` in Prometheus's text format: each by its name with the prefix `petrel_`;
//! counters per command, error, database and worker have labels.

use crate::commands::info::{fields, figures};
use crate::observation::traffic::Traffic;
use crate::server::Server;
use petrel_commands::{PeerFigures, UnservedFigures};
use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

/// Sections of `INFO` with only fields of the whole server.
const SECTIONS: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster"];

/// Upper bounds of the buckets of durations, in microseconds.
const BUCKETS_US: [u64; 18] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 100_000, 500_000,
    1_000_000, 10_000_000,
];

/// All metrics.
pub fn text(server: &Server) -> String {
    let mut page = Page(String::new());
    let report = figures(server, &SECTIONS);
    let values: HashMap<_, _> = report.lines().filter_map(|line| line.split_once(':')).collect();
    let value = |name| values.get(name).copied().unwrap_or_default();
    let labels = [
        ("version", value("petrel_version")),
        ("redis_version", value("redis_version")),
        ("run_id", value("run_id")),
        ("io_backend", value("io_backend")),
        ("maxmemory_policy", value("maxmemory_policy")),
    ];
    page.head("info", "gauge", "What runs.");
    page.sample("info", &labels, 1);
    for field in fields() {
        let value = value(field.name).trim_end_matches('%');
        if value.parse::<f64>().is_ok_and(f64::is_finite) {
            page.head(field.name, field.kind, &field.help());
            page.sample(field.name, &[], value);
        }
    }
    workers(server, &mut page);
    peers(server, &mut page);
    commands(server, &mut page);
    let errors = server.commands.errors().into_iter();
    let errors = errors.map(|(code, count)| (String::from_utf8_lossy(&code).into_owned(), count));
    page.family("errors_total", "Error replies by their code.", "error", errors);
    keyspace(server, &mut page);
    page.0
}

fn workers(server: &Server, page: &mut Page) {
    type Read = fn(&Traffic) -> i64;
    const FIGURES: [(&str, &str, Read); 6] = [
        ("worker_turns_total", "Turns of the event loop.", |t| t.turns.load(Relaxed) as i64),
        ("worker_reads_total", "Pieces of input.", |t| t.reads.load(Relaxed) as i64),
        ("worker_writes_total", "Pieces of output.", |t| t.writes.load(Relaxed) as i64),
        ("worker_received_bytes_total", "Bytes received.", |t| t.received.load(Relaxed) as i64),
        ("worker_sent_bytes_total", "Bytes sent.", |t| t.sent.load(Relaxed) as i64),
        ("worker_buffered_bytes", "Bytes in connections' buffers.", |t| t.buffered.load(Relaxed)),
    ];
    for (name, help, read) in FIGURES {
        let traffic = server.traffic().enumerate();
        page.family(name, help, "worker", traffic.map(|(index, t)| (index.to_string(), read(t))));
    }
    let workers = server.workers.iter().enumerate();
    let clients = workers.map(|(index, worker)| (index.to_string(), worker.load.load(Relaxed)));
    page.family("worker_clients", "Connections of the worker.", "worker", clients);
}

type ReadUnserved = fn(&UnservedFigures) -> u64;

/// Figures of slots that wait for a node.
const UNSERVED: [(&str, &str, ReadUnserved); 2] = [
    ("slots", "Hash slots without owners that wait for the node.", |of| of.slots as u64),
    ("since_seconds", "Unix time at which they lost their owners.", |of| of.since),
];

/// State of the links to other members.
fn peers(server: &Server, page: &mut Page) {
    type Read = fn(&PeerFigures) -> u64;
    const FIGURES: [(&str, &str, Read); 6] = [
        ("linked", "Whether the member is linked.", |peer| peer.is_linked.into()),
        ("lag", "Positions that the member has not applied.", |peer| peer.lag),
        ("sent_bytes_total", "Bytes sent to the member.", |peer| peer.sent),
        ("received_bytes_total", "Bytes received from the member.", |peer| peer.received),
        ("forwarded_total", "Commands forwarded to the member.", |peer| peer.forwarded),
        ("served_total", "Commands executed here for the member.", |peer| peer.served),
    ];
    let Some(cluster) = server.commands.cluster.get() else { return };
    let unserved = cluster.unserved();
    for (name, help, read) in UNSERVED {
        let samples = unserved.iter().map(|of| (of.awaited.clone(), read(of)));
        page.family(&format!("cluster_unserved_{name}"), help, "awaited", samples);
    }
    let all = cluster.peers();
    for (name, help, read) in FIGURES {
        let samples = all.iter().map(|peer| (peer.node.to_string(), read(peer)));
        page.family(&format!("cluster_peer_{name}"), help, "peer", samples);
    }
}

fn commands(server: &Server, page: &mut Page) {
    let shared = &server.commands;
    let used: Vec<_> = (0..shared.registry.len() as u16)
        .map(|index| (index, shared.registry.full_name(index).to_string(), shared.command(index)))
        .filter(|(.., stats)| stats.calls + stats.rejected + stats.failed > 0)
        .collect();
    let calls = used.iter().map(|(_, name, stats)| (name.clone(), stats.calls));
    page.family("command_calls_total", "Executions.", "command", calls);
    let micros = used.iter().map(|(_, name, stats)| (name.clone(), stats.nanos / 1000));
    page.family("command_usec_total", "Microseconds spent executing.", "command", micros);
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
        for bound in BUCKETS_US {
            let le = (bound as f64 / 1e6).to_string();
            let labels = [("command", &name[..]), ("le", &le)];
            let count = durations.at_most(bound * 1000).min(total);
            page.sample("command_duration_seconds_bucket", &labels, count);
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
    let keys = used.iter().map(|(db, stats)| (db.clone(), stats.keys));
    page.family("db_keys", "Keys of a database.", "db", keys);
    let volatile = used.iter().map(|(db, stats)| (db.clone(), stats.volatile));
    page.family("db_keys_expiring", "Keys with a time to live.", "db", volatile);
}

/// The text being written. Writing to a string cannot fail.
struct Page(String);

impl Page {
    /// Samples that differ in a label. The name of a counter ends in `_total`.
    fn family<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (String, V)>,
    ) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        self.head(name, kind, help);
        samples.for_each(|(text, value)| self.sample(name, &[(label, &text)], value));
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP petrel_{name} {help}\n# TYPE petrel_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "petrel_{name}");
        for (i, (label, text)) in labels.iter().enumerate() {
            let mark = if i == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{mark}{label}=\"{text}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }
}
