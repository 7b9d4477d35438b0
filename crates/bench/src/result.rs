//! Result file of an experiment: one JSON document from which every table and plot is made.
//!
//! A file holds the run (experiment, settings, machine, versions), and a row per server and
//! point of the grid with the measurement of each round. Medians are taken when it is read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::load::Outcome;
use crate::report::Machine;

/// The version of the form described here.
const FORMAT: u32 = 1;

/// Little's law must hold within this share.
const LITTLE_TOLERANCE: f64 = 0.05;

/// Below this ratio of the slowest to the fastest connection the server is called unfair.
const FAIR_MIN: f64 = 0.5;

/// The value of each axis at a point of the grid, as text.
pub type Point = BTreeMap<String, String>;

/// A result file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Results {
    /// Version of the file's form.
    pub format: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the run among several of one experiment; empty for the only one.
    pub label: String,
    /// Whether the run was a short one that only shows the order of magnitude.
    pub quick: bool,
    /// Time of the start, RFC 3339, UTC.
    pub started: String,
    /// Commit of the working tree of the base server's program.
    pub commit: String,
    /// Command line.
    pub command_line: String,
    /// Machine of the run.
    pub machine: Machine,
    /// The experiment's own options, defaults included.
    pub settings: serde_json::Value,
    /// Number of rounds.
    pub rounds: usize,
    /// The server that the others are compared with.
    pub base: String,
    /// The servers in the order in which they are shown.
    pub servers: Vec<ServerFacts>,
    /// Ready-made servers that are not on this machine.
    pub absent: Vec<String>,
    /// Measurements.
    pub rows: Vec<Row>,
}

/// A server, as the pages describe it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ServerFacts {
    /// Name in the tables.
    pub name: String,
    /// Version as its program prints it.
    pub version: String,
    /// Command that starts it.
    pub command: String,
    /// Whether it is a bare loop, which is never compared.
    pub is_floor: bool,
}

/// Measurements of a server at a point of the grid.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Name of the server.
    pub server: String,
    /// The point.
    pub point: Point,
    /// Measurements of the rounds, in no certain order.
    pub rounds: Vec<Measurement>,
}

/// Measurement of one round.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Measurement {
    /// Number of the round, from 0.
    pub round: usize,
    /// Figures by name, in the units that the experiment describes.
    pub figures: BTreeMap<String, f64>,
    /// Reasons for doubt. The figures count all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Reason why the figures do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Result of measuring a point once.
pub type Measured = Result<Measurement, String>;

impl Measurement {
    /// A measurement that could not be completed.
    pub fn failed(why: impl Into<String>) -> Measurement {
        Measurement { failure: Some(why.into()), ..Measurement::default() }
    }

    /// Adds a figure, to six significant digits; one that is no number is left out.
    pub fn with(mut self, name: &str, value: f64) -> Measurement {
        if value.is_finite() {
            let digits = 5 - value.abs().max(1e-9).log10().floor() as i32;
            let scale = 10f64.powi(digits.clamp(0, 12));
            self.figures.insert(name.to_owned(), (value * scale).round() / scale);
        }
        self
    }

    /// Adds a figure that may be absent.
    pub fn with_some(self, name: &str, value: Option<f64>) -> Measurement {
        self.with(name, value.unwrap_or(f64::NAN))
    }

    /// Adds mean, percentiles and largest of latencies in nanoseconds, in milliseconds.
    pub fn with_latency(self, latency: &Histogram<u64>) -> Measurement {
        let quantile = |quantile| latency.value_at_quantile(quantile) as f64 / 1e6;
        self.with("mean", latency.mean() / 1e6)
            .with("p50", quantile(0.5))
            .with("p99", quantile(0.99))
            .with("p999", quantile(0.999))
            .with("max", latency.max() as f64 / 1e6)
    }

