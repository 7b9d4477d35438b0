//! The fields of `INFO` as metrics, in the formats of OpenMetrics and of Prometheus; counters per
//! command, error, database and worker have labels.

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

/// Upper bounds of the buckets of durations: microseconds, and seconds as OpenMetrics writes them.
const BUCKETS: [(u64, &str); 18] = [
    (1, "1e-06"),
    (2, "2e-06"),
    (5, "5e-06"),
    (10, "1e-05"),
    (20, "2e-05"),
    (50, "5e-05"),
    (100, "0.0001"),
    (200, "0.0002"),
    (500, "0.0005"),
    (1000, "0.001"),
    (2000, "0.002"),
    (5000, "0.005"),
    (10_000, "0.01"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (500_000, "0.5"),
    (1_000_000, "1.0"),
    (10_000_000, "10.0"),
];

/// All metrics in both formats.
pub struct Exposition {
    /// OpenMetrics 1.0.
    pub open: String,
    /// Prometheus's text format 0.0.4, for readers that do not ask for OpenMetrics.
    pub plain: String,
}

/// Collects all metrics.
pub fn collect(server: &Server) -> Exposition {
    let mut open = text(server);
    let plain = to_plain(&open);
    open.push_str("# EOF\n");
    Exposition { open, plain }
}

/// All metrics in OpenMetrics's format, without its last line.
fn text(server: &Server) -> String {
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
    page.head("info", "info", "Versions and identity of the server.");
    page.sample("info", &labels, 1);
    for field in fields() {
        if let Some(value) = field.base_value(value(field.name)) {
            page.head(field.metric, field.kind, &format!("{}.", field.help));
            page.sample(field.metric, &[], value);
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
    let cpu = server.traffic().enumerate().map(|(index, traffic)| {
        let micros: u64 = traffic.cpu_us.iter().map(|part| part.load(Relaxed)).sum();
        (index.to_string(), micros as f64 / 1e6)
    });
    page.family("worker_cpu_seconds_total", "Processor time of the worker.", "worker", cpu);
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
    let times = used.iter().map(|(_, name, stats)| (name.clone(), seconds(stats.nanos)));
    page.family("command_seconds_total", "Time spent executing.", "command", times);
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
        for (micros, le) in BUCKETS {
            let labels = [("command", &name[..]), ("le", le)];
            let count = durations.at_most(micros * 1000).min(total);
            page.sample("command_duration_seconds_bucket", &labels, count);
        }
        let labels = [("command", &name[..]), ("le", "+Inf")];
        page.sample("command_duration_seconds_bucket", &labels, total);
        let labels = [("command", &name[..])];
        page.sample("command_duration_seconds_sum", &labels, seconds(stats.nanos));
        page.sample("command_duration_seconds_count", &labels, total);
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
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

    /// Describes a family by the name of its samples.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let suffix = SUFFIXES.iter().find(|(of, _)| *of == kind).map_or("", |(_, suffix)| suffix);
        let family = format!("petrel_{name}");
        let family = family.strip_suffix(suffix).unwrap_or(&family);
        let _ = writeln!(self.0, "# TYPE {family} {kind}");
        if let Some(unit) = UNITS.into_iter().find(|unit| has_unit(family, unit)) {
            let _ = writeln!(self.0, "# UNIT {family} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {family} {help}");
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

/// Suffixes that the samples of a family of this type have beside its name.
const SUFFIXES: [(&str, &str); 2] = [("counter", "_total"), ("info", "_info")];

/// Units of metrics: each is the last word of the family's name.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];

fn has_unit(family: &str, unit: &str) -> bool {
    family.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'))
}

/// Converts OpenMetrics to Prometheus's text format: families have the names of their samples,
/// there are no units, and `info` is a gauge.
fn to_plain(open: &str) -> String {
    let mut plain = String::with_capacity(open.len());
    let mut suffix = "";
    for line in open.lines() {
        let mut words = line.splitn(4, ' ');
        let _ = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT"), ..) => continue,
            (Some("#"), Some("TYPE"), Some(family), Some(kind)) => {
                let row = SUFFIXES.iter().find(|(of, _)| *of == kind);
                suffix = row.map_or("", |(_, suffix)| suffix);
                let kind = if kind == "info" { "gauge" } else { kind };
                writeln!(plain, "# TYPE {family}{suffix} {kind}")
            }
            (Some("#"), Some("HELP"), Some(family), Some(help)) => {
                writeln!(plain, "# HELP {family}{suffix} {help}")
            }
            _ => writeln!(plain, "{line}"),
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_as_each_format_asks() {
        let mut page = Page(String::new());
        page.head("info", "info", "Versions.");
        page.sample("info", &[("version", "a\"b")], 1);
        page.head("used_cpu_seconds_total", "counter", "Time.");
        page.sample("used_cpu_seconds_total", &[], 0.5);
        page.head("memory_bytes", "gauge", "Memory.");
        page.sample("memory_bytes", &[], 7);
        page.head("megabytes", "gauge", "Without a unit.");
        let open = "\
# TYPE petrel info
# HELP petrel Versions.
petrel_info{version=\"a\\\"b\"} 1
# TYPE petrel_used_cpu_seconds counter
# UNIT petrel_used_cpu_seconds seconds
# HELP petrel_used_cpu_seconds Time.
petrel_used_cpu_seconds_total 0.5
# TYPE petrel_memory_bytes gauge
# UNIT petrel_memory_bytes bytes
# HELP petrel_memory_bytes Memory.
petrel_memory_bytes 7
# TYPE petrel_megabytes gauge
# HELP petrel_megabytes Without a unit.
";
        assert_eq!(page.0, open);
        let plain = "\
# TYPE petrel_info gauge
# HELP petrel_info Versions.
petrel_info{version=\"a\\\"b\"} 1
# TYPE petrel_used_cpu_seconds_total counter
# HELP petrel_used_cpu_seconds_total Time.
petrel_used_cpu_seconds_total 0.5
# TYPE petrel_memory_bytes gauge
# HELP petrel_memory_bytes Memory.
petrel_memory_bytes 7
# TYPE petrel_megabytes gauge
# HELP petrel_megabytes Without a unit.
";
        assert_eq!(to_plain(&page.0), plain);
    }
}
