//! What the matrix found, and whether it is to be believed.

use serde::Serialize;

use super::options::{Command, Options};
use crate::load::{Latency, Outcome};
use crate::report::{Machine, median};
use crate::server::Peer;

/// Little's law must hold within this share.
const LITTLE_TOLERANCE: f64 = 0.05;

/// Below this ratio of the slowest to the fastest connection the server is called unfair.
const FAIR_MIN: f64 = 0.5;

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// With what.
    pub options: Options,
    /// Command lines of the servers.
    pub commands: Vec<String>,
    /// Every cell of every server.
    pub cells: Vec<Cell>,
}

/// What was run.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
pub struct CellKey {
    /// Sizes of values.
    pub values: String,
    /// Number of keys.
    pub keys: u64,
    /// Threads of the server.
    pub threads: usize,
    /// Command.
    pub command: Command,
    /// Requests in flight per connection.
    pub pipeline: usize,
}

/// One server in one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// What was run.
    #[serde(flatten)]
    pub key: CellKey,
    /// The server.
    pub server: String,
    /// Medians over the rounds, each figure by itself; `None` if every round failed.
    pub median: Option<Figures>,
    /// Each round.
    pub rounds: Vec<Measurement>,
}

/// The figures of a cell.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// Operations per second.
    pub throughput: f64,
    /// Latencies.
    pub latency: Latency,
    /// CPU time of the server per operation, microseconds.
    pub server_cpu_us: f64,
    /// CPU time of the load generator per operation, microseconds.
    pub client_cpu_us: f64,
    /// Resident memory of the server, bytes.
    pub rss: f64,
}

/// One server in one cell in one round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measurement {
    /// Operations per second.
    pub throughput: f64,
    /// Latencies.
    pub latency: Latency,
    /// CPU time of the server per operation, microseconds.
    pub server_cpu_us: Option<f64>,
    /// CPU time of the load generator per operation, microseconds.
    pub client_cpu_us: f64,
    /// Resident memory of the server after it, bytes.
    pub rss: Option<u64>,
    /// In flight by latencies over in flight by construction.
    pub little: Option<f64>,
    /// Replies of the slowest connection over those of the fastest.
    pub slowest_to_fastest: f64,
    /// Replies counted.
    pub operations: u64,
    /// Whether there are figures at all.
    pub complete: bool,
    /// What makes it doubtful.
    pub problems: Vec<String>,
}

impl Measurement {
    /// The figures of a load, checked.
    pub fn of(outcome: &Outcome, rss: Option<u64>, peer: &Peer, command: Command) -> Measurement {
        let mut problems = Vec::new();
        let replies = &outcome.replies;
        if let Some(little) = outcome.little.filter(|l| (l - 1.0).abs() > LITTLE_TOLERANCE) {
            problems.push(format!("Little's law: {little:.3} of the requests in flight"));
        }
        if outcome.slowest_to_fastest < FAIR_MIN {
            let ratio = outcome.slowest_to_fastest;
            problems.push(format!("slowest connection {ratio:.2} of the fastest"));
        }
        if replies.errors > 0 {
            let first = replies.first_error.as_deref().unwrap_or("");
            problems.push(format!("{} errors, first: {first}", replies.errors));
        }
        if command == Command::Get && !peer.is_floor() {
            if replies.misses > 0 {
                problems.push(format!("{} misses", replies.misses));
            }
            if replies.wrong_lengths > 0 {
                problems.push(format!("{} values of a wrong length", replies.wrong_lengths));
            }
        }
        let strange = match command {
            Command::Set => replies.hits + replies.misses,
            Command::Get => replies.done,
        };
        if strange > 0 {
            problems.push(format!("{strange} replies that do not belong to {command}"));
        }
        if outcome.operations == 0 {
            problems.push("no reply".to_owned());
        }
        Measurement {
            throughput: outcome.throughput(),
            latency: Latency::of(&outcome.latency),
            server_cpu_us: outcome.server_cpu_us(),
            client_cpu_us: outcome.client_cpu_us(),
            rss,
            little: outcome.little,
            slowest_to_fastest: outcome.slowest_to_fastest,
            operations: outcome.operations,
            complete: outcome.operations > 0,
            problems,
        }
    }

    /// A load that broke off.
    pub fn failed(problem: String) -> Measurement {
        Measurement { problems: vec![problem], ..Measurement::default() }
    }
}

impl Cell {
    /// A cell without rounds.
    pub fn new(key: CellKey, server: &str) -> Cell {
        Cell { key, server: server.to_owned(), median: None, rounds: Vec::new() }
    }

    fn settle(&mut self) {
        let complete = || self.rounds.iter().filter(|round| round.complete);
        let of = |figure: fn(&Measurement) -> f64| median(complete().map(figure)).unwrap_or(0.0);
        self.median = complete().next().map(|_| Figures {
            throughput: of(|round| round.throughput),
            latency: Latency {
                mean_us: of(|round| round.latency.mean_us),
                p50_us: of(|round| round.latency.p50_us),
                p99_us: of(|round| round.latency.p99_us),
                p999_us: of(|round| round.latency.p999_us),
                max_us: of(|round| round.latency.max_us),
            },
            server_cpu_us: of(|round| round.server_cpu_us.unwrap_or(f64::NAN)),
            client_cpu_us: of(|round| round.client_cpu_us),
            rss: of(|round| round.rss.map_or(f64::NAN, |rss| rss as f64)),
        });
    }
}

impl Report {
    /// A report of cells whose rounds are complete.
    pub fn new(
        machine: Machine,
        options: Options,
        commands: Vec<String>,
        mut cells: Vec<Cell>,
    ) -> Report {
        cells.iter_mut().for_each(Cell::settle);
        Report { machine, options, commands, cells }
    }

    /// The figures of a server in a cell.
    pub fn figures(&self, key: &CellKey, server: &str) -> Option<Figures> {
        let cell = self.cells.iter().find(|cell| cell.key == *key && cell.server == server)?;
        cell.median
    }

    /// The servers of a workload, in the order in which they were given.
    pub fn servers(&self, values: &str, threads: usize) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for cell in &self.cells {
            let here = cell.key.values == values && cell.key.threads == threads;
            if here && !names.contains(&cell.server) {
                names.push(cell.server.clone());
            }
        }
        names
    }

    /// The workloads: sizes of values with the number of keys, as they were run.
    pub fn workloads(&self) -> Vec<(String, u64)> {
        let mut workloads: Vec<(String, u64)> = Vec::new();
        for cell in &self.cells {
            let workload = (cell.key.values.clone(), cell.key.keys);
            if !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        workloads
    }
}
