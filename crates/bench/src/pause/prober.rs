//! The client that asks for small values, one after the other.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use petrel_resp::encode_command;

use crate::load::latency_histogram;
use crate::wire::{Endpoint, Stream, connect, read_same};

/// Small keys that are asked for.
const KEYS: usize = 1_000;

/// The value of each, and the reply that brings it.
const VALUE: &[u8] = b"0123456789abcdef";
const REPLY: &[u8] = b"$16\r\n0123456789abcdef\r\n";
/// The reply after `FLUSHDB`.
const NOTHING: &[u8] = b"$-1\r\n";

/// Sends GETs.
pub struct Prober {
    streams: Vec<Stream>,
    gap: Duration,
    next: usize,
}

impl Prober {
    /// Opens the connections.
    pub fn connect(endpoint: &Endpoint, connections: usize, gap: Duration) -> io::Result<Prober> {
        let streams = (0..connections.max(1)).map(|_| connect(endpoint));
        let streams = streams.collect::<io::Result<_>>()?;
        Ok(Prober { streams, gap, next: 0 })
    }

    /// Stores the keys of its GETs.
    pub fn store(&mut self) -> io::Result<()> {
        let mut commands = Vec::new();
        for key in 0..KEYS {
            encode_command(&[b"SET", name(key).as_bytes(), VALUE], &mut commands);
        }
        let stream = &mut self.streams[0];
        stream.write_all(&commands)?;
        read_same(stream, b"+OK\r\n", KEYS)
    }

    /// Sends GETs for a time; returns their latencies in nanoseconds.
    pub fn probe(&mut self, length: Duration) -> io::Result<Histogram<u64>> {
        let mut latencies = latency_histogram();
        let mut command = Vec::new();
        let end = Instant::now() + length;
        while Instant::now() < end {
            self.next += 1;
            command.clear();
            encode_command(&[b"GET", name(self.next % KEYS).as_bytes()], &mut command);
            let connections = self.streams.len();
            let stream = &mut self.streams[self.next % connections];
            let since = Instant::now();
            stream.write_all(&command)?;
            let mut reply = [0; REPLY.len()];
            stream.read_exact(&mut reply[..NOTHING.len()])?;
            if !reply.starts_with(NOTHING) {
                stream.read_exact(&mut reply[NOTHING.len()..])?;
                if reply != REPLY {
                    return Err(io::Error::other("a GET brought something else"));
                }
            }
            latencies.saturating_record(since.elapsed().as_nanos() as u64);
            if !self.gap.is_zero() {
                thread::sleep(self.gap);
            }
        }
        Ok(latencies)
    }
}

fn name(key: usize) -> String {
    format!("key:{key:06}")
}
