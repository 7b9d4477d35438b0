//! A lane: one connection that many callers share.
//!
//! ```text
//! caller ─ submit ─▶ Queue ─┬─ few requests in flight: the caller writes to the socket itself
//!                           └─ otherwise: one wake-up of the driver, which sends for all
//! driver ─ read ─▶ replies ─▶ Queue ─▶ wakes the callers ─ lets them run ─▶ one write for all
//! ```
//!
//! The driver is a task per connection. It alone reads: a caller that read for others and was then
//! The driver is a task per connection. It alone reads: a caller that read for other callers and
//! was then not polled (kept in a `select!`, say) would stop all of them. After a batch of replies
//! it goes to the back of its runtime's queue, so that the next commands of the woken callers join
//! one write; the size of batches follows the load, without a timer.

mod driver;
pub(crate) mod handshake;
mod queue;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::buffer::CommandBuffer;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::request::Command;
use crate::telemetry::Telemetry;
use crate::transport::{Connector, Direct};

pub(crate) use driver::PushSink;
pub(crate) use queue::{Failure, Outcome, Queue, Ticket};

/// With fewer requests in flight than this a caller writes by itself.
const DIRECT_WRITE_FLIGHTS: usize = 2;

/// A connection and its requests.
pub(crate) struct Lane {
    state: Mutex<State>,
    /// Notified when bytes in flight fall below the limit.
    space: Notify,
    bytes_max: usize,
    timeout: Option<Duration>,
    tick: Duration,
    telemetry: Telemetry,
}

struct State {
    queue: Queue,
    /// Bytes taken from the queue of which `unsent_at` are sent.
    unsent: Vec<u8>,
    unsent_at: usize,
    /// Whether a thread is writing, with `unsent` in its hands.
    writing: bool,
    /// The socket, while there is a connection that callers may write to.
    direct: Option<Direct>,
    /// Whether the driver is certain to look for output again without being woken.
    driver_awake: bool,
    driver: Option<Waker>,
    /// Whether the driver's clock is running.
    ticking: bool,
    /// Callers that wait for bytes in flight to become fewer.
    waiting_for_space: bool,
    connection: Connection,
    /// Whether all handles are gone.
    closing: bool,
}

/// State of the connection.
enum Connection {
    Up,
    /// Being made; why the last attempt failed.
    Down(Option<String>),
    /// Given up for good.
    Closed(Option<Error>),
}

/// Reasons why a lane did not take a request.
enum Refusal {
    Full,
    Failed(Error),
}

/// Whether a flush has written everything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flushed {
    All,
    /// Another thread is writing, and will write these bytes too.
    Busy,
    /// More has come meanwhile.
    More,
    Blocked,
}

impl Lane {
    /// Connects; returns once the server has accepted the client. `reconnect` says whether a lost
    /// connection is replaced.
    pub(crate) async fn connect(
        options: Arc<Options>,
        connector: Connector,
        reconnect: bool,
        pushes: Option<Arc<dyn PushSink>>,
    ) -> Result<Arc<Self>> {
        let tick = match options.timeout {
            Some(timeout) => {
                (timeout / 8).clamp(Duration::from_millis(1), Duration::from_millis(500))
            }
            None => Duration::from_secs(1),
        };
        let state = State {
            queue: Queue::new(),
            unsent: Vec::new(),
            unsent_at: 0,
            writing: false,
            direct: None,
            driver_awake: true,
            driver: None,
            ticking: true,
            waiting_for_space: false,
            connection: Connection::Down(None),
            closing: false,
        };
        let lane = Arc::new(Self {
            state: Mutex::new(state),
            space: Notify::new(),
            bytes_max: options.bytes_in_flight_max,
            timeout: options.timeout,
            tick,
            telemetry: Telemetry::of(&options),
        });
        let (ready, connected) = oneshot::channel();
        driver::spawn(lane.clone(), options, connector, reconnect, pushes, ready);
        match connected.await {
            Ok(result) => result.map(|()| lane),
            Err(_) => Err(Error::new(ErrorKind::Closed)),
        }
    }

