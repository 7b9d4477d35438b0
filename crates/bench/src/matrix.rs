//! `matrix`: SET and GET over pipelines and server threads, every server under the same load.
//!
//! Within a round every server runs the same cell in turn, beginning with another one each round,
//! so that a drift of the machine touches all alike. The servers that are not being measured are
//! stopped (SIGSTOP) and use no CPU.

mod options;
mod plots;
mod result;
mod tables;

use std::time::Duration;

pub use options::MatrixArgs;

use crate::load::{self, Extent, KeyOrder, KeySpace, Lengths, Operation, Plan, Share, ValueSizes};
use crate::report::{self, Machine};
use crate::server::{Peer, Server, Setting};
use options::{Command, Options};
use result::{Cell, CellKey, Measurement, Report};

/// Bytes in flight per connection while a server is filled.
const FILL_BYTES: f64 = 256.0 * 1024.0;

/// Connections opened beyond those of the load.
const CONNECTIONS_SPARE: usize = 64;

/// Runs the matrix and writes its report.
pub fn run(args: &MatrixArgs) -> Result<(), String> {
    let options = args.resolve()?;
    let mut cells = Vec::new();
    let mut commands = Vec::new();
    for values in &options.values {
        for threads in &options.server_threads {
            Bench::new(&options, *values, *threads)?.run(&mut cells, &mut commands)?;
        }
    }
    let report = Report::new(Machine::here(), options.clone(), commands, cells);
    let document = tables::document(&report);
    report::write(&args.out, "matrix", &report, &document, &plots::plots(&report))
}

