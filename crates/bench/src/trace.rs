//! `trace`: the requests of production traces replayed against each server in turn.

mod generate;
mod replay;
mod request;
mod route;
mod source;

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use petrel_client::Commands;
use petrel_client::blocking::Client;
use serde::Serialize;

use crate::cluster::Copies;
use crate::exchange::{client, cpu_ns};
use crate::experiment::{
    Better, CPU, Description, Experiment, FIGURE, Figure, Lifetime, Plot, RunArgs, SERVER,
    THROUGHPUT, View, at, grid, texts,
};
use crate::load::ValueSizes;
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};
use generate::{CLUSTER_17, ClusterStatistics};
use replay::Replayed;

pub use generate::Zipf;
pub use replay::{Manner, replay};
pub use request::{Request, Statistics};

/// Added to every limit of memory for each connection: servers count its buffers.
const CONNECTION_BYTES: u64 = 128 * 1024;

/// Decides what generators draw.
const SEED: u64 = 17;

/// Replay traces of caches and disks: GET, and on a miss SET, as the users of a cache do.
///
/// A trace is a file (oracleGeneral, Twitter's or Alibaba's CSV; plain or .zst), a generator
/// (cluster17, block, zipf), or twitter:TABLE.csv:CLUSTER, drawn with the statistics of a row.
/// Every server gets the same requests in the same order.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct TraceArgs {
    /// Traces, replayed apart
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "TRACE,...",
        default_value = "cluster17,block,zipf",
        default_value_if("quick", "true", "cluster17,block")
    )]
    traces: Vec<TraceName>,

    /// Requests of a trace at most
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "50000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    requests: u64,

    /// Memory for values beyond the empty server's, at which it evicts: none, bytes (500mb), or per
    /// cent of the trace's working set (10%); measured apart
    #[arg(long, value_delimiter = ',', value_name = "SIZE,...", default_value = "none,10%")]
    memory: Vec<MemoryLimit>,

    /// What is evicted, measured apart where memory is limited
    #[arg(long, value_delimiter = ',', value_name = "POLICY,...", default_value = "allkeys-lru")]
    policies: Vec<String>,

    /// Bytes of every value; real: those of the trace; measured apart
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...", default_value = "real",
          value_parser = parse_values)]
    values: Vec<String>,

    /// Times the original pace, requests being due at their times; without it, as fast as possible
    #[arg(long, value_name = "FACTOR", value_parser = parse_pace)]
    pace: Option<f64>,

    /// Connections, each with one request under way
    #[arg(long, default_value_t = 4, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,

    /// Nodes of clusters, measured apart; connections are shared among those of
    /// petrel-cluster and swytch-cluster. What is no cluster is measured as one node
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N,...",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: Vec<u16>,

    /// Nodes of petrel-cluster that hold each key: so many, or all
    #[arg(long, default_value = "all", value_name = "all|N")]
    copies: Copies,

    /// Threads of the servers, of each node
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: u16,
}

const fn us(name: &'static str, title: &'static str) -> Figure {
    Figure::new(name, title, "us", 1, Better::Less)
}

const fn count(name: &'static str, title: &'static str, better: Better) -> Figure {
    Figure::new(name, title, "", 0, better)
}

