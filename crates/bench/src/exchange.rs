//! Loads of any commands: a pipeline on every connection, then all replies. Not made to measure
//! latencies.

use std::io::{Read, Write};

use crate::wire::{Endpoint, Protocol, Reply, ReplyReader, Stream, broken, connect};

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

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.streams.len()
    }

    /// Sends `operations` operations of `commands` commands each, `pipeline` operations at a time
    /// on each connection; `make` appends one operation.
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
