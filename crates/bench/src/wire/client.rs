//! Clients for settings and questions beside a load. They are not made to measure latencies.

use std::io::{self, Read, Write};
use std::time::Duration;

use petrel_client::blocking::Client;
use petrel_client::{Address, ErrorKind, Options, RawCommand};
use petrel_resp::encode_command;

use super::{Endpoint, Stream};

/// Longest time of a reply: removing ten million elements takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longest time of the reply to a check: one that is too short never comes.
const VERIFY_PATIENCE: Duration = Duration::from_secs(5);

/// Describes the error of a connection.
pub fn broken(error: io::Error) -> String {
    format!("a connection broke: {error}")
}

/// Opens a connection with a time limit on reads.
pub fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
    let stream = endpoint.connect(None)?;
    stream.set_read_timeout(PATIENCE)?;
    Ok(stream)
}

/// Opens a client with RESP2 and the time limit of [`connect`].
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
            // Name in the certificate.
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

/// Sends a command and ignores its reply unless it is an error.
pub fn order(client: &Client, words: &[&[u8]]) -> petrel_client::Result<()> {
    client.command(&String::from_utf8_lossy(words[0])).args(&words[1..]).run().map(drop)
}

/// Lengths of the values that [`verify`] stores, bytes: around buffers and limits of servers.
const VERIFIED_LENGTHS: [usize; 10] = [0, 1, 11, 63, 64, 1_023, 4_096, 16_383, 16_384, 100_000];

/// Stores values, reads them back and removes them. An error is a wrong answer.
pub fn verify(endpoint: &Endpoint) -> Result<(), String> {
    let failed = |error: io::Error| format!("answers wrongly: {error}");
    let mut stream = connect(endpoint).map_err(failed)?;
    stream.set_read_timeout(VERIFY_PATIENCE).map_err(failed)?;
    let mut ask = |words: &[&[u8]], reply: &[u8]| {
        let mut request = Vec::new();
        encode_command(words, &mut request);
        stream.write_all(&request)?;
        read_same(&mut stream, reply, 1)
    };
    for (number, length) in VERIFIED_LENGTHS.into_iter().enumerate() {
        let key = format!("petrel-bench:verify:{number}");
        let byte = |at: usize| crate::random::mix((number << 32 | at) as u64) as u8;
        let (key, value) = (key.as_bytes(), (0..length).map(byte).collect::<Vec<u8>>());
        ask(&[b"SET", key, &value], b"+OK\r\n").map_err(failed)?;
        let stored = [format!("${length}\r\n").as_bytes(), &value, b"\r\n"].concat();
        ask(&[b"GET", key], &stored)
            .map_err(|_| format!("answers wrongly: GET of {length} bytes brings other bytes"))?;
        ask(&[b"DEL", key], b":1\r\n").map_err(failed)?;
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
