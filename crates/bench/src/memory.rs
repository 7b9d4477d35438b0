//! `memory`: resident bytes per key over the empty server, and what deleting gives back.

mod tables;
mod types;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::load::{
    self, Extent, KeyOrder, KeySpace, Lengths, Operation, Outcome, Plan, Share, ValueSizes,
};
use crate::report::{self, Machine};
use crate::server::{Peer, PeerArgs, Server, Setting, Transport};

/// Time to live of the rows with one: a day, so that nothing expires while it is measured.
const TTL_S: u32 = 86_400;

/// Keys looked up after loading, to see whether the server still has what it took.
const SAMPLE: u64 = 20_000;

/// Measure resident memory per key, with and without a time to live, and after deleting.
///
/// Every row has a fresh server: bytes per key is the growth of its resident memory from empty to
/// loaded, over the number of keys. Then most keys are deleted, chosen by hash, and what stays is
/// compared with a fresh server that was given only the remaining keys.
#[derive(Clone, Debug, clap::Args)]
pub struct MemoryArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Number of keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,

    /// Length of a key in bytes
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    key_size: usize,

    /// Sizes of values in bytes, a row each
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SIZES",
        default_value = "32,100,256,1000,1024,4096"
    )]
    values: Vec<ValueSizes>,

    /// Per cent of the keys to delete afterwards; 0 leaves that step out
    #[arg(long, default_value_t = 90, value_name = "PERCENT",
          value_parser = clap::value_parser!(u32).range(0..100))]
    delete: u32,

    /// Leave out the rows with a time to live
    #[arg(long)]
    no_ttl: bool,

    /// Measure collections of every type instead, a million elements of each: bytes per element
    #[arg(long)]
    types: bool,

    /// Seconds to wait, at most, until resident memory rests after deleting
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    settle: u64,

    /// Threads of the servers
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    server_threads: u64,

    /// Directory for memory.md and memory.json
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    out: PathBuf,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    keys: u64,
    key_size: usize,
    server_threads: u64,
    delete_percent: u32,
    settle_s: u64,
    ttl_s: u32,
    commands: Vec<String>,
    rows: Vec<Row>,
}

/// One server, one size, with or without a time to live.
#[derive(Clone, Debug, Serialize)]
struct Row {
    server: String,
    values: String,
    ttl: bool,
    /// Resident memory of the empty server, bytes.
    empty: u64,
    /// Loaded.
    loaded: u64,
    bytes_per_key: f64,
    deleted: Option<Deleted>,
    problems: Vec<String>,
}

/// The step that deletes.
#[derive(Clone, Debug, Serialize)]
struct Deleted {
    /// Keys that stayed.
    keys_left: u64,
    /// Resident memory after deleting and settling, bytes.
    after: u64,
    /// Seconds until it rested.
    settled_s: f64,
    /// Growth of a fresh server that got only the keys that stayed, bytes.
    fresh_growth: u64,
    /// Growth that is left here over that growth.
    ratio: f64,
}

/// Runs the measurement and writes its report.
pub fn run(args: &MemoryArgs) -> Result<(), String> {
    let peers = args.peers.resolve()?;
    if args.types {
        return types::run(args, &peers);
    }
    let bench = Bench { args, keys: KeySpace::new(args.keys, args.key_size)? };
    let mut report = Report {
        machine: Machine::here(),
        keys: args.keys,
        key_size: args.key_size,
        server_threads: args.server_threads,
        delete_percent: args.delete,
        settle_s: args.settle,
        ttl_s: TTL_S,
        commands: Vec::new(),
        rows: Vec::new(),
    };
    let ttls: &[bool] = if args.no_ttl { &[false] } else { &[false, true] };
    for values in &args.values {
        for peer in peers.iter().filter(|peer| !peer.is_floor()) {
            for ttl in ttls {
                let (row, command) = bench.row(peer, *values, *ttl)?;
                eprintln!("{}", row.line());
                if !report.commands.contains(&command) {
                    report.commands.push(command);
                }
                report.rows.push(row);
            }
        }
    }
    report::write(&args.out, "memory", &report, &tables::document(&report), &[])
}

#[derive(Debug)]
struct Bench<'a> {
    args: &'a MemoryArgs,
    keys: KeySpace,
}

