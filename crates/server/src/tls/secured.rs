//! A driver around a driver: connections that were adopted with settings speak TLS to the socket
//! and plaintext to the worker, which sees no difference. While there are none, every call goes
//! through after one branch.
//!
//! A TLS connection buffers output that is not encrypted yet (the next poll encrypts it, and a
//! large one step by step, as the peer reads it), and plaintext beyond the length requested by
//! [`Driver::read_into`].

use super::certificate::MAKE_VERSION_3;
use super::session::{Failure, RECORD_BYTES, Session};
use petrel_net::{Chunk, Close, Driver, Event, ListenerId, Options, Output, Slot, Waker, Why};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::io;
use std::mem::take;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A handshake takes no longer.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of one connection's output that are encrypted in a turn, and only once the peer has taken
/// all before.
const SEALED_BYTES_MAX: usize = 512 * 1024;

/// Plaintext of records sent together: the size that the drivers' buffer pools keep.
const PIECE_BYTES: usize = 7 * RECORD_BYTES;

/// Time between two warnings about the same fault of clients.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// Scratch space that is kept from turn to turn.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Driver with TLS for some of its connections.
pub struct Secured<D> {
    inner: D,
    /// Nothing is written: for tests of what waits.
    withheld: Arc<AtomicBool>,
    /// By the index of their slot; as long as the highest index of a TLS connection demands.
    links: Vec<Option<Box<Link>>>,
    /// Number of `links` in use.
    count: usize,
    /// Connections with something to do in the next poll; those of this one.
    pending: Vec<Slot>,
    tended: Vec<Slot>,
    /// Deadlines of handshakes, soonest first; completed ones stay until their turn.
    handshakes: VecDeque<(Instant, Slot)>,
    /// Connections with a completed handshake, if these are wanted.
    established: Vec<Slot>,
    /// The plaintext that the worker sees in this turn.
    plain: Vec<u8>,
    joined: Vec<u8>,
    /// Events to report before those of the inner driver, and the inner driver's events to
    /// translate.
    reported: Vec<Event>,
    inner_events: Vec<Event>,
    queues: Vec<VecDeque<Output>>,
    /// The number of this poll.
    turn: u64,
    /// The time of the last log line about a client with a certificate of an older version.
    warned_at: Option<Instant>,
}

/// A TLS connection.
struct Link {
    slot: Slot,
    session: Session,
    /// Output that is not encrypted, the front one up to `sealed`.
    outputs: VecDeque<Output>,
    sealed: usize,
    unsealed_bytes: usize,
    /// Plaintext that waits for its turn.
    held: Vec<u8>,
    fill: Option<Fill>,
    /// The poll that last reported plaintext. The worker sees it only afterwards, and may then ask
    /// for what follows to be read into a buffer: until the next poll, what follows is held.
    reported_in: u64,
    is_paused: bool,
    is_pending: bool,
    /// Whether the inner driver has been asked to expect output.
    is_expecting: bool,
    closing: Closing,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Closing {
    Open,
    /// Once the output is written.
    Flush,
    /// The inner driver has closed the connection; nothing is sent or received any more.
    Told,
}

struct Fill {
    buffer: Vec<u8>,
    missing: usize,
}

impl Fill {
    fn take(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.missing);
        self.buffer.extend_from_slice(&bytes[..count]);
        self.missing -= count;
        count
    }
}

impl<D: Driver> Secured<D> {
    /// A driver around `inner`. While `withheld` is set, TLS connections are sent nothing.
    pub fn around(inner: D, withheld: Arc<AtomicBool>) -> Self {
        Secured {
            inner,
            withheld,
            links: Vec::new(),
            count: 0,
            pending: Vec::new(),
            tended: Vec::new(),
            handshakes: VecDeque::new(),
            established: Vec::new(),
            plain: Vec::new(),
            joined: Vec::new(),
            reported: Vec::new(),
            inner_events: Vec::new(),
            queues: Vec::new(),
            turn: 0,
            warned_at: None,
        }
    }

