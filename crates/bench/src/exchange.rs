//! A plain client for loads of any commands: a pipeline out on every connection, then all replies back.
//!
//! It is not made to measure latency. The server's CPU time per operation and its memory are read beside it.

use std::io::{Read, Write};

use crate::load::{Endpoint, Stream};

/// Bytes asked for by one read.
const READ_BYTES: usize = 256 * 1024;

/// Connections to one server.
pub struct Exchange {
    streams: Vec<Stream>,
    request: Vec<u8>,
    reply: Vec<u8>,
    /// Replies that were errors.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
}

impl Exchange {
    /// Opens `connections` connections.
    pub fn connect(endpoint: &Endpoint, connections: usize) -> Result<Exchange, String> {
        let streams = (0..connections)
            .map(|_| endpoint.connect(None).map_err(|error| format!("cannot connect: {error}")))
            .collect::<Result<Vec<_>, _>>()?;
        let reply = vec![0; READ_BYTES];
        Ok(Exchange { streams, request: Vec::new(), reply, errors: 0, first_error: None })
    }

    /// Sends about `operations` commands, `pipeline` at a time on each connection; `make` appends one command. Returns how
    /// many were sent.
    pub fn run(
        &mut self,
        operations: u64,
        pipeline: usize,
        make: impl FnMut(&mut Vec<u8>),
    ) -> Result<u64, String> {
        self.run_of(1, operations, pipeline, make)
    }

    /// The same with operations of so many commands each.
    pub fn run_of(
        &mut self,
        commands: u64,
        operations: u64,
        pipeline: usize,
        mut make: impl FnMut(&mut Vec<u8>),
    ) -> Result<u64, String> {
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
        Ok(sent)
    }

    fn collect(&mut self, connection: usize, replies: u64) -> Result<(), String> {
        let mut counter = Counter::default();
        let mut filled = 0;
        while counter.complete < replies {
            if filled == self.reply.len() {
                return Err("a line of a reply is too long".to_owned());
            }
            let stream = &mut self.streams[connection];
            let read = stream.read(&mut self.reply[filled..]).map_err(broken)?;
            if read == 0 {
                return Err("the server closed a connection".to_owned());
            }
            filled += read;
            let taken = counter.take(&self.reply[..filled])?;
            self.reply.copy_within(taken..filled, 0);
            filled -= taken;
        }
        self.errors += counter.errors;
        self.first_error = self.first_error.take().or(counter.first_error);
        Ok(())
    }
}

fn broken(error: std::io::Error) -> String {
    format!("a connection broke: {error}")
}

/// Counts complete RESP2 replies, nested ones too, without keeping them.
#[derive(Default)]
struct Counter {
    complete: u64,
    errors: u64,
    first_error: Option<String>,
    /// Elements of the aggregate in progress that are still to come.
    elements: u64,
    /// Bytes of the string in progress that are still to come, its line end included.
    skip: usize,
}

impl Counter {
    /// Takes what it can of `bytes`; the rest, an unfinished line, is to be given again.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let mut at = 0;
        loop {
            if self.skip > 0 {
                let step = self.skip.min(bytes.len() - at);
                self.skip -= step;
                at += step;
                if self.skip > 0 {
                    return Ok(at);
                }
                self.element_done();
            }
            let Some(end) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") else {
                return Ok(at);
            };
            let line = &bytes[at..at + end];
            at += end + 2;
            self.line(line)?;
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let bad = || format!("no reply: {:?}", String::from_utf8_lossy(line));
        let (kind, rest) = line.split_first().ok_or_else(bad)?;
        let number = || {
            std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok()).ok_or_else(bad)
        };
        match kind {
            b'$' => match number()? {
                len @ 0.. => self.skip = len as usize + 2,
                _ => self.element_done(),
            },
            b'*' => match number()? {
                len @ 1.. => self.elements += len as u64 - u64::from(self.elements > 0),
                _ => self.element_done(),
            },
            b'-' => {
                self.errors += 1;
                let text = || String::from_utf8_lossy(rest).into_owned();
                self.first_error = self.first_error.take().or_else(|| Some(text()));
                self.element_done();
            }
            b'+' | b':' => self.element_done(),
            _ => return Err(bad()),
        }
        Ok(())
    }

    fn element_done(&mut self) {
        self.elements = self.elements.saturating_sub(1);
        if self.elements == 0 {
            self.complete += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_nested_replies_however_they_are_cut() {
        let text =
            b"+OK\r\n*2\r\n*2\r\n:1\r\n$3\r\na\r\n\r\n$-1\r\n-ERR no\r\n*0\r\n*-1\r\n$0\r\n\r\n";
        for cut in 0..text.len() {
            let mut counter = Counter::default();
            let mut kept = text[..cut].to_vec();
            let taken = counter.take(&kept).unwrap();
            kept.drain(..taken);
            kept.extend_from_slice(&text[cut..]);
            assert_eq!(counter.take(&kept), Ok(kept.len()));
            assert_eq!((counter.complete, counter.errors), (6, 1), "{cut}");
        }
        assert!(Counter::default().take(b"what\r\n").is_err());
    }
}
