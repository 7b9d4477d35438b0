//! `tracking`: what it costs writers that others cache what they write.

mod readers;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use petrel_resp::encode_command;
use serde::Serialize;

use crate::load::Stream;
use crate::report::{self, Document, Machine, Table, median, ratio, rounded};
use crate::server::{Peer, PeerArgs, Server, Setting, Transport};
use crate::sys;
use readers::Readers;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Requests in one piece while the keys are stored and first read.
const PIECE: usize = 1000;

/// Bytes of a value, and of the reply that brings it.
const VALUE: &[u8] = b"0123456789abcdef0123456789abcdef";
const VALUE_REPLY_BYTES: usize = 5 + VALUE.len() + 2;

const OK: &[u8] = b"+OK\r\n";

/// Time for what is on its way to arrive.
const SETTLE: Duration = Duration::from_millis(100);

/// Measure server CPU time per write while clients track keys.
///
/// In each round a server is filled, and the same connections overwrite keys in three situations: nobody tracks, the
/// tracking clients have read other keys, each key that is written has been read by one of them.
#[derive(Clone, Debug, clap::Args)]
pub struct TrackingArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Threads of the server
    #[arg(long, default_value_t = 2)]
    server_threads: usize,

    /// Tracking clients
    #[arg(long, default_value_t = 100)]
    clients: usize,

    /// Keys that they have read, each its share
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,

    /// Writes per situation and pipeline, each to a key of its own
    #[arg(long, default_value_t = 200_000)]
    writes: usize,

    /// Connections that write
    #[arg(long, default_value_t = 8)]
    writers: usize,

    /// Writes that each of them has in flight
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,16")]
    pipelines: Vec<usize>,

    /// Connect by TCP on 127.0.0.1 instead of a Unix socket
    #[arg(long)]
    tcp: bool,

    /// Rounds; each measures every server in turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Directory for tracking.md and tracking.json
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    out: PathBuf,
}

/// What the clients have read when others write.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
enum Situation {
    /// Nothing.
    Nobody,
    /// As many keys as there are, none of which is written.
    Others,
    /// Every key that is written.
    All,
}

impl Situation {
    const ALL: [Situation; 3] = [Self::Nobody, Self::Others, Self::All];

    fn text(self) -> &'static str {
        match self {
            Self::Nobody => "nobody tracks",
            Self::Others => "other keys are tracked",
            Self::All => "every write hits a tracked key",
        }
    }

    /// The keys that are written.
    fn written(self) -> Family {
        if self == Self::All { Family::Read } else { Family::Other }
    }
}

/// What one server did in one situation at one pipeline, over the rounds.
#[derive(Debug, Serialize)]
struct Cell {
    server: String,
    situation: Situation,
    pipeline: usize,
    /// Server CPU per write, nanoseconds.
    write_ns: Vec<f64>,
    /// Writes per second, as those who write see them.
    per_second: Vec<f64>,
    /// Keys told per write.
    told: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Results {
    machine: Machine,
    clients: usize,
    keys: usize,
    writes: usize,
    server_threads: usize,
    cells: Vec<Cell>,
}

/// Measures and writes the report.
pub fn run(args: &TrackingArgs) -> Result<(), String> {
    if args.writes * args.pipelines.len() > args.keys {
        return Err("each write takes a key of its own: fewer --writes, or more --keys".to_owned());
    }
    let peers = args.peers.resolve()?;
    let mut cells = Vec::new();
    for peer in &peers {
        for situation in Situation::ALL {
            cells.extend(args.pipelines.iter().map(|&pipeline| Cell {
                server: peer.name.clone(),
                situation,
                pipeline,
                write_ns: Vec::new(),
                per_second: Vec::new(),
                told: Vec::new(),
            }));
        }
    }
    for round in 0..args.rounds {
        for peer in &peers {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, peer.name);
            let failed = |error: io::Error| format!("{}: {error}", peer.name);
            let mut scene = Scene::start(peer, args)?;
            for family in [Family::Read, Family::Other] {
                scene.store(family, args.keys).map_err(failed)?;
            }
            for cell in cells.iter_mut().filter(|cell| cell.server == peer.name) {
                scene.measure(cell, args).map_err(failed)?;
            }
        }
    }
    let results = Results {
        machine: Machine::here(),
        clients: args.clients,
        keys: args.keys,
        writes: args.writes,
        server_threads: args.server_threads,
        cells,
    };
    report::write(&args.out, "tracking", &results, &document(&results, &peers, args), &[])
}

