//! `matrix`: SET and GET over pipelines and server threads, every server under the same load.

use serde::Serialize;

use crate::experiment::{
    Cells, Description, Experiment, FIGURE, LOAD, Lifetime, Plot, RunArgs, SERVER, View, at, grid,
    texts,
};
use crate::load::{self, Extent, KeyOrder, KeySpace, Lengths, Operation, Plan, ValueSizes};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};

/// Bytes in flight per connection while a server is filled.
const FILL_BYTES: f64 = 256.0 * 1024.0;

/// Connections opened beyond those of the load.
const CONNECTIONS_SPARE: usize = 64;

/// Settings that belong together.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Preset {
    /// Values of 1 to 1,024 bytes, a million keys, pipelines 1, 5, 10, 20, 50.
    Standard,
    /// 50 connections; values of 32, 256, 1,024 and 4,096 bytes; pipelines 1, 8, 16, 64.
    ManyClients,
    /// Values of 30 KB and of 1 MB, pipelines 1 and 5.
    BigValues,
    /// GET of 10 million keys of 100 bytes drawn at random, pipeline 50.
    TenMillion,
}

/// Measure SET and GET apart, over pipelines and server threads, every server under the same load.
///
/// Servers are filled with all keys first, so SET stores over keys that exist with values of
/// another length; with --fresh it stores into an empty server.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct MatrixArgs {
    /// Settings that belong together; options given beside it win
    #[arg(long, value_enum, default_value = "standard")]
    preset: Preset,

    /// Commands, measured apart
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = ["set", "get"],
        default_value = "set,get",
        default_value_if("preset", "ten-million", "get")
    )]
    commands: Vec<String>,

    /// Sizes of values in bytes, uniform: 1-1024, or 100; several are measured apart
    #[arg(long, value_delimiter = ',', value_name = "SIZES", default_value = "1-1024",
          default_value_ifs([("preset", "big-values", "30000,1000000"),
                             ("preset", "many-clients", "32,256,1024,4096"),
                             ("preset", "ten-million", "100")]))]
    values: Vec<ValueSizes>,

    /// Number of different keys
    #[arg(long, default_value = "1000000",
          default_value_ifs([("preset", "big-values", "10000"),
                             ("preset", "ten-million", "10000000"), ("quick", "true", "100000")]))]
    keys: u64,

    /// Length of a key in bytes
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    key_size: usize,

    /// Each key drawn at random, or each connection walking its part of them
    #[arg(long, value_enum, default_value = "random")]
    key_order: KeyOrder,

    /// Bytes of values stored at most; fewer keys are used if they would exceed it
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1073741824",
        default_value_if("preset", "big-values", "268435456")
    )]
    data_limit: u64,

    /// Requests in flight per connection
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,5,10,20,50",
          default_value_ifs([("preset", "big-values", "1,5"), ("preset", "ten-million", "50"),
                             ("preset", "many-clients", "1,8,16,64"),
                             ("quick", "true", "1,10,50")]))]
    pipelines: Vec<usize>,

    /// Threads of the servers; marked where they are more than the processors
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,2,4,8",
        default_value_if("quick", "true", "2")
    )]
    server_threads: Vec<usize>,

    /// Threads of the load generator
    #[arg(long, default_value_t = 2, value_name = "N")]
    client_threads: usize,

    /// Connections of the load generator, over all its threads
    #[arg(
        long,
        default_value = "8",
        value_name = "N",
        default_value_if("preset", "many-clients", "50")
    )]
    connections: usize,

    /// Seconds per measurement
    #[arg(long, default_value_t = 2.0, default_value_if("quick", "true", "0.5"))]
    seconds: f64,

    /// Seconds of load before that
    #[arg(long, default_value_t = 0.3, value_name = "SECONDS")]
    warmup: f64,

    /// Make so many requests per measurement instead of a time
    #[arg(long, value_name = "N")]
    ops: Option<u64>,

    /// Open loop: so many requests per second over all connections, latency counted from the
    /// moment each was due
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,

    /// Start every server anew for every measurement
    #[arg(long)]
    fresh: bool,
}

