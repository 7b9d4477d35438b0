//! `tracking`: what it costs writers that others cache what they write.

mod readers;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use petrel_resp::encode_command;
use serde::Serialize;

use crate::load::{Random, Stream};
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

/// Measure server CPU time per write while clients track the keys.
///
/// Writers overwrite keys at random; each tracking client has read its share of the keys. Each situation is compared
/// with the same work while nobody tracks.
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

    /// Keys that are written, and tracked
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,

    /// Writes per situation, in keys: 3 is three times as many as there are keys
    #[arg(long, default_value_t = 3)]
    times: usize,

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

/// What the clients do while others write.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
enum Situation {
    /// Nothing, and nobody tracks.
    Nobody,
    /// They track as many keys as are written, but others.
    Others,
    /// They track the keys that are written, and drop what they are told of.
    Once,
    /// Each key that is written is read again, but nobody tracks.
    NobodyReading,
    /// They track the keys that are written, and read again what they are told of.
    Again,
}

impl Situation {
    const ALL: [Situation; 5] =
        [Self::Nobody, Self::Others, Self::Once, Self::NobodyReading, Self::Again];

    fn is_tracking(self) -> bool {
        !matches!(self, Self::Nobody | Self::NobodyReading)
    }

    fn reads(self) -> bool {
        matches!(self, Self::NobodyReading | Self::Again)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Nobody => "nobody tracks",
            Self::Others => "as many other keys are tracked",
            Self::Once => "all are tracked, none is read again",
            Self::NobodyReading => "nobody tracks, what is written is read again",
            Self::Again => "all are tracked, what is told is read again",
        }
    }

    /// The same work while nobody tracks.
    fn reference(self) -> Situation {
        if self.reads() { Self::NobodyReading } else { Self::Nobody }
    }
}

/// What one server did in one situation at one pipeline, over the rounds.
#[derive(Debug, Serialize)]
struct Cell {
    server: String,
    situation: Situation,
    pipeline: usize,
    /// Server CPU per write, nanoseconds: of as many writes as there are keys, and of all.
    first_ns: Vec<f64>,
    all_ns: Vec<f64>,
    /// Keys told, and keys read again, per write.
    told: Vec<f64>,
    read: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Results {
    machine: Machine,
    clients: usize,
    keys: usize,
    times: usize,
    server_threads: usize,
    cells: Vec<Cell>,
}

/// Measures and writes the report.
pub fn run(args: &TrackingArgs) -> Result<(), String> {
    let peers = args.peers.resolve()?;
    let mut cells = Vec::new();
    for peer in &peers {
        for &pipeline in &args.pipelines {
            cells.extend(Situation::ALL.map(|situation| Cell {
                server: peer.name.clone(),
                situation,
                pipeline,
                first_ns: Vec::new(),
                all_ns: Vec::new(),
                told: Vec::new(),
                read: Vec::new(),
            }));
        }
    }
    for round in 0..args.rounds {
        for peer in &peers {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, peer.name);
            for cell in cells.iter_mut().filter(|cell| cell.server == peer.name) {
                let failed = |error: io::Error| format!("{}: {error}", peer.name);
                Scene::start(peer, args)?.measure(cell, args).map_err(failed)?;
            }
        }
    }
    let results = Results {
        machine: Machine::here(),
        clients: args.clients,
        keys: args.keys,
        times: args.times,
        server_threads: args.server_threads,
        cells,
    };
    report::write(&args.out, "tracking", &results, &document(&results, &peers, args), &[])
}

