//! `connections`: throughput and latency over the number of open connections, and memory per idle
//! one.

mod holder;

use std::time::Duration;

use crate::experiment::{Case, Experiment, Options, fill, grid, texts};
use crate::load::{Extent, KeyOrder, KeySpace, Plan, ValueSizes, latency_histogram};
use crate::result::{Measured, Measurement, Point};
use crate::server::{Server, Setting};
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

/// Percentiles of the latency surfaces.
const PERCENTILES: &str = "10 20 30 40 50 60 70 80 85 90 91 92 93 94 95 96 97 98 98.5 99 99.1 99.2 \
     99.3 99.4 99.5 99.6 99.7 99.8 99.9 99.99 100";

/// `connections`: many connections.
#[derive(Default)]
pub struct Connections;

impl Experiment for Connections {
    const NAME: &'static str = "connections";
    type State = Crowd;

    fn check(&self, options: &Options) -> Result<(), String> {
        if !options.all::<usize>("counts").is_sorted() {
            return Err("--counts needs ascending numbers".to_owned());
        }
        Ok(())
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let idle: usize = options.get("idle");
        let idle: Vec<String> = (idle > 0).then(|| format!("{idle} {IDLE}")).into_iter().collect();
        let of = |threads: &str, counts: &[String], kind: &str| {
            let [threads, kind] = [threads, kind].map(|value| texts(&[value]));
            grid([("threads", threads), ("connections", counts.to_vec()), ("use", kind)])
        };
        let of_threads = |threads: &String| {
            [of(threads, &idle, IDLE), of(threads, options.texts("counts"), "load")].concat()
        };
        let mut threads = options.texts("server-threads").to_vec();
        threads.sort_by_key(|threads| threads.parse::<u16>().unwrap_or_default());
        threads.iter().flat_map(of_threads).collect()
    }

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        let counts = case.options.all::<usize>("counts").into_iter();
        let most = counts.chain([case.get("idle")]).max().unwrap_or(1);
        Setting { connections: most + CONNECTIONS_SPARE, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Crowd, String> {
        let plan = plan(case, server);
        if case.text("use") != IDLE && !server.peer().is_floor() {
            fill(Plan { pipeline: 32, ..plan.clone() })?;
        }
        let open_files = sys::raise_open_files().map_err(|error| error.to_string())?;
        let limit = open_files.saturating_sub(DESCRIPTORS_SPARE).max(1);
        let capacity = case.get::<u64>("per-process").min(limit) as usize;
        Ok(Crowd { plan, capacity, holders: Vec::new(), stopped: None, idle: None })
    }

    fn measure(&self, case: &Case<'_>, server: &Server, crowd: &mut Crowd) -> Measured {
        if case.text("use") == IDLE {
            return idle(crowd, server, case.get("idle"));
        }
        let count = case.at("connections");
        if let Some(stopped) = crowd.grow(count)? {
            return Ok(Measurement::failed(stopped));
        }
        let active = match case.get("active") {
            0 => count,
            active => count.min(active),
        };
        let is_timed = case.options.has("seconds");
        let operations = (!is_timed).then(|| case.get::<u64>("operations").max(active as u64));
        let parts = crowd.run(active, operations, case.round as u64)?;
        let rss = server.rss().ok().map(|rss| rss as f64 / 1e6);
        Ok(sum(&parts).with("active", active as f64).with_some("rss", rss))
    }
}

/// Measures the memory of idle connections.
fn idle(crowd: &mut Crowd, server: &Server, count: usize) -> Measured {
    // Only a fresh server has none of the memory yet.
    if let Some(each) = crowd.idle {
        return Ok(Measurement::default().with("idle", each));
    }
    let before = server.rss_at_rest(REST_MAX)?.0;
    if let Some(stopped) = crowd.grow(count)? {
        return Ok(Measurement::failed(stopped));
    }
    let with = server.rss_at_rest(REST_MAX)?.0;
    let each = with.saturating_sub(before) as f64 / count as f64;
    crowd.idle = Some(each);
    Ok(Measurement::default().with("idle", each))
}

/// Figures of all client processes together.
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
        .with_latency(&histogram)
        // Every process measures the whole server over its own window: one of them is enough.
        .with("cpu", per_operation(parts.first().map_or(0, |part| part.server_cpu_ns)))
        .with("client_cpu", per_operation(parts.iter().map(|part| part.client_cpu_ns).sum()))
        .with("fairness", fairness);
    for name in PERCENTILES.split_whitespace() {
        let ns = histogram.value_at_percentile(name.parse().unwrap_or(100.0));
        measured = measured.with(&format!("q{name}"), ns as f64 / 1e6);
    }
    measured.check_load(parts.iter().filter_map(|part| part.little).reduce(f64::min), 1.0);
    let bad: u64 = parts.iter().map(|part| part.bad_replies).sum();
    if bad > 0 || operations == 0 {
        measured.failure = Some(format!("{bad} errors or wrong replies of {operations}"));
    }
    measured
}

/// GETs of all keys at random, as the clients send them.
fn plan(case: &Case<'_>, server: &Server) -> Plan {
    let seconds = case.options.some("seconds").unwrap_or(1.0);
    Plan {
        order: KeyOrder::Random,
        values: case.get::<ValueSizes>("values"),
        check_lengths: !server.peer().is_floor(),
        pipeline: case.get("pipeline"),
        extent: Extent::window(WARM_UP_S, seconds),
        ..Plan::new(server, KeySpace { count: case.get("keys"), size: 16 })
    }
}

/// Client processes that hold connections to a server.
#[derive(Debug)]
pub struct Crowd {
    plan: Plan,
    /// Connections per process.
    capacity: usize,
    holders: Vec<Holder>,
    /// Reason why no more connections can be opened.
    stopped: Option<String>,
    /// Memory of each idle connection, once measured, bytes.
    idle: Option<f64>,
}

impl Crowd {
    fn open(&self) -> usize {
        self.holders.iter().map(|holder| holder.open).sum()
    }

    /// Opens connections up to `count` in all. Returns the reason if there are fewer.
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
