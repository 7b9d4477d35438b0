//! `trace`: requests of production traces replayed against each server in turn.

mod generate;
mod replay;
mod request;
mod route;
mod source;

use std::fs;
use std::path::Path;
use std::str::FromStr;

use petrel_client::Commands;
use petrel_client::blocking::Client;

use crate::experiment::{Case, Description, Experiment, Options, points};
use crate::load::ValueSizes;
use crate::result::{Measured, Measurement, Point};
use crate::server::{Peer, Server, Setting, parse_copies};
use crate::wire::client;
use generate::{CLUSTER_17, ClusterStatistics};
use replay::Replayed;

pub use replay::{Manner, replay};
pub use request::{Request, Statistics};

/// Added to every limit of memory for each connection: servers count its buffers.
const CONNECTION_BYTES: u64 = 128 * 1024;

/// Decides what generators draw.
const SEED: u64 = 17;

/// Name of a trace: a file, a generator, or a row of Twitter's table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceName(String);

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
    /// Reads every trace of the options `traces` and `requests`.
    pub fn check(options: &Options) -> Result<(), String> {
        options.texts("traces").iter().try_for_each(|text| {
            text.parse::<TraceName>()?.load(options.get("requests")).map(|_| ())
        })
    }

    /// Labels of the option `traces`.
    pub fn labels(options: &Options) -> Vec<String> {
        options.texts("traces").iter().map(|text| TraceName(text.clone()).label()).collect()
    }

    /// Loads the trace of a point.
    pub fn trace(case: &Case<'_>) -> Result<Vec<Request>, String> {
        let names = case.options.texts("traces").iter().map(|text| TraceName(text.clone()));
        let name = names.into_iter().find(|name| name.label() == case.text("trace"));
        name.ok_or("no such trace")?.load(case.get("requests"))
    }

    /// Name without directories.
    pub fn label(&self) -> String {
        match self.0.strip_prefix("twitter:") {
            Some(rest) => rest.rsplit(':').next().unwrap_or(rest).to_owned(),
            None => self.0.rsplit('/').next().unwrap_or(&self.0).to_owned(),
        }
    }

    /// Reads or draws at most `requests` requests.
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

/// Bytes for data by the option `memory`: none, a number with a unit, or per cent of all values.
fn memory_limit(text: &str, working_set: u64) -> Result<Option<u64>, String> {
    let units = [("gb", 1_000_000_000), ("mb", 1_000_000), ("kb", 1_000), ("", 1)];
    let percent = text.strip_suffix('%').and_then(|text| text.parse::<f64>().ok());
    let bytes = || {
        let (text, unit) =
            units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
        text.parse::<u64>().ok()?.checked_mul(*unit).filter(|bytes| *bytes > 0)
    };
    match percent.filter(|percent| *percent > 0.0 && *percent <= 10_000.0) {
        _ if text == "none" => Ok(None),
        Some(percent) => Ok(Some((working_set as f64 * percent / 100.0) as u64)),
        None => bytes().map(Some).ok_or_else(|| format!("'{text}' is neither none, 500mb nor 10%")),
    }
}

/// `trace`: traces replayed.
#[derive(Default)]
pub struct Trace;

impl Experiment for Trace {
    const NAME: &'static str = "trace";
    type State = Vec<Request>;

    /// A limit on memory is set at one node, and only clusters have several.
    fn leaves_out(&self, peer: &Peer, case: &Case<'_>) -> bool {
        match peer.is_cluster() {
            true => case.text("memory") != "none",
            false => case.at::<u16>("nodes") != 1,
        }
    }