    /// As [`Driver::adopt`], for a peer that is to shake hands first.
    ///
    /// # Errors
    /// Also if the settings cannot be used.
    pub fn adopt_tls(&mut self, socket: OwnedFd, config: Arc<ServerConfig>) -> io::Result<Slot> {
        let session = Session::new(config).map_err(io::Error::other)?;
        let slot = self.inner.adopt(socket)?;
        let index = slot.index();
        if index >= self.links.len() {
            self.links.resize_with(index + 1, || None);
        }
        let link = Link {
            slot,
            session,
            outputs: VecDeque::new(),
            sealed: 0,
            unsealed_bytes: 0,
            held: Vec::new(),
            fill: None,
            reported_in: 0,
            is_paused: false,
            is_pending: false,
            is_expecting: false,
            closing: Closing::Open,
        };
        if self.links[index].replace(Box::new(link)).is_none() {
            self.count += 1;
        }
        self.handshakes.push_back((Instant::now() + HANDSHAKE_TIME_MAX, slot));
        Ok(slot)
    }

    /// The driver below.
    #[inline]
    pub fn below(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Whether a handshake has been completed since [`Secured::take_established`] was called.
    #[inline]
    pub fn has_established(&self) -> bool {
        !self.established.is_empty()
    }

    /// Takes the connections with a handshake completed since the last call.
    pub fn take_established(&mut self) -> Vec<Slot> {
        take(&mut self.established)
    }

    /// The session of a TLS connection.
    pub fn session(&self, slot: Slot) -> Option<&Session> {
        self.link(slot).map(|link| &link.session)
    }

    fn link(&self, slot: Slot) -> Option<&Link> {
        self.links.get(slot.index())?.as_deref().filter(|link| link.slot == slot)
    }

    #[inline]
    fn link_mut(&mut self, slot: Slot) -> Option<&mut Link> {
        if self.count == 0 {
            return None;
        }
        self.links.get_mut(slot.index())?.as_deref_mut().filter(|link| link.slot == slot)
    }

    /// Takes a link out, to work with it beside the rest of the driver.
    fn take_link(&mut self, slot: Slot) -> Option<Box<Link>> {
        let place = self.links.get_mut(slot.index())?;
        if place.as_ref().is_some_and(|link| link.slot == slot) { place.take() } else { None }
    }

    fn put_link(&mut self, link: Box<Link>) {
        let index = link.slot.index();
        self.links[index] = Some(link);
    }

    fn remove_link(&mut self, slot: Slot) {
        if let Some(mut link) = self.take_link(slot) {
            self.count -= 1;
            let outputs = take(&mut link.outputs);
            self.give_queue(outputs);
        }
    }

    fn give_queue(&mut self, mut queue: VecDeque<Output>) {
        queue.drain(..).for_each(|output| self.inner.recycle(output));
        if queue.capacity() > 0 && self.queues.len() < 64 {
            self.queues.push(queue);
        }
    }

    fn pend(&mut self, link: &mut Link) {
        if !take_flag(&mut link.is_pending) {
            self.pending.push(link.slot);
        }
    }

    fn pend_slot(&mut self, slot: Slot) {
        if let Some(link) = self.link_mut(slot)
            && !take_flag(&mut link.is_pending)
        {
            self.pending.push(slot);
        }
    }

    /// Does what waits before the inner driver is polled; says whether it must not wait.
    fn tend(&mut self) -> bool {
        let mut hurry = false;
        let mut tended = std::mem::replace(&mut self.pending, take(&mut self.tended));
        for slot in tended.drain(..) {
            let Some(mut link) = self.take_link(slot) else { continue };
            link.is_pending = false;
            hurry |= self.tend_link(&mut link);
            self.put_link(link);
        }
        self.tended = tended;
        if !self.handshakes.is_empty() {
            self.end_slow_handshakes();
        }
        hurry || !self.reported.is_empty()
    }

    fn tend_link(&mut self, link: &mut Link) -> bool {
        if link.closing == Closing::Told {
            return false;
        }
        if !link.session.is_established() {
            if link.closing == Closing::Flush {
                self.tell(link);
            }
            return false;
        }
        let sealed = self.seal_outputs(link);
        let waits = !link.outputs.is_empty();
        let has_reported = self.report_held(link);
        let is_peer_closed = link.session.is_peer_closed();
        self.expect_output(link, waits || has_reported || !link.held.is_empty() || is_peer_closed);
        if waits || has_reported {
            self.pend(link);
            return sealed || has_reported;
        }
        let ends = is_peer_closed && !link.is_paused && link.held.is_empty();
        if link.closing == Closing::Flush || ends && link.closing == Closing::Open {
            let mut output = self.inner.output();
            // A connection that cannot say so is closed all the same.
            let _ = link.session.close(&mut output.bytes);
            self.inner.send(link.slot, output);
            self.tell(link);
        }
        false
    }

    fn tell(&mut self, link: &mut Link) {
        link.closing = Closing::Told;
        self.expect_output(link, false);
        self.inner.close(link.slot, Close::AfterFlush);
    }

    fn expect_output(&mut self, link: &mut Link, expected: bool) {
        if link.is_expecting != expected {
            link.is_expecting = expected;
            self.inner.expect_output(link.slot, expected);
        }
    }

    /// Encrypts output if the peer has taken all that was encrypted before; says whether there was
    /// any.
    fn seal_outputs(&mut self, link: &mut Link) -> bool {
        let is_ready = self.inner.unsent(link.slot) == 0 && !self.withheld.load(Relaxed);
        if link.outputs.is_empty() || !is_ready {
            return false;
        }
        let mut left = SEALED_BYTES_MAX;
        while left > 0 && !link.outputs.is_empty() {
            let mut records = self.inner.output();
            match self.seal_piece(link, left.min(PIECE_BYTES), &mut records.bytes) {
                Ok(count) => left -= count.min(left),
                Err(failure) => {
                    self.inner.recycle(records);
                    self.fail(link, &failure, None);
                    return false;
                }
            }
            self.inner.send(link.slot, records);
        }
        if link.outputs.is_empty() {
            let outputs = take(&mut link.outputs);
            self.give_queue(outputs);
        }
        true
    }

    /// Encrypts the next `limit` bytes of output in full records, except the last; returns the
    /// number of bytes.
    fn seal_piece(
        &mut self,
        link: &mut Link,
        limit: usize,
        records: &mut Vec<u8>,
    ) -> Result<usize, Failure> {
        let Link { outputs, session, sealed, .. } = link;
        let mut room = limit;
        self.joined.clear();
        while room > 0
            && let Some(output) = outputs.front()
        {
            let mut skip = *sealed;
            for piece in output.pieces() {
                let from = skip.min(piece.len());
                skip -= from;
                let mut piece = &piece[from..];
                piece = &piece[..piece.len().min(room)];
                room -= piece.len();
                *sealed += piece.len();
                gather(session, piece, &mut self.joined, records)?;
            }
            if *sealed < output.len() {
                break;
            }
            *sealed = 0;
            outputs.pop_front().into_iter().for_each(|output| self.inner.recycle(output));
        }
        if !self.joined.is_empty() {
            session.seal(&self.joined, records)?;
        }
        link.unsealed_bytes -= limit - room;
        Ok(limit - room)
    }

    /// Passes on plaintext that has waited for its turn.
    fn report_held(&mut self, link: &mut Link) -> bool {
        if link.held.is_empty() || link.is_paused || link.closing != Closing::Open {
            return false;
        }
        if let Some(fill) = &mut link.fill {
            let count = fill.take(&link.held);
            link.held.drain(..count);
            if fill.missing > 0 {
                link.held = Vec::new();
                return false;
            }
            link.reported_in = self.turn;
            if let Some(fill) = link.fill.take() {
                self.reported.push(Event::Filled { slot: link.slot, buffer: fill.buffer });
            }
            return true;
        }
        link.reported_in = self.turn;
        let chunk = Chunk::at(self.plain.len() as u32, link.held.len() as u32);
        self.plain.append(&mut link.held);
        link.held = Vec::new();
        self.reported.push(Event::Received { slot: link.slot, chunk });
        true
    }

    fn end_slow_handshakes(&mut self) {
        let now = Instant::now();
        while let Some(&(due, slot)) = self.handshakes.front() {
            let shaking = |link: &Link| !link.session.is_established();
            let is_shaking = self.link(slot).is_some_and(shaking);
            if is_shaking && due > now {
                return;
            }
            self.handshakes.pop_front();
            if is_shaking {
                self.close(slot, Close::Now);
                let why = Why::Error(io::ErrorKind::TimedOut.into());
                self.reported.push(Event::Closed { slot, why });
            }
        }
    }

    /// Translates an event of the inner driver into the worker's events.
    fn translate(&mut self, event: Event, events: &mut Vec<Event>) {
        match event {
            Event::Received { slot, chunk } => match self.take_link(slot) {
                Some(mut link) => {
                    self.received(&mut link, chunk, events);
                    self.put_link(link);
                }
                None => events.push(Event::Received { slot, chunk }),
            },
            Event::Drained { slot } => {
                if self.link(slot).is_none_or(|link| link.outputs.is_empty()) {
                    events.push(Event::Drained { slot });
                }
            }
            Event::Closed { slot, why } => {
                self.remove_link(slot);
                events.push(Event::Closed { slot, why });
            }
            other => events.push(other),
        }
    }

    fn received(&mut self, link: &mut Link, chunk: Chunk, events: &mut Vec<Event>) {
        if link.closing != Closing::Open {
            return;
        }
        let slot = link.slot;
        let start = self.plain.len();
        let was_established = link.session.is_established();
        let mut records = self.inner.output();
        let result = link.session.absorb(
            self.inner.data(chunk),
            &mut self.plain,
            &mut records.bytes,
            &mut self.joined,
        );
        if let Err(failure) = result {
            self.plain.truncate(start);
            return self.fail(link, &failure, Some(records));
        }
        if records.is_empty() {
            self.inner.recycle(records);
        } else {
            self.inner.send(slot, records);
        }
        if !was_established && link.session.is_established() {
            self.established.push(slot);
        }
        if link.session.is_peer_closed() {
            // At least the word that this side ends too.
            self.expect_output(link, true);
            self.pend(link);
        } else if !link.outputs.is_empty() {
            self.pend(link);
        }
        let count = self.plain.len() - start;
        if count == 0 {
            return;
        }
        let is_straight = link.held.is_empty() && !link.is_paused && link.reported_in != self.turn;
        match &mut link.fill {
            Some(fill) if is_straight => {
                let taken = fill.take(&self.plain[start..]);
                link.held.extend_from_slice(&self.plain[start + taken..]);
                self.plain.truncate(start);
                if let Some(fill) = link.fill.take_if(|fill| fill.missing == 0) {
                    link.reported_in = self.turn;
                    events.push(Event::Filled { slot, buffer: fill.buffer });
                }
            }
            None if is_straight => {
                link.reported_in = self.turn;
                events.push(Event::Received { slot, chunk: Chunk::at(start as u32, count as u32) });
            }
            _ => {
                link.held.extend_from_slice(&self.plain[start..]);
                self.plain.truncate(start);
            }
        }
        if !link.held.is_empty() {
            self.expect_output(link, true);
            self.pend(link);
        }
    }

    /// Closes a connection that cannot go on, after the alert that says why.
    fn fail(&mut self, link: &mut Link, failure: &Failure, alert: Option<Output>) {
        tracing::debug!("a TLS connection failed: {failure}");
        let is_due = self.warned_at.is_none_or(|at| at.elapsed() >= WARNING_PAUSE);
        if failure.is_of_old_certificate() && is_due {
            self.warned_at = Some(Instant::now());
            tracing::warn!(
                "a client was refused: its certificate is of X.509 version 1 or 2, which cannot be verified; \
                 {MAKE_VERSION_3}"
            );
        }
        let outputs = take(&mut link.outputs);
        self.give_queue(outputs);
        link.unsealed_bytes = 0;
        if let Some(alert) = alert {
            match failure {
                Failure::NotTls => self.inner.recycle(alert),
                _ => self.inner.send(link.slot, alert),
            }
        }
        self.tell(link);
    }
}

/// Encrypts `piece` after the bytes in `joined`, in full records; a remainder stays in `joined`.
fn gather(
    session: &mut Session,
    mut piece: &[u8],
    joined: &mut Vec<u8>,
    records: &mut Vec<u8>,
) -> Result<(), Failure> {
    if !joined.is_empty() {
        let (front, rest) = piece.split_at(piece.len().min(RECORD_BYTES - joined.len()));
        joined.extend_from_slice(front);
        piece = rest;
        if joined.len() < RECORD_BYTES {
            return Ok(());
        }
        session.seal(joined, records)?;
        joined.clear();
    }
    let (full, rest) = piece.split_at(piece.len() / RECORD_BYTES * RECORD_BYTES);
    if !full.is_empty() {
        session.seal(full, records)?;
    }
    joined.extend_from_slice(rest);
    Ok(())
}

/// Sets a flag and says whether it was set.
fn take_flag(flag: &mut bool) -> bool {
    std::mem::replace(flag, true)
}

impl<D: Driver> Driver for Secured<D> {
    delegate_driver!(inner);
    delegate! { inner: fn expect_output(&mut self, slot: Slot, expected: bool); }

