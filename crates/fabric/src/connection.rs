//! A link's bytes, which the host reads and writes on a thread of its own: between what a member
//! has to say and the kernel there is no other thread, and no queue but the one for what the kernel
//! does not take.

use petrel_cluster::Identity;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use tokio::sync::Notify;
use tokio_rustls::TlsStream;

/// Bytes that are read from the kernel at a time.
const READ_BYTES: usize = 64 * 1024;

/// Bytes that are encrypted before the kernel is given them.
const SEALED_BYTES: usize = 256 * 1024;

/// A link to a member from when it is up to when it is down. The next link to the same member is
/// another one, so that nothing that belongs to the former gets into it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Link {
    /// The other side.
    pub peer: Identity,
    /// Grows with each link.
    pub number: u64,
}

/// A link, as the fabric and its [`Connection`] know it.
pub(crate) struct Entry {
    pub link: Link,
    /// Bytes that wait for the kernel to take them.
    pub queued: AtomicUsize,
    /// Notified when the connection has ended, or is to.
    pub ended: Notify,
    /// `link_down` was reported to the host.
    pub is_down: AtomicBool,
}

/// Room that is kept for what comes next.
const ROOM_MAX: usize = 1 << 20;

/// The bytes of a link, both ways, encrypted on the way. It does not wait: [`Connection::as_fd`] is
/// for that. Dropped, the link ends: [`crate::Events::link_down`] follows, and another link to the
/// member begins by itself.
pub struct Connection {
    socket: TcpStream,
    tls: rustls::Connection,
    /// What the kernel has given last.
    arrived: Box<[u8]>,
    /// What could not be encrypted yet, from `begin` on.
    unsent: Vec<u8>,
    begin: usize,
    entry: Arc<Entry>,
    /// Counts bytes that were sent, and received.
    count: Box<dyn Fn(usize, usize) + Send>,
}

/// An empty buffer with the room of another, unless that is of a large value.
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
    /// Takes a connection whose sides know each other from the fabric's thread.
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

    /// The link whose bytes these are.
    pub fn link(&self) -> Link {
        self.entry.link
    }

    /// Appends bytes that have come, in their order, until there are no more, or more than `most`;
    /// whether there may be more at once.
    ///
    /// # Errors
    /// When the link has ended, or what comes is not what the other side has sent.
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

    /// The end, once what has come before it was taken.
    fn end_unless(&self, has_taken: bool) -> io::Result<bool> {
        if has_taken { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn decrypt(&mut self, len: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let mut from = 0;
        while from < len {
            let taken = self.tls.read_tls(&mut &self.arrived[from..len])?;
            self.take_plain(into)?;
            // Behind the end of what the other side has to say nothing is taken.
            if taken == 0 {
                break;
            }
            from += taken;
        }
        Ok(())
    }

    /// Appends what is decrypted; whether the other side has said that nothing follows.
    fn take_plain(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let state = self.tls.process_new_packets().map_err(io::Error::other)?;
        let (begin, len) = (into.len(), state.plaintext_bytes_to_read());
        if len > 0 {
            into.resize(begin + len, 0);
            self.tls.reader().read_exact(&mut into[begin..])?;
        }
        Ok(state.peer_has_closed())
    }

    /// Sends bytes behind those of before. What the kernel does not take is kept for
    /// [`Connection::flush`]: there should be nothing more before [`Connection::is_blocked`] ends.
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

    /// Sends more of what the kernel did not take.
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

    /// Encrypts and sends, until the kernel takes nothing more; how many bytes were encrypted.
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

    /// Whether the kernel has taken less than there was to be sent: [`Connection::flush`] is due
    /// once it takes bytes again.
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
