//! The connection to the primary.

use crate::config::Config;
use crate::tls::client_settings;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that are asked of the socket at a time.
const READ_LEN: usize = 256 * 1024;

/// Bytes of a line of the handshake at most.
const LINE_MAX: usize = 64 * 1024;

/// A connection to a primary, plain or TLS.
enum Transport {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Transport {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(to),
            Transport::Secured(stream) => stream.read(to),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Secured(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.flush(),
            Transport::Secured(stream) => stream.flush(),
        }
    }
}

/// Connection to the primary, with received bytes that were not taken.
pub(super) struct Wire {
    transport: Transport,
    received: Vec<u8>,
    /// Bytes of it that hold no end of a line.
    searched: usize,
    chunk: Box<[u8]>,
    /// Fails once the primary is no longer to be followed.
    check_request: Box<dyn Fn() -> Result<(), String> + Send>,
    /// Time of the last received bytes.
    pub heard: Instant,
    /// Silence after which the primary counts as gone.
    timeout: Duration,
}

impl Wire {
    /// Connects to the first address of the name that accepts. Nothing more is received once
    /// `check_request` fails.
    pub fn connect(
        host: &str,
        port: u16,
        config: &Config,
        check_request: impl Fn() -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot connect: {error}");
        let timeout = Duration::from_secs(config.replication.repl_timeout.max(1).unsigned_abs());
        let socket = reach(host, port, timeout.min(CONNECT_TIMEOUT)).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(timeout)).map_err(failed)?;
        socket.set_write_timeout(Some(timeout)).map_err(failed)?;
        let transport = match config.replication.tls_replication {
            false => Transport::Plain(socket),
            true => {
                let settings = client_settings(config).map_err(|trouble| trouble.to_string())?;
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| format!("'{host}' is no name or address for TLS"))?;
                let session = ClientConnection::new(Arc::new(settings), name)
                    .map_err(|error| format!("TLS: {error}"))?;
                Transport::Secured(Box::new(StreamOwned::new(session, socket)))
            }
        };
        let chunk = vec![0; READ_LEN].into();
        let check_request = Box::new(check_request);
        let (received, searched, heard) = (Vec::new(), 0, Instant::now());
        Ok(Wire { transport, received, searched, chunk, check_request, heard, timeout })
    }

    /// The socket, for another thread to shut down, and to ask for addresses.
    pub fn socket(&self) -> &TcpStream {
        match &self.transport {
            Transport::Plain(socket) => socket,
            Transport::Secured(stream) => &stream.sock,
        }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transport.write_all(bytes)?;
        self.transport.flush()
    }

    /// Received bytes that were not taken.
    pub fn received(&mut self) -> &mut Vec<u8> {
        &mut self.received
    }

    /// Waits for more until `patience` is over; false if nothing has come.
    ///
    /// # Errors
    /// If the primary has closed the connection, been silent for too long, or is no longer to be
    /// followed: whatever it sends.
    pub fn receive_within(&mut self, patience: Duration) -> io::Result<bool> {
        (self.check_request)().map_err(io::Error::other)?;
        // 0 would be for ever.
        self.socket().set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        match self.transport.read(&mut self.chunk) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(len) => {
                self.heard = Instant::now();
                self.received.extend_from_slice(&self.chunk[..len]);
                Ok(true)
            }
            Err(error) if is_pause(&error) && self.heard.elapsed() < self.timeout => Ok(false),
            Err(error) if is_pause(&error) => {
                let seconds = self.timeout.as_secs();
                let text = format!("it has been silent for {seconds} seconds (repl-timeout)");
                Err(io::Error::new(ErrorKind::TimedOut, text))
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for more.
    ///
    /// # Errors
    /// As [`Wire::receive_within`].
    pub fn receive(&mut self) -> io::Result<()> {
        while !self.receive_within(self.timeout)? {}
        Ok(())
    }

    /// The next line that is not empty: a primary that is busy sends empty ones.
    ///
    /// # Errors
    /// As [`Wire::receive_within`], and if it is too long.
    pub fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.take_line() {
                Some(line) => return Ok(line),
                None if self.received.len() > LINE_MAX => {
                    let text = "it sends no line where one is expected";
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
                None => self.receive()?,
            }
        }
    }

    /// Takes the first whole line that is not empty, and the empty ones before it: each byte is
    /// looked at once.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let mut begin = 0;
        let mut line = None;
        while line.is_none() {
            let from = begin + std::mem::take(&mut self.searched);
            let Some(len) = memchr::memchr(b'\n', &self.received[from..]) else {
                self.searched = self.received.len() - begin;
                break;
            };
            let found = self.received[begin..from + len].trim_ascii();
            line = (!found.is_empty()).then(|| found.to_vec());
            begin = from + len + 1;
        }
        self.received.drain(..begin);
        line
    }
}

/// Whether a read has only taken too long.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn reach(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