    fn new(options: &Options) -> io::Result<Self> {
        D::new(options).map(|inner| Self::around(inner, Arc::default()))
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        if self.count == 0 {
            return self.inner.poll(timeout, events);
        }
        self.turn += 1;
        self.plain.clear();
        self.plain.shrink_to(SCRATCH_BYTES_MAX);
        self.joined.shrink_to(SCRATCH_BYTES_MAX);
        let hurry = self.tend();
        let mut inner_events = take(&mut self.inner_events);
        let timeout = if hurry { Some(Duration::ZERO) } else { timeout };
        self.inner.poll(timeout, &mut inner_events)?;
        events.clear();
        events.append(&mut self.reported);
        inner_events.drain(..).for_each(|event| self.translate(event, events));
        self.inner_events = inner_events;
        Ok(())
    }

    #[inline]
    fn data(&self, chunk: Chunk) -> &[u8] {
        match chunk.outer_start() {
            None => self.inner.data(chunk),
            Some(start) => self.plain.get(start..start + chunk.len()).unwrap_or_default(),
        }
    }

    #[inline]
    fn send(&mut self, slot: Slot, output: Output) {
        if self.count == 0 || self.link(slot).is_none() {
            return self.inner.send(slot, output);
        }
        let queues = &mut self.queues;
        let place = self.links.get_mut(slot.index()).and_then(Option::as_deref_mut);
        match place.filter(|link| link.closing == Closing::Open && !output.is_empty()) {
            Some(link) => {
                if link.outputs.capacity() == 0 {
                    link.outputs = queues.pop().unwrap_or_default();
                }
                link.unsealed_bytes += output.len();
                link.outputs.push_back(output);
                self.pend_slot(slot);
            }
            None => self.inner.recycle(output),
        }
    }

