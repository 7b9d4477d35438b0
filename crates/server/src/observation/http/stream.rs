//! The socket of a connection, with or without TLS. Nothing here blocks.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// The socket of a connection.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS; the first calls complete the handshake.
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    /// Takes over a connection that was just accepted.
    pub fn new(socket: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let Some(config) = tls else { return Ok(Stream::Plain(socket)) };
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    /// Whether the connection speaks TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Whether encrypted bytes wait until the socket is writable.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.conn.wants_write())
    }

    /// Ends the direction to the peer.
    ///
    /// # Errors
    /// `WouldBlock` where bytes are still to be sent.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = self {
            stream.flush()?;
            stream.conn.send_close_notify();
            // The connection ends here: a full socket may lose the notice.
            let _ = stream.flush();
        }
        self.socket().shutdown(Shutdown::Write)
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buf),
            Stream::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(buf),
            Stream::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
