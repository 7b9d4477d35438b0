//! `scaling`: what one operation costs as the collection that it works on grows.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::exchange::Exchange;
use crate::load::Random;
use crate::report::{self, Document, LineChart, Machine, Series, Table, rounded};
use crate::server::{PeerArgs, Server, Setting, Transport};
use crate::sys;
use crate::workload::Args;

/// Elements of one command while a collection is filled.
const ELEMENTS_PER_COMMAND: u64 = 500;

/// A server is at rest when it takes less than so much CPU time within so long; for how many such times that is waited.
const SETTLED_NS: u64 = 2_000_000;
const SETTLING: Duration = Duration::from_millis(50);
const SETTLING_MAX: usize = 1_200;

/// Measure server CPU time per operation over the size of a collection.
///
/// One key holds the whole collection. Each cell runs until it has taken a fair share of time or operations; a second
/// per cell is enough for a millisecond per operation.
#[derive(Clone, Debug, clap::Args)]
pub struct ScalingArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Sizes of the collection
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "100,1000,10000,100000,1000000,10000000"
    )]
    sizes: Vec<u64>,

    /// Seconds per cell, at most
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,

    /// Directory for scaling.md, scaling.json and the plots
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    out: PathBuf,
}

/// An operation whose cost may depend on the size of its collection.
struct Operation {
    name: &'static str,
    /// File name of its plot.
    file: &'static str,
    fill: Filling,
    /// Adds the arguments of one call on a collection of a size.
    call: fn(&mut Args, u64, &mut dyn FnMut(u64) -> u64),
}

/// The collections.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Filling {
    List,
    SortedSet,
    Set,
    Hash,
}

const OPERATIONS: [Operation; 10] = [
    Operation {
        name: "LINDEX in the middle",
        file: "lindex",
        fill: Filling::List,
        call: |args, size, _| add_all(args, &["LINDEX", "list"], &[size / 2]),
    },
    Operation {
        name: "LRANGE of 10 in the middle",
        file: "lrange",
        fill: Filling::List,
        call: |args, size, _| add_all(args, &["LRANGE", "list"], &[size / 2, size / 2 + 9]),
    },
    Operation {
        name: "LSET in the middle",
        file: "lset",
        fill: Filling::List,
        call: |args, size, _| add_all(args, &["LSET", "list"], &[size / 2, size]),
    },
    Operation {
        name: "LINSERT and LREM after a quarter",
        file: "linsert",
        fill: Filling::List,
        // As many of one as of the other, so that the list keeps its size.
        call: |args, size, below| match below(2) {
            0 => {
                add_all(args, &["LINSERT", "list", "BEFORE"], &[]);
                args.add(format_args!("element:{:010}", size / 4)).add(format_args!("new"));
            }
            _ => add_all(args, &["LREM", "list", "1", "new"], &[]),
        },
    },
    Operation {
        name: "ZRANK",
        file: "zrank",
        fill: Filling::SortedSet,
        call: |args, size, below| {
            args.add(format_args!("ZRANK")).add(format_args!("zset"));
            args.add(format_args!("element:{:010}", below(size)));
        },
    },
    Operation {
        name: "ZADD of a new score",
        file: "zadd",
        fill: Filling::SortedSet,
        call: |args, size, below| {
            args.add(format_args!("ZADD")).add(format_args!("zset"));
            args.add(format_args!("{}", below(size)));
            args.add(format_args!("element:{:010}", below(size)));
        },
    },
    Operation {
        name: "ZRANGE of 10 anywhere",
        file: "zrange",
        fill: Filling::SortedSet,
        call: |args, size, below| {
            let start = below(size);
            add_all(args, &["ZRANGE", "zset"], &[start, start + 9]);
        },
    },
    Operation {
        name: "HRANDFIELD of 10",
        file: "hrandfield",
        fill: Filling::Hash,
        call: |args, _, _| add_all(args, &["HRANDFIELD", "hash"], &[10]),
    },
    Operation {
        name: "SRANDMEMBER of 10",
        file: "srandmember",
        fill: Filling::Set,
        call: |args, _, _| add_all(args, &["SRANDMEMBER", "set"], &[10]),
    },
    Operation {
        name: "SPOP of 10 and SADD of 10",
        file: "spop",
        fill: Filling::Set,
        // As many of one as of the other, so that the set keeps its size.
        call: |args, _, below| match below(2) {
            0 => add_all(args, &["SPOP", "set"], &[10]),
            _ => {
                add_all(args, &["SADD", "set"], &[]);
                for _ in 0..10 {
                    args.add(format_args!("new:{:012}", below(1_000_000_000_000)));
                }
            }
        },
    },
];

/// Adds words, then numbers.
fn add_all(args: &mut Args, words: &[&str], numbers: &[u64]) {
    for word in words {
        args.add(format_args!("{word}"));
    }
    for number in numbers {
        args.add(format_args!("{number}"));
    }
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    servers: Vec<String>,
    commands: Vec<String>,
    sizes: Vec<u64>,
    rows: Vec<Row>,
    problems: Vec<String>,
}

/// One operation: per server, in the order of `servers`, microseconds per operation for each size.
#[derive(Clone, Debug, Serialize)]
struct Row {
    operation: String,
    file: String,
    cpu_us: Vec<Vec<f64>>,
}

