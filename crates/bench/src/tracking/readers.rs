//! The clients that track: they take what they are told, and may read it again.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use petrel_resp::{DecodeLimits, Value, decode, encode_command};

use super::{Family, OK, PATIENCE, PIECE, SETTLE, VALUE_REPLY_BYTES, exchange};
use crate::load::{Endpoint, Stream};
use crate::sys::{Interest, Poller};

/// Between two looks at what was written, while nobody is told of it.
const LOOK: Duration = Duration::from_millis(1);

/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// What they have seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Keys that they were told of.
    pub told: u64,
    /// Keys that they have read while others wrote.
    pub read: u64,
}

/// A client.
struct Reader {
    stream: Stream,
    /// What has arrived and is not whole.
    input: Vec<u8>,
    /// Requests to be sent.
    output: Vec<u8>,
}

/// The clients, each of which reads the keys whose numbers leave its own when divided by how many clients there are.
pub struct Readers {
    readers: Vec<Reader>,
    poller: Poller,
    seen: Seen,
}

impl Readers {
    /// Connects so many.
    pub fn connect(endpoint: &Endpoint, count: usize) -> io::Result<Readers> {
        let poller = Poller::new(count.clamp(1, 1024))?;
        let mut readers = Vec::with_capacity(count);
        for token in 0..count {
            let stream = endpoint.connect(None)?;
            stream.set_read_timeout(PATIENCE)?;
            poller.add(stream.fd(), token, Interest::Read)?;
            readers.push(Reader { stream, input: Vec::new(), output: Vec::new() });
        }
        Ok(Readers { readers, poller, seen: Seen::default() })
    }

    /// Turns tracking on, and reads all keys.
    pub fn track(&mut self, family: Family, keys: usize) -> io::Result<()> {
        let clients = self.readers.len();
        for (own, reader) in self.readers.iter_mut().enumerate() {
            let stream = &mut reader.stream;
            let mut hello = Vec::new();
            encode_command(&[b"HELLO", b"3"], &mut hello);
            stream.write_all(&hello)?;
            let mut buffer = vec![0; READ_BYTES];
            let (mut filled, limits) = (0, DecodeLimits::default());
            while decode(&buffer[..filled], &limits).map_err(io::Error::other)?.is_none() {
                filled += some(stream.read(&mut buffer[filled..])?)?;
            }
            exchange(stream, &[b"CLIENT", b"TRACKING", b"ON"], OK)?;
            let own: Vec<usize> = (own..keys).step_by(clients).collect();
            for piece in own.chunks(PIECE) {
                let mut requests = Vec::new();
                piece.iter().for_each(|&key| put_read(&family.name(key), &mut requests));
                stream.write_all(&requests)?;
                stream.read_exact(&mut vec![0; VALUE_REPLY_BYTES * piece.len()])?;
            }
        }
        Ok(())
    }

    /// Takes what comes until `over` is set and nothing comes any more. With `again` what they are told of is read
    /// again; with `written` what others put there is read.
    pub fn run(
        &mut self,
        again: bool,
        written: Option<&Mutex<Vec<usize>>>,
        over: &AtomicBool,
    ) -> io::Result<Seen> {
        for reader in &self.readers {
            reader.stream.set_nonblocking(true)?;
        }
        loop {
            let was_over = over.load(Relaxed);
            if let Some(written) = written {
                self.read_written(written)?;
            }
            let ready = self.poller.wait(if written.is_some() { LOOK } else { SETTLE })?;
            for index in 0..ready {
                self.take(self.poller.ready(index).token, again)?;
            }
            if ready == 0 && was_over {
                return Ok(self.seen);
            }
        }
    }

    fn read_written(&mut self, written: &Mutex<Vec<usize>>) -> io::Result<()> {
        let keys = std::mem::take(&mut *written.lock().unwrap_or_else(|error| error.into_inner()));
        let clients = self.readers.len();
        for key in keys {
            put_read(&Family::Written.name(key), &mut self.readers[key % clients].output);
            self.seen.read += 1;
        }
        self.readers.iter_mut().try_for_each(Reader::flush)
    }

    fn take(&mut self, token: usize, again: bool) -> io::Result<()> {
        let Readers { readers, seen, .. } = self;
        let Reader { stream, input, output } = &mut readers[token];
        let filled = input.len();
        input.resize(filled + READ_BYTES, 0);
        let read = match stream.read(&mut input[filled..]) {
            Ok(count) => some(count)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        input.truncate(filled + read);
        let (mut taken, limits) = (0, DecodeLimits::default());
        while let Some((value, len)) = decode(&input[taken..], &limits).map_err(io::Error::other)? {
            taken += len;
            let Value::Push(parts) = value else { continue };
            let Some(Value::Array(keys)) = parts.get(1) else { continue };
            for key in keys.iter().filter_map(Value::as_bytes) {
                seen.told += 1;
                if again {
                    seen.read += 1;
                    encode_command(&[b"GET", key], output);
                }
            }
        }
        input.drain(..taken);
        readers[token].flush()
    }
}

impl Reader {
    /// Sends the requests. What a client has in flight fits the socket's buffer many times.
    fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn put_read(name: &str, out: &mut Vec<u8>) {
    encode_command(&[b"GET", name.as_bytes()], out);
}

fn some(count: usize) -> io::Result<usize> {
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
}
