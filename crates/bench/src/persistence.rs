//! `persistence`: SET over pipelines without a log of changes, and with one.

use petrel_client::Commands;
use serde::Serialize;

use crate::exchange::client;
use crate::experiment::{
    Cells, Description, Experiment, FIGURE, LOAD, Lifetime, LoadArgs, Plot, RunArgs, SERVER, View,
    at, grid, texts,
};
use crate::load::{self, Extent, KeySpace, Operation, Plan, ValueSizes};
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};

/// Measure SET over pipelines without a log, and with one synced every second or before each reply.
///
/// The log is turned on by CONFIG SET appendonly and appendfsync, in an empty directory of the
/// server's own under the temporary one: set TMPDIR to the disk that is to be measured.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct PersistenceArgs {
    /// Logs, measured apart
    #[arg(long, value_delimiter = ',', value_parser = ["off", "everysec", "always"],
          default_value = "off,everysec,always")]
    logs: Vec<String>,

    /// Requests in flight per connection
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,8,16,64",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pipelines: Vec<u16>,

    /// Number of keys
    #[arg(long, default_value_t = 100_000)]
    keys: u64,

    /// Sizes of values in bytes
    #[arg(long, default_value = "64", value_name = "SIZES")]
    values: ValueSizes,

    #[command(flatten)]
    #[serde(flatten)]
    load: LoadArgs,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "persistence",
    title: "Persistence",
    about: "SET of random keys over requests in flight per connection (P), with no log of changes, with one synced every \
            second, and with one synced before replies go out. Each log is that of the server itself \
            (`appendonly`, `appendfsync`), on a file of its own.",
    axes: &[("log", "log {}"), ("pipeline", "P{}")],
    figures: &LOAD,
    views: &[
        View::new("", &["throughput"], &[FIGURE], &["log", "pipeline"], &[SERVER])
            .plot(Plot::Bars)
            .in_summary(),
        View::new("Over each server's", &["throughput"], &[], &["log", "pipeline"], &[SERVER])
            .cells(Cells::Ratio),
        View::new(
            "Over the same without a log",
            &["throughput"],
            &[],
            &["log", "pipeline"],
            &[SERVER],
        )
        .cells(Cells::Against("log", "off")),
        View::new(
            "Latency and cost",
            &["p50", "p99", "p999", "cpu"],
            &[FIGURE],
            &["log", "pipeline"],
            &[SERVER],
        ),
    ],
};

impl Experiment for PersistenceArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["log"];
    type Session = Server;

    fn check(&self) -> Result<(), String> {
        KeySpace::new(self.keys, 16).map(|_| ())
    }

    fn points(&self) -> Vec<Point> {
        grid([("log", self.logs.clone()), ("pipeline", texts(&self.pipelines))])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Round
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        self.load.setting(run, self.values.max)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Server, String> {
        let turn_on = || -> petrel_client::Result<String> {
            let client = client(server.endpoint())?;
            client.config_set([("appendfsync", &point["log"])]).run()?;
            client.config_set([("appendonly", "yes")]).run()?;
            client.info().section(["persistence"]).run()
        };
        if point["log"] != "off" {
            let info = turn_on().map_err(|error| format!("cannot turn its log on: {error}"))?;
            if !info.lines().any(|line| line.trim() == "aof_enabled:1") {
                return Err("its log is not on after CONFIG SET appendonly yes".to_owned());
            }
        }
        let fill = Plan { operation: SET, extent: Extent::Walk, ..self.plan(&server) };
        load::run(&fill).map_err(|error| format!("while filled: {error}"))?;
        Ok(server)
    }

    fn measure(
        &self,
        server: &mut Server,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let plan = Plan { operation: SET, ..self.plan(server) };
        let plan = self.load.timed(plan, at(point, "pipeline"), round);
        let outcome = load::run(&plan).map_err(|error| error.to_string())?;
        Ok(Measurement::of_load(&outcome, false))
    }
}

const SET: Operation = Operation::Set { ttl_s: None };

impl PersistenceArgs {
    fn plan(&self, server: &Server) -> Plan {
        Plan { values: self.values, ..Plan::new(server, KeySpace { count: self.keys, size: 16 }) }
    }
}
