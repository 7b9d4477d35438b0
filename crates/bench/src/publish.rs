//! `publish`: what it costs a server to deliver a message to many subscribers.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::thread;
use std::time::{Duration, Instant};

use petrel_resp::encode_command;
use serde::Serialize;

use crate::exchange::{connect, cpu_ns, read_same};
use crate::experiment::{
    Better, CPU, Cells, Description, Experiment, FIGURE, Figure, Lifetime, Plot, RunArgs, SERVER,
    Session, View, at, grid, texts,
};
use crate::load::Stream;
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};
use crate::sys::{Interest, Poller};

/// The channel of all messages.
const CHANNEL: &[u8] = b"channel:of:the:benchmark";

/// How long a message may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a subscriber's thread waits before it looks whether more is to come.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// Measure server CPU time per delivery of a message to many subscribers.
///
/// Each publisher sends as many messages at once as the pipeline is deep, and the next when every
/// subscriber has got all of them: so no message waits in the server. Or, with --wait-for replies,
/// when they are answered, as programs publish. Deliveries are counted when they have arrived, and
/// what they cost until the last has.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct PublishArgs {
    /// Threads of the server
    #[arg(long, default_value_t = 2)]
    server_threads: usize,

    /// Subscribers of the one channel
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    subscribers: u32,

    /// Size of a message, bytes
    #[arg(long, default_value_t = 100)]
    size: usize,

    /// Connections that publish
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    publishers: u16,

    /// Threads of the subscribers, each with an epoll of its own
    ///
    /// Subscribers are most often different programs. Where all of them wait in one epoll, several
    /// threads of a server that send to them at once wait for each other at its lock.
    #[arg(long, default_value_t = 2, value_name = "N")]
    client_threads: usize,

    /// What a publisher waits for before it publishes again
    #[arg(long, value_enum, default_value_t = WaitFor::Deliveries, value_name = "WHAT")]
    wait_for: WaitFor,

    /// Messages that each of them publishes at once
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,10,50")]
    pipelines: Vec<usize>,

    /// Seconds per measurement
    #[arg(long, default_value_t = 2.0, default_value_if("quick", "true", "0.5"))]
    seconds: f64,
}

/// What comes before a publisher's next messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum WaitFor {
    /// Every subscriber has got the last ones of all publishers
    Deliveries,
    /// Its own last ones have been answered
    Replies,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "publish",
    title: "Messages to many subscribers",
    about: "Deliveries of messages on one channel to its subscribers, over messages published at once.",
    axes: &[("pipeline", "P{}")],
    figures: &[
        Figure { title: "Server CPU per delivery", ..CPU },
        Figure::new("throughput", "Deliveries", "1/s", 0, Better::More),
    ],
    views: &[
        View::new("", &["cpu"], &[FIGURE], &[SERVER], &["pipeline"]).plot(Plot::Bars).in_summary(),
        View::new("", &["throughput"], &[FIGURE], &[SERVER], &["pipeline"]),
        View::new("Ratios", &["cpu"], &[FIGURE], &["pipeline"], &[SERVER]).cells(Cells::Ratio),
    ],
};

impl Experiment for PublishArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    type Session = Audience;

    fn points(&self) -> Vec<Point> {
        grid([("pipeline", texts(&self.pipelines))])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Round
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        let connections = self.subscribers as usize + usize::from(self.publishers) + 10;
        run.setting(self.server_threads, connections)
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Audience, String> {
        Audience::start(server, self).map_err(|error| error.to_string())
    }

    fn measure(
        &self,
        audience: &mut Audience,
        point: &Point,
        _: usize,
    ) -> Result<Measurement, String> {
        audience.measure(at(point, "pipeline"), self).map_err(|error| error.to_string())
    }
}

/// A server with its subscribers and publishers.
pub struct Audience {
    server: Server,
    /// The subscribers of each thread.
    shares: Vec<Share>,
    publishers: Vec<Stream>,
    /// What `PUBLISH` answers.
    reply: Vec<u8>,
    /// One command that publishes.
    command: Vec<u8>,
}