/// A server, those who write, and those who may track.
struct Scene {
    server: Server,
    writers: Vec<Stream>,
    readers: Readers,
    are_tracking: bool,
    /// Keys of each family that were written, in [`Scene::nth`]'s order.
    written: [usize; 2],
}

impl Scene {
    fn start(peer: &Peer, args: &TrackingArgs) -> Result<Scene, String> {
        let transport = if args.tcp { Transport::Tcp } else { Transport::Unix };
        let connections = args.clients + args.writers + 10;
        let server =
            Server::start(peer, &Setting::new(args.server_threads, transport, connections))?;
        let failed = |error: io::Error| format!("{}: {error}", peer.name);
        let connect = || {
            let stream = server.endpoint().connect(None)?;
            stream.set_read_timeout(PATIENCE)?;
            Ok(stream)
        };
        let writers = (0..args.writers.max(1)).map(|_| connect());
        let mut writers = writers.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let readers = Readers::connect(server.endpoint(), args.clients).map_err(failed)?;
        let unlimited: [&[u8]; 4] = [b"CONFIG", b"SET", b"tracking-table-max-keys", b"0"];
        exchange(&mut writers[0], &unlimited, OK).map_err(failed)?;
        Ok(Scene { server, writers, readers, are_tracking: false, written: [0; 2] })
    }

    fn store(&mut self, family: Family, keys: usize) -> io::Result<()> {
        let mut piece = Vec::new();
        for begin in (0..keys).step_by(PIECE) {
            piece.clear();
            let end = (begin + PIECE).min(keys);
            (begin..end).for_each(|key| put_write(family, key, &mut piece));
            self.writers[0].write_all(&piece)?;
            read_same(&mut self.writers[0], OK, end - begin)?;
        }
        Ok(())
    }

    fn measure(&mut self, cell: &mut Cell, args: &TrackingArgs) -> io::Result<()> {
        if cell.situation != Situation::Nobody && !self.are_tracking {
            self.readers.track(Family::Read, args.keys)?;
            self.are_tracking = true;
        }
        let over = AtomicBool::new(false);
        let Scene { server, writers, readers, written, .. } = self;
        let family = cell.situation.written();
        let begin = &mut written[family as usize];
        let (spent, told) = thread::scope(|scope| {
            let reading = scope.spawn(|| readers.take_told(&over));
            let spent = write(server, writers, family, *begin, cell.pipeline, args);
            over.store(true, Relaxed);
            let told = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (spent, told)
        });
        *begin += args.writes;
        let (cpu_ns, time) = spent?;
        cell.write_ns.push(cpu_ns as f64 / args.writes as f64);
        cell.per_second.push(args.writes as f64 / time.as_secs_f64());
        cell.told.push(told? as f64 / args.writes as f64);
        Ok(())
    }
}

/// Writes keys from the `begin`th on, and returns the server's CPU time in nanoseconds, that of what follows the last reply included, and
/// how long it took until the last reply.
fn write(
    server: &Server,
    writers: &mut [Stream],
    family: Family,
    begin: usize,
    pipeline: usize,
    args: &TrackingArgs,
) -> io::Result<(u64, Duration)> {
    let cpu = || sys::process_cpu_ns(server.pid());
    let (mut piece, mut sent) = (Vec::new(), Vec::with_capacity(writers.len()));
    let (before, start) = (cpu()?, Instant::now());
    let mut next = begin;
    let end = begin + args.writes;
    while next < end {
        for writer in &mut *writers {
            piece.clear();
            let count = pipeline.min(end - next);
            (next..next + count).for_each(|n| put_write(family, nth(n, args.keys), &mut piece));
            writer.write_all(&piece)?;
            sent.push(count);
            next += count;
        }
        for (writer, count) in writers.iter_mut().zip(sent.drain(..)) {
            read_same(writer, OK, count)?;
        }
    }
    let time = start.elapsed();
    thread::sleep(SETTLE);
    Ok((cpu()? - before, time))
}

