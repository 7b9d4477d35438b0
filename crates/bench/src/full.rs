//! `full`: a cache at its limit of memory: a load, and another client beside it.

use std::io::Write;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::command::Variables;
use crate::exchange::Exchange;
use crate::experiment::{Case, Description, Experiment, SET, WARM_UP_S, fill};
use crate::load::{self, Extent, KeyOrder, KeySpace, Lengths, Mix, Operation, Plan, ValueSizes};
use crate::random::Random;
use crate::result::{Measured, Measurement};
use crate::server::{Peer, Server, Setting};
use crate::sys::{die_with_parent, joined, peak_bytes, text};
use crate::text::Entry;
use crate::trace::info;
use crate::wire::{Stream, client, connect};
use crate::work::{self, Until, drive};

/// Keys over those for which there is room.
const KEYS_PER_ROOM: f64 = 4.0;
/// Bytes of values stored before a measurement, over the limit.
const FILL_PER_ROOM: f64 = 1.5;
/// Bytes in flight per connection while a server is filled.
const FILL_BYTES: f64 = 256.0 * 1024.0;
/// Maximum bytes of values in flight per connection, beyond one value: deeper pipelines of large
/// values get too few replies in a measurement.
const IN_FLIGHT_BYTES: f64 = 1024.0 * 1024.0;
/// Requests of a connection that does not read replies.
const UNREAD_REQUESTS: u64 = 100;
/// Keys of the client beside the load; lengths of keys tell their sets apart.
const BESIDE: KeySpace = KeySpace { count: 100, size: 17 };
const EXPIRING_KEY_SIZE: usize = 18;
/// Time to store keys that expire in the same second, doubled up to the maximum for slow servers.
const STORING: Duration = Duration::from_secs(6);
const STORING_MAX: Duration = Duration::from_secs(48);
/// Interval at which memory is read.
const WATCH_EVERY: Duration = Duration::from_millis(5);

/// `full`: a cache at its limit.
#[derive(Default)]
pub struct Full;

/// A work of the file, with defaults.
struct Scene {
    work: &'static Entry,
    /// Limit of memory, MB.
    memory: u64,
    policy: &'static str,
    values: ValueSizes,
}

impl Scene {
    fn of(case: &Case<'_>) -> Scene {
        let work = Description::named(Full::NAME).work(case.text("work"));
        Scene {
            work,
            memory: work.number("memory").unwrap_or_else(|| case.get("memory")),
            policy: work.get("policy").unwrap_or("allkeys-lru"),
            values: work.number("values").unwrap_or_else(|| case.get("values")),
        }
    }

    /// Number of values that fill the limit this many times.
    fn values_of(&self, times: f64) -> u64 {
        (times * (self.memory << 20) as f64 / self.values.mean()).max(1.0) as u64
    }

    /// Number of values that take these bytes, at least 1.
    fn pipeline_max(&self, bytes: f64) -> usize {
        (bytes / self.values.mean()).max(1.0) as usize
    }

    /// The load.
    fn plan(&self, case: &Case<'_>, server: &Server) -> Plan {
        let lifetimes = self.work.number("ttl").map(Mix::Lifetimes);
        let cache = self.work.number("sets").map(Mix::Cache);
        let is_cache = cache.is_some();
        let is_get = is_cache || self.work.get("load") == Some("get");
        let keys = KeySpace { count: self.values_of(KEYS_PER_ROOM), size: 16 };
        Plan {
            operation: if is_get { Operation::Get } else { SET },
            mix: lifetimes.or(cache).unwrap_or_default(),
            order: if is_cache { KeyOrder::Zipf } else { KeyOrder::Random },
            values: self.values,
            lengths: if is_cache { Lengths::ByKey } else { Lengths::Random },
            check_lengths: is_cache,
            connections: case.get("connections"),
            pipeline: case.at::<usize>("pipeline").min(self.pipeline_max(IN_FLIGHT_BYTES)),
            extent: Extent::window(WARM_UP_S, case.get("seconds")),
            seed: case.seed(),
            ..Plan::new(server, keys)
        }
    }

