//! Replays a trace against one server as the users of a cache would: GET, and on a miss SET.
//!
//! Every connection has a thread and one request under way. An object's requests all go over the
//! same connection, so that they keep their order and every server sees the same. At a pace,
//! requests are due at their times, and latency runs from then.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::request::{Action, Request};
use super::route::{Answer, Route};
use crate::load::{ValueBlock, latency_histogram};
use crate::random::mix;
use crate::server::is_stopped;
use crate::sys::joined;
use crate::wire::Endpoint;

/// A server is given up after this many broken connections in a row.
const BREAKS_MAX: u32 = 3;

/// Counts of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// Latencies of GET in nanoseconds.
    pub get: Histogram<u64>,
    /// Latencies of SET (and DEL) in nanoseconds.
    pub set: Histogram<u64>,
    /// GETs with a value, and without.
    pub hits: u64,
    pub misses: u64,
    /// Failures by kind.
    pub errors: Errors,
    /// Bytes through the sockets, both ways.
    pub bytes: u64,
    /// From the first request to the last reply.
    pub elapsed: Duration,
}

/// Failures by kind.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    /// Error replies, such as `OOM`.
    pub replies: u64,
    /// The first of them.
    pub first: Option<String>,
    /// Requests without a reply in time.
    pub timeouts: u64,
    /// Connections that broke.
    pub resets: u64,
    /// Values with other bytes than were stored.
    pub wrong: u64,
}

impl Replayed {
    fn new() -> Replayed {
        Replayed {
            get: latency_histogram(),
            set: latency_histogram(),
            hits: 0,
            misses: 0,
            errors: Errors::default(),
            bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Requests that were answered.
    pub fn operations(&self) -> u64 {
        self.get.len() + self.set.len()
    }

    fn add(&mut self, other: &Replayed) {
        self.get.add(&other.get).expect("equal bounds");
        self.set.add(&other.set).expect("equal bounds");
        self.hits += other.hits;
        self.misses += other.misses;
        self.bytes += other.bytes;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.errors.replies += other.errors.replies;
        self.errors.timeouts += other.errors.timeouts;
        self.errors.resets += other.errors.resets;
        self.errors.wrong += other.errors.wrong;
        self.errors.first = self.errors.first.take().or(other.errors.first.clone());
    }
}

/// Parameters of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Connections.
    pub connections: usize,
    /// Times the original pace; `None` is as fast as replies come.
    pub pace: Option<f64>,
    /// Bytes of every value instead of the trace's own.
    pub size: Option<u32>,
}

/// Replays a whole trace, its connections shared among the nodes of a cluster. An error is a server
/// that is gone.
pub fn replay(
    entrances: &[Endpoint],
    trace: &[Request],
    manner: Manner,
) -> Result<Replayed, String> {
    let largest = trace.iter().map(|request| request.size).max().unwrap_or(0);
    let block = ValueBlock::new(manner.size.unwrap_or(largest));
    let connections = manner.connections.max(1);
    let begin = Instant::now();
    let parts: Vec<Result<Replayed, String>> = thread::scope(|scope| {
        let part = |number: usize| {
            let block = &block;
            let own =
                move |request: &&Request| mix(request.object) % connections as u64 == number as u64;
            let endpoint = &entrances[number % entrances.len()];
            scope.spawn(move || {
                let mut replayer = Replayer::new(endpoint, block, manner, begin)?;
                trace.iter().filter(own).try_for_each(|request| replayer.request(request))?;
                Ok(replayer.finish())
            })
        };
        let threads: Vec<_> = (0..connections).map(part).collect();
        threads.into_iter().map(joined).collect()
    });
    let mut sum = Replayed::new();
    for part in parts {
        sum.add(&part?);
    }
    Ok(sum)
}

/// Replay over one connection.
struct Replayer<'a> {
    endpoint: &'a Endpoint,
    block: &'a ValueBlock,
    manner: Manner,
    begin: Instant,
    route: Route,
    /// Connections broken since the last reply.
    breaks: u32,
    done: Replayed,
}

