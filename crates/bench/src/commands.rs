//! `commands`: server CPU time per operation of commands on every data type, every server under the same load.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use crate::exchange::Exchange;
use crate::load::Random;
use crate::report::{self, Document, Machine, Table, median, ratio, rounded};
use crate::server::{Peer, PeerArgs, Server, Setting, Transport};
use crate::sys;
use crate::workload::Workload;

/// Measure server CPU time per operation of commands on collections, keys drawn at random.
///
/// Within a round every server runs the same command in turn, beginning with another one each round; those that are not
/// being measured are stopped. The figure is the median of the rounds.
#[derive(Clone, Debug, clap::Args)]
pub struct CommandsArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Commands to measure
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true, value_name = "NAMES",
          default_values_t = Workload::ALL)]
    commands: Vec<Workload>,

    /// Keys of each type
    #[arg(long, default_value_t = 100_000)]
    keys: u64,

    /// Commands in flight per connection
    #[arg(long, default_value_t = 16, value_name = "N")]
    pipeline: usize,

    /// Connections
    #[arg(long, default_value_t = 8, value_name = "N")]
    connections: usize,

    /// Operations per command, server and round
    #[arg(long, default_value_t = 400_000, value_name = "N")]
    operations: u64,

    /// Rounds; the figures are medians
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: u64,

    /// Threads of the servers
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    server_threads: u64,

    /// Directory for commands.md and commands.json
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    out: PathBuf,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    keys: u64,
    pipeline: usize,
    connections: usize,
    operations: u64,
    rounds: u64,
    server_threads: u64,
    servers: Vec<String>,
    commands: Vec<String>,
    rows: Vec<Row>,
    problems: Vec<String>,
}

/// One command: per server, in the order of `servers`, a figure per round.
#[derive(Clone, Debug, Serialize)]
struct Row {
    command: String,
    cpu_us: Vec<Vec<f64>>,
    per_second: Vec<Vec<f64>>,
}

/// Runs the measurement and writes its report.
pub fn run(args: &CommandsArgs) -> Result<(), String> {
    let peers: Vec<Peer> =
        args.peers.resolve()?.into_iter().filter(|peer| !peer.is_floor()).collect();
    let setting = Setting::new(args.server_threads as usize, Transport::Unix, 1024);
    let mut report = Report {
        machine: Machine::here(),
        keys: args.keys,
        pipeline: args.pipeline,
        connections: args.connections,
        operations: args.operations,
        rounds: args.rounds,
        server_threads: args.server_threads,
        servers: peers.iter().map(|peer| peer.name.clone()).collect(),
        commands: peers.iter().map(|peer| peer.describe(&setting)).collect(),
        rows: Vec::new(),
        problems: Vec::new(),
    };
    for &workload in &args.commands {
        let row = measure(args, workload, &peers, &setting, &mut report.problems)?;
        report.rows.push(row);
    }
    report::write(&args.out, "commands", &report, &document(&report), &[])
}

fn measure(
    args: &CommandsArgs,
    workload: Workload,
    peers: &[Peer],
    setting: &Setting,
    problems: &mut Vec<String>,
) -> Result<Row, String> {
    let mut servers = Vec::new();
    for peer in peers {
        let server = Server::start(peer, setting)?;
        let mut exchange = Exchange::connect(server.endpoint(), args.connections)?;
        let mut next = 0;
        if workload.fill(0, &mut Vec::new()) {
            exchange.run(args.keys, args.pipeline, |out| {
                workload.fill(next, out);
                next += 1;
            })?;
        }
        server.pause();
        servers.push((server, exchange));
    }
    let count = servers.len();
    let mut row = Row {
        command: workload.to_string(),
        cpu_us: vec![Vec::new(); count],
        per_second: vec![Vec::new(); count],
    };
    for round in 0..args.rounds {
        eprint!("{workload}, round {}/{}:", round + 1, args.rounds);
        for turn in 0..count {
            let at = (turn + round as usize) % count;
            let (server, exchange) = &mut servers[at];
            server.resume();
            let mut random = Random::new(round + 1);
            let (begin, cpu) = (Instant::now(), cpu_ns(server)?);
            let replies = workload.replies();
            let sent = exchange.run_of(replies, args.operations, args.pipeline, |out| {
                workload.make(args.keys, &mut random, out);
            })?;
            let cpu = (cpu_ns(server)? - cpu) as f64 / 1000.0 / sent as f64;
            row.cpu_us[at].push(cpu);
            row.per_second[at].push(sent as f64 / begin.elapsed().as_secs_f64());
            server.pause();
            eprint!("  {} {cpu:.2} us", server.peer().name);
        }
        eprintln!();
    }
    for (server, exchange) in &servers {
        if let Some(error) = &exchange.first_error {
            let name = &server.peer().name;
            problems.push(format!("{name}, {workload}: {} errors: {error}", exchange.errors));
        }
    }
    Ok(row)
}

fn cpu_ns(server: &Server) -> Result<u64, String> {
    sys::process_cpu_ns(server.pid()).map_err(|error| format!("{}: {error}", server.peer().name))
}

fn document(report: &Report) -> Document {
    let mut document = Document::new("Commands");
    document.paragraph("Measured with `petrel-bench commands`.");
    report.machine.describe(&mut document);
    document.heading(2, "Configuration");
    document.items([
        format!("{} keys of each type, drawn at random.", report.keys),
        format!(
            "{} connections over a Unix socket, pipeline {}.",
            report.connections, report.pipeline
        ),
        format!(
            "{} operations per round, medians of {} rounds, {} server threads.",
            report.operations, report.rounds, report.server_threads
        ),
    ]);
    document.items(report.commands.iter().cloned());
    document.heading(2, "Server CPU per operation (microseconds)");
    document.table(&figures(report, |row| &row.cpu_us, 2));
    if report.servers.len() > 1 {
        document.heading(2, &format!("The same of {} over each", report.servers[0]));
        document.table(&ratios(report));
    }
    document.heading(2, "Operations per second (thousands)");
    document.table(&figures(report, |row| &row.per_second, 0));
    document.heading(2, "Self-checks");
    if report.problems.is_empty() {
        document.paragraph("No reply was an error.");
    } else {
        document.items(report.problems.iter().cloned());
    }
    document
}

fn figures(report: &Report, of: fn(&Row) -> &Vec<Vec<f64>>, decimals: usize) -> Table {
    let header = ["command".to_owned()].into_iter().chain(report.servers.iter().cloned());
    let mut table = Table::new(header);
    for row in &report.rows {
        // Rates are shown in thousands, times as they are.
        let scale = if decimals == 0 { 1000.0 } else { 1.0 };
        let cells = of(row).iter().map(|rounds| {
            rounded(median(rounds.iter().copied()).map(|value| value / scale), decimals)
        });
        table.row([row.command.clone()].into_iter().chain(cells));
    }
    table
}

fn ratios(report: &Report) -> Table {
    let header = ["command".to_owned()].into_iter().chain(report.servers[1..].iter().cloned());
    let mut table = Table::new(header);
    for row in &report.rows {
        let medians: Vec<Option<f64>> =
            row.cpu_us.iter().map(|rounds| median(rounds.iter().copied())).collect();
        let cells = medians[1..].iter().map(|other| ratio(medians[0], *other));
        table.row([row.command.clone()].into_iter().chain(cells));
    }
    table
}
