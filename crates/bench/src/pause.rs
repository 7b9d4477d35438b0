//! `pause`: whether removing one large value holds up those who ask for others.

mod kind;
mod prober;
mod tables;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use petrel_resp::encode_command;
use serde::Serialize;

use crate::load::{Stream, latency_histogram};
use crate::report::{self, Machine};
use crate::server::{Peer, PeerArgs, Server, Setting, Transport};
use crate::sys;
use kind::Kind;
use prober::{Prober, Urgency};

/// The key that is removed, the one it is copied from, and one that is renamed over it.
const VICTIM: &[u8] = b"victim";
const SOURCE: &[u8] = b"source";
const SMALL: &[u8] = b"small";

/// How long a reply may take: copying ten million elements takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between the beginning of a window and what is done in it.
const LEAD: Duration = Duration::from_millis(50);

/// Milliseconds after which a key expires, from the beginning of a window.
const EXPIRY_MS: &[u8] = b"50";

/// A server rests when its processor time grows by less than this share of the time that passes...
const REST_SHARE: f64 = 0.03;

/// ...over this long.
const REST_WINDOW: Duration = Duration::from_millis(200);

/// No longer than this is waited for it.
const REST_MAX: Duration = Duration::from_secs(20);

/// Measure how long others wait while one large value is removed.
///
/// A client sends GETs of small keys one by one, on one connection after the other, and notes how long each takes. For
/// every kind of value and every way of removing it there are two windows of the same length: one in which nothing else
/// happens, and one in which the value is removed. What takes long in both is the machine's.
///
/// Where it is allowed, the client's thread and those threads of the server that answer GETs are given real-time
/// priority in both windows, so that other programs do not come between. Threads that free memory are not.
#[derive(Clone, Debug, clap::Args)]
pub struct PauseArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Threads of the server
    #[arg(long, default_value_t = 2)]
    server_threads: usize,

    /// Elements of a collection
    #[arg(long, default_value_t = 10_000_000)]
    elements: u64,

    /// Size of a string, bytes
    #[arg(long, default_value_t = 500_000_000)]
    string_bytes: usize,

    /// Kinds of values
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,...", default_values_t = Kind::ALL)]
    kinds: Vec<Kind>,

    /// Ways to remove them
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAY,...", default_values_t = Way::ALL)]
    ways: Vec<Way>,

    /// Connections that GETs are sent on
    #[arg(long, default_value_t = 8)]
    connections: usize,

    /// Between a reply and the next GET, microseconds
    #[arg(long, default_value_t = 20, value_name = "MICROSECONDS")]
    gap: u64,

    /// Seconds per window
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,

    /// Windows of each sort
    #[arg(long, default_value_t = 2)]
    rounds: usize,

    /// Leave priorities as they are
    #[arg(long)]
    no_real_time: bool,

    /// Connect by TCP on 127.0.0.1 instead of a Unix socket
    #[arg(long)]
    tcp: bool,

    /// Directory for pause.md and pause.json
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    out: PathBuf,
}

/// A way to remove a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// `DEL`
    Del,
    /// `UNLINK`
    Unlink,
    /// `SET` over it
    Set,
    /// `RENAME` of a small key over it
    Rename,
    /// Its time runs out
    Expire,
    /// `FLUSHDB ASYNC`, with which the copy goes that others are made from
    Flushdb,
}

impl Way {
    const ALL: [Way; 6] = [Way::Del, Way::Unlink, Way::Set, Way::Rename, Way::Expire, Way::Flushdb];

    /// Its name.
    fn name(self) -> &'static str {
        match self {
            Way::Del => "DEL",
            Way::Unlink => "UNLINK",
            Way::Set => "SET over it",
            Way::Rename => "RENAME over it",
            Way::Expire => "expiry",
            Way::Flushdb => "FLUSHDB ASYNC",
        }
    }

    fn command(self) -> Vec<&'static [u8]> {
        match self {
            Way::Del => vec![b"DEL", VICTIM],
            Way::Unlink => vec![b"UNLINK", VICTIM],
            Way::Set => vec![b"SET", VICTIM, b"x"],
            Way::Rename => vec![b"RENAME", SMALL, VICTIM],
            Way::Expire => vec![b"PEXPIRE", VICTIM, EXPIRY_MS],
            Way::Flushdb => vec![b"FLUSHDB", b"ASYNC"],
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Del => "del",
            Way::Unlink => "unlink",
            Way::Set => "set",
            Way::Rename => "rename",
            Way::Expire => "expire",
            Way::Flushdb => "flushdb",
        })
    }
}