impl<'a> Replayer<'a> {
    fn new(
        endpoint: &'a Endpoint,
        block: &'a ValueBlock,
        manner: Manner,
        begin: Instant,
    ) -> Result<Replayer<'a>, String> {
        let route = Route::connect(endpoint).map_err(|error| format!("cannot connect: {error}"))?;
        let done = Replayed::new();
        Ok(Replayer { endpoint, block, manner, begin, route, breaks: 0, done })
    }

    fn finish(mut self) -> Replayed {
        self.done.elapsed = self.begin.elapsed();
        self.done.bytes += self.route.bytes();
        self.done
    }

    fn request(&mut self, request: &Request) -> Result<(), String> {
        let mut since = Instant::now();
        if let Some(pace) = self.manner.pace {
            let due = self.begin + Duration::from_secs_f64(request.at_us as f64 / 1e6 / pace);
            while Instant::now() < due && !is_stopped() {
                thread::sleep((due - Instant::now()).min(Duration::from_millis(100)));
            }
            since = due;
        }
        let size = self.manner.size.unwrap_or(request.size) as usize;
        let key = key(request);
        let value = self.block.value(self.block.start(mix(request.object)), size);
        match request.action {
            Action::Get => match self.send(&[b"GET", &key], since)? {
                Some(Answer::Value) => {
                    self.done.hits += 1;
                    let got = self.route.value();
                    let start = self.block.start(mix(request.object));
                    // A value of another request for the object may have another length.
                    let is_right = got.len() <= self.block.longest()
                        && got == self.block.value(start, got.len());
                    self.done.errors.wrong += u64::from(!is_right);
                }
                Some(Answer::Missing) => {
                    self.done.misses += 1;
                    self.store(&key, value, request.ttl_s, Instant::now())?;
                }
                _ => {}
            },
            Action::Set => self.store(&key, value, request.ttl_s, since)?,
            Action::Delete => self.send(&[b"DEL", &key], since).map(|_| ())?,
        }
        Ok(())
    }

    fn store(&mut self, key: &[u8], value: &[u8], ttl: u32, since: Instant) -> Result<(), String> {
        let ttl = ttl.to_string();
        let command: [&[u8]; 5] = [b"SET", key, value, b"EX", ttl.as_bytes()];
        let words = if ttl == "0" { 3 } else { 5 };
        self.send(&command[..words], since).map(|_| ())
    }

    /// Sends a command and records the time of its reply. `None` if there was none.
    fn send(&mut self, command: &[&[u8]], since: Instant) -> Result<Option<Answer>, String> {
        let answer = match self.route.ask(command) {
            Ok(answer) => answer,
            Err(error) => return self.broken(&error).map(|()| None),
        };
        self.breaks = 0;
        let ns = since.elapsed().as_nanos() as u64;
        let is_get = command[0] == b"GET";
        let latency = if is_get { &mut self.done.get } else { &mut self.done.set };
        latency.saturating_record(ns);
        if let Answer::Error(text) = &answer {
            self.done.errors.replies += 1;
            self.done.errors.first.get_or_insert_with(|| text.clone());
        }
        Ok(Some(answer))
    }

    /// Connects again, unless the server is gone.
    fn broken(&mut self, error: &io::Error) -> Result<(), String> {
        let gone = |why: &io::Error, done: &Replayed| {
            format!("the server is gone after {} requests: {why}", done.operations())
        };
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.done.errors.timeouts += 1,
            _ => self.done.errors.resets += 1,
        }
        self.breaks += 1;
        if self.breaks >= BREAKS_MAX || is_stopped() {
            return Err(gone(error, &self.done));
        }
        self.done.bytes += self.route.bytes();
        self.route = Route::connect(self.endpoint).map_err(|why| gone(&why, &self.done))?;
        Ok(())
    }
}

