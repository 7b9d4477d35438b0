//! Connections to servers: endpoints, sockets, replies, clients.

mod client;
mod reply;
mod stream;
mod tls;
mod values;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use client::{broken, client, connect, order, read_line, read_same, verify};
pub use reply::{HEADER_MAX, Reply, ReplyReader};
pub use stream::Stream;
pub use values::Values;

use crate::sys;

/// Address of a server.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Endpoint {
    /// A Unix-domain socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddrV4),
    /// A TCP port for TLS, and the file of the certificate that the server shows.
    Tls(SocketAddrV4, PathBuf),
}

impl Endpoint {
    /// Connects, waiting as long as the server's backlog is full. TCP connections leave from
    /// `source` if one is given.
    pub fn connect(&self, source: Option<Ipv4Addr>) -> io::Result<Stream> {
        match self {
            Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Endpoint::Tcp(address) => {
                let stream = match source {
                    Some(source) => sys::tcp_connect_from(source, *address)?,
                    None => TcpStream::connect(address)?,
                };
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Endpoint::Tls(address, certificate) => {
                let stream = Endpoint::Tcp(*address).connect(source)?;
                let Stream::Tcp(socket) = stream else { return Ok(stream) };
                Ok(Stream::Tls(Box::new(tls::TlsStream::connect(socket, certificate)?)))
            }
        }
    }
}

/// Protocol of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Protocol {
    /// Redis's protocol, version 2.
    Resp,
    /// Memcached's text protocol.
    Memcached,
}

impl Protocol {
    /// The request that any server answers, and the beginning of the reply.
    pub fn ping(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Protocol::Resp => (b"*1\r\n$4\r\nPING\r\n", b"+PONG"),
            Protocol::Memcached => (b"version\r\n", b"VERSION"),
        }
    }
}