/// Runs the measurement and writes its report.
pub fn run(args: &ScalingArgs) -> Result<(), String> {
    let peers: Vec<_> = args.peers.resolve()?.into_iter().filter(|peer| !peer.is_floor()).collect();
    let setting = Setting::new(1, Transport::Unix, 64);
    let row = |operation: &Operation| Row {
        operation: operation.name.to_owned(),
        file: operation.file.to_owned(),
        cpu_us: vec![Vec::new(); peers.len()],
    };
    let mut report = Report {
        machine: Machine::here(),
        servers: peers.iter().map(|peer| peer.name.clone()).collect(),
        commands: peers.iter().map(|peer| peer.describe(&setting)).collect(),
        sizes: args.sizes.clone(),
        rows: OPERATIONS.iter().map(row).collect(),
        problems: Vec::new(),
    };
    for &size in &args.sizes {
        for (at, peer) in peers.iter().enumerate() {
            let server = Server::start(peer, &setting)?;
            let mut exchange = Exchange::connect(server.endpoint(), 1)?;
            for filling in [Filling::List, Filling::SortedSet, Filling::Set, Filling::Hash] {
                fill(filling, size, &mut exchange)?;
                settle(&server)?;
                let rows = OPERATIONS.iter().zip(&mut report.rows);
                for (operation, row) in rows.filter(|(operation, _)| operation.fill == filling) {
                    let cpu = measure(operation, size, args.seconds, &server, &mut exchange)?;
                    eprintln!("{}, {} of {size}: {cpu:.2} us", peer.name, operation.name);
                    row.cpu_us[at].push(cpu);
                }
                exchange.run(1, 1, |out| {
                    let mut args = Args::new();
                    args.add(format_args!("FLUSHALL")).encode(out);
                })?;
            }
            if let Some(error) = &exchange.first_error {
                report.problems.push(format!("{}, size {size}: {error}", peer.name));
            }
        }
    }
    report::write(&args.out, "scaling", &report, &document(&report), &plots(&report))
}

fn fill(filling: Filling, size: u64, exchange: &mut Exchange) -> Result<(), String> {
    let mut next = 0;
    exchange.run(size.div_ceil(ELEMENTS_PER_COMMAND), 8, |out| {
        let mut args = Args::new();
        let words = match filling {
            Filling::List => ["RPUSH", "list"],
            Filling::SortedSet => ["ZADD", "zset"],
            Filling::Set => ["SADD", "set"],
            Filling::Hash => ["HSET", "hash"],
        };
        add_all(&mut args, &words, &[]);
        let to = (next + ELEMENTS_PER_COMMAND).min(size);
        for element in next..to {
            if filling == Filling::SortedSet {
                args.add(format_args!("{}", element * 7_919 % size));
            }
            args.add(format_args!("element:{element:010}"));
            if filling == Filling::Hash {
                args.add(format_args!("{element}"));
            }
        }
        next = to;
        args.encode(out);
    })?;
    Ok(())
}

/// Waits until the server has nothing left to do, such as freeing the collection before: that is no operation's cost.
fn settle(server: &Server) -> Result<(), String> {
    for _ in 0..SETTLING_MAX {
        let before = cpu_ns(server)?;
        std::thread::sleep(SETTLING);
        if cpu_ns(server)? - before < SETTLED_NS {
            return Ok(());
        }
    }
    Err(format!("{} does not come to rest", server.peer().name))
}

/// CPU time that the server has taken so far.
fn cpu_ns(server: &Server) -> Result<u64, String> {
    sys::process_cpu_ns(server.pid()).map_err(|error| format!("{}: {error}", server.peer().name))
}

/// Microseconds of the server's CPU time per operation.
fn measure(
    operation: &Operation,
    size: u64,
    seconds: f64,
    server: &Server,
    exchange: &mut Exchange,
) -> Result<f64, String> {
    let mut random = Random::new(size);
    let (begin, before) = (Instant::now(), cpu_ns(server)?);
    let (mut done, mut pipeline) = (0, 1);
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        done += exchange.run(pipeline, 16, |out| {
            let mut below =
                |bound: u64| ((u128::from(random.next()) * u128::from(bound)) >> 64) as u64;
            let mut args = Args::new();
            (operation.call)(&mut args, size, &mut below);
            args.encode(out);
        })?;
        // Slow operations are measured one by one, fast ones in pipelines.
        pipeline = (pipeline * 2).min(1024);
    }
    Ok((cpu_ns(server)? - before) as f64 / 1000.0 / done as f64)
}

fn document(report: &Report) -> Document {
    let mut document = Document::new("Scaling");
    document.paragraph("Measured with `petrel-bench scaling`.");
    report.machine.describe(&mut document);
    document.heading(2, "Configuration");
    document.items(report.commands.iter().cloned());
    document.heading(2, "Server CPU per operation (microseconds) by elements of the collection");
    for row in &report.rows {
        document.heading(3, &row.operation);
        let sizes = report.sizes.iter().map(u64::to_string);
        let mut table = Table::new(["server".to_owned()].into_iter().chain(sizes));
        for (server, figures) in report.servers.iter().zip(&row.cpu_us) {
            let cells = figures.iter().map(|figure| rounded(Some(*figure), 2));
            table.row([server.clone()].into_iter().chain(cells));
        }
        document.table(&table);
    }
    document.heading(2, "Self-checks");
    if report.problems.is_empty() {
        document.paragraph("No reply was an error.");
    } else {
        document.items(report.problems.iter().cloned());
    }
    document
}

fn plots(report: &Report) -> Vec<(String, String)> {
    let plot = |row: &Row| {
        let series = report.servers.iter().zip(&row.cpu_us).map(|(server, figures)| Series {
            name: server.clone(),
            values: report
                .sizes
                .iter()
                .zip(figures)
                .map(|(size, figure)| (*size as f64, *figure))
                .collect(),
        });
        let chart = LineChart {
            title: format!("{}: server CPU per operation", row.operation),
            y_label: "microseconds".to_owned(),
            x_label: "elements of the collection".to_owned(),
            y_log: true,
            series: series.collect(),
        };
        (format!("scaling-{}.svg", row.file), chart.render())
    };
    report.rows.iter().map(plot).collect()
}
