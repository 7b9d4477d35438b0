//! `publish`: what it costs a server to deliver a message to many subscribers.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use petrel_resp::encode_command;
use serde::Serialize;

use crate::load::Stream;
use crate::report::{self, Document, Machine, Table, median, ratio, rounded};
use crate::server::{Peer, PeerArgs, Server, Setting, Transport};
use crate::sys::{self, Interest, Poller};

/// The channel of all messages.
const CHANNEL: &[u8] = b"channel:of:the:benchmark";

/// How long a reply or a message may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// Measure server CPU time per delivery of a message to many subscribers.
///
/// Each publisher sends so many messages at once as the pipeline is deep, and the next when every subscriber has got all of
/// them: so no message waits in the server, and what is counted is deliveries that have arrived.
#[derive(Clone, Debug, clap::Args)]
pub struct PublishArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// Threads of the server
    #[arg(long, default_value_t = 2)]
    server_threads: usize,

    /// Subscribers of the one channel
    #[arg(long, default_value_t = 1000)]
    subscribers: usize,

    /// Size of a message, bytes
    #[arg(long, default_value_t = 100)]
    size: usize,

    /// Connections that publish
    #[arg(long, default_value_t = 1, value_name = "N")]
    publishers: usize,

    /// Messages that each of them publishes at once
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,10,50")]
    pipelines: Vec<usize>,

    /// Connect by TCP on 127.0.0.1 instead of a Unix socket
    #[arg(long)]
    tcp: bool,

    /// Rounds; each measures every server in turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Seconds per server, pipeline and round
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,

    /// Directory for publish.md and publish.json
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    out: PathBuf,
}

/// What one server did at one pipeline, over the rounds.
#[derive(Debug, Serialize)]
struct Cell {
    server: String,
    pipeline: usize,
    /// Server CPU per delivery, nanoseconds.
    cpu_ns: Vec<f64>,
    /// Deliveries per second.
    per_second: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Results {
    machine: Machine,
    subscribers: usize,
    size: usize,
    publishers: usize,
    server_threads: usize,
    cells: Vec<Cell>,
}

/// Measures and writes the report.
pub fn run(args: &PublishArgs) -> Result<(), String> {
    let peers = args.peers.resolve()?;
    let mut cells = Vec::new();
    for peer in &peers {
        for &pipeline in &args.pipelines {
            let server = peer.name.clone();
            cells.push(Cell { server, pipeline, cpu_ns: Vec::new(), per_second: Vec::new() });
        }
    }
    for round in 0..args.rounds {
        for peer in &peers {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, peer.name);
            let mut audience = Audience::start(peer, args)?;
            for cell in cells.iter_mut().filter(|cell| cell.server == peer.name) {
                audience.measure(cell, args)?;
            }
        }
    }
    let results = Results {
        machine: Machine::here(),
        subscribers: args.subscribers,
        size: args.size,
        publishers: args.publishers,
        server_threads: args.server_threads,
        cells,
    };
    report::write(&args.out, "publish", &results, &document(&results, &peers, args), &[])
}

/// A server with its subscribers and those who publish.
struct Audience {
    server: Server,
    poller: Poller,
    subscribers: Vec<Stream>,
    publishers: Vec<Stream>,
    /// Bytes of a message as a subscriber gets it.
    message_bytes: usize,
    /// One command that publishes.
    command: Vec<u8>,
    chunk: Vec<u8>,
}

impl Audience {
    fn start(peer: &Peer, args: &PublishArgs) -> Result<Audience, String> {
        let transport = if args.tcp { Transport::Tcp } else { Transport::Unix };
        let setting =
            Setting::new(args.server_threads, transport, args.subscribers + args.publishers + 10);
        let server = Server::start(peer, &setting)?;
        let failed = |error: io::Error| format!("{}: {error}", peer.name);
        let poller = Poller::new(args.subscribers.clamp(1, 1024)).map_err(failed)?;
        let (mut subscribe, mut expected) = (Vec::new(), Vec::new());
        encode_command(&[b"SUBSCRIBE", CHANNEL], &mut subscribe);
        encode_command(&[b"subscribe", CHANNEL], &mut expected);
        expected[1] = b'3';
        expected.extend_from_slice(b":1\r\n");
        let mut subscribers = Vec::with_capacity(args.subscribers);
        for token in 0..args.subscribers {
            let mut stream = server.endpoint().connect(None).map_err(failed)?;
            stream.set_read_timeout(PATIENCE).map_err(failed)?;
            stream.write_all(&subscribe).map_err(failed)?;
            let mut got = vec![0; expected.len()];
            stream.read_exact(&mut got).map_err(failed)?;
            if got != expected {
                return Err(format!("{} does not subscribe", peer.name));
            }
            stream.set_nonblocking(true).map_err(failed)?;
            poller.add(stream.fd(), token, Interest::Read).map_err(failed)?;
            subscribers.push(stream);
        }
        let connect = |_| {
            let stream = server.endpoint().connect(None)?;
            stream.set_read_timeout(PATIENCE)?;
            Ok(stream)
        };
        let publishers = (0..args.publishers.max(1)).map(connect);
        let publishers = publishers.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let payload = vec![b'x'; args.size];
        let (mut command, mut message) = (Vec::new(), Vec::new());
        encode_command(&[b"PUBLISH", CHANNEL, &payload], &mut command);
        encode_command(&[b"message", CHANNEL, &payload], &mut message);
        let (message_bytes, chunk) = (message.len(), vec![0; READ_BYTES]);
        Ok(Audience { server, poller, subscribers, publishers, message_bytes, command, chunk })
    }