    /// The error of a failure, or a permission to retry.
    fn explain(&self, failure: Failure, limit: Option<Duration>) -> Result<Lost> {
        let state = self.state.lock();
        let reason = match &state.connection {
            Connection::Down(reason) => Some(reason.clone().unwrap_or_else(|| "connecting".into())),
            _ => None,
        };
        match failure {
            Failure::TimedOut => Err(Error::new(ErrorKind::TimedOut {
                after: limit.or(self.timeout).unwrap_or_default(),
                unconnected: reason,
            })),
            Failure::Closed => Err(state.closed_error()),
            Failure::NotSent => {
                Ok(Lost { maybe_executed: false, reason: reason.unwrap_or_default() })
            }
            Failure::Lost => {
                let reason = reason.unwrap_or_else(|| "closed by the server".into());
                Ok(Lost { maybe_executed: true, reason })
            }
        }
    }

    /// A time in ticks of the lane's clock, rounded up.
    fn ticks(&self, time: Duration) -> u64 {
        time.div_duration_f64(self.tick) as u64 + 1
    }

    /// Sends a command; the lane's sink receives its replies.
    pub(crate) fn send(&self, command: &Command) -> Result<()> {
        let mut state = self.state.lock();
        if let Connection::Closed(_) = state.connection {
            return Err(state.closed_error());
        }
        state.queue.append_unanswered(&command.buffer);
        drop(state);
        self.wake_driver();
        Ok(())
    }

    /// Wakes the driver to send and to read.
    pub(crate) fn wake_driver(&self) {
        let driver = self.state.lock().driver.clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Lets the driver end. Requests in flight fail.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Telemetry of the lane's commands.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// The time that a command may take unless it says otherwise.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Takes a request, and sees to it that it is sent.
    fn submit(
        &self,
        commands: &[CommandBuffer],
        ticks: Option<u64>,
        waker: &Waker,
    ) -> std::result::Result<Ticket, Refusal> {
        let mut state = self.state.lock();
        if let Connection::Closed(_) = state.connection {
            return Err(Refusal::Failed(state.closed_error()));
        }
        if state.queue.held_bytes() >= self.bytes_max {
            state.waiting_for_space = true;
            return Err(Refusal::Full);
        }
        let is_alone = state.queue.in_flight() < DIRECT_WRITE_FLIGHTS && !state.queue.has_output();
        let ticket = state.queue.submit(commands.iter(), ticks);
        // The slot is new: this notes the waker and returns nothing.
        state.queue.poll(&ticket, waker);
        let wakes_clock = !state.ticking && ticks.is_some();
        state.ticking |= wakes_clock;
        if state.driver_awake || state.writing {
            return Ok(ticket);
        }
        if is_alone && !wakes_clock && state.unsent.is_empty() && state.direct.is_some() {
            self.write_directly(state);
            return Ok(ticket);
        }
        state.driver_awake = true;
        drop(state);
        self.wake_driver();
        Ok(ticket)
    }

    /// Writes the queued bytes as the caller of a command; leaves the rest to the driver.
    fn write_directly<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        for _ in 0..2 {
            let Some(direct) = state.direct.clone() else { break };
            let (guard, flushed) = self.write_once(state, |bytes| match direct.try_write(bytes) {
                // The driver will find out by itself.
                Err(_) => Poll::Pending,
                Ok(written) => Poll::Ready(written),
            });
            state = guard;
            match flushed {
                Flushed::All | Flushed::Busy => return,
                Flushed::More => {}
                Flushed::Blocked => break,
            }
        }
        if state.driver_awake {
            return;
        }
        state.driver_awake = true;
        drop(state);
        self.wake_driver();
    }

    /// Takes the output and writes it without holding the lock, as far as `write` gets.
    fn write_once<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        mut write: impl FnMut(&[u8]) -> Poll<usize>,
    ) -> (MutexGuard<'a, State>, Flushed) {
        if state.writing {
            return (state, Flushed::Busy);
        }
        let mut bytes = std::mem::take(&mut state.unsent);
        if bytes.is_empty() {
            state.queue.take_output(&mut bytes);
        }
        if bytes.is_empty() {
            state.unsent = bytes;
            return (state, Flushed::All);
        }
        let begin = std::mem::take(&mut state.unsent_at);
        let mut at = begin;
        state.writing = true;
        drop(state);
        let mut is_blocked = false;
        while at < bytes.len() && !is_blocked {
            match write(&bytes[at..]) {
                Poll::Ready(written) if written > 0 => at += written,
                _ => is_blocked = true,
            }
        }
        let mut state = self.state.lock();
        state.writing = false;
        state.queue.note_sent(at - begin);
        if at == bytes.len() {
            (at, is_blocked) = (0, false);
            bytes.clear();
        }
        (state.unsent, state.unsent_at) = (bytes, at);
        let flushed = match is_blocked {
            true => Flushed::Blocked,
            false if state.queue.has_output() => Flushed::More,
            false => Flushed::All,
        };
        (state, flushed)
    }

    /// Notes that requests have ended; lets callers that wait for space go on.
    fn release_space(&self, state: &mut State) {
        if state.waiting_for_space && state.queue.held_bytes() < self.bytes_max {
            state.waiting_for_space = false;
            self.space.notify_waiters();
        }
    }
}