impl Bench<'_> {
    fn row(&self, peer: &Peer, values: ValueSizes, ttl: bool) -> Result<(Row, String), String> {
        let server = self.start(peer, values)?;
        let empty = server.rss_at_rest(Duration::from_secs(5))?.0;
        let mut problems = Vec::new();
        let stored = self.store(&server, values, ttl, Share::All)?;
        if stored.replies.done != self.keys.count {
            let first = stored.replies.first_error.clone().unwrap_or_default();
            problems.push(format!("{} keys stored: {first}", stored.replies.done));
        }
        let misses = self.missing(&server, values)?;
        if misses > 0 {
            problems.push(format!("{misses} of {SAMPLE} keys looked up are gone"));
        }
        let loaded = server.rss_at_rest(Duration::from_secs(10))?.0;
        let growth = loaded.saturating_sub(empty);
        let deleted = match self.args.delete {
            percent if percent > 0 && !ttl => Some(self.delete(server, values, empty, percent)?),
            _ => None,
        };
        let row = Row {
            server: peer.name.clone(),
            values: values.to_string(),
            ttl,
            empty,
            loaded,
            bytes_per_key: growth as f64 / self.keys.count as f64,
            deleted,
            problems,
        };
        Ok((row, peer.describe(&self.setting(values))))
    }

    /// Deletes a share of the keys of a loaded server and lets it settle.
    fn delete(
        &self,
        server: Server,
        values: ValueSizes,
        empty: u64,
        percent: u32,
    ) -> Result<Deleted, String> {
        let share = Share::First(percent);
        let mut plan = self.plan(&server, values);
        plan.operation = Operation::Delete;
        plan.share = share;
        let gone = self.load(&server, &plan)?.operations;
        let (after, settled) = server.rss_at_rest(Duration::from_secs(self.args.settle))?;
        let peer = server.peer().clone();
        drop(server);

        let fresh = self.start(&peer, values)?;
        let fresh_empty = fresh.rss_at_rest(Duration::from_secs(5))?.0;
        self.store(&fresh, values, false, Share::Rest(percent))?;
        let fresh_growth =
            fresh.rss_at_rest(Duration::from_secs(10))?.0.saturating_sub(fresh_empty).max(1);
        Ok(Deleted {
            keys_left: self.keys.count - gone,
            after,
            settled_s: settled.as_secs_f64(),
            fresh_growth,
            ratio: after.saturating_sub(empty) as f64 / fresh_growth as f64,
        })
    }

    fn start(&self, peer: &Peer, values: ValueSizes) -> Result<Server, String> {
        Server::start(peer, &self.setting(values))
    }

    fn setting(&self, values: ValueSizes) -> Setting {
        let threads = self.args.server_threads as usize;
        Setting { value_max: values.max, ..Setting::new(threads, Transport::Unix, 1024) }
    }

    fn store(
        &self,
        server: &Server,
        values: ValueSizes,
        ttl: bool,
        share: Share,
    ) -> Result<Outcome, String> {
        let mut plan = self.plan(server, values);
        plan.operation = Operation::Set { ttl_s: ttl.then_some(TTL_S) };
        plan.share = share;
        self.load(server, &plan)
    }

    /// Looks up some keys and counts those that are not there.
    fn missing(&self, server: &Server, values: ValueSizes) -> Result<u64, String> {
        let mut plan = self.plan(server, values);
        plan.operation = Operation::Get;
        plan.extent = Extent::Operations(SAMPLE);
        let replies = self.load(server, &plan)?.replies;
        Ok(replies.misses + replies.wrong_lengths)
    }

    fn load(&self, server: &Server, plan: &Plan) -> Result<Outcome, String> {
        load::run(plan).map_err(|error| format!("{}: {error}", server.peer().name))
    }

    fn plan(&self, server: &Server, values: ValueSizes) -> Plan {
        Plan {
            endpoint: server.endpoint().clone(),
            protocol: server.peer().protocol(),
            operation: Operation::Get,
            keys: self.keys,
            order: KeyOrder::Random,
            share: Share::All,
            values,
            lengths: Lengths::ByKey,
            check_lengths: true,
            connections: 4,
            threads: 1,
            pipeline: 32,
            extent: Extent::Walk,
            rate: None,
            server_pid: None,
            seed: 1,
        }
    }
}

impl Row {
    fn line(&self) -> String {
        let ttl = if self.ttl { " with a TTL" } else { "" };
        let deleted = match &self.deleted {
            Some(deleted) => format!(", {:.2}x of the live data after deleting", deleted.ratio),
            None => String::new(),
        };
        format!(
            "{}, values of {} B{ttl}: {:.0} bytes per key{deleted} {}",
            self.server,
            self.values,
            self.bytes_per_key,
            self.problems.join("; ")
        )
    }
}
