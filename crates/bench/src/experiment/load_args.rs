//! The options of experiments that measure one load for a time, and the load that they make.

use serde::Serialize;

use super::RunArgs;
use crate::load::{Extent, KeyOrder, Lengths, Operation, Plan};
use crate::server::Setting;

/// Seconds of load before what is measured.
const WARM_UP_S: f64 = 0.3;

/// A load of one command over many connections.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct LoadArgs {
    /// Connections of the load generator
    #[arg(long, default_value_t = 50, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,

    /// Threads of the servers, of each node of a cluster
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: u16,

    /// Seconds per measurement, after a third of a second
    #[arg(long, default_value_t = 3.0, default_value_if("quick", "true", "0.7"),
          value_parser = parse_seconds)]
    pub seconds: f64,
}

impl LoadArgs {
    /// Threads of the servers.
    pub fn server_threads(&self) -> usize {
        usize::from(self.server_threads)
    }

    /// How a server is started for it that is to store values of up to so many bytes.
    pub fn setting(&self, run: &RunArgs, value_max: u32) -> Setting {
        let connections = usize::from(self.connections) + 64;
        Setting { value_max, ..run.setting(self.server_threads(), connections.max(1024)) }
    }

    /// A plan's command with keys drawn at random, for the time of a measurement. What is stored
    /// again has another length.
    pub fn timed(&self, plan: Plan, pipeline: usize, round: usize) -> Plan {
        let is_set = matches!(plan.operation, Operation::Set { .. });
        Plan {
            order: KeyOrder::Random,
            lengths: if is_set { Lengths::Random } else { Lengths::ByKey },
            connections: usize::from(self.connections),
            pipeline,
            extent: Extent::window(WARM_UP_S, self.seconds),
            seed: round as u64 + 1,
            ..plan
        }
    }
}

/// A time above zero up to a day, in seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 86_400.0);
    seconds.ok_or_else(|| "a time above zero up to a day".to_owned())
}
