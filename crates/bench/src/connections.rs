//! `connections`: how a server bears many open connections.

mod holder;
mod tables;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::load::{
    self, Endpoint, Extent, KeyOrder, KeySpace, Latency, Lengths, Operation, Plan, Protocol, Share,
    ValueSizes, latency_histogram,
};
use crate::report::{self, Machine, median};
use crate::server::{Peer, PeerArgs, Server, Setting, Transport};
use crate::sys;
use holder::{Holder, Part, Target};

pub use holder::{HOLDER, hold};

/// Descriptors of a holder that are not connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// Connections opened beyond those measured, by the benchmark itself.
const CONNECTIONS_SPARE: usize = 64;

/// Longest wait until resident memory rests.
const REST_MAX: Duration = Duration::from_secs(5);

/// Measure throughput and latency over the number of open connections, and memory per idle one.
///
/// All connections are open and have sent a PING; GET is then sent over `--active` of them. The
/// clients are as many processes as the limit on open files demands; over TCP they leave from
/// several loopback addresses.
#[derive(Clone, Debug, clap::Args)]
pub struct ConnectionsArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Numbers of open connections, ascending
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,10,100,1000,10000,30000,64000"
    )]
    counts: Vec<usize>,

    /// How many of them are active (0: all)
    #[arg(long, default_value_t = 1000, value_name = "N")]
    active: usize,

    /// Idle connections opened on a fresh server to measure memory per connection (0: none)
    #[arg(long, default_value_t = 19_000, value_name = "N")]
    idle: usize,

    /// Connections per client process, if its limit on open files allows so many
    #[arg(long, default_value_t = 17_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    per_process: u64,

    /// Reach the servers over TCP on 127.0.0.1 instead of a Unix socket
    #[arg(long)]
    tcp: bool,

    /// Requests in flight per active connection
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pipeline: u64,

    /// Number of keys
    #[arg(long, default_value_t = 100_000)]
    keys: u64,

    /// Sizes of values in bytes
    #[arg(long, default_value = "1-1024", value_name = "SIZES")]
    values: ValueSizes,

    /// Threads of the servers
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    server_threads: u64,

    /// Rounds per number of connections; the figures are their medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,

    /// Seconds measured per round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// Seconds of load before that
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS")]
    warmup: f64,

    /// Directory for connections.md, connections.json and the plots
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    out: PathBuf,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    transport: Transport,
    /// Limit on open files of every process here.
    open_files: u64,
    counts: Vec<usize>,
    active: usize,
    pipeline: u64,
    keys: u64,
    values: String,
    server_threads: u64,
    rounds: u64,
    seconds: f64,
    commands: Vec<String>,
    idle: Vec<Idle>,
    rows: Vec<Row>,
}

/// Memory per idle connection.
#[derive(Clone, Debug, Serialize)]
struct Idle {
    server: String,
    /// Connections held.
    held: usize,
    /// Resident memory before and with them, bytes.
    before: u64,
    with: u64,
    bytes_per_connection: f64,
    /// Why not as many as asked for were held.
    stopped_by: Option<String>,
}

/// One server with one number of open connections.
#[derive(Clone, Debug, Serialize)]
struct Row {
    server: String,
    /// Connections asked for, held, and active.
    count: usize,
    held: usize,
    active: usize,
    throughput: f64,
    latency: Latency,
    server_cpu_us: f64,
    client_cpu_us: f64,
    /// `None` when the server is gone.
    rss: Option<u64>,
    slowest_to_fastest: f64,
    stopped_by: Option<String>,
    problems: Vec<String>,
}

/// Runs the measurement and writes its report.
pub fn run(args: &ConnectionsArgs) -> Result<(), String> {
    let counts_good = args.counts.iter().all(|count| *count > 0) && args.counts.is_sorted();
    if args.counts.is_empty() || !counts_good {
        return Err("--counts needs ascending numbers above zero".to_owned());
    }
    if !(args.seconds > 0.0 && args.seconds < 86_400.0 && (0.0..86_400.0).contains(&args.warmup)) {
        return Err("--seconds and --warmup need times up to a day".to_owned());
    }
    let open_files = sys::raise_open_files().map_err(|error| error.to_string())?;
    let transport = if args.tcp { Transport::Tcp } else { Transport::Unix };
    let mut report = Report {
        machine: Machine::here(),
        transport,
        open_files,
        counts: args.counts.clone(),
        active: args.active,
        pipeline: args.pipeline,
        keys: args.keys,
        values: args.values.to_string(),
        server_threads: args.server_threads,
        rounds: args.rounds,
        seconds: args.seconds,
        commands: Vec::new(),
        idle: Vec::new(),
        rows: Vec::new(),
    };
    let bench = Bench { args, transport, keys: KeySpace::new(args.keys, 16)?, open_files };
    // Servers that run commands on one thread are also measured with one I/O thread.
    let many = args.server_threads > 1;
    let variants = |peer: Peer| {
        let one = peer.with_one_thread().filter(|_| many);
        std::iter::once(peer).chain(one)
    };
    for peer in args.peers.resolve()?.into_iter().flat_map(variants) {
        report.commands.push(peer.describe(&bench.setting(bench.most())));
        if args.idle > 0 {
            report.idle.push(bench.idle(&peer)?);
        }
        bench.curve(&peer, &mut report.rows)?;
    }
    let plots = tables::plots(&report);
    report::write(&args.out, "connections", &report, &tables::document(&report), &plots)
}