    /// Figures of a load, with the checks that every load has: replies, Little's law, fairness, and
    /// the lengths of values.
    pub fn of_load(outcome: &Outcome, values_are_known: bool) -> Measurement {
        let replies = &outcome.replies;
        let mut measured = Measurement::default()
            .with("throughput", outcome.throughput())
            .with_latency(&outcome.latency)
            .with_some("cpu", outcome.server_cpu_us())
            .with_some(
                "cpu_share",
                outcome.server_cpu_us().map(|us| us * outcome.throughput() / 1e4),
            )
            .with("client_cpu", outcome.client_cpu_us())
            .with("fairness", outcome.slowest_to_fastest);
        measured.check_load(outcome.little, outcome.slowest_to_fastest);
        if replies.errors > 0 {
            let first = replies.first_error.as_deref().unwrap_or("");
            measured.failure = Some(format!("{} errors, first: {first}", replies.errors));
        }
        if values_are_known && replies.misses + replies.wrong_lengths > 0 {
            let (misses, wrong) = (replies.misses, replies.wrong_lengths);
            measured.failure = Some(format!("{misses} misses, {wrong} values of a wrong length"));
        }
        if outcome.operations == 0 {
            measured.failure = Some("no reply".to_owned());
        }
        measured
    }

    /// Adds doubts about a load that violates Little's law or treats connections unequally.
    pub fn check_load(&mut self, little: Option<f64>, slowest_to_fastest: f64) {
        if let Some(little) = little.filter(|little| (little - 1.0).abs() > LITTLE_TOLERANCE) {
            self.doubts.push(format!("Little's law: {little:.3} of the requests in flight"));
        }
        if slowest_to_fastest < FAIR_MIN {
            self.doubts.push(format!("slowest connection {slowest_to_fastest:.2} of the fastest"));
        }
    }

    /// Whether the figures count.
    pub fn is_complete(&self) -> bool {
        self.failure.is_none()
    }
}

/// Reduction of the rounds of a figure to one number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OverRounds {
    /// The median.
    Median,
    /// The largest, for the longest of pauses.
    Largest,
}

impl Row {
    /// Reduces all complete rounds to one number.
    pub fn figure(&self, name: &str, over_rounds: OverRounds) -> Option<f64> {
        let values = self.values(name);
        match over_rounds {
            OverRounds::Median => median(values),
            OverRounds::Largest => values.into_iter().reduce(f64::max),
        }
    }

    /// Half the range of the complete rounds, as a share of the median; `None` for fewer than two
    /// rounds.
    pub fn spread(&self, name: &str) -> Option<f64> {
        let values = self.values(name);
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let middle = median(values.iter().copied()).filter(|middle| *middle > 0.0)?;
        (values.len() > 1).then_some((high - low) / 2.0 / middle)
    }

    fn values(&self, name: &str) -> Vec<f64> {
        let complete = self.rounds.iter().filter(|round| round.is_complete());
        complete.filter_map(|round| round.figures.get(name).copied()).collect()
    }
}

impl Results {
    /// A file without rows, of a run that begins now.
    pub fn new(experiment: &str, settings: serde_json::Value) -> Results {
        Results {
            format: FORMAT,
            experiment: experiment.to_owned(),
            started: chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            command_line: crate::report::command_line(),
            machine: Machine::here(),
            settings,
            ..Results::default()
        }
    }

