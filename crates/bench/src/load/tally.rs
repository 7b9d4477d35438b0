//! Measurements of a load, per thread and summed.

use std::time::Duration;

use super::worker::WorkerResult;
use super::{Extent, Plan};
use crate::wire::{Reply, Stream};
use hdrhistogram::Histogram;

/// Latencies above this are counted as this.
const LATENCY_MAX_NS: u64 = 100_000_000_000;

/// A histogram of nanoseconds with three significant digits, exact to 64 ns below 65 us.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(64, LATENCY_MAX_NS, 3).expect("the bounds are valid constants")
}

/// Replies, counted by kind.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    /// Replies of executed commands.
    pub done: u64,
    /// Values.
    pub hits: u64,
    /// Replies without a key.
    pub misses: u64,
    /// Errors.
    pub errors: u64,
    /// The first error's text.
    pub first_error: Option<String>,
    /// Values with another length than was stored.
    pub wrong_lengths: u64,
}

impl Replies {
    /// Counts a reply; `expected` is the right length of a value.
    #[inline]
    pub fn count(&mut self, reply: Reply<'_>, expected: Option<u32>) {
        match reply {
            Reply::Done => self.done += 1,
            Reply::Value(len) => {
                self.hits += 1;
                self.wrong_lengths += u64::from(expected.is_some_and(|expected| expected != len));
            }
            Reply::Miss => self.misses += 1,
            Reply::Error(text) => {
                self.errors += 1;
                self.first_error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
            }
        }
    }

    fn add(&mut self, other: Replies) {
        self.done += other.done;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.wrong_lengths += other.wrong_lengths;
        if self.first_error.is_none() {
            self.first_error = other.first_error;
        }
    }
}

/// Measurement of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Replies counted.
    pub operations: u64,
    /// Time over which they were counted.
    pub elapsed: Duration,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// CPU time of the generator, nanoseconds.
    pub client_cpu_ns: u64,
    /// CPU time of the server, nanoseconds, if its process was named.
    pub server_cpu_ns: Option<u64>,
    /// Replies by kind. Warm-up included: an error there counts, too.
    pub replies: Replies,
    /// Requests in flight on average (from latencies) over those the loop keeps in flight: 1.0
    /// where latencies and throughput agree (Little's law). `None` in an open loop.
    pub little: Option<f64>,
    /// Replies of the slowest connection over those of the fastest.
    pub slowest_to_fastest: f64,
}

impl Outcome {
    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// CPU time of the generator per operation, microseconds.
    pub fn client_cpu_us(&self) -> f64 {
        self.client_cpu_ns as f64 / 1000.0 / self.operations.max(1) as f64
    }

    /// CPU time of the server per operation, microseconds.
    pub fn server_cpu_us(&self) -> Option<f64> {
        Some(self.server_cpu_ns? as f64 / 1000.0 / self.operations.max(1) as f64)
    }
}

/// Sums the results of the threads. `cpu_whole` is the server's CPU time over the whole load.
pub fn sum(
    plan: &Plan,
    parts: Vec<WorkerResult>,
    cpu_whole: Option<u64>,
) -> (Outcome, Vec<Stream>) {
    let mut latency = latency_histogram();
    let mut replies = Replies::default();
    let mut streams = Vec::new();
    let mut answered = Vec::new();
    let (mut client_cpu_ns, mut latency_ns, mut active_ns) = (0, 0u128, 0u128);
    let mut last = Duration::ZERO;
    let mut cpu_window = None;
    for part in parts {
        latency.add(&part.latency).expect("equal bounds");
        replies.add(part.replies);
        client_cpu_ns += part.client_cpu_ns;
        latency_ns += part.latency_ns;
        cpu_window = cpu_window.or(part.server_cpu_ns);
        for connection in part.connections {
            answered.push(connection.answered);
            active_ns += connection.active.as_nanos();
            last = last.max(connection.active);
            streams.push((connection.index, connection.stream));
        }
    }
    streams.sort_by_key(|(index, _)| *index);
    let (elapsed, server_cpu_ns) = match plan.extent {
        Extent::Window { length, .. } => (length, cpu_window),
        Extent::Operations(_) | Extent::Walk => (last, cpu_whole),
    };
    let in_flight_ns = active_ns * plan.pipeline as u128;
    let fastest = answered.iter().max().copied().unwrap_or(0).max(1);
    let slowest = answered.iter().min().copied().unwrap_or(0);
    let outcome = Outcome {
        operations: answered.iter().sum(),
        elapsed,
        latency,
        client_cpu_ns,
        server_cpu_ns,
        replies,
        little: (plan.rate.is_none() && in_flight_ns > 0)
            .then(|| latency_ns as f64 / in_flight_ns as f64),
        slowest_to_fastest: slowest as f64 / fastest as f64,
    };
    (outcome, streams.into_iter().map(|(_, stream)| stream).collect())
}
