//! `replication`: what a replica costs its primary, a full copy, and a primary that is replaced.

mod copy;
mod failover;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use petrel_client::{Commands, DedicatedCommands};
use serde::Serialize;

use crate::exchange::client;
use crate::experiment::{
    Better, CPU, Cells, Description, Experiment, FIGURE, Figure, Lifetime, LoadArgs, RunArgs,
    SERVER, THROUGHPUT, View, at, axis_values,
};
use crate::load::{self, Endpoint, Extent, KeySpace, Operation, Plan, ValueSizes};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting, Transport};
use copy::follow;
use failover::Sentinel;

/// Measure SET with and without a replica, a full copy, and how long writes are refused while a
/// replica takes the primary's place.
///
/// Server and replica are of one program, over TCP; copies begin at once (repl-diskless-sync-delay
/// 0). The replica's lag is how long it takes, after the last SET, until it has acknowledged all. A
/// full copy is one of all keys, to a replica that has none, until that serves them: once for its
/// time, once beside GETs at a fixed rate, once beside SETs for the memory that it adds, that of
/// child processes included. Writes are refused from the last that was acknowledged to the next
/// one, by a client that tries both servers in turn.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ReplicationArgs {
    /// Requests in flight per connection
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,16",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pipelines: Vec<u16>,

    /// What to measure
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORK,...",
        default_value = "alone,replica,copy,failover,sentinel"
    )]
    works: Vec<Work>,

    /// Number of keys for SET and for failovers
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "100000"))]
    keys: u64,

    /// Number of keys for full copies
    #[arg(long, default_value_t = 10_000_000, default_value_if("quick", "true", "300000"))]
    copy_keys: u64,

    /// Sizes of values in bytes
    #[arg(long, default_value = "100", value_name = "SIZES")]
    values: ValueSizes,

    /// GETs per second beside a full copy
    #[arg(long, default_value_t = 2_000.0, value_name = "N")]
    rate: f64,

    /// The program of Redis Sentinel; without it there is no such row
    #[arg(long, default_value = "redis-sentinel", value_name = "PATH")]
    sentinel: PathBuf,

    #[command(flatten)]
    #[serde(flatten)]
    load: LoadArgs,
}

/// What is measured at a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Work {
    /// SET on a server without a replica.
    Alone,
    /// SET on a server that has one.
    Replica,
    /// Full copies.
    Copy,
    /// `FAILOVER`.
    Failover,
    /// SIGKILL, and a sentinel.
    Sentinel,
}

axis_values!(Work);

/// How long a copy or a replica that lags behind may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "replication",
    title: "Replication",
    about: "SET of random keys over requests in flight per connection (P), on a server alone and on one with a replica of the \
            same program beside it, and the replica's lag after the last of them; a full copy of all keys to a replica that has \
            none, and what it does to GETs beside it and to the primary's memory under SETs (children included); how long no \
            write is acknowledged while the replica takes the primary's place, by FAILOVER, and by Redis Sentinel after SIGKILL \
            (down-after-milliseconds 1000). Load, server and replica share the processors.",
    axes: &[("work", "{}"), ("pipeline", "P{}")],
    figures: &[
        THROUGHPUT,
        CPU,
        Figure::new("p50", "p50 latency", "ms", 3, Better::Less),
        Figure::new("p99", "p99 latency", "ms", 3, Better::Less),
        Figure::new("p999", "p99.9 latency", "ms", 3, Better::Less),
        Figure::new("lag", "Replica's lag at the end", "ms", 1, Better::Less),
        Figure::new("copy", "Full copy until the replica serves", "s", 2, Better::Less),
        Figure::new("get_before", "p99.9 of GET before a copy", "ms", 3, Better::Less),
        Figure::new("get_beside", "p99.9 of GET beside a copy", "ms", 3, Better::Less),
        Figure::new("copy_memory", "Memory added by a copy under SETs", "%", 1, Better::Less),
        Figure::new("refused", "Writes refused for", "ms", 0, Better::Less),
    ],
    views: &[
        View::new("", &["throughput"], &[], &["work", "pipeline"], &[SERVER]).in_summary(),
        View::new(
            "CPU, and over that without a replica",
            &["cpu"],
            &[],
            &["work", "pipeline"],
            &[SERVER],
        )
        .cells(Cells::Against("work", "alone"))
        .in_summary(),
        View::new("Lag", &["lag"], &[], &["work", "pipeline"], &[SERVER]),
        View::new(
            "Full copies",
            &["copy", "get_before", "get_beside", "copy_memory"],
            &[],
            &[FIGURE, "work"],
            &[SERVER],
        )
        .in_summary(),
        View::new("Failover", &["refused"], &[], &["work"], &[SERVER]).in_summary(),
        View::new("Latency", &["p50", "p99", "p999"], &[FIGURE], &["work", "pipeline"], &[SERVER]),
    ],
};