impl State {
    fn closed_error(&self) -> Error {
        match &self.connection {
            Connection::Closed(Some(error)) => error.clone(),
            _ => Error::new(ErrorKind::Closed),
        }
    }
}

/// A connection was lost with a request; it may be tried again.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) maybe_executed: bool,
    pub(crate) reason: String,
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        let Lost { maybe_executed, reason } = lost;
        Self::new(ErrorKind::Disconnected { maybe_executed, reason })
    }
}

/// Waits until fewer bytes are in flight; false if that takes too long.
type WaitForSpace<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Commands that are answered together: submits them when first polled, then waits for the replies.
/// If it is dropped meanwhile they may be executed, and their replies are dropped.
pub(crate) struct Exchange<'a, S> {
    lane: &'a Lane,
    /// Kept for as long as they may have to be sent again.
    commands: Option<S>,
    limit: Option<Duration>,
    /// Number of retries after a lost connection.
    retries: u32,
    ticket: Option<Ticket>,
    space: Option<WaitForSpace<'a>>,
    give_up_at: Option<Instant>,
}

impl<'a, S> Exchange<'a, S> {
    pub(crate) fn new(lane: &'a Lane, commands: S, limit: Option<Duration>, retries: u32) -> Self {
        let commands = Some(commands);
        Self { lane, commands, limit, retries, ticket: None, space: None, give_up_at: None }
    }

    /// Waits for space; creates the wait if there is none, so that the next attempt to submit comes
    /// after it has begun. `None`: try to submit again.
    fn poll_space(&mut self, cx: &mut Context<'_>) -> Option<Poll<Result<Outcome>>> {
        if let Some(space) = &mut self.space {
            let Poll::Ready(is_there) = space.as_mut().poll(cx) else {
                return Some(Poll::Pending);
            };
            self.space = None;
            if !is_there {
                let error = self.lane.explain(Failure::TimedOut, self.limit).err();
                let error = error.unwrap_or_else(|| Error::new(ErrorKind::Closed));
                return Some(Poll::Ready(Err(error)));
            }
        }
        if self.give_up_at.is_none() {
            self.give_up_at = self.limit.map(|limit| Instant::now() + limit);
        }
        let (notified, give_up_at) = (self.lane.space.notified(), self.give_up_at);
        self.space = Some(Box::pin(async move {
            match give_up_at {
                Some(at) => tokio::time::timeout_at(at, notified).await.is_ok(),
                None => {
                    notified.await;
                    true
                }
            }
        }));
        None
    }
}

impl<S: AsRef<[CommandBuffer]> + Unpin> Future for Exchange<'_, S> {
    type Output = Result<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let Some(ticket) = &this.ticket else {
                let ticks = this.limit.map(|limit| this.lane.ticks(limit));
                let Some(commands) = &this.commands else {
                    return Poll::Ready(Err(Error::new(ErrorKind::Closed)));
                };
                match this.lane.submit(commands.as_ref(), ticks, cx.waker()) {
                    Ok(ticket) => {
                        (this.ticket, this.space) = (Some(ticket), None);
                        if this.retries == 0 {
                            this.commands = None;
                        }
                        return Poll::Pending;
                    }
                    Err(Refusal::Failed(error)) => return Poll::Ready(Err(error)),
                    Err(Refusal::Full) => {
                        if let Some(poll) = this.poll_space(cx) {
                            return poll;
                        }
                        continue;
                    }
                }
            };
            let Some(outcome) = this.lane.state.lock().queue.poll(ticket, cx.waker()) else {
                return Poll::Pending;
            };
            this.ticket = None;
            let Outcome::Failed(failure) = outcome else {
                return Poll::Ready(Ok(outcome));
            };
            match this.lane.explain(failure, this.limit) {
                Ok(_) if this.retries > 0 => this.retries -= 1,
                Ok(lost) => return Poll::Ready(Err(lost.into())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<S> Drop for Exchange<'_, S> {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            self.lane.state.lock().queue.abandon(ticket);
        }
    }
}