#[derive(Debug)]
struct Bench<'a> {
    args: &'a ConnectionsArgs,
    transport: Transport,
    keys: KeySpace,
    open_files: u64,
}

impl Bench<'_> {
    /// Opens idle connections on a fresh server and sees what they cost.
    fn idle(&self, peer: &Peer) -> Result<Idle, String> {
        let server = self.start(peer, self.args.idle)?;
        let before = server.rss_at_rest(REST_MAX)?.0;
        let mut crowd = Crowd::new(self.target(&server), self.capacity());
        let stopped_by = crowd.grow(self.args.idle)?;
        let with = server.rss_at_rest(REST_MAX)?.0;
        let held = crowd.open();
        let growth = with.saturating_sub(before);
        let bytes_per_connection = growth as f64 / held.max(1) as f64;
        eprintln!("{}: {held} idle, {bytes_per_connection:.0} bytes each", peer.name);
        let server = peer.name.clone();
        Ok(Idle { server, held, before, with, bytes_per_connection, stopped_by })
    }

    /// Opens more and more connections and measures at each number.
    fn curve(&self, peer: &Peer, rows: &mut Vec<Row>) -> Result<(), String> {
        let server = self.start(peer, self.most())?;
        self.fill(&server)?;
        let mut crowd = Crowd::new(self.target(&server), self.capacity());
        for count in &self.args.counts {
            let stopped_by = crowd.grow(*count)?;
            let held = crowd.open();
            if held == 0 {
                let why = stopped_by.unwrap_or_default();
                return Err(format!("{}: cannot connect: {why}", peer.name));
            }
            let active = if self.args.active == 0 { held } else { held.min(self.args.active) };
            let mut rounds = Vec::new();
            let mut broken = None;
            for round in 0..self.args.rounds {
                match crowd.run(active, self.args, round) {
                    Ok(parts) => rounds.push(Round::of(&parts)),
                    Err(error) => broken = broken.or(Some(error)),
                }
                if broken.is_some() {
                    break;
                }
            }
            let rss = server.rss().ok();
            let mut row = row(&peer.name, *count, held, active, rss, stopped_by, &rounds);
            let stop = row.stopped_by.is_some() || broken.is_some();
            row.problems.extend(broken);
            eprintln!("{}", row.line());
            rows.push(row);
            if stop {
                break;
            }
        }
        Ok(())
    }

    fn capacity(&self) -> usize {
        let limit = self.open_files.saturating_sub(DESCRIPTORS_SPARE).max(1);
        self.args.per_process.min(limit) as usize
    }

    fn start(&self, peer: &Peer, connections: usize) -> Result<Server, String> {
        Server::start(peer, &self.setting(connections))
    }

    fn setting(&self, connections: usize) -> Setting {
        let threads = self.args.server_threads as usize;
        let mut setting = Setting::new(threads, self.transport, connections + CONNECTIONS_SPARE);
        setting.value_max = self.args.values.max;
        setting.reply_size = self.args.values.mean() as u32;
        setting
    }

    /// The largest number of connections asked for.
    fn most(&self) -> usize {
        self.args.counts.iter().max().copied().unwrap_or(1)
    }

    fn fill(&self, server: &Server) -> Result<(), String> {
        if server.peer().is_floor() {
            return Ok(());
        }
        let plan = Plan {
            endpoint: server.endpoint().clone(),
            protocol: server.peer().protocol(),
            operation: Operation::Set { ttl_s: None },
            keys: self.keys,
            order: KeyOrder::Sequential,
            share: Share::All,
            values: self.args.values,
            lengths: Lengths::ByKey,
            check_lengths: false,
            connections: 2,
            threads: 1,
            pipeline: 32,
            extent: Extent::Walk,
            rate: None,
            server_pid: None,
            seed: 1,
        };
        let failed = |error| format!("{}: while it was filled: {error}", server.peer().name);
        load::run(&plan).map(|_| ()).map_err(failed)
    }

    fn target(&self, server: &Server) -> Target {
        let (socket, port) = match server.endpoint() {
            Endpoint::Unix(path) => (Some(path.clone()), 0),
            Endpoint::Tcp(address) | Endpoint::Tls(address, _) => (None, address.port()),
        };
        Target {
            socket,
            port,
            memcached: server.peer().protocol() == Protocol::Memcached,
            pid: server.pid(),
            keys: self.keys.count,
            key_size: self.keys.size,
            value_min: self.args.values.min,
            value_max: self.args.values.max,
            check: !server.peer().is_floor(),
        }
    }
}

/// The client processes.
#[derive(Debug)]
struct Crowd {
    target: Target,
    /// Connections per process.
    capacity: usize,
    holders: Vec<Holder>,
}

