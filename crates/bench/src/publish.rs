//! `publish`: what it costs a server to deliver a message to many subscribers.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
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

/// How long a subscriber's thread waits before it looks whether more is to come.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// Measure server CPU time per delivery of a message to many subscribers.
///
/// Each publisher sends so many messages at once as the pipeline is deep, and the next when every subscriber has got all of
/// them: so no message waits in the server. Or, with --wait-for replies, when they are answered, as programs publish. In both cases
/// what is counted is deliveries that have arrived, and what they cost until the last has.
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

    /// What a publisher waits for before it publishes again
    #[arg(long, value_enum, default_value_t = WaitFor::Deliveries, value_name = "WHAT")]
    wait_for: WaitFor,

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

/// What comes before a publisher's next messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
enum WaitFor {
    /// Every subscriber has got the last ones of all publishers
    Deliveries,
    /// Its own last ones have been answered
    Replies,
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
    wait_for: WaitFor,
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
        wait_for: args.wait_for,
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

    /// Waits until each of them has got all messages; returns when the last part came.
    fn receive(&mut self, expected: &Expected) -> io::Result<Instant> {
        let (mut received, mut last) = (0, Instant::now());
        while !expected.is_all(received, self.subscribers.len() * self.message_bytes) {
            let ready = self.poller.wait(LOOK)?;
            if ready == 0 && last.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            for index in 0..ready {
                let subscriber = &mut self.subscribers[self.poller.ready(index).token];
                match subscriber.read(&mut self.chunk) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => received += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                last = Instant::now();
            }
        }
        Ok(last)
    }
}

/// How many messages there will have been, once that is known.
struct Expected(AtomicUsize);

impl Expected {
    const UNKNOWN: usize = usize::MAX;

    fn messages(count: usize) -> Self {
        Expected(AtomicUsize::new(count))
    }

    fn tell(&self, messages: usize) {
        self.0.store(messages, Release);
    }

    /// Whether so many bytes are all, if each message brings so many.
    fn is_all(&self, bytes: usize, bytes_each: usize) -> bool {
        let messages = self.0.load(Acquire);
        messages != Self::UNKNOWN && bytes >= messages * bytes_each
    }
}

/// A thread with a share of the subscribers: is told that messages are about to be published, and tells when all have come.
struct Listener {
    expect: SyncSender<Arc<Expected>>,
    done: Receiver<io::Result<Instant>>,
}

impl Listener {
    fn start(mut share: Share) -> Listener {
        let (expect, expected) = sync_channel::<Arc<Expected>>(1);
        let (tell, done) = sync_channel(1);
        thread::spawn(move || {
            // Until either end is gone.
            let _ = expected.iter().try_for_each(|messages| tell.send(share.receive(&messages)));
        });
        Listener { expect, done }
    }

    fn begin(&self, expected: &Arc<Expected>) -> io::Result<()> {
        self.expect.send(expected.clone()).map_err(io::Error::other)
    }

    fn end(&self) -> io::Result<Instant> {
        self.done.recv().map_err(io::Error::other)?
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
        let begin = Instant::now();
        let is_over = || begin.elapsed().as_secs_f64() >= args.seconds;
        let (mut bursts, mut end) = (0, begin);
        match args.wait_for {
            WaitFor::Replies => {
                (bursts, end) = self.stream(&burst, cell.pipeline, is_over).map_err(failed)?;
            }
            WaitFor::Deliveries => {
                while !is_over() {
                    end = self.exchange(&burst, cell.pipeline).map_err(failed)?;
                    bursts += self.publishers.len();
                }
            }
        }
        let cpu = sys::process_cpu_ns(self.server.pid()).map_err(failed)? - cpu;
        let deliveries = (bursts * cell.pipeline * args.subscribers) as f64;
        cell.cpu_ns.push(cpu as f64 / deliveries);
        cell.per_second.push(deliveries / (end - begin).as_secs_f64());
        Ok(())
    }