/// The object's number in hexadecimal digits, zeros before it up to the key's length.
fn key(request: &Request) -> Vec<u8> {
    format!("{:0width$x}", request.object, width = usize::from(request.key_size)).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};

    use std::io::{Read, Write};

    use super::*;
    use crate::trace::generate;

    /// Reads `*n` commands and answers them from a map; what `reply` returns goes out instead.
    fn serve(mut socket: TcpStream, reply: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>>) {
        let mut store: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        let line = |socket: &mut TcpStream| -> Option<Vec<u8>> {
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).ok()?;
                bytes.push(byte[0]);
            }
            Some(bytes)
        };
        let number = |line: Vec<u8>| String::from_utf8(line[1..].to_vec()).unwrap().trim().parse();
        while let Some(head) = line(&mut socket) {
            let count: usize = number(head).unwrap();
            let mut words = Vec::new();
            for _ in 0..count {
                let len: usize = number(line(&mut socket).unwrap()).unwrap();
                let mut word = vec![0; len + 2];
                socket.read_exact(&mut word).unwrap();
                word.truncate(len);
                words.push(word);
            }
            let own = || match words[0].as_slice() {
                b"GET" => store.get(&words[1]).map_or(b"$-1\r\n".to_vec(), |value| {
                    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }),
                b"SET" => {
                    store.insert(words[1].clone(), words[2].clone());
                    b"+OK\r\n".to_vec()
                }
                _ => b":1\r\n".to_vec(),
            };
            let bytes = reply(&words).unwrap_or_else(own);
            if bytes.is_empty() {
                return;
            }
            socket.write_all(&bytes).unwrap();
        }
    }

    fn against(
        reply: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Clone + Send + 'static,
        trace: &[Request],
        manner: Manner,
    ) -> Result<Replayed, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        thread::spawn(move || {
            for socket in listener.incoming() {
                let reply = reply.clone();
                thread::spawn(move || serve(socket.unwrap(), reply));
            }
        });
        replay(&[Endpoint::Tcp(address)], trace, manner)
    }

    const ONE: Manner = Manner { connections: 1, pace: None, size: None };

    #[test]
    fn misses_are_filled_and_every_request_is_counted() {
        let trace = generate::CLUSTER_17.draw(3_000, 1);
        let objects = super::super::request::Statistics::of(&trace).objects;
        let done = against(|_| None, &trace, ONE).unwrap();
        let gets = trace.iter().filter(|request| request.action == Action::Get).count() as u64;
        assert_eq!(done.hits + done.misses, gets);
        assert_eq!(done.get.len(), gets);
        assert_eq!(done.set.len(), 3_000 - gets + done.misses);
        assert!(done.misses <= objects && done.misses > objects / 2);
        assert_eq!((done.errors.replies, done.errors.wrong, done.errors.resets), (0, 0, 0));
        assert!(done.bytes > 3_000 * 50);
    }

    #[test]
    fn errors_and_wrong_values_are_counted_by_kind() {
        let trace = generate::CLUSTER_17.draw(500, 1);
        let oom = |words: &[Vec<u8>]| (words[0] == b"SET").then(|| b"-OOM full\r\n".to_vec());
        let done = against(oom, &trace, ONE).unwrap();
        assert_eq!(done.hits, 0);
        assert_eq!(done.errors.replies, done.set.len());
        assert_eq!(done.errors.first.as_deref(), Some("OOM full"));
        let lie = |words: &[Vec<u8>]| (words[0] == b"GET").then(|| b"$3\r\nabc\r\n".to_vec());
        let done = against(lie, &trace, ONE).unwrap();
        assert_eq!((done.errors.wrong, done.misses), (done.hits, 0));
    }

    #[test]
    fn a_server_that_dies_is_an_error_that_says_when() {
        let trace = generate::zipf(200, 1);
        let error = against(|_| Some(Vec::new()), &trace, ONE).unwrap_err();
        assert!(error.contains("gone after 0 requests"), "{error}");
    }

    #[test]
    fn a_pace_is_kept_and_a_slow_server_is_charged_for_what_it_holds_up() {
        let mut trace = generate::zipf(20, 1);
        trace.iter_mut().enumerate().for_each(|(at, request)| request.at_us = at as u64 * 10_000);
        let manner = Manner { pace: Some(2.0), size: Some(10), ..ONE };
        let done = against(|_| None, &trace, manner).unwrap();
        assert!(done.elapsed >= Duration::from_millis(95), "{:?}", done.elapsed);
        let slow = |_: &[Vec<u8>]| {
            thread::sleep(Duration::from_millis(20));
            None
        };
        let done = against(slow, &trace, manner).unwrap();
        assert!(done.get.max() > 100_000_000, "the last one waits for all before it");
    }
}
