//! A WebSocket of the console, and the connection of a client that it stands for.
//!
//! ```text
//! browser ◀── WebSocket ──▶ bridge ◀── socket pair ──▶ worker
//! ```
//!
//! The bridge copies bytes and reads none of them: a worker serves the connection like that of any
//! other client, with its user, limits and statistics. Neither direction holds more than one
//! message; a slow receiver holds back its sender.

use super::console::PROTOCOL;
use super::exchange::switch_to_websocket;
use super::stream::Stream;
use crate::server::Server;
use bytes::{Buf, Bytes};
use petrel_net::{peer_endpoint, set_keepalive};
use rustix::event::{PollFd, PollFlags};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocket, WebSocketConfig};
use tungstenite::{Error, Message};

/// Bytes of a message of the browser.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

const TOO_LONG: &str = "a message has more than 64 KiB: send a command in several";

/// Bytes that are read at once from either side.
const READ_BYTES: usize = 16 * 1024;

/// Messages that are passed on in one turn, in each direction.
const MESSAGES_PER_TURN: usize = 16;

/// Bytes that are read of the browser in one turn: frames need not end a message, or carry a byte.
const BYTES_PER_TURN: usize = MESSAGES_PER_TURN * READ_BYTES;

/// Seconds without a sign of life before the network is asked about the browser.
const KEEPALIVE_SECONDS: u32 = 60;

/// Time for the browser to answer the end of the WebSocket.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// The browser's stream with a limit on the bytes that are read in one turn.
struct Metered {
    stream: Stream,
    /// Bytes that may still be read in this turn.
    left: usize,
}

/// A WebSocket and its connection.
pub struct Bridge {
    web: WebSocket<Metered>,
    client: UnixStream,
    /// Bytes that the worker has not taken yet.
    inward: Bytes,
    /// Whether bytes wait until the socket of the browser is writable.
    is_sending: bool,
    /// Whether the turn ended before there was nothing left to pass on.
    is_behind: bool,
    /// The time at which the WebSocket was closed.
    closed_at: Option<Instant>,
    /// Whether further bytes of the browser are dropped: the limits of its frames are lost.
    is_broken: bool,
}

impl Bridge {
    /// Accepts a WebSocket with this key and gives its connection to a worker. `refusal` closes it
    /// at once instead.
    ///
    /// # Errors
    /// Fails when the connection has ended.
    pub fn new(
        mut stream: Stream,
        key: &str,
        server: &Server,
        refusal: Option<&'static str>,
    ) -> io::Result<Self> {
        let _ = set_keepalive(stream.socket().as_fd(), KEEPALIVE_SECONDS);
        let peer = peer_endpoint(stream.socket().as_fd())?;
        // The send buffer of a new connection has room for it.
        stream.write_all(switch_to_websocket(key, PROTOCOL).as_bytes())?;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let stream = Metered { stream, left: BYTES_PER_TURN };
        let web = WebSocket::from_raw_socket(stream, Role::Server, Some(config));
        let (client, worker) = UnixStream::pair()?;
        client.set_nonblocking(true)?;
        worker.set_nonblocking(true)?;
        let mut bridge = Bridge {
            web,
            client,
            inward: Bytes::new(),
            is_sending: false,
            is_behind: false,
            closed_at: None,
            is_broken: false,
        };
        let is_full = || !server.introduce(worker.into(), peer);
        let refusal = refusal.or_else(|| is_full().then_some("max number of clients reached"));
        if let Some(why) = refusal {
            bridge.close(CloseCode::Again, why)?;
        }
        Ok(bridge)
    }

    /// Passes on the bytes that have arrived. Returns false at the end.
    pub fn turn(&mut self, now: Instant) -> bool {
        self.is_behind = false;
        self.web.get_mut().left = BYTES_PER_TURN;
        let result = self.pass_inward().and_then(|()| self.pass_outward());
        self.is_behind |= self.web.get_ref().left == 0;
        let is_overdue = self.closed_at.is_some_and(|at| now > at + CLOSING_TIME);
        result.is_ok() && !is_overdue
    }

    /// Whether there is more to pass on already.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Whether the WebSocket is closed, and only the answer of the browser is awaited.
    pub fn is_closed(&self) -> bool {
        self.closed_at.is_some()
    }