const PLACE: &[&str] = &["trace", "values", "memory", "policy", "nodes"];

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "trace",
    title: "Traces of production",
    about: "The same requests in the same order against each server in turn: GET, and on a miss SET. Memory is what a \
            server may use for data beyond what it takes when it is empty (`maxmemory`). Network is what went through \
            the sockets in both directions, RESP included; over a Unix socket nothing of it crosses an interface. \
            Values are compared byte by byte with what was stored. `cluster17` and `block` are drawn from published \
            statistics, they are not the traces themselves.",
    axes: &[
        ("trace", "{}"),
        ("values", "{} values"),
        ("memory", "memory {}"),
        ("policy", "{}"),
        ("nodes", "nodes: {}"),
    ],
    figures: &[
        THROUGHPUT,
        Figure::new("hits", "Hit rate", "%", 2, Better::More),
        us("get_mean", "Average GET"),
        us("set_mean", "Average SET"),
        us("get_p50", "GET p50"),
        us("get_p99", "GET p99"),
        us("get_p999", "GET p99.9"),
        us("set_p99", "SET p99"),
        us("set_p999", "SET p99.9"),
        CPU,
        Figure::new("network", "Network", "MB", 1, Better::Less),
        Figure::new("rss", "Resident memory", "MB", 1, Better::Less),
        count("evicted", "Evicted keys", Better::Neither),
        count("errors", "Error replies", Better::Less),
        count("timeouts", "Timeouts", Better::Less),
        count("resets", "Broken connections", Better::Less),
        count("requests", "Requests", Better::Neither),
        Figure::new("working_set", "Working set", "MB", 1, Better::Neither),
    ],
    views: &[
        View::new(
            "By trace",
            &["hits", "throughput", "get_mean", "set_mean", "network", "errors"],
            &["trace", "values"],
            &["memory", "policy", "nodes", SERVER],
            &[FIGURE],
        )
        .in_summary(),
        View::new("Throughput", &["throughput"], &["values"], PLACE, &[SERVER]).plot(Plot::Bars),
        View::new(
            "Hit rate",
            &["hits"],
            &["trace", "values", "policy", "nodes"],
            &["memory"],
            &[SERVER],
        )
        .plot(Plot::Bars),
        View::new(
            "Percentiles",
            &["get_p50", "get_p99", "get_p999", "set_p99", "set_p999"],
            &[FIGURE],
            PLACE,
            &[SERVER],
        ),
        View::new(
            "Cost and errors by kind",
            &["cpu", "rss", "evicted", "errors", "timeouts", "resets", "requests", "working_set"],
            &[],
            &["trace", "values", "memory", "policy", "nodes", SERVER],
            &[FIGURE],
        ),
    ],
};

/// Where a trace comes from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(into = "String")]
pub struct TraceName(String);

impl From<TraceName> for String {
    fn from(name: TraceName) -> String {
        name.label()
    }
}

impl FromStr for TraceName {
    type Err = String;

    fn from_str(text: &str) -> Result<TraceName, String> {
        let is_known =
            matches!(text, "cluster17" | "block" | "zipf") || text.starts_with("twitter:");
        match is_known || Path::new(text).is_file() {
            true => Ok(TraceName(text.to_owned())),
            false => Err(format!(
                "there is no file '{text}', and it is none of cluster17, block, zipf, twitter:TABLE:CLUSTER"
            )),
        }
    }
}

impl TraceName {
    /// Its name without directories.
    pub fn label(&self) -> String {
        match self.0.strip_prefix("twitter:") {
            Some(rest) => rest.rsplit(':').next().unwrap_or(rest).to_owned(),
            None => self.0.rsplit('/').next().unwrap_or(&self.0).to_owned(),
        }
    }

    /// Reads it, or draws it: so many requests at most.
    pub fn load(&self, requests: usize) -> Result<Vec<Request>, String> {
        match self.0.as_str() {
            "cluster17" => Ok(CLUSTER_17.draw(requests, SEED)),
            "block" => Ok(generate::block_io(requests, SEED)),
            "zipf" => Ok(generate::zipf(requests, SEED)),
            text => match text.strip_prefix("twitter:").and_then(|rest| rest.rsplit_once(':')) {
                Some((table, cluster)) => {
                    let text = fs::read_to_string(table);
                    let text = text.map_err(|error| format!("{table}: {error}"))?;
                    let row = ClusterStatistics::read(&text, cluster);
                    Ok(row.map_err(|error| format!("{table}: {error}"))?.draw(requests, SEED))
                }
                None if text.starts_with("twitter:") => {
                    Err(format!("'{text}' has not the form twitter:TABLE:CLUSTER"))
                }
                None => source::read(Path::new(text), requests),
            },
        }
    }
}

