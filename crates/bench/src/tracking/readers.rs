//! The clients that track: they read keys, and take invalidations.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use petrel_resp::{DecodeLimits, Value, decode, encode_command};

use super::{Family, PIECE, SETTLE, VALUE_REPLY_BYTES};
use crate::exchange::{connect, read_same};
use crate::load::{Endpoint, Stream};
use crate::sys::{Interest, Poller};

/// Between two looks for invalidations. Clients on other machines would not take the server's
/// processors, nor have to be woken by it.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// A client.
struct Reader {
    stream: Stream,
    /// What has arrived and is not whole.
    input: Vec<u8>,
}

/// The clients, each of which reads the keys whose numbers leave its own when divided by the number
/// of clients.
pub struct Readers {
    readers: Vec<Reader>,
    poller: Poller,
    buffer: Vec<u8>,
}

impl Readers {
    /// Connects so many.
    pub fn connect(endpoint: &Endpoint, count: usize) -> io::Result<Readers> {
        let poller = Poller::new()?;
        let mut readers = Vec::with_capacity(count);
        for token in 0..count {
            let stream = connect(endpoint)?;
            poller.add(&stream, token, Interest::Read)?;
            readers.push(Reader { stream, input: Vec::new() });
        }
        Ok(Readers { readers, poller, buffer: vec![0; READ_BYTES] })
    }

    /// Turns tracking on, and reads all keys.
    pub fn track(&mut self, family: Family, keys: usize) -> io::Result<()> {
        let clients = self.readers.len();
        for (own, reader) in self.readers.iter_mut().enumerate() {
            let stream = &mut reader.stream;
            stream.set_nonblocking(false)?;
            let mut hello = Vec::new();
            encode_command(&[b"HELLO", b"3"], &mut hello);
            stream.write_all(&hello)?;
            let mut buffer = vec![0; READ_BYTES];
            let (mut filled, limits) = (0, DecodeLimits::default());
            while decode(&buffer[..filled], &limits).map_err(io::Error::other)?.is_none() {
                filled += some(stream.read(&mut buffer[filled..])?)?;
            }
            let mut on = Vec::new();
            encode_command(&[b"CLIENT", b"TRACKING", b"ON"], &mut on);
            stream.write_all(&on)?;
            read_same(stream, b"+OK\r\n", 1)?;
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

    /// Takes what comes until `over` is set and nothing comes any more; returns the number of
    /// invalidated keys.
    pub fn take_invalidations(&mut self, over: &AtomicBool) -> io::Result<u64> {
        for reader in &self.readers {
            reader.stream.set_nonblocking(true)?;
        }
        let mut count = 0;
        loop {
            let was_over = over.load(Relaxed);
            if !was_over {
                thread::sleep(LOOK);
            }
            let ready = self.poller.wait(if was_over { SETTLE } else { Duration::ZERO })?;
            for index in 0..ready {
                let reader = &mut self.readers[self.poller.ready(index).token];
                count += reader.take(&mut self.buffer)?;
            }
            if ready == 0 && was_over {
                return Ok(count);
            }
        }
    }
}

impl Reader {
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<u64> {
        let read = match self.stream.read(buffer) {
            Ok(count) => some(count)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.input.extend_from_slice(&buffer[..read]);
        let (mut count, mut taken, limits) = (0, 0, DecodeLimits::default());
        while let Some((value, len)) =
            decode(&self.input[taken..], &limits).map_err(io::Error::other)?
        {
            taken += len;
            let Value::Push(parts) = value else { continue };
            let Some(Value::Array(keys)) = parts.get(1) else { continue };
            count += keys.len() as u64;
        }
        self.input.drain(..taken);
        Ok(count)
    }
}

fn put_read(name: &str, out: &mut Vec<u8>) {
    encode_command(&[b"GET", name.as_bytes()], out);
}

fn some(count: usize) -> io::Result<usize> {
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
}