    /// The sockets and the events that a turn waits for.
    pub fn interest(&self) -> [PollFd<'_>; 2] {
        let has_room = self.inward.is_empty();
        let stream = &self.web.get_ref().stream;
        let is_writing = self.is_sending || stream.has_unsent();
        let of_web = when(has_room, PollFlags::IN) | when(is_writing, PollFlags::OUT);
        let reads = !self.is_sending && !self.is_closed();
        let of_client = when(reads, PollFlags::IN) | when(!has_room, PollFlags::OUT);
        [PollFd::new(stream.socket(), of_web), PollFd::new(&self.client, of_client)]
    }

    /// Passes messages of the browser to the worker.
    fn pass_inward(&mut self) -> io::Result<()> {
        if self.is_broken {
            return self.drop_inward();
        }
        for _ in 0..MESSAGES_PER_TURN {
            while self.inward.has_remaining() {
                match would_block(self.client.write(&self.inward))? {
                    None => return Ok(()),
                    Some(count) => self.inward.advance(count),
                }
            }
            match self.web.read() {
                Ok(Message::Binary(bytes)) if !self.is_closed() => self.inward = bytes,
                Ok(Message::Text(_)) => self.close(CloseCode::Unsupported, "RESP is binary")?,
                // Its answer is sent with the next flush.
                Ok(Message::Close(_)) => self.closed_at = Some(Instant::now()),
                Ok(_) => {}
                Err(Error::Capacity(_)) => {
                    self.is_broken = true;
                    return self.close(CloseCode::Size, TOO_LONG);
                }
                Err(error) => return unless_blocked(error),
            }
        }
        self.is_behind = true;
        Ok(())
    }

    /// Drops the browser's bytes: a socket that is closed with unread bytes resets the
    /// connection, and the reason would not arrive.
    fn drop_inward(&mut self) -> io::Result<()> {
        let mut chunk = [0; 1024];
        while let Some(count) = would_block(self.web.get_mut().read(&mut chunk))? {
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Passes replies of the worker to the browser.
    fn pass_outward(&mut self) -> io::Result<()> {
        let mut chunk = [0; READ_BYTES];
        for _ in 0..MESSAGES_PER_TURN {
            if !self.flush()? || self.is_closed() {
                return Ok(());
            }
            match would_block(self.client.read(&mut chunk))? {
                None => return Ok(()),
                Some(0) => {
                    return self.close(CloseCode::Normal, "the server closed the connection");
                }
                Some(count) => {
                    self.is_sending = true;
                    let message = Message::Binary(Bytes::copy_from_slice(&chunk[..count]));
                    self.web.write(message).or_else(unless_blocked)?;
                }
            }
        }
        self.is_behind = true;
        Ok(())
    }

    /// Sends what waits. Returns false where the socket is full.
    fn flush(&mut self) -> io::Result<bool> {
        match self.web.flush() {
            Ok(()) => self.is_sending = false,
            Err(error) => {
                unless_blocked(error)?;
                self.is_sending = true;
            }
        }
        Ok(!self.is_sending)
    }

    /// Closes the WebSocket with a reason that the console shows.
    fn close(&mut self, code: CloseCode, reason: &'static str) -> io::Result<()> {
        self.closed_at = self.closed_at.or(Some(Instant::now()));
        let frame = CloseFrame { code, reason: reason.into() };
        self.web.close(Some(frame)).or_else(unless_blocked)?;
        self.flush().map(drop)
    }
}

impl Read for Metered {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = buf.len().min(self.left);
        let count = self.stream.read(&mut buf[..len])?;
        self.left -= count;
        Ok(count)
    }
}

impl Write for Metered {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn when(condition: bool, flags: PollFlags) -> PollFlags {
    if condition { flags } else { PollFlags::empty() }
}

/// Returns nothing where the socket is not ready.
///
/// # Errors
/// Fails when the WebSocket has ended, or on bytes that are no WebSocket's.
fn unless_blocked(error: Error) -> io::Result<()> {
    match error {
        Error::Io(error) => would_block(Err(error)).map(|_: Option<()>| ()),
        error => Err(io::Error::other(error)),
    }
}

/// `None` where the socket is not ready.
pub fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
