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

/// Seconds of load before a window that is measured.
const WARM_UP_S: f64 = 0.5;

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
        default_value = "1,2,5,10,20,30,50,70,100,150,200,300,400,500,600,700,800,900,1000,1500,2000,3000,\
                         4000,5000,7000,10000,15000,20000,30000,40000,50000,64000",
        default_value_if("quick", "true", "1,10,100,1000,5000")
    )]
    counts: Vec<usize>,

    /// How many of them are active (0: all)
    #[arg(long, default_value_t = 0, value_name = "N")]
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

    /// Threads of the servers, measured apart
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,2",
          default_value_if("quick", "true", "2"),
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: Vec<u16>,

    /// Requests per measurement, at least one over each active connection
    #[arg(long, default_value_t = 100_000, default_value_if("quick", "true", "20000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,

    /// Measure so many seconds after half a second of load, instead of a number of requests
    #[arg(long)]
    seconds: Option<f64>,
}

const fn view(title: &'static str, figures: &'static [&'static str]) -> View {
    View::new(title, figures, &["threads", FIGURE], &["connections"], &[SERVER])
}

/// Latency surfaces: up to so many connections, over these percentiles.
const fn surface(title: &'static str, x_max: f64, percentiles: &'static [&'static str]) -> View {
    let sections = &["threads", SERVER];
    View::new(title, percentiles, sections, &["connections"], &[FIGURE])
        .plot(Plot::Surface { x_max })
}

/// Percentiles by name, for surfaces.
const BULK: &[&str] = &["q10", "q20", "q30", "q40", "q50", "q60", "q70", "q80", "q85", "q90"];
const MOST: &[&str] =
    &["q90", "q91", "q92", "q93", "q94", "q95", "q96", "q97", "q98", "q98.5", "q99"];
const END: &[&str] = &[
    "q99", "q99.1", "q99.2", "q99.3", "q99.4", "q99.5", "q99.6", "q99.7", "q99.8", "q99.9",
    "q99.99", "q100",
];
const WHOLE: &[&str] =
    &["q10", "q30", "q50", "q70", "q80", "q90", "q95", "q98", "q99", "q99.5", "q99.9", "q100"];

const fn percentile(name: &'static str) -> Figure {
    Figure::new(name, name, "ms", 3, Better::Neither)
}

const PERCENTILES: [&[&str]; 3] = [BULK, MOST, END];

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "connections",
    title: "Connections",
    about: "GET over open connections, each of which has sent a PING; so many of them as the option `active` says are \
            used (0: all). Memory per idle connection is the growth of a fresh server's resident memory; what the kernel \
            holds for a socket is not in it. A server without figures at a number could not hold so many.",
    axes: &[("threads", "{} server threads"), ("connections", "{} connections")],
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
        percentile("q10"),
        percentile("q20"),
        percentile("q30"),
        percentile("q40"),
        percentile("q50"),
        percentile("q60"),
        percentile("q70"),
        percentile("q80"),
        percentile("q85"),
        Figure::new("q90", "p90 latency", "ms", 3, Better::Less),
        percentile("q91"),
        percentile("q92"),
        percentile("q93"),
        percentile("q94"),
        percentile("q95"),
        percentile("q96"),
        percentile("q97"),
        percentile("q98"),
        percentile("q98.5"),
        percentile("q99"),
        percentile("q99.1"),
        percentile("q99.2"),
        percentile("q99.3"),
        percentile("q99.4"),
        percentile("q99.5"),
        percentile("q99.6"),
        percentile("q99.7"),
        percentile("q99.8"),
        percentile("q99.9"),
        percentile("q99.99"),
        percentile("q100"),
    ],
    views: &[
        view("", &["throughput"]).plot(Plot::Lines).in_summary(),
        view("Latency", &["p50", "p99", "p999", "max"]).plot(Plot::Lines),
        view("Cost", &["cpu", "client_cpu", "rss", "fairness", "active"]),
        view("Idle connections", &["idle"]).in_summary(),
        surface("The whole: 1 to 64 K connections", 65_536.0, WHOLE),
        surface("1 to 10 K connections", 10_000.0, WHOLE),
        surface("Below the 90th percentile", 65_536.0, BULK),
        surface("90th to 99th percentile", 65_536.0, MOST),
        surface("From the 99th percentile", 65_536.0, END),
        surface("1 to 1,000 connections, from the 99th percentile", 1_000.0, END),
    ],
};

impl Experiment for ConnectionsArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["threads", "use"];
    type Session = Crowd;

    fn check(&self) -> Result<(), String> {
        if !self.counts.iter().all(|count| *count > 0) || !self.counts.is_sorted() {
            return Err("--counts needs ascending numbers above zero".to_owned());
        }
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds < 86_400.0)) {
            return Err("--seconds needs a time up to a day".to_owned());
        }
        KeySpace::new(self.keys, 16).map(|_| ())
    }

    fn admits(&self, peer: &Peer) -> bool {
        !peer.is_cluster()
    }

    fn server_threads_max(&self) -> usize {
        usize::from(self.server_threads.iter().copied().max().unwrap_or(1))
    }

    fn leaves_out(&self, peer: &Peer, point: &Point) -> bool {
        peer.is_variant() && point["threads"] == "1"
    }

    fn points(&self) -> Vec<Point> {
        let of = |counts: Vec<String>, kind: &str| {
            let threads = ("threads", texts(&self.server_threads));
            grid([threads, ("connections", counts), ("use", vec![kind.to_owned()])])
        };
        let idle = if self.idle > 0 { vec![format!("{} {IDLE}", self.idle)] } else { Vec::new() };
        let mut points = [of(idle, IDLE), of(texts(&self.counts), "load")].concat();
        points.sort_by_key(|point| at::<u16>(point, "threads"));
        points
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Server
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        let most = self.counts.last().copied().unwrap_or(1).max(self.idle);
        let mut setting = run.setting(at(point, "threads"), most + CONNECTIONS_SPARE);
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
        let operations = self.seconds.is_none().then_some(self.operations.max(active as u64));
        let parts = crowd.run(active, operations, round as u64)?;
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
    for name in PERCENTILES.iter().copied().flatten() {
        let percentile = name[1..].parse::<f64>().unwrap_or(100.0);
        let ns = histogram.value_at_percentile(percentile);
        measured = measured.with(name, ns as f64 / 1e6);
    }
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
            extent: Extent::window(WARM_UP_S, self.seconds.unwrap_or(1.0)),
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
    fn run(
        &mut self,
        active: usize,
        operations: Option<u64>,
        round: u64,
    ) -> Result<Vec<Part>, String> {
        let mut left = active;
        let mut busy = 0;
        for holder in &mut self.holders {
            let share = left.min(holder.open);
            if share == 0 {
                break;
            }
            // In proportion; the last one takes what division leaves.
            let part = |count: usize| operations.map(|all| all * count as u64 / active as u64);
            let done = part(active - left);
            let own = part(active - left + share).zip(done).map(|(to, from)| to - from);
            holder.begin(share, own, round * 1000 + busy as u64)?;
            left -= share;
            busy += 1;
        }
        self.holders[..busy].iter_mut().map(Holder::finish).collect()
    }
}