/// A view of figures by command and pipeline.
const fn figures(title: &'static str, figures: &'static [&'static str]) -> View {
    let sections = &["values", "threads", FIGURE];
    View::new(title, figures, sections, &[SERVER], &["command", "pipeline"]).plot(Plot::Bars)
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "matrix",
    title: "SET and GET",
    about: "SET and GET apart, over requests in flight per connection (P) and threads of the servers. A closed loop \
            unless a rate is given: whenever replies arrive, as many requests follow. In an open loop latency runs from \
            the moment a request was due, so that a stalled server is charged for every request that it held up \
            (coordinated omission). The servers hold all keys before they are measured. Servers that run commands on \
            one thread are also shown with one I/O thread.",
    axes: &[
        ("values", "values of {} B"),
        ("threads", "{} server threads"),
        ("command", "{}"),
        ("pipeline", "P{}"),
    ],
    figures: &LOAD,
    views: &[
        View::new(
            "Ratios",
            &["throughput", "cpu", "p99"],
            &["values", "threads", FIGURE],
            &["command", "pipeline"],
            &[SERVER],
        )
        .cells(Cells::Ratio),
        figures("", &["throughput", "cpu"]).in_summary(),
        figures("Latency", &["p50", "p99", "p999", "max"]),
        figures("Load generator", &["client_cpu", "fairness"]),
        View::new(
            "Throughput by pipeline and threads",
            &["throughput"],
            &["values", "pipeline", "threads"],
            &[SERVER],
            &["command"],
        )
        .cells(Cells::Versus),
        figures("CPU over the run", &["cpu_share"]),
    ],
};

impl Experiment for MatrixArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (5, 2);
    const GROUP: &'static [&'static str] = &["values", "threads", "command"];
    type Session = Server;

    fn check(&self) -> Result<(), String> {
        let positive = |numbers: &[usize], name: &str| {
            let good = numbers.iter().all(|number| *number > 0);
            if good { Ok(()) } else { Err(format!("--{name} needs numbers above zero")) }
        };
        positive(&self.pipelines, "pipelines")?;
        positive(&self.server_threads, "server-threads")?;
        positive(&[self.client_threads], "client-threads")?;
        positive(&[self.connections], "connections")?;
        KeySpace::new(self.keys, self.key_size)?;
        let seconds = |seconds: f64| seconds.is_finite() && (0.0..=86_400.0).contains(&seconds);
        if !seconds(self.seconds) || self.seconds <= 0.0 || !seconds(self.warmup) {
            return Err("--seconds and --warmup need times up to a day".to_owned());
        }
        if self.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err("--rate needs a number above zero".to_owned());
        }
        Ok(())
    }

    fn admits(&self, peer: &Peer) -> bool {
        !peer.is_cluster()
    }

    fn server_threads_max(&self) -> usize {
        self.server_threads.iter().copied().max().unwrap_or(1)
    }

    fn points(&self) -> Vec<Point> {
        let commands = self.commands.iter().map(|command| command.to_uppercase()).collect();
        grid([
            ("values", texts(&self.values)),
            ("threads", texts(&self.server_threads)),
            ("command", commands),
            ("pipeline", texts(&self.pipelines)),
        ])
    }

    fn lifetime(&self) -> Lifetime {
        if self.fresh { Lifetime::Measurement } else { Lifetime::Group }
    }

    fn leaves_out(&self, peer: &Peer, point: &Point) -> bool {
        peer.is_variant() && point["threads"] == "1"
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        let connections = (self.connections + CONNECTIONS_SPARE).max(1024);
        let mut setting = run.setting(at(point, "threads"), connections);
        let values: ValueSizes = at(point, "values");
        setting.value_max = values.max;
        setting.reply_size = values.mean() as u32;
        setting
    }

    /// Stores every key once, with lengths that a GET can check. A bare loop stores nothing.
    fn prepare(&self, server: Server, point: &Point) -> Result<Server, String> {
        let is_empty = self.fresh && point["command"] == "SET";
        if !is_empty && !server.peer().is_floor() {
            let pipeline = (FILL_BYTES / at::<ValueSizes>(point, "values").mean().max(1.0))
                .clamp(1.0, 50.0) as usize;
            let plan = Plan {
                operation: Operation::Set { ttl_s: None },
                order: KeyOrder::Sequential,
                extent: Extent::Walk,
                connections: 4,
                pipeline,
                ..self.plan(&server, point)
            };
            let outcome = load::run(&plan).map_err(|error| format!("while filled: {error}"))?;
            if let Some(error) = outcome.replies.first_error {
                return Err(format!("{} errors while filled: {error}", outcome.replies.errors));
            }
        }
        Ok(server)
    }

    fn measure(
        &self,
        server: &mut Server,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let is_get = point["command"] == "GET";
        let (operation, lengths) = match is_get {
            false => (Operation::Set { ttl_s: None }, Lengths::Random),
            true => (Operation::Get, Lengths::ByKey),
        };
        let extent = match self.ops {
            Some(count) => Extent::Operations(count),
            None => Extent::window(self.warmup, self.seconds),
        };
        let plan = Plan {
            operation,
            order: self.key_order,
            lengths,
            connections: self.connections,
            threads: self.client_threads,
            pipeline: at(point, "pipeline"),
            extent,
            rate: self.rate,
            seed: round as u64 + 1,
            ..self.plan(server, point)
        };
        let outcome = load::run(&plan).map_err(|error| error.to_string())?;
        let replies = &outcome.replies;
        let other = if is_get { replies.done } else { replies.hits + replies.misses };
        if other > 0 {
            return Err(format!("{other} replies belong to another command"));
        }
        Ok(Measurement::of_load(&outcome, plan.check_lengths && is_get))
    }
}

impl MatrixArgs {
    fn plan(&self, server: &Server, point: &Point) -> Plan {
        let values: ValueSizes = at(point, "values");
        let fitting = (self.data_limit as f64 / values.mean().max(1.0)) as u64;
        let keys = KeySpace { count: self.keys.min(fitting.max(1)), size: self.key_size };
        Plan { check_lengths: !server.peer().is_floor(), values, ..Plan::new(server, keys) }
    }
}
