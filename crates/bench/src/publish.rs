//! `publish`: cost of delivering a message to many subscribers.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::thread;
use std::time::{Duration, Instant};

use petrel_resp::encode_command;

use crate::experiment::{Case, Experiment};
use crate::result::{Measured, Measurement};
use crate::server::{Server, Setting};
use crate::sys::{Interest, Poller, joined};
use crate::wire::{Stream, connect, read_same};

/// The channel of all messages.
const CHANNEL: &[u8] = b"channel:of:the:benchmark";

/// Longest time of a message.
const PATIENCE: Duration = Duration::from_secs(20);

/// Wait of a subscriber's thread before it looks whether more messages are expected.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// `publish`: messages to many subscribers.
#[derive(Default)]
pub struct Publish;

impl Experiment for Publish {
    const NAME: &'static str = "publish";
    type State = Audience;

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        let connections = case.get::<usize>("subscribers") + case.get::<usize>("publishers") + 10;
        Setting { connections, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Audience, String> {
        Audience::start(server, case).map_err(|error| error.to_string())
    }

    fn measure(&self, case: &Case<'_>, server: &Server, audience: &mut Audience) -> Measured {
        audience.measure(server, case).map_err(|error| error.to_string())
    }
}

/// Subscribers and publishers of a server.
pub struct Audience {
    /// Subscribers of each thread.
    shares: Vec<Share>,
    publishers: Vec<Stream>,
    /// Reply to `PUBLISH`.
    reply: Vec<u8>,
    /// Command that publishes a message.
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

    /// Waits until each of them has received all messages; returns the time of the last part.
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

/// Number of messages in all, once it is known.
struct Expected(AtomicUsize);

impl Expected {
    const UNKNOWN: usize = usize::MAX;

    fn set(&self, messages: usize) {
        self.0.store(messages, Release);
    }

    /// Whether `bytes` are all messages of `bytes_each` bytes.
    fn is_all(&self, bytes: usize, bytes_each: usize) -> bool {
        let messages = self.0.load(Acquire);
        messages != Self::UNKNOWN && bytes >= messages * bytes_each
    }
}

impl Audience {
    fn start(server: &Server, case: &Case<'_>) -> io::Result<Audience> {
        let payload = vec![b'x'; case.get("size")];
        let (mut command, mut message) = (Vec::new(), Vec::new());
        encode_command(&[b"PUBLISH", CHANNEL, &payload], &mut command);
        encode_command(&[b"message", CHANNEL, &payload], &mut message);
        let subscribers: usize = case.get("subscribers");
        let threads = case.get::<usize>("client-threads").clamp(1, subscribers);
        let share = |thread| {
            let count = subscribers * (thread + 1) / threads - subscribers * thread / threads;
            Share::subscribe(server, count, message.len())
        };
        let shares = (0..threads).map(share).collect::<io::Result<_>>()?;
        let publishers = (0..case.get::<usize>("publishers")).map(|_| connect(server.endpoint()));
        let publishers = publishers.collect::<io::Result<Vec<_>>>()?;
        let reply = format!(":{subscribers}\r\n").into_bytes();
        Ok(Audience { shares, publishers, reply, command })
    }

    fn measure(&mut self, server: &Server, case: &Case<'_>) -> io::Result<Measurement> {
        let (pipeline, seconds) = (case.at("pipeline"), case.get("seconds"));
        let waits_for_replies = case.options.has_value("wait-for", "replies");
        let burst = self.command.repeat(pipeline);
        // Buffers grow with the first messages.
        self.publish(&burst, pipeline, || true)?;
        let cpu = server.cpu_ns().map_err(io::Error::other)?;
        let begin = Instant::now();
        let is_over = || begin.elapsed().as_secs_f64() >= seconds;
        let (mut bursts, mut end) = (0, begin);
        while !is_over() {
            let (more, last) = match waits_for_replies {
                true => self.publish(&burst, pipeline, is_over)?,
                false => self.publish(&burst, pipeline, || true)?,
            };
            (bursts, end) = (bursts + more, last);
        }
        let cpu = server.cpu_ns().map_err(io::Error::other)? - cpu;
        let deliveries = (bursts * pipeline) as f64 * case.get::<f64>("subscribers");
        Ok(Measurement::default()
            .with("cpu", cpu as f64 / 1e3 / deliveries)
            .with("throughput", deliveries / (end - begin).as_secs_f64()))
    }

    /// Lets each publisher send a burst, then further ones until it is over, each when the last is
    /// answered. Returns their number, and the time of the last delivery.
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
                let last = joined(thread)?;
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