/// GETs of windows of one sort.
#[derive(Clone, Debug, Serialize)]
struct Gets {
    count: u64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    above_1ms: u64,
    above_2ms: u64,
    /// The longest turn of an event loop as the server itself says, where it does.
    turn_max_ms: Option<f64>,
}

/// What one way of removing one kind of value did to those who asked one server for others.
#[derive(Clone, Debug, Serialize)]
struct Cell {
    server: String,
    kind: Kind,
    way: Way,
    /// How long the command took, the longest of all rounds.
    command_ms: f64,
    alone: Gets,
    during: Gets,
}

#[derive(Debug, Serialize)]
struct Results {
    machine: Machine,
    elements: u64,
    string_bytes: usize,
    server_threads: usize,
    commands: Vec<String>,
    /// Whether threads had real-time priority.
    real_time: bool,
    cells: Vec<Cell>,
}

/// Measures and writes the report.
pub fn run(args: &PauseArgs) -> Result<(), String> {
    let peers = args.peers.resolve()?;
    let setting = setting(args);
    let mut results = Results {
        machine: Machine::here(),
        elements: args.elements,
        string_bytes: args.string_bytes,
        server_threads: args.server_threads,
        commands: peers.iter().map(|peer| peer.describe(&setting)).collect(),
        real_time: !args.no_real_time && sys::set_real_time(0, None).is_ok(),
        cells: Vec::new(),
    };
    for &kind in &args.kinds {
        for peer in &peers {
            let mut scene = Scene::start(peer, kind, args)?;
            results.real_time &= scene.urgency.is_possible();
            for &way in &args.ways {
                let failed = |error| format!("{}, {kind}, {way}: {error}", peer.name);
                let cell = scene.measure(way, args).map_err(failed)?;
                eprintln!(
                    "{}, {kind}, {}: longest GET {:.2} ms, {:.2} ms without",
                    cell.server,
                    way.name(),
                    cell.during.max_ms,
                    cell.alone.max_ms
                );
                results.cells.push(cell);
            }
        }
    }
    report::write(&args.out, "pause", &results, &tables::document(&results, args), &[])
}

fn setting(args: &PauseArgs) -> Setting {
    let transport = if args.tcp { Transport::Tcp } else { Transport::Unix };
    Setting::new(args.server_threads, transport, args.connections + 10)
}

/// A server with one large value, whoever removes it, and whoever asks for others.
struct Scene {
    server: Server,
    kind: Kind,
    remover: Stream,
    prober: Prober,
    urgency: Urgency,
    /// The value that copies are made of is there.
    is_filled: bool,
}

impl Scene {
    fn start(peer: &Peer, kind: Kind, args: &PauseArgs) -> Result<Scene, String> {
        let server = Server::start(peer, &setting(args))?;
        let failed = |error: io::Error| format!("{}: {error}", peer.name);
        let remover = server.endpoint().connect(None).map_err(failed)?;
        remover.set_read_timeout(PATIENCE).map_err(failed)?;
        let gap = Duration::from_micros(args.gap);
        let mut prober =
            Prober::connect(server.endpoint(), args.connections, gap).map_err(failed)?;
        prober.store().map_err(failed)?;
        let urgency = match args.no_real_time {
            true => Urgency::none(),
            false => Urgency::find(server.pid(), || prober.warm_up()).map_err(failed)?,
        };
        Ok(Scene { server, kind, remover, prober, urgency, is_filled: false })
    }

    fn measure(&mut self, way: Way, args: &PauseArgs) -> Result<Cell, String> {
        let (mut alone, mut during) = (Sum::new(), Sum::new());
        let mut command_ms = 0f64;
        for _ in 0..args.rounds.max(1) {
            self.prepare(way, args)?;
            let failed = |error: io::Error| error.to_string();
            let length = Duration::from_secs_f64(args.seconds);
            let (latencies, _) = self.window(length, None).map_err(failed)?;
            alone.add(&latencies, self.turn_max_ms()?);
            let command = way.command();
            let (latencies, took) = self.window(length, Some(&command)).map_err(failed)?;
            during.add(&latencies, self.turn_max_ms()?);
            command_ms = command_ms.max(took.as_secs_f64() * 1e3);
        }
        let server = self.server.peer().name.clone();
        let (alone, during) = (alone.gets(), during.gets());
        Ok(Cell { server, kind: self.kind, way, command_ms, alone, during })
    }