/// A server, and those who write.
struct Scene {
    server: Server,
    writers: Vec<Stream>,
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
        let writers = writers.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        Ok(Scene { server, writers })
    }

    fn measure(&mut self, cell: &mut Cell, args: &TrackingArgs) -> io::Result<()> {
        let unlimited: [&[u8]; 4] = [b"CONFIG", b"SET", b"tracking-table-max-keys", b"0"];
        exchange(&mut self.writers[0], &unlimited, OK)?;
        for family in [Family::Written, Family::Other] {
            self.store(family, args.keys)?;
        }
        let tracked = match cell.situation {
            Situation::Others => Family::Other,
            _ => Family::Written,
        };
        let mut readers = Readers::connect(self.server.endpoint(), args.clients)?;
        if cell.situation.is_tracking() {
            readers.track(tracked, args.keys)?;
        }
        // Keys written, for those who read them again untold.
        let written = (cell.situation == Situation::NobodyReading).then(|| Mutex::new(Vec::new()));
        let over = AtomicBool::new(false);
        let reads = cell.situation.reads();
        let (spent, seen) = thread::scope(|scope| {
            let reading = scope.spawn(|| readers.run(reads, written.as_ref(), &over));
            let spent = self.write(cell.pipeline, args, written.as_ref());
            over.store(true, Relaxed);
            let seen = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (spent, seen)
        });
        let ((first, all), seen) = (spent?, seen?);
        let writes = (args.keys * args.times) as f64;
        cell.first_ns.push(first as f64 / args.keys as f64);
        cell.all_ns.push(all as f64 / writes);
        cell.told.push(seen.told as f64 / writes);
        cell.read.push(seen.read as f64 / writes);
        Ok(())
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

    /// Writes, and returns the server's CPU time for as many writes as there are keys, and for all.
    fn write(
        &mut self,
        pipeline: usize,
        args: &TrackingArgs,
        written: Option<&Mutex<Vec<usize>>>,
    ) -> io::Result<(u64, u64)> {
        let mut random = Random::new(1);
        let (mut piece, mut keys) = (Vec::new(), Vec::new());
        let cpu = || sys::process_cpu_ns(self.server.pid());
        let begin = cpu()?;
        let mut first = None;
        let mut done = 0;
        while done < args.keys * args.times {
            for writer in &mut self.writers {
                piece.clear();
                for _ in 0..pipeline {
                    let key = (random.next() % args.keys as u64) as usize;
                    put_write(Family::Written, key, &mut piece);
                    keys.push(key);
                }
                writer.write_all(&piece)?;
            }
            for writer in &mut self.writers {
                read_same(writer, OK, pipeline)?;
                done += pipeline;
            }
            if let Some(written) = written {
                written.lock().unwrap_or_else(|error| error.into_inner()).append(&mut keys);
            }
            keys.clear();
            if first.is_none() && done >= args.keys {
                first = Some(cpu()? - begin);
            }
        }
        thread::sleep(SETTLE);
        let all = cpu()? - begin;
        Ok((first.unwrap_or(all), all))
    }
}

/// Keys of one kind.
#[derive(Clone, Copy, Debug)]
enum Family {
    Written,
    Other,
}

impl Family {
    fn name(self, key: usize) -> String {
        match self {
            Family::Written => format!("key:{key:012}"),
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
        "{} clients track {} keys, each its share; {} connections overwrite keys at random, {} times as often as there \
         are keys; {} server threads, {}; medians of {} rounds. Server CPU per write, microseconds (what is read \
         included), and in parentheses as a multiple of the same work while nobody tracks. \"First\" is over as many \
         writes as there are keys, \"all\" over all of them.",
        results.clients,
        results.keys,
        args.writers,
        results.times,
        results.server_threads,
        if args.tcp { Transport::Tcp } else { Transport::Unix },
        args.rounds,
    ));
    for &pipeline in &args.pipelines {
        document.heading(2, &format!("Pipeline {pipeline}"));
        let header = ["", "", "first", "all", "told per write", "read per write"];
        let mut table = Table::new(header.map(str::to_owned).to_vec());
        for peer in peers {
            let cell = |situation| {
                let mut cells = results.cells.iter().filter(|cell| cell.server == peer.name);
                cells.find(|cell| cell.situation == situation && cell.pipeline == pipeline)
            };
            for situation in Situation::ALL {
                let value = |of, part: fn(&Cell) -> &Vec<f64>| {
                    cell(of).and_then(|cell| median(part(cell).iter().copied()))
                };
                let cost = |part: fn(&Cell) -> &Vec<f64>| {
                    let own = value(situation, part);
                    let against = ratio(own, value(situation.reference(), part));
                    format!("{} ({against})", rounded(own.map(|ns| ns / 1000.0), 2))
                };
                table.row(vec![
                    peer.name.clone(),
                    situation.text().to_owned(),
                    cost(|cell| &cell.first_ns),
                    cost(|cell| &cell.all_ns),
                    rounded(value(situation, |cell| &cell.told), 2),
                    rounded(value(situation, |cell| &cell.read), 2),
                ]);
            }
        }
        document.table(&table);
    }
    results.machine.describe(&mut document);
    document
}
