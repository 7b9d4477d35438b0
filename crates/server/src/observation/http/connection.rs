//! A connection, from its first byte to its end. Nothing here blocks.

use super::bridge::would_block;
use super::exchange::{Answer, HEAD_BYTES_MAX, Request, TOO_LARGE, parse};
use super::probes::Liveness;
use super::stream::Stream;
use rustix::event::PollFlags;
use rustls::ServerConfig;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a request to arrive; again for metrics to be collected, and for the answer to be read.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Time for a peer that has its answer to close the connection.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// Bytes that are dropped at most in one go of a peer that sends behind its request.
const DROPPED_MAX: usize = 16 * 1024;

/// A connection.
pub struct Connection {
    stream: Stream,
    /// The time at which it was accepted, or entered the phase.
    since: Instant,
    phase: Phase,
}

/// The next step.
pub enum Phase {
    /// The request is read: its bytes so far.
    Reading(Vec<u8>),
    /// Workers are watched (`/health`).
    Probing { is_head: bool, liveness: Liveness },
    /// Metrics are collected, by the run of this number.
    Collecting { is_head: bool, is_open: bool, run: u64 },
    /// The answer is written: its bytes, and how many have been.
    Writing(Vec<u8>, usize),
    /// The answer is written, and the peer has not closed the connection yet.
    Closing,
    /// The connection becomes a WebSocket with this key.
    Upgrading(String),
}

impl Connection {
    /// Creates the state of a connection that was just accepted.
    pub fn new(
        socket: TcpStream,
        tls: Option<Arc<ServerConfig>>,
        now: Instant,
    ) -> io::Result<Self> {
        let stream = Stream::new(socket, tls)?;
        Ok(Connection { stream, since: now, phase: Phase::Reading(Vec::new()) })
    }

    pub fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// The address of the peer, and whether the connection speaks TLS.
    ///
    /// # Errors
    /// Fails when the connection has ended.
    pub fn peer(&self) -> io::Result<(IpAddr, bool)> {
        Ok((self.socket().peer_addr()?.ip(), self.stream.is_tls()))
    }

    pub fn into_parts(self) -> (Stream, Phase) {
        (self.stream, self.phase)
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Time that it has been in its phase.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// The events that the socket is polled for.
    pub fn interest(&self) -> PollFlags {
        match &self.phase {
            Phase::Reading(_) if self.stream.has_unsent() => PollFlags::IN | PollFlags::OUT,
            Phase::Reading(_) | Phase::Closing => PollFlags::IN,
            Phase::Writing(..) => PollFlags::OUT,
            // The end of the connection is reported without being asked for.
            Phase::Probing { .. } | Phase::Collecting { .. } | Phase::Upgrading(_) => {
                PollFlags::empty()
            }
        }
    }

    /// Whether its time is over. Probes end by themselves.
    pub fn is_overdue(&self, now: Instant) -> bool {
        match &self.phase {
            Phase::Probing { .. } => false,
            Phase::Closing => self.age(now) > CLOSING_TIME,
            _ => self.age(now) > TIME_MAX,
        }
    }

    pub fn enter(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since) = (phase, now);
    }

    /// Reads more of the request: the request once it is whole, or why it is refused.
    ///
    /// # Errors
    /// Fails when the connection has ended.
    pub fn read(&mut self) -> io::Result<Option<Result<Request, &'static str>>> {
        let Phase::Reading(head) = &mut self.phase else { return Ok(None) };
        let mut chunk = [0; 1024];
        while let Some(count) = would_block(self.stream.read(&mut chunk))? {
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            head.extend_from_slice(&chunk[..count]);
            if let Some(parsed) = parse(head) {
                return Ok(Some(parsed));
            }
            if head.len() > HEAD_BYTES_MAX {
                return Ok(Some(Err(TOO_LARGE)));
            }
        }
        Ok(None)
    }

    /// Begins to write an answer.
    ///
    /// # Errors
    /// Fails when the connection has ended.
    pub fn answer(&mut self, answer: &Answer, is_head: bool, now: Instant) -> io::Result<()> {
        self.enter(Phase::Writing(answer.to_bytes(is_head), 0), now);
        self.write(now)
    }

    /// Writes more of the answer.
    ///
    /// # Errors
    /// Fails when the connection has ended.
    pub fn write(&mut self, now: Instant) -> io::Result<()> {
        let Phase::Writing(bytes, written) = &mut self.phase else { return Ok(()) };
        while *written < bytes.len() {
            match would_block(self.stream.write(&bytes[*written..]))? {
                None => return Ok(()),
                Some(count) => *written += count,
            }
        }
        if would_block(self.stream.finish())?.is_some() {
            self.enter(Phase::Closing, now);
        }
        Ok(())
    }

    /// Drops what comes behind the request: bytes that are unread when a socket is closed would
    /// reset the connection before the peer has read the answer.
    ///
    /// # Errors
    /// Fails when the connection has ended.
    pub fn drain(&mut self) -> io::Result<()> {
        let (mut chunk, mut dropped) = ([0; 1024], 0);
        while dropped < DROPPED_MAX {
            match would_block(self.stream.read(&mut chunk))? {
                None => break,
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(count) => dropped += count,
            }
        }
        Ok(())
    }
}
