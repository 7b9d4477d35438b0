//! `pause`: whether removing one large value delays requests for other keys.

mod kind;
mod prober;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use petrel_client::Commands;
use petrel_client::blocking::Client;
use serde::Serialize;

use crate::exchange::{client, order, wait_for_rest};
use crate::experiment::{
    Better, Description, Experiment, FIGURE, Figure, Lifetime, RunArgs, SERVER, Session, View, grid,
};
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};
use kind::{KINDS, PauseCase};
use prober::Prober;

/// The key that is removed, the one it is copied from, and one that is renamed over it.
const VICTIM: &[u8] = b"victim";
const SOURCE: &[u8] = b"source";
const SMALL: &[u8] = b"small";

/// Between the beginning of a window and what is done in it.
const LEAD: Duration = Duration::from_millis(50);

/// Milliseconds after which a key expires, from the beginning of a window.
const EXPIRY_MS: &[u8] = b"50";

/// Measure how long requests for other keys wait while one large value is removed.
///
/// A client sends GETs of small keys one by one, on one connection after the other, and notes how
/// long each takes. For every kind of value and every way of removing it there are two windows of
/// the same length: one in which nothing else happens, and one in which the value is removed. What
/// takes long in both is the machine's.
///
/// Where it is allowed, the client's thread and those threads of the server that answer GETs are
/// given real-time priority in both windows, so that other programs do not come between. Threads
/// that free memory are not.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct PauseArgs {
    /// Threads of the server
    #[arg(long, default_value_t = 2)]
    server_threads: usize,

    /// Elements of a collection
    #[arg(long, default_value_t = 10_000_000, default_value_if("quick", "true", "300000"))]
    elements: u64,

    /// Size of a string, bytes
    #[arg(long, default_value_t = 500_000_000, default_value_if("quick", "true", "100000000"))]
    string_bytes: usize,

    /// Kinds of values
    #[arg(
        long,
        value_parser = KINDS.map(|kind| kind.0),
        value_delimiter = ',',
        value_name = "KIND,...",
        default_value = "integers,set,hash,zset,list,stream,string",
        default_value_if("quick", "true", "set,hash,zset")
    )]
    kinds: Vec<String>,

    /// Ways to remove them
    #[arg(
        long,
        value_parser = WAYS.map(|way| way.0),
        value_delimiter = ',',
        value_name = "WAY,...",
        default_value = "del,unlink,set,rename,expire,flushdb",
        default_value_if("quick", "true", "del,unlink,expire")
    )]
    ways: Vec<String>,

    /// Connections that GETs are sent on
    #[arg(long, default_value_t = 8)]
    connections: usize,

    /// Between a reply and the next GET, microseconds
    #[arg(long, default_value_t = 20, value_name = "MICROSECONDS")]
    gap: u64,

    /// Seconds per window
    #[arg(
        long,
        default_value_t = 1.0,
        default_value_if("quick", "true", "0.5"),
        value_name = "SECONDS"
    )]
    seconds: f64,
}

/// A way to remove a value: its option, its name, its command.
type Way = (&'static str, &'static str, &'static [&'static [u8]]);

const WAYS: [Way; 6] = [
    ("del", "DEL", &[b"DEL", VICTIM]),
    ("unlink", "UNLINK", &[b"UNLINK", VICTIM]),
    ("set", "SET over it", &[b"SET", VICTIM, b"x"]),
    ("rename", "RENAME over it", &[b"RENAME", SMALL, VICTIM]),
    ("expire", "expiry", &[b"PEXPIRE", VICTIM, EXPIRY_MS]),
    // With it the copy goes that others are made from.
    ("flushdb", "FLUSHDB ASYNC", &[b"FLUSHDB", b"ASYNC"]),
];

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "pause",
    title: "Removing one large value",
    about: "GETs of other keys one by one while one large value is removed, and in windows of the same length without \
            that. \"Turn\" is the longest turn of an event loop as the server says (`eventloop_duration_max` of `INFO \
            DEBUG`). Of the longest times the largest over the rounds is shown.",
    axes: &[("kind", "{}"), ("way", "{}")],
    figures: &[
        Figure::new("longest", "Longest GET", "ms", 2, Better::Less).largest(),
        Figure::new("longest_alone", "Longest GET without", "ms", 2, Better::Neither).largest(),
        Figure::new("p99", "p99", "ms", 3, Better::Less),
        Figure::new("p99_alone", "p99 without", "ms", 3, Better::Neither),
        Figure::new("p999", "p99.9", "ms", 3, Better::Less),
        Figure::new("p999_alone", "p99.9 without", "ms", 3, Better::Neither),
        Figure::new("above_1ms", "GETs above 1 ms", "", 0, Better::Less),
        Figure::new("above_1ms_alone", "GETs above 1 ms without", "", 0, Better::Neither),
        Figure::new("command", "The command", "ms", 2, Better::Neither).largest(),
        Figure::new("turn", "Turn", "ms", 2, Better::Neither).largest(),
        Figure::new("turn_alone", "Turn without", "ms", 2, Better::Neither).largest(),
    ],
    views: &[
        View::new(
            "Longest GET",
            &["longest", "longest_alone"],
            &[],
            &["kind", "way"],
            &[SERVER, FIGURE],
        )
        .in_summary(),
        View::new("All figures", OTHERS, &[SERVER], &["kind", "way"], &[FIGURE]),
    ],
};

