//! Connected socket: Unix, TCP or TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::tls::TlsStream;

/// A connected socket, Unix or TCP.
#[derive(Debug)]
pub enum Stream {
    /// A Unix-domain socket.
    Unix(UnixStream),
    /// A TCP socket.
    Tcp(TcpStream),
    /// A TCP socket with TLS.
    Tls(Box<TlsStream>),
}

/// Calls a method of the socket.
macro_rules! socket {
    ($stream:expr, $socket:ident => $call:expr) => {
        match $stream {
            Stream::Unix($socket) => $call,
            Stream::Tcp($socket) => $call,
            Stream::Tls(tls) => {
                let $socket = &tls.socket;
                $call
            }
        }
    };
}

impl Stream {
    /// Makes reads and writes return instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        socket!(self, socket => socket.set_nonblocking(on))
    }

    /// Bounds the wait of a blocking read.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        socket!(self, socket => socket.set_read_timeout(Some(timeout)))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        socket!(self, socket => socket.as_fd())
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
