//! Bytes of a data-plane link, read and written by the host's own thread. There is no other thread
//! between the host and the kernel, and no queue except for bytes that the kernel did not accept.

use petrel_cluster::Identity;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use tokio::sync::Notify;
use tokio_rustls::TlsStream;

/// Bytes read from the kernel at a time.
const READ_BYTES: usize = 64 * 1024;

/// Limit of rustls' buffer of encrypted bytes.
const SEALED_BYTES: usize = 256 * 1024;

/// Identifies a link to a member. The next link to the same member has another number, so that
/// events of one are not attributed to the other.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Link {
    /// The other side.
    pub peer: Identity,
    /// Increasing number.
    pub number: u64,
}

/// State of a link shared by the fabric and its [`Connection`].
pub(crate) struct Entry {
    pub link: Link,
    /// Bytes that the kernel has not accepted yet.
    pub queued: AtomicUsize,
    /// Notified when the connection has ended, or has to end.
    pub ended: Notify,
    /// Whether `link_down` was reported to the host.
    pub is_down: AtomicBool,
}

/// Maximum capacity retained by an empty buffer, in bytes.
const ROOM_MAX: usize = 1 << 20;

/// The encrypted, non-blocking byte stream of a link; use [`Connection::as_fd`] to wait for it.
/// Dropping it ends the link: [`crate::Events::link_down`] follows, and a new link is opened by
/// itself.
pub struct Connection {
    socket: TcpStream,
    tls: rustls::Connection,
    /// Buffer for bytes from the kernel.
    arrived: Box<[u8]>,
    /// Plaintext that could not be encrypted yet, from `begin` on.
    unsent: Vec<u8>,
    begin: usize,
    entry: Arc<Entry>,
    /// Callback that counts bytes sent and received.
    count: Box<dyn Fn(usize, usize) + Send>,
}

/// Empties a buffer and limits its retained capacity.
fn kept_room(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    bytes.shrink_to(ROOM_MAX);
    bytes
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("link", &self.entry.link).finish_non_exhaustive()
    }
}

impl Connection {
    /// Takes over a connection from the fabric's thread after the handshake.
    pub(crate) fn new(
        stream: TlsStream<tokio::net::TcpStream>,
        entry: Arc<Entry>,
        count: Box<dyn Fn(usize, usize) + Send>,
    ) -> io::Result<Self> {
        let (socket, mut tls): (_, rustls::Connection) = match stream {
            TlsStream::Client(stream) => {
                let (socket, tls) = stream.into_inner();
                (socket, tls.into())
            }
            TlsStream::Server(stream) => {
                let (socket, tls) = stream.into_inner();
                (socket, tls.into())
            }
        };
        tls.set_buffer_limit(Some(SEALED_BYTES));
        let (socket, arrived) = (socket.into_std()?, vec![0; READ_BYTES].into());
        Ok(Connection { socket, tls, arrived, unsent: Vec::new(), begin: 0, entry, count })
    }

    /// The link of this connection.
    pub fn link(&self) -> Link {
        self.entry.link
    }

    /// Appends received bytes, until there are no more for now or more than `most`. Returns whether
    /// there may be more immediately.
    ///
    /// # Errors
    /// When the link has ended, or the received bytes are not valid TLS.
    pub fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        let before = into.len();
        let has_more = loop {
            let has_closed = self.take_plain(into)?;
            if into.len() - before > most {
                break true;
            }
            if has_closed {
                break self.end_unless(into.len() > before)?;
            }
            match (&self.socket).read(&mut self.arrived) {
                Ok(0) => break self.end_unless(into.len() > before)?,
                Ok(len) => {
                    self.decrypt(len, into)?;
                    if len < READ_BYTES {
                        break false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        (self.count)(0, into.len() - before);
        if self.tls.wants_write() {
            self.flush()?;
        }
        Ok(has_more)
    }

    /// Reports the end of the stream after all earlier bytes were taken.
    fn end_unless(&self, has_taken: bool) -> io::Result<bool> {
        if has_taken { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn decrypt(&mut self, len: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let mut from = 0;
        while from < len {
            let taken = self.tls.read_tls(&mut &self.arrived[from..len])?;
            self.take_plain(into)?;
            // Bytes after the peer's close notification are ignored.
            if taken == 0 {
                break;
            }
            from += taken;
        }
        Ok(())
    }

    /// Appends decrypted bytes; returns whether the peer has closed its side.
    fn take_plain(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let state = self.tls.process_new_packets().map_err(io::Error::other)?;
        let (begin, len) = (into.len(), state.plaintext_bytes_to_read());
        if len > 0 {
            into.resize(begin + len, 0);
            self.tls.reader().read_exact(&mut into[begin..])?;
        }
        Ok(state.peer_has_closed())
    }

    /// Sends bytes. Bytes that the kernel does not accept are kept for [`Connection::flush`]; do
    /// not send more while [`Connection::is_blocked`].
    ///
    /// # Errors
    /// When the link has ended.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.count)(bytes.len(), 0);
        let taken = if self.unsent.is_empty() { self.encrypt(bytes)? } else { 0 };
        self.unsent.extend_from_slice(&bytes[taken..]);
        self.entry.queued.store(self.unsent.len() - self.begin, Relaxed);
        Ok(())
    }

    /// Sends bytes that the kernel did not accept before.
    ///
    /// # Errors
    /// When the link has ended.
    pub fn flush(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        self.begin += self.encrypt(&unsent[self.begin..])?;
        self.unsent = unsent;
        if self.begin == self.unsent.len() {
            (self.unsent, self.begin) = (kept_room(std::mem::take(&mut self.unsent)), 0);
        }
        self.entry.queued.store(self.unsent.len() - self.begin, Relaxed);
        Ok(())
    }

    /// Encrypts and sends until the kernel accepts no more; returns the number of bytes encrypted.
    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            taken += self.tls.writer().write(&bytes[taken..])?;
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut &self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if taken == bytes.len() {
                return Ok(taken);
            }
        }
    }

    /// Whether bytes wait for the kernel: call [`Connection::flush`] once the socket is writable.
    pub fn is_blocked(&self) -> bool {
        !self.unsent.is_empty() || self.tls.wants_write()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.entry.ended.notify_one();
    }
}