const OTHERS: &[&str] = &[
    "command",
    "p99",
    "p99_alone",
    "p999",
    "p999_alone",
    "above_1ms",
    "above_1ms_alone",
    "turn",
    "turn_alone",
];

impl Experiment for PauseArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (2, 1);
    const GROUP: &'static [&'static str] = &["kind"];
    type Session = Scene;

    fn points(&self) -> Vec<Point> {
        let kinds = KINDS.iter().filter(|kind| self.kinds.iter().any(|own| own == kind.0));
        let ways = WAYS.iter().filter(|way| self.ways.iter().any(|own| own == way.0));
        grid([
            ("kind", kinds.map(|kind| kind.1.to_owned()).collect()),
            ("way", ways.map(|way| way.1.to_owned()).collect()),
        ])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Server
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(self.server_threads, self.connections + 10)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Scene, String> {
        let kind = KINDS.iter().find(|kind| kind.1 == point["kind"]);
        let kind = kind.expect("the grid is made of them");
        Scene::start(server, kind, self).map_err(|error| error.to_string())
    }

    fn measure(&self, scene: &mut Scene, point: &Point, _: usize) -> Result<Measurement, String> {
        let way = WAYS.iter().find(|way| way.1 == point["way"]).expect("the grid is made of them");
        scene.prepare(way, self)?;
        scene.measure(way, self).map_err(|error| error.to_string())
    }
}

/// A server with one large value, the connection that removes it, and the client that asks for
/// other keys.
pub struct Scene {
    server: Server,
    kind: &'static PauseCase,
    remover: Client,
    prober: Prober,
    /// The value that copies are made of is there.
    is_filled: bool,
}

impl Session for Scene {
    fn server(&self) -> &Server {
        &self.server
    }
}

impl Scene {
    fn start(server: Server, kind: &'static PauseCase, args: &PauseArgs) -> io::Result<Scene> {
        let remover = client(server.endpoint()).map_err(io::Error::other)?;
        let gap = Duration::from_micros(args.gap);
        let mut prober = Prober::connect(server.endpoint(), args.connections, gap)?;
        prober.store()?;
        Ok(Scene { server, kind, remover, prober, is_filled: false })
    }

    /// Puts the victim there, and waits until the server rests.
    fn prepare(&mut self, way: &Way, args: &PauseArgs) -> Result<(), String> {
        let failed = |error: petrel_client::Error| error.to_string();
        // A server may let a copy of a string share its memory, so that removing it frees nothing.
        let is_shared = self.kind.2 == "SET";
        if !self.is_filled {
            let key = if is_shared { VICTIM } else { SOURCE };
            kind::fill(self.kind, self.server.endpoint(), key, args)?;
            self.is_filled = !is_shared;
        }
        if !is_shared {
            order(&self.remover, &[b"COPY", SOURCE, VICTIM, b"REPLACE"]).map_err(failed)?;
        }
        if way.0 == "flushdb" {
            self.is_filled = false;
        }
        order(&self.remover, &[b"SET", SMALL, b"x"]).map_err(failed)?;
        wait_for_rest(&self.server)
    }

    fn measure(&mut self, way: &Way, args: &PauseArgs) -> io::Result<Measurement> {
        let length = Duration::from_secs_f64(args.seconds);
        let mut measured = Measurement::default();
        for (suffix, command) in [("_alone", None), ("", Some(way.2))] {
            let (latencies, took) = self.window(length, command)?;
            let name = |figure: &str| format!("{figure}{suffix}");
            let ms = |ns: u64| ns as f64 / 1e6;
            measured = measured
                .with(&name("longest"), ms(latencies.max()))
                .with(&name("p99"), ms(latencies.value_at_quantile(0.99)))
                .with(&name("p999"), ms(latencies.value_at_quantile(0.999)))
                .with(&name("above_1ms"), latencies.count_between(1_000_001, u64::MAX) as f64)
                .with_some(&name("turn"), self.turn_max_ms()?);
            if command.is_some() {
                measured = measured.with("command", took.as_secs_f64() * 1e3);
            }
        }
        Ok(measured)
    }

    /// Sends GETs for so long, and in it a command. Returns their latencies and how long the
    /// command took.
    fn window(
        &mut self,
        length: Duration,
        command: Option<&[&[u8]]>,
    ) -> io::Result<(Histogram<u64>, Duration)> {
        self.remover.config_resetstat().run().map_err(io::Error::other)?;
        let Scene { prober, remover, .. } = self;
        let measured = thread::scope(|scope| {
            let probing = scope.spawn(|| prober.probe(length));
            thread::sleep(LEAD);
            let begin = Instant::now();
            let took = match command {
                Some(command) => {
                    order(remover, command).map(|()| begin.elapsed()).map_err(io::Error::other)
                }
                None => Ok(Duration::ZERO),
            };
            let latencies = probing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((latencies?, took?))
        });
        // What `FLUSHDB` took.
        self.prober.store()?;
        measured
    }

    /// The longest turn since the last `CONFIG RESETSTAT`, of servers whose `INFO DEBUG` has it.
    fn turn_max_ms(&mut self) -> io::Result<Option<f64>> {
        let text = self.remover.info().section(["DEBUG"]).run();
        let text = text.map_err(io::Error::other)?;
        let field = text.lines().find_map(|line| line.strip_prefix("eventloop_duration_max:"));
        Ok(field.and_then(|micros| micros.trim().parse::<f64>().ok()).map(|micros| micros / 1e3))
    }
}
