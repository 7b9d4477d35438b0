//! What the matrix is asked for.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::load::{KeyOrder, KeySpace, ValueSizes};
use crate::server::{Peer, PeerArgs, Transport};

/// A command that is measured.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Store.
    Set,
    /// Load.
    Get,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Set => "SET",
            Command::Get => "GET",
        })
    }
}

/// Settings that belong together.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Preset {
    /// Values of 1 to 1,024 bytes, a million keys, pipelines 1, 5, 10, 20, 50.
    Standard,
    /// Values of 30 KB and of 1 MB, pipelines 1 and 5.
    BigValues,
    /// GET of 10 million keys of 100 bytes drawn at random, pipeline 50.
    TenMillion,
}

/// Measure SET and GET apart, over pipelines and server threads, every server under the same load.
///
/// Within a round every server runs the same cell in turn; idle servers are stopped with SIGSTOP.
/// The figures are medians over the rounds. Servers are filled with all keys first, so SET stores
/// over keys that exist with values of another length; with --fresh it stores into an empty server.
#[derive(Clone, Debug, clap::Args)]
pub struct MatrixArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Settings that belong together; options given beside it win
    #[arg(long, value_enum, default_value = "standard")]
    preset: Preset,

    /// Reach the servers over TCP on 127.0.0.1 instead of a Unix socket
    #[arg(long)]
    tcp: bool,

    /// Reach the servers over TLS, with a certificate made for the occasion
    #[arg(long, conflicts_with = "tcp")]
    tls: bool,

    /// Commands, measured apart [default: set,get]
    #[arg(long, value_enum, value_delimiter = ',')]
    commands: Option<Vec<Command>>,

    /// Sizes of values in bytes, uniform: 1-1024, or 100; several make several matrices
    /// [default: 1-1024]
    #[arg(long, value_delimiter = ',', value_name = "SIZES")]
    values: Option<Vec<ValueSizes>>,

    /// Number of different keys [default: 1000000]
    #[arg(long)]
    keys: Option<u64>,

    /// Length of a key in bytes
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    key_size: usize,

    /// Each key drawn at random, or each connection walking its part of them
    #[arg(long, value_enum, default_value = "random")]
    key_order: KeyOrder,

    /// Bytes of values stored at most; fewer keys are used if they would exceed it
    /// [default: 1073741824]
    #[arg(long, value_name = "BYTES")]
    data_limit: Option<u64>,

    /// Requests in flight per connection [default: 1,5,10,20,50]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    pipelines: Option<Vec<usize>>,

    /// Threads of the servers [default: those of 1,2,4 that the machine has processors for]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    server_threads: Option<Vec<usize>>,

    /// Threads of the load generator
    #[arg(long, default_value_t = 2, value_name = "N")]
    client_threads: usize,

    /// Connections of the load generator, over all its threads
    #[arg(long, default_value_t = 8, value_name = "N")]
    connections: usize,

    /// Rounds; the figures are their medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Seconds measured per cell and round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// Seconds of load before that
    #[arg(long, default_value_t = 0.3, value_name = "SECONDS")]
    warmup: f64,

    /// Measure so many requests per cell and round instead of a time
    #[arg(long, value_name = "N")]
    ops: Option<u64>,

    /// Open loop: so many requests per second over all connections, latency counted from the
    /// moment each was due
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,

    /// Start every server anew for every cell and round
    #[arg(long)]
    fresh: bool,

    /// Server that the others are compared with [default: petrel, or the first]
    #[arg(long, value_name = "NAME")]
    base: Option<String>,

    /// Directory for matrix.md, matrix.json and the plots
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    pub out: PathBuf,
}

