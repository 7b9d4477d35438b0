//! A connection as threads use it: one of them may write while another reads.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use petrel_resp::{Decoder, Value};

#[cfg(feature = "tls")]
use super::tls::TlsStream;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::handshake::{self, Wire};
use crate::options::{Address, Options};
use crate::telemetry::{Connected, Telemetry};
use crate::transport::{Role, Tls};

/// Bytes read at once.
const READ_LEN: usize = 64 * 1024;

/// A connection that is introduced already.
pub(super) struct Link {
    stream: Stream,
    reading: Mutex<Reading>,
    _connected: Connected,
}

struct Reading {
    decoder: Decoder,
    room: Vec<u8>,
    begin: usize,
    end: usize,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream>),
}

impl Stream {
    fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(room),
            Self::Unix(stream) => (&*stream).read(room),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(room),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Sends bytes that a layer such as TLS has buffered.
    fn flush(&self) -> io::Result<()> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.flush(),
            _ => Ok(()),
        }
    }

    fn set_timeouts(&self, limit: Duration) -> io::Result<()> {
        let limit = Some(limit.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                stream.socket().set_read_timeout(limit)?;
                stream.socket().set_write_timeout(limit)
            }
        }
    }
}

impl Link {
    /// Connects and introduces the client.
    pub(super) fn open(options: &Options, telemetry: &Telemetry) -> Result<Self> {
        let began = Instant::now();
        let failed = |error: io::Error| Error::new(ErrorKind::Connect(error.to_string()));
        let stream = connect(options)?;
        stream.set_timeouts(options.connect_timeout).map_err(failed)?;
        Self::introduce(options, &stream)?;
        // Maximum delay with which a reading thread notices its own deadline.
        let tick = options.timeout.map_or(Duration::from_secs(1), |timeout| timeout / 8);
        stream.set_timeouts(tick.min(Duration::from_secs(1))).map_err(failed)?;
        let decoder = Decoder::new(handshake::limits(options));
        let reading = Reading { decoder, room: vec![0; READ_LEN], begin: 0, end: 0 };
        let _connected = telemetry.connected(began);
        Ok(Self { stream, reading: Mutex::new(reading), _connected })
    }

    fn introduce(options: &Options, stream: &Stream) -> Result<()> {
        let mut wire = BlockingWire { stream };
        // Nothing in it waits for anything but the socket.
        let mut introduction = pin!(handshake::introduce(options, &mut wire, Role::Any, None));
        match introduction.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map(drop),
            Poll::Pending => Err(Error::new(ErrorKind::Connect("no answer".into()))),
        }
    }

    /// Writes everything; calls `blocked` when the socket takes nothing for a tick, and gives up
    /// when it takes nothing for a minute.
    pub(super) fn write(&self, bytes: &[u8], blocked: impl Fn()) -> io::Result<()> {
        let mut at = 0;
        let mut last = Instant::now();
        loop {
            let step = match &bytes[at..] {
                [] => self.stream.flush().map(|()| 0),
                rest => self.stream.write(rest),
            };
            match step {
                Ok(0) if at == bytes.len() => return Ok(()),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    at += count;
                    last = Instant::now();
                }
                Err(error) if is_tick(&error) && last.elapsed() < Duration::from_secs(60) => {
                    blocked();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads once, and appends the replies that are complete: none if nothing came within the tick
    /// of the socket.
    pub(super) fn read(&self, replies: &mut Vec<Value>) -> io::Result<()> {
        let mut reading = self.reading.lock();
        let Reading { decoder, room, begin, end } = &mut *reading;
        if *begin == *end {
            (*begin, *end) = (0, 0);
        } else if *end == room.len() && *begin > 0 {
            room.copy_within(*begin..*end, 0);
            (*begin, *end) = (0, *end - *begin);
        } else if *end == room.len() {
            room.resize(room.len() + room.len() / 2, 0);
        }
        match self.stream.read(&mut room[*end..]) {
            Ok(0) => return Err(io::Error::other("closed by the server")),
            Ok(count) => *end += count,
            Err(error) if is_tick(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        loop {
            let (consumed, value) =
                decoder.decode(&room[*begin..*end]).map_err(io::Error::other)?;
            *begin += consumed;
            match value {
                None => return Ok(()),
                Some(Value::Push(_)) => {}
                Some(Value::Attribute { value, .. }) => replies.push(*value),
                Some(value) => replies.push(value),
            }
        }
    }

    /// Lets a thread that reads or writes find out that the connection is over.
    pub(super) fn shut_down(&self) {
        // It may be over already.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.socket().shutdown(Shutdown::Both),
        };
    }
}

/// Whether a socket's timeout has passed, or a signal came.
fn is_tick(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn connect(options: &Options) -> Result<Stream> {
    let failed = |error: io::Error| Error::new(ErrorKind::Connect(error.to_string()));
    match &options.address {
        Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).map_err(failed)?)),
        Address::Tls { host, port } => {
            let tls = Tls::of(options).map_err(failed)?;
            tls_over(&tls, host, tcp(host, *port, options).map_err(failed)?, options)
        }
        Address::Tcp { host, port } => Ok(Stream::Tcp(tcp(host, *port, options).map_err(failed)?)),
    }
}

fn tcp(host: &str, port: u16, options: &Options) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, options.connect_timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(feature = "tls")]
fn tls_over(tls: &Tls, host: &str, socket: TcpStream, options: &Options) -> Result<Stream> {
    let limit = Some(options.connect_timeout.max(Duration::from_millis(1)));
    let make = || {
        socket.set_read_timeout(limit)?;
        socket.set_write_timeout(limit)?;
        TlsStream::new(socket, tls.session(host)?)
    };
    let stream = make().map_err(|error| Error::new(ErrorKind::Connect(error.to_string())))?;
    Ok(Stream::Tls(Box::new(stream)))
}

/// Not reached: without the feature there is no [`Tls`].
#[cfg(not(feature = "tls"))]
fn tls_over(_: &Tls, _: &str, _: TcpStream, _: &Options) -> Result<Stream> {
    Err(Error::new(ErrorKind::Connect("built without the feature `tls`".into())))
}

/// The handshake over a stream that blocks.
struct BlockingWire<'a> {
    stream: &'a Stream,
}

impl Wire for BlockingWire<'_> {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            match self.stream.write(&bytes[at..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => at += count,
            }
        }
        self.stream.flush()
    }

    async fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.stream.read(room)
    }
}
