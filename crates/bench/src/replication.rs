//! `replication`: SET on a server alone and on one with a replica, and how long a full copy takes.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::exchange::{ask, ask_bulk, connect};
use crate::experiment::{
    Better, CPU, Description, Experiment, FIGURE, Figure, Lifetime, RunArgs, SERVER, THROUGHPUT,
    View, at, grid, texts,
};
use crate::load::{
    self, Endpoint, Extent, KeyOrder, KeySpace, Lengths, Operation, Plan, Stream, ValueSizes,
};
use crate::persistence::{WARM_UP_S, parse_seconds};
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting, Transport};

/// Measure SET on a server alone and with a replica of the same kind, and a full copy.
///
/// Server and replica are of one program, over TCP. The replica's lag is how long it takes, after
/// the last SET, until it has acknowledged all. A full copy is one of all keys, to a replica that
/// has none, until that serves them; copies begin at once (repl-diskless-sync-delay 0).
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ReplicationArgs {
    /// Requests in flight per connection
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,16",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pipelines: Vec<u16>,

    /// Number of keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,

    /// Sizes of values in bytes
    #[arg(long, default_value = "100", value_name = "SIZES")]
    values: ValueSizes,

    /// Connections of the load generator
    #[arg(long, default_value_t = 50, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,

    /// Threads of the servers
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: u16,

    /// Seconds per measurement, after a third of a second
    #[arg(long, default_value_t = 3.0, default_value_if("quick", "true", "0.7"),
          value_parser = parse_seconds)]
    seconds: f64,
}

/// How long a copy or a replica that lags behind may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at a replica.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "replication",
    title: "Replication",
    about: "SET of random keys over requests in flight per connection (P), on a server alone and on one with a replica of the \
            same program beside it; the replica's lag after the last of them; a full copy of all keys to a replica that has \
            none. Load, server and replica share the processors.",
    axes: &[("replicas", "{} replicas"), ("pipeline", "P{}")],
    figures: &[
        THROUGHPUT,
        CPU,
        Figure::new("p50", "p50 latency", "ms", 3, Better::Less),
        Figure::new("p99", "p99 latency", "ms", 3, Better::Less),
        Figure::new("p999", "p99.9 latency", "ms", 3, Better::Less),
        Figure::new("lag", "Replica's lag at the end", "ms", 1, Better::Less),
        Figure::new("copy", "Full copy until the replica serves", "s", 2, Better::Less),
        Figure::new("copy_memory", "Primary's memory added by a copy", "%", 1, Better::Less),
    ],
    views: &[
        View::new("", &["throughput", "cpu"], &[FIGURE], &["replicas", "pipeline"], &[SERVER])
            .in_summary(),
        View::new(
            "Lag and copies",
            &["lag", "copy", "copy_memory"],
            &[FIGURE],
            &["replicas", "pipeline"],
            &[SERVER],
        ),
        View::new(
            "Latency",
            &["p50", "p99", "p999"],
            &[FIGURE],
            &["replicas", "pipeline"],
            &[SERVER],
        ),
    ],
};

/// What the copy cost, and the replica that it went to.
pub struct Pair {
    replica: Option<Server>,
    copy_s: Option<f64>,
    memory_percent: Option<f64>,
}

