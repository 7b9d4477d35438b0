//! TLS for streams that block, of which one thread reads while another writes.
//!
//! ```text
//! read   socket ─ outside of all locks ─ ciphertext ─┐
//!                                             session (a short lock) ─ plaintext
//! write  plaintext ─ session ─ ciphertext in `sending` ─ socket, under the lock of `sending`, which
//!                                                        keeps records in the order of the session
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;

use parking_lot::Mutex;
use rustls::ClientConnection;

/// Plaintext that is encrypted at once, about one record.
const WRITE_LEN_MAX: usize = 16 * 1024;

/// Ciphertext that is read at once: a record, and its header.
const READ_LEN: usize = 18 * 1024;

/// A TLS connection.
pub(super) struct TlsStream {
    socket: TcpStream,
    session: Mutex<ClientConnection>,
    sending: Mutex<Sending>,
    /// Ciphertext that has come, for the one thread that reads.
    receiving: Mutex<Receiving>,
}

/// Ciphertext that has come: `room[begin..end]` is not decrypted.
struct Receiving {
    room: Box<[u8]>,
    begin: usize,
    end: usize,
}

/// Ciphertext on its way: `bytes[at..]` is not sent.
#[derive(Default)]
struct Sending {
    bytes: Vec<u8>,
    at: usize,
}

impl TlsStream {
    /// Shakes hands over a socket; its timeouts bound each step.
    pub(super) fn new(mut socket: TcpStream, mut session: ClientConnection) -> io::Result<Self> {
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self {
            socket,
            session: Mutex::new(session),
            sending: Mutex::default(),
            receiving: Mutex::new(Receiving { room: vec![0; READ_LEN].into(), begin: 0, end: 0 }),
        })
    }

    /// The socket beneath.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads plaintext; 0 at the end of the stream.
    pub(super) fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut receiving = self.receiving.lock();
        loop {
            match self.session.lock().reader().read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that goes without a word may have been cut off: an error as well.
                result => return result,
            }
            let Receiving { room: ciphertext, begin, end } = &mut *receiving;
            if begin == end {
                (*begin, *end) = (0, (&self.socket).read(ciphertext)?);
            }
            let mut session = self.session.lock();
            // A step at a time, since plaintext is read in between: the session keeps little of it.
            // Of an empty slice it reads the end of the stream.
            *begin += session.read_tls(&mut &ciphertext[*begin..*end])?;
            session.process_new_packets().map_err(io::Error::other)?;
            let answers = session.wants_write();
            drop(session);
            // A change of keys is answered; what does not go now goes with the next write.
            if answers
                && let Err(error) = self.flush()
                && !would_block(&error)
            {
                return Err(error);
            }
        }
    }

    /// Takes plaintext and sends as much as possible; [`Self::flush`] sends the rest. Fails with
    /// `WouldBlock`, having taken nothing, while the socket does not take earlier ciphertext.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut sending = self.sending.lock();
        sending.send(&self.socket)?;
        let bytes = &bytes[..bytes.len().min(WRITE_LEN_MAX)];
        let mut session = self.session.lock();
        let taken = session.writer().write(bytes)?;
        encrypt(&mut session, &mut sending.bytes)?;
        drop(session);
        match sending.send(&self.socket) {
            Err(error) if !would_block(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends buffered ciphertext.
    pub(super) fn flush(&self) -> io::Result<()> {
        let mut sending = self.sending.lock();
        encrypt(&mut self.session.lock(), &mut sending.bytes)?;
        sending.send(&self.socket)
    }
}

fn encrypt(session: &mut ClientConnection, into: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(into)?;
    }
    Ok(())
}

fn would_block(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

impl Sending {
    fn send(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        while self.at < self.bytes.len() {
            match socket.write(&self.bytes[self.at..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.at += count,
            }
        }
        self.bytes.clear();
        self.at = 0;
        Ok(())
    }
}
