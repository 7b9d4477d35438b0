//! The benchmarks that other servers publish: their tables, their headlines, and which experiment
//! measures the same here.

use super::markdown::Table;
use super::table::{Place, Reader};
use crate::experiment::{Better, Description};
use crate::result::Results;

/// A document with benchmarks.
#[derive(Debug)]
pub struct Published {
    /// Its name.
    pub title: &'static str,
    /// What it measured, and on what.
    pub about: &'static str,
    tables: &'static [PublishedTable],
}

/// A table or plot of a document.
#[derive(Debug)]
struct PublishedTable {
    title: &'static str,
    /// What the document says of it, in short.
    said: &'static str,
    source: Source,
}

/// Where the same is measured.
#[derive(Debug)]
enum Source {
    /// At the points of an experiment that have these values; the figure is compared with that of
    /// the servers whose names begin with the peer's.
    Experiment {
        name: &'static str,
        at: &'static [(&'static str, &'static [&'static str])],
        figure: &'static str,
        peer: &'static str,
    },
    /// Not here, for this reason.
    Nowhere(&'static str),
}

const fn table(
    title: &'static str,
    said: &'static str,
    name: &'static str,
    figure: &'static str,
    at: &'static [(&'static str, &'static [&'static str])],
) -> PublishedTable {
    let source = Source::Experiment { name, at, figure, peer: "redis" };
    PublishedTable { title, said, source }
}

const fn nowhere(title: &'static str, said: &'static str, why: &'static str) -> PublishedTable {
    PublishedTable { title, said, source: Source::Nowhere(why) }
}

const P1: (&str, &[&str]) = ("pipeline", &["1"]);
const P16: (&str, &[&str]) = ("pipeline", &["16"]);
const P50: (&str, &[&str]) = ("pipeline", &["50"]);
const P64: (&str, &[&str]) = ("pipeline", &["64"]);
const GET: (&str, &[&str]) = ("command", &["GET"]);
const SET: (&str, &[&str]) = ("command", &["SET"]);

/// The values of `matrix --preset many-clients`.
const CLIENTS: (&str, &[&str]) = ("values", &["32", "256", "1024", "4096"]);
/// The values of `matrix` without a preset.
const STANDARD: (&str, &[&str]) = ("values", &["1-1024"]);

const NODES: &str = "needs a server of several nodes";