impl Experiment for ReplicationArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["replicas"];
    type Session = (Server, Pair);

    fn check(&self) -> Result<(), String> {
        KeySpace::new(self.keys, 16).map(|_| ())
    }

    fn points(&self) -> Vec<Point> {
        grid([("replicas", texts(&[0, 1])), ("pipeline", texts(&self.pipelines))])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Round
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        let connections = usize::from(self.connections) + 64;
        let setting = run.setting(usize::from(self.server_threads), connections.max(1024));
        // A replica finds its primary there.
        Setting { transport: Transport::Tcp, value_max: self.values.max, ..setting }
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<(Server, Pair), String> {
        let fill = Plan { operation: SET, extent: Extent::Walk, ..self.plan(&server) };
        load::run(&fill).map_err(|error| format!("while filled: {error}"))?;
        if point["replicas"] == "0" {
            return Ok((server, Pair { replica: None, copy_s: None, memory_percent: None }));
        }
        let replica = server.fresh()?;
        let pair = copy(&server, replica, self.keys)?;
        Ok((server, pair))
    }

    fn measure(
        &self,
        (server, pair): &mut (Server, Pair),
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let plan = Plan {
            operation: SET,
            order: KeyOrder::Random,
            lengths: Lengths::Random,
            connections: usize::from(self.connections),
            pipeline: at(point, "pipeline"),
            extent: Extent::window(WARM_UP_S, self.seconds),
            seed: round as u64 + 1,
            ..self.plan(server)
        };
        let outcome = load::run(&plan).map_err(|error| error.to_string())?;
        let measured = Measurement::of_load(&outcome, false);
        if pair.replica.is_none() {
            return Ok(measured);
        }
        let lag_ms = 1000.0 * lag(server)?.as_secs_f64();
        let measured = measured.with("lag", lag_ms).with_some("copy", pair.copy_s);
        Ok(measured.with_some("copy_memory", pair.memory_percent))
    }
}

const SET: Operation = Operation::Set { ttl_s: None };

impl ReplicationArgs {
    fn plan(&self, server: &Server) -> Plan {
        Plan { values: self.values, ..Plan::new(server, KeySpace { count: self.keys, size: 16 }) }
    }
}

/// Lets a server follow another, until it has all keys and serves.
fn copy(server: &Server, replica: Server, keys: u64) -> Result<Pair, String> {
    let failed = |error: std::io::Error| format!("no replica follows: {error}");
    let mut primary = connect(server.endpoint()).map_err(failed)?;
    let mut follower = connect(replica.endpoint()).map_err(failed)?;
    ask(&mut primary, &[b"CONFIG", b"SET", b"repl-diskless-sync-delay", b"0"]).map_err(failed)?;
    let Endpoint::Tcp(address) = server.endpoint() else {
        return Err("a replica finds its primary over TCP".to_owned());
    };
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let before = server.rss()?;
    let (mut most, begin) = (before, Instant::now());
    ask(&mut follower, &[b"REPLICAOF", host.as_bytes(), port.as_bytes()]).map_err(failed)?;
    while !serves(&mut follower, keys).map_err(failed)? {
        if begin.elapsed() > PATIENCE {
            return Err("the replica has no copy after two minutes".to_owned());
        }
        most = most.max(server.rss()?);
        thread::sleep(LOOK_EVERY);
    }
    let copy_s = begin.elapsed().as_secs_f64();
    let added = (most - before) as f64 / before as f64;
    Ok(Pair { replica: Some(replica), copy_s: Some(copy_s), memory_percent: Some(100.0 * added) })
}

/// Whether a replica has a link, and all keys.
fn serves(follower: &mut Stream, keys: u64) -> std::io::Result<bool> {
    let info = ask_bulk(follower, &[b"INFO", b"replication"])?;
    if !info.lines().any(|line| line.trim() == "master_link_status:up") {
        return Ok(false);
    }
    let size = ask(follower, &[b"DBSIZE"])?;
    Ok(size == format!(":{keys}").as_bytes())
}

/// How long it takes until the replica has acknowledged all that was written.
fn lag(server: &Server) -> Result<Duration, String> {
    let failed = |error: std::io::Error| format!("the replica does not follow: {error}");
    let mut stream = connect(server.endpoint()).map_err(failed)?;
    let begin = Instant::now();
    // A client waits for its own writes.
    ask(&mut stream, &[b"SET", b"replication-end", b"1"]).map_err(failed)?;
    let count = ask(&mut stream, &[b"WAIT", b"1", b"20000"]).map_err(failed)?;
    match &count[..] {
        b":1" => Ok(begin.elapsed()),
        other => Err(format!("WAIT answers {}", String::from_utf8_lossy(other))),
    }
}