/// What stands beside the server for a work.
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A replica.
    Replica(Server),
    /// A replica, and what watches both.
    Watched { replica: Server, _sentinel: Sentinel },
}

impl Experiment for ReplicationArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["work"];
    type Session = (Server, Beside);

    fn check(&self) -> Result<(), String> {
        KeySpace::new(self.keys, 16).and_then(|_| KeySpace::new(self.copy_keys, 16)).map(|_| ())
    }

    fn points(&self) -> Vec<Point> {
        let point = |work: Work, pipeline: u16| {
            let axes = [("work", work.to_string()), ("pipeline", pipeline.to_string())];
            axes.into_iter().map(|(axis, value)| (axis.to_owned(), value)).collect()
        };
        let points = self.works.iter().flat_map(|&work| {
            match work {
                Work::Alone | Work::Replica => self.pipelines.clone(),
                _ => vec![1],
            }
            .into_iter()
            .map(move |pipeline| point(work, pipeline))
        });
        points.collect()
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Round
    }

    fn leaves_out(&self, _: &Peer, point: &Point) -> bool {
        at::<Work>(point, "work") == Work::Sentinel && !Sentinel::is_there(&self.sentinel)
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        // A replica finds its primary there.
        Setting { transport: Transport::Tcp, ..self.load.setting(run, self.values.max) }
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<(Server, Beside), String> {
        let work = at(point, "work");
        let fill = Plan { operation: SET, extent: Extent::Walk, ..self.plan(&server, work) };
        load::run(&fill).map_err(|error| format!("while filled: {error}"))?;
        let set = client(server.endpoint())
            .and_then(|client| client.config_set([("repl-diskless-sync-delay", 0)]).run());
        set.map_err(|error| format!("it takes no setting: {error}"))?;
        if matches!(work, Work::Alone | Work::Copy) {
            return Ok((server, Beside::Nothing));
        }
        let replica = follow(&server, self.keys, || Ok(()))?.0;
        let beside = match work {
            Work::Sentinel => {
                let sentinel = Sentinel::start(&self.sentinel, &server)?;
                Beside::Watched { replica, _sentinel: sentinel }
            }
            _ => Beside::Replica(replica),
        };
        Ok((server, beside))
    }

    fn measure(
        &self,
        (server, beside): &mut (Server, Beside),
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let work = at(point, "work");
        match (work, &*beside) {
            (Work::Copy, _) => return self.measure_copies(server),
            (Work::Failover, Beside::Replica(replica)) => {
                return failover::by_command(server, replica);
            }
            (Work::Sentinel, Beside::Watched { replica, .. }) => {
                return failover::by_sentinel(server, replica);
            }
            _ => {}
        }
        let plan = Plan { operation: SET, ..self.plan(server, work) };
        let plan = self.load.timed(plan, at(point, "pipeline"), round);
        let outcome = load::run(&plan).map_err(|error| error.to_string())?;
        let measured = Measurement::of_load(&outcome, false);
        match beside {
            Beside::Nothing => Ok(measured),
            _ => Ok(measured.with("lag", 1000.0 * lag(server)?.as_secs_f64())),
        }
    }
}

const SET: Operation = Operation::Set { ttl_s: None };

impl ReplicationArgs {
    fn plan(&self, server: &Server, work: Work) -> Plan {
        let count = if work == Work::Copy { self.copy_keys } else { self.keys };
        Plan { values: self.values, ..Plan::new(server, KeySpace { count, size: 16 }) }
    }
}

/// Host and port of a server, for one that is to follow it.
fn address(server: &Server) -> Result<(String, String), String> {
    match server.endpoint() {
        Endpoint::Tcp(address) => Ok((address.ip().to_string(), address.port().to_string())),
        _ => Err("a replica finds its primary over TCP".to_owned()),
    }
}

/// How long it takes until the replica has acknowledged all that was written.
fn lag(server: &Server) -> Result<Duration, String> {
    let failed = |error: petrel_client::Error| format!("the replica does not follow: {error}");
    let mut client =
        client(server.endpoint()).and_then(|client| client.dedicated()).map_err(failed)?;
    let begin = Instant::now();
    // A client waits for its own writes.
    client.set("replication-end", 1).run().map_err(failed)?;
    let count = client.wait(1, 20_000).run().map_err(failed)?;
    match count {
        1 => Ok(begin.elapsed()),
        count => Err(format!("WAIT answers {count}")),
    }
}
