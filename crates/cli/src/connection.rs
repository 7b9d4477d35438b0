//! A connection that sends requests and waits for their replies.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use petrel_resp::{DecodeLimits, Decoder, Value, encode_command};
use rustls::{ClientConnection, StreamOwned};

use crate::options::{Protocol, Target};
use crate::tls;

/// Bytes read at once.
const READ_LEN: usize = 64 << 10;

/// Replies of any size are printed; limits are set at the server.
const LIMITS: DecodeLimits =
    DecodeLimits { depth_max: 128, bulk_len_max: usize::MAX >> 1, values_max: usize::MAX >> 2 };

/// A stream to a server.
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects.
    ///
    /// # Errors
    /// Names the address and the reason.
    fn open(target: &Target) -> Result<Self, String> {
        let fail = |error: io::Error| cannot_connect(target, &error);
        if let Some(path) = &target.socket {
            return UnixStream::connect(path).map(Self::Unix).map_err(fail);
        }
        let stream = tcp(target).map_err(fail)?;
        stream.set_nodelay(true).map_err(fail)?;
        match &target.tls {
            None => Ok(Self::Tcp(stream)),
            Some(options) => {
                let name = options.sni.as_deref().unwrap_or(&target.host);
                let stream = tls::client(options, name, stream, target.timeout)
                    .map_err(|error| format!("{}: TLS: {error}", shown(target)))?;
                Ok(Self::Tls(Box::new(stream)))
            }
        }
    }

    /// Makes reads and writes return at once.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Self::Unix(stream) => stream.set_nonblocking(nonblocking),
            Self::Tls(stream) => stream.sock.set_nonblocking(nonblocking),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Tries each address of the host.
fn tcp(target: &Target) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (&*target.host, target.port).to_socket_addrs()? {
        let stream = match target.timeout {
            Some(timeout) => TcpStream::connect_timeout(&address, timeout),
            None => TcpStream::connect(address),
        };
        match stream {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Address of a server, for people.
pub fn shown(target: &Target) -> String {
    match &target.socket {
        Some(path) => path.display().to_string(),
        None if target.host.contains(':') => format!("[{}]:{}", target.host, target.port),
        None => format!("{}:{}", target.host, target.port),
    }
}

fn cannot_connect(target: &Target, error: &io::Error) -> String {
    format!("Could not connect to {}: {}", shown(target), reason(error))
}

/// The reason of an error, without its number.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "Connection refused".into(),
        io::ErrorKind::NotFound => "No such file or directory".into(),
        io::ErrorKind::UnexpectedEof => "Server closed the connection".into(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer in time".into(),
        _ => error.to_string(),
    }
}

/// A connection.
pub struct Connection {
    /// The stream.
    pub stream: Stream,
    decoder: Decoder,
    /// Bytes received; those before `start` are decoded.
    received: Vec<u8>,
    start: usize,
    /// Pushes that came before a reply.
    pub pushes: Vec<Value>,
}

impl Connection {
    /// Connects, agrees on the protocol, authenticates and selects the database. A refusal is
    /// printed on standard error, and the connection remains: so a command shows the server's
    /// answer.
    ///
    /// # Errors
    /// Names the address and the reason.
    pub fn open(target: &Target) -> Result<Self, String> {
        let mut connection = Self {
            stream: Stream::open(target)?,
            decoder: Decoder::new(LIMITS),
            received: Vec::new(),
            start: 0,
            pushes: Vec::new(),
        };
        connection.greet(target).map_err(|error| cannot_connect(target, &error))?;
        Ok(connection)
    }

    fn greet(&mut self, target: &Target) -> io::Result<()> {
        if let Some(password) = &target.password {
            let mut args: Vec<&[u8]> = vec![b"AUTH"];
            args.extend(target.user.as_deref());
            args.push(password);
            if let Value::Error(text) = self.call(&args)? {
                eprintln!("AUTH failed: {}", String::from_utf8_lossy(&text));
            }
        }
        if matches!(target.protocol, Protocol::Three | Protocol::ThreeIfKnown)
            && let Value::Error(text) = self.call(&[b"HELLO", b"3"])?
            && target.protocol == Protocol::Three
        {
            eprintln!("HELLO 3 failed: {}", String::from_utf8_lossy(&text));
        }
        if target.database != 0 {
            let database = target.database.to_string();
            if let Value::Error(text) = self.call(&[b"SELECT", database.as_bytes()])? {
                eprintln!("SELECT {database} failed: {}", String::from_utf8_lossy(&text));
            }
        }
        Ok(())
    }

    /// Sends a request.
    pub fn send(&mut self, args: &[&[u8]]) -> io::Result<()> {
        let mut request = Vec::new();
        encode_command(args, &mut request);
        self.stream.write_all(&request)?;
        self.stream.flush()
    }

    /// Sends requests at once.
    pub fn send_all<'a>(
        &mut self,
        requests: impl IntoIterator<Item = Vec<&'a [u8]>>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for args in requests {
            encode_command(&args, &mut bytes);
        }
        self.stream.write_all(&bytes)?;
        self.stream.flush()
    }

    /// Waits for the next reply or push.
    pub fn receive_any(&mut self) -> io::Result<Value> {
        loop {
            if let Some(value) = self.decode()? {
                return Ok(value);
            }
            if self.read_more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits for the next reply; pushes before it are kept.
    pub fn receive(&mut self) -> io::Result<Value> {
        loop {
            match self.receive_any()? {
                push @ Value::Push(_) => self.pushes.push(push),
                reply => return Ok(reply),
            }
        }
    }

    /// Sends a request and waits for its reply.
    pub fn call(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.send(args)?;
        self.receive()
    }

    /// Decodes a value that has been received.
    pub fn decode(&mut self) -> io::Result<Option<Value>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let (length, value) = self.decoder.decode(&self.received[self.start..]).map_err(invalid)?;
        self.start += length;
        if self.start == self.received.len() {
            self.received.clear();
            self.start = 0;
        }
        Ok(value)
    }

    /// Reads the bytes that have come; returns 0 at the end.
    pub fn read_more(&mut self) -> io::Result<usize> {
        if self.start > READ_LEN {
            self.received.drain(..self.start);
            self.start = 0;
        }
        let length = self.received.len();
        self.received.resize(length + READ_LEN, 0);
        let count = loop {
            match self.stream.read(&mut self.received[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.received.truncate(length + count.as_ref().map_or(0, |count| *count));
        count
    }

    /// Takes bytes that are no replies, such as an RDB file, waiting for some; empty at the end.
    pub fn take_bytes(&mut self) -> io::Result<Vec<u8>> {
        if self.received.len() == self.start && self.read_more()? == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.received.split_off(self.start);
        self.received.clear();
        self.start = 0;
        Ok(bytes)
    }

    /// Gives back bytes that were taken too many.
    pub fn put_back(&mut self, bytes: &[u8]) {
        self.received.splice(self.start..self.start, bytes.iter().copied());
    }

    /// Whether the server has closed the connection since the last reply.
    pub fn is_closed(&mut self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let closed = match self.read_more() {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(false).is_err() || closed
    }
}