impl Crowd {
    fn new(target: Target, capacity: usize) -> Crowd {
        Crowd { target, capacity, holders: Vec::new() }
    }

    fn open(&self) -> usize {
        self.holders.iter().map(|holder| holder.open).sum()
    }

    /// Opens connections up to `count` in all. Returns why it stopped early, if it did.
    fn grow(&mut self, count: usize) -> Result<Option<String>, String> {
        while self.open() < count {
            let first = self.open();
            if self.holders.last().is_none_or(|holder| holder.open >= self.capacity) {
                self.holders.push(Holder::start(&self.target)?);
            }
            let Some(holder) = self.holders.last_mut() else { break };
            let step = (count - first).min(self.capacity - holder.open);
            if let Some(error) = holder.open(step, first)? {
                return Ok(Some(error));
            }
        }
        Ok(None)
    }

    /// Lets the first `active` connections send, in all processes at the same time.
    fn run(
        &mut self,
        active: usize,
        args: &ConnectionsArgs,
        round: u64,
    ) -> Result<Vec<Part>, String> {
        let mut left = active;
        let mut busy = 0;
        for holder in &mut self.holders {
            let share = left.min(holder.open);
            if share == 0 {
                break;
            }
            let seed = round * 1000 + busy as u64;
            holder.begin(share, args.pipeline as usize, args.warmup, args.seconds, seed)?;
            left -= share;
            busy += 1;
        }
        self.holders[..busy].iter_mut().map(Holder::finish).collect()
    }
}

/// What all processes measured in one round.
#[derive(Debug)]
struct Round {
    throughput: f64,
    latency: Latency,
    server_cpu_us: f64,
    client_cpu_us: f64,
    slowest_to_fastest: f64,
    little: Option<f64>,
    bad_replies: u64,
}

impl Round {
    fn of(parts: &[Part]) -> Round {
        let mut histogram = latency_histogram();
        for (ns, count) in parts.iter().flat_map(|part| &part.latency) {
            histogram.saturating_record_n(*ns, *count);
        }
        let operations: u64 = parts.iter().map(|part| part.operations).sum();
        let per_operation = |ns: u64| ns as f64 / 1000.0 / operations.max(1) as f64;
        let littles: Vec<f64> = parts.iter().filter_map(|part| part.little).collect();
        Round {
            throughput: parts.iter().map(|part| part.operations as f64 / part.seconds).sum(),
            latency: Latency::of(&histogram),
            // Every process looks at the whole server over its own window: one of them is enough.
            server_cpu_us: per_operation(parts.first().map_or(0, |part| part.server_cpu_ns)),
            client_cpu_us: per_operation(parts.iter().map(|part| part.client_cpu_ns).sum()),
            slowest_to_fastest: parts
                .iter()
                .map(|part| part.slowest_to_fastest)
                .fold(1.0, f64::min),
            little: littles.into_iter().reduce(f64::min),
            bad_replies: parts.iter().map(|part| part.bad_replies).sum(),
        }
    }

    fn problems(&self) -> Option<String> {
        let mut problems = Vec::new();
        if self.little.is_some_and(|little| (little - 1.0).abs() > 0.05) {
            problems.push(format!("Little's law: {:.3}", self.little.unwrap_or(0.0)));
        }
        if self.bad_replies > 0 {
            problems.push(format!("{} errors or wrong replies", self.bad_replies));
        }
        (!problems.is_empty()).then(|| problems.join(", "))
    }
}

fn row(
    server: &str,
    count: usize,
    held: usize,
    active: usize,
    rss: Option<u64>,
    stopped_by: Option<String>,
    rounds: &[Round],
) -> Row {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure)).unwrap_or(0.0);
    Row {
        server: server.to_owned(),
        count,
        held,
        active,
        throughput: of(|round| round.throughput),
        latency: Latency {
            mean_us: of(|round| round.latency.mean_us),
            p50_us: of(|round| round.latency.p50_us),
            p99_us: of(|round| round.latency.p99_us),
            p999_us: of(|round| round.latency.p999_us),
            max_us: of(|round| round.latency.max_us),
        },
        server_cpu_us: of(|round| round.server_cpu_us),
        client_cpu_us: of(|round| round.client_cpu_us),
        rss,
        slowest_to_fastest: of(|round| round.slowest_to_fastest),
        stopped_by,
        problems: rounds.iter().filter_map(Round::problems).collect(),
    }
}

impl Row {
    /// Whether any round was completed.
    fn measured(&self) -> bool {
        self.throughput > 0.0
    }

    fn line(&self) -> String {
        let stopped = self.stopped_by.as_ref();
        let stopped = stopped.map_or_else(String::new, |error| format!(" (stopped by: {error})"));
        format!(
            "{}: {} open{stopped}, {} active: {:.0}/s, p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us {}",
            self.server,
            self.held,
            self.active,
            self.throughput,
            self.latency.p50_us,
            self.latency.p99_us,
            self.latency.p999_us,
            self.problems.join("; ")
        )
    }
}