    /// Runs the templates of the work, until they have stored as much as fills the limit, or for
    /// the time of a measurement.
    fn send(&self, case: &Case<'_>, server: &Server, is_filling: bool) -> Measured {
        let mut exchange = Exchange::connect(server.endpoint(), case.get("connections"))?;
        let pipeline: u64 = if is_filling { 16 } else { case.at("pipeline") };
        let batch = pipeline * exchange.connections() as u64;
        let until = match is_filling {
            true => Until::Operations(self.values_of(FILL_PER_ROOM)),
            false => Until::Seconds {
                seconds: WARM_UP_S + case.get::<f64>("seconds"),
                batch,
                batch_max: batch,
            },
        };
        let draw = |random: &mut Random| Variables { n: random.below(1 << 32), at: 0, size: 1 };
        let mix = work::Mix::of(self.work);
        drive((server, &mut exchange, &mix), pipeline as usize, until, case.seed(), draw)
    }

    /// Stores keys that all expire in the same second, and waits until shortly before it. Tries
    /// again with more time if that took too long, or if some were refused: a full memcached moves
    /// memory between sizes of values only by and by.
    fn store_expiring(&self, server: &Server, count: u64) -> Result<(), String> {
        let keys = KeySpace { count, size: EXPIRING_KEY_SIZE };
        let early = Duration::from_secs_f64(1.0 + WARM_UP_S);
        let mut storing = STORING;
        loop {
            let due = SystemTime::now() + storing;
            let at = due.duration_since(SystemTime::UNIX_EPOCH).map_err(text)?.as_secs() as u32;
            let operation = Operation::Set { ttl_s: Some(at) };
            let plan = Plan { operation, values: ValueSizes::fixed(16), ..Plan::new(server, keys) };
            let stored = load::run(&plan)?.replies;
            let left = due.duration_since(SystemTime::now()).unwrap_or_default();
            let why = match left.checked_sub(early) {
                _ if stored.errors > 0 => stored.first_error.unwrap_or_default(),
                None => "storing keys takes longer than they live".to_owned(),
                Some(left) => {
                    thread::sleep(left);
                    return Ok(());
                }
            };
            if storing >= STORING_MAX {
                return Err(why);
            }
            storing *= 2;
        }
    }
}

impl Experiment for Full {
    const NAME: &'static str = "full";
    type State = ();

    fn admits(&self, peer: &Peer) -> bool {
        peer.evicts_by("allkeys-lru")
    }