/// The nth key to be written: all keys in an order in which neighbours have nothing to do with each other.
fn nth(n: usize, keys: usize) -> usize {
    // A prime of about 1 / phi of 2^32: with no multiple of it as the number of keys none occurs twice.
    const STRIDE: usize = 2_654_435_761;
    n * STRIDE % keys
}

/// Keys of one kind.
#[derive(Clone, Copy, Debug)]
enum Family {
    Read,
    Other,
}

impl Family {
    fn name(self, key: usize) -> String {
        match self {
            Family::Read => format!("key:{key:012}"),
            Family::Other => format!("oth:{key:012}"),
        }
    }
}

fn put_write(family: Family, key: usize, out: &mut Vec<u8>) {
    encode_command(&[b"SET", family.name(key).as_bytes(), VALUE], out);
}

/// Sends a command whose reply is known.
fn exchange(stream: &mut Stream, command: &[&[u8]], reply: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::new();
    encode_command(command, &mut bytes);
    stream.write_all(&bytes)?;
    read_same(stream, reply, 1)
}

/// Reads the same reply so many times.
fn read_same(stream: &mut Stream, reply: &[u8], times: usize) -> io::Result<()> {
    let mut got = vec![0; reply.len() * times];
    stream.read_exact(&mut got)?;
    match got.chunks(reply.len()).all(|got| got == reply) {
        true => Ok(()),
        false => {
            Err(io::Error::other(format!("a reply is not {:?}", String::from_utf8_lossy(reply))))
        }
    }
}

fn document(results: &Results, peers: &[Peer], args: &TrackingArgs) -> Document {
    let mut document = Document::new("Writes while clients track");
    document.paragraph(&format!(
        "Medians of {} rounds, in parentheses as a multiple of the same while nobody tracks. {} clients track {} keys, each \
         its share; {} connections overwrite {} keys in each situation, each once, {} server threads, {}. The clients look \
         every 20 ms for what they are told. \"Told\" is invalidations per write.",
        args.rounds,
        results.clients,
        results.keys,
        args.writers,
        results.writes,
        results.server_threads,
        if args.tcp { Transport::Tcp } else { Transport::Unix },
    ));
    let value = |server: &str, situation, pipeline, part: fn(&Cell) -> &Vec<f64>| {
        let mut cells = results.cells.iter().filter(|cell| cell.server == server);
        let cell = cells.find(|cell| cell.situation == situation && cell.pipeline == pipeline)?;
        median(part(cell).iter().copied())
    };
    type Part = fn(&Cell) -> &Vec<f64>;
    let figures: [(&str, Part, usize, bool); 2] = [
        ("Server CPU per write, microseconds", |cell| &cell.write_ns, 2, true),
        ("Thousands of writes per second", |cell| &cell.per_second, 0, false),
    ];
    for (title, part, digits, with_told) in figures {
        let mut header = vec![String::new(), String::new()];
        for pipeline in &args.pipelines {
            header.push(format!("pipeline {pipeline}"));
            header.extend(with_told.then(|| "told".to_owned()));
        }
        let mut table = Table::new(header);
        for peer in peers {
            for situation in Situation::ALL {
                let mut row = vec![peer.name.clone(), situation.text().to_owned()];
                for &pipeline in &args.pipelines {
                    let own = value(&peer.name, situation, pipeline, part);
                    let nobody = value(&peer.name, Situation::Nobody, pipeline, part);
                    let shown = rounded(own.map(|own| own / 1000.0), digits);
                    row.push(format!("{shown} ({})", ratio(own, nobody)));
                    if with_told {
                        let told = value(&peer.name, situation, pipeline, |cell| &cell.told);
                        row.push(rounded(told, 2));
                    }
                }
                table.row(row);
            }
        }
        document.heading(2, title);
        document.table(&table);
    }
    results.machine.describe(&mut document);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_written_twice() {
        for keys in [1, 10, 1000, 99_991] {
            let mut all: Vec<usize> = (0..keys).map(|n| nth(n, keys)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..keys));
        }
    }
}
