//! `memory`: resident bytes per key over the empty server, and what deleting gives back.

use std::time::Duration;

use serde::Serialize;

use crate::experiment::{
    Better, Description, Experiment, FIGURE, Figure, Lifetime, Plot, RunArgs, SERVER, View, at,
    grid, texts,
};
use crate::load::{self, Extent, KeySpace, Operation, Outcome, Plan, Share, ValueSizes};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};

/// Time to live of the rows with one: a day, so that nothing expires while it is measured.
const TTL_S: u32 = 86_400;

/// Keys looked up after loading, to see whether the server still has what it took.
const SAMPLE: u64 = 20_000;

/// Longest wait until the memory of an empty and of a loaded server rests.
const REST_EMPTY: Duration = Duration::from_secs(5);
const REST_LOADED: Duration = Duration::from_secs(10);

/// Measure resident memory per key, with and without a time to live, and after deleting.
///
/// Bytes per key is the growth of a fresh server's resident memory from empty to loaded, over the
/// number of keys. Then most keys are deleted, chosen by hash, and what stays is compared with a
/// fresh server that was given only the remaining keys.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct MemoryArgs {
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "200000"))]
    pub keys: u64,

    /// Length of a key in bytes
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    key_size: usize,

    /// Sizes of values in bytes, measured apart
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SIZES",
        default_value = "32,100,256,1000,1024,4096",
        default_value_if("quick", "true", "32,1024")
    )]
    values: Vec<ValueSizes>,

    /// Per cent of the keys to delete afterwards; 0 leaves that step out
    #[arg(long, default_value_t = 90, value_name = "PERCENT",
          value_parser = clap::value_parser!(u32).range(0..100))]
    delete: u32,

    /// Leave out the time to live
    #[arg(long)]
    no_ttl: bool,

    /// Measure collections of every type instead, so many elements of each as there would be keys
    #[arg(long)]
    #[serde(skip)]
    pub types: bool,

    /// Seconds to wait, at most, until resident memory rests after deleting
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    settle: u64,

    /// Threads of the servers, measured apart
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "2",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub server_threads: Vec<u16>,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "memory",
    title: "Memory per key",
    about: "Growth of a fresh server's resident memory (Rss of /proc/PID/smaps_rollup, once it rests) from empty to \
            loaded, over the number of keys. After deleting: growth that is left over that of a fresh server which \
            was given only the keys that stayed.",
    axes: &[("threads", "{} server threads"), ("values", "{} B")],
    figures: &[
        Figure::new("bytes", "Bytes per key", "", 0, Better::Less),
        Figure::new("bytes_ttl", "Bytes per key with a TTL", "", 0, Better::Less),
        Figure::new("ttl", "Bytes that a TTL adds", "", 0, Better::Less),
        Figure::new("left", "Left after deleting, over live data", "ratio", 2, Better::Less),
        Figure::new("settled", "Time until memory rested after deleting", "s", 1, Better::Neither),
        Figure::new("empty", "Memory of the empty server", "MB", 1, Better::Less),
        Figure::new("loaded", "Memory of the loaded server", "MB", 1, Better::Less),
    ],
    views: &[
        View::new("", &["bytes"], &["threads", FIGURE], &[SERVER], &["values"])
            .plot(Plot::Bars)
            .in_summary(),
        View::new(
            "",
            &["bytes_ttl", "ttl", "left", "settled", "empty", "loaded"],
            &["threads", FIGURE],
            &[SERVER],
            &["values"],
        ),
    ],
};

impl Experiment for MemoryArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (1, 1);
    type Session = Server;

    fn check(&self) -> Result<(), String> {
        KeySpace::new(self.keys, self.key_size).map(|_| ())
    }

    fn admits(&self, peer: &Peer) -> bool {
        !peer.is_floor() && !peer.is_cluster()
    }

    fn points(&self) -> Vec<Point> {
        grid([("threads", texts(&self.server_threads)), ("values", texts(&self.values))])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        let setting = run.setting(at(point, "threads"), 1024);
        Setting { value_max: at::<ValueSizes>(point, "values").max, ..setting }
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Server, String> {
        Ok(server)
    }

    fn measure(&self, server: &mut Server, point: &Point, _: usize) -> Result<Measurement, String> {
        let values: ValueSizes = at(point, "values");
        let per_key = |growth: u64| growth as f64 / self.keys as f64;
        let (empty, growth) = self.store(server, values, None, Share::All)?;
        let mut measured = Measurement::default()
            .with("bytes", per_key(growth))
            .with("empty", empty as f64 / 1e6)
            .with("loaded", (empty + growth) as f64 / 1e6);
        if self.delete > 0 {
            let plan = Plan {
                operation: Operation::Delete,
                share: Share::First(self.delete),
                ..self.plan(server, values)
            };
            run(&plan)?;
            let settle = Duration::from_secs(self.settle);
            let (after, settled) = server.rss_at_rest(settle)?;
            let (_, live) = self.store(&server.fresh()?, values, None, Share::Rest(self.delete))?;
            let left = after.saturating_sub(empty) as f64 / live.max(1) as f64;
            measured = measured.with("left", left).with("settled", settled.as_secs_f64());
        }
        if !self.no_ttl {
            let (_, with_ttl) = self.store(&server.fresh()?, values, Some(TTL_S), Share::All)?;
            measured = measured
                .with("bytes_ttl", per_key(with_ttl))
                .with("ttl", per_key(with_ttl) - per_key(growth));
        }
        Ok(measured)
    }
}

impl MemoryArgs {
    /// Loads an empty server; its resident memory before and how far it grew, bytes.
    fn store(
        &self,
        server: &Server,
        values: ValueSizes,
        ttl_s: Option<u32>,
        share: Share,
    ) -> Result<(u64, u64), String> {
        let empty = server.rss_at_rest(REST_EMPTY)?.0;
        let plan = Plan { operation: Operation::Set { ttl_s }, share, ..self.plan(server, values) };
        let stored = run(&plan)?;
        if stored.replies.done != stored.operations {
            let first = stored.replies.first_error.unwrap_or_default();
            return Err(format!(
                "of {} keys {} stored: {first}",
                stored.operations, stored.replies.done
            ));
        }
        if share == Share::All {
            let plan = Plan { extent: Extent::Operations(SAMPLE), ..self.plan(server, values) };
            let replies = run(&plan)?.replies;
            if replies.hits != SAMPLE || replies.wrong_lengths > 0 {
                return Err(format!("of {SAMPLE} keys looked up {} are there", replies.hits));
            }
        }
        let loaded = server.rss_at_rest(REST_LOADED)?.0;
        Ok((empty, loaded.saturating_sub(empty)))
    }

    fn plan(&self, server: &Server, values: ValueSizes) -> Plan {
        let keys = KeySpace { count: self.keys, size: self.key_size };
        Plan { values, ..Plan::new(server, keys) }
    }
}

fn run(plan: &Plan) -> Result<Outcome, String> {
    load::run(plan).map_err(|error| error.to_string())
}