    /// Has each publisher send a burst and waits until everybody has got all of them; returns when that was.
    fn exchange(&mut self, burst: &[u8], messages: usize) -> io::Result<Instant> {
        let expected = Arc::new(Expected::messages(messages * self.publishers.len()));
        self.others.iter().try_for_each(|listener| listener.begin(&expected))?;
        for publisher in &mut self.publishers {
            publisher.write_all(burst)?;
        }
        let mut end = self.own.receive(&expected)?;
        for listener in &self.others {
            end = end.max(listener.end()?);
        }
        let reply = self.reply.repeat(messages);
        for publisher in &mut self.publishers {
            take_replies(publisher, &reply)?;
        }
        Ok(end)
    }

    /// Has each publisher send bursts until it is over, each when the last is answered. Returns how many they were altogether, and
    /// when everybody had got all of them.
    fn stream(
        &mut self,
        burst: &[u8],
        messages: usize,
        is_over: impl Fn() -> bool,
    ) -> io::Result<(usize, Instant)> {
        let expected = Arc::new(Expected::messages(Expected::UNKNOWN));
        self.others.iter().try_for_each(|listener| listener.begin(&expected))?;
        let reply = self.reply.repeat(messages);
        let (own, publishers) = (&mut self.own, &mut self.publishers);
        thread::scope(|scope| {
            let own = scope.spawn(|| own.receive(&expected));
            let mut publish = || {
                let mut bursts = publishers.len();
                publishers.iter_mut().try_for_each(|publisher| publisher.write_all(burst))?;
                while !is_over() {
                    for publisher in &mut *publishers {
                        take_replies(publisher, &reply)?;
                        publisher.write_all(burst)?;
                        bursts += 1;
                    }
                }
                publishers.iter_mut().try_for_each(|publisher| take_replies(publisher, &reply))?;
                io::Result::Ok(bursts)
            };
            let bursts = publish();
            // Also where publishing has failed, or nobody would stop waiting.
            expected.tell(messages * *bursts.as_ref().unwrap_or(&0));
            let mut end = own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            for listener in &self.others {
                end = end.max(listener.end()?);
            }
            Ok((bursts?, end))
        })
    }
}

/// Takes the replies to a burst.
fn take_replies(publisher: &mut Stream, reply: &str) -> io::Result<()> {
    let mut got = vec![0; reply.len()];
    publisher.read_exact(&mut got)?;
    match got == reply.as_bytes() {
        true => Ok(()),
        false => Err(io::Error::other("PUBLISH does not count its subscribers")),
    }
}

fn document(results: &Results, peers: &[Peer], args: &PublishArgs) -> Document {
    let mut document = Document::new("Messages to many subscribers");
    document.paragraph(&format!(
        "{} subscribers of one channel in {} threads, messages of {} bytes, {} who publish and \
         wait for {}, {} server threads, {}; medians of {} rounds.",
        results.subscribers,
        results.client_threads,
        results.size,
        results.publishers,
        match results.wait_for {
            WaitFor::Deliveries => "all deliveries",
            WaitFor::Replies => "their replies",
        },
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_share_waits_for_all_messages_also_where_their_number_comes_last() {
        let (mut server, client) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let poller = Poller::new(1).unwrap();
        let subscribers = vec![Stream::Unix(client)];
        poller.add(subscribers[0].fd(), 0, Interest::Read).unwrap();
        let mut share = Share { poller, subscribers, message_bytes: 4, chunk: vec![0; 64] };
        server.write_all(b"onetwo").unwrap();
        let expected = Expected::messages(Expected::UNKNOWN);
        let end = thread::scope(|scope| {
            let share = scope.spawn(|| share.receive(&expected));
            thread::sleep(LOOK);
            expected.tell(2);
            thread::sleep(LOOK * 2);
            assert!(!share.is_finished(), "a part of a message is missing");
            let before = Instant::now();
            server.write_all(b"!!").unwrap();
            (before, share.join().unwrap().unwrap())
        });
        assert!(end.0 <= end.1);
        assert!(expected.is_all(8, 4) && !expected.is_all(7, 4));
        assert!(!Expected::messages(Expected::UNKNOWN).is_all(usize::MAX, 1));
    }
}
