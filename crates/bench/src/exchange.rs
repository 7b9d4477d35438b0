//! [`Exchange`], which sends loads of any commands: a pipeline on every connection, after which it
//! reads all replies. [`client`], for settings and questions beside a load. Neither is made to
//! measure latencies.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use petrel_client::blocking::Client;
use petrel_client::{Address, ErrorKind, Options, RawCommand};
use petrel_resp::encode_command;

use crate::load::{Endpoint, Protocol, Reply, ReplyReader, Stream};
use crate::server::Server;
use crate::sys;

/// A reply of a server takes no longer than this: removing ten million elements takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// The reply to a check is not waited for longer: one that is too short never comes.
const VERIFY_PATIENCE: Duration = Duration::from_secs(5);

/// A server is at rest when it takes less than this share of a processor...
const REST_SHARE: f64 = 0.03;

/// ...over this long...
const REST_WINDOW: Duration = Duration::from_millis(200);

/// ...which is waited for no longer than this.
const REST_MAX: Duration = Duration::from_secs(60);

/// Bytes asked for by one read.
const READ_BYTES: usize = 256 * 1024;

/// Connections to one server.
pub struct Exchange {
    streams: Vec<Stream>,
    request: Vec<u8>,
    reply: Vec<u8>,
    /// Replies that were errors, and the first of them.
    errors: u64,
    first_error: Option<String>,
}

impl Exchange {
    /// Opens `connections` connections.
    pub fn connect(endpoint: &Endpoint, connections: usize) -> Result<Exchange, String> {
        let streams = (0..connections)
            .map(|_| connect(endpoint).map_err(|error| format!("cannot connect: {error}")))
            .collect::<Result<Vec<_>, _>>()?;
        let reply = vec![0; READ_BYTES];
        Ok(Exchange { streams, request: Vec::new(), reply, errors: 0, first_error: None })
    }

    /// Sends so many operations of `commands` commands each, `pipeline` operations at a time on
    /// each connection; `make` appends one operation.
    pub fn run(
        &mut self,
        commands: u64,
        operations: u64,
        pipeline: usize,
        mut make: impl FnMut(&mut Vec<u8>),
    ) -> Result<(), String> {
        let mut sent = 0;
        while sent < operations {
            let mut waiting = Vec::new();
            for connection in 0..self.streams.len() {
                let count = (pipeline as u64).min(operations - sent);
                if count == 0 {
                    break;
                }
                self.request.clear();
                (0..count).for_each(|_| make(&mut self.request));
                let stream = &mut self.streams[connection];
                stream.write_all(&self.request).map_err(broken)?;
                waiting.push((connection, count));
                sent += count;
            }
            for (connection, count) in waiting {
                self.collect(connection, count * commands)?;
            }
        }
        Ok(())
    }

    /// An error if any reply was one since the last call.
    pub fn check(&mut self) -> Result<(), String> {
        let errors = std::mem::take(&mut self.errors);
        match self.first_error.take() {
            Some(first) => Err(format!("{errors} errors, first: {first}")),
            None => Ok(()),
        }
    }

    fn collect(&mut self, connection: usize, replies: u64) -> Result<(), String> {
        let mut reader = ReplyReader::new(Protocol::Resp);
        let (mut complete, mut filled) = (0, 0);
        while complete < replies {
            let stream = &mut self.streams[connection];
            let read = stream.read(&mut self.reply[filled..]).map_err(broken)?;
            if read == 0 {
                return Err("the server closed a connection".to_owned());
            }
            filled += read;
            let (errors, first_error) = (&mut self.errors, &mut self.first_error);
            let taken = reader.read(&self.reply[..filled], |reply| {
                complete += 1;
                if let Reply::Error(text) = reply {
                    *errors += 1;
                    first_error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
                }
            });
            let taken = taken.map_err(|bad| bad.0)?;
            self.reply.copy_within(taken..filled, 0);
            filled -= taken;
        }
        Ok(())
    }
}

fn broken(error: io::Error) -> String {
    format!("a connection broke: {error}")
}

/// A connection whose replies are waited for with a limit.
pub fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
    let stream = endpoint.connect(None)?;
    stream.set_read_timeout(PATIENCE)?;
    Ok(stream)
}