/// All documents.
pub const DOCUMENTS: [Published; 5] = [
    Published {
        title: "Crucible",
        about: "SET and GET apart over pipelines, servers with 2 and 4 threads on 4 virtual processors, memtier over a \
                Unix socket, values of 1 to 1,024 bytes. Here: `matrix`.",
        tables: &[
            table(
                "Throughput, pipeline 1",
                "1.7 to 2.0x Redis",
                "matrix",
                "throughput",
                &[STANDARD, P1],
            ),
            table(
                "Throughput, pipeline 50",
                "1.6 to 3.0x Redis",
                "matrix",
                "throughput",
                &[STANDARD, P50],
            ),
            table(
                "All throughput tables",
                "1.3 to 3.0x Redis",
                "matrix",
                "throughput",
                &[STANDARD],
            ),
            table("p99 latency, pipeline 1", "1.3 to 1.5x lower", "matrix", "p99", &[STANDARD, P1]),
            table("p99 latency, pipeline 50", "1.5 to 8x lower", "matrix", "p99", &[STANDARD, P50]),
            table(
                "Planned: mixed, 1 to 1 and 1 to 10",
                "",
                "workloads",
                "throughput",
                &[("workload", &["mixed 1:1", "mixed 1:10"])],
            ),
            table(
                "Planned: larger values",
                "",
                "matrix",
                "throughput",
                &[("values", &["30000-30000", "1000000-1000000", "30000", "1000000"])],
            ),
        ],
    },
    Published {
        title: "Moon",
        about: "Against Redis 8.6.1 with redis-benchmark, 50 connections, on 8 processors of a cloud and on a laptop. \
                Here: `memory`, `persistence`, `workloads`, `consistency`, `matrix --preset many-clients`.",
        tables: &[
            table(
                "Peak GET, pipeline 64",
                "1.72x Redis",
                "matrix",
                "throughput",
                &[CLIENTS, GET, P64],
            ),
            table(
                "Peak SET, pipeline 64",
                "1.92x Redis",
                "matrix",
                "throughput",
                &[CLIENTS, SET, P64],
            ),
            nowhere("Peak GET on ARM", "2.20x Redis", "no ARM machine"),
            table(
                "Memory per key, values of 32 B",
                "0.80x",
                "memory",
                "bytes",
                &[("values", &["32", "32-32"])],
            ),
            table(
                "Memory per key, values of 256 B",
                "1.01x",
                "memory",
                "bytes",
                &[("values", &["256", "256-256"])],
            ),
            table(
                "Memory per key, values of 1 KB and more",
                "27 to 35 % less",
                "memory",
                "bytes",
                &[("values", &["1024", "4096", "1024-1024", "4096-4096"])],
            ),
            table("Memory of the empty server", "equal, 7.0 MB", "memory", "empty", &[]),
            table(
                "SET by value size, pipeline 16",
                "1.02 to 1.35x",
                "matrix",
                "throughput",
                &[CLIENTS, SET, P16],
            ),
            table(
                "CPU per operation over pipelines",
                "up to 23x less CPU",
                "matrix",
                "cpu",
                &[CLIENTS],
            ),
            table(
                "With a log synced every second, pipeline 64",
                "2.75x Redis with the same",
                "persistence",
                "throughput",
                &[("log", &["everysec"]), P64],
            ),
            table(
                "With a log synced every second, all pipelines",
                "0.95 to 2.75x",
                "persistence",
                "throughput",
                &[("log", &["everysec"])],
            ),
            table("p50 latency, 8 threads", "8 to 10x lower", "matrix", "p50", &[CLIENTS]),
            table(
                "Session store",
                "1.24x",
                "workloads",
                "throughput",
                &[("workload", &["session store"])],
            ),
            table(
                "Rate limiting",
                "1.15x",
                "workloads",
                "throughput",
                &[("workload", &["rate limiting"])],
            ),
            table(
                "Leaderboard",
                "1.06 to 1.25x",
                "workloads",
                "throughput",
                &[("workload", &["leaderboard"])],
            ),
            table(
                "Application cache",
                "1.10 to 1.27x",
                "workloads",
                "throughput",
                &[("workload", &["application cache"])],
            ),
            table("Job queue", "1.06x", "workloads", "throughput", &[("workload", &["job queue"])]),
            table(
                "User profiles",
                "1.10x",
                "workloads",
                "throughput",
                &[("workload", &["user profiles"])],
            ),
            table("Answers equal to Redis's", "132 of 132", "consistency", "agreed", &[]),
            nowhere("Vector search", "12.7K queries/s", "no such experiment yet"),
        ],
    },
    Published {
        title: "Swytch",
        about: "Replays of production traces against Redis on 2 processors per node: block I/O (Alibaba, CloudPhysics) \
                and Twitter's cluster 17. Here: `trace`, with one node.",
        tables: &[
            table(
                "Block I/O, throughput",
                "0.84x Redis at 1 node, 1.5x at 6",
                "trace",
                "throughput",
                &[("trace", &["block"])],
            ),
            table("Block I/O, average GET", "0.84x", "trace", "get_mean", &[("trace", &["block"])]),
            table("Block I/O, average SET", "0.80x", "trace", "set_mean", &[("trace", &["block"])]),
            table(
                "Twitter cluster 17, throughput",
                "1.0x at 1 node, 0.5x at 6",
                "trace",
                "throughput",
                &[("trace", &["cluster17"])],
            ),
            table(
                "Twitter cluster 17, hit rate",
                "equal",
                "trace",
                "hits",
                &[("trace", &["cluster17"])],
            ),
            table("Eviction pressure, hit rate", "0.98x", "trace", "hits", &[("memory", &["10%"])]),
            table("Network", "far less: a cache near its client", "trace", "network", &[]),
            nowhere("2, 4 and 6 nodes, full sharing, 72 hours", "1.5 to 1.7x", NODES),
            nowhere("Its engine's own benchmarks", "no figures published", "in-process"),
        ],
    },
    Published {
        title: "Redis 2.0, 1 to 64 K connections",
        about: "Requests a second over concurrency, and latency surfaces over concurrency and percentile. 100,000 \
                requests per level, all connections active. Here: `connections --active 0`.",
        tables: &[
            table(
                "Requests a second",
                "highest at 10, then a slow fall",
                "connections",
                "throughput",
                &[],
            ),
            table("90th percentile", "low to 30 K", "connections", "q90", &[]),
            table("99th percentile", "low to 30 K", "connections", "p99", &[]),
        ],
    },
    Published {
        title: "Rueidis",
        about: "Client library against client library, SET at 1 to 128 callers.",
        tables: &[nowhere(
            "SET by parallelism and value",
            "up to 10x go-redis",
            "a client's benchmark",
        )],
    },
];

