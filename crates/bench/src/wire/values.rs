//! Connection with decoded input.

use std::io::{self, Read};

use petrel_resp::{DecodeLimits, Decoder, Value};

use super::Stream;

/// Bytes asked for by one read.
const READ_BYTES: usize = 64 * 1024;

/// A connection, and the beginning of a value that is not complete.
pub struct Values {
    /// The socket.
    pub stream: Stream,
    decoder: Decoder,
    buffer: Vec<u8>,
    filled: usize,
}

impl Values {
    /// Decodes the input of a socket.
    pub fn new(stream: Stream) -> Values {
        let decoder = Decoder::new(DecodeLimits::default());
        Values { stream, decoder, buffer: vec![0; READ_BYTES], filled: 0 }
    }

    /// Reads once and returns the values that are complete; an error at the end of the stream.
    pub fn receive(&mut self) -> io::Result<Vec<Value>> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.filled, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => self.filled += read,
        }
        let (mut at, mut values) = (0, Vec::new());
        loop {
            let decoded = self.decoder.decode(&self.buffer[at..self.filled]);
            let (taken, value) =
                decoded.map_err(|error| io::Error::other(format!("no reply: {error:?}")))?;
            at += taken;
            let Some(value) = value else { break };
            values.push(value);
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(values)
    }
}