    fn unsent(&self, slot: Slot) -> usize {
        let unsealed =
            if self.count == 0 { 0 } else { self.link(slot).map_or(0, |link| link.unsealed_bytes) };
        unsealed + self.inner.unsent(slot)
    }

    fn read_into(&mut self, slot: Slot, mut buffer: Vec<u8>, count: usize) {
        match self.link_mut(slot) {
            None => self.inner.read_into(slot, buffer, count),
            Some(link) => {
                if link.fill.is_none() && link.closing == Closing::Open {
                    buffer.reserve_exact(count);
                    link.fill = Some(Fill { buffer, missing: count });
                    if count == 0 || !link.held.is_empty() {
                        self.pend_slot(slot);
                    }
                }
            }
        }
    }

    fn expect_input(&mut self, slot: Slot, bytes: usize) {
        if self.link_mut(slot).is_none() {
            self.inner.expect_input(slot, bytes);
        }
    }

    fn pause_reading(&mut self, slot: Slot) {
        if let Some(link) = self.link_mut(slot) {
            link.is_paused = true;
        }
        self.inner.pause_reading(slot);
    }

    fn resume_reading(&mut self, slot: Slot) {
        if let Some(link) = self.link_mut(slot) {
            link.is_paused = false;
            self.pend_slot(slot);
        }
        self.inner.resume_reading(slot);
    }

    fn close(&mut self, slot: Slot, how: Close) {
        let Some(link) = self.link_mut(slot) else {
            return self.inner.close(slot, how);
        };
        match how {
            Close::Now => {
                self.remove_link(slot);
                self.inner.close(slot, Close::Now);
            }
            Close::AfterFlush => {
                if link.closing == Closing::Open {
                    link.closing = Closing::Flush;
                    link.fill = None;
                    link.held = Vec::new();
                    self.pend_slot(slot);
                }
            }
        }
    }
}