/// One size of values and one number of server threads.
#[derive(Debug)]
struct Bench<'a> {
    options: &'a Options,
    values: ValueSizes,
    keys: KeySpace,
    threads: usize,
    peers: Vec<Peer>,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options, values: ValueSizes, threads: usize) -> Result<Bench<'a>, String> {
        let fitting = (options.data_limit as f64 / values.mean().max(1.0)) as u64;
        let keys = KeySpace::new(options.keys.min(fitting.max(1)), options.key_size)?;
        let mut peers = Vec::new();
        for peer in &options.peers {
            peers.push(peer.clone());
            if threads > 1 {
                peers.extend(peer.with_one_thread());
            }
        }
        Ok(Bench { options, values, keys, threads, peers })
    }

    fn run(&self, cells: &mut Vec<Cell>, commands: &mut Vec<String>) -> Result<(), String> {
        let mut servers: Vec<Option<Server>> = Vec::new();
        for peer in &self.peers {
            let server = self.start(peer)?;
            let line = peer.describe(&self.setting());
            if !commands.contains(&line) {
                commands.push(line);
            }
            servers.push((!self.options.fresh).then_some(server));
        }
        for command in &self.options.commands {
            for server in servers.iter().flatten() {
                self.fill(server)?;
            }
            let first = cells.len();
            for pipeline in &self.options.pipelines {
                for peer in &self.peers {
                    cells.push(Cell::new(self.key(*command, *pipeline), &peer.name));
                }
            }
            for round in 0..self.options.rounds {
                for (place, pipeline) in self.options.pipelines.iter().enumerate() {
                    let row = first + place * self.peers.len();
                    let row = &mut cells[row..row + self.peers.len()];
                    self.round(*command, *pipeline, round, &servers, row)?;
                }
            }
        }
        Ok(())
    }

    /// One cell, every server in turn.
    fn round(
        &self,
        command: Command,
        pipeline: usize,
        round: usize,
        servers: &[Option<Server>],
        row: &mut [Cell],
    ) -> Result<(), String> {
        eprint!(
            "values {}, {} threads, {command}, pipeline {pipeline}, round {}/{}:",
            self.values,
            self.threads,
            round + 1,
            self.options.rounds
        );
        for turn in 0..servers.len() {
            let index = (turn + round) % servers.len();
            let measured = match &servers[index] {
                Some(server) => {
                    server.resume();
                    let measured = self.measure(server, command, pipeline, round);
                    server.pause();
                    measured
                }
                None => {
                    let server = self.start(&self.peers[index])?;
                    server.resume();
                    if command == Command::Get {
                        self.fill_running(&server)?;
                    }
                    self.measure(&server, command, pipeline, round)
                }
            };
            let cpu = report::rounded(measured.server_cpu_us, 2);
            eprint!("  {} {:.0}/s {cpu} us", self.peers[index].name, measured.throughput);
            row[index].rounds.push(measured);
        }
        eprintln!();
        Ok(())
    }

    fn measure(
        &self,
        server: &Server,
        command: Command,
        pipeline: usize,
        round: usize,
    ) -> Measurement {
        let options = self.options;
        let extent = match options.operations {
            Some(count) => Extent::Operations(count),
            None => Extent::Window {
                warmup: Duration::from_secs_f64(options.warmup_s),
                length: Duration::from_secs_f64(options.seconds),
            },
        };
        let (operation, lengths) = match command {
            Command::Set => (Operation::Set { ttl_s: None }, Lengths::Random),
            Command::Get => (Operation::Get, Lengths::ByKey),
        };
        let plan = Plan {
            operation,
            order: options.key_order,
            lengths,
            connections: options.connections,
            threads: options.client_threads,
            pipeline,
            extent,
            rate: options.rate,
            seed: round as u64 + 1,
            ..self.plan(server)
        };
        match load::run(&plan) {
            Ok(outcome) => Measurement::of(&outcome, server.rss().ok(), server.peer(), command),
            Err(error) => Measurement::failed(error.to_string()),
        }
    }

    /// Stores every key once, with lengths that a GET can check. A bare loop stores nothing.
    fn fill(&self, server: &Server) -> Result<(), String> {
        server.resume();
        let result = self.fill_running(server);
        server.pause();
        result
    }

    fn fill_running(&self, server: &Server) -> Result<(), String> {
        if server.peer().is_floor() {
            return Ok(());
        }
        let name = &server.peer().name;
        let outcome = load::run(&self.plan(server))
            .map_err(|error| format!("{name}: while it was filled: {error}"))?;
        if let Some(error) = outcome.replies.first_error {
            eprintln!(
                "{name}: {} of the SETs that fill it failed: {error}",
                outcome.replies.errors
            );
        }
        Ok(())
    }

    /// The load that fills a server; others are made from it.
    fn plan(&self, server: &Server) -> Plan {
        Plan {
            endpoint: server.endpoint().clone(),
            protocol: server.peer().protocol(),
            operation: Operation::Set { ttl_s: None },
            keys: self.keys,
            order: KeyOrder::Sequential,
            share: Share::All,
            values: self.values,
            lengths: Lengths::ByKey,
            check_lengths: !server.peer().is_floor(),
            connections: 4,
            threads: 1,
            pipeline: (FILL_BYTES / self.values.mean().max(1.0)).clamp(1.0, 50.0) as usize,
            extent: Extent::Walk,
            rate: None,
            server_pid: Some(server.pid()),
            seed: 0,
        }
    }

    fn start(&self, peer: &Peer) -> Result<Server, String> {
        let server = Server::start(peer, &self.setting())?;
        server.pause();
        Ok(server)
    }

    fn setting(&self) -> Setting {
        let connections = (self.options.connections + CONNECTIONS_SPARE).max(1024);
        let mut setting = Setting::new(self.threads, self.options.transport, connections);
        setting.value_max = self.values.max;
        setting.reply_size = self.values.mean() as u32;
        setting
    }

    fn key(&self, command: Command, pipeline: usize) -> CellKey {
        CellKey {
            values: self.values.to_string(),
            keys: self.keys.count,
            threads: self.threads,
            command,
            pipeline,
        }
    }
}
