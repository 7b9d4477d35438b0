//! `publish`: what it costs a server to deliver a message to many subscribers.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
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

    /// Threads of the subscribers, each with an epoll of its own
    ///
    /// Subscribers are most often different programs. Where all of them wait in one epoll, several threads of a server that send
    /// to them at once wait for each other at its lock.
    #[arg(long, default_value_t = 2, value_name = "N")]
    client_threads: usize,

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
    client_threads: usize,
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
        client_threads: args.client_threads,
        server_threads: args.server_threads,
        cells,
    };
    report::write(&args.out, "publish", &results, &document(&results, &peers, args), &[])
}

/// A server with its subscribers and those who publish.
struct Audience {
    server: Server,
    /// The first is of this thread, the others have their own.
    own: Share,
    others: Vec<Listener>,
    publishers: Vec<Stream>,
    /// What `PUBLISH` answers.
    reply: String,
    /// One command that publishes.
    command: Vec<u8>,
}

/// The subscribers of one thread.
struct Share {
    poller: Poller,
    subscribers: Vec<Stream>,
    /// Bytes of a message as a subscriber gets it.
    message_bytes: usize,
    chunk: Vec<u8>,
}

impl Share {
    fn subscribe(server: &Server, count: usize, message_bytes: usize) -> io::Result<Share> {
        let poller = Poller::new(count.clamp(1, 1024))?;
        let (mut subscribe, mut expected) = (Vec::new(), Vec::new());
        encode_command(&[b"SUBSCRIBE", CHANNEL], &mut subscribe);
        encode_command(&[b"subscribe", CHANNEL], &mut expected);
        expected[1] = b'3';
        expected.extend_from_slice(b":1\r\n");
        let mut subscribers = Vec::with_capacity(count);
        for token in 0..count {
            let mut stream = server.endpoint().connect(None)?;
            stream.set_read_timeout(PATIENCE)?;
            stream.write_all(&subscribe)?;
            let mut got = vec![0; expected.len()];
            stream.read_exact(&mut got)?;
            if got != expected {
                return Err(io::Error::other("it does not subscribe"));
            }
            stream.set_nonblocking(true)?;
            poller.add(stream.fd(), token, Interest::Read)?;
            subscribers.push(stream);
        }
        Ok(Share { poller, subscribers, message_bytes, chunk: vec![0; READ_BYTES] })
    }

    /// Waits until each of them has got so many messages.
    fn receive(&mut self, messages: usize) -> io::Result<()> {
        let mut missing = messages * self.subscribers.len() * self.message_bytes;
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
        Ok(())
    }
}

/// A thread with a share of the subscribers: is told how many messages are about to be published, and tells that all have come.
struct Listener {
    expect: SyncSender<usize>,
    done: Receiver<io::Result<()>>,
}

impl Listener {
    fn start(mut share: Share) -> Listener {
        let (expect, expected) = sync_channel::<usize>(1);
        let (tell, done) = sync_channel(1);
        thread::spawn(move || {
            // Until either end is gone.
            let _ = expected.iter().try_for_each(|messages| tell.send(share.receive(messages)));
        });
        Listener { expect, done }
    }
}

impl Audience {
    fn start(peer: &Peer, args: &PublishArgs) -> Result<Audience, String> {
        let transport = if args.tcp { Transport::Tcp } else { Transport::Unix };
        let setting =
            Setting::new(args.server_threads, transport, args.subscribers + args.publishers + 10);
        let server = Server::start(peer, &setting)?;
        let failed = |error: io::Error| format!("{}: {error}", peer.name);
        let payload = vec![b'x'; args.size];
        let (mut command, mut message) = (Vec::new(), Vec::new());
        encode_command(&[b"PUBLISH", CHANNEL, &payload], &mut command);
        encode_command(&[b"message", CHANNEL, &payload], &mut message);
        let threads = args.client_threads.clamp(1, args.subscribers.max(1));
        let mut shares = (0..threads).map(|thread| {
            let count =
                args.subscribers * (thread + 1) / threads - args.subscribers * thread / threads;
            Share::subscribe(&server, count, message.len()).map_err(failed)
        });
        let own = shares.next().expect("there is one thread at least")?;
        let others = shares.map(|share| share.map(Listener::start)).collect::<Result<_, _>>()?;
        let connect = |_| {
            let stream = server.endpoint().connect(None)?;
            stream.set_read_timeout(PATIENCE)?;
            Ok(stream)
        };
        let publishers = (0..args.publishers.max(1)).map(connect);
        let publishers = publishers.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let reply = format!(":{}\r\n", args.subscribers);
        Ok(Audience { server, own, others, publishers, reply, command })
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
        let deliveries = (messages * args.subscribers) as f64;
        cell.cpu_ns.push(cpu as f64 / deliveries);
        cell.per_second.push(deliveries / seconds);
        Ok(())
    }

    /// Has each publisher send a burst and waits until everybody has got all of them.
    fn exchange(&mut self, burst: &[u8], messages: usize) -> io::Result<()> {
        let all = messages * self.publishers.len();
        for listener in &self.others {
            listener.expect.send(all).map_err(io::Error::other)?;
        }
        for publisher in &mut self.publishers {
            publisher.write_all(burst)?;
        }
        self.own.receive(all)?;
        for listener in &self.others {
            listener.done.recv().map_err(io::Error::other)??;
        }
        let reply = self.reply.repeat(messages);
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
        "{} subscribers of one channel in {} threads, messages of {} bytes, {} who publish, {} server threads, {}; medians of {} rounds.",
        results.subscribers,
        results.client_threads,
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
