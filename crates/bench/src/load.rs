//! The load generator: repeats one command over many connections and measures what comes back.
//!
//! **Closed loop** (default). Each connection first sends a full pipeline; whenever a read brings
//! `k` complete replies, `k` new requests go out in one write. So the number of requests in flight
//! is `connections x pipeline` at all times, which Little's law then checks. A request's latency
//! runs from just before the write that carries it to the time after its reply is parsed.
//!
//! **Open loop** (`rate`). Requests are due at fixed times whatever the server does; `pipeline`
//! only bounds the requests in flight per connection. Latency runs from the due time of a request,
//! so that a stalled server is charged for every request that it held up.

mod connection;
mod keys;
mod request;
mod tally;
mod worker;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{io, thread};

use serde::{Deserialize, Serialize};

pub use keys::{KeyOrder, KeySpace, Share, ValueSizes};
pub use request::{Mix, Operation, ValueBlock};
pub use tally::{Outcome, latency_histogram};

use crate::server::Server;
use crate::sys;
use crate::wire::{Endpoint, Protocol, Stream, broken};
use request::Template;
use worker::{Worker, WorkerResult};

/// Length of a load.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Extent {
    /// Measured for `length` after `warmup`; requests are sent all the while.
    Window {
        /// Not measured.
        warmup: Duration,
        /// Measured.
        length: Duration,
    },
    /// A number of requests in all, every one measured.
    Operations(u64),
    /// Every key of the share once.
    Walk,
}

impl Extent {
    /// Window of some seconds after a warm-up.
    pub fn window(warmup_s: f64, seconds: f64) -> Extent {
        Extent::Window {
            warmup: Duration::from_secs_f64(warmup_s),
            length: Duration::from_secs_f64(seconds),
        }
    }
}

/// Rule for the length of a stored value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Lengths {
    /// The key: storing twice stores the same length, and loads can be checked.
    ByKey,
    /// Chance: storing over a value changes its length.
    Random,
}

/// A load.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// The server.
    pub endpoint: Endpoint,
    /// Protocol of the server.
    pub protocol: Protocol,
    /// The command repeated.
    pub operation: Operation,
    /// Variation of it.
    pub mix: Mix,
    /// The keys it names.
    pub keys: KeySpace,
    /// Order of the keys; [`Extent::Walk`] has its own.
    pub order: KeyOrder,
    /// The part of the keys that [`Extent::Walk`] visits.
    pub share: Share,
    /// Unless empty, the numbers of the keys that are drawn in place of all; not for
    /// [`Extent::Walk`].
    pub listed: Vec<u64>,
    /// Sizes of values.
    pub values: ValueSizes,
    /// Rule for the length of a stored value.
    pub lengths: Lengths,
    /// Whether the lengths of values that come back are compared with those of [`Lengths::ByKey`].
    pub check_lengths: bool,
    /// Connections, shared evenly among the threads.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Requests in flight per connection (open loop: at most).
    pub pipeline: usize,
    /// Length of the load.
    pub extent: Extent,
    /// Requests per second over all connections; `None` is the closed loop.
    pub rate: Option<f64>,
    /// Processes of the server, to measure their CPU time.
    pub server_processes: Vec<u32>,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Plan {
    /// GETs of all keys in turn; other plans are made from it.
    pub fn new(server: &Server, keys: KeySpace) -> Plan {
        Plan {
            endpoint: server.endpoint().clone(),
            protocol: server.peer().protocol(),
            operation: Operation::Get,
            mix: Mix::Only,
            keys,
            order: KeyOrder::Random,
            share: Share::All,
            listed: Vec::new(),
            values: ValueSizes::fixed(0),
            lengths: Lengths::ByKey,
            check_lengths: true,
            connections: 4,
            threads: 1,
            pipeline: 32,
            extent: Extent::Walk,
            rate: None,
            server_processes: server.processes().to_vec(),
            seed: 1,
        }
    }
}

impl Plan {
    /// Maps a drawn key to itself, or to one of those listed.
    #[inline]
    fn picked(&self, key: u64) -> u64 {
        let place = u128::from(key) * self.listed.len() as u128 / u128::from(self.keys.count);
        self.listed.get(place as usize).copied().unwrap_or(key)
    }
}

/// Error of a load, in one line.
#[derive(Debug)]
pub struct LoadError(pub String);

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError(broken(error))
    }
}

/// Opens the connections of a plan and runs it.
pub fn run(plan: &Plan) -> Result<Outcome, String> {
    let streams = (0..plan.connections)
        .map(|_| plan.endpoint.connect(None).map_err(|error| format!("cannot connect: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    run_over(plan, streams).map(|(outcome, _)| outcome).map_err(|error| error.0)
}

/// Runs a plan over connections that are open already, and gives them back.
pub fn run_over(plan: &Plan, streams: Vec<Stream>) -> Result<(Outcome, Vec<Stream>), LoadError> {
    let block = ValueBlock::new(plan.values.max);
    let templates = Template::all(plan.protocol, plan.operation, plan.mix, plan.keys);
    let abort = AtomicBool::new(false);
    let threads = plan.threads.clamp(1, streams.len().max(1));
    let mut shares: Vec<Vec<(usize, Stream)>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, stream) in streams.into_iter().enumerate() {
        shares[index % threads].push((index, stream));
    }
    let cpu_before = server_cpu(plan)?;
    let begin = Instant::now();
    let parts = thread::scope(|scope| {
        let spawned: Vec<_> = shares
            .into_iter()
            .enumerate()
            .map(|(thread, share)| {
                let (block, templates, abort) = (&block, &templates, &abort);
                scope.spawn(move || {
                    let worker = Worker::new(plan, block, templates, share, begin)?;
                    worker.run(thread == 0, abort)
                })
            })
            .collect();
        spawned.into_iter().map(sys::joined).collect::<Result<Vec<WorkerResult>, LoadError>>()
    })?;
    let cpu_whole = server_cpu(plan)?.zip(cpu_before).map(|(after, before)| after - before);
    Ok(tally::sum(plan, parts, cpu_whole))
}

/// CPU time of the processes of the server so far, nanoseconds.
fn server_cpu(plan: &Plan) -> io::Result<Option<u64>> {
    let processes = plan.server_processes.iter();
    match plan.server_processes.is_empty() {
        true => Ok(None),
        false => processes.map(|pid| sys::process_cpu_ns(*pid)).sum::<io::Result<u64>>().map(Some),
    }
}

#[cfg(test)]
mod tests;