impl Session for Audience {
    fn server(&self) -> &Server {
        &self.server
    }
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
        let poller = Poller::new()?;
        let (mut subscribe, mut expected) = (Vec::new(), Vec::new());
        encode_command(&[b"SUBSCRIBE", CHANNEL], &mut subscribe);
        encode_command(&[b"subscribe", CHANNEL], &mut expected);
        expected[1] = b'3';
        expected.extend_from_slice(b":1\r\n");
        let mut subscribers = Vec::with_capacity(count);
        for token in 0..count {
            let mut stream = connect(server.endpoint())?;
            stream.write_all(&subscribe)?;
            read_same(&mut stream, &expected, 1)?;
            stream.set_nonblocking(true)?;
            poller.add(&stream, token, Interest::Read)?;
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

    fn set(&self, messages: usize) {
        self.0.store(messages, Release);
    }

    /// Whether so many bytes are all, if each message brings so many.
    fn is_all(&self, bytes: usize, bytes_each: usize) -> bool {
        let messages = self.0.load(Acquire);
        messages != Self::UNKNOWN && bytes >= messages * bytes_each
    }
}

impl Audience {
    fn start(server: Server, args: &PublishArgs) -> io::Result<Audience> {
        let payload = vec![b'x'; args.size];
        let (mut command, mut message) = (Vec::new(), Vec::new());
        encode_command(&[b"PUBLISH", CHANNEL, &payload], &mut command);
        encode_command(&[b"message", CHANNEL, &payload], &mut message);
        let subscribers = args.subscribers as usize;
        let threads = args.client_threads.clamp(1, subscribers);
        let share = |thread| {
            let count = subscribers * (thread + 1) / threads - subscribers * thread / threads;
            Share::subscribe(&server, count, message.len())
        };
        let shares = (0..threads).map(share).collect::<io::Result<_>>()?;
        let publishers = (0..args.publishers).map(|_| connect(server.endpoint()));
        let publishers = publishers.collect::<io::Result<Vec<_>>>()?;
        let reply = format!(":{subscribers}\r\n").into_bytes();
        Ok(Audience { server, shares, publishers, reply, command })
    }

    fn measure(&mut self, pipeline: usize, args: &PublishArgs) -> io::Result<Measurement> {
        let burst = self.command.repeat(pipeline);
        // Whatever grows with the first messages has grown.
        self.publish(&burst, pipeline, || true)?;
        let cpu = cpu_ns(&self.server).map_err(io::Error::other)?;
        let begin = Instant::now();
        let is_over = || begin.elapsed().as_secs_f64() >= args.seconds;
        let (mut bursts, mut end) = (0, begin);
        while !is_over() {
            let (more, last) = match args.wait_for {
                WaitFor::Replies => self.publish(&burst, pipeline, is_over)?,
                WaitFor::Deliveries => self.publish(&burst, pipeline, || true)?,
            };
            (bursts, end) = (bursts + more, last);
        }
        let cpu = cpu_ns(&self.server).map_err(io::Error::other)? - cpu;
        let deliveries = (bursts * pipeline) as f64 * f64::from(args.subscribers);
        Ok(Measurement::default()
            .with("cpu", cpu as f64 / 1e3 / deliveries)
            .with("throughput", deliveries / (end - begin).as_secs_f64()))
    }

    /// Has each publisher send a burst, then further ones until it is over, each when the last is
    /// answered. Returns their number, and when every subscriber had got all of them.
    fn publish(
        &mut self,
        burst: &[u8],
        messages: usize,
        is_over: impl Fn() -> bool,
    ) -> io::Result<(usize, Instant)> {
        let expected = Expected(AtomicUsize::new(Expected::UNKNOWN));
        let (shares, publishers, reply) = (&mut self.shares, &mut self.publishers, &self.reply);
        thread::scope(|scope| {
            let receive = |share| {
                let expected = &expected;
                scope.spawn(move || Share::receive(share, expected))
            };
            let receiving: Vec<_> = shares.iter_mut().map(receive).collect();
            let mut publish = || {
                let mut bursts = publishers.len();
                publishers.iter_mut().try_for_each(|publisher| publisher.write_all(burst))?;
                while !is_over() {
                    for publisher in &mut *publishers {
                        read_same(publisher, reply, messages)?;
                        publisher.write_all(burst)?;
                        bursts += 1;
                    }
                }
                for publisher in &mut *publishers {
                    read_same(publisher, reply, messages)?;
                }
                io::Result::Ok(bursts)
            };
            let bursts = publish();
            // Also where publishing has failed, or the subscribers' threads would not stop waiting.
            expected.set(messages * *bursts.as_ref().unwrap_or(&0));
            let mut end = None;
            for thread in receiving {
                let last =
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                end = end.max(Some(last));
            }
            Ok((bursts?, end.unwrap_or_else(Instant::now)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_share_waits_for_all_messages_also_where_their_number_comes_last() {
        let (mut server, client) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let poller = Poller::new().unwrap();
        let subscribers = vec![Stream::Unix(client)];
        poller.add(&subscribers[0], 0, Interest::Read).unwrap();
        let mut share = Share { poller, subscribers, message_bytes: 4, chunk: vec![0; 64] };
        server.write_all(b"onetwo").unwrap();
        let expected = Expected(AtomicUsize::new(Expected::UNKNOWN));
        let end = thread::scope(|scope| {
            let share = scope.spawn(|| share.receive(&expected));
            thread::sleep(LOOK);
            expected.set(2);
            thread::sleep(LOOK * 2);
            assert!(!share.is_finished(), "a part of a message is missing");
            let before = Instant::now();
            server.write_all(b"!!").unwrap();
            (before, share.join().unwrap().unwrap())
        });
        assert!(end.0 <= end.1);
        assert!(expected.is_all(8, 4) && !expected.is_all(7, 4));
        assert!(!Expected(AtomicUsize::new(Expected::UNKNOWN)).is_all(usize::MAX, 1));
    }
}