    /// Puts the victim there, and waits until the server rests.
    fn prepare(&mut self, way: Way, args: &PauseArgs) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let is_shared = self.kind.is_shared_by_copy();
        if !self.is_filled {
            let key = if is_shared { VICTIM } else { SOURCE };
            self.kind.fill(self.server.endpoint(), key, args)?;
            self.is_filled = !is_shared;
        }
        if !is_shared {
            self.ask(&[b"COPY", SOURCE, VICTIM, b"REPLACE"]).map_err(failed)?;
        }
        if way == Way::Flushdb {
            self.is_filled = false;
        }
        self.ask(&[b"SET", SMALL, b"x"]).map_err(failed)?;
        self.rest().map_err(failed)
    }

    /// Sends GETs for so long, and in it a command. Returns their latencies and how long the command took.
    fn window(
        &mut self,
        length: Duration,
        command: Option<&[&[u8]]>,
    ) -> io::Result<(Histogram<u64>, Duration)> {
        self.ask(&[b"CONFIG", b"RESETSTAT"])?;
        let Scene { prober, remover, urgency, .. } = self;
        urgency.raise(true)?;
        let measured = thread::scope(|scope| {
            let probing = scope.spawn(|| {
                urgency.raise_own()?;
                prober.probe(length)
            });
            thread::sleep(LEAD);
            let took = match command {
                Some(command) => ask(remover, command),
                None => Ok(Duration::ZERO),
            };
            let latencies = probing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((latencies?, took?))
        });
        urgency.raise(false)?;
        // What `FLUSHDB` took.
        self.prober.store()?;
        measured
    }

    fn ask(&mut self, command: &[&[u8]]) -> io::Result<Duration> {
        ask(&mut self.remover, command)
    }

    /// Waits until the server has nothing to do.
    fn rest(&self) -> io::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < REST_MAX {
            let (cpu, since) = (sys::process_cpu_ns(self.server.pid())?, Instant::now());
            thread::sleep(REST_WINDOW);
            let used = sys::process_cpu_ns(self.server.pid())? - cpu;
            if (used as f64) < REST_SHARE * since.elapsed().as_nanos() as f64 {
                break;
            }
        }
        Ok(())
    }

    /// The longest turn since the last `CONFIG RESETSTAT`, which `INFO DEBUG` tells where there is such a section.
    fn turn_max_ms(&mut self) -> Result<Option<f64>, String> {
        let mut command = Vec::new();
        encode_command(&[b"INFO", b"DEBUG"], &mut command);
        let reply = self.remover.write_all(&command).and_then(|()| read_bulk(&mut self.remover));
        let text = reply.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&text);
        let field = text.lines().find_map(|line| line.strip_prefix("eventloop_duration_max:"));
        Ok(field.and_then(|micros| micros.trim().parse::<f64>().ok()).map(|micros| micros / 1e3))
    }
}

/// Windows of one sort.
struct Sum {
    latencies: Histogram<u64>,
    turn_max_ms: Option<f64>,
}

impl Sum {
    fn new() -> Sum {
        Sum { latencies: latency_histogram(), turn_max_ms: None }
    }

    fn add(&mut self, latencies: &Histogram<u64>, turn_max_ms: Option<f64>) {
        // Both have the bounds of `latency_histogram`.
        let _ = self.latencies.add(latencies);
        self.turn_max_ms = self.turn_max_ms.into_iter().chain(turn_max_ms).reduce(f64::max);
    }

    fn gets(&self) -> Gets {
        let at = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1e6;
        let above = |ns: u64| self.latencies.count_between(ns + 1, u64::MAX);
        Gets {
            count: self.latencies.len(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: self.latencies.max() as f64 / 1e6,
            above_1ms: above(1_000_000),
            above_2ms: above(2_000_000),
            turn_max_ms: self.turn_max_ms,
        }
    }
}

/// Sends a command whose reply is one line, and returns how long that took.
fn ask(stream: &mut Stream, command: &[&[u8]]) -> io::Result<Duration> {
    let mut bytes = Vec::new();
    encode_command(command, &mut bytes);
    let begin = Instant::now();
    stream.write_all(&bytes)?;
    let line = read_line(stream)?;
    match line.first() {
        Some(b'-') => Err(io::Error::other(String::from_utf8_lossy(&line).into_owned())),
        _ => Ok(begin.elapsed()),
    }
}

fn read_line(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(line)
}

fn read_bulk(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let line = read_line(stream)?;
    let text = String::from_utf8_lossy(&line);
    let len = text.strip_prefix('$').and_then(|len| len.trim().parse::<usize>().ok());
    let mut bulk = vec![0; len.ok_or_else(|| io::Error::other("no bulk string"))? + 2];
    stream.read_exact(&mut bulk)?;
    Ok(bulk)
}