    /// Name of the file without its ending.
    pub fn name(&self) -> String {
        match self.label.as_str() {
            "" => self.experiment.clone(),
            label => format!("{}-{label}", self.experiment),
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Results, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        let results: Results = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        match results.format {
            FORMAT => Ok(results),
            other => Err(failed(&format!("has form {other}, this program reads {FORMAT}"))),
        }
    }

    /// Writes the file, a line per row, beside the old one and then in its place: a full disk
    /// leaves the old one.
    pub fn write(&self, directory: &Path) -> Result<(), String> {
        let path = directory.join(format!("{}.json", self.name()));
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = self.text().map_err(|error| failed(&error))?;
        cache::write(&path, text.as_bytes()).map_err(|error| failed(&error))
    }

    fn text(&self) -> serde_json::Result<String> {
        let head = Results { rows: Vec::new(), ..self.clone() };
        let mut text = serde_json::to_string_pretty(&head)?;
        // The rows come last and replace their empty list.
        text.truncate(text.len() - "]\n}".len());
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(if number == 0 { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(row)?);
        }
        text.push_str("\n]\n}\n");
        Ok(text)
    }

    /// The row of a server at a point.
    pub fn row(&self, server: &str, point: &Point) -> Option<&Row> {
        self.rows.iter().find(|row| row.server == server && row.point == *point)
    }

    /// Whether a round was completed.
    pub fn has(&self, server: &str, point: &Point, round: usize) -> bool {
        let done = |other: &&Measurement| other.round == round && other.is_complete();
        self.row(server, point).is_some_and(|row| row.rounds.iter().any(|other| done(&other)))
    }

    /// Records a measurement, in the place of a failed one of the same round.
    pub fn record(&mut self, server: &str, point: &Point, measured: Measurement) {
        let at = self.rows.iter().position(|row| row.server == server && row.point == *point);
        let at = at.unwrap_or_else(|| {
            let (server, point) = (server.to_owned(), point.clone());
            self.rows.push(Row { server, point, rounds: Vec::new() });
            self.rows.len() - 1
        });
        let rounds = &mut self.rows[at].rounds;
        rounds.retain(|other| other.round != measured.round);
        rounds.push(measured);
    }

    /// Resumes an earlier file: takes its rows, if it was of the same run.
    pub fn resume(&mut self, earlier: Results) -> Result<(), String> {
        let same = [
            ("the options", earlier.settings == self.settings),
            ("--quick", earlier.quick == self.quick),
            ("the machine", earlier.machine == self.machine),
            ("the commit", earlier.commit == self.commit),
            ("the servers or how they are started", earlier.servers == self.servers),
        ];
        if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
            let name = self.name();
            return Err(format!("--resume: {what} of {name}.json differ from this run's"));
        }
        self.started = earlier.started;
        self.rows = earlier.rows;
        Ok(())
    }
}

/// The median; for an even number of values the mean of the middle two. `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str) -> Point {
        Point::from([("pipeline".to_owned(), text.to_owned())])
    }

    #[test]
    fn medians() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, f64::NAN, 3.0]), Some(2.5));
    }

    #[test]
    fn figures_keep_six_digits_and_leave_out_what_is_no_number() {
        let measured = Measurement::default()
            .with("rate", 1_234_567.89)
            .with("cpu", 0.123_456_789)
            .with("nothing", f64::NAN)
            .with("zero", 0.0);
        let figures: Vec<_> = measured.figures.into_iter().collect();
        let want = [("cpu", 0.123_457), ("rate", 1_234_568.0), ("zero", 0.0)];
        assert!(figures.iter().map(|(name, value)| (name.as_str(), *value)).eq(want));
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_failed_rounds_are_measured_again() {
        let directory = std::env::temp_dir().join(format!("petrel-bench-r-{}", std::process::id()));
        let mut results = Results::new("matrix", serde_json::json!({"keys": 10}));
        results.label = "tcp".to_owned();
        for round in 0..3 {
            let cpu = Measurement { round, ..Measurement::default() }.with("cpu", round as f64);
            results.record("a", &point("1"), cpu);
        }
        results.record("a", &point("2"), Measurement::failed("it broke"));
        results.write(&directory).unwrap();
        let read = Results::read(&directory.join("matrix-tcp.json")).unwrap();
        assert_eq!(read, results);
        assert!(read.has("a", &point("1"), 2) && !read.has("a", &point("1"), 3));
        assert!(!read.has("a", &point("2"), 0) && !read.has("b", &point("1"), 0));

        let mut next = Results::new("matrix", serde_json::json!({"keys": 10}));
        next.resume(read.clone()).unwrap();
        next.record("a", &point("2"), Measurement::default().with("cpu", 7.0));
        assert_eq!(next.rows[1].rounds.len(), 1);
        assert_eq!(next.rows[1].figure("cpu", OverRounds::Median), Some(7.0));
        assert_eq!(next.rows[0].figure("cpu", OverRounds::Largest), Some(2.0));
        assert_eq!((next.rows[0].spread("cpu"), next.rows[1].spread("cpu")), (Some(1.0), None));
        let mut other = Results::new("matrix", serde_json::json!({"keys": 11}));
        assert!(other.resume(read).unwrap_err().contains("options"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