    fn measure(&mut self, cell: &mut Cell, args: &PublishArgs) -> Result<(), String> {
        let name = self.server.peer().name.clone();
        let failed = |error: io::Error| format!("{name}: {error}");
        let burst = self.command.repeat(cell.pipeline);
        // Whatever grows with the first messages has grown.
        self.exchange(&burst, cell.pipeline).map_err(failed)?;
        let cpu = sys::process_cpu_ns(self.server.pid()).map_err(failed)?;
        let (begin, mut bursts) = (Instant::now(), 0usize);
        while begin.elapsed().as_secs_f64() < args.seconds {
            self.exchange(&burst, cell.pipeline).map_err(failed)?;
            bursts += 1;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let cpu = sys::process_cpu_ns(self.server.pid()).map_err(failed)? - cpu;
        let messages = bursts * cell.pipeline * self.publishers.len();
        let deliveries = (messages * self.subscribers.len()) as f64;
        cell.cpu_ns.push(cpu as f64 / deliveries);
        cell.per_second.push(deliveries / seconds);
        Ok(())
    }

    /// Has each publisher send a burst and waits until everybody has got all of them.
    fn exchange(&mut self, burst: &[u8], messages: usize) -> io::Result<()> {
        for publisher in &mut self.publishers {
            publisher.write_all(burst)?;
        }
        let all = messages * self.publishers.len();
        let mut missing = all * self.subscribers.len() * self.message_bytes;
        let begin = Instant::now();
        while missing > 0 {
            let ready = self.poller.wait(Duration::from_secs(1))?;
            if ready == 0 && begin.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            for index in 0..ready {
                let subscriber = &mut self.subscribers[self.poller.ready(index).token];
                match subscriber.read(&mut self.chunk) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => missing = missing.saturating_sub(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let reply = format!(":{}\r\n", self.subscribers.len()).repeat(messages);
        let mut got = vec![0; reply.len()];
        for publisher in &mut self.publishers {
            publisher.read_exact(&mut got)?;
            if got != reply.as_bytes() {
                return Err(io::Error::other("PUBLISH does not count its subscribers"));
            }
        }
        Ok(())
    }
}

fn document(results: &Results, peers: &[Peer], args: &PublishArgs) -> Document {
    let mut document = Document::new("Messages to many subscribers");
    document.paragraph(&format!(
        "{} subscribers of one channel, messages of {} bytes, {} who publish, {} server threads, {}; medians of {} rounds.",
        results.subscribers,
        results.size,
        results.publishers,
        results.server_threads,
        if args.tcp { Transport::Tcp } else { Transport::Unix },
        args.rounds,
    ));
    let columns = args.pipelines.iter().map(|pipeline| format!("P{pipeline}"));
    let header: Vec<String> = std::iter::once(String::new()).chain(columns).collect();
    let value = |server: &str, pipeline: usize, part: fn(&Cell) -> &Vec<f64>| {
        let mut cells = results.cells.iter();
        let cell = cells.find(|cell| cell.server == server && cell.pipeline == pipeline)?;
        median(part(cell).iter().copied())
    };
    let mut tables = [
        ("Server CPU per delivery, microseconds", Table::new(header.clone())),
        ("Thousands of deliveries per second", Table::new(header.clone())),
        ("Deliveries per second of server CPU, against the last server", Table::new(header)),
    ];
    let base = peers.last().map_or("", |peer| &peer.name);
    for peer in peers {
        let row = |cell: &dyn Fn(usize) -> String| {
            let cells = args.pipelines.iter().map(|&pipeline| cell(pipeline));
            std::iter::once(peer.name.clone()).chain(cells).collect::<Vec<_>>()
        };
        let cpu = |server: &str, pipeline| value(server, pipeline, |cell| &cell.cpu_ns);
        let in_thousands = |value: Option<f64>| value.map(|value| value / 1000.0);
        tables[0].1.row(row(&|pipeline| rounded(in_thousands(cpu(&peer.name, pipeline)), 2)));
        tables[1].1.row(row(&|pipeline| {
            rounded(in_thousands(value(&peer.name, pipeline, |cell| &cell.per_second)), 0)
        }));
        tables[2].1.row(row(&|pipeline| ratio(cpu(base, pipeline), cpu(&peer.name, pipeline))));
    }
    for (title, table) in &tables {
        document.heading(2, title);
        document.table(table);
    }
    results.machine.describe(&mut document);
    document
}
