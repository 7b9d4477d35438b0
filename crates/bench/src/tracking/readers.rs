//! The clients that track: they read keys, and take invalidations.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use petrel_resp::{Value, encode_command};

use super::{PIECE, SETTLE, VALUE_REPLY_BYTES, name};
use crate::sys::{Interest, Poller};
use crate::wire::{Endpoint, Values, connect, read_same};

/// Between two looks for invalidations. Clients on other machines would not take the server's
/// processors, nor have to be woken by it.
const LOOK: Duration = Duration::from_millis(20);

/// Tracking clients. Client `i` of `n` reads the keys with numbers `i`, `i + n`, `i + 2n`...
pub struct Readers {
    readers: Vec<Values>,
    poller: Poller,
}

impl Readers {
    /// Connects `count` clients.
    pub fn connect(endpoint: &Endpoint, count: usize) -> io::Result<Readers> {
        let poller = Poller::new()?;
        let mut readers = Vec::with_capacity(count);
        for token in 0..count {
            let stream = connect(endpoint)?;
            poller.add(&stream, token, Interest::Read)?;
            readers.push(Values::new(stream));
        }
        Ok(Readers { readers, poller })
    }

    /// Turns tracking on, and reads all keys.
    pub fn track(&mut self, family: usize, keys: usize) -> io::Result<()> {
        let clients = self.readers.len();
        for (own, reader) in self.readers.iter_mut().enumerate() {
            reader.stream.set_nonblocking(false)?;
            let (mut hello, mut on) = (Vec::new(), Vec::new());
            encode_command(&[b"HELLO", b"3"], &mut hello);
            reader.stream.write_all(&hello)?;
            while reader.receive()?.is_empty() {}
            let stream = &mut reader.stream;
            encode_command(&[b"CLIENT", b"TRACKING", b"ON"], &mut on);
            stream.write_all(&on)?;
            read_same(stream, b"+OK\r\n", 1)?;
            let own: Vec<usize> = (own..keys).step_by(clients).collect();
            for piece in own.chunks(PIECE) {
                let mut requests = Vec::new();
                piece.iter().for_each(|&key| put_read(&name(family, key), &mut requests));
                stream.write_all(&requests)?;
                stream.read_exact(&mut vec![0; VALUE_REPLY_BYTES * piece.len()])?;
            }
        }
        Ok(())
    }

    /// Receives until `over` is set and no more arrives; returns the number of invalidated keys.
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
                count += invalidated(reader)?;
            }
            if ready == 0 && was_over {
                return Ok(count);
            }
        }
    }
}

/// Receives once; returns the number of invalidated keys.
fn invalidated(reader: &mut Values) -> io::Result<u64> {
    let received = match reader.receive() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Vec::new(),
        received => received?,
    };
    let keys = |value: &Value| match value {
        Value::Push(parts) => match parts.get(1) {
            Some(Value::Array(keys)) => keys.len() as u64,
            _ => 0,
        },
        _ => 0,
    };
    Ok(received.iter().map(keys).sum())
}

fn put_read(name: &str, out: &mut Vec<u8>) {
    encode_command(&[b"GET", name.as_bytes()], out);
}