/// A client that speaks RESP2 and waits for replies as long as [`connect`]'s streams do.
pub fn client(endpoint: &Endpoint) -> petrel_client::Result<Client> {
    let (address, roots) = match endpoint {
        Endpoint::Unix(path) => (Address::Unix(path.clone()), None),
        Endpoint::Tcp(address) => {
            (Address::Tcp { host: address.ip().to_string(), port: address.port() }, None)
        }
        Endpoint::Tls(address, certificate) => {
            let roots = std::fs::read(certificate);
            let roots = roots.map_err(|error| {
                ErrorKind::Configuration(format!("{}: {error}", certificate.display()))
            })?;
            // What the certificate is for.
            let host = "localhost".to_owned();
            (Address::Tls { host, port: address.port() }, Some(roots))
        }
    };
    let options = Options {
        timeout: Some(PATIENCE),
        force_resp2: true,
        tls_roots_pem: roots,
        ..Options::new(address)
    };
    Client::with_options(options)
}

/// Sends a command of which only the failure matters.
pub fn order(client: &Client, words: &[&[u8]]) -> petrel_client::Result<()> {
    client.command(&String::from_utf8_lossy(words[0])).args(&words[1..]).run().map(drop)
}

/// Lengths of the values that [`verify`] stores, bytes: around buffers and limits of servers.
const VERIFIED_LENGTHS: [usize; 10] = [0, 1, 11, 63, 64, 1_023, 4_096, 16_383, 16_384, 100_000];

/// Stores values, reads them back and removes them. An error is a server that answers wrongly.
pub fn verify(endpoint: &Endpoint) -> Result<(), String> {
    let failed = |error: io::Error| format!("answers wrongly: {error}");
    let mut stream = connect(endpoint).map_err(failed)?;
    for (number, length) in VERIFIED_LENGTHS.into_iter().enumerate() {
        let key = format!("petrel-bench:verify:{number}");
        let byte = |at: usize| crate::random::mix((number << 32 | at) as u64) as u8;
        let value: Vec<u8> = (0..length).map(byte).collect();
        let key = key.as_bytes();
        let mut stored = Vec::new();
        encode_command(&[b"GET", key], &mut stored);
        let expected = [format!("${length}\r\n").as_bytes(), &value, b"\r\n"].concat();
        let mut request = Vec::new();
        encode_command(&[b"SET", key, &value], &mut request);
        stream
            .write_all(&request)
            .and_then(|()| read_same(&mut stream, b"+OK\r\n", 1))
            .map_err(failed)?;
        stream.write_all(&stored).map_err(failed)?;
        let mut got = vec![0; expected.len()];
        stream.set_read_timeout(VERIFY_PATIENCE).map_err(failed)?;
        stream.read_exact(&mut got).map_err(failed)?;
        if got != expected {
            return Err(format!("answers wrongly: GET of {length} bytes brings other bytes"));
        }
        request.clear();
        encode_command(&[b"DEL", key], &mut request);
        stream
            .write_all(&request)
            .and_then(|()| read_same(&mut stream, b":1\r\n", 1))
            .map_err(failed)?;
    }
    Ok(())
}

/// Reads a line and returns it without its end.
pub fn read_line(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

/// Reads the same reply this many times.
pub fn read_same(stream: &mut Stream, reply: &[u8], times: usize) -> io::Result<()> {
    let mut got = vec![0; reply.len() * times];
    stream.read_exact(&mut got)?;
    let other = got.chunks(reply.len()).find(|got| *got != reply);
    other.map_or(Ok(()), |other| {
        let (got, want) = (other.escape_ascii(), reply.escape_ascii());
        Err(io::Error::other(format!("a reply is {got}, not {want}")))
    })
}

/// Processor time that a server has taken so far, all nodes of a cluster together, nanoseconds.
pub fn cpu_ns(server: &Server) -> Result<u64, String> {
    let times = server.processes().iter().map(|pid| sys::process_cpu_ns(*pid));
    times.sum::<std::io::Result<u64>>().map_err(|error| error.to_string())
}

/// Waits until a server has nothing left to do, such as freeing what was there before.
pub fn wait_for_rest(server: &Server) -> Result<(), String> {
    let begin = Instant::now();
    while begin.elapsed() < REST_MAX {
        let (cpu, since) = (cpu_ns(server)?, Instant::now());
        std::thread::sleep(REST_WINDOW);
        if ((cpu_ns(server)? - cpu) as f64) < REST_SHARE * since.elapsed().as_nanos() as f64 {
            return Ok(());
        }
    }
    Err("it does not come to rest".to_owned())
}
