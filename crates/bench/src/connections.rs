//! `connections`: throughput and latency over the number of open connections, and memory per idle
//! one.

mod holder;

use std::time::Duration;

use serde::Serialize;

use crate::experiment::{
    Better, CPU, Description, Experiment, FIGURE, Figure, LOAD, Lifetime, Plot, RunArgs, SERVER,
    Session, THROUGHPUT, View, at, grid, texts,
};
use crate::load::{
    self, Extent, KeyOrder, KeySpace, Latency, Operation, Plan, ValueSizes, latency_histogram,
};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};
use crate::sys;
use holder::{Holder, Part};

pub use holder::{HOLDER, hold};

/// Descriptors of a holder that are not connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// Connections opened beyond those measured, by the benchmark itself.
const CONNECTIONS_SPARE: usize = 64;

/// Points at which no connection is used.
const IDLE: &str = "idle";

/// Longest wait until resident memory rests.
const REST_MAX: Duration = Duration::from_secs(5);

/// Measure throughput and latency over the number of open connections, and memory per idle one.
///
/// All connections are open and have sent a PING; GET is then sent over `--active` of them. The
/// clients are as many processes as the limit on open files demands; over TCP they leave from
/// several loopback addresses.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ConnectionsArgs {
    /// Numbers of open connections, ascending
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,10,100,1000,10000,30000,64000",
        default_value_if("quick", "true", "1,10,100,1000,5000")
    )]
    counts: Vec<usize>,

    /// How many of them are active (0: all)
    #[arg(long, default_value_t = 1000, value_name = "N")]
    active: usize,

    /// Idle connections opened on a fresh server to measure memory per connection (0: none)
    #[arg(
        long,
        default_value_t = 19_000,
        default_value_if("quick", "true", "5000"),
        value_name = "N"
    )]
    idle: usize,

    /// Connections per client process, if its limit on open files allows so many
    #[arg(long, default_value_t = 17_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    per_process: u64,

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
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: u16,

    /// Seconds per measurement
    #[arg(long, default_value_t = 2.0, default_value_if("quick", "true", "0.5"))]
    seconds: f64,

    /// Seconds of load before that
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS")]
    warmup: f64,
}