/// The options with every default filled in.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Servers.
    #[serde(skip)]
    pub peers: Vec<Peer>,
    /// The one that the others are compared with.
    pub base: String,
    /// How they are reached.
    pub transport: Transport,
    /// Commands.
    pub commands: Vec<Command>,
    /// Sizes of values, bytes.
    pub values: Vec<ValueSizes>,
    /// Number of keys, before the limit on data.
    pub keys: u64,
    /// Length of keys, bytes.
    pub key_size: usize,
    /// Order of keys.
    pub key_order: KeyOrder,
    /// Limit on data, bytes.
    pub data_limit: u64,
    /// Pipelines.
    pub pipelines: Vec<usize>,
    /// Threads of the servers.
    pub server_threads: Vec<usize>,
    /// Threads of the generator.
    pub client_threads: usize,
    /// Connections of the generator.
    pub connections: usize,
    /// Rounds.
    pub rounds: usize,
    /// Seconds measured.
    pub seconds: f64,
    /// Seconds before that.
    pub warmup_s: f64,
    /// Requests measured, instead of seconds.
    pub operations: Option<u64>,
    /// Open loop, requests per second.
    pub rate: Option<f64>,
    /// Fresh servers for each cell.
    pub fresh: bool,
}

impl MatrixArgs {
    /// Fills in preset and defaults and checks the numbers.
    pub fn resolve(&self) -> Result<Options, String> {
        let peers = self.peers.resolve()?;
        let fixed = ValueSizes::fixed;
        let standard = (vec![ValueSizes { min: 1, max: 1024 }], 1_000_000, vec![1, 5, 10, 20, 50]);
        let (values, keys, pipelines) = match self.preset {
            Preset::Standard => standard,
            Preset::BigValues => (vec![fixed(30_000), fixed(1_000_000)], 10_000, vec![1, 5]),
            Preset::TenMillion => (vec![fixed(100)], 10_000_000, vec![50]),
        };
        let data_limit = if self.preset == Preset::BigValues { 256 << 20 } else { 1 << 30 };
        let commands = match self.preset {
            Preset::TenMillion => vec![Command::Get],
            Preset::Standard | Preset::BigValues => vec![Command::Set, Command::Get],
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let server_threads = [1, 2, 4].into_iter().filter(|count| *count <= processors).collect();
        let petrel = peers.iter().find(|peer| peer.name == "petrel");
        let base = petrel.or(peers.first()).map_or_else(String::new, |peer| peer.name.clone());
        let options = Options {
            base: self.base.clone().unwrap_or(base),
            transport: match (self.tls, self.tcp) {
                (true, _) => Transport::Tls,
                (false, true) => Transport::Tcp,
                (false, false) => Transport::Unix,
            },
            commands: self.commands.clone().unwrap_or(commands),
            values: self.values.clone().unwrap_or(values),
            keys: self.keys.unwrap_or(keys),
            key_size: self.key_size,
            key_order: self.key_order,
            data_limit: self.data_limit.unwrap_or(data_limit),
            pipelines: self.pipelines.clone().unwrap_or(pipelines),
            server_threads: self.server_threads.clone().unwrap_or(server_threads),
            client_threads: self.client_threads,
            connections: self.connections,
            rounds: self.rounds,
            seconds: self.seconds,
            warmup_s: self.warmup,
            operations: self.ops,
            rate: self.rate,
            fresh: self.fresh,
            peers,
        };
        options.check()?;
        Ok(options)
    }
}

impl Options {
    fn check(&self) -> Result<(), String> {
        let positive = |numbers: &[usize], name: &str| {
            let good = !numbers.is_empty() && numbers.iter().all(|number| *number > 0);
            if good { Ok(()) } else { Err(format!("--{name} needs numbers above zero")) }
        };
        positive(&self.pipelines, "pipelines")?;
        positive(&self.server_threads, "server-threads")?;
        positive(&[self.client_threads], "client-threads")?;
        positive(&[self.connections], "connections")?;
        positive(&[self.rounds], "rounds")?;
        KeySpace::new(self.keys, self.key_size)?;
        let seconds = |seconds: f64| seconds.is_finite() && (0.0..=86_400.0).contains(&seconds);
        if !seconds(self.seconds) || self.seconds <= 0.0 || !seconds(self.warmup_s) {
            return Err("--seconds and --warmup need times up to a day".to_owned());
        }
        if self.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err("--rate needs a number above zero".to_owned());
        }
        if !self.peers.iter().any(|peer| peer.name == self.base) {
            return Err(format!("--base {}: no such server in this run", self.base));
        }
        Ok(())
    }
}