impl Published {
    /// Its tables: what it says, what was measured here, and what was not.
    pub fn table(&self, files: &[(&'static Description, Results)]) -> Table {
        let mut table =
            Table::new(["published", "it says", "here, over the peer", "points", "verdict"]);
        for published in self.tables {
            let [here, points, verdict] = published.measured(files);
            table.row([
                published.title.to_owned(),
                published.said.to_owned(),
                here,
                points,
                verdict,
            ]);
        }
        table
    }
}

impl PublishedTable {
    /// The range of ratios, how many points there are, and how often the base server is better.
    fn measured(&self, files: &[(&'static Description, Results)]) -> [String; 3] {
        let dash = || "–".to_owned();
        let (name, at, figure, peer) = match &self.source {
            Source::Experiment { name, at, figure, peer } => (*name, *at, *figure, *peer),
            Source::Nowhere(why) => return [dash(), dash(), format!("not measured: {why}")],
        };
        let mut ratios = Vec::new();
        let mut is_there = false;
        for (description, results) in files.iter().filter(|(d, _)| d.name == name) {
            is_there = true;
            ratios.extend(ratios_of(&Reader::new(description, results), at, figure, peer));
        }
        ratios.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (ratios.first(), ratios.last()) else {
            let why = match is_there {
                true => format!("not measured: no such points of {name} beside {peer}"),
                false => format!("not measured: no results of {name}"),
            };
            return [dash(), dash(), why];
        };
        let (low, high, count) = (*low, *high, ratios.len());
        let better = ratios.iter().filter(|ratio| **ratio > 1.0).count();
        let equal = ratios.iter().filter(|ratio| **ratio == 1.0).count();
        let range = match count {
            1 => format!("{low:.2}x"),
            _ => format!("{low:.2}x to {high:.2}x"),
        };
        let verdict = match (better, equal) {
            (all, _) if all == count => "better".to_owned(),
            (0, all) if all == count => "equal".to_owned(),
            (0, 0) => "**worse**".to_owned(),
            (some, same) if some + same == count => format!("better at {some}, equal at {same}"),
            (some, same) => format!("**worse at {} of {count}**", count - some - same),
        };
        [range, count.to_string(), verdict]
    }
}

/// Base server over the best of the peer's variants at each point, so that above 1 is better.
fn ratios_of(reader: &Reader<'_>, at: &[(&str, &[&str])], figure: &str, peer: &str) -> Vec<f64> {
    let Some(figure) = reader.description.figure(figure) else { return Vec::new() };
    let results = reader.results;
    let rows = results.rows.iter().filter(|row| row.server == results.base);
    let rows = rows.filter(|row| {
        at.iter().all(|(axis, values)| {
            row.point.get(*axis).is_some_and(|value| values.contains(&value.as_str()))
        })
    });
    rows.filter_map(|row| {
        let own = row.figure(figure.name, figure.over_rounds)?;
        let axes = reader.description.axes.iter();
        let place: Place =
            axes.filter_map(|(axis, _)| Some((*axis, row.point.get(*axis)?.clone()))).collect();
        let peers = results.servers.iter().filter(|server| server.name.starts_with(peer));
        let peers = peers.filter(|server| server.name != results.base);
        let others = peers.filter_map(|server| {
            let place = [place.clone(), vec![(crate::experiment::SERVER, server.name.clone())]];
            reader.number(figure, &place.concat())
        });
        let ratio = match figure.better {
            Better::More | Better::Neither => own / others.reduce(f64::max)?,
            Better::Less => others.reduce(f64::min)? / own,
        };
        ratio.is_finite().then_some(ratio)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ALL;
    use crate::result::{Measurement, Point, ServerFacts};

    #[test]
    fn tables_name_figures_and_axes_that_exist() {
        for published in DOCUMENTS.iter().flat_map(|document| document.tables) {
            let Source::Experiment { name, at, figure, .. } = &published.source else { continue };
            let known = ALL.iter().find(|known| known.name == *name);
            let known = known.unwrap_or_else(|| panic!("{}: no {name}", published.title));
            assert!(known.figure(figure).is_some(), "{}: no figure {figure}", published.title);
            for (axis, _) in *at {
                let is_known = known.axes.iter().any(|(name, _)| name == axis);
                assert!(is_known, "{}: no axis {axis}", published.title);
            }
        }
    }

    fn results(servers: &[(&str, f64)]) -> Results {
        let mut results = Results::new("matrix", serde_json::Value::Null);
        results.base = "petrel".to_owned();
        for (name, rate) in servers {
            let text = || (*name).to_owned();
            results.servers.push(ServerFacts {
                name: text(),
                version: text(),
                command: text(),
                is_floor: false,
            });
            let point = [("pipeline", "50"), ("values", "1-1024")];
            let point = Point::from(point.map(|(axis, value)| (axis.to_owned(), value.to_owned())));
            let measured = Measurement::default().with("throughput", *rate);
            results.record(name, &point, measured);
        }
        results
    }

    #[test]
    fn a_headline_compares_with_the_peers_best_variant_and_shows_losses() {
        let line = |results: Option<Results>| {
            let files: Vec<_> =
                results.map(|r| (crate::matrix::DESCRIPTION, r)).into_iter().collect();
            DOCUMENTS[0].tables[1].measured(&files)
        };
        let won = results(&[("petrel", 30.0), ("redis", 10.0), ("redis (1 thread)", 15.0)]);
        assert_eq!(line(Some(won)), ["2.00x", "1", "better"]);
        let lost = results(&[("petrel", 30.0), ("redis", 40.0)]);
        assert_eq!(line(Some(lost)), ["0.75x", "1", "**worse**"]);
        let alone = line(Some(results(&[("petrel", 30.0)])));
        assert!(alone[2].contains("beside redis"), "{alone:?}");
        assert!(line(None)[2].contains("no results of matrix"));
    }
}