const fn view(title: &'static str, figures: &'static [&'static str]) -> View {
    View::new(title, figures, &[FIGURE], &["connections"], &[SERVER])
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "connections",
    title: "Connections",
    about: "GET over open connections, each of which has sent a PING; so many of them as the option `active` says are \
            used. Memory per idle connection is the growth of a fresh server's resident memory; what the kernel \
            holds for a socket is not in it. A server without figures at a number could not hold so many.",
    axes: &[("connections", "{} connections")],
    figures: &[
        THROUGHPUT,
        CPU,
        LOAD[2],
        LOAD[3],
        LOAD[4],
        LOAD[6],
        LOAD[7],
        LOAD[8],
        Figure::new("active", "Active connections", "", 0, Better::Neither),
        Figure::new("rss", "Resident memory", "MB", 1, Better::Less),
        Figure::new("idle", "Memory per idle connection", "B", 0, Better::Less),
    ],
    views: &[
        view("", &["throughput"]).plot(Plot::Lines).in_summary(),
        view("Latency", &["p50", "p99", "p999", "max"]).plot(Plot::Lines),
        view("Cost", &["cpu", "client_cpu", "rss", "fairness", "active"]),
        view("Idle connections", &["idle"]).in_summary(),
    ],
};

impl Experiment for ConnectionsArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["use"];
    type Session = Crowd;

    fn check(&self) -> Result<(), String> {
        if !self.counts.iter().all(|count| *count > 0) || !self.counts.is_sorted() {
            return Err("--counts needs ascending numbers above zero".to_owned());
        }
        let seconds = 0.0..86_400.0;
        if self.seconds <= 0.0
            || !seconds.contains(&self.seconds)
            || !seconds.contains(&self.warmup)
        {
            return Err("--seconds and --warmup need times up to a day".to_owned());
        }
        KeySpace::new(self.keys, 16).map(|_| ())
    }

    fn admits(&self, _: &Peer) -> bool {
        true
    }

    fn server_threads_max(&self) -> usize {
        usize::from(self.server_threads)
    }

    fn points(&self) -> Vec<Point> {
        let of = |counts: Vec<String>, kind: &str| {
            grid([("connections", counts), ("use", vec![kind.to_owned()])])
        };
        let idle = if self.idle > 0 { vec![format!("{} {IDLE}", self.idle)] } else { Vec::new() };
        [of(idle, IDLE), of(texts(&self.counts), "load")].concat()
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Server
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        let most = self.counts.last().copied().unwrap_or(1).max(self.idle);
        let threads = usize::from(self.server_threads);
        let mut setting = run.setting(threads, most + CONNECTIONS_SPARE);
        setting.value_max = self.values.max;
        setting.reply_size = self.values.mean() as u32;
        setting
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Crowd, String> {
        let plan = Plan {
            operation: Operation::Set { ttl_s: None },
            extent: Extent::Walk,
            pipeline: 32,
            ..self.plan(&server)
        };
        if point["use"] != IDLE && !server.peer().is_floor() {
            load::run(&plan).map_err(|error| format!("while filled: {error}"))?;
        }
        let open_files = sys::raise_open_files().map_err(|error| error.to_string())?;
        let limit = open_files.saturating_sub(DESCRIPTORS_SPARE).max(1);
        let capacity = self.per_process.min(limit) as usize;
        let plan = self.plan(&server);
        Ok(Crowd { server, plan, capacity, holders: Vec::new(), stopped: None, idle: None })
    }

    fn measure(
        &self,
        crowd: &mut Crowd,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        if point["use"] == IDLE {
            return idle(crowd, self.idle);
        }
        let count = at(point, "connections");
        if let Some(stopped) = crowd.grow(count)? {
            return Ok(Measurement::failed(stopped));
        }
        let active = if self.active == 0 { count } else { count.min(self.active) };
        let parts = crowd.run(active, round as u64)?;
        let rss = crowd.server.rss().ok().map(|rss| rss as f64 / 1e6);
        Ok(sum(&parts).with("active", active as f64).with_some("rss", rss))
    }
}

/// Opens idle connections and sees what they cost.
fn idle(crowd: &mut Crowd, count: usize) -> Result<Measurement, String> {
    // Only a fresh server has none of the memory yet.
    if let Some(each) = crowd.idle {
        return Ok(Measurement::default().with("idle", each));
    }
    let before = crowd.server.rss_at_rest(REST_MAX)?.0;
    if let Some(stopped) = crowd.grow(count)? {
        return Ok(Measurement::failed(stopped));
    }
    let with = crowd.server.rss_at_rest(REST_MAX)?.0;
    let each = with.saturating_sub(before) as f64 / count as f64;
    crowd.idle = Some(each);
    Ok(Measurement::default().with("idle", each))
}

/// The figures of what all client processes measured.
fn sum(parts: &[Part]) -> Measurement {
    let mut histogram = latency_histogram();
    for (ns, count) in parts.iter().flat_map(|part| &part.latency) {
        histogram.saturating_record_n(*ns, *count);
    }
    let operations: u64 = parts.iter().map(|part| part.operations).sum();
    let per_operation = |ns: u64| ns as f64 / 1000.0 / operations.max(1) as f64;
    let fairness = parts.iter().map(|part| part.slowest_to_fastest).fold(1.0, f64::min);
    let throughput = parts.iter().map(|part| part.operations as f64 / part.seconds).sum();
    let mut measured = Measurement::default()
        .with("throughput", throughput)
        .with_latency(&Latency::of(&histogram))
        // Every process looks at the whole server over its own window: one of them is enough.
        .with("cpu", per_operation(parts.first().map_or(0, |part| part.server_cpu_ns)))
        .with("client_cpu", per_operation(parts.iter().map(|part| part.client_cpu_ns).sum()))
        .with("fairness", fairness);
    measured.note_load(parts.iter().filter_map(|part| part.little).reduce(f64::min), 1.0);
    let bad: u64 = parts.iter().map(|part| part.bad_replies).sum();
    if bad > 0 || operations == 0 {
        measured.failure = Some(format!("{bad} errors or wrong replies of {operations}"));
    }
    measured
}

impl ConnectionsArgs {
    /// GETs of all keys at random, as the clients send them.
    fn plan(&self, server: &Server) -> Plan {
        Plan {
            order: KeyOrder::Random,
            values: self.values,
            check_lengths: !server.peer().is_floor(),
            pipeline: self.pipeline as usize,
            extent: Extent::window(self.warmup, self.seconds),
            ..Plan::new(server, KeySpace { count: self.keys, size: 16 })
        }
    }
}

/// A server and the client processes that hold connections to it.
#[derive(Debug)]
pub struct Crowd {
    server: Server,
    plan: Plan,
    /// Connections per process.
    capacity: usize,
    holders: Vec<Holder>,
    /// Why no more connections can be opened.
    stopped: Option<String>,
    /// Memory that each idle connection takes, once measured, bytes.
    idle: Option<f64>,
}

impl Session for Crowd {
    fn server(&self) -> &Server {
        &self.server
    }
}

impl Crowd {
    fn open(&self) -> usize {
        self.holders.iter().map(|holder| holder.open).sum()
    }

    /// Opens connections up to `count` in all. Returns why there are fewer, if there are.
    fn grow(&mut self, count: usize) -> Result<Option<String>, String> {
        while self.open() < count {
            let first = self.open();
            if let Some(why) = &self.stopped {
                return Ok(Some(format!("stopped at {first} connections: {why}")));
            }
            if self.holders.last().is_none_or(|holder| holder.open >= self.capacity) {
                self.holders.push(Holder::start(&self.plan)?);
            }
            let Some(holder) = self.holders.last_mut() else { break };
            let step = (count - first).min(self.capacity - holder.open);
            self.stopped = holder.open(step, first)?;
        }
        Ok(None)
    }

    /// Lets the first `active` connections send, in all processes at the same time.
    fn run(&mut self, active: usize, round: u64) -> Result<Vec<Part>, String> {
        let mut left = active;
        let mut busy = 0;
        for holder in &mut self.holders {
            let share = left.min(holder.open);
            if share == 0 {
                break;
            }
            holder.begin(share, round * 1000 + busy as u64)?;
            left -= share;
            busy += 1;
        }
        self.holders[..busy].iter_mut().map(Holder::finish).collect()
    }
}