/// Memory for data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum MemoryLimit {
    None,
    Bytes(u64),
    /// Of the working set.
    Percent(f64),
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryLimit::None => write!(f, "none"),
            MemoryLimit::Bytes(bytes) if bytes % 1_000_000 == 0 => {
                write!(f, "{}mb", bytes / 1_000_000)
            }
            MemoryLimit::Bytes(bytes) => write!(f, "{bytes}"),
            MemoryLimit::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        let lower = text.to_lowercase();
        let bytes = |text: &str, unit: u64| text.parse::<u64>().ok()?.checked_mul(unit);
        let limit = match lower.as_str() {
            "none" => Some(MemoryLimit::None),
            text => match text.strip_suffix('%') {
                Some(text) => text.parse().ok().map(MemoryLimit::Percent),
                None => None
                    .or_else(|| bytes(text.strip_suffix("gb")?, 1_000_000_000))
                    .or_else(|| bytes(text.strip_suffix("mb")?, 1_000_000))
                    .or_else(|| bytes(text.strip_suffix("kb")?, 1_000))
                    .or_else(|| bytes(text, 1))
                    .map(MemoryLimit::Bytes),
            },
        };
        let is_positive = |limit: &MemoryLimit| match limit {
            MemoryLimit::None => true,
            MemoryLimit::Bytes(bytes) => *bytes > 0,
            MemoryLimit::Percent(percent) => *percent > 0.0 && *percent <= 10_000.0,
        };
        limit.filter(is_positive).ok_or_else(|| format!("'{text}' is neither none, 500mb nor 10%"))
    }
}

fn parse_values(text: &str) -> Result<String, String> {
    match text {
        "real" => Ok(text.to_owned()),
        _ => text.parse::<ValueSizes>().and_then(|sizes| match sizes.min == sizes.max {
            true => Ok(text.to_owned()),
            false => Err("one size, or real".to_owned()),
        }),
    }
}

fn parse_pace(text: &str) -> Result<f64, String> {
    let pace = text.parse::<f64>().ok().filter(|pace| pace.is_finite() && *pace > 0.0);
    pace.ok_or_else(|| "a number above zero".to_owned())
}

impl Experiment for TraceArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    type Session = (Server, Vec<Request>);

    fn admits(&self, peer: &Peer) -> bool {
        peer.speaks_resp() && !peer.is_floor()
    }

    /// What limits memory asks one node, and only clusters have several.
    fn leaves_out(&self, peer: &Peer, point: &Point) -> bool {
        match peer.is_cluster() {
            true => point["memory"] != "none",
            false => at::<u16>(point, "nodes") != 1,
        }
    }

    /// Every trace can be read: that is better known before the first server is started.
    fn check(&self) -> Result<(), String> {
        self.traces.iter().try_for_each(|trace| trace.load(self.requests as usize).map(|_| ()))
    }

    fn points(&self) -> Vec<Point> {
        let traces = self.traces.iter().map(TraceName::label).collect();
        let mut points = grid([
            ("trace", traces),
            ("values", self.values.clone()),
            ("memory", texts(&self.memory)),
            ("policy", self.policies.clone()),
            ("nodes", texts(&self.nodes)),
        ]);
        // Without a limit nothing is evicted.
        points.retain(|point| point["memory"] != "none" || point["policy"] == self.policies[0]);
        for point in points.iter_mut().filter(|point| point["memory"] == "none") {
            point.insert("policy".to_owned(), "noeviction".to_owned());
        }
        points
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        let connections = usize::from(self.connections) + 64;
        let setting = run.setting(usize::from(self.server_threads), connections.max(1024));
        let value_max = point["values"].parse().unwrap_or(ValueSizes::LIMIT);
        Setting { value_max, nodes: at(point, "nodes"), copies: self.copies.0, ..setting }
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Self::Session, String> {
        let name = self.traces.iter().find(|trace| trace.label() == point["trace"]);
        let trace = name.expect("the grid is made of them").load(self.requests as usize)?;
        let fixed = point["values"].parse::<u32>().ok();
        let statistics = Statistics::of(&trace);
        let working_set = match fixed {
            Some(size) => statistics.objects * u64::from(size),
            None => statistics.working_set,
        };
        let limit = match at(point, "memory") {
            MemoryLimit::None => return Ok((server, trace)),
            MemoryLimit::Bytes(bytes) => bytes,
            MemoryLimit::Percent(percent) => (working_set as f64 * percent / 100.0) as u64,
        };
        // What servers count for the connections is no room for values.
        let spare = u64::from(self.connections) * CONNECTION_BYTES;
        limit_memory(&server, spare + limit, &point["policy"])?;
        Ok((server, trace))
    }

    fn measure(
        &self,
        (server, trace): &mut Self::Session,
        point: &Point,
        _: usize,
    ) -> Result<Measurement, String> {
        let manner = Manner {
            connections: usize::from(self.connections),
            pace: self.pace,
            size: point["values"].parse().ok(),
        };
        let before = cpu_ns(server)?;
        let done = replay::replay(server.entrances(), trace, manner)?;
        let cpu = (cpu_ns(server)? - before) as f64 / 1e3 / done.operations().max(1) as f64;
        // Of a cluster it would be that of one node.
        let evicted = match server.peer().is_cluster() {
            true => None,
            false => client(server.endpoint())
                .and_then(|client| info(&client, "stats", "evicted_keys"))
                .ok()
                .flatten(),
        };
        let statistics = Statistics::of(trace);
        Ok(figures(&done)
            .with("cpu", cpu)
            .with_some("evicted", evicted)
            .with_some("rss", server.rss().ok().map(|rss| rss as f64 / 1e6))
            .with("requests", statistics.requests as f64)
            .with("working_set", statistics.working_set as f64 / 1e6))
    }
}