    fn leaves_out(&self, peer: &Peer, case: &Case<'_>) -> bool {
        let scene = Scene::of(case);
        !peer.evicts_by(scene.policy) || scene.work.get("send").is_some() && peer.has_strings_only()
    }

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        let scene = Scene::of(case);
        let limit = Some((scene.memory, scene.policy));
        Setting { value_max: scene.values.max, limit, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<(), String> {
        let scene = Scene::of(case);
        let beside = Plan { values: ValueSizes::fixed(16), ..Plan::new(server, BESIDE) };
        if scene.work.get("send").is_some() {
            scene.send(case, server, true)?;
            return fill(beside);
        }
        let plan = scene.plan(case, server);
        let pipeline = scene.pipeline_max(FILL_BYTES).min(50);
        let extent = Extent::Operations(scene.values_of(FILL_PER_ROOM));
        let is_set = plan.operation == SET;
        let filling = Plan { pipeline, extent, connections: 4, ..plan };
        let (operation, order) = (SET, KeyOrder::Random);
        let mix = if is_set { filling.mix } else { Mix::Only };
        load::run(&Plan { operation, order, mix, ..filling.clone() })?;
        if filling.order == KeyOrder::Zipf {
            load::run(&filling)?;
        }
        fill(beside)
    }

    fn measure(&self, case: &Case<'_>, server: &Server, (): &mut ()) -> Measured {
        let scene = Scene::of(case);
        if let Some(count) = scene.work.number("expiring") {
            scene.store_expiring(server, count)?;
        }
        let _neighbours = Neighbours::start(scene.work)?;
        let unread = scene.work.number("unread").unwrap_or(0);
        let plan = scene.plan(case, server);
        let _unread: Vec<Stream> = (0..unread)
            .map(|number| ask_without_reading(&plan, number))
            .collect::<Result<_, _>>()?;
        let beside = Plan {
            connections: 1,
            pipeline: 1,
            rate: Some(case.get("rate")),
            order: KeyOrder::Random,
            check_lengths: false,
            extent: plan.extent,
            server_processes: Vec::new(),
            ..Plan::new(server, BESIDE)
        };
        let is_over = AtomicBool::new(false);
        let (measured, beside, watched) = thread::scope(|scope| {
            let watching = scope.spawn(|| watch(server, scene.memory << 20, &is_over));
            let beside = scope.spawn(|| load::run(&beside));
            let measured = match scene.work.get("send") {
                Some(_) => scene.send(case, server, false),
                None => load::run(&plan).map(|outcome| {
                    let replies = &outcome.replies;
                    let gets = (replies.hits + replies.misses) as f64;
                    let hits = replies.hits as f64 * 100.0 / gets;
                    let mut measured = Measurement::of_load(&outcome, false).with("hits", hits);
                    if plan.check_lengths && replies.wrong_lengths > 0 {
                        let wrong = replies.wrong_lengths;
                        measured.failure = Some(format!("{wrong} values of a wrong length"));
                    }
                    measured
                }),
            };
            is_over.store(true, Ordering::Relaxed);
            (measured, joined(beside), joined(watching))
        });
        let (mut measured, beside) = (measured?, beside?.latency);
        let quantile = |quantile| beside.value_at_quantile(quantile) as f64 / 1e6;
        measured.figures.extend(watched.figures);
        Ok(measured
            .with("beside_p50", quantile(0.5))
            .with("beside_p99", quantile(0.99))
            .with("beside_p999", quantile(0.999))
            .with("beside_max", beside.max() as f64 / 1e6)
            .with("beside_late", beside.count_between(1_000_001, u64::MAX) as f64))
    }
}

/// Sends GETs of values and leaves the replies to the server.
fn ask_without_reading(plan: &Plan, number: u64) -> Result<Stream, String> {
    let mut stream = connect(&plan.endpoint).map_err(text)?;
    let mut requests = Vec::new();
    for request in 0..UNREAD_REQUESTS {
        let key = plan.keys.key((number * UNREAD_REQUESTS + request) % plan.keys.count);
        petrel_resp::encode_command(&[b"GET", &key], &mut requests);
    }
    stream.write_all(&requests).map_err(text)?;
    Ok(stream)
}

/// Reads memory again and again; returns the largest values, in per cent of the limit.
fn watch(server: &Server, limit: u64, is_over: &AtomicBool) -> Measurement {
    let client = client(server.endpoint()).ok().filter(|_| server.peer().speaks_resp());
    let mut used = f64::NAN;
    while !is_over.load(Ordering::Relaxed) {
        let read = |client| info(client, "memory", "used_memory").ok()?;
        used = used.max(client.as_ref().and_then(read).unwrap_or(f64::NAN));
        thread::sleep(WATCH_EVERY);
    }
    let share = |bytes: f64| bytes * 100.0 / limit as f64;
    let peak = peak_bytes(server.pid()).ok().map(|bytes| share(bytes as f64));
    Measurement::default().with("used", share(used)).with_some("rss", peak)
}

/// Busy loops of other processes.
struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts the loops of a work, at its nice value.
    fn start(work: &Entry) -> Result<Neighbours, String> {
        let mut own = Neighbours(Vec::new());
        for _ in 0..work.number("loops").unwrap_or(0) {
            let mut command = Command::new("nice");
            let nice = work.get("nice").unwrap_or("0");
            command.args(["-n", nice, "sh", "-c", "while :; do :; done"]);
            own.0.push(die_with_parent(&mut command).spawn().map_err(text)?);
        }
        Ok(own)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Options;

    #[test]
    fn deep_pipelines_of_large_values_are_cut() {
        let options = ["memory", "values"].map(|name| (name, vec!["100".to_owned()]));
        let options = Options::new(options);
        let limits = Description::named(Full::NAME).work_names().map(|work| {
            let point = [("work".to_owned(), work.to_owned())].into();
            let scene = Scene::of(&Case { options: &options, point: &point, round: 0 });
            (work, scene.pipeline_max(IN_FLIGHT_BYTES))
        });
        let cut: Vec<_> = limits.filter(|(_, most)| *most < 100).collect();
        let expected = [("SET 30 KB", 34), ("SET 1 MB in 500 MB", 1), ("replies not read", 34)];
        assert_eq!(cut, expected);
    }
}
