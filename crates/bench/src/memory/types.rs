//! `memory --types`: resident bytes per element of collections, small ones in many keys and one large one.

use std::time::Duration;

use serde::Serialize;

use super::MemoryArgs;
use crate::element::{entry, field, integer, item, member, scored};
use crate::exchange::Exchange;
use crate::report::{self, Document, Machine, Table, ratio, rounded};
use crate::server::{Peer, Server, Setting, Transport};
use crate::workload::Args;

/// Elements of one command at most, while one large collection is filled.
const ELEMENTS_PER_COMMAND: u64 = 100;

/// Commands sent to the empty server first, and bytes of each: as large as those that fill it.
const WARM_UP_COMMANDS: u64 = 20_000;
const WARM_UP_BYTES: usize = 500;

/// A kind of collection.
struct Kind {
    name: &'static str,
    /// Elements of one key; 0: all in one.
    each: u64,
    command: &'static str,
    /// Adds element `at` of key `n` to a command.
    element: fn(&mut Args, u64, u64),
    /// Whether a command adds one element only.
    single: bool,
}

const KINDS: [Kind; 13] = [
    Kind { name: "hashes of 10 fields", each: 10, command: "HSET", element: field, single: false },
    Kind { name: "one hash", each: 0, command: "HSET", element: field, single: false },
    Kind {
        name: "sets of 16 integers",
        each: 16,
        command: "SADD",
        element: integer,
        single: false,
    },
    Kind { name: "one set of integers", each: 0, command: "SADD", element: integer, single: false },
    Kind { name: "sets of 16 strings", each: 16, command: "SADD", element: member, single: false },
    Kind { name: "one set of strings", each: 0, command: "SADD", element: member, single: false },
    Kind { name: "sorted sets of 10", each: 10, command: "ZADD", element: scored, single: false },
    Kind { name: "one sorted set", each: 0, command: "ZADD", element: scored, single: false },
    Kind {
        name: "lists of 100 strings",
        each: 100,
        command: "RPUSH",
        element: item,
        single: false,
    },
    Kind {
        name: "lists of 100 integers",
        each: 100,
        command: "RPUSH",
        element: integer,
        single: false,
    },
    Kind { name: "one list", each: 0, command: "RPUSH", element: item, single: false },
    Kind { name: "streams of 100", each: 100, command: "XADD", element: entry, single: true },
    Kind { name: "one stream", each: 0, command: "XADD", element: entry, single: true },
];

#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    elements: u64,
    servers: Vec<String>,
    commands: Vec<String>,
    rows: Vec<Row>,
    problems: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    kind: String,
    /// Per server, in the order of `servers`.
    bytes_per_element: Vec<f64>,
}

/// Runs the measurement and writes its report.
pub fn run(args: &MemoryArgs, peers: &[Peer]) -> Result<(), String> {
    let peers: Vec<&Peer> = peers.iter().filter(|peer| !peer.is_floor()).collect();
    let setting = Setting::new(args.server_threads as usize, Transport::Unix, 1024);
    let mut report = Report {
        machine: Machine::here(),
        elements: args.keys,
        servers: peers.iter().map(|peer| peer.name.clone()).collect(),
        commands: peers.iter().map(|peer| peer.describe(&setting)).collect(),
        rows: Vec::new(),
        problems: Vec::new(),
    };
    for kind in &KINDS {
        let mut row = Row { kind: kind.name.to_owned(), bytes_per_element: Vec::new() };
        for peer in &peers {
            let server = Server::start(peer, &setting)?;
            // Streams take their entries in order: commands on one connection do not overtake each other.
            let connections = if kind.single { 1 } else { 4 };
            let mut exchange = Exchange::connect(server.endpoint(), connections)?;
            // What the traffic itself costs is no cost of the elements.
            exchange.run(WARM_UP_COMMANDS, 32, |out| {
                Args::new()
                    .add(format_args!("ECHO"))
                    .add(format_args!("{:0>1$}", 0, WARM_UP_BYTES))
                    .encode(out);
            })?;
            let empty = server.rss_at_rest(Duration::from_secs(5))?.0;
            fill(kind, args.keys, &mut exchange)?;
            if let Some(error) = &exchange.first_error {
                let (name, errors) = (&peer.name, exchange.errors);
                report.problems.push(format!("{name}, {}: {errors} errors: {error}", kind.name));
            }
            let loaded = server.rss_at_rest(Duration::from_secs(10))?.0;
            let bytes = loaded.saturating_sub(empty) as f64 / args.keys as f64;
            eprintln!("{}, {}: {bytes:.1} bytes per element", peer.name, kind.name);
            row.bytes_per_element.push(bytes);
        }
        report.rows.push(row);
    }
    report::write(&args.out, "memory-types", &report, &document(&report), &[])
}

fn fill(kind: &Kind, elements: u64, exchange: &mut Exchange) -> Result<(), String> {
    let each = if kind.each == 0 { elements } else { kind.each };
    let per_command = if kind.single { 1 } else { ELEMENTS_PER_COMMAND.min(each) };
    let mut next = 0;
    let begin_key = |n: u64| {
        let mut args = Args::new();
        args.add(format_args!("{}", kind.command)).add(format_args!("key:{n:012}"));
        args
    };
    let count = elements.div_ceil(per_command);
    exchange.run(count, 32, |out| {
        let (n, from) = (next / each, next % each);
        let to = (from + per_command).min(each).min(from + elements - next);
        let mut args = begin_key(n);
        (from..to).for_each(|at| (kind.element)(&mut args, n, at));
        args.encode(out);
        next += to - from;
    })?;
    Ok(())
}

fn document(report: &Report) -> Document {
    let mut document = Document::new("Memory of collections");
    document.paragraph("Measured with `petrel-bench memory --types`.");
    report.machine.describe(&mut document);
    document.heading(2, "Configuration");
    document.items([
        format!("{} elements of each kind; keys of 16 bytes.", report.elements),
        format!(
            "A fresh server for each cell, which has answered {WARM_UP_COMMANDS} times ECHO of {WARM_UP_BYTES} bytes \
             before it counts as empty."
        ),
        "Resident memory is Rss of /proc/PID/smaps_rollup once it rests."
            .to_owned(),
    ]);
    document.items(report.commands.iter().cloned());
    document.heading(2, "Bytes per element over the empty server");
    let header = ["collections".to_owned()].into_iter().chain(report.servers.iter().cloned());
    let mut table = Table::new(header);
    for row in &report.rows {
        let cells = row.bytes_per_element.iter().map(|bytes| rounded(Some(*bytes), 1));
        table.row([row.kind.clone()].into_iter().chain(cells));
    }
    document.table(&table);
    if report.servers.len() > 1 {
        document.heading(2, &format!("Those of {} over each", report.servers[0]));
        let header =
            ["collections".to_owned()].into_iter().chain(report.servers[1..].iter().cloned());
        let mut table = Table::new(header);
        for row in &report.rows {
            let bytes = &row.bytes_per_element;
            let cells = bytes[1..].iter().map(|other| ratio(Some(bytes[0]), Some(*other)));
            table.row([row.kind.clone()].into_iter().chain(cells));
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
