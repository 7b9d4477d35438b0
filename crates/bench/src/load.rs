//! The load generator: repeats one command over many connections and measures what comes back.
//!
//! **Closed loop** (default). Each connection first sends a full pipeline; whenever a read brings
//! `k` complete replies, `k` new requests go out in one write. So the number of requests in flight
//! is `connections x pipeline` at all times, which Little's law then checks. A request's latency
//! runs from just before the write that carries it to the moment after its reply is parsed.
//!
//! **Open loop** (`rate`). Requests are due at fixed times whatever the server does; `pipeline`
//! only bounds what is in flight per connection. Latency runs from the moment the request was due,
//! so that a stalled server is charged for every request that it held up.

mod connection;
mod keys;
mod reply;
mod request;
mod tally;
mod tls;
mod worker;

use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use serde::{Deserialize, Serialize};

pub use connection::Stream;
pub use keys::{KeyOrder, KeySpace, Share, ValueSizes};
pub use reply::{Reply, ReplyReader};
pub use request::{Operation, Protocol, ValueBlock};
pub use tally::{Latency, Outcome, latency_histogram};

use crate::server::Server;
use crate::sys;
use request::Template;
use worker::{Worker, WorkerResult};

/// Where a server listens.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Endpoint {
    /// A Unix-domain socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddrV4),
    /// A TCP port for TLS, and the file of the certificate that the server shows.
    Tls(SocketAddrV4, PathBuf),
}

impl Endpoint {
    /// Connects, waiting as long as the server's backlog is full. TCP connections leave from
    /// `source` if one is given.
    pub fn connect(&self, source: Option<Ipv4Addr>) -> io::Result<Stream> {
        match self {
            Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Endpoint::Tcp(address) => {
                let stream = match source {
                    Some(source) => sys::tcp_connect_from(source, *address)?,
                    None => TcpStream::connect(address)?,
                };
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Endpoint::Tls(address, certificate) => {
                let stream = Endpoint::Tcp(*address).connect(source)?;
                let Stream::Tcp(socket) = stream else { return Ok(stream) };
                Ok(Stream::Tls(Box::new(tls::TlsStream::connect(socket, certificate)?)))
            }
        }
    }
}

/// How long a load runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Extent {
    /// Measured for `length` after `warmup`; requests are sent all the while.
    Window {
        /// Not measured.
        warmup: Duration,
        /// Measured.
        length: Duration,
    },
    /// So many requests in all, every one measured.
    Operations(u64),
    /// Every key of the share once.
    Walk,
}

impl Extent {
    /// So many seconds measured after so many of warm-up.
    pub fn window(warmup_s: f64, seconds: f64) -> Extent {
        Extent::Window {
            warmup: Duration::from_secs_f64(warmup_s),
            length: Duration::from_secs_f64(seconds),
        }
    }
}

/// What decides the length of a stored value.
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
    /// Its language.
    pub protocol: Protocol,
    /// The command repeated.
    pub operation: Operation,
    /// The keys it names.
    pub keys: KeySpace,
    /// In which order; [`Extent::Walk`] has its own.
    pub order: KeyOrder,
    /// The part of the keys that [`Extent::Walk`] visits.
    pub share: Share,
    /// Unless empty, the numbers of the keys that are drawn in place of all; not for
    /// [`Extent::Walk`].
    pub listed: Vec<u64>,
    /// Sizes of values.
    pub values: ValueSizes,
    /// What decides them.
    pub lengths: Lengths,
    /// Whether the lengths of values that come back are compared with those of [`Lengths::ByKey`].
    pub check_lengths: bool,
    /// Connections, shared evenly among the threads.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Requests in flight per connection (open loop: at most).
    pub pipeline: usize,
    /// How long.
    pub extent: Extent,
    /// Requests per second over all connections; `None` is the closed loop.
    pub rate: Option<f64>,
    /// The processes whose CPU time is measured with the load.
    pub server_processes: Vec<u32>,
    /// Decides the random numbers.
    pub seed: u64,
}

impl Plan {
    /// GETs of all keys of a server's key space in turn; others are made from it.
    pub fn new(server: &Server, keys: KeySpace) -> Plan {
        Plan {
            endpoint: server.endpoint().clone(),
            protocol: server.peer().protocol(),
            operation: Operation::Get,
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
    /// The key that stands for a drawn one: itself, or one of those listed.
    #[inline]
    fn picked(&self, key: u64) -> u64 {
        let place = u128::from(key) * self.listed.len() as u128 / u128::from(self.keys.count);
        self.listed.get(place as usize).copied().unwrap_or(key)
    }
}

/// Why a load could not be completed.
#[derive(Debug)]
pub enum LoadError {
    /// A connection could not be opened.
    Connect(io::Error),
    /// A connection broke.
    Io(io::Error),
    /// The server closed a connection.
    Closed,
    /// The server sent what is no reply, or more replies than requests.
    Protocol(String),
    /// Nothing came back for so many seconds.
    Silent(u64),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Connect(error) => write!(f, "cannot connect: {error}"),
            LoadError::Io(error) => write!(f, "a connection broke: {error}"),
            LoadError::Closed => write!(f, "the server closed a connection"),
            LoadError::Protocol(text) => write!(f, "{text}"),
            LoadError::Silent(seconds) => write!(f, "no reply for {seconds} seconds"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError::Io(error)
    }
}

/// Opens the connections of a plan and runs it.
pub fn run(plan: &Plan) -> Result<Outcome, LoadError> {
    let streams = (0..plan.connections)
        .map(|_| plan.endpoint.connect(None).map_err(LoadError::Connect))
        .collect::<Result<Vec<_>, _>>()?;
    run_over(plan, streams).map(|(outcome, _)| outcome)
}

/// Runs a plan over connections that are open already, and gives them back.
pub fn run_over(plan: &Plan, streams: Vec<Stream>) -> Result<(Outcome, Vec<Stream>), LoadError> {
    let block = ValueBlock::new(plan.values.max);
    let template = Template::new(plan.protocol, plan.operation, plan.keys);
    let abort = AtomicBool::new(false);
    let threads = plan.threads.clamp(1, streams.len().max(1));
    let mut shares: Vec<Vec<(usize, Stream)>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, stream) in streams.into_iter().enumerate() {
        shares[index % threads].push((index, stream));
    }
    let cpu_before = server_cpu(plan)?;
    let begin = Instant::now();
    let results = thread::scope(|scope| {
        let spawned: Vec<_> = shares
            .into_iter()
            .enumerate()
            .map(|(thread, share)| {
                let (block, template, abort) = (&block, &template, &abort);
                scope.spawn(move || {
                    let worker = Worker::new(plan, block, template, share, begin)?;
                    worker.run(thread == 0, abort)
                })
            })
            .collect();
        spawned
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect::<Vec<Result<WorkerResult, LoadError>>>()
    });
    let cpu_whole = server_cpu(plan)?.zip(cpu_before).map(|(after, before)| after - before);
    let mut parts = Vec::new();
    for result in results {
        parts.push(result?);
    }
    Ok(tally::sum(plan, parts, cpu_whole))
}

/// CPU time that the processes of the server have taken so far, nanoseconds.
fn server_cpu(plan: &Plan) -> io::Result<Option<u64>> {
    let processes = plan.server_processes.iter();
    match plan.server_processes.is_empty() {
        true => Ok(None),
        false => processes.map(|pid| sys::process_cpu_ns(*pid)).sum::<io::Result<u64>>().map(Some),
    }
}

#[cfg(test)]
mod tests;