    /// Reads every trace, so that an error comes before the first server is started.
    fn check(&self, options: &Options) -> Result<(), String> {
        for text in options.texts("memory") {
            memory_limit(text, 0)?;
        }
        for text in options.texts("values").iter().filter(|text| *text != "real") {
            let sizes: ValueSizes = text.parse()?;
            if sizes.min != sizes.max {
                return Err(format!("--values {text}: one size, or real"));
            }
        }
        parse_copies(&options.get::<String>("copies"))?;
        TraceName::check(options)
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let mut points = points(Description::named(Self::NAME), options);
        let first = &options.texts("policies")[0];
        let labels = TraceName::labels(options);
        // Nothing is evicted without a limit.
        points.retain(|point| point["memory"] != "none" || point["policy"] == *first);
        for point in &mut points {
            let at = options.texts("traces").iter().position(|text| *text == point["trace"]);
            point.insert("trace".to_owned(), labels[at.unwrap_or(0)].clone());
            if point["memory"] == "none" {
                point.insert("policy".to_owned(), "noeviction".to_owned());
            }
        }
        points
    }

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        let value_max = case.some("values").unwrap_or(ValueSizes::LIMIT);
        let copies = parse_copies(&case.get::<String>("copies")).unwrap_or(None);
        Setting { value_max, nodes: case.at("nodes"), copies, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Vec<Request>, String> {
        let trace = TraceName::trace(case)?;
        let statistics = Statistics::of(&trace);
        let working_set = match case.some::<u64>("values") {
            Some(size) => statistics.objects * size,
            None => statistics.working_set,
        };
        if let Some(limit) = memory_limit(case.text("memory"), working_set)? {
            // Bytes that servers count for connections hold no values.
            let spare = case.get::<u64>("connections") * CONNECTION_BYTES;
            limit_memory(server, spare + limit, case.text("policy"))?;
        }
        Ok(trace)
    }

    fn measure(&self, case: &Case<'_>, server: &Server, trace: &mut Vec<Request>) -> Measured {
        let manner = Manner {
            connections: case.get("connections"),
            pace: case.options.some("pace"),
            size: case.some("values"),
        };
        let before = server.cpu_ns()?;
        let done = replay::replay(server.entrances(), trace, manner)?;
        let cpu = (server.cpu_ns()? - before) as f64 / 1e3 / done.operations().max(1) as f64;
        // One node of a cluster would count its own only.
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

/// Limits a server to its present memory and some bytes more, and sets its eviction policy.
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
    let gets = done.hits + done.misses;
    let mut measured = Measurement::default()
        .with("throughput", done.operations() as f64 / done.elapsed.as_secs_f64())
        .with("hits", done.hits as f64 * 100.0 / gets as f64)
        .with("network", done.bytes as f64 / 1e6)
        .with("errors", done.errors.replies as f64)
        .with("timeouts", done.errors.timeouts as f64)
        .with("resets", done.errors.resets as f64);
    for (name, histogram) in [("get", &done.get), ("set", &done.set)] {
        if histogram.is_empty() {
            continue;
        }
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        measured = measured
            .with(&format!("{name}_mean"), histogram.mean() / 1e3)
            .with(&format!("{name}_p99"), us(0.99))
            .with(&format!("{name}_p999"), us(0.999));
        if name == "get" {
            measured = measured.with("get_p50", us(0.5));
        }
    }
    if let Some(first) = &done.errors.first {
        measured.doubts.push(format!("{} error replies, first: {first}", done.errors.replies));
    }
    if done.errors.wrong > 0 {
        measured.failure = Some(format!("{} values were not those stored", done.errors.wrong));
    }
    measured
}

/// A number of a section of INFO.
pub fn info(client: &Client, section: &str, field: &str) -> petrel_client::Result<Option<f64>> {
    let text: String = client.info().section([section]).run()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let value = lines.find(|(name, _)| *name == field);
    Ok(value.and_then(|(_, value)| value.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_on_memory_are_read() {
        let limits = [("none", None), ("500mb", Some(500_000_000)), ("10%", Some(40))];
        let limits = limits.into_iter().chain([("0.5%", Some(2)), ("123", Some(123))]);
        for (text, limit) in limits.chain([("3gb", Some(3_000_000_000))]) {
            assert_eq!(memory_limit(text, 400), Ok(limit), "{text}");
        }
        for text in ["0", "-1%", "x", "", "0%", "99999999999gb"] {
            assert!(memory_limit(text, 400).is_err(), "{text}");
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