/// Lets a server have so many bytes beyond what it takes now, and evict by a policy.
pub fn limit_memory(server: &Server, bytes: u64, policy: &str) -> Result<(), String> {
    let limited = || -> petrel_client::Result<()> {
        let client = client(server.endpoint())?;
        let empty = info(&client, "memory", "used_memory")?;
        let limit = (empty.unwrap_or(0.0) as u64 + bytes).to_string();
        client.config_set([("maxmemory-policy", policy)]).run()?;
        client.config_set([("maxmemory", limit)]).run()
    };
    limited().map_err(|error| format!("cannot limit its memory: {error}"))
}

fn figures(done: &Replayed) -> Measurement {
    let quantile = |histogram: &hdrhistogram::Histogram<u64>, quantile: f64| {
        (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64 / 1e3)
    };
    let mean = |histogram: &hdrhistogram::Histogram<u64>| {
        (!histogram.is_empty()).then(|| histogram.mean() / 1e3)
    };
    let gets = done.hits + done.misses;
    let mut measured = Measurement::default()
        .with("throughput", done.operations() as f64 / done.elapsed.as_secs_f64())
        .with("hits", done.hits as f64 * 100.0 / gets as f64)
        .with_some("get_mean", mean(&done.get))
        .with_some("set_mean", mean(&done.set))
        .with_some("get_p50", quantile(&done.get, 0.5))
        .with_some("get_p99", quantile(&done.get, 0.99))
        .with_some("get_p999", quantile(&done.get, 0.999))
        .with_some("set_p99", quantile(&done.set, 0.99))
        .with_some("set_p999", quantile(&done.set, 0.999))
        .with("network", done.bytes as f64 / 1e6)
        .with("errors", done.errors.replies as f64)
        .with("timeouts", done.errors.timeouts as f64)
        .with("resets", done.errors.resets as f64);
    if let Some(first) = &done.errors.first {
        measured.doubts.push(format!("{} error replies, first: {first}", done.errors.replies));
    }
    if done.errors.wrong > 0 {
        measured.failure = Some(format!("{} values were not those stored", done.errors.wrong));
    }
    measured
}

/// A number of a section of INFO.
fn info(client: &Client, section: &str, field: &str) -> petrel_client::Result<Option<f64>> {
    let text: String = client.info().section([section]).run()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let value = lines.find(|(name, _)| *name == field);
    Ok(value.and_then(|(_, value)| value.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_on_memory_are_read_and_shown() {
        for text in ["none", "500mb", "10%", "0.5%", "123"] {
            assert_eq!(text.parse::<MemoryLimit>().unwrap().to_string(), text);
        }
        assert_eq!("3gb".parse(), Ok(MemoryLimit::Bytes(3_000_000_000)));
        for text in ["0", "-1%", "x", "", "0%", "99999999999gb"] {
            assert!(text.parse::<MemoryLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn traces_are_named_without_their_directories() {
        assert!("nothing".parse::<TraceName>().unwrap_err().contains("no file"));
        let name: TraceName = "twitter:/some/where/table.csv:cluster3".parse().unwrap();
        assert_eq!(name.label(), "cluster3");
        assert!(name.load(10).unwrap_err().contains("table.csv"));
        assert_eq!(TraceName("/a/b/w01.bin.zst".to_owned()).label(), "w01.bin.zst");
        assert_eq!("block".parse::<TraceName>().unwrap().load(10).unwrap().len(), 10);
    }
}
